"""The same physics step by step in plain PyTorch: what a user would write without an engine."""

from collections.abc import Mapping

import torch
from torch import Tensor

from gradsim.numerics.rotation import conjugate, exponential, multiply, rotate


def rollout(values: Mapping[str, Tensor], corners: Tensor, steps: int, dt: float) -> list[Tensor]:
    """x, q, v and angular momentum (worlds, ·) of the cube after some steps of semi-implicit Euler.

        f_n = max(0, k_e C + k_d Ċ) where C > 0,   f = f_n n − min(μ f_n / |u_t|, k_f) u_t

    Args:
        values: Parameters of the scene in `rigid.py`, (worlds, ...) by name.
        corners: Of the cube (8, 3) [m].
        steps: How many.
        dt: Step [s].
    """
    x, v, mass = values["cube.position"], values["cube.velocity"], values["cube.mass"]
    stiffness, damping, viscous, friction = (
        values[f"ground.{key}"][:, None] for key in ("stiffness", "damping", "friction_stiffness", "friction")
    )
    height, up = values["ground.height"][:, None], values["ground.normal"][:, None]
    edge = (corners.amax(0) - corners.amin(0)) * values["cube.scale"][:, None]
    moments = mass[:, None] / 12 * (edge.square().sum(-1, keepdim=True) - edge.square())
    points = corners * values["cube.scale"][:, None, None]
    q = exponential(values["cube.rotation_vector"])
    l = rotate(q, moments * rotate(conjugate(q), values["cube.angular_velocity"]))
    for _ in range(steps):
        spin = rotate(q, rotate(conjugate(q), l) / moments)
        arm = rotate(q[:, None], points)
        u = v[:, None] + torch.linalg.cross(spin[:, None].expand_as(arm), arm)
        depth, rate = height - ((x[:, None] + arm) * up).sum(-1), -(u * up).sum(-1)
        normal = torch.where(depth > 0, (stiffness * depth + damping * rate).clamp(min=0), 0)
        slip = u + rate[..., None] * up
        speed = torch.linalg.vector_norm(slip, dim=-1).clamp(min=1e-12)
        force = normal[..., None] * up - (friction * normal / speed).minimum(viscous)[..., None] * slip
        v = v + dt * (force.sum(1) / mass[:, None] + values["gravity"])
        l = l + dt * torch.linalg.cross(arm, force).sum(1)
        q = multiply(exponential(rotate(q, rotate(conjugate(q), l) / moments) * dt), q)
        x = x + dt * v
    return [x, q, v, l]
