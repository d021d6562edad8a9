"""Relaxation of bending and twist of a rod: one Maxwell branch at a vertex, a template.

With the strains s = (κ1, κ2, τ) of `rod_bending.py`, a vertex has others, A, that creep after them, and a moment that adds to
that of the stiffness which lasts:

    Ψ = ½ Σ k D²,   D = s - A                 energy of the branch [J]
    Ȧ = D/T                                   T: relaxation time [s]
    M = k D,   f = -Σ M ∂s/∂x

The branch adds k e^(-t/T) to the stiffness a time t after a sudden strain (Christensen, Theory of Viscoelasticity, 1982, §1.6).
It loses 2 Ψ/T, nothing in a rigid motion, since strains are those of the material frame, and all of its moment in a strain that lasts.

A is one point behind the nodes, moved as the points of `relaxation.py` are: m Ä = m/θ (D/T - Ȧ).
"""

from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor, stack

from gradsim.engine.lanes import *
from gradsim.engine.lanes import Lane, specialize
from gradsim.physics.forces import rod_bending
from gradsim.physics.forces.base import Force

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.forces.rod_bending import bend

STIFFNESS = ("bending1", "bending2", "twisting")


def bend_of(lane: Lane) -> dict:
    """The function of `rod_bending` that this file leaves open."""
    return {"bend": specialize(rod_bending, lane).bend}


FORCE = Force(
    "rod_relaxation",
    nodes=6,
    parameters={
        **dict.fromkeys(STIFFNESS, "Real"),  # of the branch [N m]
        "rate": "Real",  # this and the next as of `relaxation`
        "response": "Real",
        "inertia": "Real",
        "gravity": "Vec3",
    },
    bind=bend_of,
)


@wp.func(inline=True)
def forces(
    x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, x4: Vec3, x5: Vec3,
    v0: Vec3, v1: Vec3, v2: Vec3, v3: Vec3, v4: Vec3, v5: Vec3,
    bending1: Real, bending2: Real, twisting: Real, rate: Real, response: Real, inertia: Real, gravity: Vec3,
):  # fmt: skip
    one = spread(Scalar(1.0))
    none = zero(0)
    first = dot(x5, vec3(one, none, none))
    second = dot(x5, vec3(none, one, none))
    third = dot(x5, vec3(none, none, one))
    f0, f1, f2, f3, f4, curvature1, curvature2, twist = bend(
        x0, x1, x2, x3, x4, v0, v1, v2, v3, v4, first, second, third, bending1, bending2, twisting, none, none, none
    )
    D = vec3(curvature1 - first, curvature2 - second, twist - third)
    creep = (D * rate - v5) * (inertia * response) - gravity * inertia
    return f0, f1, f2, f3, f4, creep


def energy(x: Tensor, bending1: Tensor, bending2: Tensor, twisting: Tensor, **unused: Tensor) -> Tensor:
    """Energy Ψ of the branch [J] (..., elements); its negative gradient by the nodes is the definition of their force.

    Args:
        x: Nodes of `rod_bending` [m], then A (..., elements, 6, 3).
        bending1, bending2, twisting: k of the three strains [N m] (..., elements).
        unused: The other parameters have no energy.
    """
    off = rod_bending.strains(x[..., :5, :]) - x[..., 5, :]
    return 0.5 * (stack([bending1, bending2, twisting], -1) * off.square()).sum(-1)


def reference(
    x: Tensor,
    v: Tensor,
    bending1: Tensor,
    bending2: Tensor,
    twisting: Tensor,
    rate: Tensor,
    response: Tensor,
    inertia: Tensor,
    gravity: Tensor,
) -> Tensor:
    """Forces (..., elements, 6, 3), from positions and velocities of that shape, by automatic derivatives of the energy."""
    with torch.enable_grad():
        at = x if x.requires_grad else x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(energy(at, bending1, bending2, twisting).sum(), at, create_graph=True)
    wide = lambda y: y[..., None]
    D = rod_bending.strains(x[..., :5, :]) - x[..., 5, :]
    creep = wide(inertia * response) * (wide(rate) * D - v[..., 5, :]) - wide(inertia) * gravity
    return torch.cat([-slope[..., :5, :], creep[..., None, :]], -2)


__all__ = ["FORCE", "STIFFNESS", "energy", "reference"]
