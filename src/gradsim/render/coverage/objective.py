"""Least-squares sums over coverage images, without storing the images (`objective_kernels.py`).

At 64² the dense images of 16 starts, 45 frames and 5 unknowns take 141 MB per Jacobian; memory traffic would cost ten times
as much as drawing.
"""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, members, specialize
from gradsim.engine.launch import array, replay, worthwhile_threads
from gradsim.numerics.robust import GAUSSIAN, RobustLoss
from gradsim.render.coverage.coverage import coverage_code, outline_scratch
from gradsim.render.coverage.edges import mesh_of

if TYPE_CHECKING:
    from gradsim.render.coverage import objective_kernels
else:
    objective_kernels = "gradsim.render.coverage.objective_kernels"

SHARED_NAMES = ("Point", "as_coverage", "draw", "draw_outline", "Outline", "touched")
IMAGES = ("image", "weight", "outside", "inside", "above", "below")


@dataclass(frozen=True)
class Target:
    """Target images with the sums that the kernels need; see `target`."""

    image: Tensor
    weight: Tensor
    outside: Tensor
    inside: Tensor
    above: Tensor
    below: Tensor
    loss: RobustLoss


def target(image: Tensor, weight: Tensor, loss: RobustLoss = GAUSSIAN) -> Target:
    """Prepare images (frames, height, width), the weight of each squared difference, and ρ, for `objective`."""
    image, weight = image.double(), weight.double()
    pad, root = torch.nn.functional.pad, weight.sqrt()
    before = lambda y: pad(y.cumsum(-1), (1, 0))
    outside, inside = (before(loss.rho(root * off)) for off in (image, 1 - image))
    rows = outside[..., -1]
    return Target(image, weight, outside, inside, before(rows), before(rows.flip(-1)).flip(-1), loss)


def objective(
    screen: Tensor, tangent: Tensor, faces: Tensor, observed: Target, convex: bool = False, images: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """ρ of the difference from a target, its gradient and Gauss–Newton matrix, summed over frames.

    Args:
        screen: (worlds, frames · images, n, 2) [px].
        tangent: (worlds, unknowns, frames · images, n, 2) [px per unit]; no unknowns for the cost alone.
        faces: (m, 3) of closed meshes: of one body, or of several one after another.
        observed: Target images of as many frames or more.
        convex: True for one convex body.
        images: Consecutive images whose mean is compared with each target.

    Returns:
        Σ ρ(√w (α − T)) (worlds,), ½ of its gradient (worlds, unknowns), and Jᵀ W J (worlds, unknowns, unknowns), with
        the W of iteratively reweighted least squares: w ρ'(x)/(2 x) (`gradsim.numerics.robust`, without its λ).
    """
    if screen.dtype != torch.float64:  # so are occlusion between edges and differences of running sums
        wide = objective(screen.double(), tangent.double(), faces, observed, convex, images)
        return tuple(y.to(screen.dtype) for y in wide)  # pyright: ignore[reportReturnType] -- three
    code, worlds, frames = _code(screen.dtype), len(screen), screen.shape[1] // images
    unknowns, bodies = tangent.shape[1], worlds * frames
    cost = screen.new_zeros(bodies)
    gradient, normal = screen.new_zeros(bodies, unknowns), screen.new_zeros(bodies, unknowns, unknowns)
    kernel = code.objective_of_mean if images > 1 else code.objective
    arguments, scratch, workers = _arguments(code, kernel, screen, tangent, faces, convex, *observed.image.shape[1:])
    targets = [array(code.Scalar, getattr(observed, name)[:frames].to(screen)) for name in IMAGES]
    loss = [observed.loss.kind, code.Scalar(observed.loss.bend)]
    out = [array(code.Scalar, x) for x in (cost, gradient, normal)]
    if images > 1:
        size = (workers, *observed.image.shape[1:])
        scratch += [array(code.Scalar, screen.new_zeros(*size, *tail)) for tail in ((), (unknowns,))]
    replay(kernel, workers, [*arguments, *targets, *loss, workers, *scratch, *out], str(screen.device))
    cost, gradient, lower = (x.unflatten(0, (worlds, frames)).sum(1) for x in (cost, gradient, normal))
    return cost, gradient, lower + lower.tril(-1).mT


def profiles(
    screen: Tensor, tangent: Tensor, faces: Tensor, weight: Tensor, convex: bool = False
) -> tuple[Tensor, Tensor]:
    """Sums of coverage along rows and columns (worlds, frames, height + width), and their derivatives.

    Args:
        screen: As for `objective`.
        tangent: As for `objective`.
        faces: As for `objective`.
        weight: (frames, height, width), of each pixel.
        convex: As for `objective`.

    Returns:
        Sums, and derivatives (worlds, frames, height + width, unknowns).
    """
    if not convex and screen.dtype != torch.float64:
        wide = profiles(screen.double(), tangent.double(), faces, weight, convex)
        return tuple(y.to(screen.dtype) for y in wide)  # pyright: ignore[reportReturnType] -- two
    code, worlds, frames = _code(screen.dtype), *screen.shape[:2]
    unknowns, bodies, size = tangent.shape[1], screen.shape[0] * screen.shape[1], sum(weight.shape[1:])
    sums, slopes = screen.new_zeros(bodies, size), screen.new_zeros(bodies, size, unknowns)
    weight = weight.to(screen)
    arguments, scratch, workers = _arguments(code, code.profiles, screen, tangent, faces, convex, *weight.shape[1:])
    out = [array(code.Scalar, x) for x in (sums, slopes)]
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
        array(code.Scalar, screen.new_zeros(workers, height, width)),
        array(code.Scalar, screen.new_zeros(workers, height, width, unknowns)),
    ]
    return arguments, scratch, workers


@cache
def _code(dtype: torch.dtype):
    return specialize(objective_kernels, lane_of(dtype), **members(coverage_code(dtype), *SHARED_NAMES))
