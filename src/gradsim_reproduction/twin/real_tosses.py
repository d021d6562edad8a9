"""Real tosses of a cube, fitted and predicted by MuJoCo's motion as by ours: the folds, ranges, search and score of `reality/cube.py`.

MuJoCo moves the model that `gradsim export --to mjcf` writes of the cube above its table, with law `paper`, a spring and a damper, which is the law of
its soft contact. In each world the contact numbers, gravity, the height of the table and the start are replaced, by the formula of the export.
"""

import copy
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.errors import InputError
from gradsim.numerics import rotation
from gradsim.runtime.optional import require_extra
from gradsim.scene import Scene
from gradsim.scene.exporters.build import twin_of
from gradsim.scene.exporters.contact import LEAST_SPEED, Law, softened
from gradsim.scene.exporters.mjcf import mjcf
from gradsim_reproduction.real.cube_predictions import SEEN
from gradsim_reproduction.real.cube_recordings import FPS, SIDE, Toss, load, noise
from gradsim_reproduction.reality import cube
from gradsim_reproduction.reality.ensemble import band

LAW, DAMPING = "paper", (1.0, 300.0)  # [N s/m], as of constant restitution in `reality/cube.py`
STEPS = 7  # of MuJoCo in a frame: 0.97 ms
INTEGRATOR = 0  # mjINT_EULER, MuJoCo's default
AT_ONCE = 256  # worlds of a call
GOAL = 1.1  # error in MuJoCo over ours


@dataclass(frozen=True, eq=False)
class ContactInMuJoCo(cube.Contact):
    """The same numbers, by which MuJoCo moves the cube."""

    law: str = LAW

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        return {**cube.RANGES, "ground.damping": DAMPING}

    def poses(self, u: np.ndarray, starts: Sequence[Mapping[str, Tensor]], frames: int) -> tuple[Tensor, Tensor]:
        values = self.worlds(u, starts)
        parts = [slice(k, k + AT_ONCE) for k in range(0, len(u) * len(starts), AT_ONCE)]
        poses = np.concatenate([_rolled(values, part, frames) for part in parts])
        poses = torch.from_numpy(poses).unflatten(0, (len(u), len(starts)))
        return poses[..., :3], poses[..., [4, 5, 6, 3]]


def real_tosses(job: tuple[int, int, bool]) -> dict:
    """Errors of the tosses that a fold predicts [mm], by engine, with the loss and the numbers of its fit."""
    fold, seed, quick = job
    fitted, others = cube.split_fold(fold, seed)
    sigma = noise(fitted)
    engines = {"gradsim": [cube.Contact(law) for law in cube.LAWS], "mujoco": [ContactInMuJoCo()]}
    record = {}
    for engine, laws in engines.items():
        rng = np.random.default_rng([seed, fold])
        generations = cube.QUICK_GENERATIONS if quick else cube.GENERATIONS
        ends = [(law, *cube.search(law, fitted, generations, rng)) for law in laws]
        law, members, loss = min(ends, key=lambda end: end[2])
        ensemble = cube.predict_ensemble(law, members, others, (sigma.flight, sigma.spin), rng)
        record[engine] = {
            "law": law.law,
            "numbers": {name: float(y[0]) for name, y in law.numbers(members[:1]).items()},
            "fitted_mm": cube.MM * loss,
            "predicted_mm": {toss.name: _error(x, toss) for toss, x in zip(others, ensemble, strict=True)},
        }
    return record


def are_there() -> bool:
    """True if the recordings are."""
    try:
        load()
    except InputError:
        return False
    return True


def toss_figures(records: Sequence[Mapping]) -> dict[str, dict]:
    """Mean errors of tosses that were not fitted, and their ratio."""
    if not records:
        return {}
    mean = lambda engine: float(np.mean([error for r in records for error in r[engine]["predicted_mm"].values()]))
    ours, theirs = mean("gradsim"), mean("mujoco")
    return {
        "tosses_in_mujoco_mm": figure(theirs),
        "tosses_in_ours_mm": figure(ours),
        "tosses_fitted_in_mujoco_mm": figure(float(np.mean([r["mujoco"]["fitted_mm"] for r in records]))),
        "tosses_fitted_in_ours_mm": figure(float(np.mean([r["gradsim"]["fitted_mm"] for r in records]))),
        "tosses_mujoco_over_ours": figure(theirs / ours, goal=GOAL),
    }


def _error(x: Tensor, toss: Toss) -> float:
    """Mean distance [mm] of the median of an ensemble over the frames that were not seen."""
    return cube.MM * float(torch.linalg.vector_norm(band(x)[0] - toss.x, dim=-1)[SEEN:].mean())


@cache
def _models() -> tuple[Any, list[Any]]:
    """MuJoCo, and as many copies of its model of the cube above a table as a call has worlds."""
    mujoco: Any = require_extra("mujoco", "this experiment", "engines")
    mujoco.set_mju_user_warning(
        lambda message: None
    )  # it would write MUJOCO_LOG.TXT; unstable worlds are far from all tosses
    box = {"shape": {"box": {"size": [SIDE] * 3}}, "mass": cube.MASS, "position": [0, 0, 1]}
    ground = {
        "law": LAW,
        "damping": 1.0,
        "height": 1e-3,
    }  # of a plane through the origin MuJoCo would not read its height
    content = {"timing": {"fps": FPS, "frames": 2}, "bodies": {"cube": box}, "ground": ground}
    text, _, _ = mjcf(twin_of(Scene.parse(content)), 1 / (FPS * STEPS), {})
    model = mujoco.MjModel.from_xml_string(text)
    model.opt.integrator = INTEGRATOR
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    return mujoco, [copy.copy(model) for _ in range(AT_ONCE)]


def _rolled(values: Mapping[str, Tensor], worlds: slice, frames: int) -> np.ndarray:
    """Poses (worlds, frames, 7) of the cube: position [m], and quaternion with the real part first."""
    mujoco, models = _models()
    numbers = {name: y[worlds].numpy() for name, y in values.items()}
    of = lambda key: numbers[f"ground.{key}"]
    keys = ("stiffness", "damping", "friction_stiffness", "friction")
    for model, gravity, height, *law in zip(models, numbers["gravity"], of("height"), *map(of, keys), strict=False):
        contact = softened(Law(LAW, *law), cube.MASS, LEAST_SPEED).attributes
        model.pair_solref[0], model.pair_solreffriction[0] = contact["solref"], contact["solreffriction"]
        model.pair_friction[0], model.opt.gravity[:] = contact["friction"], gravity
        model.geom("ground").pos[2] = height
    q = rotation.exponential(values["cube.rotation_vector"][worlds])
    spin = rotation.rotate(rotation.conjugate(q), values["cube.angular_velocity"][worlds])
    position, velocity = (values[f"cube.{key}"][worlds] for key in ("position", "velocity"))
    start = torch.cat([torch.zeros_like(position[:, :1]), position, q[:, [3, 0, 1, 2]], velocity, spin], 1).numpy()
    data, steps = mujoco.MjData(models[0]), (frames - 1) * STEPS
    states, _ = importlib.import_module("mujoco.rollout").rollout(models[: len(start)], data, start, nstep=steps)
    return np.concatenate([start[:, None], states[:, STEPS - 1 :: STEPS]], 1)[..., 1:8]
