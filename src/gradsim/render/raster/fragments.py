"""Fragments: pixels with their visible triangle and the differentiable position on it.

The choice of the triangle has no derivative; the position on it has (`fragment_kernels.py`). Shading works on the list of
fragments alone.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.kernel_program import KernelProgram
from gradsim.engine.lanes import lane_of, specialize
from gradsim.engine.launch import array, arrays, replay
from gradsim.engine.operation import operation
from gradsim.render.raster.interpolate import interpolate
from gradsim.render.view import View

if TYPE_CHECKING:
    from gradsim.render.raster import fragment_kernels
else:
    fragment_kernels = "gradsim.render.raster.fragment_kernels"

INSIDE = 3  # `side` of a fragment whose centre is covered by its triangle


@dataclass(frozen=True, eq=False)
class Fragments:
    """List of fragments of all images.

    Args:
        view: The rasterized triangles.
        owner: Image, face, column and row of each fragment (P, 4), int32.
        side: `INSIDE`, or the edge of its triangle if the pixel centre is outside of it (P,), int32.
        rows: Number of the fragment at each pixel (images, height, width), int32; -1: none.
        place: Barycentrics b_0, b_1, b_2 on the triangle in space, and depth z [m], (P, 4); differentiable by
            `view.clip`.
    """

    view: View
    owner: Tensor
    side: Tensor
    rows: Tensor
    place: Tensor

    @classmethod
    def of(cls, view: View, key: Tensor) -> "Fragments":
        """Unpack the table of a rasterizer (images, height, width), int64 (`zbuffer_kernels.py`)."""
        code = _code(view.clip.dtype)
        images, height, width = key.shape
        last = (key > 0).sum(-1, dtype=torch.int32).view(-1).cumsum(0, dtype=torch.int32)
        count = int(last[-1]) if len(last) else 0
        first = torch.nn.functional.pad(last[:-1], (1, 0))
        owner = torch.empty(count, 4, dtype=torch.int32, device=key.device)
        side = torch.empty(count, dtype=torch.int32, device=key.device)
        rows = torch.empty(key.shape, dtype=torch.int32, device=key.device)
        arguments = [array(wp.int64, key.view(-1, width)), height, array(wp.int32, first)]
        out = [array(wp.vec4i, owner), array(wp.int32, side), array(wp.int32, rows.view(-1, width))]
        replay(code.unpack, images * height, [*arguments, *out], str(key.device))
        return cls(view, owner, side, rows, _locate(view.clip, view.faces, owner, side)[0])

    @property
    def image(self) -> Tensor:
        """Image of each fragment (P,), int64."""
        return self.owner[:, 0].long()

    @property
    def face(self) -> Tensor:
        """Triangle of each fragment (P,), int64."""
        return self.owner[:, 1].long()

    @cached_property
    def part(self) -> Tensor:
        """Part of each fragment (P,)."""
        return self.view.part_of[self.face]

    @cached_property
    def is_front(self) -> Tensor:
        """True where the outer side of the triangle is visible (P,)."""
        return self.view.is_front[self.image, self.face]

    def take(self, index: Tensor) -> "Fragments":
        """Select fragments by number. `rows` is kept, so the result is not for compositing."""
        return Fragments(self.view, self.owner[index], self.side[index], self.rows, self.place[index])

    def interpolate(self, values: Tensor, table: Tensor | None = None) -> Tensor:
        """Interpolate vertex values at the fragments (P, channels), perspective-correct and differentiable.

        Args:
            values: (images, n, channels), or (1, n, channels) for all images.
            table: Entries of `values` at the corners of each face (m, 3). Default: its vertices.
        """
        table = self.view.faces if table is None else table.to(self.owner.device, torch.int32)
        return interpolate(self.place, values.to(self.place), table, self.owner)

    def onto(self, values: Tensor, elsewhere: float) -> Tensor:
        """Scatter values (P, channels) to images (images, height, width, channels), `elsewhere` without a fragment."""
        image, column, row = self.owner[:, 0].long(), self.owner[:, 2], self.owner[:, 3]
        index = (image * self.view.height + row) * self.view.width + column
        whole = values.new_full((self.rows.numel(), values.shape[1]), elsewhere)
        return whole.index_copy(0, index, values).view(*self.rows.shape, values.shape[1])


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    return specialize(fragment_kernels, lane_of(dtype))


_locate = operation(
    KernelProgram(
        "locate",
        code=_code,
        arguments=lambda code, inputs: arrays((code.Corner, wp.vec3i, wp.vec4i, wp.int32), inputs),
        threads=lambda inputs: len(inputs[2]),
        output=lambda inputs: inputs[0].new_empty(len(inputs[2]), 4),
        gradients=lambda inputs, _: [torch.zeros_like(inputs[0])],
        elements=("Place", "Corner"),
    )
)
