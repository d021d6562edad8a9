"""Films and strips of Fig. 3: the start of a descent, where it ended, and the truth, side by side; and errors on the way."""

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim import video as videos
from gradsim.identification import synthetic
from gradsim.identification.api import model_for, placed
from gradsim.identification.unknowns import Space
from gradsim.render.silhouettes import Silhouettes
from gradsim.visualization.control_video import GAP, Screen, Sought
from gradsim.visualization.sheets import sheet
from gradsim_reproduction.plotting import SAFE, new_figure, save_image, write_figures

LEAST = 1e-15  # relative error at the foot of the plot
WHAT = {"mass": "mass [kg]", "friction": "friction", "beam": "elasticity of the beam, mu [Pa]"}


def show(out: Path, name: str, scene, unknown: str, record: dict) -> tuple[dict, dict]:
    """Write NAME.webm and NAME.png of the best start of a record.

    Args:
        out: The folder.
        name: Of the task.
        scene: Its scene.
        unknown: Its name and range.
        record: Truth, and values on the way of descent.

    Returns:
        The film and the picture, as a report lists them.
    """
    space, k = Space(scene, [unknown]), record["best"]
    model, path = model_for(scene, space), [row[k] for row in record["path"]]
    values = {"initial": path[0], "fit": path[-1], "truth": record["truth"]}
    with torch.no_grad():
        motions = {what: model.rollout(placed(scene, {space.names[0]: v})) for what, v in values.items()}
    last = scene.timing.frames - 1
    true = motions["truth"]
    with torch.no_grad():
        inside = Silhouettes.of(scene).union(true.surface, true.values)[0, last].numpy()
    picture = synthetic.film(scene, true)[last].numpy()
    screen = Screen(scene, "camera", [Sought(last, picture, inside)])
    drawn = [screen.frames(motion) for motion in motions.values()]
    gap = np.full_like(drawn[0][:, :, :GAP], 255)
    videos.write_preview(out / f"{name}.webm", np.concatenate([drawn[0], gap, drawn[1], gap, drawn[2]], 2), screen.fps)
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
