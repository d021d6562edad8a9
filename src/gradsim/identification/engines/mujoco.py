"""MuJoCo as the engine of a fit: it moves the very model that `gradsim export --to mjcf` writes (extra `engines`).

So an answer of a fit, exported, moves in MuJoCo as the video does: contact numbers of the scene are those of MuJoCo's soft contact by
the formula of `gradsim.scene.exporters.contact`.
"""

import importlib
import math
from collections.abc import Iterable, Mapping
from copy import copy
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from gradsim.errors import InputError
from gradsim.identification.engines.model import Motion, Mover
from gradsim.identification.engines.mujoco_numbers import changes_inertia, setters
from gradsim.physics.driven_motors import DrivenMotors
from gradsim.runtime.optional import require_extra
from gradsim.scene.channels.channel import Channel, LogFile
from gradsim.scene.exporters.build import twin_of
from gradsim.scene.exporters.export import time_step
from gradsim.scene.exporters.mjcf import mjcf
from gradsim.scene.exporters.substitution import with_values
from gradsim.scene.exporters.text import obj
from gradsim.scene.exporters.twin import Twin

SAME_STEP = 1e-9  # of a step that steps may differ by to be the same
UNSTABLE = 1e10  # coordinates and rates from which on MuJoCo warns
# Of the center of mass of a body, in the axes of the world
SENSORS = (
    ("framepos", "xbody"),
    ("framequat", "xbody"),
    ("framelinvel", "body"),
    ("frameangvel", "body"),
)
SENSED = 13  # numbers of them


class MuJoCo:
    """MuJoCo's motion of a scene.

    Args:
        timestep: Time step [s], shortened so that frames are whole numbers of steps; None: that of the scene, or 1 ms where it is `auto`.
        integrator: "Euler", "implicitfast", "implicit" or "RK4".
        contact_factors: Contact numbers over those of the formula, by pair of names and name (`gradsim export --match-contact`).

    Raises:
        InputError: If MuJoCo is not installed, or the integrator is none of these.
    """

    def __init__(
        self,
        timestep: float | None = None,
        integrator: str = "RK4",
        contact_factors: Mapping[tuple[str, str], Mapping[str, float]] | None = None,
    ):
        self._mujoco: Any = require_extra("mujoco", "a fit in MuJoCo", "engines")
        if self._mujoco.get_mju_user_warning() is None:  # which would write MUJOCO_LOG.TXT where the user works
            self._mujoco.set_mju_user_warning(lambda message: None)
        integrators = {"Euler": 0, "RK4": 1, "implicit": 2, "implicitfast": 3}
        if integrator not in integrators:
            raise InputError(f"got the integrator {integrator!r}; choose one of {', '.join(integrators)}.")
        if timestep is not None and not 0 < timestep < math.inf:
            raise InputError(f"got the time step {timestep:g} s; expected a number above 0.")
        self.contact_factors = dict(contact_factors or {})
        self.timestep, self._integrator, self._name = timestep, integrators[integrator], integrator

    @property
    def title(self) -> str:
        """Name, version and integrator."""
        return f"MuJoCo {self._mujoco.__version__} ({self._name})"

    def __call__(self, scene, times: np.ndarray) -> Mapping[str, Motion]:
        """Motion of all bodies; not a number from where MuJoCo finds the simulation unstable.

        Args:
            scene: A scene of rigid bodies.
            times: Increasing times from the start of the scene, at least 0 (n,) [s].
        """
        model, twin = self._compiled(scene)
        return self._motions(scene, model, self._mujoco.MjData(model), twin, times)

    def mover(self, scene) -> Mover:
        """See `Engine`: worlds that differ in `mujoco_numbers` alone share a model."""
        compiled: list[tuple[Any, Twin]] = []
        idle: list[Any] = []  # states that no thread uses: to make one takes as long as a short clip

        def move(numbers: Mapping[str, float], times: np.ndarray) -> Mapping[str, Motion]:
            if not compiled:
                compiled.append(self._compiled(scene))
            shared, twin = compiled[0]
            table = setters(scene, twin, numbers)
            if table is None:
                return self(with_values(scene, numbers), times)
            model, data = copy(shared), idle.pop() if idle else self._mujoco.MjData(shared)
            for name, put in table.items():
                put(model, numbers[name])
            if changes_inertia(numbers):
                self._mujoco.mj_setConst(model, data)
            motion = self._motions(scene, model, data, twin, times)
            idle.append(data)
            return motion

        return move

    def _compiled(self, scene) -> tuple[Any, Twin]:
        """MuJoCo's model of a scene, and the twin that it was written from."""
        _refuse_left_out(scene)
        motors = _motors(scene)
        twin = twin_of(with_values(scene, dict.fromkeys(motors, 0.0)) if motors else scene)
        twin.contact_factors = self.contact_factors
        text, meshes, _ = mjcf(twin, self.timestep or time_step(scene), {})
        files = {f"{name}.obj": obj(mesh).encode() for name, mesh in meshes.items()}
        model = self._mujoco.MjModel.from_xml_string(with_sensors(text, twin.links), files)
        model.opt.integrator = self._integrator
        model.opt.disableflags |= self._mujoco.mjtDisableBit.mjDSBL_AUTORESET
        return model, twin

    def _motions(self, scene, model: Any, data: Any, twin: Twin, times: np.ndarray) -> Mapping[str, Motion]:
        """Motion of all bodies of a model, whose time steps it sets, as the log of the scene drives it; `data` is overwritten."""
        step, motors = self.timestep or time_step(scene), _motors(scene)
        self._mujoco.mj_resetDataKeyframe(model, data, model.key("start").id)
        spans = np.diff(times, prepend=0.0)
        counts = np.maximum(np.ceil(spans / step - 1e-9), spans > 0).astype(int)
        steps = np.repeat(spans / np.maximum(counts, 1), counts)
        drive = _Drive(model, scene, motors, steps) if motors else None
        states = np.full((len(times), len(twin.links), SENSED), np.nan)
        stable = self._motion(model, data, counts, steps, drive)
        states[: len(stable)] = stable.reshape(len(stable), -1, SENSED)
        return {
            name: Motion(one[:, :3], continuous(one[:, [4, 5, 6, 3]]), one[:, 7:10], one[:, 10:])
            for name, one in zip(twin.links, states.transpose(1, 0, 2), strict=True)
        }

    def _motion(
        self, model: Any, data: Any, counts: np.ndarray, steps: np.ndarray, drive: "_Drive | None"
    ) -> np.ndarray:
        """Readings of the sensors (times, readings) after each number of steps, as long as the simulation is stable.

        Args:
            model: MuJoCo's model.
            data: Its state at the start.
            counts: Steps before each time.
            steps: Of all steps [s].
            drive: What the log drives.
        """
        mujoco, begin, readings = self._mujoco, 0, []
        if len(steps) and np.ptp(steps) <= SAME_STEP * steps[0] and (drive is None or not drive.has_targets):
            model.opt.timestep = steps[0]
            return self._motion_at_once(model, data, np.cumsum(counts), len(steps), drive)
        sense = (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_comVel, mujoco.mj_sensorPos, mujoco.mj_sensorVel)
        for count in counts.tolist():
            for k in range(begin, begin + count):
                model.opt.timestep = steps[k]
                if drive is not None:
                    drive.act(data, k)
                mujoco.mj_step(model, data)
            begin += count
            if not np.isfinite(data.qpos).all() or data.warning.number[3:].any():
                break
            for function in sense:
                function(model, data)
            readings.append(data.sensordata.copy())
        return np.array(readings).reshape(len(readings), model.nsensordata)

    def _motion_at_once(
        self, model: Any, data: Any, ends: np.ndarray, count: int, drive: "_Drive | None"
    ) -> np.ndarray:
        """The same by equal steps, without Python between them. Sensors read before a step, so there is one more."""
        mujoco = self._mujoco
        kind = mujoco.mjtState.mjSTATE_FULLPHYSICS.value
        start = np.empty(mujoco.mj_stateSize(model, kind))
        mujoco.mj_getState(model, data, start, kind)
        options: dict = {"nstep": count + 1}
        if drive is not None:
            # a rollout sets what is not among its controls to 0: constant motors are in `ctrl`
            spec = mujoco.mjtState.mjSTATE_CTRL.value | mujoco.mjtState.mjSTATE_QFRC_APPLIED.value
            control = np.hstack([np.tile(data.ctrl, (count, 1)), drive.applied(model.nv)])
            options = {"control": np.concatenate([control, control[-1:]])[None], "control_spec": spec}
        states, readings = importlib.import_module("mujoco.rollout").rollout(model, data, start[None], **options)
        states = np.concatenate([start[None], states[0]])[ends, 1 : 1 + model.nq + model.nv]  # time is first
        stable = np.isfinite(states).all(1) & (np.abs(np.nan_to_num(states)) < UNSTABLE).all(1)
        return readings[0, ends][: len(states) if stable.all() else int(stable.argmin())]


def _refuse_left_out(scene) -> None:
    """Refuse what MuJoCo's model leaves out and moves bodies."""
    braked = [name for name, body in scene.bodies.items() if body.kind == "rigid" and body.drag]
    if braked:
        raise InputError(
            f"`{braked[0]}` has a drag, which MuJoCo is not told; leave it out, or choose `engine` gradsim."
        )
    loose = [name for name, joint in scene.joints.items() if getattr(joint, "backlash", 0.0)]
    if loose:
        raise InputError(
            f"`joints.{loose[0]}` has a backlash, which MuJoCo's springs have not; leave it out, or choose `engine` gradsim."
        )


def with_sensors(text: str, bodies: Iterable[str]) -> str:
    """MJCF with sensors of each body in turn: position, orientation, velocity and angular velocity, in the axes of the world."""
    sensors = "".join(f'<{kind} objtype="{of}" objname="{body}"/>' for body in bodies for kind, of in SENSORS)
    head, end, tail = text.rpartition("</mujoco>")
    return f"{head}<sensor>{sensors}</sensor>{end}{tail}"


def _motors(scene) -> tuple[str, ...]:
    """Parameters that the log of a scene drives."""
    channels = scene.channels.values() if scene.log else ()
    return tuple(f"joints.{channel.joint}.{channel.quantity}" for channel in channels if channel.drives)


class _Drive:
    """Forces and targets by which the log of a scene drives joints, in every step of MuJoCo.

    Args:
        model: MuJoCo's model.
        scene: The scene.
        motors: Parameters that are driven.
        durations: Of all steps [s].
    """

    def __init__(self, model: Any, scene, motors: tuple[str, ...], durations: np.ndarray):
        channels = tuple((name, channel) for name, channel in scene.channels.items() if channel.drives)
        driven = _driven(scene.log, scene.log.file.stat().st_mtime_ns, channels, durations.tobytes())
        forces = [name for name in motors if not name.endswith(".target")]
        targets = [name for name in motors if name.endswith(".target")]
        table = lambda names: np.stack([driven[name] for name in names], 1)
        self._forces = table(forces) if forces else np.zeros((len(durations), 0))
        self._targets, self._model = table(targets) if targets else None, model
        joint = lambda name: model.joint(name.split(".")[1])
        self._dofs = [int(joint(name).dofadr[0]) for name in forces]
        self._coordinates = [int(joint(name).qposadr[0]) for name in targets]

    @property
    def has_targets(self) -> bool:
        """True if targets of springs change, which are numbers of the model."""
        return self._targets is not None

    def applied(self, coordinates: int) -> np.ndarray:
        """Forces in each step (steps, coordinates) [N or N m]."""
        table = np.zeros((len(self._forces), coordinates))
        table[:, self._dofs] = self._forces
        return table

    def act(self, data: Any, k: int) -> None:
        """Set forces and targets of step k."""
        data.qfrc_applied[self._dofs] = self._forces[k]
        if self._targets is not None:
            self._model.qpos_spring[self._coordinates] = self._targets[k]


@lru_cache(maxsize=8)
def _driven(
    log: LogFile, changed: int, channels: tuple[tuple[str, Channel], ...], durations: bytes
) -> dict[str, np.ndarray]:
    """Values of driven motors in steps of these durations, by parameter; most worlds of a fit share them."""
    del changed  # time of the file's last change, by which an older content is not taken
    values = {
        f"channels.{name}.{key}": torch.tensor([getattr(channel, key)], dtype=torch.float64)
        for name, channel in channels
        for key in ("scale", "offset", "delay")
    }
    lengths = torch.from_numpy(np.frombuffer(durations).copy())[None]
    driven = DrivenMotors(log, dict(channels)).driven(values, lengths)
    return {name: one[0, :, 0].numpy() for name, one in driven.items()}


def continuous(quat: np.ndarray) -> np.ndarray:
    """Quaternions (n, 4) with the signs for which each is near the one before."""
    signs = np.where((quat[1:] * quat[:-1]).sum(1) < 0, -1.0, 1.0)
    return quat * np.concatenate([[1.0], np.cumprod(signs)])[:, None]
