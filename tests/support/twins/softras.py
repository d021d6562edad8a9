"""SoftRas by its formulas: every face at every pixel, in plain PyTorch, differentiated by autograd. Slow."""

import math

import torch
from torch import Tensor

FLAT = 1e-6  # twice a face's area by the square of its longest side, or by 1e-6 px² if that is more: no area


def pixels(height: int, width: int) -> Tensor:
    """Centres (height · width, 2) [px], rows one after another."""
    y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    return torch.stack([x, y], -1).reshape(-1, 2).double()


def cross(a: Tensor, b: Tensor) -> Tensor:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def seen(corners: Tensor, cull: str) -> Tensor:
    """Which of the faces (m, 3, 3) have an area and turn the right way."""
    a, b, c = corners[..., :2].unbind(1)
    area = cross(b - a, c - a)
    longest = torch.stack([b - a, c - b, a - c]).square().sum(-1).amax(0).clamp(min=1e-6)
    dropped = {"none": 0, "back": 1, "front": -1}[cull]  # y points down
    return (area.abs() > FLAT * longest) & (area * dropped <= 0)


def signed_square(corners: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """± d² (pixels, m), + inside, and barycentric coordinates (pixels, m, 3)."""
    a, b, c = corners[..., :2].unbind(1)
    area = cross(b - a, c - a)
    p = p[:, None]
    squares, shares = [], []
    for first, second in ((b, c), (c, a), (a, b)):
        way = second - first
        fraction = (((p - first) * way).sum(-1) / way.square().sum(-1)).clamp(0, 1)
        squares.append((p - first - fraction[..., None] * way).square().sum(-1))
        shares.append(cross(way, p - first) / area)
    share = torch.stack(shares, -1)
    square = torch.stack(squares).amin(0)
    return torch.where((share > 0).all(-1), square, -square), share


def bilinear(texture: Tensor, uv: Tensor) -> Tensor:
    """Texels' centres at +0.5, v = 0 at the bottom, clamped at the border."""
    _, rows, columns = texture.shape
    x = (uv[..., 0] * columns - 0.5).clamp(0, columns - 1)
    y = ((1 - uv[..., 1]) * rows - 0.5).clamp(0, rows - 1)
    j, i = x.detach().floor().long(), y.detach().floor().long()
    right, below = (j + 1).clamp(max=columns - 1), (i + 1).clamp(max=rows - 1)
    s, t = x - j, y - i
    upper = texture[:, i, j] * (1 - s) + texture[:, i, right] * s
    lower = texture[:, below, j] * (1 - s) + texture[:, below, right] * s
    return (upper * (1 - t) + lower * t).movedim(0, -1)


def mean(shares: Tensor, corners: Tensor) -> Tensor:
    return (shares[..., None] * corners).sum(-2)


def of_image(table, image: int, dimensions: int) -> Tensor:
    return table if table.ndim < dimensions else table[image % len(table)]


def border(screen: Tensor, faces: Tensor, p: Tensor, sigma: float, cut: float, cull: str):
    """Of one image: which faces are seen, their corners, x and whether it counts (pixels, m), barycentrics."""
    corners = screen[faces.clamp(min=0)]
    use = (faces >= 0).all(-1) & seen(corners.detach(), cull)
    square, share = signed_square(corners[use], p)
    x = square / sigma
    return use, corners[use], x, x > -math.log(1 / cut - 1), share


def silhouette(screen, faces, height, width, *, sigma, cut=1e-4, cull="none") -> Tensor:
    alphas = []
    for image, points in enumerate(screen):
        _, _, x, counts, _ = border(points, of_image(faces, image, 3).long(), pixels(height, width), sigma, cut, cull)
        alphas.append(1 - torch.exp(-(torch.nn.functional.softplus(x) * counts).sum(1)))
    return torch.stack(alphas).reshape(-1, height, width)


def color(
    screen,
    faces,
    height,
    width,
    diffuse,
    specular,
    *,
    paint_faces=None,
    uv=None,
    uv_faces=None,
    texture=None,
    background=None,
    sigma=1.0,
    gamma=1e-4,
    epsilon=1e-3,
    near=1.0,
    far=100.0,
    cut=1e-4,
    cull="none",
) -> tuple[Tensor, Tensor]:
    p, images = pixels(height, width), []
    behind = (torch.zeros(3) if background is None else background).reshape(3, -1).mT.expand(len(p), 3)
    for image, points in enumerate(screen):
        table = of_image(faces, image, 3).long()
        use, corners, x, counts, share = border(points, table, p, sigma, cut, cull)
        clipped = share.clamp(0, 1)
        clipped = clipped / clipped.sum(-1, keepdim=True)
        slope = clipped / corners[..., 2]
        depth = 1 / slope.sum(-1)
        shares = slope * depth[..., None]
        paint = (table if paint_faces is None else of_image(paint_faces, image, 3).long())[use]
        look = mean(shares, of_image(diffuse, image, 3)[paint])
        if texture is not None:
            places = (table if uv_faces is None else of_image(uv_faces, image, 3).long())[use]
            look = look * bilinear(texture, mean(shares, of_image(uv, image, 3)[places]))
        look = look + mean(shares, of_image(specular, image, 3)[paint])
        z = (far - depth) / (far - near)
        scores = torch.where(counts, z.detach(), epsilon)
        top = torch.cat([scores, torch.full_like(p[:, :1], epsilon)], 1).amax(1, keepdim=True)
        w = torch.sigmoid(x) * counts * torch.exp(torch.where(counts, (z - top) / gamma, 0.0))
        rest = torch.exp((epsilon - top) / gamma)
        mixed = ((w[..., None] * look).sum(1) + rest * behind) / (w.sum(1, keepdim=True) + rest)
        images.append(mixed.mT.reshape(3, height, width))
    return torch.stack(images), silhouette(screen, faces, height, width, sigma=sigma, cut=cut, cull=cull)
