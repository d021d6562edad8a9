"""The colours of what a camera sees: looks and lights, at fragments or at the corners of triangles."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from gradsim.geometry.surface import Part, Pattern
from gradsim.render.raster.fragments import Fragments
from gradsim.render.shading.lights import unit
from gradsim.render.shading.shading import Shading, material_of
from gradsim.render.shading.texture import sample, sheet
from gradsim.render.view import View


@dataclass(frozen=True, eq=False)
class Corners:
    """Colours by corner of each triangle: texture(uv) · gain + gloss.

    Args:
        gain: RGB (images or 1, k, 3).
        gloss: RGB (images or 1, k, 3).
        table: Entries of gain and gloss at the corners of each face (m, 3).
        uv: Coordinates on the texture (j, 2).
        uv_table: Entries of `uv` at the corners of each face (m, 3).
        texture: One sheet with all textures (3, h, w), or None: then colours are gain + gloss.
    """

    gain: Tensor
    gloss: Tensor
    table: Tensor
    uv: Tensor | None = None
    uv_table: Tensor | None = None
    texture: Tensor | None = None


class Painter(Protocol):
    """What rasterisers ask for colours, of any number of channels."""

    @property
    def flat(self) -> Tensor | None:
        """Faces (m,) whose shade jumps at their edges; None if no face's does."""
        ...

    @property
    def corners(self) -> Corners:
        """Colours at the corners of all faces, with channels in place of RGB."""
        ...

    def at(self, fragments: Fragments) -> Tensor:
        """Colours of fragments (P, channels)."""
        ...


@dataclass(frozen=True, eq=False)
class SurfaceColor:
    """Looks and lights in a view.

    Args:
        view: The view.
        shading: The law of shading and the lights.
        normals: Of the vertices (images, n, 3), of any length, for the parts that are smooth; by default the mean of
            those of the faces around, by area.
    """

    view: View
    shading: Shading
    normals: Tensor | None = None

    def at(self, fragments: Fragments) -> Tensor:
        """Colours of fragments, RGB (P, 3)."""
        albedo = self._textured(fragments, self._plain(fragments))
        if self.shading.law == "colour":
            return albedo
        points = fragments.interpolate(self.view.points)
        eye = self.view.eye if len(self.view.eye) == 1 else self.view.eye[fragments.image]
        gain, gloss = self.shading.light(
            points, self.normals_at(fragments), eye, self._materials[fragments.part], fragments.image
        )
        return albedo * gain + gloss

    @property
    def flat(self) -> Tensor | None:
        """Faces (m,) whose shade jumps at their edges; None if no face's does."""
        if self.shading.law == "colour" or all(p.look.smooth for p in self.view.parts):
            return None
        smooth = torch.tensor([p.look.smooth for p in self.view.parts], device=self.view.faces.device)
        return ~smooth[self.view.part_of]

    def normals_at(self, fragments: Fragments) -> Tensor:
        """Unit normals (P, 3) at fragments, on the side that is seen."""
        normals = unit(fragments.interpolate(self._normals, self._normal_table))
        return torch.where(fragments.is_front[:, None], normals, -normals)

    @property
    def corners(self) -> Corners:
        """Colours at the corners of all faces; lights are worked out there, and interpolated (Gouraud 1971)."""
        view, faces = self.view, self.view.faces.long()
        m, textured = len(faces), [self._pattern(p) is not None for p in view.parts]
        table = torch.arange(3 * m, device=faces.device).view(m, 3)
        albedo = self._colours[0][faces].reshape(1, 3 * m, 3)
        shown = view.part_of.repeat_interleave(3)
        if any(textured):
            albedo = torch.where(torch.tensor(textured, device=faces.device)[shown][:, None], 1.0, albedo)
        sheets = self._sheet if any(textured) else {}
        if self.shading.law == "colour":
            return Corners(albedo, torch.zeros_like(albedo), table, **sheets)
        points = view.points[:, faces].flatten(1, 2)
        normals = unit(self._normals[:, self._normal_table.long()].flatten(1, 2))
        seen = view.is_front.repeat_interleave(3, 1)[..., None]
        normals = torch.where(seen, normals, -normals)
        image = torch.arange(len(points), device=points.device)[:, None]
        gain, gloss = self.shading.light(points, normals, view.eye[:, None], self._materials[shown], image)
        return Corners(albedo * gain, gloss, table, **sheets)

    @cached_property
    def _colours(self) -> Tensor:
        """Colour of each vertex (1, n, 3), whatever the textures."""
        points = self.view.points
        rows = []
        for p in self.view.parts:
            n, own = p.size, p.look.vertex_colours
            rows.append(p.look.rgb(points).expand(n, 3) if own is None else own.to(points))
        return torch.cat(rows)[None]

    def _plain(self, fragments: Fragments) -> Tensor:
        """Colours (P, 3) of fragments without textures and lights."""
        if any(p.look.vertex_colours is not None for p in self.view.parts):
            return fragments.interpolate(self._colours)
        return torch.stack([p.look.rgb(self.view.points) for p in self.view.parts])[fragments.part]

    def _pattern(self, part: Part) -> Pattern | None:
        return part.look.pattern if self.shading.textures else None

    def _textured(self, fragments: Fragments, colours: Tensor) -> Tensor:
        """Colours (P, 3) with those of textures where there are some."""
        m = 0
        for k, p in enumerate(self.view.parts):
            if pattern := self._pattern(p):
                here = (fragments.part == k).nonzero()[:, 0]
                own = fragments.take(here)
                table = torch.zeros_like(self.view.faces)
                table[m : m + len(p.faces)] = pattern.faces.to(table)
                uv = own.interpolate(pattern.uv.to(colours)[None], table)
                texels = sample(pattern.texture.to(colours), uv, self._level(own, pattern, m))
                colours = colours.index_copy(0, here, texels)
            m += len(p.faces)
        return colours

    def _level(self, fragments: Fragments, pattern: Pattern, first: int) -> Tensor | None:
        """Size of a pixel in texels, as a power of 2, for each fragment (P,); None where no texture is made smaller.

        That of a whole triangle: the root of its area in texels over its area in pixels.
        """
        faces, (h, w) = slice(first, first + len(pattern.faces)), pattern.texture.shape[1:]
        corners = (pattern.uv * pattern.uv.new_tensor([w, h]))[pattern.faces.long()]
        texels = _area(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]).to(fragments.place)
        screen = self.view.screen[:, self.view.faces[faces].long(), :2]
        pixels = _area(screen[:, :, 1] - screen[:, :, 0], screen[:, :, 2] - screen[:, :, 0])
        tiny = torch.finfo(pixels.dtype).tiny
        level = 0.5 * torch.log2((texels + tiny) / (pixels + tiny))[fragments.image, fragments.face - first]
        return level.clamp_min(0.0) if bool((level > 0).any()) else None

    @cached_property
    def _sheet(self) -> dict[str, Tensor]:
        """All textures on one sheet; parts without one get a white texel."""
        textures, uvs, tables, first = [], [], [], 0
        like = self.view.points
        for p in self.view.parts:
            own = self._pattern(p)
            textures.append(own.texture.to(like) if own else like.new_ones(3, 1, 1))
            uvs.append(own.uv.to(like) if own else like.new_full((1, 2), 0.5))
            table = own.faces.to(self.view.faces) if own else torch.zeros_like(p.faces, dtype=torch.int32)
            tables.append(table.to(like.device) + first)
            first += len(uvs[-1])
        texture, uv = sheet(textures, uvs)
        return {"texture": texture, "uv": uv, "uv_table": torch.cat(tables)}

    @cached_property
    def _materials(self) -> Tensor:
        """k_a, k_d, k_s and s of each part (parts, 4)."""
        return torch.stack([material_of(p.look, self.view.points) for p in self.view.parts])

    @cached_property
    def _normals(self) -> Tensor:
        """Unit normals of the vertices and then of the faces (images, n + m, 3)."""
        points, faces = self.view.points, self.view.faces.long()
        a, b, c = points[:, faces].unbind(2)
        across = torch.linalg.cross(b - a, c - a)
        smooth = self.normals
        if smooth is None and any(p.look.smooth for p in self.view.parts):
            smooth = torch.zeros_like(points).index_add(1, faces.T.flatten(), across.repeat(1, 3, 1))
        return unit(torch.cat([torch.zeros_like(points) if smooth is None else smooth, across], 1))

    @cached_property
    def _normal_table(self) -> Tensor:
        """Entries of `_normals` at the corners of each face (m, 3)."""
        faces, n = self.view.faces, self.view.points.shape[1]
        own = torch.arange(n, n + len(faces), device=faces.device, dtype=faces.dtype)[:, None].expand(-1, 3)
        smooth = torch.tensor([p.look.smooth for p in self.view.parts], device=faces.device)[self.view.part_of]
        return torch.where(smooth[:, None], faces, own)


@dataclass(frozen=True, eq=False)
class Labels:
    """Paint that says which part it is on: 1 in the channel of the part, 0 in the others.

    Args:
        view: The view.
    """

    view: View

    @property
    def flat(self) -> None:
        """No face's label jumps where another face of its part begins."""
        return None

    def at(self, fragments: Fragments) -> Tensor:
        """(P, parts)."""
        return self._label(fragments.part)

    @property
    def corners(self) -> Corners:
        """See `SurfaceColor`; RGB is (k, parts) here."""
        faces = self.view.faces
        gain = self._label(self.view.part_of.repeat_interleave(3))[None]
        return Corners(gain, torch.zeros_like(gain), torch.arange(3 * len(faces), device=faces.device).view(-1, 3))

    def _label(self, part: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(part, len(self.view.parts)).to(self.view.clip)


def _area(a: Tensor, b: Tensor) -> Tensor:
    """Twice the area between vectors (..., 2)."""
    return (a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]).abs()
