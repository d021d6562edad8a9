"""Pictures of the comparison of losses and alphas: two maps with a number in each field, and what was filmed."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from gradsim_reproduction.plotting import WIDTH, new_figure, write_figures

FAILED = "#e7e7ea"


def draw(out: Path, table: list[dict], films: dict[str, tuple[np.ndarray, np.ndarray]]) -> list[dict[str, str]]:
    """Write the pictures into a folder.

    Args:
        out: The folder.
        table: Cells with alpha, loss, basin_px and error_px.
        films: By body: all frames of the fall, and of the start farthest off, in one picture each.

    Returns:
        File, title and caption of each picture.
    """
    map_text = (
        "Left: largest offset up to which every start converges. Right: worst final error of the starts that converge."
    )
    video_text = "All 12 frames in one image; orange: the start with an offset of 40 px."
    return write_figures(
        out,
        {
            "losses": (lambda: _maps(table), "Losses against alphas", map_text),
            "films": (lambda: _videos(films), "Observed videos", video_text),
        },
    )


def _maps(table: list[dict]) -> Figure:
    alphas, losses = (list(dict.fromkeys(c[key] for c in table)) for key in ("alpha", "loss"))
    grid = {key: np.full((len(alphas), len(losses)), np.nan) for key in ("basin_px", "error_px")}
    for cell in table:
        for key, values in grid.items():
            values[alphas.index(cell["alpha"]), losses.index(cell["loss"])] = np.nan if cell[key] is None else cell[key]
    figure = new_figure(WIDTH, 1.2 + 0.36 * len(alphas))
    left, right = figure.subplots(1, 2, sharey=True)
    _map(left, grid["basin_px"], losses, "basin [px]", mpl.colormaps["YlGn"], None, lambda x: f"{x:.0f}")
    norm = LogNorm(1e-5, 1.0)
    _map(right, grid["error_px"], losses, "worst final error [px]", mpl.colormaps["YlOrRd"], norm, _short)
    left.set_yticks(range(len(alphas)), alphas)
    return figure


def _map(axes, values: np.ndarray, losses: list[str], title: str, colours, norm, text) -> None:
    colours = colours.copy()
    colours.set_bad(FAILED)
    picture = axes.imshow(values, cmap=colours, norm=norm, aspect="auto", **({} if norm else {"vmin": 0, "vmax": 55}))
    for (i, j), x in np.ndenumerate(values):
        red, green, blue, _ = picture.cmap(picture.norm(x)) if np.isfinite(x) else (0.9, 0.9, 0.9, 1)
        ink = "black" if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "white"
        axes.text(j, i, text(x) if np.isfinite(x) else "–", ha="center", va="center", color=ink, fontsize=7.5)
    axes.set_xticks(range(len(losses)), losses, rotation=40, ha="right")
    axes.set_title(title, fontsize=10)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _short(x: float) -> str:
    """2e-4, but 0.3 from a hundredth on."""
    mantissa, exponent = f"{x:.0e}".split("e")
    return f"{x:.2g}" if x >= 0.01 else f"{mantissa}e{int(exponent)}"


def _videos(films: dict[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    figure = new_figure(WIDTH, 3.1)
    for axes, (body, (fall, start)) in zip(figure.subplots(1, len(films)), films.items(), strict=True):
        ink, orange = np.array([0.11, 0.37, 0.82]), np.array([0.9, 0.45, 0.05])
        image = 1 - fall[..., None] * (1 - ink)
        image = image - start[..., None] * (1 - orange) * 0.7
        axes.imshow(np.clip(image, 0, 1), interpolation="nearest")
        axes.set_title(body, fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
    return figure
