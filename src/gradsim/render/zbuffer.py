"""What lies nearest behind every pixel centre, with derivatives of where it lies.

Which triangle is seen is decided once and has no derivative; where on it the pixel falls has
(`zbuffer_kernels.py`). Shading then works on the list of covered pixels alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, specialise
from gradsim.engine.launch import array, replay
from gradsim.engine.operation import operation
from gradsim.render.view import View

CULL = {"none": 0, "back": 1, "front": 2}  # faces that are left out, by the side they show


@dataclass(frozen=True, eq=False)
class Fragments:
    """Pixels and what they show.

    Args:
        view: What was rasterised.
        index: Place of each fragment among all pixels, (image · height + row) · width + column, (P,).
        face: Its triangle (P,), int32.
        place: Barycentrics b_0, b_1, b_2 on the triangle in space, and depth z [m], (P, 4); differentiable by
            `view.clip`.
    """

    view: View
    index: Tensor
    face: Tensor
    place: Tensor

    @cached_property
    def image(self) -> Tensor:
        """Image of each fragment (P,), int32."""
        return (self.index // (self.view.height * self.view.width)).int()

    @cached_property
    def part(self) -> Tensor:
        """Part of each fragment (P,)."""
        return self.view.part_of[self.face.long()]

    @cached_property
    def is_front(self) -> Tensor:
        """Whether a fragment shows the outer side of its triangle (P,)."""
        return self.view.is_front[self.image.long(), self.face.long()]

    def take(self, rows: Tensor) -> "Fragments":
        """Some of the fragments, by number."""
        return Fragments(self.view, self.index[rows], self.face[rows], self.place[rows])

    def interpolate(self, values: Tensor, table: Tensor | None = None) -> Tensor:
        """Values of vertices at the fragments (P, channels), perspective-correct and differentiable.

        Args:
            values: (images, n, channels), or (1, n, channels) for all images.
            table: Which entries of `values` the corners of each face have (m, 3); by default its vertices.
        """
        table = self.view.faces if table is None else table.to(self.face.device, torch.int32)
        return _blend(self.place, values.to(self.place), table, self.image, self.face)[0]

    def onto(self, values: Tensor, background: Tensor) -> Tensor:
        """An image (images, height, width, channels) of values (P, channels) before a background.

        Args:
            values: Of the fragments.
            background: (channels,), or (height, width, channels) or (images, height, width, channels).
        """
        size = (self.view.clip.shape[0], self.view.height, self.view.width)
        whole = background.to(values).expand(*size, values.shape[1]).reshape(-1, values.shape[1])
        return whole.index_copy(0, self.index, values).view(*size, values.shape[1])


def rasterise(view: View, cull: str = "none") -> Fragments:
    """The nearest triangle at every pixel centre.

    Triangles may reach through the near plane and behind the camera. Depths are compared in single precision; of two
    triangles equally near, the first in the table of faces is seen.

    Args:
        view: See `View`.
        cull: Faces to leave out: "none", "back" or "front".

    Raises:
        ValueError: If `cull` is none of these.
    """
    if cull not in CULL:
        raise ValueError(f"cull is {cull!r}; use one of {', '.join(CULL)}.")
    clip, faces = view.clip.detach(), view.faces
    code = _code(clip.dtype)
    key = torch.zeros(len(clip), view.height, view.width, dtype=torch.int64, device=clip.device)
    if len(faces):
        args = [array(code.Corner, clip), array(wp.vec3i, faces), view.near, CULL[cull], array(wp.int64, key)]
        replay(code.nearest, len(clip) * len(faces), args, str(clip.device))
    index = key.view(-1).nonzero()[:, 0]
    face = (0x7FFFFFFF - (key.view(-1)[index] & 0x7FFFFFFF)).int()
    row, image = index // view.width, (index // (view.width * view.height)).int()
    centre = torch.stack([index - row * view.width, row % view.height], -1).int()
    return Fragments(view, index, face, _locate(view.clip, faces, image, face, centre)[0])


class _Locate:
    """A program from homogeneous pixels, faces and the image, face and pixel of fragments to their places."""

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [(len(inputs[3]), 4)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        clip, _, _, face, _ = inputs
        code = _code(clip.dtype)
        place = clip.new_empty(len(face), 4)
        replay(code.locate, len(face), [*self._given(code, inputs), array(code.Place, place)], str(clip.device))
        return [place]

    def backward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]) -> list[Tensor]:
        clip = inputs[0]
        code = _code(clip.dtype)
        adjoint = torch.zeros_like(clip)
        args = [*self._given(code, inputs), array(code.Place, adjoints[0]), array(code.Corner, adjoint)]
        replay(code.locate_adjoint, len(inputs[3]), args, str(clip.device))
        return [adjoint, *(torch.zeros_like(x) for x in inputs[1:])]

    def _given(self, code: ModuleType, inputs: Sequence[Tensor]) -> list[wp.array]:
        types = (code.Corner, wp.vec3i, wp.int32, wp.int32, wp.vec2i)
        return [array(dtype, x) for dtype, x in zip(types, inputs, strict=True)]


class _Blend:
    """A program from places, values, their table, and the image and face of fragments to values at the fragments."""

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [(len(inputs[0]), inputs[1].shape[-1])]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        place, values = inputs[:2]
        code = _code(place.dtype)
        mixed = place.new_empty(len(place), values.shape[-1])
        replay(code.blend, len(place), [*self._given(code, inputs), array(code.Scalar, mixed)], str(place.device))
        return [mixed]

    def backward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]) -> list[Tensor]:
        place, values = inputs[:2]
        code = _code(place.dtype)
        by_place, by_values = torch.empty_like(place), torch.zeros_like(values)
        results = [array(code.Scalar, adjoints[0]), array(code.Place, by_place), array(code.Scalar, by_values)]
        replay(code.blend_adjoint, len(place), [*self._given(code, inputs), *results], str(place.device))
        return [by_place, by_values, *(torch.zeros_like(x) for x in inputs[2:])]

    def _given(self, code: ModuleType, inputs: Sequence[Tensor]) -> list[wp.array]:
        types = (code.Place, code.Scalar, wp.vec3i, wp.int32, wp.int32)
        return [array(dtype, x) for dtype, x in zip(types, inputs, strict=True)]


_locate, _blend = operation(_Locate()), operation(_Blend())


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    return specialise("gradsim.render.zbuffer_kernels", lane_of(dtype))
