"""Films and strips of Fig. 3: the start of a descent, where it ended, and the truth, side by side; and errors on the way."""

from pathlib import Path

import matplotlib
import numpy as np
import torch
from PIL import Image

from gradsim import video as videos
from gradsim.identification import synthetic
from gradsim.identification.api import model_for, placed
from gradsim.identification.unknowns import Space
from gradsim.render.silhouettes import Silhouettes
from gradsim.runtime.atomic import atomic_path
from gradsim.visualization.control_video import GAP, Screen, Sought
from gradsim.visualization.sheets import sheet

matplotlib.use("Agg")
import matplotlib.pyplot as plt

LEAST = 1e-15  # relative error at the foot of the plot
COLOURS = {"mass": "#0072b2", "friction": "#d55e00", "beam": "#009e73"}  # told apart by the colour-blind
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
    with atomic_path(out / f"{name}.png") as draft:
        Image.fromarray(sheet(stills, len(stills), labels)).save(draft, format="png")
    text = f"{WHAT[name][0].upper()}{WHAT[name][1:]}: initial, fit after {len(path) - 1} iterations of descent, truth."
    caption = f"{text} Instants of the motion, the last one clearest; the outline is where the truth ends."
    return {"file": f"{name}.webm", "text": text}, {"file": f"{name}.png", "title": WHAT[name], "caption": caption}


def curves(out: Path, records: list[dict]) -> dict:
    """Write errors.png: relative errors of all starts over the iterations."""
    figure, axes = plt.subplots(1, len(WHAT), figsize=(10, 3.2), constrained_layout=True, sharey=True)
    for axis, name in zip(axes, WHAT, strict=True):
        for record in (r for r in records if r["task"] == name):
            axis.semilogy(np.maximum(record["errors"], LEAST), color=COLOURS[name], lw=0.8, alpha=0.7)
            axis.plot(record["ls_rollouts"], max(record["ls_error"], LEAST), "kx", ms=5)
        axis.set(title=WHAT[name], xlabel="iterations of a start")
    axes[0].set(ylabel="relative error", ylim=(LEAST, 10))
    axes[-1].plot([], [], "kx", label="least squares, at its rollouts")
    axes[-1].legend(frameon=False, fontsize=8)
    with atomic_path(out / "errors.png") as draft:
        figure.savefig(draft, dpi=130, format="png")
    plt.close(figure)
    caption = "Lines are descents, one for each start; crosses are least squares from four starts, all of its rollouts counted."
    return {"file": "errors.png", "title": "On the way", "caption": caption}
