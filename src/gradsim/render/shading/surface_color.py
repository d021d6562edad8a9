"""Color of surfaces from appearance and lights, at fragments or at the corners of triangles."""

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
    """Colors at the corners of triangles: texture(uv) · diffuse + specular.

    Args:
        diffuse: RGB (images or 1, k, 3).
        specular: RGB (images or 1, k, 3).
        table: Entries of diffuse and specular at the corners of each face (m, 3).
        uv: Texture coordinates (j, 2).
        uv_table: Entries of `uv` at the corners of each face (m, 3).
        texture: Atlas of all textures (3, h, w); None: colors are diffuse + specular.
    """

    diffuse: Tensor
    specular: Tensor
    table: Tensor
    uv: Tensor | None = None
    uv_table: Tensor | None = None
    texture: Tensor | None = None


class ColorSource(Protocol):
    """Source of colors for rasterizers, with any number of channels."""

    @property
    def flat(self) -> Tensor | None:
        """True for flat-shaded faces (m,), whose shade jumps at edges; None if there are none."""
        ...

    @property
    def by_vertex(self) -> Tensor | None:
        """Colors of the vertices (images or 1, n, 3) if those of fragments are interpolated from them, else None."""
        ...

    @property
    def corners(self) -> Corners:
        """Colors at the corners of all faces."""
        ...

    def at(self, fragments: Fragments) -> Tensor:
        """Colors of fragments (P, channels)."""
        ...


@dataclass(frozen=True, eq=False)
class SurfaceColor:
    """Color by appearance and lights.

    Args:
        view: Triangles of all images.
        shading: Shading law and lights.
        normals: Normals of the vertices (images, n, 3), of any length, for smooth parts. Default: area-weighted means of
            the normals of adjacent faces.
    """

    view: View
    shading: Shading
    normals: Tensor | None = None

    def at(self, fragments: Fragments) -> Tensor:
        """Colors of fragments, RGB (P, 3)."""
        albedo = self._textured(fragments, self._plain(fragments))
        if self.shading.law == "colour":
            return albedo
        points = fragments.interpolate(self.view.points)
        eye = self.view.eye if len(self.view.eye) == 1 else self.view.eye[fragments.image]
        diffuse, specular = self.shading.light(
            points, self.normals_at(fragments), eye, self._materials[fragments.part], fragments.image
        )
        return albedo * diffuse + specular

    @property
    def flat(self) -> Tensor | None:
        """True for flat-shaded faces (m,), whose shade jumps at edges; None if there are none."""
        if self.shading.law == "colour" or all(p.appearance.smooth for p in self.view.parts):
            return None
        smooth = torch.tensor([p.appearance.smooth for p in self.view.parts], device=self.view.faces.device)
        return ~smooth[self.view.part_of]

    @property
    def by_vertex(self) -> Tensor | None:
        """Colors of the vertices (1, n, 3) without lights and textures, else None."""
        if self.shading.law != "colour" or any(self._pattern(p) is not None for p in self.view.parts):
            return None
        return self._colors

    def normals_at(self, fragments: Fragments) -> Tensor:
        """Unit normals (P, 3) at fragments, on the visible side."""
        normals = unit(fragments.interpolate(self._normals, self._normal_table))
        return torch.where(fragments.is_front[:, None], normals, -normals)

    @property
    def corners(self) -> Corners:
        """Colors at the corners of all faces, for interpolation (Gouraud 1971)."""
        view, faces = self.view, self.view.faces.long()
        m, textured = len(faces), [self._pattern(p) is not None for p in view.parts]
        table = torch.arange(3 * m, device=faces.device).view(m, 3)
        albedo = self._colors[0][faces].reshape(1, 3 * m, 3)
        part = view.part_of.repeat_interleave(3)
        if any(textured):
            albedo = torch.where(torch.tensor(textured, device=faces.device)[part][:, None], 1.0, albedo)
        sheets = self._sheet if any(textured) else {}
        if self.shading.law == "colour":
            return Corners(albedo, torch.zeros_like(albedo), table, **sheets)
        points = view.points[:, faces].flatten(1, 2)
        normals = unit(self._normals[:, self._normal_table.long()].flatten(1, 2))
        front = view.is_front.repeat_interleave(3, 1)[..., None]
        normals = torch.where(front, normals, -normals)
        image = torch.arange(len(points), device=points.device)[:, None]
        diffuse, specular = self.shading.light(points, normals, view.eye[:, None], self._materials[part], image)
        return Corners(albedo * diffuse, specular, table, **sheets)

    @cached_property
    def _colors(self) -> Tensor:
        """Color of each vertex (1, n, 3), without textures."""
        points = self.view.points
        rows = []
        for p in self.view.parts:
            n, by_vertex = p.size, p.appearance.vertex_colors
            rows.append(p.appearance.rgb(points).expand(n, 3) if by_vertex is None else by_vertex.to(points))
        return (rows[0] if len(rows) == 1 else torch.cat(rows))[None]

    def _plain(self, fragments: Fragments) -> Tensor:
        """Colors (P, 3) of fragments without textures and lights."""
        if any(p.appearance.vertex_colors is not None for p in self.view.parts):
            return fragments.interpolate(self._colors)
        return torch.stack([p.appearance.rgb(self.view.points) for p in self.view.parts])[fragments.part]

    def _pattern(self, part: Part) -> Pattern | None:
        return part.appearance.pattern if self.shading.textures else None

    def _textured(self, fragments: Fragments, colors: Tensor) -> Tensor:
        """Colors (P, 3), replaced by those of textures where there are any."""
        m = 0
        for k, p in enumerate(self.view.parts):
            if pattern := self._pattern(p):
                index = (fragments.part == k).nonzero()[:, 0]
                selected = fragments.take(index)
                table = torch.zeros_like(self.view.faces)
                table[m : m + len(p.faces)] = pattern.faces.to(table)
                uv = selected.interpolate(pattern.uv.to(colors)[None], table)
                texels = sample(pattern.texture.to(colors), uv, self._level(selected, pattern, m))
                colors = colors.index_copy(0, index, texels)
            m += len(p.faces)
        return colors

    def _level(self, fragments: Fragments, pattern: Pattern, first: int) -> Tensor | None:
        """Mipmap level: log2 of the size of a pixel in texels, by fragment (P,); None if no texture is minified.

        One for each triangle: the root of its area in texels over its area in pixels.
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
        """Atlas of all textures; parts without one get a white texel."""
        textures, uvs, tables, first = [], [], [], 0
        like = self.view.points
        for p in self.view.parts:
            pattern = self._pattern(p)
            textures.append(pattern.texture.to(like) if pattern else like.new_ones(3, 1, 1))
            uvs.append(pattern.uv.to(like) if pattern else like.new_full((1, 2), 0.5))
            table = pattern.faces.to(self.view.faces) if pattern else torch.zeros_like(p.faces, dtype=torch.int32)
            tables.append(table.to(like.device) + first)
            first += len(uvs[-1])
        texture, uv = sheet(textures, uvs)
        return {"texture": texture, "uv": uv, "uv_table": torch.cat(tables)}

    @cached_property
    def _materials(self) -> Tensor:
        """k_a, k_d, k_s and s of each part (parts, 4)."""
        return torch.stack([material_of(p.appearance, self.view.points) for p in self.view.parts])

    @cached_property
    def _normals(self) -> Tensor:
        """Unit normals of the vertices and then of the faces (images, n + m, 3)."""
        points, faces = self.view.points, self.view.faces.long()
        a, b, c = points[:, faces].unbind(2)
        across = torch.linalg.cross(b - a, c - a)
        smooth = self.normals
        if smooth is None and any(p.appearance.smooth for p in self.view.parts):
            smooth = torch.zeros_like(points).index_add(1, faces.T.flatten(), across.repeat(1, 3, 1))
        return unit(torch.cat([torch.zeros_like(points) if smooth is None else smooth, across], 1))

    @cached_property
    def _normal_table(self) -> Tensor:
        """Entries of `_normals` at the corners of each face (m, 3)."""
        faces, n = self.view.faces, self.view.points.shape[1]
        flat = torch.arange(n, n + len(faces), device=faces.device, dtype=faces.dtype)[:, None].expand(-1, 3)
        smooth = torch.tensor([p.appearance.smooth for p in self.view.parts], device=faces.device)[self.view.part_of]
        return torch.where(smooth[:, None], faces, flat)


@dataclass(frozen=True, eq=False)
class Labels:
    """Part labels as colors: 1 in the channel of the part, 0 in the others.

    Args:
        view: The view.
    """

    view: View

    @property
    def flat(self) -> None:
        """None: labels are constant on each part."""
        return None

    def at(self, fragments: Fragments) -> Tensor:
        """(P, parts)."""
        return self._label(fragments.part)

    @property
    def by_vertex(self) -> None:
        """None: labels jump where parts meet."""
        return None

    @property
    def corners(self) -> Corners:
        """See `SurfaceColor`; RGB is (k, parts) here."""
        faces = self.view.faces
        diffuse = self._label(self.view.part_of.repeat_interleave(3))[None]
        return Corners(
            diffuse, torch.zeros_like(diffuse), torch.arange(3 * len(faces), device=faces.device).view(-1, 3)
        )

    def _label(self, part: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(part, len(self.view.parts)).to(self.view.clip)


def _area(a: Tensor, b: Tensor) -> Tensor:
    """Twice the area between vectors (..., 2)."""
    return (a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]).abs()
