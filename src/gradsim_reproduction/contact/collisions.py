"""Two bodies that collide: derivatives with known values, a shot at billiards, and masses and friction from one video.

* Equal balls head-on exchange velocities; a ball off a ground, or off a ground and a wall, comes back as light does. What
  derivatives are off falls with the time that bodies touch, as 1/√k.
* Billiards: with which velocity has a ball to hit another, so that that one is at a goal at a given time? Gauss–Newton on the
  place of the struck ball, from forward sensitivities, starts uniform over the same range; for hard balls the answer is known.
* Identification: a box gets a known push and strikes another. Both masses and the friction between them from the
  silhouettes of one camera; without a known force the ratio of the masses, with the null direction that goes with it.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from gradsim import video
from gradsim.app.figures import figure
from gradsim.errors import Status
from gradsim.geometry.image_io import to_bytes
from gradsim.identification import synthetic
from gradsim.identification.api import least_squares
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.runtime.progress import Progress, progress_callback
from gradsim.scene import Scene
from gradsim.visualization.player import write_player
from gradsim_reproduction.contact.billiards import RADIUS, Shot
from gradsim_reproduction.plotting import BLUE, GREEN, ORANGE, new_figure, write_figures
from gradsim_reproduction.runner import Outcome, Run, experiment

STIFF = (1e3, 1e4, 1e5)
SHORT = 400_000  # steps of each of five parts of a bounce
BALL = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1.0}
SHOTS, STARTS, QUICK_SHOTS = 8, 16, 2
VIDEOS, QUICK_VIDEOS = 6, 1
PUSHED = ("striker.mass:0.5:3", "target.mass:0.5:3", "contacts.hit.friction:0.1:0.8")
FREE = (*PUSHED, "contacts.hit.stiffness:5e3:5e4", "contacts.hit.friction_stiffness:5:50")
NULL = np.array([1, 1, 0, 1, 1]) / 2  # over the logarithms of FREE: masses, and what resists them in proportion


@experiment("collisions", "Two bodies that collide")
def collisions(run: Run) -> Outcome:
    """Run all three parts; writes finished.jsonl, scene.yaml, player.html, videos and plots. Quick: 2 shots, 1 video."""
    ledger = run.ledger("finished.jsonl", experiment="collisions")
    bounces = {
        f"{k:g}": ledger.once(f"bounces {k:g}", lambda k: {n: f(k) for n, f in BOUNCES.items()}, k) for k in STIFF
    }
    shots = [
        ledger.once(f"shot {number}", Shot.random(run.seed, number).solve, STARTS)
        for number in range(QUICK_SHOTS if run.quick else SHOTS)
    ]
    fits = [
        ledger.once(f"film {number}", _identified, run.seed, number, run.progress)
        for number in range(QUICK_VIDEOS if run.quick else VIDEOS)
    ]
    run.progress.stage("plots")
    _video(run.out, fits[0])
    result = {"bounces": bounces, "shots": shots, "fits": fits}
    result["images"] = draw(run.out, bounces, shots)
    result["videos"] = [{"file": "collision.webm", "text": "A fitted video."}]
    return result, summary(bounces, shots, fits)


def exchange(k: float) -> float:
    """|∂v₂/∂v₁ − 1| of two equal balls on a line."""
    bodies = {"a": {**BALL, "position": [-0.25, 0, 0], "velocity": [1, 0, 0]}, "b": BALL}
    contacts = {"hit": {"between": ["a", "b"], "stiffness": k, "dissipation": 0}}
    clock = {"fps": 5, "frames": 2, "substeps": math.ceil(2 * k), "integrator": "semi-implicit"}
    v = torch.tensor([[1.0, 0, 0]]).double().requires_grad_()
    model = Model(Scene.parse({"gravity": 0, "bodies": bodies, "contacts": contacts, "timing": clock}))
    (slope,) = torch.autograd.grad(model.rollout({"a.velocity": v})["b"]["v"][0, -1, 0], v)
    return abs(slope[0, 0].item() - 1)


def ground_bounce(k: float) -> float:
    """Relative error of ∂h/∂y₀ = −1 and ∂h/∂v₀ = −T of a ball that bounces off a ground; T = 1 s."""
    return _bounce(k, walls=False)


def corner_bounce(k: float) -> float:
    """The same off a ground, then a wall, of both coordinates."""
    return _bounce(k, walls=True)


BOUNCES = {"exchange": exchange, "ground": ground_bounce, "ground_and_wall": corner_bounce}


def _bounce(k: float, walls: bool) -> float:
    """Steps are short about the touches: one of h leaves an error of O(h k T), as the touch begins somewhere within it."""
    touch, first, across = math.pi / math.sqrt(k), 0.02, 1.3  # [s], [s], [m/s]
    hard = {"stiffness": k, "dissipation": 0, "friction_stiffness": 0, "friction": 0}
    grounds = {"floor": hard, "wall": {**hard, "normal": [-1, 0, 0], "height": -0.1 - across * (first + 1.5 * touch)}}
    if not walls:
        del grounds["wall"]
    ball = {**BALL, "position": [0, 0, 0.1 + first], "velocity": [across if walls else 0, 0, -1]}
    model = Model(
        Scene.parse(
            {
                "gravity": 0,
                "bodies": {"ball": ball},
                "grounds": grounds,
                "timing": {"substeps": SHORT, "integrator": "semi-implicit"},
            }
        )
    )
    leaves = {f"ball.{key}": torch.tensor([ball[key]]).double().requires_grad_() for key in ("position", "velocity")}
    parts = [first - 0.1 * touch, 1.3 * touch, 0.2 * touch, 1.3 * touch]
    parts.append(1 - sum(parts))
    (group,) = model.groups
    inputs = group.inputs(model.values(leaves))
    end = group.program(6, SHORT, 1e-6, 1).run(*inputs, torch.tensor([parts]).double() / SHORT)[0][0, -1]
    worst = 0.0
    for axis in (0, 2) if walls else (2,):
        slopes = torch.autograd.grad(end[axis], list(leaves.values()), retain_graph=True)
        worst = max(worst, *(abs(slope[0, axis].item() + 1) for slope in slopes))
    return worst


def collision_scene(pushed: bool) -> Scene:
    """A box that strikes another: by a known push, or with a known velocity."""
    striker = {
        "shape": {"box": {"size": [0.3, 0.2, 0.25]}},
        "mass": 1,
        "position": [-0.45, 0.07, 0],
        "colour": [0.1, 0.35, 0.7],
    }
    how = {"pushes": [{"impulse": [2, 0, 0], "at": 0}]} if pushed else {"velocity": [1.5, 0, 0]}
    target = {
        "shape": {"box": {"size": [0.22, 0.3, 0.2]}},
        "mass": 1,
        "rotation_vector": [0, 0, 0.35],
        "colour": [0.85, 0.45, 0.1],
    }
    hit = {
        "between": ["striker", "target"],
        "stiffness": 2e4,
        "dissipation": 0.2,
        "friction_stiffness": 20,
        "friction": 0.4,
    }
    camera = {
        "size": [64, 64],
        "look_at": {"eye": [0.3, -0.6, 2.6], "target": [0.2, 0, 0], "fov": "45 deg", "up": [0, 1, 0]},
    }
    return Scene.parse(
        {"name": "collision", "gravity": 0, "timing": {"fps": 30, "frames": 20, "substeps": 40, "integrator": "semi-implicit"}, "camera": camera,
         "bodies": {"striker": {**striker, **how}, "target": target}, "contacts": {"hit": hit}}
    )  # fmt: skip


def _identified(seed: int, number: int, progress: Progress) -> dict:
    """Fits of one video with a known push, and of one without."""
    records: dict = {}
    for pushed, unknowns in ((True, PUSHED), (False, FREE)):
        scene, truth_seed = collision_scene(pushed), 1000 * seed + number
        truth = synthetic.draw_truth(scene, unknowns, truth_seed)
        _, trajectory = synthetic.simulate(scene, unknowns, truth)
        observation = synthetic.float_masks(scene, trajectory)
        progress.stage(f"film {number}, {'with' if pushed else 'without'} a known push")
        plan = MultistartConfig(starts=12)
        case, report = synthetic.own_steps(scene), progress_callback(progress)
        fit = least_squares(case, observation, unknowns, plan, truth_seed, report=report).against(truth)
        ratio = lambda numbers: numbers["striker.mass"] / numbers["target.mass"]
        record = {"status": fit.status, "truth": truth, "values": fit.values, "starts": fit.starts}
        record |= {"ratio_error": abs(ratio(fit.values) / ratio(truth) - 1), "cpu_seconds": fit.cpu_seconds}
        record["errors"] = {name: abs(fit.values[name] / truth[name] - 1) for name in truth}
        directions = [[d.combination[name] for name in fit.unknowns] for d in fit.null_directions]
        if directions:  # two where the bodies stick throughout, which leaves friction open too
            span = np.linalg.qr(np.array(directions).T)[0]
            record["null_error"] = float(np.linalg.norm(NULL - span @ (span.T @ NULL))) if not pushed else None
            record["open"] = directions
        records["pushed" if pushed else "free"] = record
    return records


def _video(out: Path, record: dict) -> None:
    """A video, and a player of it."""
    scene, truth = collision_scene(True), record["pushed"]["truth"]
    model = model_for(scene, Space(scene, PUSHED))
    true, fitted = (model.rollout(parameter_values(scene, n)) for n in (truth, record["pushed"]["values"]))
    frames = to_bytes(synthetic.render_video(scene, true))
    write_slow_video(out / "collision.webm", frames, scene.timing.fps)
    write_player(out / "player.html", scene, fitted.scene_surface, frames, true.scene_surface)
    scene.save(out / "scene.yaml")


def summary(bounces: dict, shots: list[dict], videos: list[dict]) -> dict[str, dict]:
    """The figures."""
    figures = {}
    for name in BOUNCES:
        errors = [bounces[f"{k:g}"][name] for k in STIFF]
        figures[f"{name}_error_at_1e5"] = figure(errors[-1], goal=1e-2)
        if name != "exchange":  # which is complete at any stiffness
            slope = float(np.polyfit(np.log(STIFF), np.log(errors), 1)[0])
            figures[f"{name}_slope_over_stiffness"] = figure(slope, goal=-0.45)
    pushed, free = [f["pushed"] for f in videos], [f["free"] for f in videos]
    flagged = float(np.mean([f["status"] == Status.UNIDENTIFIABLE for f in free]))
    for name in (unknown.split(":")[0] for unknown in PUSHED):
        errors = [f["errors"][name] for f in pushed]
        figures[f"{name}_error_median"] = figure(float(np.median(errors)), goal=1e-4)
        figures[f"{name}_error_worst"] = figure(max(errors))
    figures |= {
        "break_speed_error_worst": figure(max(s["speed_error"] for s in shots), goal=1e-2),
        "break_direction_error_worst": figure(max(s["direction_error"] for s in shots), goal=1e-2),
        "break_miss_worst": figure(max(s["miss"] for s in shots), goal=1e-6),
        "break_starts_solved_share": figure(float(np.mean([s["solved_share"] for s in shots]))),
        "ratio_error_median_without_push": figure(float(np.median([f["ratio_error"] for f in free])), goal=1e-3),
        "friction_error_median_without_push": figure(
            float(np.median([f["errors"]["contacts.hit.friction"] for f in free])), goal=1e-3
        ),
        "flagged_without_push": figure(flagged, goal=1, ok=flagged == 1),
        "null_direction_error_worst": figure(max(f.get("null_error", math.inf) for f in free), goal=1e-2),
    }
    return figures


MARKS = {"exchange": ("o", BLUE), "ground": ("s", ORANGE), "ground_and_wall": ("^", GREEN)}


def draw(out: Path, bounces: Mapping, shots: Sequence[dict]) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    shot_text = (
        "Left: the first shot, with the velocities of the starts (thin) and of the solution (thick). "
        "Right: distance from the goal, all starts of all shots."
    )
    bounce_text = "Error of derivatives against hard bodies; it decreases with the contact time."
    return write_figures(
        out,
        {
            "shots": (lambda: _shots(shots), "Shots", shot_text),
            "bounces": (lambda: _bounces(bounces), "Derivatives", bounce_text),
        },
    )


def write_slow_video(path: Path, frames: np.ndarray, fps: float) -> None:
    """Frames enlarged five times, three times as slow."""
    path.parent.mkdir(parents=True, exist_ok=True)
    video.write_preview(path, frames.repeat(5, 1).repeat(5, 2), fps / 3)


def _shots(shots: Sequence[dict]) -> Figure:
    figure = new_figure(8.6, 3.2)
    left, right = figure.subplots(1, 2, width_ratios=(1.3, 1))
    shot = shots[0]
    place, goal = np.array(shot["place"]), np.array(shot["goal"])
    way = goal - place
    touch = place - 2 * RADIUS * way / np.linalg.norm(way)
    for centre, colour, fill in (
        ((0, 0), BLUE, True),
        (place, ORANGE, True),
        (touch, BLUE, False),
        (goal, ORANGE, False),
    ):
        left.add_patch(
            Circle(tuple(centre), RADIUS, facecolor=colour if fill else "none", edgecolor=colour, alpha=0.8, lw=1.2)
        )
    for v in shot["course"][0][0]:
        left.annotate("", np.array(v) * 0.3, (0, 0), arrowprops={"arrowstyle": "->", "lw": 0.6, "color": "0.6"})
    left.annotate("", np.array(shot["found"]) * 0.3, (0, 0), arrowprops={"arrowstyle": "->", "lw": 2, "color": BLUE})
    left.annotate("", goal, place, arrowprops={"arrowstyle": "->", "lw": 1, "color": ORANGE, "ls": "--"})
    left.set_xlim(-0.2, 1.9)
    left.set_ylim(-0.7, 0.7)
    left.set_aspect("equal")
    left.set_xlabel("x in m")
    left.set_ylabel("y in m")
    for one in shots:
        right.semilogy(np.array([miss for _, miss in one["course"]]), color=BLUE, alpha=0.25, lw=0.8)
    right.set_xlabel("iterations of Gauss–Newton")
    right.set_ylabel("distance from the goal in m")
    return figure


def _bounces(bounces: Mapping) -> Figure:
    figure = new_figure(4.6, 3.0)
    ax = figure.subplots()
    stiff = np.array([float(k) for k in bounces])
    for name, (mark, colour) in MARKS.items():
        ax.loglog(
            stiff,
            [row[name] for row in bounces.values()],
            marker=mark,
            color=colour,
            lw=1,
            label=name.replace("_", " "),
        )
    ax.loglog(stiff, np.pi / np.sqrt(stiff), color="0.6", ls="--", lw=1, label=r"$\pi\sqrt{m/k}\,/\,T$")
    ax.set_xlabel("stiffness in N/m")
    ax.set_ylabel("error of derivatives")
    ax.legend()
    return figure
