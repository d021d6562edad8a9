"""Bodies held by joints: against Lagrange, against Newton, and known from video.

    lagrange    two hinged rods next to the double pendulum of `double_pendulum.py`, which is written in its angles
    newton      a chain of four links from one URDF file, compared with Newton's Featherstone (`chain.py`): as one in the limit
                of small steps, and CPU time per step
    top         the steady precession of a heavy top, at both of its rates
    arms        swinging arms of three links, a known torque in the shoulder, eight numbers of links and joints unknown:
                from silhouettes in double precision (float), from 8-bit video with noise (8bit), and from silhouettes by
                another renderer of a motion with four times the steps (foreign)

Truths and starts are drawn from the same ranges, from different streams; the scenes do not depend on the truth.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim.app.figures import figure
from gradsim.identification import synthetic
from gradsim.identification.api import solve
from gradsim.identification.observation.base import Observation
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.runtime.progress import Progress, progress_callback
from gradsim.scene import Scene
from gradsim_reproduction.contact import articulated_plots, chain
from gradsim_reproduction.rigid.joint import outcome
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.soft.table3 import draw_truth, errors

ARMS, QUICK = 10, 2
NOISY = 0.5  # share of the arms, the first ones, that are also seen on noisy video and by another renderer
MODES = ("float", "8bit", "foreign")
UNKNOWNS = (  # a decade each, or symmetric about 0, or 10 to 25 % about a size
    "lower.mass:0.25:2.5",
    "hand.mass:0.1:1",
    "lower.scale:0.8:1.25",
    "joints.shoulder.damping:0.02:0.2",
    "joints.elbow.damping:0.01:0.1",
    "joints.elbow.stiffness:0.5:5",
    "joints.elbow.axis.x:-0.6:0.6",
    "joints.shoulder.parent_point.z:0.9:1.1",
)
STAGES: dict[str, Any] = {"first": 8, "grow": 6}
STARTS = {"float": 8, "8bit": 8, "foreign": 8}
FINER = 4  # times more steps in the targets of `foreign`
GOAL, SOLVED = 1e-6, 1e-3
SUBSTEPS = (4, 8, 16, 32, 64)  # of the chain: its frames are 1/50 s
EXACT = 64  # substeps of the chain of fourth order that both are compared with
WORLDS = 64


@experiment("articulated", "Articulated bodies")
def articulated(run: Run) -> Outcome:
    """Compare with Lagrange and Newton, and fit swinging arms; writes fits.jsonl, plots and a video. Quick: 2 arms."""
    run.progress.stage("double pendulum and top")
    figures = {"lagrange_difference": figure(lagrange_difference(), goal=1e-9)}
    figures["top_precession_rel_err"] = figure(max(precession_error(rate) for rate in (0, 1)), goal=1e-3)
    peer: dict = {}
    if chain.has_newton():
        run.progress.stage("chain in Newton")
        peer = compare(run.out)
        figures |= newton_figures(peer)
    ledger, records = run.ledger("fits.jsonl"), []
    for number, mode in _plan(QUICK if run.quick else ARMS):
        records.append(ledger.once(f"arm {number} {mode} seed {run.seed}", fit, number, mode, run.seed, run.progress))
    scenes = {r["number"]: arm(r["number"], run.seed) for r in records}
    result = {"records": records, "chain": peer} | articulated_plots.draw(run.out, records, scenes, peer)
    return result, figures | summary(records)


def arm(number: int, seed: int) -> Scene:
    """The library's arm from a drawn start, seen from a drawn side; links of one colour that differs from the wall."""
    rng = np.random.default_rng([seed, number])
    content = Scene.library("arm").model_dump(exclude_unset=True)
    for name, reach in (("shoulder", 1.6), ("elbow", 1.0), ("wrist", 1.4)):
        content["joints"][name] |= {"angle": rng.uniform(-reach, reach), "rate": rng.uniform(-3, 3)}
    for link in content["bodies"].values():
        link["colour"] = (0.16, 0.28, 0.62)
    turn = rng.uniform(-0.6, 0.6)
    eye = [3.0 * math.sin(turn), -3.0 * math.cos(turn), rng.uniform(0.6, 1.4)]
    content["camera"] = {"size": [64, 64], "look_at": {"eye": eye, "target": [0, 0, 0.8], "fov": 0.85}}
    content["name"] = f"arm {number}"
    return Scene.parse(content)


def _plan(arms: int) -> Iterator[tuple[int, str]]:
    """Number and sight of every fit."""
    for number in range(arms):
        for mode in MODES if number < math.ceil(NOISY * arms) else MODES[:1]:
            yield number, mode


def fit(number: int, mode: str, seed: int, progress: Progress) -> dict:
    """Fit the numbers of one arm; its result and the truth."""
    scene, noise_seed = arm(number, seed), 100 * seed + number
    space = Space(scene, UNKNOWNS, decades=True)
    model, truth = (
        model_for(scene if mode == "foreign" else synthetic.own_steps(scene), space),
        draw_truth(space, noise_seed),
    )
    problem = Problem(model, observe(scene, truth, model, mode, noise_seed), space)
    estimate = solve(problem, MultistartConfig(STARTS[mode], **STAGES), noise_seed, report=progress_callback(progress))
    record = {"number": number, "sight": mode, **outcome(estimate, truth)}
    return record | {"errors": errors(space, estimate.values, truth)}


def observe(scene: Scene, truth: dict[str, float], model: Model, mode: str, seed: int) -> Observation:
    """Observation of this arm in a mode."""
    source = Model(scene, substeps=FINER * model.substeps) if mode == "foreign" else model
    with torch.no_grad():
        trajectory = source.rollout(parameter_values(scene, truth))
    if mode == "float":
        return synthetic.float_masks(scene, trajectory)
    if mode == "8bit":
        return synthetic.noisy_masks(scene, trajectory, "upper", seed)
    return synthetic.foreign_masks(scene, trajectory)


def lagrange_difference() -> float:
    """Largest difference of an angle [rad] between two hinged rods and the double pendulum, over a second.

    The rods are given 1e-9 kg m² about their own axis; they turn in one plane, so it does not matter.
    """
    rod = lambda mass, long: {
        "shape": {"box": {"size": [0.05, 0.05, long]}},
        "mass": mass,
        "inertia": [mass * long**2 / 12] * 2 + [1e-9],
    }
    hinge = {"kind": "revolute", "axis": [0, -1, 0], "damping": 0.01}
    first = {**hinge, "between": ["world", "first"], "child_point": [0, 0, 0.25], "angle": 2.0}
    second = {"parent_point": [0, 0, -0.25], "child_point": [0, 0, 0.2], "angle": -0.8, "rate": 0.5}
    links = {
        "gravity": 9.81,
        "timing": {"fps": 30, "frames": 31, "substeps": 128, "integrator": "rk4"},
        "bodies": {"first": rod(1.0, 0.5), "second": rod(0.7, 0.4)},
        "joints": {"first": first, "second": {**hinge, "between": ["first", "second"], **second}},
    }
    arms = {
        "kind": "double_pendulum",
        "masses": "rods",
        "first_length": 0.5,
        "second_length": 0.4,
        "first_mass": 1.0,
        "second_mass": 0.7,
        "first_angle": 2.0,
        "second_angle": 1.2,
        "second_rate": 0.5,
        "damping": 0.01,
    }
    angles = {"gravity": 9.81, "timing": {"fps": 30, "frames": 31, "substeps": 32}, "bodies": {"arms": arms}}
    with torch.no_grad():
        moving, swing = Model(Scene.parse(links)).rollout(), Model(Scene.parse(angles)).rollout()
        turns = [moving.joint(name)["angle"] for name in ("first", "second")]
        angles_of_rods = torch.stack([turns[0], turns[0] + turns[1]], -1)
    return (angles_of_rods - swing["arms"]["angle"]).abs().max().item()


def precession_error(which: int) -> float:
    """Relative error of the rate at which the library's top precesses, at its slow (0) or fast (1) steady rate.

    Ω² I₁ cos θ − Ω I₃ ω₃ + m g l = 0, I₁ about the tip.
    """
    model = Model(Scene.library("top"))
    joint, body = model.scene.joints["tip"], model.scene.bodies["top"]
    arm, tilt, mass, spin = joint.child_point[2], joint.rotation_vector[1], body.mass, 20.0
    inertia = model.systems[0].inertia(model.values())[0].detach()  # pyright: ignore[reportAttributeAccessIssue]
    across, along = inertia[0, 0].item() + mass * arm**2, inertia[2, 2].item() * spin
    root = math.sqrt(along**2 - 4 * across * math.cos(tilt) * mass * 9.81 * arm)
    rate = (along + (root if which else -root)) / (2 * across * math.cos(tilt))
    axis = torch.tensor([math.sin(tilt), 0.0, math.cos(tilt)], dtype=torch.float64)
    start = torch.tensor([0.0, 0.0, rate], dtype=torch.float64) + (spin - rate * math.cos(tilt)) * axis
    with torch.no_grad():
        x = model.rollout({"joints.tip.angular_velocity": start[None]})["top"]["x"][0]
    turn = torch.atan2(x[:, 1], x[:, 0])
    steps = torch.remainder(turn.diff() - rate / 30 + math.pi, 2 * math.pi) - math.pi + rate / 30
    return abs(steps.mean().item() * 30 / rate - 1)


def compare(folder: Path) -> dict:
    """Distances [m] of the links of the chain from a rollout of fourth order by step, and CPU seconds per step."""
    exact = chain.centers(Model(chain.scene(folder, EXACT, "rk4")))
    distances: dict = {"step": [], "newton": [], "gradsim": [], "apart": [], "seconds": {}}
    for n in SUBSTEPS:
        ours, theirs = chain.centers(Model(chain.scene(folder, n))), chain.NewtonChain(folder, n).centers()
        distances["step"].append(1 / (chain.FPS * n))
        pairs = (("newton", theirs, exact), ("gradsim", ours, exact), ("apart", theirs, ours))
        for key, a, b in pairs:
            distances[key].append(float(np.linalg.norm(a - b, axis=-1).max()))
    for worlds in (1, WORLDS):
        distances["seconds"] |= {f"{key} {worlds}": value for key, value in _seconds(folder, worlds).items()}
    return distances


def _seconds(folder: Path, worlds: int) -> dict[str, float]:
    """CPU time per step [s] of gradsim's rollout and of Newton's recorded and launched steps, for this number of worlds."""
    substeps = SUBSTEPS[-2]
    model = Model(chain.scene(folder, substeps))
    values = {"joints.hinge0.angle": torch.full((worlds,), chain.ANGLE, dtype=torch.float64)}
    peer = chain.NewtonChain(folder, substeps, worlds)
    with torch.no_grad():
        ours = chain.fastest(lambda: model.rollout(values)) / (substeps * round(chain.DURATION * chain.FPS))
    recorded = peer.seconds_per_step()
    peer.start()
    return {"gradsim": ours, "newton": recorded, "newton eager": chain.fastest(peer.frame) / substeps}


def newton_figures(peer: dict) -> dict[str, dict]:
    """Figures of the comparison with Newton: distance, order of convergence, CPU time over gradsim's."""
    span = chain.LINKS * chain.LENGTH
    order = lambda key: float(np.polyfit(np.log(peer["step"]), np.log(peer[key]), 1)[0])
    seconds = peer["seconds"]
    ratio = lambda key, n: figure(seconds[f"{key} {n}"] / seconds[f"gradsim {n}"])
    return {
        "newton_difference": figure(peer["apart"][-1] / span, goal=1e-3),
        "newton_order": figure(order("apart"), goal=1.0, ok=abs(order("apart") - 1) < 0.1),
        "newton_cpu_ratio": ratio("newton", 1),
        f"newton_cpu_ratio_{WORLDS}_worlds": ratio("newton", WORLDS),
        "newton_eager_cpu_ratio": ratio("newton eager", 1),
    }


def summary(records: list[dict]) -> dict[str, dict]:
    """Errors of the fits by sight, and whether the error bars are right."""
    figures = {}
    for mode in MODES:
        part = [r for r in records if r["sight"] == mode]
        worst = [max(r["errors"].values()) for r in part]
        label = "identified" if mode == "float" else f"identified_{mode}"
        figures[f"{label}_rel_err"] = figure(float(np.max(worst)), goal=GOAL if mode == "float" else None)
        figures[f"{label}_rel_err_median"] = figure(float(np.median(worst)))
        solved = float(np.mean([w < SOLVED for w in worst]))
        if mode == "float":
            figures["solved"] = figure(solved, goal=1.0, ok=solved == 1)
            figures["starts_converged"] = figure(float(np.mean([r["converged"] for r in part])))
            figures["cpu_seconds_median"] = figure(float(np.median([r["cpu_seconds"] for r in part])))
    noisy = [r for r in records if r["sight"] == "8bit"]
    z = np.array([value for r in noisy for value in r["z"].values()])
    figures["z_rms"] = figure(float(np.sqrt(np.mean(z**2))), goal=1.3)
    figures["covered_by_95"] = figure(float(np.mean([i for r in noisy for i in r["inside"].values()])))
    return figures
