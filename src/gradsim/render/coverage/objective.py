"""Least-squares sums over coverage images, without storing the images (`objective_kernels.py`).

At 64² the dense images of 16 starts, 45 frames and 5 unknowns take 141 MB per Jacobian; memory traffic would cost ten times
as much as drawing.
"""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, members, specialize
from gradsim.engine.launch import array, field, replay, struct_of, worthwhile_threads
from gradsim.numerics.robust import GAUSSIAN, RobustLoss
from gradsim.render.coverage.coverage import coverage_code, outline_scratch
from gradsim.render.coverage.edges import mesh_of
from gradsim.render.windows import Windows

if TYPE_CHECKING:
    from gradsim.render.coverage import objective_kernels
else:
    objective_kernels = "gradsim.render.coverage.objective_kernels"

SHARED_NAMES = ("Point", "as_coverage", "draw", "draw_outline", "Outline", "touched")
IMAGES = ("image", "weight", "outside", "inside", "above", "below")

_goals: WeakKeyDictionary["Target", dict[torch.device, Any]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Target:
    """Target images with the sums that the kernels need; see `target`."""

    image: Tensor
    weight: Tensor
    outside: Tensor
    inside: Tensor
    above: Tensor
    below: Tensor
    corner: Tensor
    size: tuple[int, int]
    loss: RobustLoss


def target(
    image: Tensor,
    weight: Tensor,
    loss: RobustLoss = GAUSSIAN,
    windows: Windows | None = None,
) -> Target:
    """Prepare targets for `objective`.

    Args:
        image: (frames, height, width).
        weight: Of each squared difference; (frames, 1, 1) if alike in all pixels of a frame.
        loss: ρ.
        windows: Where targets are windows of images. Outside of them targets are 0, with the weight of their frame.
    """
    image, weight = image.double(), weight.double()
    pad = torch.nn.functional.pad
    outside, inside = (image.new_zeros(*image.shape[:2], image.shape[2] + 1) for _ in range(2))
    for k, (frame, root) in enumerate(zip(image, weight.sqrt(), strict=True)):  # a frame at a time fits into the cache
        torch.cumsum(loss.rho(root * frame), -1, out=outside[k, :, 1:])
        torch.cumsum(loss.rho(root * (1 - frame)), -1, out=inside[k, :, 1:])
    before = lambda y: pad(y.cumsum(-1), (1, 0))
    rows = outside[..., -1]
    height, width = windows.size if windows else image.shape[1:]
    corner = windows.corner.int() if windows else torch.zeros(len(image), 2, dtype=torch.int32)
    sums = outside, inside, before(rows), before(rows.flip(-1)).flip(-1)
    return Target(image, weight, *sums, corner, (height, width), loss)


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
    code, worlds, frames = _code(screen.dtype), len(screen), screen.shape[1] // images
    unknowns, bodies = tangent.shape[1], worlds * frames
    cost = screen.new_zeros(bodies)
    gradient, normal = screen.new_zeros(bodies, unknowns), screen.new_zeros(bodies, unknowns, unknowns)
    kernel = code.objective_of_mean if images > 1 else code.objective
    arguments, scratch, workers = _arguments(code, kernel, screen, tangent, faces, convex, *observed.size)
    out = [array(code.Scalar, x) for x in (cost, gradient, normal)]
    if images > 1:
        size = (workers, *observed.size)
        scratch += [array(code.Scalar, _canvas(screen, *size, *tail)) for tail in ((), (unknowns,))]
    replay(kernel, workers, [*arguments, _goal(observed, screen), frames, workers, *scratch, *out], str(screen.device))
    cost, gradient, lower = (x.unflatten(0, (worlds, frames)).sum(1) for x in (cost, gradient, normal))
    return cost, gradient, lower + lower.tril(-1).mT


def _goal(observed: Target, screen: Tensor):
    """Targets as the kernels read them, made once for each device."""
    known, device = _goals.setdefault(observed, {}), screen.device
    if device not in known:
        code = _code(torch.float64)
        fields = {name: field(code.Scalar, getattr(observed, name).to(screen)) for name in IMAGES}
        fields["corner"] = field(wp.vec2i, observed.corner.to(device))
        known[device] = struct_of(code.Goal, fields | {"kind": observed.loss.kind, "bend": observed.loss.bend})
    return known[device]


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
    code, worlds, frames = _code(screen.dtype), *screen.shape[:2]
    unknowns, bodies = tangent.shape[1], screen.shape[0] * screen.shape[1]
    height, width = size or weight.shape[1:]
    sums = screen.new_zeros(bodies, height + width)
    slopes = screen.new_zeros(*sums.shape, unknowns)
    weight = weight.to(screen)
    arguments, scratch, workers = _arguments(code, code.profiles, screen, tangent, faces, convex, height, width)
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
        array(code.Scalar, _canvas(screen, workers, height, width)),
        array(code.Scalar, _canvas(screen, workers, height, width, unknowns)),
    ]
    return arguments, scratch, workers


def _canvas(like: Tensor, *shape: int) -> Tensor:
    """Zeros with the dtype and device of a tensor; on a CPU of pages that cost nothing until they are drawn on."""
    if like.device.type == "cpu" and like.dtype == torch.float64:
        return torch.from_numpy(np.zeros(shape))
    return like.new_zeros(*shape)


@cache
def _code(dtype: torch.dtype):
    return specialize(objective_kernels, lane_of(dtype), **members(coverage_code(dtype), *SHARED_NAMES))
