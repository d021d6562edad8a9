"""A scene's rigid bodies moved by another engine, with derivatives by differences of its rollouts.

An `Engine` is a function from a scene, whose numbers are those of one world, and times to the motion of its bodies. Everything else of a
fit stays: observation, likelihood, search, error bars, verdict. So its answer holds in that engine, whose contact is another one than
gradsim's. Worlds run in parallel threads.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.physics.dependencies import read_by_log
from gradsim.physics.model import Model, States
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rollout_inputs import override_tensors
from gradsim.physics.system import Values
from gradsim.physics.time_steps import make_trajectory
from gradsim.physics.trajectory import Trajectory
from gradsim.scene.body import Rigid
from gradsim.scene.parameters import component_letters

STEP = 1e-6  # of differences, relative to a number
MIN_STEP_MAGNITUDE = 1e-2  # magnitude of a number [SI] below which the step is relative to it


@dataclass(frozen=True)
class Motion:
    """Motion of one rigid body.

    Args:
        position: Of the center of mass at each time (times, 3) [m].
        quat_xyzw: Orientation (times, 4), without jumps of sign.
        velocity: Velocity of the center of mass (times, 3) [m/s]; None: by differences of positions.
        angular_velocity: Angular velocity in the world's axes (times, 3) [rad/s]; None: 0. Rates of joints need it.
    """

    position: np.ndarray
    quat_xyzw: np.ndarray
    velocity: np.ndarray | None = None
    angular_velocity: np.ndarray | None = None


Mover = Callable[[Mapping[str, float], np.ndarray], Mapping[str, Motion]]  # of numbers of one world by name, and times


class Engine(Protocol):
    """Another engine, or a function of the user; it may run in several threads at once.

    It may have a method `mover(scene)` besides, which does once what all worlds of a scene share: from the scene to a function of the
    numbers of one world that differ from it, by name (`joints.elbow.damping`, `gravity.z`), and of times.
    """

    def __call__(self, scene, times: np.ndarray) -> Mapping[str, Motion]:
        """Motion of all bodies of a scene by name.

        Args:
            scene: A `Scene` with the numbers of one world.
            times: Increasing times from the start of the scene, at least 0 (n,) [s].
        """
        ...


class EngineModel(Model):
    """A scene whose rigid bodies an engine moves.

    States have positions and orientations; where an engine gives poses alone, velocities are differences of positions, and angular
    momenta 0.
    Rollouts are not differentiable by adjoints. The time step is the engine's: a fit does not judge it.

    Args:
        scene: A scene of rigid bodies, with joints.
        engine: What moves them.

    Raises:
        InputError: If the scene has other bodies, pushes after the start, prescribed motion, or cameras with a shutter.
    """

    is_external = True

    def __init__(self, scene, engine: Engine):
        _require_rigid(scene)
        super().__init__(scene, substeps=1)
        self.engine, self.density = engine, 1  # the engine follows a log by its own steps
        self._mover: Mover = engine.mover(scene) if hasattr(engine, "mover") else self._move_anew  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def title(self) -> str:
        """The engine in words: its `title`, or its name in Python."""
        return getattr(self.engine, "title", None) or getattr(self.engine, "__name__", type(self.engine).__name__)

    @property
    def note(self) -> str:
        """Note of a result on what moved the bodies."""
        return (
            f"The bodies were moved by {self.title}: the numbers hold there, contact numbers in particular. Its time step is not judged, nor "
            "are causes of a mismatch."
        )

    def with_substeps(self, substeps: int) -> "EngineModel":
        """The model itself: steps are the engine's."""
        del substeps
        return self

    def recommended_substeps(self, values: Values) -> int:
        del values
        return 1

    def check(self, values: Values) -> None:
        del values

    def rollout(
        self,
        overrides: Mapping[str, Tensor | float | Sequence] | None = None,
        frames: int | None = None,
        segment: int = 1,
        start: States | None = None,
    ) -> Trajectory:
        """Move all worlds through time; without gradients.

        Raises:
            InputError: If a start is given: engines begin as the scene does.
        """
        del segment
        if start is not None:
            raise InputError("an engine moves bodies from the start of the scene; leave `start` out.")
        values = self.values(override_tensors(self, overrides or {}))
        return self.rollout_unchecked(values, frames or self.scene.timing.frames)

    def rollout_unchecked(self, values: Values, frames: int) -> Trajectory:
        return make_trajectory(self, self._move(values, frames), values, frames)

    def tangent(self, values: Values, direction: Values, frames: int) -> tuple[Trajectory, Trajectory]:
        """Rollout of every world, and its derivative by forward differences of 1e-6 of the numbers that a direction changes.

        Directions of one world share its rollout.
        """
        worlds = _worlds(values)
        steps, shifted = torch.ones(worlds, dtype=torch.float64), dict(values)
        for name, along in direction.items():
            size = values[name].abs().clamp(min=MIN_STEP_MAGNITUDE) / along.abs().clamp(min=1e-300)
            steps = torch.minimum(steps, STEP * torch.where(along == 0, torch.inf, size).reshape(worlds, -1).amin(1))
        for name, along in direction.items():
            shifted[name] = values[name] + steps.reshape(-1, *[1] * (along.ndim - 1)) * along
        states = self._move({name: torch.cat([values[name], shifted[name]]) for name in values}, frames)
        middle: dict[str, dict[str, Tensor]] = {}
        slopes: dict[str, dict[str, Tensor]] = {}
        for body, state in states.items():
            middle[body] = {key: y[:worlds] for key, y in state.items()}
            slopes[body] = {
                key: (y[worlds:] - y[:worlds]) / steps.reshape(-1, *[1] * (y.ndim - 1)) for key, y in state.items()
            }
        return make_trajectory(self, middle, values, frames), make_trajectory(self, slopes, values, frames)

    def _numbers(self, values: Values) -> list[dict[str, float]]:
        """Numbers of each world that differ from those of the scene, by name with the letter of a component."""
        numbers: list[dict[str, float]] = [{} for _ in range(_worlds(values))]
        for name, value in values.items():
            of_scene, of_worlds = np.asarray(self.kinds[name].value), value.detach().double().numpy()
            letters = [f"{name}.{letter}" for letter in component_letters(name)] if of_worlds.ndim > 1 else [name]
            table = of_worlds.reshape(len(numbers), -1)
            for world, k in np.argwhere(table != of_scene.reshape(-1)).tolist():
                numbers[world][letters[k]] = float(table[world, k])
        return numbers

    def _move(self, values: Values, frames: int) -> dict[str, dict[str, Tensor]]:
        """States (worlds, frames, ...) of worlds with these numbers; equal ones are moved once.

        Raises:
            InputError: If the engine refuses all of them.
        """
        fps, sensed = self.scene.timing.fps, read_by_log(self.scene)  # numbers of sensors move nothing
        worlds = self._numbers(values)
        keys = [tuple(sorted((name, x) for name, x in numbers.items() if name not in sensed)) for numbers in worlds]
        stamps = (
            np.array([self.scene.timing.time(k) for k in range(frames)])
            if self.scene.timing.stamps
            else np.arange(frames) / fps
        )
        unique, refusals = list(dict.fromkeys(keys)), []

        def run(key: tuple) -> dict[str, Motion] | None:
            numbers = dict(key)
            clock = {
                name: numbers.get(f"timing.{name}", getattr(self.scene.timing, name)) for name in ("rate", "offset")
            }
            try:
                moving = {n: x for n, x in numbers.items() if not n.startswith("timing.")}
                return dict(self._mover(moving, clock["offset"] + clock["rate"] * stamps))
            except FloatingPointError:
                return None
            except InputError as refusal:
                refusals.append(refusal)
                return None

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            motions = dict(zip(unique, pool.map(run, unique), strict=True))
        if len(refusals) == len(unique):  # not of numbers that a search tries, then, but of the scene
            raise InputError(f"{self.title} moves no world of this scene: {refusals[0]}") from refusals[0]
        states = {}
        for system in self.systems:
            x, q = (
                self._gather(system.name, key, [motions[k] for k in keys], frames) for key in ("position", "quat_xyzw")
            )
            of_body = [motions[k][system.name] for k in keys if motions[k] is not None]  # pyright: ignore[reportOptionalSubscript]
            by_differences = any(motion.velocity is None or motion.angular_velocity is None for motion in of_body)
            if by_differences or not of_body:
                v = torch.tensor(np.gradient(x.numpy(), stamps, axis=1)) if frames > 1 else torch.zeros_like(x)
                states[system.name] = {"x": x, "q": q, "v": v, "l": torch.zeros_like(x)}
                continue
            v, spin = (
                self._gather(system.name, key, [motions[k] for k in keys], frames)
                for key in ("velocity", "angular_velocity")
            )
            assert isinstance(system, RigidBody)  # as `_require_rigid` says
            states[system.name] = {"x": x, "q": q, "v": v, "l": system.momentum(q, spin, values)}
        return states

    def _move_anew(self, numbers: Mapping[str, float], times: np.ndarray) -> Mapping[str, Motion]:
        """Motion of one world by the scene with its numbers."""
        from gradsim.scene.exporters.substitution import with_values  # which brings all formats

        return self.engine(with_values(self.scene, numbers), times)

    def _gather(self, body: str, key: str, motions: Sequence[Mapping[str, Motion] | None], frames: int) -> Tensor:
        """One quantity of a body (worlds, frames, n); not a number where the engine failed.

        Raises:
            InputError: If the engine has no such body, or gives another shape.
        """
        shape = (frames, 4 if key == "quat_xyzw" else 3)
        arrays = []
        for motion in motions:
            if motion is not None and body not in motion:
                raise InputError(f"the engine moves {', '.join(motion) or 'nothing'}, and not `{body}` of the scene.")
            array = np.full(shape, np.nan) if motion is None else np.asarray(getattr(motion[body], key), np.float64)
            if array.shape != shape:
                raise InputError(f"the engine gives {key} of `{body}` with shape {array.shape}; expected {shape}.")
            arrays.append(array)
        return torch.tensor(np.stack(arrays))


def _worlds(values: Values) -> int:
    return len(next(iter(values.values())))


def _require_rigid(scene) -> None:
    """Refuse what engines do not move."""
    for name, body in scene.bodies.items():
        if not isinstance(body, Rigid):
            raise InputError(
                f"`{name}` is of kind {body.kind}; another engine moves rigid bodies: choose `engine` gradsim."
            )
        if any(push.after_start for push in body.pushes):
            raise InputError(f"`{name}` has a push after the start, which another engine is not told; give it at 0.")
    owners = [*scene.recorded, *(f"joints.{name}" for name, joint in scene.joints.items() if joint.motion is not None)]
    if owners:
        raise InputError(f"`{owners[0]}` has a `motion`, which another engine is not told; move it by ours.")
    if any(camera.has_shutter for camera in scene.views.values()):
        raise InputError(
            "a camera has a shutter (`readout`, `exposure` or `delay`), which needs instants between frames: choose `engine` gradsim."
        )
