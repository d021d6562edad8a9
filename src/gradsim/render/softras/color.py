"""Colors of SoftRas."""

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import Lane, members
from gradsim.engine.launch import array, field, replay
from gradsim.engine.operation import operation
from gradsim.render.softras.faces import (
    MIN_FACE_COVERAGE,
    Tiles,
    blur,
    check,
    face_arguments,
    finite,
    table,
    with_faces,
)

if TYPE_CHECKING:
    from gradsim.render.softras import attribute_kernels, color_kernels, kernels, resolve_kernels
else:
    attribute_kernels = "gradsim.render.softras.attribute_kernels"
    color_kernels = "gradsim.render.softras.color_kernels"
    kernels = "gradsim.render.softras.kernels"
    resolve_kernels = "gradsim.render.softras.resolve_kernels"

BORDER = ("Reach", "EdgeGradient", "cover", "add_edge", "if_nearest", "at_first", "at_second")
PAINT = (
    "LANES",
    "MIN_WEIGHT",
    "SurfaceColor",
    "Three",
    "CornerAttributes",
    "mean_color",
    "dot_color",
    "texture_adjoint",
    "attributes_of",
    "shade_of",
)
PIXELS = ("DepthWeights", "NEGLIGIBLE_EXPONENT")


def color(
    screen: Tensor,
    faces: Tensor,
    height: int,
    width: int,
    diffuse: Tensor,
    specular: Tensor,
    *,
    paint_faces: Tensor | None = None,
    uv: Tensor | None = None,
    uv_faces: Tensor | None = None,
    texture: Tensor | None = None,
    background: Tensor | None = None,
    sigma: float,
    gamma: float,
    epsilon: float,
    near: float,
    far: float,
    cut: float = MIN_FACE_COVERAGE,
    cull: str = "none",
) -> tuple[Tensor, Tensor]:
    """Color (images, 3, height, width) and soft coverage (images, height, width) of every pixel.

        C = (Σ w c + w_b c_b) / (Σ w + w_b),  w = D exp(z/γ),  w_b = exp(ε/γ)     (Liu et al. 2019, Eqs. 4 and 5)

    with z = (far - depth) / (far - near) and c = diffuse · texture(uv) + specular, or diffuse + specular without a
    texture, at the point of the face nearest to the pixel: perspective-correct, barycentric coordinates clipped to [0, 1].

    Args:
        screen: As for `silhouette`. Differentiable, as are diffuse, specular, uv, texture and background.
        faces: As for `silhouette`.
        height: Rows of the images.
        width: Columns.
        diffuse: RGB (k, 3), or (images, k, 3).
        specular: RGB (k, 3), or (images, k, 3).
        paint_faces: Rows of diffuse and specular at the corners of each face, (m, 3) or (images, m, 3). Default: `faces`,
            one row for each vertex.
        uv: Texture coordinates (l, 2) or (images, l, 2): 0 to 1 from left to right and from bottom to top, as in OBJ
            files and OpenGL.
        uv_faces: Rows of uv at the corners of each face. Default: `faces`.
        texture: (3, rows, columns), first row on top. Bilinear between texel centres, at +0.5; clamped at the border.
        background: Color (3,), or image (3, height, width), or one for each image. Default: black.
        sigma: σ [px²].
        gamma: γ.
        epsilon: ε, z of the background.
        near: Depth of z = 1 [m].
        far: Depth of z = 0 [m].
        cut: As for `silhouette`.
        cull: As for `silhouette`.

    Raises:
        ValueError: As `silhouette`, or if a parameter is out of range.
    """
    check(screen, height, width)
    images, n, _ = screen.shape
    corners = table("faces", faces, images, n)
    diffuse, specular = _rows("diffuse", diffuse, screen, 3), _rows("specular", specular, screen, 3)
    if diffuse.shape[1] != specular.shape[1]:
        raise ValueError(
            f"`diffuse` has {diffuse.shape[1]} rows and `specular` {specular.shape[1]}; they share `paint_faces`."
        )
    m = corners.shape[1]
    paint_corners = corners if paint_faces is None else table("paint_faces", paint_faces, images, diffuse.shape[1], m)
    if paint_faces is None and diffuse.shape[1] != n:
        raise ValueError(
            f"`diffuse` has {diffuse.shape[1]} rows for {n} vertices; give `paint_faces`, or a row for each."
        )
    if (texture is None) != (uv is None):
        raise ValueError("a texture needs `uv`, and `uv` a `texture`; give both or none.")
    if texture is None or uv is None:
        uv, texels, uv_corners = screen.new_empty(1, 0, 2), screen.new_empty(0, 0, 3), corners[:, :0]
    else:
        uv, texels = _rows("uv", uv, screen, 2), _texels(texture, screen)
        uv_corners = corners if uv_faces is None else table("uv_faces", uv_faces, images, uv.shape[1], m)
        if uv_faces is None and uv.shape[1] != n:
            raise ValueError(f"`uv` has {uv.shape[1]} rows for {n} vertices; give `uv_faces`, or a row for each.")
    if not (gamma > 0 and far > near):
        raise ValueError(f"gamma {gamma}, near {near} m, far {far} m; gamma is above 0, and far beyond near.")
    behind = _background(background, screen, height, width)
    depth = [1 / (gamma * (far - near)), far - epsilon * (far - near)]
    settings = torch.tensor([*blur(sigma, cut, cull), *depth], dtype=torch.float64)
    paint = [diffuse, specular, paint_corners, uv, uv_corners, texels]
    rgb, clear, *_ = _color(screen, corners, screen.new_empty(0, height, width), settings, *paint, behind)
    return rgb, 1 - clear


def _rows(name: str, values: Tensor, like: Tensor, channels: int) -> Tensor:
    """(images or 1, k, channels)."""
    rows = values[None] if values.ndim == 2 else values
    if rows.ndim != 3 or rows.shape[-1] != channels or rows.shape[0] not in (1, len(like)):
        raise ValueError(f"`{name}` has shape {tuple(values.shape)}; it needs (k, {channels}) or ({len(like)}, k, {channels}).")  # fmt: skip
    finite(name, rows)
    return rows.to(like)


def _texels(texture: Tensor, like: Tensor) -> Tensor:
    """(rows, columns, 3)."""
    if texture.ndim != 3 or texture.shape[0] != 3 or not texture.numel():
        raise ValueError(
            f"`texture` has shape {tuple(texture.shape)}; it needs (3, rows, columns), at least one texel."
        )
    return texture.permute(1, 2, 0).to(like)


def _background(background: Tensor | None, like: Tensor, height: int, width: int) -> Tensor:
    """(images or 1, 3, height or 1, width or 1)."""
    if background is None:
        return like.new_zeros(1, 3, 1, 1)
    full = background.to(like)
    full = full[:, None, None] if full.ndim == 1 else full
    full = full[None] if full.ndim == 3 else full
    images, size = len(like), (3, height, width)
    fits = full.ndim == 4 and full.shape[0] in (1, images) and full.shape[1] == 3
    if not fits or full.shape[2] not in (1, height) or full.shape[3] not in (1, width):
        raise ValueError(
            f"`background` has shape {tuple(background.shape)}; it needs (3,), {size} or {(images, *size)}."
        )
    return full


@cache
def border_code(lane: Lane) -> ModuleType:
    """Kernels of silhouettes."""
    return with_faces(kernels, lane)


@cache
def pixels_code(lane: Lane) -> ModuleType:
    """Kernels from sums to images."""
    return with_faces(resolve_kernels, lane)


@cache
def color_code(lane: Lane) -> ModuleType:
    """Kernels of colors."""
    paint = with_faces(attribute_kernels, lane)
    bound = members(border_code(lane), *BORDER) | members(paint, *PAINT) | members(pixels_code(lane), *PIXELS)
    return with_faces(color_kernels, lane, **bound)


class _Color:
    """Program (see `engine.operation`) from

        screen, faces, an empty canvas, settings, diffuse, specular, their corners, uv, its corners, texels, background

    to C, 1 - A, and, for the adjoint, the depth of the nearest faces and Σ w, both in tiles.
    """

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        screen, _, canvas, *_ = inputs
        images, size, tiles = len(screen), canvas.shape[1:], Tiles(*canvas.shape[1:], like=screen).shape
        return [(images, 3, *size), (images, *size), (images, *tiles), (images, *tiles)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        code, tiles, arguments = face_arguments(color_code, inputs)
        images, faces, device = len(inputs[0]), inputs[1].shape[1], str(inputs[0].device)
        depth_weights, paint = self._structs(code, inputs)
        opaque, nearest = tiles.empty(images), tiles.empty(images, depth_weights.horizon)
        weights, colors = tiles.empty(images), tiles.empty(3 * images)
        rgb = opaque.new_empty(images, 3, tiles.height, tiles.width)
        clear = opaque.new_empty(images, tiles.height, tiles.width)
        if clear.numel():
            sums = [tiles.array(x) for x in (opaque, nearest, weights, colors)]
            replay(code.cover_in_depth, (images, faces), [*arguments, *sums[:2]], device)
            replay(code.mix_colors, (images, faces), [*arguments, depth_weights, paint, *sums[1:]], device)
            args = [*sums, wp.from_torch(inputs[-1]), depth_weights, *map(wp.from_torch, (rgb, clear))]
            replay(pixels_code(tiles.lane).finish, (images, tiles.down, tiles.across), args, device)
        return [rgb, clear, nearest, weights]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        code, tiles, arguments = face_arguments(color_code, inputs)
        rgb, clear, nearest, weights = outputs
        gradients = [torch.zeros_like(x) if x.is_floating_point() else None for x in inputs]
        if not clear.numel():
            return gradients
        images, faces, device = len(rgb), inputs[1].shape[1], str(rgb.device)
        depth_weights, paint = self._structs(code, inputs)
        sums, behind = [tiles.empty(k * images) for k in (1, 1, 3)], torch.empty_like(rgb)
        args = [*map(wp.from_torch, (rgb, clear)), *map(tiles.array, (nearest, weights)), depth_weights]
        args += [*map(wp.from_torch, adjoints[:2]), *map(tiles.pixels, sums), wp.from_torch(behind)]
        replay(pixels_code(tiles.lane).finish_adjoint, (images, tiles.down, tiles.across), args, device)
        kinds = {0: code.Point, 4: code.Point, 5: code.Point, 7: code.Pixel, 9: code.Point}
        targets = [array(kind, sum_) for k, kind in kinds.items() if (sum_ := gradients[k]) is not None]
        replay(
            code.mix_colors_adjoint,
            (images, faces),
            [*arguments, depth_weights, paint, *map(tiles.array, (nearest, *sums)), *targets],
            device,
        )
        gradients[-1] = behind.sum_to_size(inputs[-1].shape)
        return gradients

    def _structs(self, code: ModuleType, inputs: Sequence[Tensor]) -> tuple:
        """Structs of the kernels: depth weights and attribute tables."""
        diffuse, specular, corners, uv, uv_corners, texels, _ = inputs[4:]
        depth_weights, paint = code.DepthWeights(), code.SurfaceColor()
        *_, depth_weights.sharpness, depth_weights.horizon = inputs[3].tolist()
        paint.diffuse, paint.specular, paint.texture = (field(code.Point, x) for x in (diffuse, specular, texels))
        paint.corners, paint.uv_corners = field(wp.vec3i, corners), field(wp.vec3i, uv_corners)
        paint.uv = field(code.Pixel, uv)
        return depth_weights, paint


_color = operation(_Color())
