"""Row `logs` of `reproduce twin`: an arm that MuJoCo moves, identified from torques and angles; mujoco.sysid does the same.

A controller holds the torques of both motors for 5 ms; both encoders have noise and are late. Both tools have the same CSV files and know masses
and lengths; unknown are damping, dry friction and armature of both joints, and the delay. mujoco.sysid has the very model of the truth, time
step included, and begins in the middle of the ranges; gradsim searches from random starts in them.
"""

import csv
import math
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from gradsim.app.figures import Figures, figure
from gradsim.errors import Status
from gradsim.identification.api import identify
from gradsim.identification.engines import EngineModel
from gradsim.identification.engines.mujoco import MuJoCo
from gradsim.identification.observation.joint_log import JointLog
from gradsim.identification.observation.multi_view import MultiView
from gradsim.identification.synthetic import noisy_masks
from gradsim.runtime.optional import require_extra
from gradsim.scene import Scene
from gradsim.scene.exporters.substitution import with_values

RATE, SECONDS, STEP = 200, 4.0, 1e-3  # samples of the controller [1/s], length [s], MuJoCo's time step [s]
INTEGRATOR = "implicitfast"
NOISE = 1e-3  # rad, of an encoder
MASSES, SIZES = (1.1, 0.65), ((0.06, 0.06, 0.5), (0.05, 0.05, 0.4))
JOINTS = ("shoulder", "elbow")
RANGES = {"damping": (0.01, 0.2), "friction": (0.02, 0.4), "armature": (0.002, 0.05)}
LATEST = 0.04  # s
FRICTION_RATE = 0.02  # rad/s below which gradsim's dry friction is that of a damper
STARTS, STARTS_WITH_FILM = 4, 3
FAR = 5.0  # standard deviations beyond which an `ok` is a silent failure
LOST = 0.2  # relative error beyond which a search ended elsewhere


def fit_log(job: tuple[int, int]) -> dict:
    """Errors, z and effort of one log, of both tools; None where mujoco.sysid is not installed."""
    number, seed = job
    truth = _truth(np.random.default_rng([seed, number]))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        write_log(path, truth, np.random.default_rng([seed, number, 1]))
        sysid = _by_sysid(path, truth) if find_spec("absl") else None
        return {"truth": truth, "gradsim": _by_gradsim(path, truth, number), "sysid": sysid}


def fit_log_and_film(job: tuple[int, int]) -> dict:
    """Fits of a log alone, and with a film: a load swings freely on an arm whose heavy gear does not feel it.

    The log has the angle and torque of the shoulder; the damping of the elbow, which it hardly knows, is seen in the film.
    """
    number, seed = job
    rng = np.random.default_rng([seed, number, 2])
    truth = {
        "joints.shoulder.damping": float(rng.uniform(30.0, 100.0)),
        "joints.shoulder.armature": float(rng.uniform(300.0, 600.0)),
        "joints.elbow.damping": float(rng.uniform(0.004, 0.02)),
    }
    unknowns = ["joints.shoulder.damping:10:300", "joints.shoulder.armature:100:1000", "joints.elbow.damping:0.001:0.1"]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        scene = _scene_with_film(path)
        times = np.arange(round(RATE * SECONDS) + 1) / RATE
        torque = 1200.0 * np.sin(2 * np.pi * rng.uniform(0.5, 0.9) * times + 1.0) + 400.0 * np.sin(
            2 * np.pi * 1.7 * times
        )
        _write(path, times, {"q_shoulder": 0 * times, "tau_shoulder": torque})  # for the motor alone, so far
        mover, moving = MuJoCo(STEP, "RK4"), with_values(scene, truth)
        fine = moving.model_copy(
            update={"timing": moving.timing.model_copy(update={"fps": RATE, "frames": len(times)})}
        )
        angle = EngineModel(fine, mover).rollout().joint("shoulder")["angle"][0].detach().numpy()
        _write(path, times, {"q_shoulder": angle + NOISE * rng.standard_normal(len(times)), "tau_shoulder": torque})
        film = noisy_masks(scene, EngineModel(moving, mover).rollout(), "upper", number)
        log = JointLog(scene)
        record: dict = {"truth": truth}
        for name, observation in (("log", log), ("log and film", MultiView({"film": film, "log": log}))):
            fit = identify(
                scene, unknowns, observation=observation, starts=STARTS_WITH_FILM, seed=number, known_numbers=False
            )
            elbow = fit.unknowns["joints.elbow.damping"]
            record[name] = {
                "status": fit.status,
                "relative_sd": elbow.std / elbow.value if elbow.std else None,
                "identifiable": elbow.identifiable,
                "z": {n: (e.value - truth[n]) / e.std if e.std else None for n, e in fit.unknowns.items()},
                "chi2_per_n": fit.chi2_per_n,
                "cpu_seconds": fit.cpu_seconds,
            }
        return record


def _scene_with_film(path: Path) -> Scene:
    """The arm with a camera: frames of a film at 25 Hz, and a log of the shoulder at 200 Hz."""
    path.write_text("time,q_shoulder,tau_shoulder\n0,0,0\n1,0,0\n")
    content = scene_of(path).model_dump(exclude_unset=True)
    content["timing"] = {"fps": 25, "frames": round(25 * SECONDS) + 1}
    content["camera"] = {"look_at": {"eye": [0, -3.2, 0.8], "target": [0, 0, 0.8], "fov": "40 deg"}, "size": [96, 72]}
    for name, damping, armature in (("shoulder", 50.0, 300.0), ("elbow", 0.01, 0.0)):
        content["joints"][name] |= {"damping": damping, "armature": armature, "friction": 0.0}
    del content["joints"]["elbow"]["armature"]
    content["joints"]["elbow"]["angle"] = 1.0
    content["channels"] = {name: c for name, c in content["channels"].items() if name.endswith("shoulder")}
    return Scene.parse(content)


def _truth(rng: np.random.Generator) -> dict[str, float]:
    """Numbers of one arm, evenly over the logarithms of their ranges."""
    draw = lambda low, high: float(np.exp(rng.uniform(np.log(low), np.log(high))))
    truth = {f"{joint}.{key}": draw(1.5 * low, high / 1.5) for key, (low, high) in RANGES.items() for joint in JOINTS}
    return truth | {"delay": float(rng.uniform(0.1, 0.9) * LATEST)}


def _mjcf(truth: Mapping[str, float]) -> str:
    """Model of the arm for MuJoCo."""
    joint = lambda name: (
        f'<joint name="{name}" axis="0 1 0" damping="{truth[f"{name}.damping"]:.17g}" '
        f'frictionloss="{truth[f"{name}.friction"]:.17g}" armature="{truth[f"{name}.armature"]:.17g}"/>'
    )
    box = lambda k: (
        f'<geom type="box" size="{" ".join(str(x / 2) for x in SIZES[k])}" pos="0 0 {-SIZES[k][2] / 2}" mass="{MASSES[k]}" '
        'contype="0" conaffinity="0"/>'
    )
    return (
        f'<mujoco><option timestep="{STEP}" integrator="{INTEGRATOR}"/><worldbody><body pos="0 0 1.2">{joint("shoulder")}{box(0)}'
        f'<body pos="0 0 {-SIZES[0][2]}">{joint("elbow")}{box(1)}</body></body></worldbody>'
        '<actuator><motor name="shoulder" joint="shoulder"/><motor name="elbow" joint="elbow"/></actuator>'
        '<sensor><jointpos name="q_shoulder" joint="shoulder"/><jointpos name="q_elbow" joint="elbow"/></sensor></mujoco>'
    )


def write_log(path: Path, truth: Mapping[str, float], rng: np.random.Generator) -> None:
    """Write time, angles [rad] and torques [N m] of an arm that MuJoCo moves."""
    mujoco: Any = require_extra("mujoco", "this experiment", "engines")
    model = mujoco.MjModel.from_xml_string(_mjcf(truth))
    data, times = mujoco.MjData(model), np.arange(round(RATE * SECONDS) + 1) / RATE
    frequency, phase = rng.uniform(0.3, 2.0, (2, 4)), rng.uniform(0, 2 * np.pi, (2, 4))
    size = np.array([1.0, 0.3])  # N m of each of four waves
    torque = size[:, None] * np.sin(2 * np.pi * frequency[..., None] * times + phase[..., None]).sum(1)
    fine, steps = [np.zeros(2)], round(1 / (RATE * STEP))
    for k in range(len(times) - 1):
        data.ctrl[:] = torque[:, k]
        for _ in range(steps):
            mujoco.mj_step(model, data)
            fine.append(data.qpos.copy())
    angle = CubicSpline(np.arange(len(fine)) * STEP, np.array(fine))
    late = angle(np.clip(times - truth["delay"], 0, None)) + NOISE * rng.standard_normal((len(times), 2))
    columns = {f"q_{name}": late[:, k] for k, name in enumerate(JOINTS)}
    _write(path, times, columns | {f"tau_{name}": torque[k] for k, name in enumerate(JOINTS)})


def _write(path: Path, times: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", *columns])
        writer.writerows([[f"{x:.9g}" for x in row] for row in np.column_stack([times, *columns.values()])])


def scene_of(path: Path) -> Scene:
    """Scene of gradsim; the values of the unknowns are the middles of their ranges."""
    middle = {key: float(np.sqrt(low * high)) for key, (low, high) in RANGES.items()}
    bodies = {
        name: {"shape": {"box": {"size": list(size)}}, "mass": mass}
        for name, size, mass in zip(("upper", "lower"), SIZES, MASSES, strict=True)
    }
    hinge = {"kind": "revolute", "axis": [0, 1, 0], "friction_rate": FRICTION_RATE, **middle}
    shoulder = {"between": ["world", "upper"], "parent_point": [0, 0, 1.2], "child_point": [0, 0, SIZES[0][2] / 2]}
    elbow = {
        "between": ["upper", "lower"],
        "parent_point": [0, 0, -SIZES[0][2] / 2],
        "child_point": [0, 0, SIZES[1][2] / 2],
    }
    channels: dict = {f"q_{name}": {"joint": name, "quantity": "angle"} for name in JOINTS}
    channels |= {f"tau_{name}": {"joint": name, "quantity": "torque", "between": "hold"} for name in JOINTS}
    return Scene.parse(
        {
            "name": "arm with a log",
            "timing": {"fps": RATE, "frames": round(RATE * SECONDS) + 1},
            "bodies": bodies,
            "joints": {"shoulder": hinge | shoulder, "elbow": hinge | elbow},
            "channels": channels,
            "log": {"file": str(path)},
        }
    )


def _by_gradsim(path: Path, truth: Mapping[str, float], number: int) -> dict:
    scene = scene_of(path)
    unknowns = [f"joints.{joint}.{key}:{low}:{high}" for key, (low, high) in RANGES.items() for joint in JOINTS]
    unknowns.append(f"channels.q_shoulder.delay=channels.q_elbow.delay:0:{LATEST}")
    fit = identify(
        scene,
        unknowns,
        observation=JointLog(scene),
        starts=STARTS,
        seed=number,
        engine=MuJoCo(STEP, INTEGRATOR),
        known_numbers=False,
    )
    estimates = dict(zip(truth, fit.unknowns.values(), strict=True))
    return {
        "status": fit.status,
        "error": {name: e.value - truth[name] for name, e in estimates.items()},
        "z": {name: (e.value - truth[name]) / e.std if e.std else None for name, e in estimates.items()},
        "chi2_per_n": fit.chi2_per_n,
        "cpu_seconds": fit.cpu_seconds,
        "substeps": (fit.discretization.substeps[0] if fit.discretization else None),
        "ok": fit.status in (Status.OK, Status.APPROXIMATE),
    }


def _by_sysid(path: Path, truth: Mapping[str, float]) -> dict:
    mujoco: Any = require_extra("mujoco", "this experiment", "engines")
    sysid: Any = require_extra("mujoco.sysid", "this experiment", "baselines")
    begin = time.process_time()
    with path.open() as file:
        rows = np.array([[float(x) for x in row] for row in list(csv.reader(file))[1:]])
    middle = {f"{joint}.{key}": float(np.sqrt(low * high)) for key, (low, high) in RANGES.items() for joint in JOINTS}
    spec = mujoco.MjSpec.from_string(_mjcf(middle))
    model = spec.compile()

    def modifier(joint: str, key: str):
        attribute = {"friction": "frictionloss"}.get(key, key)

        def set_number(spec, parameter):
            value = float(parameter.value[0])
            node = spec.joint(joint)
            # damping is a polynomial of the speed in newer versions
            setattr(node, attribute, [value, 0, 0] if np.ndim(getattr(node, attribute)) else value)

        return set_number

    parameters = sysid.ParameterDict()
    for name, value in middle.items():
        joint, key = name.split(".")
        parameters.add(sysid.Parameter(name, value, *RANGES[key], modifier=modifier(joint, key)))
    parameters.add(sysid.Parameter("delay", LATEST / 2, 0.0, LATEST))
    fine = np.arange(round(SECONDS / STEP) + 1) * STEP  # the controller holds its torques
    held = rows[np.minimum((fine * RATE + 1e-6).astype(int), len(rows) - 1), 3:]
    control = sysid.TimeSeries.from_control_names(fine, held, model)
    measured = sysid.TimeSeries.from_names(rows[:, 0], rows[:, 1:3], model)

    def compare(params, predicted, measured_data, model, return_all, state=None):
        del return_all, state
        part = sysid.apply_delayed_ts_window(measured_data, predicted, 0.0, LATEST)
        read = sysid.apply_resample_and_delay(predicted, part.times, float(params["delay"].value[0]))
        return sysid.weighted_diff(read.data, part.data, model) / NOISE, read, part

    start = sysid.create_initial_state(model, np.zeros(2))
    sequences = sysid.ModelSequences("arm", spec, "log", start, control, measured)
    residual = sysid.build_residual_fn(models_sequences=[sequences], modify_residual=compare, n_threads=1)
    answer, result = sysid.optimize(parameters, residual, verbose=False)
    residuals, _, _ = residual(result.x, answer)
    _, half_widths = sysid.calculate_intervals(residuals, result.jac)
    values = {name: float(answer[name].value[0]) for name in truth}
    sd = dict(zip(answer.keys(), half_widths / 1.96, strict=True))
    return {
        "error": {name: values[name] - truth[name] for name in truth},
        "z": {name: float((values[name] - truth[name]) / sd[name]) for name in truth},
        "cpu_seconds": time.process_time() - begin,
    }


def log_figures(logs: Sequence[Mapping], films: Sequence[Mapping]) -> Figures:
    """Figures of the logs: errors, error bars and effort of both tools; and what a film closes."""
    relative = lambda one, tool: [abs(one[tool]["error"][name]) / true for name, true in one["truth"].items()]
    z = [abs(x) for one in logs for x in one["gradsim"]["z"].values() if x is not None]
    trusted = [one for one in logs if one["gradsim"]["ok"]]
    wrong = sum(any(not abs(x or math.inf) <= FAR for x in one["gradsim"]["z"].values()) for one in trusted)
    ours = [max(relative(one, "gradsim")) for one in logs]
    figures = {
        "logs_ok": figure(len(trusted), goal=len(logs), ok=len(trusted) == len(logs)),
        "logs_worst_error_median": figure(float(np.median(ours))),
        "logs_z_largest": figure(max(z, default=math.nan)),
        "logs_coverage95": figure(float(np.mean([x <= 1.96 for x in z])) if z else math.nan),
        "logs_silent": figure(wrong, goal=0),
    }
    compared = [one for one in logs if one["sysid"]]
    if compared:
        theirs = [max(relative(one, "sysid")) for one in compared]
        both = [max(relative(one, "gradsim")) for one in compared]
        effort = lambda tool: np.array([one[tool]["cpu_seconds"] for one in compared])
        joints = lambda tool: np.array([max(relative(one, tool)[:-1]) for one in compared])  # the delay is last
        delay = lambda tool: np.array([relative(one, tool)[-1] for one in compared])
        figures |= {
            "logs_sysid_worst_error_median": figure(float(np.median(theirs))),
            "logs_sysid_lost": figure(sum(error > LOST for error in theirs)),
            "logs_lost": figure(sum(error > LOST for error in both), goal=0),
            "logs_error_over_sysid": figure(float(np.median(joints("gradsim") / joints("sysid"))), goal=1.0),
            "logs_delay_error_over_sysid": figure(float(np.median(delay("gradsim") / delay("sysid")))),
            "logs_cpu_over_sysid": figure(float(effort("gradsim").sum() / effort("sysid").sum()), goal=1.0),
            "logs_cpu_over_sysid_median": figure(float(np.median(effort("gradsim") / effort("sysid")))),
        }
    closed = [one for one in films if one["log and film"]["status"] == Status.OK]
    sd = lambda name: [one[name]["relative_sd"] or math.inf for one in films]
    return figures | {
        "elbow_damping_sd_by_log": figure(float(np.median(sd("log")))),
        "elbow_damping_sd_by_log_and_film": figure(float(np.median(sd("log and film")))),
        "log_and_film_ok": figure(len(closed), goal=len(films), ok=len(closed) == len(films)),
        "log_and_film_z_largest": figure(
            max((abs(x) for one in films for x in one["log and film"]["z"].values() if x is not None), default=math.nan)
        ),
    }
