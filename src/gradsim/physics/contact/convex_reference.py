"""Contact of two rigid bodies in plain PyTorch: the definition of what `contact/convex_kernels.py` computes.

Lists of elements have the order of the template: corners of a, corners of b (unless a is a ball), edges against edges.
"""

from typing import NamedTuple

import torch
from torch import Tensor, linalg
from torch import where as select

from gradsim.numerics import rotation
from gradsim.physics.contact import hunt_crossley, point_plane
from gradsim.physics.contact.convex_shape import Core

PARALLEL_TOLERANCE = 1 / 128  # ε


class Placed(NamedTuple):
    """A core in the world: at x (3,), turned by q (4,), of size `scale` ()."""

    core: Core
    x: Tensor
    q: Tensor
    scale: Tensor

    @property
    def corners(self) -> Tensor:
        return self.x + self.turned(self.core.corners) * self.scale

    @property
    def radius(self) -> Tensor:
        return self.core.radius * self.scale

    def turned(self, rows) -> Tensor:
        """Vectors (n, 3) of the body's axes in the world's."""
        return rotation.rotate(self.q, self.x.new_tensor(rows))


class Touch(NamedTuple):
    """Elements: gap (n,) [m], normal towards a (n, 3), place (n, 3) [m], and of edges m (n,) and its slope (n, 3)."""

    gap: Tensor
    normal: Tensor
    place: Tensor
    share: Tensor
    turn: Tensor


def touches(a: Placed, b: Placed) -> list[Touch]:
    """All elements of a pair, but for edges that cross deeper than their skins."""
    point_a, point_b = (len(p.core.corners) == 1 for p in (a, b))
    contacts = []
    if point_a or not point_b:
        contacts.append(_corners(a, b))
    if not point_a:
        other = _corners(b, a)
        contacts.append(other._replace(normal=-other.normal))
        if not point_b:
            contacts.append(_edges(a, b))
    return contacts


def energy(a: Placed, b: Placed, stiffness: Tensor) -> Tensor:
    """Σ m ½ k C² [J] ()."""
    return torch.stack([(t.share * hunt_crossley.energy(t.gap, stiffness)).sum() for t in touches(a, b)]).sum()


def wrench(a: Placed, b: Placed, speeds: list[Tensor], numbers: list[Tensor]) -> list[Tensor]:
    """Force on a [N], torque on a about its centre of mass [N m], and the same on b, (3,) each.

    Args:
        a: One body.
        b: The other.
        speeds: v and ω of a, v and ω of b, (3,) each.
        numbers: k [N/m], a [s/m], k_f [N s/m] and μ, () each.
    """
    va, wa, vb, wb = speeds
    stiffness, dissipation, friction_stiffness, friction = numbers
    f, ta, tb = (torch.zeros_like(va) for _ in range(3))
    for t in touches(a, b):
        arms = t.place - a.x, t.place - b.x
        u = va + linalg.cross(wa.expand_as(arms[0]), arms[0]) - vb - linalg.cross(wb.expand_as(arms[1]), arms[1])
        f_n = hunt_crossley.reference(t.gap, (u * t.normal).sum(-1), stiffness * t.share, dissipation)
        forces = point_plane.reference(u, t.normal, f_n, friction_stiffness, friction)
        couple = (stiffness * t.gap.clamp(max=0).square()[:, None] * t.turn).sum(0)
        f = f + forces.sum(0)
        ta = ta + linalg.cross(arms[0], forces).sum(0) + couple
        tb = tb - linalg.cross(arms[1], forces).sum(0) - couple
    return [f, ta, -f, tb]


def _corners(a: Placed, b: Placed) -> Touch:
    at = a.corners
    local = rotation.rotate(rotation.conjugate(b.q), at - b.x)
    distance, normal = solid_distance(local, b)
    normal = rotation.rotate(b.q, normal)
    gap = distance - a.radius - b.radius
    place = at - normal * (a.radius + gap / 2)[:, None]
    return Touch(gap, normal, place, torch.ones_like(gap), torch.zeros_like(normal))


def solid_distance(y: Tensor, b: Placed) -> tuple[Tensor, Tensor]:
    """Signed distance (n,) of places (n, 3) in the axes of b to its core, and its gradient (n, 3)."""
    core, corners = b.core, y.new_tensor(b.core.corners) * b.scale
    begin, end = corners[core.ends[:, 0]], corners[core.ends[:, 1]]
    along = end - begin
    square = along.square().sum(-1)
    t = ((y[:, None] - begin) * along).sum(-1) / select(square > 0, square, 1)
    away = y[:, None] - begin - t.clamp(0, 1)[..., None] * along
    length = away.square().sum(-1).sqrt()
    nearest = length.argmin(1)
    rows = torch.arange(len(y))
    distance, normal = length[rows, nearest], away[rows, nearest] / length[rows, nearest, None]
    if len(core.normals):
        normals, levels = y.new_tensor(core.normals), y.new_tensor(core.levels) * b.scale
        heights = y @ normals.T - levels
        top, face = heights.max(1)
        foot = y - top[:, None] * normals[face]
        over = (foot @ normals.T - levels).amax(1)
        flat = over < 1e-12 * core.reach
        distance, normal = select(flat, top, distance), select(flat[:, None], normals[face], normal)
    return distance, normal


def _edges(a: Placed, b: Placed) -> Touch:
    first, second = a.corners, b.corners
    pa, pb = first[a.core.ends[:, 0], None], second[b.core.ends[:, 0]]
    ea, eb = first[a.core.ends[:, 1], None] - pa, second[b.core.ends[:, 1]] - pb
    d0 = pa - pb
    ea, eb = ea.expand_as(d0), eb.expand_as(d0)
    aa, ab, bb, ad, bd = ((u * v).sum(-1) for u, v in ((ea, ea), (ea, eb), (eb, eb), (ea, d0), (eb, d0)))
    n = linalg.cross(ea, eb)
    den = n.square().sum(-1)
    slanted = den > 1e-12 * aa * bb
    root = select(slanted, den, 1)
    s, t = (ab * bd - bb * ad) / root, (aa * bd - ab * ad) / root
    free = slanted & (s > 0) & (s < 1) & (t > 0) & (t < 1)
    ends = [  # the nearest points with each end of each
        (torch.zeros_like(s), (bd / bb).clamp(0, 1)),
        (torch.ones_like(s), ((ab + bd) / bb).clamp(0, 1)),
        ((-ad / aa).clamp(0, 1), torch.zeros_like(s)),
        (((ab - ad) / aa).clamp(0, 1), torch.ones_like(s)),
    ]
    between = torch.stack([d0 + u[..., None] * ea - v[..., None] * eb for u, v in ends])
    which = between.square().sum(-1).argmin(0, keepdim=True)
    ended = torch.stack([u for u, _ in ends]).gather(0, which)[0]
    across = between.gather(0, which[..., None].expand(1, *d0.shape))[0]
    length = select(free, 1, across.square().sum(-1)).sqrt()
    outward = b.turned(b.core.outward) - a.turned(a.core.outward)[:, None]
    if not len(a.core.normals) and not len(b.core.normals):
        outward = d0
    sign = select((n * outward).sum(-1) < 0, -1.0, 1.0)
    normal = select(free[..., None], n * (sign / root.sqrt())[..., None], across / length[..., None])
    distance = select(free, (normal * d0).sum(-1), length)
    gap = distance - a.radius - b.radius
    gap = select(gap > -2 * (a.radius + b.radius), gap, 1.0)
    place = pa + select(free, s, ended)[..., None] * ea - normal * (a.radius + gap / 2)[..., None]
    y = den / (aa * bb) / PARALLEL_TOLERANCE
    share = select(y < 1, y * (2 - y), 1)
    slope = select(y < 1, 2 * (1 - y) / PARALLEL_TOLERANCE, 0) * ab / (aa * bb)
    return Touch(
        gap.flatten(), normal.flatten(0, 1), place.flatten(0, 1), share.flatten(), (n * slope[..., None]).flatten(0, 1)
    )


def depth(a: Placed, b: Placed) -> float:
    """Penetration depth of two bodies [m]; negative: minus their distance."""
    gap = min(t.gap.min().item() for t in touches(a, b))
    skins = (a.radius + b.radius).item()
    return max(-gap, *(skins + _pierced(one, other) for one, other in ((a, b), (b, a))))


def _pierced(a: Placed, b: Placed) -> float:
    """Depth below the faces of b's core of the middle of the part of an edge of a inside it; -inf if none is inside."""
    if not len(b.core.normals):
        return -torch.inf
    corners = rotation.rotate(rotation.conjugate(b.q), a.corners - b.x)
    begin, end = corners[a.core.ends[:, 0]], corners[a.core.ends[:, 1]]
    normals, levels = corners.new_tensor(b.core.normals), corners.new_tensor(b.core.levels) * b.scale
    height, slope = begin @ normals.T - levels, (end - begin) @ normals.T
    at = -height / select(slope == 0, 1e-300, slope)
    into = select(slope < 0, at, select((slope == 0) & (height > 0), 2.0, 0.0)).amax(1).clamp(min=0)
    out = select(slope > 0, at, 1.0).amin(1).clamp(max=1)
    middle = begin + ((into + out) / 2)[:, None] * (end - begin)
    deep = (levels - middle @ normals.T).amin(1)
    return select(into < out, deep, -torch.inf).max().item()
