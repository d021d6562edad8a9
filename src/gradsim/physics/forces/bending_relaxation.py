"""Relaxation of bending of sheets: one Maxwell branch of a hinge, a template.

With the dihedral angle φ, the weight w and d = -∂φ/∂x of `bending.py`, a hinge of a branch of stiffness k has

    s = 2 sin(φ/2),   D = s - A,   Ȧ = D/τ           τ: relaxation time [s]
    Ψ = ¼ w k D²                                     energy of the branch [J]
    f = ½ w k D cos(φ/2) d                           -∂Ψ/∂x

For small changes of φ it adds k e^(-t/τ) to the stiffness. s has no jump where a sheet folds shut, as the sine of `bending.py` has, and no moment there.

A is the first coordinate of a point behind the vertices, moved as those of `relaxation.py` are; the other two follow 0.
"""

from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor, stack, zeros_like

from gradsim.engine.lanes import *
from gradsim.engine.lanes import Lane, specialize
from gradsim.physics.forces import bending
from gradsim.physics.forces.base import Force

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.forces.bending import fold


def fold_of(lane: Lane) -> dict:
    """The function of `bending` that this file leaves open."""
    return {"fold": specialize(bending, lane).fold}


FORCE = Force(
    "bending_relaxation",
    nodes=5,
    rest={"weight": "Real", "least_edge": "Real", "least_normal": "Real"},
    parameters={  # [N m], then as of `relaxation`
        "stiffness": "Real",
        "rate": "Real",
        "response": "Real",
        "inertia": "Real",
        "gravity": "Vec3",
    },
    bind=fold_of,
)


@wp.func(inline=True)
def forces(
    x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, x4: Vec3,
    v0: Vec3, v1: Vec3, v2: Vec3, v3: Vec3, v4: Vec3,
    weight: Real, least_edge: Real, least_normal: Real,
    stiffness: Real, rate: Real, response: Real, inertia: Real, gravity: Vec3,
):  # fmt: skip
    c, s, d0, d1, d2, d3 = fold(x0, x1, x2, x3, least_edge, least_normal)
    axis = vec3(spread(Scalar(1.0)), zero(0), zero(0))
    D = s * 2.0 - dot(x4, axis)
    f = weight * stiffness * D * c * 0.5
    creep = (axis * (s * 2.0) - x4) * rate
    return d0 * f, d1 * f, d2 * f, d3 * f, (creep - v4) * (inertia * response) - gravity * inertia


def strain(x: Tensor) -> Tensor:
    """s (..., hinges) of vertices (..., hinges, 4, 3) [m]."""
    return 2 * (bending.angle(x) / 2).sin()


def energy(x: Tensor, weight: Tensor, stiffness: Tensor, **unused: Tensor) -> Tensor:
    """Energy Ψ of the branch [J] (..., hinges); its negative gradient by the vertices is the definition of their force.

    Args:
        x: Vertices [m], then the point with A (..., hinges, 5, 3).
        weight: w, as `bending.rest_shape` gives it.
        stiffness: k of the branch [N m].
        unused: The other parameters have no energy.
    """
    return 0.25 * weight * stiffness * (strain(x[..., :4, :]) - x[..., 4, 0]).square()


def reference(
    x: Tensor,
    v: Tensor,
    weight: Tensor,
    least_edge: Tensor,
    least_normal: Tensor,
    stiffness: Tensor,
    rate: Tensor,
    response: Tensor,
    inertia: Tensor,
    gravity: Tensor,
) -> Tensor:
    """Forces (..., hinges, 5, 3), from positions and velocities of that shape, by automatic derivatives of the energy.

    Collapsed triangles and folds that are shut are left out, as by `bending.reference`.
    """
    with torch.enable_grad():
        at = x if x.requires_grad else x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(energy(at, weight, stiffness).sum(), at, create_graph=True)
    s = strain(x[..., :4, :])
    wide = lambda y: y[..., None]
    aim = stack([s, zeros_like(s), zeros_like(s)], -1) - x[..., 4, :]
    creep = wide(inertia * response) * (wide(rate) * aim - v[..., 4, :]) - wide(inertia) * gravity
    return torch.cat([-slope[..., :4, :], creep[..., None, :]], -2)


__all__ = ["FORCE", "energy", "reference", "strain"]
