"""Pictures on surfaces: bilinear sampling, averages for what is far away, several pictures on one sheet.

Texture coordinates are OpenGL's and OBJ's: u to the right, v up, (0, 0) the lower left corner of the picture and (1, 1)
its upper right one, so that texel centres lie half a texel inside. Beyond its border a picture begins again.
Derivatives exist by texels and by coordinates.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, grid_sample, pad

from gradsim.errors import InputError

LARGEST = 2**27  # texels of a sheet: half a gigabyte a channel in single precision


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

    A picture stands on it as often as its coordinates go round. They are kept half a texel inside, so that samples of
    one picture never meet another.

    Args:
        textures: (channels, h, w) each.
        uvs: (k, 2) each.

    Raises:
        InputError: If the copies of a picture are too many.
    """
    tiles, texels, top = [], [], 0
    for texture, uv in zip(textures, uvs, strict=True):
        first = uv.detach().amin(0).floor()
        across, up = (uv.detach().amax(0) - first).ceil().clamp_min(1).int().tolist()
        if up * across * texture[0].numel() > LARGEST:
            raise InputError(
                f"a texture of {texture.shape[2]} × {texture.shape[1]} texels stands {across} × {up} times on one part, and "
                "`softras` lays out every copy; take `aa` or `dibr`, a smaller texture, or a lower `repeat`."
            )
        tiles.append(texture.repeat(1, up, across))
        uv, (h, w) = (uv - first) / uv.new_tensor([across, up]), tiles[-1].shape[1:]
        size = uv.new_tensor([w, h])
        texel = (uv * size).clamp(uv.new_tensor(0.5), size - 0.5)
        texels.append(texel - uv.new_tensor([0.0, top + h]))  # v counts from the top of the sheet, for now
        top += h
    width = max(t.shape[2] for t in tiles)
    placed = torch.cat(texels)
    placed = (placed + placed.new_tensor([0.0, top])) / placed.new_tensor([width, top])
    return torch.cat([pad(t, (0, width - t.shape[2])) for t in tiles], 1), placed


def _bilinear(texture: Tensor, uv: Tensor) -> Tensor:
    size = uv.new_tensor([texture.shape[2], texture.shape[1]])
    around = pad(texture[None].to(uv), (1, 1, 1, 1), mode="circular")
    u, v = (((uv - uv.detach().floor()) * size + 1) / (size + 2)).unbind(1)
    return grid_sample(around, torch.stack([2 * u - 1, 1 - 2 * v], -1)[None, None], align_corners=False)[0, :, 0].T
