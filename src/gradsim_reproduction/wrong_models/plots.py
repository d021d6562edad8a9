"""Pictures of Table 4, left: bars beside the paper's, and what wrong models leave of a film."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gradsim.dataset import sample
from gradsim.identification import synthetic
from gradsim.identification.model_selection import GIVEN
from gradsim_reproduction.plotting import SAFE, new_figure, true_rollout, write_figures
from gradsim_reproduction.wrong_models.models import known, setting

OURS, PAPERS, LEFT = SAFE[0], "#b0b0b0", "#e69f00"
COLUMNS = 8  # frames of a strip


def draw(out: Path, records: Sequence[dict], paper: Mapping[str, float]) -> list[dict]:
    """Write the pictures into a folder; returns their files and captions."""
    left_text = (
        "Best fit of a wrong model minus the video: red where only the fit covers, blue where only the video does."
    )
    return write_figures(
        out,
        {
            "table4": (lambda: _bars(records, paper), "Errors of the mass", "Mean relative error; one dot per object."),
            "left": (lambda: _strips(records, out / "meshes"), "Residuals of wrong models", left_text),
        },
    )


def _bars(records: Sequence[dict], paper: Mapping[str, float]) -> Figure:
    rows = [row for row in paper if any(r["row"] == row for r in records)]
    figure = new_figure(8, 0.75 * len(rows) + 1.3)
    axes = figure.subplots()
    for k, row in enumerate(rows):
        some = [r for r in records if r["row"] == row]
        parts = {OURS: [r["fits"][GIVEN]["error"] for r in some]}
        if any(len(r["fits"]) > 1 for r in some):
            parts[LEFT] = [r["fits"][r["chosen"]]["error"] for r in some]
        axes.barh(k - 0.27, paper[row], 0.25, color=PAPERS)
        for place, (colour, errors) in enumerate(parts.items()):
            y = k + 0.27 * place
            axes.barh(y, np.mean(errors), 0.25, color=colour)
            axes.plot(np.maximum(errors, 1e-8), [y] * len(errors), ".", color="black", ms=2.5, alpha=0.5)
    axes.set_xscale("log")
    axes.set_xlim(1e-8, 3)
    axes.set_yticks(range(len(rows)), [row.replace("_", " ") for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("relative error of the mass")
    names = {PAPERS: "paper", OURS: "ours, the model as given", LEFT: "ours, the model that is chosen"}
    handles = [Patch(color=colour, label=name) for colour, name in names.items()]
    axes.legend(handles=handles, fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    return figure


def _strips(records: Sequence[dict], meshes: Path) -> Figure:
    """One wrong model of each sort: the film less the fit, frame by frame."""
    wrong = {r["row"]: r for r in reversed(records) if len(r["fits"]) > 1}
    figure = new_figure(1.35 * COLUMNS, 1.5 * len(wrong))
    axes = figure.subplots(len(wrong), COLUMNS, squeeze=False)
    shown = None
    for line, (row, record) in zip(axes, sorted(wrong.items()), strict=True):
        film, model = _masks(record, meshes)
        for ax, k in zip(line, np.linspace(0, len(film) - 1, COLUMNS).round().astype(int), strict=True):
            shown = ax.imshow(model[k] - film[k], cmap="RdBu_r", vmin=-1, vmax=1)
            ax.contour(film[k], [0.5], colors="0.4", linewidths=0.6)
            ax.set(xticks=[], yticks=[])
            ax.set_title(f"frame {k}", fontsize=7)
        line[0].set_ylabel(f"{row.replace('_', ' ')}\n({record['object']})", fontsize=7)
    if shown is not None:
        figure.colorbar(shown, ax=axes, shrink=0.6, label="fit − film")
    return figure


def _masks(record: dict, meshes: Path) -> tuple[np.ndarray, np.ndarray]:
    """Silhouettes of the truth and of the wrong model at its best."""
    one = sample(record["kind"], record["number"], record["seed"])
    scene, _ = known(one)
    mass, truth = next(iter(one.truth.items()))
    ask = setting(record["row"], one, meshes)
    pairs = ((scene, {mass: truth}), (ask.scene, record["fits"][GIVEN]["values"]))
    masks = [synthetic.float_masks(s, true_rollout(s, values)).masks.detach().numpy() for s, values in pairs]
    return masks[0], masks[1]
