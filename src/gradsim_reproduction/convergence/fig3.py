"""Mass, friction and elasticity of a beam from video, by descent and by least squares (the paper's Fig. 3 and videos).

Truths and starts are uniform over the same range, from different streams. Descent is Adam on the adjoint through exact
coverage, on the first frames and then on all of them, within a goal of iterations (ours: the paper names none); one
iteration is one rollout forward and one backward. Least squares on the same frames is shown for comparison. The target comes from the renderer
and the steps that fit it: the figure shows how a fit gets there, and does not measure accuracy (see `joint --foreign`).
"""

import math
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from gradsim import video as videos
from gradsim.app.figures import figure
from gradsim.identification import synthetic
from gradsim.identification.api import least_squares
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.solvers.gradient_descent import OPTIMISERS
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Space
from gradsim.render.silhouettes import Silhouettes
from gradsim.visualization.control_video import GAP, Screen, Sought
from gradsim.visualization.sheets import sheet
from gradsim_reproduction.convergence.scenes import TASKS, DescentTask
from gradsim_reproduction.plotting import SAFE, new_figure, save_image, write_figures
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import write_table

SCENES, STARTS = 4, 3  # of each task; starts of descent
KEYS = {"mass": "mass", "friction": "friction", "beam": "beam_mu"}  # of figures, by task
NOTES = "Medians of relative errors over scenes and starts. The paper shows pictures, and names no errors here."
QUICK = 1, 1
LEAST_SQUARES_STARTS = 4
CLOSE = 0.01  # relative error of what is found
SLOWEST = 0.01  # the last rate of a stage of descent over its first


@experiment("fig3", "Mass, friction and elasticity from video", parallel=True)
def fig3(run: Run) -> Outcome:
    """Descend and fit; writes scenes.jsonl, table.md, videos and plots. Quick: one scene per task, one start."""
    count, starts = QUICK if run.quick else (SCENES, STARTS)
    jobs = {f"{name} {k}": (name, k, run.seed, starts) for name in TASKS for k in range(run.scenes or count)}
    records = run.records(run.ledger("scenes.jsonl", starts=starts), jobs, solve, "scenes")
    videos, images = [], [draw_errors(run.out, records)]
    for name, task in TASKS.items():
        run.progress.stage(f"{name}: videos")
        first = next(r for r in records if r["task"] == name)
        video, image = draw_task(run.out, name, task.scene(first["number"], run.seed), task.unknown, first)
        videos.append(video)
        images.append(image)
    figures = summary(records)
    result = {"videos": videos, "images": images}
    result["records"] = [{**r, "path": [r["path"][0], r["path"][-1]], "errors": r["errors"][-1]} for r in records]
    title = "Fig. 3: mass, friction and elasticity from video"
    result["table"] = write_table(run.out, title, table_rows(figures), NOTES)
    return result, figures


def table_rows(figures: dict[str, dict]) -> list[dict]:
    """Errors of each task, by descent and by least squares."""
    rows = []
    for task, key in KEYS.items():
        count = TASKS[task].iterations
        rows.append({"name": f"{task}: {count} iterations of descent", "ours": figures[f"{key}_rel_err"]["value"]})
        rows.append({"name": f"{task}: least squares", "ours": figures[f"{key}_rel_err_least_squares"]["value"]})
    return [{"paper": None, **row} for row in rows]


def solve(job: tuple[str, int, int, int]) -> dict:
    """One scene of a task: what descent and least squares find, next to the truth."""
    name, number, seed, starts = job
    task = TASKS[name]
    scene = task.scene(number, seed)
    space = Space(scene, [task.unknown])
    model = model_for(synthetic.own_steps(scene), space)
    truth = synthetic.draw_truth(scene, [task.unknown], truth_seed := 1000 * seed + 10 * number + task.stream)
    with torch.no_grad():
        observation = synthetic.float_masks(scene, model.rollout(parameter_values(scene, truth)))
    value, problem = truth[space.names[0]], Problem(model, observation, space)
    start = space.draw(np.random.default_rng([seed, number, task.stream]), starts)
    path, loss = descend(problem, task, start)
    fit = least_squares(
        scene, observation, [task.unknown], MultistartConfig(starts=LEAST_SQUARES_STARTS), truth_seed, model=model
    )
    return {
        "task": name,
        "number": number,
        "truth": value,
        "path": [[float(f"{v:.9g}") for v in row] for row in path.tolist()],
        "errors": [[float(f"{abs(v / value - 1):.4g}") for v in row] for row in path.tolist()],
        "best": int(loss.argmin()),
        "ls_error": abs(fit.values[space.names[0]] / value - 1),
        "ls_iterations": fit.iterations,
        "ls_rollouts": fit.rollouts,
    }


def descend(problem: Problem, task: DescentTask, start: Tensor) -> tuple[Tensor, Tensor]:
    """Values of the unknown (iterations + 1, starts) on the way, and the last loss of each start (starts,)."""
    u, space = start.clone().requires_grad_(), problem.space
    path, loss = [space.numbers(u.detach())[:, 0]], torch.empty(0)
    for frames, iterations, rate in task.stages:
        search = OPTIMISERS["adam"]([u], rate)
        for k in range(iterations):
            search.param_groups[0]["lr"] = rate * SLOWEST ** (k / iterations)
            trajectory = problem.model.rollout(space.values(u), frames=frames)
            blocks = problem.observation.residuals(trajectory, frames, "pixels")
            loss = torch.stack([r.square().mean(1) for r in blocks]).mean(0)
            search.zero_grad()
            loss.sum().backward()
            search.step()
            with torch.no_grad():
                u.clamp_(space.low, space.high)
            path.append(space.numbers(u.detach())[:, 0])
    return torch.stack(path), loss.detach()


def settling_iteration(errors: np.ndarray) -> np.ndarray:
    """After how many iterations errors (iterations + 1, starts) are below `CLOSE` and stay so; infinite if never."""
    close_count = np.logical_and.accumulate(errors[::-1] < CLOSE, 0).sum(0)  # from the end
    return np.where(close_count > 0, len(errors) - close_count, np.inf)


def summary(records: list[dict]) -> dict[str, dict]:
    """Errors, iterations and shares found of each task: over all starts of descent, and by least squares."""
    figures = {}
    for name, key in KEYS.items():
        part, task = [r for r in records if r["task"] == name], TASKS[name]
        final = np.concatenate([r["errors"][-1] for r in part])
        best = np.array([r["errors"][-1][r["best"]] for r in part])
        after = np.concatenate([settling_iteration(np.array(r["errors"])) for r in part])
        exact, converged = np.array([r["ls_error"] for r in part]), np.isfinite(after)
        middle = float(np.median(after)) if np.isfinite(np.median(after)) else math.nan
        ok = bool(middle <= task.iterations)
        figures |= {
            f"{key}_rel_err": figure(float(np.median(final)), goal=CLOSE),
            f"{key}_rel_err_best_start": figure(float(np.median(best))),
            f"{key}_rel_err_worst": figure(float(final.max())),
            f"{name}_found": figure(float(converged.mean())),
            f"{name}_iterations": figure(middle, goal=task.iterations, ok=ok),
            f"{key}_rel_err_least_squares": figure(float(np.median(exact)), goal=1e-6),
            f"{key}_rel_err_worst_least_squares": figure(float(exact.max())),
            f"{name}_iterations_least_squares": figure(float(np.median([r["ls_iterations"] for r in part]))),
            f"{name}_rollouts_least_squares": figure(float(np.median([r["ls_rollouts"] for r in part]))),
        }
    return figures


LEAST = 1e-15  # relative error at the foot of the plot
WHAT = {"mass": "mass [kg]", "friction": "friction", "beam": "elasticity of the beam, mu [Pa]"}


def draw_task(out: Path, name: str, scene, unknown: str, record: dict) -> tuple[dict, dict]:
    """Write NAME.webm and NAME.png of the best start of a record.

    Args:
        out: The folder.
        name: Name of the task.
        scene: Its scene.
        unknown: Its name and range.
        record: Truth, and values on the way of descent.

    Returns:
        The video and the image, as a report lists them.
    """
    space, k = Space(scene, [unknown]), record["best"]
    model, path = model_for(scene, space), [row[k] for row in record["path"]]
    values = {"initial": path[0], "fit": path[-1], "truth": record["truth"]}
    with torch.no_grad():
        motions = {what: model.rollout(parameter_values(scene, {space.names[0]: v})) for what, v in values.items()}
    last = scene.timing.frames - 1
    true = motions["truth"]
    with torch.no_grad():
        inside = Silhouettes.of(scene).union(true.surface, true.values)[0, last].numpy()
    image = synthetic.render_video(scene, true)[last].numpy()
    screen = Screen(scene, "camera", [Sought(last, image, inside)])
    strips = [screen.frames(motion) for motion in motions.values()]
    gap = np.full_like(strips[0][:, :, :GAP], 255)
    videos.write_preview(
        out / f"{name}.webm", np.concatenate([strips[0], gap, strips[1], gap, strips[2]], 2), screen.fps
    )
    labels = [f"{what}: {value:.4g}" for what, value in values.items()]
    stills = [screen.instants(motion) for motion in motions.values()]
    save_image(out / f"{name}.png", sheet(stills, len(stills), labels))
    text = f"{WHAT[name][0].upper()}{WHAT[name][1:]}: initial, fit after {len(path) - 1} iterations of descent, truth."
    caption = f"{text} Instants of the motion, the last one clearest; the outline is where the truth ends."
    return {"file": f"{name}.webm", "text": text}, {"file": f"{name}.png", "title": WHAT[name], "caption": caption}


def draw_errors(out: Path, records: list[dict]) -> dict:
    """Write errors.png, relative errors of all starts by iteration; returns its entry for `result.json`."""
    caption = "Lines: descents, one per start. Crosses: least squares from four starts, at all of its rollouts."
    return write_figures(out, {"errors": (lambda: _errors(records), "Errors by iteration", caption)})[0]


def _errors(records: list[dict]) -> Figure:
    figure = new_figure(10, 3.2)
    panels = figure.subplots(1, len(WHAT), sharey=True)
    for ax, name, color in zip(panels, WHAT, SAFE, strict=False):
        for record in (r for r in records if r["task"] == name):
            ax.semilogy(np.maximum(record["errors"], LEAST), color=color, lw=0.8, alpha=0.7)
            ax.plot(record["ls_rollouts"], max(record["ls_error"], LEAST), "kx", ms=5)
        ax.set(title=WHAT[name], xlabel="iterations of a start")
    panels[0].set(ylabel="relative error", ylim=(LEAST, 10))
    panels[-1].plot([], [], "kx", label="least squares, at its rollouts")
    panels[-1].legend(fontsize=8)
    return figure
