"""Compliant contact of a vertex with a triangle of another piece of surface, from both sides, a template.

    c = Σ w_k x_k the point of the triangle nearest to the vertex x0,   e = x0 − c,   n = e/|e|
    gap = |e| − thickness
    u = v0 − Σ w_k v_k − Ω × e                        Ω: angular velocity of the triangle
    f = f_n n − min(μ f_n / |u_t|, k_f) u_t           as in `vertex_plane.py`
    f0 = f,   f_k = −w_k f − ∂(Ω · (e × f))/∂v_k      the power is f · u, so momenta are kept and friction takes energy
    Ω = ½ (g₁ × ė₁ + g₂ × ė₂ + n_t × ṅ_t),   ṅ_t = −g₁ (ė₁ · n_t) − g₂ (ė₂ · n_t)

e₁, e₂: edges from the first corner, g₁, g₂: their reciprocal vectors in the plane, n_t: normal of the triangle. Ω is
exact for every rigid motion, which makes no slip; without it friction across the thickness would turn a spinning body.

The triangle is convex, so the distance is differentiable where it is not 0, edges and corners of the triangle included,
and n is continuous: forces are continuous, and their derivatives are those of the region of the nearest point (face,
edge or corner). The sum over triangles counts a nearest point on an edge twice, so a surface is somewhat stiffer above
its edges. The side of a vertex is where it is: what crosses the surface in spite of the force is pushed out on the other
side. To stop mass m at speed v the stiffness has to be above m v² / thickness². Edges pass through edges.
"""

from functools import cache, partial
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import *
from gradsim.physics.contact import hunt_crossley, point_plane
from gradsim.physics.contact.laws import contact_functions
from gradsim.physics.forces.base import Force

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.point_plane import contact_force

PARAMETERS = {
    "thickness": "Real",  # [m]
    "stiffness": "Real",  # k_e [N/m], of one vertex; so the next three
    "damping": "Real",  # of the law
    "friction_stiffness": "Real",  # k_f [N s/m]
    "friction": "Real",  # μ
}
MIN_AREA = 1e-30  # [m²], keeps the derivatives finite at no distance and of a triangle without area


@wp.func(inline=True)
def along(d: Vec3, to: Vec3) -> Real:
    """The place on the edge `to` nearest to d, from 0 to 1."""
    t = dot(d, to) / max(dot(to, to), spread(Scalar(MIN_AREA)))
    return max(zero(0), min(t, spread(Scalar(1.0))))


@wp.func(inline=True)
def nearest(d: Vec3, e1: Vec3, e2: Vec3):
    """Weights of the second and third corner at the nearest point to d; all from the first corner."""
    one = spread(Scalar(1.0))
    t1 = along(d, e1)
    t2 = along(d, e2)
    t3 = along(d - e1, e2 - e1)
    from1 = d - e1 * t1
    from2 = d - e2 * t2
    from3 = d - e1 - (e2 - e1) * t3
    s1 = dot(from1, from1)
    s2 = dot(from2, from2)
    s3 = dot(from3, from3)
    second = less(s2, s1)
    b = where(second, zero(0), t1)
    c = where(second, t2, zero(0))
    third = less(s3, min(s1, s2))
    b = where(third, one - t3, b)
    c = where(third, t3, c)
    a = cross(e1, e2)
    area = dot(a, a)
    p = dot(cross(d, e2), a)
    q = dot(cross(e1, d), a)
    inside = less(zero(0), min(min(p, q), area - p - q))
    whole = where(inside, area, one)
    return where(inside, p / whole, b), where(inside, q / whole, c)


@wp.func(inline=True)
def active(x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, thickness: Real) -> Mask:
    """True for a vertex near the plane and not far from the first corner; a cheap test that every contact passes."""
    d = x0 - x1
    e1 = x2 - x1
    e2 = x3 - x1
    a = cross(e1, e2)
    height = dot(d, a)
    square = thickness * thickness
    above = height * height - square * dot(a, a)
    beyond = dot(d, d) - (max(dot(e1, e1), dot(e2, e2)) + square) * 2.0
    return less(max(above, beyond), zero(0))


@wp.func(inline=True)
def forces(
    x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, v0: Vec3, v1: Vec3, v2: Vec3, v3: Vec3, thickness: Real, stiffness: Real,
    damping: Real, friction_stiffness: Real, friction: Real,
):  # fmt: skip
    d = x0 - x1
    e1 = x2 - x1
    e2 = x3 - x1
    w2, w3 = nearest(d, e1, e2)
    e = d - e1 * w2 - e2 * w3
    distance = sqrt(max(dot(e, e), spread(Scalar(MIN_AREA))))
    gap = distance - thickness
    rate1 = v2 - v1
    rate2 = v3 - v1
    a = cross(e1, e2)
    area = max(dot(a, a), spread(Scalar(MIN_AREA)))
    g1 = cross(e2, a) * (1.0 / area)
    g2 = cross(a, e1) * (1.0 / area)
    normal = a * (1.0 / sqrt(area))
    turning = neg(g1 * dot(rate1, normal) + g2 * dot(rate2, normal))
    half = spread(Scalar(0.5))
    spin = (cross(g1, rate1) + cross(g2, rate2) + cross(normal, turning)) * half
    u = v0 - v1 - rate1 * w2 - rate2 * w3 - cross(spin, e)
    touching = contact_force(gap, u, e * (1.0 / distance), stiffness, damping, friction_stiffness, friction)
    f = where(less(gap, zero(0)), touching, zero3(0))
    m = cross(e, f)
    across = cross(m, normal)
    f2 = neg(f * w2) + (normal * dot(across, g1) - cross(m, g1)) * half
    f3 = neg(f * w3) + (normal * dot(across, g2) - cross(m, g2)) * half
    return f, neg(f + f2 + f3), f2, f3


@cache
def touch_face(law: str) -> Force:
    """The force of a contact law, a key of `contact.laws.LAWS`."""
    return Force("gradsim.physics.contact.vertex_triangle", 4, {}, PARAMETERS, partial(contact_functions, law))


def weights(x: Tensor) -> Tensor:
    """Weights (..., 3) of the corners at the point of a triangle nearest to a vertex, (..., 4, 3); the definition.

    The regions of the nearest point, one after another (Ericson, Real-Time Collision Detection 2005, 5.1.5).
    """
    p, a, b, c = x.unbind(-2)
    inner = lambda y, z: (y * z).sum(-1)
    ab, ac, ap, bp, cp = b - a, c - a, p - a, p - b, p - c
    d1, d2, d3, d4, d5, d6 = (inner(s, t) for t in (ap, bp, cp) for s in (ab, ac))
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    zero, one = torch.zeros_like(d1), torch.ones_like(d1)
    ratio = lambda y, z: y / torch.where(z == 0, one, z)
    on_ab, on_ac, on_bc = ratio(d1, d1 - d3), ratio(d2, d2 - d6), ratio(d4 - d3, d4 - d3 + d5 - d6)
    barycentric = torch.stack([va, vb, vc], -1) / torch.where(va + vb + vc == 0, one, va + vb + vc)[..., None]
    for holds, corners in (
        ((va <= 0) & (d4 - d3 >= 0) & (d5 - d6 >= 0), (zero, 1 - on_bc, on_bc)),
        ((vb <= 0) & (d2 >= 0) & (d6 <= 0), (1 - on_ac, zero, on_ac)),
        ((vc <= 0) & (d1 >= 0) & (d3 <= 0), (1 - on_ab, on_ab, zero)),
        ((d6 >= 0) & (d5 <= d6), (zero, zero, one)),
        ((d3 >= 0) & (d4 <= d3), (zero, one, zero)),
        ((d1 <= 0) & (d2 <= 0), (one, zero, zero)),
    ):  # the last that holds counts
        barycentric = torch.where(holds[..., None], torch.stack(corners, -1), barycentric)
    return barycentric


def energy(x: Tensor, thickness: Tensor, stiffness: Tensor, **_: Tensor) -> Tensor:
    """½ k_e C² [J] (..., pairs): the conservative part, of the depth C. x: vertex and corners (..., pairs, 4, 3) [m]."""
    e = x[..., 0, :] - (weights(x)[..., None] * x[..., 1:, :]).sum(-2)
    return 0.5 * stiffness * (thickness - torch.linalg.vector_norm(e, dim=-1)).clamp(min=0).square()


def slip(x: Tensor, v: Tensor, at: Tensor) -> Tensor:
    """u [m/s] (..., 3) of the vertex at weights (..., 3) of the corners; x, v (..., 4, 3)."""
    e = x[..., 0, :] - (at[..., None] * x[..., 1:, :]).sum(-2)
    edges, rates = x[..., 2:, :] - x[..., 1:2, :], v[..., 2:, :] - v[..., 1:2, :]
    a = torch.linalg.cross(edges[..., 0, :], edges[..., 1, :])
    n = a / torch.linalg.vector_norm(a, dim=-1, keepdim=True)
    frame = torch.cat([edges, n[..., None, :]], -2)  # rows
    turning = -torch.linalg.solve(frame, torch.nn.functional.pad((rates * n[..., None, :]).sum(-1), (0, 1))[..., None])
    moving = torch.cat([rates, turning.mT], -2)
    gradient = torch.linalg.solve(frame, moving)  # transposed: moving = frame @ gradient
    skew = 0.5 * (gradient.mT - gradient)
    spin = torch.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], -1)
    carried = v[..., 0, :] - (at[..., None] * v[..., 1:, :]).sum(-2)
    return carried - torch.linalg.cross(spin, e)


def reference(
    x: Tensor, v: Tensor, thickness: Tensor, stiffness: Tensor, damping: Tensor, friction_stiffness: Tensor,
    friction: Tensor,
) -> Tensor:  # fmt: skip
    """Forces [N] (..., pairs, 4, 3) of the continuous law, from positions and velocities of that shape, by virtual power."""
    at = weights(x)
    e = x[..., 0, :] - (at[..., None] * x[..., 1:, :]).sum(-2)
    distance = torch.linalg.vector_norm(e, dim=-1)
    n, u, gap = e / distance[..., None], slip(x, v, at), distance - thickness
    f_n = hunt_crossley.reference(gap, (u * n).sum(-1), stiffness, damping)
    f = point_plane.reference(u, n, f_n, friction_stiffness, friction) * (gap < 0)[..., None]
    with torch.enable_grad():
        virtual = torch.zeros_like(v).requires_grad_()
        power = (f * slip(x, virtual, at)).sum()
        return torch.autograd.grad(power, virtual, create_graph=x.requires_grad)[0]


__all__ = ["active", "energy", "forces", "reference", "touch_face", "weights"]
