"""Bodies held by joints as a textbook has them: multipliers and accelerations in float64, and one step of Runge–Kutta.

    M u' + Jᵀ μ = f,   J u' = −(d/dt J) u,   u = (v, ω) of all bodies

J is the matrix of the rates of the rows, which are linear in u, and its change in time is theirs along the motion; springs,
dampers and motors act along the rates of the coordinates. Nothing here is the kernels'.
"""

from typing import Any

import torch
from torch import Tensor

from gradsim import Model
from gradsim.numerics import rotation
from gradsim.scene.joint import Ball, Prismatic


class Reference:
    """The motion of a model of one group of rigid bodies with joints: world 0, at the model's own parameters."""

    def __init__(self, model: Model):
        (group,) = model.groups
        self.joints: Any = group.joints  # pyright: ignore[reportAttributeAccessIssue]
        self.bodies: Any = group.systems
        self.values = {name: v.detach()[:1] for name, v in model.values().items()}
        self.inertia = torch.cat([b.inertia(self.values) for b in self.bodies])
        self.mass = torch.cat([b.mass(self.values) for b in self.bodies])
        self.n = len(self.bodies)

    def start(self) -> list[Tensor]:
        """x (n, 3), q (n, 4) and u (n, 6)."""
        start = self.joints.start({b.name: b.start(self.values) for b in self.bodies}, self.values)
        spin = [b.spin(start[b.name][1], start[b.name][3], self.values)[0] for b in self.bodies]
        x, q, v = (torch.stack([start[b.name][k][0] for b in self.bodies]) for k in range(3))
        return [x, q, torch.cat([v, torch.stack(spin)], 1)]

    def step(self, h: float) -> list[Tensor]:
        """x, q and u after one classical step of fourth order from the start."""
        y = self.start()
        k1 = self.rate(*y)
        k2 = self.rate(*_moved(y, k1, h / 2))
        k3 = self.rate(*_moved(y, k2, h / 2))
        k4 = self.rate(*_moved(y, k3, h))
        return _moved(y, [(a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True)], h)

    def rate(self, x: Tensor, q: Tensor, u: Tensor) -> list[Tensor]:
        """Their change in time."""
        v, w = u[:, :3], u[:, 3:]
        motion = v, 0.5 * rotation.multiply(torch.cat([w, torch.zeros_like(w[:, :1])], 1), q)
        R, n = rotation.to_matrix(q), self.n
        inertia = R @ self.inertia @ R.mT
        basis = torch.eye(6 * n, dtype=u.dtype).reshape(6 * n, n, 6)
        J = self._rows(x, q, basis).T
        turning: Any = torch.func.jvp(lambda x, q: self._rows(x, q, u[None])[0], (x, q), motion)[1]
        force = self._along(x, q, u, basis).reshape(n, 6)
        force = force + torch.cat([self.mass[:, None] * self.values["gravity"], torch.zeros_like(w)], 1)
        force[:, 3:] -= torch.linalg.cross(w, (inertia @ w[..., None])[..., 0])
        M = torch.block_diag(*(B for k in range(n) for B in (self.mass[k] * torch.eye(3).to(w), inertia[k])))
        zero = torch.zeros(len(J), len(J)).to(J)
        matrix = torch.cat([torch.cat([M, J.T], 1), torch.cat([J, zero], 1)])
        a = torch.linalg.lstsq(matrix, torch.cat([force.flatten(), -turning]), driver="gelsd").solution
        return [*motion, a[: 6 * n].reshape(n, 6)]

    def _rows(self, x: Tensor, q: Tensor, u: Tensor) -> Tensor:
        """Rates of the rows (k, rows) for velocities u (k, n, 6)."""
        return self.joints.residual(*self._states(x, q, u))[1]

    def _along(self, x: Tensor, q: Tensor, u: Tensor, basis: Tensor) -> Tensor:
        """What acts along the coordinates (6 n,)."""
        total = u.new_zeros(6 * self.n)
        now, rates = (self.joints.coordinates_of(*self._states(x, q, y)) for y in (u[None], basis))
        for name, own in now.items():
            joint, of = self.joints.joints[name], lambda key, name=name: self.values[f"joints.{name}.{key}"][0]
            phi, rate = (own[key][0] for key in joint.start)
            jacobian = rates[name][joint.start[1]]  # (6 n,), or (6 n, 3) of a ball
            if isinstance(joint, Ball):
                total = total - of("damping") * jacobian @ rate
                continue
            motor = of("force" if isinstance(joint, Prismatic) else "torque")
            force = of("stiffness") * (of("target") - phi) - of("damping") * rate + motor
            for end, sign in (("lower", -1.0), ("upper", 1.0)):
                if getattr(joint, end) is not None:
                    force = force - sign * of("limit_stiffness") * (sign * (phi - of(end))).clamp(min=0)
            total = total + force * jacobian
        return total

    def _states(self, x: Tensor, q: Tensor, u: Tensor):
        """States by body, and values, for the same place with many velocities (k, n, 6)."""
        values = {name: y.expand(len(u), *y.shape[1:]) for name, y in self.values.items()}
        states = {}
        for k, b in enumerate(self.bodies):
            own = q[k].expand(len(u), 4)
            states[b.name] = {"x": x[k].expand(len(u), 3), "q": own, "v": u[:, k, :3]}
            states[b.name]["l"] = b.momentum(own, u[:, k, 3:], values)
        return states, values


def _moved(y: list[Tensor], rate: list[Tensor], h: float) -> list[Tensor]:
    return [a + h * b for a, b in zip(y, rate, strict=True)]
