"""MuJoCo as the engine of a fit: it moves the very model that `gradsim export --to mjcf` writes (extra `engines`).

So an answer of a fit, exported, moves in MuJoCo as the video does: contact numbers of the scene are those of MuJoCo's soft contact by
the formula of `gradsim.scene.exporters.contact`.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradsim.errors import InputError
from gradsim.identification.engines.model import Motion
from gradsim.runtime.optional import require_extra
from gradsim.scene.exporters.build import twin_of
from gradsim.scene.exporters.export import time_step
from gradsim.scene.exporters.mjcf import mjcf
from gradsim.scene.exporters.text import obj


class MuJoCo:
    """MuJoCo's motion of a scene.

    Args:
        timestep: Time step [s], shortened so that frames are whole numbers of steps; None: that of the scene, or 1 ms where it is `auto`.
        integrator: "Euler", "implicitfast", "implicit" or "RK4".

    Raises:
        InputError: If MuJoCo is not installed, or the integrator is none of these.
    """

    def __init__(self, timestep: float | None = None, integrator: str = "RK4"):
        self._mujoco: Any = require_extra("mujoco", "a fit in MuJoCo", "engines")
        if self._mujoco.get_mju_user_warning() is None:  # which would write MUJOCO_LOG.TXT where the user works
            self._mujoco.set_mju_user_warning(lambda message: None)
        integrators = {"Euler": 0, "RK4": 1, "implicit": 2, "implicitfast": 3}
        if integrator not in integrators:
            raise InputError(f"got the integrator {integrator!r}; choose one of {', '.join(integrators)}.")
        if timestep is not None and not 0 < timestep < math.inf:
            raise InputError(f"got the time step {timestep:g} s; expected a number above 0.")
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
        mujoco, step = self._mujoco, self.timestep or time_step(scene)
        twin = twin_of(scene)
        text, meshes, _ = mjcf(twin, step, {})
        files = {f"{name}.obj": obj(mesh).encode() for name, mesh in meshes.items()}
        model = mujoco.MjModel.from_xml_string(text, files)
        model.opt.integrator = self._integrator
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        data, ids = mujoco.MjData(model), {name: model.body(name).id for name in twin.links}
        mujoco.mj_resetDataKeyframe(model, data, model.key("start").id)
        places = {name: np.full((len(times), 3), np.nan) for name in ids}
        turns = {name: np.full((len(times), 4), np.nan) for name in ids}
        time = 0.0
        for k, until in enumerate(times):
            count = math.ceil((until - time) / step - 1e-9)
            if count > 0:
                model.opt.timestep = (until - time) / count
                mujoco.mj_step(model, data, nstep=count)
            time = until
            mujoco.mj_kinematics(model, data)
            if not np.isfinite(data.qpos).all() or any(warning.number for warning in data.warning[3:]):
                break
            for name, number in ids.items():
                places[name][k], turns[name][k] = data.xpos[number], data.xquat[number][[1, 2, 3, 0]]
        return {name: Motion(places[name], continuous(turns[name])) for name in ids}


def continuous(quat: np.ndarray) -> np.ndarray:
    """Quaternions (n, 4) with the signs for which each is near the one before."""
    signs = np.where((quat[1:] * quat[:-1]).sum(1) < 0, -1.0, 1.0)
    return quat * np.concatenate([[1.0], np.cumprod(signs)])[:, None]
