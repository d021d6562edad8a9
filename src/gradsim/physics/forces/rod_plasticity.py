"""Plastic bending and twist of a rod at the vertex between two edges: a spring in series with a viscoplastic element, a template.

With the strains s = (κ1, κ2, τ) of `rod_bending.py` and the plastic strain A, which takes the place of a change of s̄,

    Ψ = ½ Σ k (s - s̄ - A)² + ½ H |A|²                            elastic energy, and that of hardening [J]
    M = k (s - s̄ - A),   f = -Σ (M + c s') ∂s/∂x                 moments [N m], forces
    N² = M̂1² + M̂2² + w M̂3²,   M̂ = M - H A                        w = (M_y/T_y)², 0 where twist does not yield
    Ȧ = max(0, 1 - M_y/N)/(k1 T) (M̂1, M̂2, w M̂3)                  Bingham's flow, normal to N = M_y

(Perzyna 1966; Simo and Hughes, Computational Inelasticity, 1998, §1.7 and §2.7). It loses M̂·Ȧ = N² max(0, 1 - M_y/N)/(k1 T), at least 0, and nothing where
N ≤ M_y. In a steady bend of the rate ṡ the moment is M_y + k1 T ṡ; for T → 0 that is perfect plasticity with the yield moment M_y and, with H, the slope k H/(k + H)
of Prager's kinematic hardening. Ȧ is continuous, with a kink at N = M_y.

A is one point behind the nodes, moved as the points of `relaxation.py` are: m Ä = m/θ (flow - Ȧ).
"""

from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor, stack

from gradsim.engine.lanes import *
from gradsim.physics.forces import rod_bending
from gradsim.physics.forces.base import Force
from gradsim.physics.forces.rod_relaxation import bend_of

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.forces.rod_bending import bend

LEAST_SQUARE = 0.25  # of N/M_y, as a divisor: nothing flows below 1

FORCE = Force(
    "rod_plasticity",
    nodes=6,
    parameters={
        **rod_bending.FORCE.parameters,
        "yield_moment": "Real",  # M_y [N m]
        "twist_weight": "Real",  # w
        "hardening": "Real",  # H [N m]
        "fluidity": "Real",  # 1/(k1 T) [1/(N m s)]
        "response": "Real",  # this and the next as of `relaxation`
        "inertia": "Real",
        "gravity": "Vec3",
    },
    bind=bend_of,
)


@wp.func(inline=True)
def forces(
    x0: Vec3, x1: Vec3, x2: Vec3, x3: Vec3, x4: Vec3, x5: Vec3,
    v0: Vec3, v1: Vec3, v2: Vec3, v3: Vec3, v4: Vec3, v5: Vec3,
    rest_curvature1: Real, rest_curvature2: Real, rest_twist: Real,
    bending1: Real, bending2: Real, twisting: Real,
    bending_damping1: Real, bending_damping2: Real, twisting_damping: Real,
    yield_moment: Real, twist_weight: Real, hardening: Real, fluidity: Real, response: Real, inertia: Real, gravity: Vec3,
):  # fmt: skip
    one = spread(Scalar(1.0))
    none = zero(0)
    first = dot(x5, vec3(one, none, none))
    second = dot(x5, vec3(none, one, none))
    third = dot(x5, vec3(none, none, one))
    f0, f1, f2, f3, f4, curvature1, curvature2, twist = bend(
        x0, x1, x2, x3, x4, v0, v1, v2, v3, v4,
        rest_curvature1 + first, rest_curvature2 + second, rest_twist + third,
        bending1, bending2, twisting, bending_damping1, bending_damping2, twisting_damping,
    )  # fmt: skip
    m1 = bending1 * (curvature1 - rest_curvature1 - first) - hardening * first
    m2 = bending2 * (curvature2 - rest_curvature2 - second) - hardening * second
    m3 = twisting * (twist - rest_twist - third) - hardening * third
    share = (m1 * m1 + m2 * m2 + twist_weight * m3 * m3) / (yield_moment * yield_moment)
    beyond = max(1.0 - 1.0 / sqrt(max(share, spread(Scalar(LEAST_SQUARE)))), none)
    flow = vec3(m1, m2, twist_weight * m3) * (beyond * fluidity)
    return f0, f1, f2, f3, f4, (flow - v5) * (inertia * response) - gravity * inertia


def energy(
    x: Tensor,
    rest_curvature1: Tensor,
    rest_curvature2: Tensor,
    rest_twist: Tensor,
    bending1: Tensor,
    bending2: Tensor,
    twisting: Tensor,
    hardening: Tensor,
    **unused: Tensor,
) -> Tensor:
    """Energy Ψ [J] (..., elements); its negative gradient is the force on the nodes, without damping, and M̂ that on A.

    Args:
        x: Nodes of `rod_bending` [m], then A (..., elements, 6, 3).
        rest_curvature1, rest_curvature2, rest_twist: s̄ (..., elements).
        bending1, bending2, twisting: k of the three strains [N m].
        hardening: H [N m].
        unused: The other parameters have no energy.
    """
    A = x[..., 5, :]
    off = rod_bending.strains(x[..., :5, :]) - stack([rest_curvature1, rest_curvature2, rest_twist], -1) - A
    stiffness = stack([bending1, bending2, twisting], -1)
    return 0.5 * (stiffness * off.square() + hardening[..., None] * A.square()).sum(-1)


def flow_rate(effective: Tensor, yield_moment: Tensor, twist_weight: Tensor, fluidity: Tensor) -> Tensor:
    """Flow of A [1/s] (..., 3).

    Args:
        effective: M̂ [N m] (..., 3).
        yield_moment: M_y [N m] (...).
        twist_weight: w (...).
        fluidity: 1/(k1 T) [1/(N m s)] (...).
    """
    one = torch.ones_like(twist_weight)
    normal = stack([one, one, twist_weight], -1) * effective
    size = (normal * effective).sum(-1).sqrt()
    beyond = torch.where(size > yield_moment, 1 - yield_moment / size.clamp(min=1e-300), 0.0)
    return (beyond * fluidity)[..., None] * normal


def reference(x: Tensor, v: Tensor, **numbers: Tensor) -> Tensor:
    """Forces (..., elements, 6, 3), from positions and velocities of that shape, by automatic derivatives of the strains.

    Args:
        x: Nodes of `rod_bending` [m], then A.
        v: Their rates.
        numbers: Parameters of `FORCE` by name (..., elements).
    """
    of = lambda *names: stack([numbers[name] for name in names], -1)
    with torch.enable_grad():
        at = x if x.requires_grad else x.detach().requires_grad_()
        s = rod_bending.strains(at[..., :5, :])
        rows = [torch.autograd.grad(s[..., k].sum(), at, create_graph=True)[0][..., :5, :] for k in range(3)]
    slope = stack(rows, -3)  # (..., elements, 3, 5, 3)
    A, rate = x[..., 5, :], (slope * v[..., None, :5, :]).sum((-1, -2))
    off = s - of("rest_curvature1", "rest_curvature2", "rest_twist") - A
    moment = of("bending1", "bending2", "twisting") * off
    total = moment + of("bending_damping1", "bending_damping2", "twisting_damping") * rate
    effective = moment - numbers["hardening"][..., None] * A
    flow = flow_rate(effective, *(numbers[key] for key in ("yield_moment", "twist_weight", "fluidity")))
    inertia = numbers["inertia"][..., None]
    creep = inertia * numbers["response"][..., None] * (flow - v[..., 5, :]) - inertia * numbers["gravity"]
    return torch.cat([-(total[..., None, None] * slope).sum(-3), creep[..., None, :]], -2)


__all__ = ["FORCE", "energy", "flow_rate", "reference"]
