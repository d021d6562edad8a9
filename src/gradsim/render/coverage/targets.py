"""Targets that coverage is compared with, with the sums that kernels need (`goal_kernels.py`)."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, specialize
from gradsim.engine.launch import field, struct_of
from gradsim.numerics.robust import GAUSSIAN, RobustLoss
from gradsim.render.windows import Windows

if TYPE_CHECKING:
    from gradsim.render.coverage import goal_kernels
else:
    goal_kernels = "gradsim.render.coverage.goal_kernels"

IMAGES = ("image", "weight", "outside", "above", "below")
BLOCK = 4  # columns of sums, as in `goal_kernels.py`

_goals: WeakKeyDictionary["Target", dict[torch.device, Any]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Target:
    """Target images with the sums that the kernels need; see `target`."""

    image: Tensor
    weight: Tensor
    outside: Tensor
    blocks: Tensor
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
    outside: Tensor | None = None,
) -> Target:
    """Prepare targets for `objective`.

    Args:
        image: (frames, height, width).
        weight: Of each squared difference; (frames, 1, 1) if alike in all pixels of a frame.
        loss: ρ.
        windows: Where targets are windows of images. Outside of them targets are 0.
        outside: Weight there (frames); None: that of the window, which is alike in all of its pixels.
    """
    image, weight = image.double(), weight.double()
    frames, rows, columns = image.shape
    if (weight == weight[:, :1, :1]).all():
        weight = weight[:, :1, :1]
    outside = weight[:, 0, 0].contiguous() if outside is None else outside.double()
    pad = torch.nn.functional.pad
    count = -(-columns // BLOCK)
    blocks = image.new_zeros(frames, rows, count + 1, 2)
    for k, (frame, root) in enumerate(zip(image, weight.sqrt(), strict=True)):  # a frame at a time fits into the cache
        for side, off in enumerate((frame, 1 - frame)):
            sums = pad(loss.rho(root * off), (0, count * BLOCK - columns)).unflatten(-1, (count, BLOCK)).sum(-1)
            torch.cumsum(sums, -1, out=blocks[k, :, 1:, side])
    before = lambda y: pad(y.cumsum(-1), (1, 0))
    of_rows = blocks[..., -1, 0]
    sums = blocks, before(of_rows), before(of_rows.flip(-1)).flip(-1)
    height, width = windows.size if windows else image.shape[1:]
    corner = windows.corner.int() if windows else torch.zeros(len(image), 2, dtype=torch.int32)
    return Target(image, weight, outside, *sums, corner, (height, width), loss)


def goal_of(observed: Target, screen: Tensor):
    """Targets as the kernels read them, made once for each device."""
    known, device = _goals.setdefault(observed, {}), screen.device
    if device not in known:
        code = goal_code(torch.float64)
        fields = {name: field(code.Scalar, getattr(observed, name).to(screen)) for name in IMAGES}
        fields["blocks"] = field(code.Pair, observed.blocks.to(screen))
        fields["corner"] = field(wp.vec2i, observed.corner.to(device))
        known[device] = struct_of(code.Goal, fields | {"kind": observed.loss.kind, "bend": observed.loss.bend})
    return known[device]


@cache
def goal_code(dtype: torch.dtype):
    """`goal_kernels.py`."""
    return specialize(goal_kernels, lane_of(dtype))
