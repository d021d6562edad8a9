"""Sums over coverage images, without storing the images (`misfit_kernels.py`, `objective_kernels.py`, `profile_kernels.py`).

At 64² the dense images of 16 starts, 45 frames and 5 unknowns take 141 MB per Jacobian; memory traffic would cost ten times
as much as drawing.
"""

from functools import cache
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, members, specialize
from gradsim.engine.launch import array, replay, worthwhile_threads
from gradsim.render.coverage.coverage import coverage_code, outline_scratch
from gradsim.render.coverage.edges import mesh_of
from gradsim.render.coverage.misfit import misfit, zero_pages
from gradsim.render.coverage.targets import Target, goal_code, goal_of

if TYPE_CHECKING:
    from gradsim.render.coverage import objective_kernels, profile_kernels
else:
    objective_kernels = "gradsim.render.coverage.objective_kernels"
    profile_kernels = "gradsim.render.coverage.profile_kernels"

DRAWING = ("Point", "draw", "Outline")
SUMMING = ("Point", "as_coverage", "bounds", "draw_outline", "sum_rows", "Outline", "touched")
GOALS = ("Goal", "influence", "other_rows", "rho", "run", "target_of")


def objective(
    screen: Tensor, tangent: Tensor, faces: Tensor, observed: Target, convex: bool = False, images: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """ρ of the difference from a target, its gradient and Gauss–Newton matrix, summed over frames.

    Args:
        screen: (worlds, frames · images, n, 2) [px].
        tangent: (worlds, unknowns, frames · images, n, 2) [px per unit]; no unknowns for the cost alone.
        faces: (m, 3) of closed meshes: of one body, or of several one after another.
        observed: Targets of as many frames or more.
        convex: True for one convex body.
        images: Consecutive images whose mean is compared with each target.

    Returns:
        Σ ρ(√w (α − T)) (worlds,), ½ of its gradient (worlds, unknowns), and Jᵀ W J (worlds, unknowns, unknowns), with
        the W of iteratively reweighted least squares: w ρ'(x)/(2 x) (`gradsim.numerics.robust`, without its λ).
    """
    if screen.dtype != torch.float64:  # so are occlusion between edges and differences of running sums
        wide = objective(screen.double(), tangent.double(), faces, observed, convex, images)
        return tuple(y.to(screen.dtype) for y in wide)  # pyright: ignore[reportReturnType] -- three
    worlds, frames = len(screen), screen.shape[1] // images
    compare = misfit if images == 1 else _misfit_of_mean
    sums = compare(screen, tangent, faces, observed, convex, frames)
    cost, gradient, lower = (x.unflatten(0, (worlds, frames)).sum(1) for x in sums)
    return cost, gradient, lower + lower.tril(-1).mT


def _misfit_of_mean(
    screen: Tensor, tangent: Tensor, faces: Tensor, observed: Target, convex: bool, frames: int
) -> list[Tensor]:
    """`misfit` of the means of consecutive pictures."""
    code, unknowns, bodies = _mean_code(screen.dtype), tangent.shape[1], len(screen) * frames
    kernel = code.objective_of_mean
    arguments, scratch, workers = _arguments(code, kernel, screen, tangent, faces, convex, *observed.size)
    size = (workers, *observed.size)
    scratch += [array(code.Scalar, zero_pages(screen, *size, *tail)) for tail in ((), (unknowns,))]
    out = [screen.new_zeros(bodies, *tail) for tail in ((), (unknowns,), (unknowns, unknowns))]
    args = [*arguments, goal_of(observed, screen), frames, workers, *scratch, *(array(code.Scalar, x) for x in out)]
    replay(kernel, workers, args, str(screen.device))
    return out


def profiles(
    screen: Tensor,
    tangent: Tensor,
    faces: Tensor,
    weight: Tensor,
    convex: bool = False,
    size: tuple[int, int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Sums of coverage along rows and columns (worlds, frames, height + width), and their derivatives.

    Args:
        screen: As for `objective`.
        tangent: As for `objective`.
        faces: As for `objective`.
        weight: (frames, height, width), of each pixel; (frames, 1, 1) if alike in all pixels of a frame.
        convex: As for `objective`.
        size: Height and width, where `weight` does not have them.

    Returns:
        Sums, and derivatives (worlds, frames, height + width, unknowns).
    """
    if not convex and screen.dtype != torch.float64:
        wide = profiles(screen.double(), tangent.double(), faces, weight, convex, size)
        return tuple(y.to(screen.dtype) for y in wide)  # pyright: ignore[reportReturnType] -- two
    code, worlds, frames = _profile_code(screen.dtype), *screen.shape[:2]
    unknowns, bodies = tangent.shape[1], screen.shape[0] * screen.shape[1]
    height, width = size or weight.shape[1:]
    sums = screen.new_zeros(bodies, height + width)
    slopes = screen.new_zeros(*sums.shape, unknowns)
    weight = weight.to(screen)
    arguments, scratch, workers = _arguments(code, code.profiles, screen, tangent, faces, convex, height, width)
    out = [array(code.Scalar, x) for x in (sums, slopes)]
    scratch.append(array(code.Scalar, screen.new_zeros(workers, width + 1)))
    args = [*arguments, array(code.Scalar, weight), workers, *scratch, *out]
    replay(code.profiles, workers, args, str(screen.device))
    return sums.unflatten(0, (worlds, frames)), slopes.unflatten(0, (worlds, frames))


def _arguments(code, kernel, screen: Tensor, tangent: Tensor, faces: Tensor, convex: bool, height: int, width: int):
    """Common arguments of the kernels, scratch, and the number of workers: on a CPU, that of threads."""
    worlds, frames = screen.shape[:2]
    unknowns, bodies = tangent.shape[1], worlds * frames
    on_cpu = screen.device.type == "cpu"
    workers = worthwhile_threads(kernel, bodies, str(screen.device)) if on_cpu else min(bodies, 1024)
    arguments = [
        array(code.Point, screen.detach().flatten(0, 1)),
        array(code.Point, tangent.detach().to(screen.dtype)),
        *mesh_of(faces),
        convex,
    ]
    front = torch.empty(bodies, len(faces), dtype=torch.bool, device=screen.device)
    scratch = [
        array(wp.bool, front),
        outline_scratch(screen, faces, workers, convex, height),
        array(code.Scalar, zero_pages(screen, workers, height, width)),
        array(code.Scalar, zero_pages(screen, workers, height, width, unknowns)),
    ]
    return arguments, scratch, workers


@cache
def _mean_code(dtype: torch.dtype):
    bound = members(coverage_code(dtype), *DRAWING) | members(goal_code(dtype), *GOALS)
    return specialize(objective_kernels, lane_of(dtype), **bound)


@cache
def _profile_code(dtype: torch.dtype):
    """A module of its own: fits to single images need no means, and code for these takes longer to compile."""
    return specialize(profile_kernels, lane_of(dtype), **members(coverage_code(dtype), *SUMMING))
