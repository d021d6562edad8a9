"""The nearest triangle at every pixel by its formulas: all faces at all pixels, in plain PyTorch with autograd. Slow.

On the screen 1 / z is linear: with the shares λ_i of the areas, 1 / z = Σ λ_i / z_i, and in space b_i = λ_i z / z_i.
"""

import torch
from torch import Tensor
from twins.softras import cross, pixels


def project(points: Tensor, K: Tensor, R: Tensor, t: Tensor) -> Tensor:
    """u, v [px] and depth [m] of points (n, 3) in front of the camera."""
    pixel = (points @ R.T + t) @ K.T
    return torch.cat([pixel[:, :2] / pixel[:, 2:], pixel[:, 2:]], 1)


def nearest(screen: Tensor, faces: Tensor, height: int, width: int, cull: str = "none") -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Face at each pixel (height · width), -1: none; its barycentrics in space (height · width, 3), and depth."""
    p = pixels(height, width)[:, None]
    a, b, c = screen[faces].unbind(1)
    area = cross(b[:, :2] - a[:, :2], c[:, :2] - a[:, :2])
    flat = torch.stack([cross(second[:, :2] - first[:, :2], p - first[:, :2]) for first, second in ((b, c), (c, a), (a, b))], -1)  # fmt: skip
    flat = flat / torch.where(area == 0, 1.0, area)[:, None]
    turned = {"none": area != 0, "back": area < 0, "front": area > 0}[cull]  # y points down
    inside = (flat.detach() >= 0).all(-1) & turned
    slope = flat / screen[faces][..., 2]
    depth = 1 / slope.sum(-1)
    ranked = torch.where(inside, depth.detach(), torch.inf)
    face = ranked.argmin(1)
    rows = torch.arange(len(face))
    shares = (slope * depth[..., None])[rows, face]
    return torch.where(inside.any(1), face, -1), shares, depth[rows, face]


def repeated(texture: Tensor, uv: Tensor) -> Tensor:
    """Bilinear samples (P, channels): texel centres at +0.5, v upwards, beginning again beyond the border."""
    _, rows, columns = texture.shape
    x, y = uv[:, 0] * columns - 0.5, (1 - uv[:, 1]) * rows - 0.5
    j, i = x.detach().floor(), y.detach().floor()
    s, t = x - j, y - i
    j, i = j.long(), i.long()
    at = lambda i, j: texture[:, i % rows, j % columns].T
    upper = (1 - s)[:, None] * at(i, j) + s[:, None] * at(i, j + 1)
    lower = (1 - s)[:, None] * at(i + 1, j) + s[:, None] * at(i + 1, j + 1)
    return (1 - t)[:, None] * upper + t[:, None] * lower


def halved(texture: Tensor) -> Tensor:
    """Means of 2 × 2 texels; the last row or column of an odd number counts twice."""
    i, j = (torch.arange((n + 1) // 2) * 2 for n in texture.shape[1:])
    below, right = (i + 1).clamp(max=texture.shape[1] - 1), (j + 1).clamp(max=texture.shape[2] - 1)
    rows = texture[:, i] + texture[:, below]
    return (rows[:, :, j] + rows[:, :, right]) / 4


def trilinear(texture: Tensor, uv: Tensor, level: Tensor) -> Tensor:
    """Between the two pictures whose texels are next in size to a pixel, of size 2 ** level of the texels (P,)."""
    images = [texture]
    while max(images[-1].shape[1:]) > 1:
        images.append(halved(images[-1]))
    level = level.clamp(0, len(images) - 1)
    samples = torch.stack([repeated(image, uv) for image in images])
    low = level.detach().floor().long()
    share, rows = (level - low)[:, None], torch.arange(len(uv))
    return (1 - share) * samples[low, rows] + share * samples[(low + 1).clamp(max=len(images) - 1), rows]


def level_of(screen: Tensor, faces: Tensor, uv: Tensor, uv_faces: Tensor, texture: Tensor) -> Tensor:
    """Of each face: the power of 2 that is the root of its texels over its pixels."""
    size = torch.tensor([texture.shape[2], texture.shape[1]])
    areas = [cross(c[:, 1] - c[:, 0], c[:, 2] - c[:, 0]).abs() for c in ((uv * size)[uv_faces], screen[faces][..., :2])]
    return 0.5 * torch.log2(areas[0] / areas[1])
