"""Plastic bending of sheets: the spring of a hinge in series with a viscoplastic element, a template.

With the angle φ, the weight w and d = -∂φ/∂x of `bending.py`, a hinge has a plastic angle A, which takes the place of a change of φ0,

    Ψ = 4 w k sin²((φ - φ0 - A)/4 + α/2) + ½ H A²                elastic energy, and that of hardening [J]
    M = w k sin((φ - φ0 - A)/2 + α),   f = (M + w c φ') d        moment [N m], forces
    Ȧ = max(0, 1 - M_y/|M̂|) M̂/(½ w k T),   M̂ = M - H A           Bingham's flow; ½ w k: stiffness of small angles

as of `rod_plasticity.py`, with one angle: it loses M̂ Ȧ ≥ 0, nothing where |M̂| ≤ M_y, and for T → 0 is perfect plasticity with the moment M_y. M is at most
w k, so a hinge whose M_y is above that never yields.

A is the first coordinate of a point behind the vertices, moved as those of `relaxation.py` are; the other two are 0.
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
    from gradsim.physics.forces.bending import bend

LEAST_SQUARE = 0.25  # of |M̂|/M_y, as a divisor: nothing flows below 1


def bend_of(lane: Lane) -> dict:
    """The function of `bending` that this file leaves open."""
    return {"bend": specialize(bending, lane).bend}


FORCE = Force(
    "bending_plasticity",
    nodes=5,
    rest=bending.FORCE.rest,
    parameters={
        **bending.FORCE.parameters,
        "yield_moment": "Real",  # M_y [N m]
        "hardening": "Real",  # H [N m]
        "fluidity": "Real",  # 1/(½ w k T) [1/(N m s)]
        "response": "Real",  # this and the next as of `relaxation`
        "inertia": "Real",
        "gravity": "Vec3",
    },
    bind=bend_of,
)


@wp.func(inline=True)
def forces(
    x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, x4: Vec3,
    v0: Vec3, v1: Vec3, v2: Vec3, v3: Vec3, v4: Vec3,
    weight: Real, cos_half: Real, sin_half: Real, least_edge: Real, least_normal: Real,
    stiffness: Real, damping: Real, activation: Real,
    yield_moment: Real, hardening: Real, fluidity: Real, response: Real, inertia: Real, gravity: Vec3,
):  # fmt: skip
    axis = vec3(spread(Scalar(1.0)), zero(0), zero(0))
    A = dot(x4, axis)
    f0, f1, f2, f3, bent = bend(
        x0, x1, x2, x3, v0, v1, v2, v3, weight, cos_half, sin_half, least_edge, least_normal,
        stiffness, damping, activation - A * 0.5,
    )  # fmt: skip
    moment = weight * stiffness * bent - hardening * A
    share = moment * moment / (yield_moment * yield_moment)
    beyond = max(1.0 - 1.0 / sqrt(max(share, spread(Scalar(LEAST_SQUARE)))), zero(0))
    flow = axis * (moment * beyond * fluidity)
    return f0, f1, f2, f3, (flow - v4) * (inertia * response) - gravity * inertia


def energy(x: Tensor, *shape: Tensor, activation: Tensor | float = 0.0, hardening: Tensor, **numbers: Tensor) -> Tensor:
    """Energy Ψ [J] (..., hinges); its negative gradient is the force on the vertices, without damping, and M̂ that on A.

    Args:
        x: Vertices [m], then the point with A (..., hinges, 5, 3).
        shape: Constants of `bending`, where they are not among the numbers.
        activation: α [rad].
        hardening: H [N m].
        numbers: Those of `bending.energy`; the others have no energy.
    """
    A = x[..., 4, 0]
    known = {key: y for key, y in numbers.items() if key in (*bending.FORCE.rest, *bending.FORCE.parameters)}
    return bending.energy(x[..., :4, :], *shape, **known, activation=activation - A / 2) + 0.5 * hardening * A.square()


def reference(x: Tensor, v: Tensor, **numbers: Tensor) -> Tensor:
    """Forces (..., hinges, 5, 3), from positions and velocities of that shape, by automatic derivatives of the energy.

    Collapsed triangles and folds that are shut are left out, as by `bending.reference`.

    Args:
        x: Vertices [m], then the point with A.
        v: Their rates.
        numbers: Constants and parameters of `FORCE` by name (..., hinges).
    """
    with torch.enable_grad():
        at = x if x.requires_grad else x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(energy(at, **numbers).sum(), at, create_graph=True)
        (turn,) = torch.autograd.grad(bending.angle(at[..., :4, :]).sum(), at, create_graph=True)
    slowing = numbers["weight"] * numbers["damping"] * (turn * v).sum((-2, -1))
    moment = -slope[..., 4, 0]
    size, most = moment.abs(), numbers["yield_moment"]
    beyond = torch.where(size > most, 1 - most / size.clamp(min=1e-300), 0.0)
    flow = beyond * moment * numbers["fluidity"]
    flow = stack([flow, zeros_like(flow), zeros_like(flow)], -1)
    inertia = numbers["inertia"][..., None]
    creep = inertia * numbers["response"][..., None] * (flow - v[..., 4, :]) - inertia * numbers["gravity"]
    f = -slope - slowing[..., None, None] * turn
    return torch.cat([f[..., :4, :], creep[..., None, :]], -2)


__all__ = ["FORCE", "energy", "reference"]
