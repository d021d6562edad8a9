"""The rollout of a rigid body in plain PyTorch: the definition that the lanes are held to.

m v̇ = Σ f + m g,   L̇ = Σ r × f,   ẋ = v,   Ṙ = [ω]× R,   ω = R I⁻¹ Rᵀ L
"""

from importlib import import_module

import torch
from rigid_cases import Case
from torch import Tensor, linalg

from gradsim.physics.contact import point_plane, point_sdf
from gradsim.physics.contact.laws import LAWS
from gradsim.physics.rigid.rollout import CONTACT

State = list[Tensor]  # x, q, v, l


def matrix(q: Tensor) -> Tensor:
    """Rotation matrix (worlds, 3, 3) of a unit quaternion (x, y, z, w)."""
    x, y, z, w = q.unbind(-1)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def product(p: Tensor, q: Tensor) -> Tensor:
    """Hamilton product p q."""
    u, s, v, t = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    return torch.cat([s * v + t * u + linalg.cross(u, v), s * t - (u * v).sum(-1, keepdim=True)], -1)


def turned(q: Tensor, u: Tensor) -> Tensor:
    """exp(u) q for a rotation vector u, made a unit quaternion."""
    angle = linalg.vector_norm(u, dim=-1, keepdim=True)
    q = product(torch.cat([u / angle * torch.sin(angle / 2), torch.cos(angle / 2)], -1), q)
    return q / linalg.vector_norm(q, dim=-1, keepdim=True)


def spin(case: Case, q: Tensor, l: Tensor) -> Tensor:
    R = matrix(q)
    return (R @ case["inertia_inverse"] @ R.mT @ l[..., None])[..., 0]


def touches(case: Case, x: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Gap and normal of each contact with each ground, then each obstacle: (worlds, surfaces, points, ·).

    The normal of an obstacle is the gradient of its distance, by autograd.
    """
    at = (x[:, None] + case["points"] @ matrix(q).mT)[:, None]
    planes = case["normal"][:, :, None]
    gap = (at * planes).sum(-1) - case["height"][:, :, None] - case["radius"][:, None]
    normal = planes.expand(*gap.shape, 3)
    if case["centre"].shape[1]:
        with torch.enable_grad():
            at = at if at.requires_grad else at.requires_grad_()
            offset = at - case["centre"][:, :, None]
            local = (case["axis"][:, :, None] @ offset[..., None])[..., 0]
            away = point_sdf.distance(local, case["half"][:, :, None].expand_as(local))
            (slope,) = torch.autograd.grad(away.sum(), offset, create_graph=True)
        beyond = away - case["rounding"][:, :, None] - case["radius"][:, None]
        gap, normal = torch.cat([gap, beyond], 1), torch.cat([normal, slope], 1)
    return gap, normal


def contacts(case: Case, law: str, x: Tensor, q: Tensor, v: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Arm, gap, velocity and force of each contact, (worlds, grounds and obstacles, points, ·)."""
    module = import_module(LAWS[law][0])
    gap, normal = touches(case, x, q)
    arm = (case["points"] @ matrix(q).mT)[:, None] - case["radius"][:, None, :, None] * normal
    u = v[:, None, None] + linalg.cross(w[:, None, None].expand_as(arm), arm)
    rate = (u * normal).sum(-1)
    each = {n: case[n][:, :, None] for n in CONTACT}
    if law == "paper-adhesive":
        f_n = torch.where(gap < 0, -(each["stiffness"] * gap + each["damping"] * rate), torch.zeros_like(gap))
    else:
        f_n = module.reference(gap, rate, each["stiffness"], each["damping"])
    force = point_plane.reference(u, normal, f_n, each["friction_stiffness"], each["friction"])
    return arm, gap, u, force


def wrench(case: Case, law: str, share: list[float], dt: Tensor, x: Tensor, q: Tensor, v: Tensor, w: Tensor):
    """Force and torque about the centre of mass; `share` of each impulse falls into this step of `dt` (worlds, 1)."""
    arm, _, _, force = contacts(case, law, x, q, v, w)
    f, torque = force.sum((1, 2)), linalg.cross(arm, force).sum((1, 2))
    if case["rolling"].shape[1]:
        _, normal = touches(case, x, q)
        torque = torque + rolling_torque(case, arm, normal, force, w).sum((1, 2))
    for drag in case["drag"].T:
        f = f - (drag * linalg.vector_norm(v, dim=-1))[:, None] * v
    for k, part in enumerate(share):
        push = case["impulse"][:, k] * (part / dt)
        f = f + push
        torque = torque + linalg.cross((matrix(q) @ case["push_point"][:, k, :, None])[..., 0], push)
    return f, torque


def rolling_torque(case: Case, arm: Tensor, normal: Tensor, force: Tensor, w: Tensor) -> Tensor:
    """Torque of each contact against rolling and spinning, (worlds, grounds and obstacles, points, 3)."""
    pressed = (force * normal).sum(-1).abs()
    viscous = case["friction_stiffness"][:, :, None] * arm.square().sum(-1)
    about = (w[:, None, None] * normal).sum(-1)
    along = about[..., None] * normal
    across = w[:, None, None] - along
    slope = lambda rate, lever: torch.minimum(case[lever][:, :, None] * pressed / rate, viscous)[..., None]
    return -slope(linalg.vector_norm(across, dim=-1), "rolling") * across - slope(about.abs(), "spinning") * along


def share(window: tuple[float, float], time: float, dt: float) -> float:
    """Part of a push that falls into the step that begins at `time`."""
    begin, end = window
    return max(0.0, min(time + dt, end) - max(time, begin)) / (end - begin) if end > begin else 0.0


def struck(case: Case, windows, time: float, dt: float, state: State) -> State:
    """The state after the blows that fall into the step that begins at `time`."""
    x, q, v, l = state
    for k, (begin, end) in enumerate(windows):
        if begin == end and round(begin / dt, 6) // 1 == round(time / dt):
            v = v + case["impulse"][:, k] / case["mass"][:, None]
            arm = (matrix(q) @ case["push_point"][:, k, :, None])[..., 0]
            l = l + linalg.cross(arm, case["impulse"][:, k])
    return [x, q, v, l]


def semi_implicit(case: Case, law: str, part: list[float], dt: Tensor, state: State) -> State:
    x, q, v, l = state
    f, torque = wrench(case, law, part, dt, x, q, v, spin(case, q, l))
    v = v + dt * (f / case["mass"][:, None] + case["gravity"])
    l = l + dt * torque
    return [x + dt * v, turned(q, dt * spin(case, q, l)), v, l]


def rk4(case: Case, law: str, part: list[float], dt: Tensor, state: State) -> State:
    def rates(state: State) -> State:
        x, q, v, l = state
        q = q / linalg.vector_norm(q, dim=-1, keepdim=True)
        w = spin(case, q, l)
        f, torque = wrench(case, law, part, dt, x, q, v, w)
        turning = 0.5 * product(torch.cat([w, torch.zeros_like(w[:, :1])], -1), q)
        return [v, turning, f / case["mass"][:, None] + case["gravity"], torque]

    def moved(h: Tensor, rate: State) -> State:
        return [y + h * r for y, r in zip(state, rate, strict=True)]

    k1 = rates(state)
    k2 = rates(moved(dt / 2, k1))
    k3 = rates(moved(dt / 2, k2))
    k4 = rates(moved(dt, k3))
    x, q, v, l = moved(dt / 6, [a + 2 * b + 2 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True)])
    return [x, q / linalg.vector_norm(q, dim=-1, keepdim=True), v, l]


def rollout(
    case: Case, frames: int, dt: float, windows=(), law="continuous", integrator="semi-implicit"
) -> list[Tensor]:
    """What `RigidRollout(frames, 1, dt, windows, law, integrator).run` returns."""
    step = {"semi-implicit": semi_implicit, "rk4": rk4}[integrator]
    state = [case[name] for name in "xqvl"]
    history = [state]
    lengths = case["step"] if case["step"].shape[1] else case["x"].new_full((len(case["x"]), frames - 1), dt)
    for k in range(frames - 1):
        parts = [share(window, k * dt, dt) for window in windows]
        state = step(case, law, parts, lengths[:, k, None], struck(case, windows, k * dt, dt, state))
        history.append(state)
    return [torch.stack(states, 1) for states in zip(*history, strict=True)]
