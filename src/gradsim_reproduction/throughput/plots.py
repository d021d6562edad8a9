"""The picture of Table 4 (right): rates against the number of tetrahedra."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from gradsim_reproduction.plotting import INK, SAFE, new_figure, write_figures

OURS, ORIGINAL, MANY, EXACT = SAFE
PANELS = {
    "dp_forward": "forward, physics",
    "dr_forward": "forward, pictures",
    "dp_backward": "backward, physics",
    "dpdr_backward": "backward, physics and pictures",
}
WORDS = (
    "Steps a second of one world, or of all worlds together. Ours: one thread of a CPU. The paper's: a laptop with a GPU. "
    "The original engine: its release on one core of such a CPU; backward, from its rate forward and backward."
)


def draw(out: Path, found: Mapping, paper: Mapping[int, tuple], original: Mapping[int, tuple]) -> list[dict]:
    """Write the picture; returns what a report lists.

    Args:
        out: The folder.
        found: Rates by case, by (device, worlds, tetrahedra).
        paper: Its four columns by tetrahedra.
        original: Its forward rate, and forward and backward, by tetrahedra.
    """
    return write_figures(out, {"rates": (lambda: _rates(found, paper, original), "Rates", WORDS)})


def _rates(found: Mapping, paper: Mapping[int, tuple], original: Mapping[int, tuple]) -> Figure:
    figure = new_figure(8.6, 6.2)
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for k, (ax, (case, title)) in enumerate(zip(panels.flat, PANELS.items(), strict=True)):
        _panel(ax, found, case)
        ax.plot(list(paper), [row[k] for row in paper.values()], "s--", color=INK, ms=4, label="paper (GPU)")
        if case.startswith("dp_"):
            own = [row[0] if case == "dp_forward" else 1 / (1 / row[1] - 1 / row[0]) for row in original.values()]
            ax.plot(list(original), own, "^:", color=ORIGINAL, ms=5, label="original engine (CPU)")
        ax.set_title(title, loc="left", fontsize=10, fontweight="bold")
        ax.set(xscale="log", yscale="log")
        ax.legend(fontsize=7, loc="lower left")
    for ax in panels[1]:
        ax.set_xlabel("tetrahedra")
    for ax in panels[:, 0]:
        ax.set_ylabel("steps a second")
    return figure


def _panel(ax, found: Mapping, case: str) -> None:
    """One line for each device and number of worlds."""
    for device, worlds in dict.fromkeys((d, w) for d, w, _ in found):
        rate = {n: r for (d, w, n), r in found.items() if (d, w) == (device, worlds)}
        style = {"ls": "-" if device == "cpu" else "-.", "ms": 4, "color": OURS if worlds == 1 else MANY}
        label = ("ours" if device == "cpu" else f"ours, {device}") + (f", {worlds} worlds" if worlds > 1 else "")
        mark = "o" if worlds == 1 else "v" if worlds < 64 else "D"
        if all(case in r for r in rate.values()):
            ax.plot(list(rate), [r[case] for r in rate.values()], mark, label=label, **style)
        if case == "dr_forward" and worlds == 1:
            exact = [r["dr_forward_aa"] for r in rate.values()]
            ax.plot(list(rate), exact, mark, label=f"{label}, exact coverage", **{**style, "color": EXACT})
