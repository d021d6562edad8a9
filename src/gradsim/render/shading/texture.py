"""Textures: bilinear and trilinear sampling, mipmaps, atlases.

Texture coordinates are those of OpenGL and OBJ: u to the right, v up, (0, 0) the lower left corner of the image and (1, 1)
the upper right one, so that texel centres lie half a texel inside. Textures repeat beyond their border. Samples are
differentiable by texels and coordinates.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, grid_sample, pad

from gradsim.errors import InputError

MAX_TEXELS = 2**27  # texels of an atlas: half a gigabyte per channel in single precision


def sample(texture: Tensor, uv: Tensor, level: Tensor | None = None) -> Tensor:
    """Bilinear samples (P, channels).

    Args:
        texture: (channels, h, w), row 0 on top.
        uv: (P, 2).
        level: Mipmap level (P,), log2 of the size of a pixel in texels, for trilinear samples (Williams 1983). Default: 0,
            the texture itself.
    """
    if level is None:
        return _bilinear(texture, uv)
    images = pyramid(texture)
    level = level.clamp(0, len(images) - 1)
    mixed = uv.new_zeros(len(uv), len(texture))
    for k, image in enumerate(images):
        share = (1 - (level - k).abs()).clamp_min(0.0)
        used = share.nonzero()[:, 0]
        if len(used):
            mixed = mixed.index_add(0, used, share[used, None] * _bilinear(image, uv[used]))
    return mixed


def pyramid(texture: Tensor) -> list[Tensor]:
    """Mipmaps of a texture (channels, h, w), by repeated averages over 2 × 2 texels; odd sides are padded."""
    images = [texture]
    while max(images[-1].shape[1:]) > 1:
        last = images[-1][None]
        odd = pad(last, (0, last.shape[3] % 2, 0, last.shape[2] % 2), mode="replicate")
        images.append(avg_pool2d(odd, 2)[0])
    return images


def sheet(textures: Sequence[Tensor], uvs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Pack textures into an atlas (channels, h, w), with all coordinates on it (sum of k, 2).

    A texture is laid out as often as its coordinates repeat. Coordinates stay half a texel inside, so that samples of one
    texture never reach another.

    Args:
        textures: (channels, h, w) each.
        uvs: (k, 2) each.

    Raises:
        InputError: If the copies of a texture take more than `MAX_TEXELS` texels.
    """
    tiles, texels, top = [], [], 0
    for texture, uv in zip(textures, uvs, strict=True):
        first = uv.detach().amin(0).floor()
        across, up = (uv.detach().amax(0) - first).ceil().clamp_min(1).int().tolist()
        if up * across * texture[0].numel() > MAX_TEXELS:
            raise InputError(
                f"a texture of {texture.shape[2]} × {texture.shape[1]} texels repeats {across} × {up} times on one part, and "
                "`softras` lays out every copy; use `aa` or `dibr`, a smaller texture, or a lower `repeat`."
            )
        tiles.append(texture.repeat(1, up, across))
        uv, (h, w) = (uv - first) / uv.new_tensor([across, up]), tiles[-1].shape[1:]
        size = uv.new_tensor([w, h])
        texel = (uv * size).clamp(uv.new_tensor(0.5), size - 0.5)
        texels.append(texel - uv.new_tensor([0.0, top + h]))  # v counts from the top of the sheet, for now
        top += h
    width = max(t.shape[2] for t in tiles)
    coordinates = torch.cat(texels)
    coordinates = (coordinates + coordinates.new_tensor([0.0, top])) / coordinates.new_tensor([width, top])
    return torch.cat([pad(t, (0, width - t.shape[2])) for t in tiles], 1), coordinates


def _bilinear(texture: Tensor, uv: Tensor) -> Tensor:
    size = uv.new_tensor([texture.shape[2], texture.shape[1]])
    around = pad(texture[None].to(uv), (1, 1, 1, 1), mode="circular")
    u, v = (((uv - uv.detach().floor()) * size + 1) / (size + 2)).unbind(1)
    return grid_sample(around, torch.stack([2 * u - 1, 1 - 2 * v], -1)[None, None], align_corners=False)[0, :, 0].T
