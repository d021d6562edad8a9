"""The area of every pixel that triangles cover, and pixels divided along inner edges: slow, in plain PyTorch.

Coverage is exact by another way than the kernels': no outlines, no orientation. The rows of pixels are cut at the heights
of all corners, of all crossings of sides, and of all crossings of sides with borders of pixels. Between two such heights
nothing changes its order from left to right, so what triangles cover is linear in height there: the length of the union
of their intervals half-way, times the distance, is the area.
"""

import torch
from torch import Tensor


def heights(corners: Tensor, height: int, width: int) -> Tensor:
    """All heights at which something changes (k,), in order; from corners (m, 3, 2)."""
    begin, way = corners.reshape(-1, 2), (corners.roll(-1, 1) - corners).reshape(-1, 2)
    found = [begin[:, 1], torch.arange(height + 1).double()]
    for x in range(width + 1):
        s = (x - begin[:, 0]) / torch.where(way[:, 0] == 0, 1.0, way[:, 0])
        found.append((begin[:, 1] + s * way[:, 1])[(way[:, 0] != 0) & (s > 0) & (s < 1)])
    between = begin[None] - begin[:, None]
    turn = way[:, None, 0] * way[None, :, 1] - way[:, None, 1] * way[None, :, 0]
    turned, turn = turn != 0, torch.where(turn == 0, 1.0, turn)
    s = (between[..., 0] * way[None, :, 1] - between[..., 1] * way[None, :, 0]) / turn
    r = (between[..., 0] * way[:, None, 1] - between[..., 1] * way[:, None, 0]) / turn
    cross = turned.triu(1) & (s > 0) & (s < 1) & (r > 0) & (r < 1)
    i, j = cross.nonzero(as_tuple=True)
    found.append(begin[i, 1] + s[i, j] * way[i, 1])
    y = torch.cat(found)
    return y[(y >= 0) & (y <= height)].sort().values


def coverage(screen: Tensor, faces: Tensor, height: int, width: int) -> Tensor:
    """(height, width), from vertices (n, 2) and any triangles (m, 3)."""
    corners = screen[faces]
    y = heights(corners, height, width)
    y = y[torch.cat([torch.ones(1).bool(), y.diff() > 0])]
    middle = 0.5 * (y[1:] + y[:-1])
    begin, end = corners, corners.roll(-1, 1)
    rise = end[..., 1] - begin[..., 1]
    s = (middle[:, None, None] - begin[..., 1]) / torch.where(rise == 0, 1.0, rise)
    x = begin[..., 0] + s * (end[..., 0] - begin[..., 0])  # (heights, m, 3)
    meets = (rise != 0) & (s >= 0) & (s <= 1)
    left = torch.where(meets, x, torch.inf).amin(2).clamp(0, width)
    right = torch.where(meets, x, -torch.inf).amax(2).clamp(0, width)
    drawn = meets.any(2)
    left, right = torch.where(drawn, left, width), torch.where(drawn, right, 0.0)
    left, order = left.sort(1)
    reached = right.gather(1, order).cummax(1).values
    start = torch.maximum(left, torch.cat([torch.zeros_like(left[:, :1]), reached[:, :-1]], 1))
    begin, end = torch.minimum(start, reached), reached  # disjoint intervals
    column = torch.arange(width)
    length = ((end[..., None] - column).clamp(0, 1) - (begin[..., None] - column).clamp(0, 1)).sum(1)
    area = length * y.diff()[:, None]
    return torch.zeros(height, width).double().index_add(0, middle.detach().floor().long().clamp(0, height - 1), area)
