"""Near-plane clipping of triangles, for rasterizers that divide by the depth of the corners.

A triangle with one corner in front of the plane keeps the piece at that corner; with two, a piece with four corners, as
two triangles. A new corner lies on a side from corner 0 to corner 1, at the fraction s = (near - z₀) / (z₁ - z₀) of the
way. Homogeneous pixels K x are linear along it, and so is everything that corners have: derivatives pass through s.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Cut:
    """Triangles in front of the near plane.

    Args:
        screen: Corners (images, n', 3): u, v [px] and depth [m]; vertices behind the plane belong to no face.
        faces: Triangles (m, 3) where the plane cuts none, else (images, m', 3) with -1 in rows without one.
        tables: Values (images or 1, k', channels) and their rows at the corners of each face, as the faces.
    """

    screen: Tensor
    faces: Tensor
    tables: list[tuple[Tensor, Tensor]]


def cut_near(clip: Tensor, faces: Tensor, near: float, tables: Sequence[tuple[Tensor, Tensor]] = ()) -> Cut:
    """Clip faces at the plane z = near; the table of faces is shared by all images if none is cut.

    Args:
        clip: Homogeneous pixels (u z, v z, z) of the vertices (images, n, 3) [px m, px m, m]. Differentiable.
        faces: Triangles (m, 3).
        near: Depth of the plane [m], above 0.
        tables: Corner attributes: values (images or 1, k, channels), differentiable, and their rows (m, 3).

    Raises:
        ValueError: If `near` is not above 0.
    """
    if not near > 0:
        raise ValueError(f"`near` is {near} m; it is above 0, since pixels are divided by depth.")
    behind = clip.detach()[..., 2] < near
    if not bool(behind.any()) or not bool(behind[:, faces.long()].any()):
        return Cut(_project(clip, near), faces, list(tables))
    faces = faces.long()
    crossing = _Crossing(clip, faces, behind[:, faces], near)
    screen = _project(crossing.extended(clip, faces), near)
    corners = crossing.rewritten(faces, clip.shape[1])
    cut = [(crossing.extended(values, rows), crossing.rewritten(rows, values.shape[1])) for values, rows in tables]
    return Cut(screen, corners, cut)


def _project(clip: Tensor, near: float) -> Tensor:
    """u, v and depth; what lies behind the plane is of no face, and goes to a place that is finite."""
    depth = clip[..., 2:]
    front = depth > 0.5 * near  # a new corner is on the plane but for rounding
    safe = torch.where(front, depth, near)
    return torch.cat([torch.where(front, clip[..., :2] / safe, 0.0), safe], -1)


class _Crossing:
    """Faces that cross the plane, over all images.

    Each has an odd corner, alone on its side of the plane, and gets two new corners on the edges from the odd corner to the
    next and to the last. For each image, new rows follow those of the table, two for each crossing face.
    """

    def __init__(self, clip: Tensor, faces: Tensor, behind: Tensor, near: float):
        count = behind.sum(-1)
        crosses = (count == 1) | (count == 2)
        self.images = len(clip)
        self.hidden = count > 0
        self.image, self.face = crosses.nonzero(as_tuple=True)
        self.place = (crosses.cumsum(1) - 1)[crosses]
        self.most = int(crosses.sum(1).max())
        self.pointed = count[crosses] == 2  # the odd corner is in front
        odd = (behind[crosses] != self.pointed[:, None]).int().argmax(1)
        self.order = (odd[:, None] + torch.arange(3, device=clip.device)) % 3
        z = self._corners(clip, faces)[..., 2]
        self.fraction = ((near - z[:, :1]) / (z[:, 1:] - z[:, :1]))[..., None]

    def extended(self, values: Tensor, rows: Tensor) -> Tensor:
        """Values of old and new corners (images, k', channels)."""
        corners = self._corners(values, rows)
        new = corners[:, :1] + self.fraction * (corners[:, 1:] - corners[:, :1])
        room = values.new_zeros(self.images, 2 * self.most, values.shape[2])
        room = room.index_put((self.image[:, None], self._new(0)), new)
        return torch.cat([values.expand(self.images, -1, -1), room], 1)

    def rewritten(self, rows: Tensor, old: int) -> Tensor:
        """Rows (images, m', 3) of a table that had `old` entries."""
        rows = rows.long()
        p0, p1, p2 = rows[self.face].gather(1, self.order).unbind(1)
        q1, q2 = self._new(old).unbind(1)
        first = torch.where(self.pointed, torch.stack([p0, q1, q2]), torch.stack([q1, p1, p2])).mT
        second = torch.where(self.pointed, -1, torch.stack([q1, p2, q2])).mT
        table = torch.where(self.hidden[..., None], -1, rows).index_put((self.image, self.face), first)
        more = torch.full((self.images, self.most, 3), -1, device=rows.device)
        return torch.cat([table, more.index_put((self.image, self.place), second)], 1)

    def _corners(self, values: Tensor, rows: Tensor) -> Tensor:
        """Corner values of each face, the odd corner first (faces, 3, channels)."""
        image = self.image if len(values) > 1 else torch.zeros_like(self.image)
        return values[image[:, None], rows.long()[self.face].gather(1, self.order)]

    def _new(self, old: int) -> Tensor:
        """Rows of the new corners of each face (faces, 2)."""
        return old + 2 * self.place[:, None] + torch.arange(2, device=self.place.device)
