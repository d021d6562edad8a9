"""A clip in windows that move side by side, each from a start state of its own: the worlds of multiple shooting.

Window j begins at frame j L, with the state s_j = (x, θ, v, ω) of every body there, q = exp(θ) q_scene; window 0 begins
as the scene says. Worlds are starts × windows, in one batch. Where window j ends, s_{j+1} begins; the gap between them,
in units of D = (ℓ, 1 rad, ℓ/τ, 1/τ) with the body's radius ℓ and the time τ of a window, is

    gap = (x − x', log(q q'⁻¹), v − v', ω − ω') / D                    primed: the end of the window before
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from gradsim import rotation
from gradsim.errors import InputError
from gradsim.identify.clips import LOCAL, STATE
from gradsim.identify.unknowns import Space
from gradsim.physics.model import Model
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory

SHORTEST = 4  # frames of a window at least: fewer hardly tell its twelve numbers


class Windows:
    """A model that moves all windows of a clip at once.

    Args:
        model: Of rigid bodies.
        space: The unknowns that all windows share.
        frames: Frames of the clip.
        window: Frames from one start to the next.

    Attributes:
        size: Numbers of a start state, 12 for each body.
        scale: D of each of them (size,).

    Raises:
        InputError: If a window is shorter than 4 frames or longer than the clip, a body is not rigid or has a joint, or
            the clock is among the unknowns.
    """

    def __init__(self, model: Model, space: Space, frames: int, window: int):
        if not SHORTEST <= window < frames:
            raise InputError(f"window is {window}; it has to be from {SHORTEST} to {frames - 1} frames of the clip.")
        swinging = [name for name, body in model.scene.bodies.items() if body.kind != "rigid"]
        if swinging:
            raise InputError(f"`{swinging[0]}` is no rigid body; windows are for those. Fit it without.")
        if model.scene.joints:
            raise InputError("windows begin with free bodies, and joints hold these; fit all frames from one start.")
        if any(name.startswith("timing.") for unknown in space.unknowns for name in unknown.names):
            raise InputError("windows begin at known times; fix the clock (`timing`), or fit without them.")
        self.given, self.space, self.frames, self.window = model, space, frames, window
        self.bodies = list(model.scene.bodies)
        self.size = LOCAL * len(self.bodies)
        self.pushes: list[tuple[str, str, int, float]] = []  # parameter here, in the scene, window, share
        self.model = Model(self._scene(), substeps=model.substeps)
        self.scale = torch.cat([self._units(k) for k in range(len(self.bodies))])

    def count(self, frames: int) -> int:
        """Windows that the first frames take."""
        return max(1, math.ceil((frames - 1) / self.window))

    def spans(self, frames: int) -> list[tuple[int, int]]:
        """Frames of each window that are compared with data: from the first to before the last."""
        count = self.count(frames)
        return [(j * self.window, frames if j == count - 1 else (j + 1) * self.window) for j in range(count)]

    def joint(self, u: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Unknowns and start state of every world (starts × windows, n + size), and its window."""
        starts, count = len(u), nodes.shape[1] + 1
        states = torch.cat([nodes.new_zeros(starts, 1, self.size), nodes], 1)  # the first is not read
        rows = torch.cat([u[:, None].expand(-1, count, -1), states], 2)
        return rows.flatten(0, 1), torch.arange(count).repeat(starts)

    def move(self, u: Tensor, nodes: Tensor, frames: int) -> Trajectory:
        """All windows of all starts; at most window + 1 frames each.

        Args:
            u: Shared unknowns (starts, n).
            nodes: Start states (starts, windows − 1, size).
            frames: Of the clip that count.
        """
        values = self.model.values(self._values(*self.joint(u, nodes)))
        return self.model.unchecked(values, min(frames, self.window + 1))

    def tangent(self, u: Tensor, nodes: Tensor, frames: int) -> tuple[Trajectory, Trajectory, Values]:
        """As `move`, each world once for each of its n + size numbers, with the derivative and what was turned."""
        rows, which = self.joint(u, nodes)
        n = rows.shape[1]
        which, lanes = which.repeat_interleave(n), rows.repeat_interleave(n, 0)
        directions = torch.eye(n).double().repeat(len(rows), 1)
        touched, along = torch.func.jvp(lambda rows: self._values(rows, which), (lanes,), (directions,))  # pyright: ignore[reportAssignmentType]
        own, moved = self.model.tangent(self.model.values(touched), along, min(frames, self.window + 1))
        return own, moved, along

    def states(self, trajectory: Trajectory, frame: int) -> list[dict[str, Tensor]]:
        """x, q, v and ω (worlds, ·) of every body at a frame."""
        return [self._state(name, trajectory, frame) for name in self.bodies]

    def end(self, trajectory: Trajectory, frame: int) -> Tensor:
        """The states at a frame as those that a window can begin with (worlds, size)."""
        parts = []
        for name, state in zip(self.bodies, self.states(trajectory, frame), strict=True):
            base = torch.tensor(self.given.scene.bodies[name].quat_xyzw).double().expand_as(state["q"])
            turned = rotation.logarithm(rotation.multiply(state["q"], rotation.conjugate(base)))
            parts += [state["x"], turned, state["v"], state["w"]]
        return torch.cat(parts, 1)

    def gap(self, ends: list[dict[str, Tensor]], begins: list[dict[str, Tensor]]) -> Tensor:
        """How far starts are from the ends before them (worlds, size), in units of D."""
        parts = []
        for old, new in zip(ends, begins, strict=True):
            turned = rotation.logarithm(rotation.multiply(new["q"], rotation.conjugate(old["q"])))
            parts += [new["x"] - old["x"], turned, new["v"] - old["v"], new["w"] - old["w"]]
        return torch.cat(parts, 1) / self.scale

    def _state(self, name: str, trajectory: Trajectory, frame: int) -> dict[str, Tensor]:
        x, q, v, momentum = (trajectory[name][key][:, frame] for key in ("x", "q", "v", "l"))
        (system,) = (s for s in self.model.systems if s.name == name)
        spin = system.spin(q, momentum, trajectory.values)  # pyright: ignore[reportAttributeAccessIssue] -- rigid
        return {"x": x, "q": q, "v": v, "w": spin}

    def _values(self, rows: Tensor, which: Tensor) -> Values:
        """Parameters of worlds from their unknowns and start states (worlds, n + size); window 0 begins as the scene."""
        n = len(self.space)
        touched, first = self.space.values(rows[:, :n]), (which == 0)[:, None]
        known = lambda name: touched.get(name, self.given.get_parameter(name).detach()[None])
        values = {name: v for name, v in touched.items() if ".pushes." not in name}
        for name, own in zip(self.bodies, rows[:, n:].split(LOCAL, 1), strict=True):
            for key, start in zip(STATE, own.unflatten(1, (len(STATE), 3)).unbind(1), strict=True):
                values[f"{name}.{key}"] = torch.where(first, known(f"{name}.{key}"), start)
        for here, there, window, share in self.pushes:
            values[here] = known(there) * (share * (which == window))[:, None]
        return values

    def _scene(self):
        """The scene with every push as often as windows feel it, at the time of the window."""
        scene, dt = self.given.scene, self.given.dt
        length, bodies = self.window / scene.timing.fps, {}
        for name, body in scene.bodies.items():
            pushes = []
            for k, push in enumerate(getattr(body, "pushes", ())):
                for j in range(self.count(self.frames)):
                    here = _within(push, j * length, length, dt)
                    if here is None:
                        continue
                    key = "impulse" if push.force is None else "force"
                    own = f"{name}.pushes.{len(pushes)}.{key}"
                    self.pushes.append((own, f"{name}.pushes.{k}.{key}", j, here[1]))
                    pushes.append(here[0])
            bodies[name] = body.model_copy(update={"pushes": tuple(pushes)})
        timing = scene.timing.model_copy(update={"frames": self.window + 1, "substeps": self.given.substeps})
        return scene.model_copy(update={"bodies": bodies, "timing": timing})

    def _units(self, k: int) -> Tensor:
        name = self.bodies[k]
        (system,) = (s for s in self.model.systems if s.name == name)
        size = torch.linalg.vector_norm(system.rest, dim=-1).max() * self.given.get_parameter(f"{name}.scale").detach()  # pyright: ignore[reportAttributeAccessIssue] -- rigid
        rate = self.given.scene.timing.fps / self.window
        return torch.tensor([size, 1.0, size * rate, rate]).double().repeat_interleave(3)


def _within(push, begin: float, length: float, dt: float):
    """A push as a window from `begin` on feels it, and the share of it; None if it does not."""
    if push.window is None:
        step = math.floor(push.at / dt + 1e-6) - round(begin / dt)
        return (push.model_copy(update={"at": (step + 0.5) * dt}), 1.0) if 0 <= step < round(length / dt) else None
    first, last = (min(max(t - begin, 0.0), length) for t in push.window)
    if last - first < 1e-9 * length:
        return None
    share = 1.0 if push.force is not None else (last - first) / (push.window[1] - push.window[0])
    return push.model_copy(update={"window": (first, last)}), share


def part(trajectory: Trajectory, rows: slice, frames: int) -> Trajectory:
    """Some worlds of a trajectory, up to a frame."""
    states = {body: {k: y[rows, :frames] for k, y in own.items()} for body, own in trajectory.states.items()}
    values = {name: v[rows] for name, v in trajectory.values.items()}
    return replace(trajectory, times=trajectory.times[:frames], states=states, values=values)
