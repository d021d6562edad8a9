"""Hold the frame point of an edge of a rod, which carries its material frame, a template.

Nodes are the ends of an edge, x0 and x1, then its frame point x2. With e = x1 - x0, t = e/|e| and p from the middle of
the edge to the frame point, for the arm a:

    s1 = p·t,   s2 = (p·p - a²)/(2 a)                     along the edge; off the circle of radius a about it
    ∂s1/∂p = t,  ∂s1/∂e = (p - (p·t) t)/|e|,  ∂s2/∂p = p/a
    M = k s + c s',   f = -Σ M ∂s/∂x,   E = ½ k (s1² + s2²)

The angle of p about the edge, which is that of the frame (`rod_bending.py`), has no force. |e| is at least 1 pm as a divisor.
"""

import warp as wp
from torch import Tensor, stack

from gradsim.engine.lanes import *
from gradsim.physics.forces.base import Force

EPSILON = 1e-12  # [m]; its square, and the inverse of that, are numbers of float32
EPSILON_SQUARED = Scalar(EPSILON**2)  # a bare number would pass through float32

FORCE = Force("rod_frame", nodes=3, parameters={"arm": "Real", "stiffness": "Real", "damping": "Real"})


@wp.func(inline=True)
def forces(x0: Vec3, x1: Vec3, x2: Vec3, v0: Vec3, v1: Vec3, v2: Vec3, arm: Real, stiffness: Real, damping: Real):
    half = spread(Scalar(0.5))
    e = x1 - x0
    inverse = 1.0 / sqrt(max(dot(e, e), spread(EPSILON_SQUARED)))
    t = e * inverse
    p = x2 - (x0 + x1) * half
    r = v2 - (v0 + v1) * half
    along = dot(p, t)
    slope = (p - t * along) * inverse  # ∂s1/∂e
    off = (dot(p, p) / arm - arm) * 0.5
    m1 = stiffness * along + damping * (dot(t, r) + dot(slope, v1 - v0))
    m2 = (stiffness * off + damping * (dot(p, r) / arm)) / arm
    g = slope * m1  # ∂E/∂e
    h = t * m1 + p * m2  # ∂E/∂p
    return g + h * half, h * half - g, neg(h)


def energy(x: Tensor, arm: Tensor, stiffness: Tensor, damping: Tensor | None = None) -> Tensor:
    """Energy [J] (..., edges).

    Args:
        x: Positions of ends and frame point [m] (..., edges, 3, 3).
        arm: a [m] (..., edges).
        stiffness: k [N/m] (..., edges).
        damping: Has no energy.
    """
    along, off, *_ = _parts(x, arm)
    return 0.5 * stiffness * (along.square() + off.square())


def reference(x: Tensor, v: Tensor, arm: Tensor, stiffness: Tensor, damping: Tensor) -> Tensor:
    """Forces on the nodes [N] (..., edges, 3, 3), from positions and velocities of that shape; the same in PyTorch."""
    along, off, p, t, slope = _parts(x, arm)
    u0, u1, u2 = v.unbind(-2)
    r = u2 - (u0 + u1) / 2
    m1 = stiffness * along + damping * ((t * r).sum(-1) + (slope * (u1 - u0)).sum(-1))
    m2 = stiffness * off + damping * (p * r).sum(-1) / arm
    g, h = m1[..., None] * slope, m1[..., None] * t + (m2 / arm)[..., None] * p
    return stack([g + h / 2, h / 2 - g, -h], -2)


def _parts(x: Tensor, arm: Tensor):
    x0, x1, x2 = x.unbind(-2)
    e, p = x1 - x0, x2 - (x0 + x1) / 2
    inverse = 1 / e.square().sum(-1, keepdim=True).clamp(min=EPSILON**2).sqrt()
    t = e * inverse
    along = (p * t).sum(-1)
    off = (p.square().sum(-1) / arm - arm) / 2
    return along, off, p, t, (p - along[..., None] * t) * inverse


__all__ = ["EPSILON", "FORCE", "energy", "reference"]
