"""Windows of multiple shooting: start states of rigid bodies and pendulums, and the gaps between windows.

rigid      s = (x, θ, v, ω), q = exp(θ) q_scene      gap (x − x', log(q q'⁻¹), v − v', ω − ω')
pendulum   s = (angles, rates)                       gap (θ − θ', θ̇ − θ̇')        primed: the end of the window before

Window j begins at frame j L, with the state s_j of every body there : (x, θ, v, ω) of a rigid one,
angles and rates of a pendulum; window 0 begins in the state of the scene. Worlds are starts × windows, in one batch. Where window j
ends, s_{j+1} begins; the gap between them is in units of D = (ℓ, 1 rad, ℓ/τ, 1/τ) with the body's radius ℓ and the
time τ of a window.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.physics.system import State, Values
from gradsim.physics.trajectory import Trajectory

MIN_WINDOW_FRAMES = 4  # frames of a window at least: fewer hardly determine its twelve components


class Windows:
    """A model that moves all windows of a clip at once.

    Args:
        model: Of rigid bodies and pendulums.
        space: The unknowns that all windows share.
        frames: Frames of the clip.
        window: Frames from one start to the next.

    Attributes:
        size: Numbers of a start state, 12 for each rigid body, 2 for each arm of a pendulum.
        scale: D of each of them (size,).

    Raises:
        InputError: If a window is shorter than 4 frames or longer than the clip, a body is not rigid or has a joint, or
            the clock is among the unknowns.
    """

    def __init__(self, model: Model, space: Space, frames: int, window: int):
        if not MIN_WINDOW_FRAMES <= window < frames:
            raise InputError(
                f"window is {window}; it has to be from {MIN_WINDOW_FRAMES} to {frames - 1} frames of the clip."
            )
        bodies = model.scene.bodies
        self.starts = {system.name: start for system in model.systems if (start := system.start_state)}
        if model.scene.recorded:
            raise InputError(
                f"`{next(iter(model.scene.recorded))}` has a `motion`, whose times count from the scene's start, and windows begin later. Remove --window."
            )
        others = [name for name in bodies if name not in self.starts]
        if others:
            raise InputError(
                f"`{others[0]}` is not a rigid body or pendulum; multiple shooting supports these only. Remove --window."
            )
        if model.scene.joints:
            raise InputError("windows begin with free bodies, and joints hold these; fit all frames from one start.")
        if any(name.startswith("timing.") for unknown in space.unknowns for name in unknown.names):
            raise InputError("windows begin at known times; fix the clock (`timing`), or fit without them.")
        self.given, self.space, self.frames, self.window = model, space, frames, window
        self.bodies = list(model.scene.bodies)
        self.size = sum(start.size for start in self.starts.values())
        self.pushes: list[tuple[str, str, int, float]] = []  # parameter here, in the scene, window, share
        self.model = Model(self._scene(), substeps=model.substeps)
        rate = model.scene.timing.fps / window
        self.scale = torch.cat([start.units(rate) for start in self.starts.values()])

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
            frames: First frames that count.
        """
        values = self.model.values(self._values(*self.joint(u, nodes)))
        return self.model.rollout_unchecked(values, min(frames, self.window + 1))

    def tangent(self, u: Tensor, nodes: Tensor, frames: int) -> tuple[Trajectory, Trajectory, Values]:
        """As `move`, each world once for each of its n + size numbers, with the derivative and what was turned."""
        rows, which = self.joint(u, nodes)
        n = rows.shape[1]
        which, lanes = which.repeat_interleave(n), rows.repeat_interleave(n, 0)
        directions = torch.eye(n).double().repeat(len(rows), 1)
        touched, along = torch.func.jvp(lambda rows: self._values(rows, which), (lanes,), (directions,))  # pyright: ignore[reportAssignmentType]
        trajectory, tangent = self.model.tangent(self.model.values(touched), along, min(frames, self.window + 1))
        return trajectory, tangent, along

    def states(self, trajectory: Trajectory, frame: int) -> list[State]:
        """The state of every body at a frame."""
        frames = {name: {key: y[:, frame] for key, y in trajectory[name].items()} for name in self.starts}
        return [start.instant(frames[name], trajectory.values) for name, start in self.starts.items()]

    def end(self, trajectory: Trajectory, frame: int) -> Tensor:
        """The states at a frame as those that a window can begin with (worlds, size)."""
        states = zip(self.starts.values(), self.states(trajectory, frame), strict=True)
        return torch.cat([start.numbers(state) for start, state in states], 1)

    def gap(self, ends: Sequence[State], begins: Sequence[State]) -> Tensor:
        """Differences of starts from the ends before them (worlds, size), in units of D."""
        parts = zip(self.starts.values(), ends, begins, strict=True)
        return torch.cat([start.gap(old, new) for start, old, new in parts], 1) / self.scale

    def by_quantity(self, numbers: Tensor) -> dict[str, Tensor]:
        """Lengths of the parts of numbers (n, size): position, angle and so on, of several bodies the largest (n,)."""
        lengths: dict[str, Tensor] = {}
        for start, values in zip(self.starts.values(), self._split(numbers), strict=True):
            for name, part in zip(start.parts, values.split(list(start.parts.values()), 1), strict=True):
                length = torch.linalg.vector_norm(part, dim=1)
                lengths[name] = torch.maximum(lengths[name], length) if name in lengths else length
        return lengths

    def _split(self, numbers: Tensor) -> tuple[Tensor, ...]:
        """Those of each body."""
        return numbers.split([start.size for start in self.starts.values()], 1)

    def _values(self, rows: Tensor, which: Tensor) -> Values:
        """Parameters of worlds from their unknowns and start states (worlds, n + size); window 0 begins as the scene."""
        n = len(self.space)
        touched, first = self.space.values(rows[:, :n]), (which == 0)[:, None]
        known = lambda name: touched.get(name, self.given.get_parameter(name).detach()[None])
        values = {name: v for name, v in touched.items() if ".pushes." not in name}
        for start, state in zip(self.starts.values(), self._split(rows[:, n:]), strict=True):
            values |= {
                name: torch.where(first if y.ndim > 1 else first[:, 0], known(name), y)
                for name, y in start.parameters(state).items()
            }
        for local_name, scene_name, window, share in self.pushes:
            values[local_name] = known(scene_name) * (share * (which == window))[:, None]
        return values

    def _scene(self):
        """The scene with every push as often as windows feel it, at the time of the window."""
        scene, dt = self.given.scene, self.given.dt
        length, bodies = self.window / scene.timing.fps, {}
        for name, body in scene.bodies.items():
            pushes = []
            for k, push in enumerate(scene.pushes.get(name, ())):
                for j in range(self.count(self.frames)):
                    cut = _within(push, j * length, length, dt)
                    if cut is None:
                        continue
                    key = "impulse" if push.force is None else "force"
                    local_name = f"{name}.pushes.{len(pushes)}.{key}"
                    self.pushes.append((local_name, f"{name}.pushes.{k}.{key}", j, cut[1]))
                    pushes.append(cut[0])
            bodies[name] = body.model_copy(update={"pushes": tuple(pushes)})
        timing = scene.timing.model_copy(update={"frames": self.window + 1, "substeps": self.given.substeps})
        return scene.model_copy(update={"bodies": bodies, "timing": timing})


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


def part(trajectory: Trajectory, rows: slice | Tensor, frames: int) -> Trajectory:
    """Some worlds of a trajectory, up to a frame."""
    return trajectory.of_worlds(rows).at(slice(frames))
