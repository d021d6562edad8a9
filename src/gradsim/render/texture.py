"""Pictures on surfaces: bilinear sampling, averages for what is far away, several pictures on one sheet.

Texture coordinates are OpenGL's and OBJ's: u to the right, v up, (0, 0) the lower left corner of the picture and (1, 1)
its upper right one, so that texel centres lie half a texel inside. Beyond its border a picture goes on as its border.
Derivatives exist by texels and by coordinates.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, grid_sample, pad


def sample(texture: Tensor, uv: Tensor, level: Tensor | None = None) -> Tensor:
    """Bilinear samples (P, channels).

    Args:
        texture: (channels, h, w), row 0 on top.
        uv: (P, 2).
        level: Size of a pixel in texels, as a power of 2, (P,): samples are then trilinear, between pictures of half
            the size each (Williams 1983). 0 is the picture itself, which is also the default.
    """
    if level is None:
        return _bilinear(texture, uv)
    pictures = pyramid(texture)
    level = level.clamp(0, len(pictures) - 1)
    mixed = uv.new_zeros(len(uv), len(texture))
    for k, picture in enumerate(pictures):
        share = (1 - (level - k).abs()).clamp_min(0.0)
        used = share.nonzero()[:, 0]
        if len(used):
            mixed = mixed.index_add(0, used, share[used, None] * _bilinear(picture, uv[used]))
    return mixed


def pyramid(texture: Tensor) -> list[Tensor]:
    """A picture (channels, h, w), and its averages over 2 × 2 texels again and again; odd sides are padded."""
    pictures = [texture]
    while max(pictures[-1].shape[1:]) > 1:
        last = pictures[-1][None]
        odd = pad(last, (0, last.shape[3] % 2, 0, last.shape[2] % 2), mode="replicate")
        pictures.append(avg_pool2d(odd, 2)[0])
    return pictures


def sheet(textures: Sequence[Tensor], uvs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Several pictures on one: the sheet (channels, h, w), and all coordinates on it (sum of k, 2).

    Coordinates are kept half a texel inside their own picture, so that samples of one never meet another.

    Args:
        textures: (channels, h, w) each.
        uvs: (k, 2) each.
    """
    width, height = max(t.shape[2] for t in textures), sum(t.shape[1] for t in textures)
    placed, top = [], 0
    for texture, uv in zip(textures, uvs, strict=True):
        h, w = texture.shape[1:]
        size = uv.new_tensor([w, h])
        texel = (uv * size).clamp(uv.new_tensor(0.5), size - 0.5)
        placed.append((texel + uv.new_tensor([0.0, height - top - h])) / uv.new_tensor([width, height]))
        top += h
    return torch.cat([pad(t, (0, width - t.shape[2])) for t in textures], 1), torch.cat(placed)


def _bilinear(texture: Tensor, uv: Tensor) -> Tensor:
    grid = torch.stack([2 * uv[:, 0] - 1, 1 - 2 * uv[:, 1]], -1)[None, None]
    return grid_sample(texture[None].to(uv), grid, padding_mode="border", align_corners=False)[0, :, 0].T
