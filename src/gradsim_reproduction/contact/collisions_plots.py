"""Pictures of collisions: shots at billiards, how starts come home, and how derivatives near those of hard bodies."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from gradsim import video
from gradsim_reproduction.contact.billiards import RADIUS
from gradsim_reproduction.plotting import BLUE, GREEN, ORANGE, new_figure, write_figures

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
