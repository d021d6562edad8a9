"""Soft solids of quadratic tetrahedra: ten vertices each, so that bending and near incompressibility do not lock.

An element has the corners x₀ … x₃ and a vertex m_ab near the middle of each edge. Inside it

    x(L) = Σ L_a x_a + Σ L_a L_b (4 m_ab − 2 x_a − 2 x_b)        L: barycentric coordinates at rest

so F is linear in L, and four Gauss points, each with L_c = (5 + 3√5)/20 and the others (5 − √5)/20, integrate
polynomials of second degree (Hammer, Marlowe and Stroud 1956; Zienkiewicz and Taylor, The Finite Element Method). At
the point near corner c, F is that of a linear tetrahedron with the same rest shape and the corners

    y_a = z_a + g_ca,   z_a = x_a + (√5 − 1)/4 Σ_b g_ab,   g_ab = 2/√5 (2 m_ab − x_a − x_b),   g_cc = 0

Hence the forces are those of four tetrahedra of `solid` with a quarter of the volume each, carried back from y to x by
the transpose of this map: the law, its damping and its activation are those of `solid`.

The rest shape has straight edges with m_ab in their middles. Masses are lumped as Hinton, Rock and Zienkiewicz (1976)
do, in proportion to the diagonal of the consistent mass matrix, since equal row sums would make those of corners
negative: 1/36 of the element's mass on each corner and 4/27 on each edge.
"""

from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import *
from gradsim.engine.lanes import Lane, specialize
from gradsim.errors import InputError
from gradsim.physics.forces import neo_hookean
from gradsim.physics.forces.base import Force

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.forces.neo_hookean import power as linear_power
    from gradsim.physics.forces.neo_hookean import stress

EDGES = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))  # their middles are the vertices 4 to 9 of an element
MASSES = (*[1 / 36] * 4, *[4 / 27] * 6)  # of the element's, on each vertex: ∫ N² of corner and edge are as 3 to 16


def linear(lane: Lane) -> dict:
    """The functions of a linear tetrahedron that this file leaves open."""
    code = specialize(neo_hookean, lane)
    return {"stress": code.stress, "linear_power": code.power}


FORCE = Force("neo_hookean_quadratic", 10, neo_hookean.REST, neo_hookean.PARAMETERS, linear)


@wp.func  # not inlined, nor is `point_power`: called four times, that would take four times as long to build
def point(
    y0: Vec3, y1: Vec3, y2: Vec3, y3: Vec3, u0: Vec3, u1: Vec3, u2: Vec3, u3: Vec3,
    rest: Mat3, volume: Real, mu: Real, lam: Real, damping: Real, activation: Real,
) -> Mat3:  # fmt: skip
    """Forces at the corners 1, 2 and 3 of the tetrahedron of one Gauss point, as columns [N]."""
    F = columns(y1 - y0, y2 - y0, y3 - y0) * rest
    dF = columns(u1 - u0, u2 - u0, u3 - u0) * rest
    return stress(F, dF, mu, lam, damping, activation) * transpose(rest) * volume


@wp.func
def point_power(
    y0: Vec3, y1: Vec3, y2: Vec3, y3: Vec3, u0: Vec3, u1: Vec3, u2: Vec3, u3: Vec3,
    rest: Mat3, volume: Real, mu: Real, lam: Real, damping: Real, activation: Real,
    p0: Vec3, p1: Vec3, p2: Vec3, p3: Vec3,
) -> Real:  # fmt: skip
    """Virtual power of its forces."""
    return linear_power(
        y0, y1, y2, y3, u0, u1, u2, u3, rest, volume, mu, lam, damping, activation, p0, p1, p2, p3
    )  # fmt: skip


@wp.func(inline=True)
def bulge(a: Vec3, b: Vec3, middle: Vec3) -> Vec3:
    return (middle + middle - a - b) * spread(Scalar(0.8944271909999159))  # 2/√5


@wp.func(inline=True)
def share(a: Vec3) -> Vec3:
    return a * spread(Scalar(0.30901699437494745))  # (√5 − 1)/4


@wp.func(inline=True)
def linear_corners(
    x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, x4: Vec3, x5: Vec3, x6: Vec3, x7: Vec3, x8: Vec3, x9: Vec3,
):  # fmt: skip
    """z₀ … z₃, then g of the six edges: the tetrahedron of the Gauss point near corner c has the corners z_a + g_ca."""
    g4 = bulge(x0, x1, x4)
    g5 = bulge(x0, x2, x5)
    g6 = bulge(x0, x3, x6)
    g7 = bulge(x1, x2, x7)
    g8 = bulge(x1, x3, x8)
    g9 = bulge(x2, x3, x9)
    z0 = x0 + share(g4 + g5 + g6)
    z1 = x1 + share(g4 + g7 + g8)
    z2 = x2 + share(g5 + g7 + g9)
    z3 = x3 + share(g6 + g8 + g9)
    return z0, z1, z2, z3, g4, g5, g6, g7, g8, g9


@wp.func(inline=True)
def balance(H: Mat3) -> Vec3:
    """The pull on the first corner from those on the others."""
    return neg(column0(H) + column1(H) + column2(H))


@wp.func(inline=True)
def forces(
    x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, x4: Vec3, x5: Vec3, x6: Vec3, x7: Vec3, x8: Vec3, x9: Vec3,
    v0: Vec3, v1: Vec3, v2: Vec3, v3: Vec3, v4: Vec3, v5: Vec3, v6: Vec3, v7: Vec3, v8: Vec3, v9: Vec3,
    rest: Mat3, volume: Real, mu: Real, lam: Real, damping: Real, activation: Real,
):  # fmt: skip
    z0, z1, z2, z3, g4, g5, g6, g7, g8, g9 = linear_corners(x0, x1, x2, x3, x4, x5, x6, x7, x8, x9)
    u0, u1, u2, u3, d4, d5, d6, d7, d8, d9 = linear_corners(v0, v1, v2, v3, v4, v5, v6, v7, v8, v9)
    V = volume * 0.25
    A = point(z0, z1 + g4, z2 + g5, z3 + g6, u0, u1 + d4, u2 + d5, u3 + d6, rest, V, mu, lam, damping, activation)
    B = point(z0 + g4, z1, z2 + g7, z3 + g8, u0 + d4, u1, u2 + d7, u3 + d8, rest, V, mu, lam, damping, activation)
    C = point(z0 + g5, z1 + g7, z2, z3 + g9, u0 + d5, u1 + d7, u2, u3 + d9, rest, V, mu, lam, damping, activation)
    D = point(z0 + g6, z1 + g8, z2 + g9, z3, u0 + d6, u1 + d8, u2 + d9, u3, rest, V, mu, lam, damping, activation)
    # the transpose of the map: first what pulls on z, then what pulls on the bulges
    H = A + B + C + D
    t0 = balance(H)
    t1 = column0(H)
    t2 = column1(H)
    t3 = column2(H)
    two = spread(Scalar(0.8944271909999159))  # 2/√5, as in `bulge`
    h4 = (column0(A) + balance(B) + share(t0 + t1)) * two
    h5 = (column1(A) + balance(C) + share(t0 + t2)) * two
    h6 = (column2(A) + balance(D) + share(t0 + t3)) * two
    h7 = (column1(B) + column0(C) + share(t1 + t2)) * two
    h8 = (column2(B) + column0(D) + share(t1 + t3)) * two
    h9 = (column2(C) + column1(D) + share(t2 + t3)) * two
    return (
        h4 + h5 + h6 - t0, h4 + h7 + h8 - t1, h5 + h7 + h9 - t2, h6 + h8 + h9 - t3,
        neg(h4 + h4), neg(h5 + h5), neg(h6 + h6), neg(h7 + h7), neg(h8 + h8), neg(h9 + h9),
    )  # fmt: skip


@wp.func(inline=True)
def power(
    x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, x4: Vec3, x5: Vec3, x6: Vec3, x7: Vec3, x8: Vec3, x9: Vec3,
    v0: Vec3, v1: Vec3, v2: Vec3, v3: Vec3, v4: Vec3, v5: Vec3, v6: Vec3, v7: Vec3, v8: Vec3, v9: Vec3,
    rest: Mat3, volume: Real, mu: Real, lam: Real, damping: Real, activation: Real,
    w0: Vec3, w1: Vec3, w2: Vec3, w3: Vec3, w4: Vec3, w5: Vec3, w6: Vec3, w7: Vec3, w8: Vec3, w9: Vec3,
) -> Real:  # fmt: skip
    """Virtual power of the forces."""
    z0, z1, z2, z3, g4, g5, g6, g7, g8, g9 = linear_corners(x0, x1, x2, x3, x4, x5, x6, x7, x8, x9)
    u0, u1, u2, u3, d4, d5, d6, d7, d8, d9 = linear_corners(v0, v1, v2, v3, v4, v5, v6, v7, v8, v9)
    p0, p1, p2, p3, e4, e5, e6, e7, e8, e9 = linear_corners(w0, w1, w2, w3, w4, w5, w6, w7, w8, w9)
    V = volume * 0.25
    return (
        point_power(
            z0, z1 + g4, z2 + g5, z3 + g6, u0, u1 + d4, u2 + d5, u3 + d6, rest, V, mu, lam, damping, activation,
            p0, p1 + e4, p2 + e5, p3 + e6,
        )
        + point_power(
            z0 + g4, z1, z2 + g7, z3 + g8, u0 + d4, u1, u2 + d7, u3 + d8, rest, V, mu, lam, damping, activation,
            p0 + e4, p1, p2 + e7, p3 + e8,
        )
        + point_power(
            z0 + g5, z1 + g7, z2, z3 + g9, u0 + d5, u1 + d7, u2, u3 + d9, rest, V, mu, lam, damping, activation,
            p0 + e5, p1 + e7, p2, p3 + e9,
        )
        + point_power(
            z0 + g6, z1 + g8, z2 + g9, z3, u0 + d6, u1 + d8, u2 + d9, u3, rest, V, mu, lam, damping, activation,
            p0 + e6, p1 + e8, p2 + e9, p3,
        )
    )  # fmt: skip


def energy(
    x: Tensor, rest: Tensor, volume: Tensor, mu: Tensor, lam: Tensor, damping: Tensor, activation: Tensor
) -> Tensor:
    """Elastic energy (..., m) [J] of elements with vertices (..., m, 10, 3); see `neo_hookean.energy` for the others."""
    parts = [neo_hookean.energy(y, rest, volume / 4, mu, lam, damping, activation) for y in gauss(x)]
    return torch.stack(parts).sum(0)


def dissipation(x: Tensor, v: Tensor, rest: Tensor, volume: Tensor, damping: Tensor) -> Tensor:
    """Half the power lost (..., m) [W] of elements with vertices (..., m, 10, 3); see `neo_hookean.dissipation`."""
    pairs = zip(gauss(x), gauss(v), strict=True)
    return torch.stack([neo_hookean.dissipation(y, u, rest, volume / 4, damping) for y, u in pairs]).sum(0)


def reference(
    x: Tensor, v: Tensor, rest: Tensor, volume: Tensor, mu: Tensor, lam: Tensor, damping: Tensor, activation: Tensor
) -> Tensor:
    """Forces (..., m, 10, 3) [N] by the slopes of `energy` and `dissipation`, differentiable; arguments as for them."""
    elastic = lambda x: energy(x, rest, volume, mu, lam, damping, activation)
    return neo_hookean.minus_slopes(x, v, elastic, lambda x, v: dissipation(x, v, rest, volume, damping))


def gauss(x: Tensor) -> list[Tensor]:
    """The corners y (..., 4, 3) of a linear tetrahedron for each of the four Gauss points, from x (..., 10, 3)."""
    g = x.new_zeros(*x.shape[:-2], 4, 4, 3)
    for k, (a, b) in enumerate(EDGES):
        straight = x[..., a, :] + x[..., b, :]
        g[..., a, b, :] = g[..., b, a, :] = 2 / 5**0.5 * (2 * x[..., 4 + k, :] - straight)
    z = x[..., :4, :] + (5**0.5 - 1) / 4 * g.sum(-2)
    return [z + g[..., c, :, :] for c in range(4)]


def rest_shape(x: Tensor, elements: Tensor) -> dict[str, Tensor]:
    """D_m⁻¹ and V of each element.

    Args:
        x: Rest positions (n, 3) [m].
        elements: Ten vertices of each (m, 10): four corners, then the middles of `EDGES`.

    Raises:
        InputError: If one has no volume or a negative one, or an edge whose vertex is not in its middle.
    """
    constants = neo_hookean.rest_shape(x, elements[:, :4])
    for k, (a, b) in enumerate(EDGES):
        ends = x[elements[:, a]], x[elements[:, b]]
        off = torch.linalg.vector_norm(x[elements[:, 4 + k]] - (ends[0] + ends[1]) / 2, dim=-1)
        bad = (off > 1e-6 * torch.linalg.vector_norm(ends[1] - ends[0], dim=-1)).nonzero()
        if len(bad):
            e = int(bad[0, 0])
            raise InputError(
                f"tetrahedron {e}: vertex {int(elements[e, 4 + k])} is {off[e]:.3g} m off the middle of its edge; "
                "quadratic elements have straight edges at rest."
            )
    return constants


def masses(volume: Tensor, elements: Tensor, density: float | Tensor, n: int) -> Tensor:
    """Lumped masses (n,) [kg]; positive, and those of an element add up to its mass.

    Args:
        volume: Of each element (m,) [m³].
        elements: Ten vertices of each (m, 10).
        density: ρ [kg/m³], one or of each (m,).
        n: Number of vertices.
    """
    nodal = (density * volume)[:, None] * volume.new_tensor(MASSES)
    return volume.new_zeros(n).index_add(0, elements.flatten(), nodal.flatten())


__all__ = ["EDGES", "FORCE", "MASSES", "dissipation", "energy", "forces", "gauss", "masses", "power", "reference"]
__all__ += ["rest_shape"]
