"""Relaxation at one Gauss point of a quadratic tetrahedron: `relaxation.py` with the strain of `neo_hookean_quadratic.py`.

The nodes are the ten vertices in an order that begins with the corner next to the Gauss point, then the columns of A. An
element has four such orders (`VERTICES_BY_CORNER`), each with a quarter of its volume.
"""

from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor, cat

from gradsim.engine.lanes import *
from gradsim.engine.lanes import Lane, specialize
from gradsim.physics.forces import neo_hookean_quadratic, relaxation
from gradsim.physics.forces.base import Force
from gradsim.physics.forces.neo_hookean_quadratic import EDGES

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.forces.neo_hookean_quadratic import balance, linear_corners, share
    from gradsim.physics.forces.relaxation import creep, stress

CORNERS = ((0, 1, 2, 3), (1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 1, 0))  # even permutations: volumes stay positive
PLACE = {frozenset(edge): 4 + k for k, edge in enumerate(EDGES)}
VERTICES_BY_CORNER = tuple((*order, *(PLACE[frozenset((order[a], order[b]))] for a, b in EDGES)) for order in CORNERS)


def point_of(lane: Lane) -> dict:
    """The functions of other files that this one leaves open."""
    bent = specialize(neo_hookean_quadratic, lane, **neo_hookean_quadratic.linear(lane))
    branch = specialize(relaxation, lane)
    of_bent = {key: getattr(bent, key) for key in ("balance", "linear_corners", "share")}
    return of_bent | {"stress": branch.stress, "creep": branch.creep}


FORCE = Force("relaxation_quadratic", 13, relaxation.REST, relaxation.PARAMETERS, point_of)


@wp.func(inline=True)
def forces(
    x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, x4: Vec3, x5: Vec3, x6: Vec3, x7: Vec3, x8: Vec3, x9: Vec3,
    x10: Vec3, x11: Vec3, x12: Vec3,
    v0: Vec3, v1: Vec3, v2: Vec3, v3: Vec3, v4: Vec3, v5: Vec3, v6: Vec3, v7: Vec3, v8: Vec3, v9: Vec3,
    v10: Vec3, v11: Vec3, v12: Vec3,
    rest: Mat3, volume: Real, mu: Real, lam: Real, rate: Real, response: Real, inertia: Real, gravity: Vec3,
):  # fmt: skip
    z0, z1, z2, z3, g4, g5, g6, _g7, _g8, _g9 = linear_corners(x0, x1, x2, x3, x4, x5, x6, x7, x8, x9)
    F = columns(z1 + g4 - z0, z2 + g5 - z0, z3 + g6 - z0) * rest
    D = transpose(F) * F - columns(x10, x11, x12)
    A = stress(F, D, mu, lam) * transpose(rest) * volume
    t0 = balance(A)
    t1 = column0(A)
    t2 = column1(A)
    t3 = column2(A)
    two = spread(Scalar(0.8944271909999159))  # 2/√5, as in `bulge`
    h4 = (t1 + share(t0 + t1)) * two
    h5 = (t2 + share(t0 + t2)) * two
    h6 = (t3 + share(t0 + t3)) * two
    h7 = share(t1 + t2) * two
    h8 = share(t1 + t3) * two
    h9 = share(t2 + t3) * two
    c0, c1, c2 = creep(D, v10, v11, v12, rate, response, inertia, gravity)
    return (
        h4 + h5 + h6 - t0, h4 + h7 + h8 - t1, h5 + h7 + h9 - t2, h6 + h8 + h9 - t3,
        neg(h4 + h4), neg(h5 + h5), neg(h6 + h6), neg(h7 + h7), neg(h8 + h8), neg(h9 + h9),
        c0, c1, c2,
    )  # fmt: skip


def corners(x: Tensor) -> Tensor:
    """Corners of the linear tetrahedron of the Gauss point near the first corner, then A (..., 7, 3), of (..., 13, 3)."""
    return cat([neo_hookean_quadratic.gauss(x[..., :10, :])[0], x[..., 10:, :]], -2)


def energy(x: Tensor, rest: Tensor, volume: Tensor, mu: Tensor, lam: Tensor, **unused: Tensor) -> Tensor:
    """Energy of the branch (..., m) [J] at points with nodes (..., m, 13, 3); see `relaxation.energy` for the others."""
    return relaxation.energy(corners(x), rest, volume, mu, lam, **unused)


def reference(x: Tensor, v: Tensor, **parameters: Tensor) -> Tensor:
    """Forces (..., m, 13, 3), from positions and velocities of that shape; the others as for `relaxation.reference`."""
    of_corners = relaxation.reference(corners(x), corners(v), **parameters)
    ones = torch.eye(10, dtype=x.dtype, device=x.device)[..., None].expand(10, 10, 3)
    to_corners = neo_hookean_quadratic.gauss(ones)[0][..., 0].T  # (4, 10)
    return cat([to_corners.mT @ of_corners[..., :4, :], of_corners[..., 4:, :]], -2)


__all__ = ["FORCE", "VERTICES_BY_CORNER", "corners", "energy", "forces", "reference"]
