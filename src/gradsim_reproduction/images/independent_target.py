"""Basin and accuracy of fits to images of another renderer, by loss and alpha.

A body falls for 12 frames of 64² pixels, drawn by point samples, 256 to a pixel, in a regular grid and in random places
of its cells (`supersampled.py`). What is drawn while searching is one of our alphas. Levenberg–Marquardt on the
residuals of a loss begins up to 40 px off, above the body or below it, with the fall as it is known otherwise; the
basin is the largest distance up to which every start arrives.

Then height, speed and gravity are fitted jointly, truths and starts drawn over the same ranges.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from scipy.spatial.transform import Rotation
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.geometry import mesh
from gradsim.geometry.mesh import Mesh
from gradsim.geometry.surface import Surface
from gradsim.identification.solvers.levenberg_marquardt import Population, follow
from gradsim.losses import LOSSES, Schedule, coarse_to_fine, stage
from gradsim.render.dibr.rasterizer import DibR
from gradsim.render.silhouettes import Silhouettes
from gradsim.render.softras.rasterizer import SoftRas
from gradsim.render.view import View
from gradsim_reproduction.images import falls
from gradsim_reproduction.images.falls import CAMERA, FRAMES, NAMES, PER_METRE, SIZE, FallProblem, Tangent, UniformSpace
from gradsim_reproduction.images.supersampled import masks
from gradsim_reproduction.plotting import WIDTH, new_figure, write_figures
from gradsim_reproduction.runner import Outcome, Run, experiment

ARRIVED = 1.0  # [px] a start that ends nearer than this has found the body, as exactly as its alpha lets it
OFFSETS = (1.0, 3.0, 5.0, 8.0, 10.0, 12.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0)  # [px]
GRAVITY = 9.81  # [m/s²]
ROWS = {"above": 12.5, "below": 41.5}  # [px] where a fall of 10 px begins, so that starts 40 px off are in the image
EDGE = 34 / PER_METRE  # [m] bound of heights: a little beyond the image, wherever the truth is
TWO_STAGES = "cdf, mse"
SCHEDULES = {name: Schedule(stage(name, 60, 1e-7)) for name in LOSSES}
SCHEDULES[TWO_STAGES] = coarse_to_fine("cdf", "mse", (40, 40))
# of height [m], speed [m/s] and gravity [m/s²], for truths and starts: rows 48 to 8, always upward at first
THROWS = UniformSpace(
    torch.tensor([(SIZE / 2 - 48) / PER_METRE, 0.5, 2.0]).double(),
    torch.tensor([(SIZE / 2 - 8) / PER_METRE, 2.5, 20.0]).double(),
)
SAMPLES = ("grid", "random")


def _turned(body: Mesh, *angles: float) -> Mesh:
    """By angles about x, y and z, so that no edge runs along a row of pixels."""
    return Mesh(body.vertices @ Rotation.from_euler("xyz", angles).as_matrix().T, body.faces)


BODIES = {
    "ball": mesh.sphere(0.35, 2),  # 5.4 px
    "cube": _turned(mesh.box((0.7, 0.7, 0.7)), 0.3, 0.5, 0.2),
    "torus": _turned(mesh.torus(0.3, 0.13, 24, 12), 1.2, 0.3, 0.2),  # its hole is seen
}
CONVEX, GENERAL = ("ball", "cube"), ("torus",)


@dataclass(frozen=True)
class Row:
    """An alpha that is compared, and the bodies it draws."""

    tangent: Tangent
    bodies: Sequence[str]


def _dibr(blur_px: float) -> Tangent:
    def alpha(surface: Surface) -> Tensor:
        view = View.of(surface, Silhouettes(CAMERA))
        return DibR(blur_px).alpha(view).unflatten(0, view.shape)

    return falls.central_differences(alpha)


def _softras(blur_px: float) -> Tangent:
    def alpha(surface: Surface) -> Tensor:
        view = View.of(surface, Silhouettes(CAMERA))
        return SoftRas(blur_px).silhouette(view.screen, view.faces, SIZE, SIZE).unflatten(0, view.shape)

    return falls.central_differences(alpha)


ALPHAS = {
    "exact, convex": Row(falls.exact_coverage, CONVEX),
    "exact, torus": Row(falls.exact_coverage, GENERAL),
    "DIB-R 0.25 px": Row(_dibr(0.25), CONVEX),
    "DIB-R 1 px": Row(_dibr(1.0), CONVEX),
    "SoftRas 0.25 px": Row(_softras(0.25), CONVEX),
    "SoftRas 1 px": Row(_softras(1.0), CONVEX),
}


@experiment("independent-target", "Images of another renderer")
def independent_target(run: Run) -> Outcome:
    """Reproduce the table. Quick: exact coverage and SoftRas at 0.25 px only, three losses and few starts."""
    quick, rng = run.quick, np.random.default_rng(run.seed)
    alphas = ("exact, convex", "exact, torus", "SoftRas 0.25 px") if quick else tuple(ALPHAS)
    schedules = ("mse", "cdf", TWO_STAGES) if quick else tuple(SCHEDULES)
    offsets = (3.0, 40.0) if quick else OFFSETS
    table, both = [], {}
    for alpha in alphas:
        for name in schedules:
            run.progress.stage(f"{alpha}: {name}")
            samples = SAMPLES if name == TWO_STAGES and alpha.startswith("exact") else SAMPLES[1:]
            errors = {s: height_errors(ALPHAS[alpha], SCHEDULES[name], offsets, s, run.seed) for s in samples}
            table.append({"alpha": alpha, "loss": name, **summary(errors["random"], offsets)})
            if len(samples) > 1:
                both[alpha] = {s: e.abs().flatten().tolist() for s, e in errors.items()}
    run.progress.stage("height, speed and gravity")
    throws = [throw(list(BODIES)[k % 3], 8 if quick else 16, rng) for k in range(3 if quick else 12)]
    run.progress.stage("plots")
    result = {"images": draw(run.out, table, {name: blended_video(name) for name in BODIES}), "table": table}
    result |= {"throws": throws, "height_error_px_by_samples": both, "offsets_px": offsets, "arrived_px": ARRIVED}
    return result, _figures(table, both, throws)


def height_errors(row: Row, schedule: Schedule, offsets: Sequence[float], samples: str, seed: int) -> Tensor:
    """Final less true height [px], (bodies · sides, offsets), from starts so far off towards the middle and beyond.

    Args:
        row: Alpha, and the bodies it draws.
        schedule: Losses to minimize.
        offsets: [px].
        samples: "grid" or "random".
        seed: Seed of the random samples.
    """
    errors = []
    space = UniformSpace(torch.tensor([-EDGE]).double(), torch.tensor([EDGE]).double())
    for body in row.bodies:
        for side, top in ROWS.items():
            height = (SIZE / 2 - top) / PER_METRE
            shift = torch.tensor(offsets, dtype=torch.float64) / PER_METRE
            start = height + (-shift if side == "above" else shift)
            target = reference_video(body, (height, 0.0, GRAVITY), samples, seed)
            problem = FallProblem(BODIES[body], target, row.tangent, (0.0, GRAVITY), space)
            ends = final_parameters(problem, start[:, None], schedule)
            errors.append((ends[:, 0] - height) * PER_METRE)
    return torch.stack(errors)


def final_parameters(problem: FallProblem, start: Tensor, schedule: Schedule) -> Tensor:
    """Final parameters of starts (starts, n)."""
    return follow(problem, Population.at(start), FRAMES, schedule)[0].u  # pyright: ignore[reportArgumentType] -- has all it asks


@cache
def reference_video(body: str, fall: tuple[float, float, float], samples: str, seed: int) -> Tensor:
    """A fall as the other renderer draws it (frames, height, width)."""
    z = falls.heights(torch.tensor([fall], dtype=torch.float64))
    vertices = falls.surface_at(BODIES[body], z).vertices[0].numpy()
    rng = np.random.default_rng(seed) if samples == "random" else None
    return torch.tensor(masks(vertices, BODIES[body].faces, CAMERA.K, CAMERA.R, CAMERA.t, (SIZE, SIZE), rng=rng))


def summary(errors: Tensor, offsets: Sequence[float]) -> dict:
    """Basin [px], worst and median final error of those that arrived [px], and how many did."""
    arrived = errors.abs() < ARRIVED
    count = int(arrived.all(0).long().cumprod(0).sum())
    final = errors.abs()[arrived]
    return {
        "basin_px": offsets[count - 1] if count else 0.0,
        "error_px": final.max().item() if len(final) else None,
        "median_error_px": final.median().item() if len(final) else None,
        "arrived": int(arrived.sum()),
        "starts": arrived.numel(),
    }


def throw(body: str, starts: int, rng: np.random.Generator) -> dict:
    """Height, speed and gravity from one video by exact coverage, CDF first: errors of every start."""
    truth, begin = THROWS.draw(rng, 1), THROWS.draw(rng, starts)
    target = reference_video(body, tuple(truth[0].tolist()), "random", int(rng.integers(2**31)))
    problem = FallProblem(BODIES[body], target, falls.exact_coverage, (), THROWS)
    ends = final_parameters(problem, begin, SCHEDULES[TWO_STAGES])
    off = (ends - truth).abs()
    names = ("height_error_px", "speed_rel_error", "gravity_rel_error")
    errors = torch.stack([off[:, 0] * PER_METRE, off[:, 1] / truth[0, 1], off[:, 2] / truth[0, 2]])
    return {
        "body": body,
        "truth": dict(zip(NAMES, truth[0].tolist(), strict=True)),
        **{name: error.tolist() for name, error in zip(names, errors, strict=True)},
    }


def blended_video(body: str) -> tuple[np.ndarray, np.ndarray]:
    """The fall that begins above, and the start that is 40 px off: all frames in one image each."""
    height = (SIZE / 2 - ROWS["above"]) / PER_METRE
    first, second = (
        reference_video(body, (height - off / PER_METRE, 0.0, GRAVITY), "grid", 0).mean(0).numpy()
        for off in (0.0, OFFSETS[-1])
    )
    return first, second


def _figures(table: list[dict], both: dict[str, dict], throws: list[dict]) -> dict[str, dict]:
    """Figures of exact coverage with two stages; a start has converged if it reaches the goal."""
    cells = {(c["alpha"], c["loss"]): c for c in table}
    goals = {"exact, convex": 1e-3, "exact, torus": 5e-3}
    errors = {alpha: [e for values in both[alpha].values() for e in values] for alpha in goals}
    parts = ("height_error_px", "speed_rel_error", "gravity_rel_error")
    thrown = {name: [e for t in throws for e in t[name]] for name in parts}
    arrived = [e <= goal for alpha, goal in goals.items() for e in errors[alpha]]
    arrived += [max(pair) <= 5e-3 for pair in zip(thrown[parts[1]], thrown[parts[2]], strict=True)]
    return {
        "height_error_px": figure(max(errors["exact, convex"]), goal=goals["exact, convex"]),
        "height_error_px_torus": figure(max(errors["exact, torus"]), goal=goals["exact, torus"]),
        "gravity_rel_error": figure(max(thrown[parts[2]]), goal=5e-3),
        "speed_rel_error": figure(max(thrown[parts[1]]), goal=5e-3),
        "throw_height_error_px": figure(max(thrown[parts[0]])),
        "starts_converged": figure(sum(arrived) / len(arrived), goal=1.0, ok=all(arrived)),
        "basin_px_pixels": figure(cells["exact, convex", "mse"]["basin_px"]),
        "basin_px_cdf": figure(cells["exact, convex", "cdf"]["basin_px"]),
    }


FAILED = "#e7e7ea"


def draw(out: Path, table: list[dict], videos: dict[str, tuple[np.ndarray, np.ndarray]]) -> list[dict[str, str]]:
    """Write the images into a folder.

    Args:
        out: The folder.
        table: Cells with alpha, loss, basin_px and error_px.
        videos: By body: all frames of the fall, and of the start farthest off, in one image each.

    Returns:
        File, title and caption of each image.
    """
    map_text = (
        "Left: largest offset up to which every start converges. Right: worst final error of the starts that converge."
    )
    video_text = "All 12 frames in one image; orange: the start with an offset of 40 px."
    return write_figures(
        out,
        {
            "losses": (lambda: _maps(table), "Losses against alphas", map_text),
            "videos": (lambda: _videos(videos), "Observed videos", video_text),
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


def _map(axes, values: np.ndarray, losses: list[str], title: str, colors, norm, text) -> None:
    colors = colors.copy()
    colors.set_bad(FAILED)
    image = axes.imshow(values, cmap=colors, norm=norm, aspect="auto", **({} if norm else {"vmin": 0, "vmax": 55}))
    for (i, j), x in np.ndenumerate(values):
        red, green, blue, _ = image.cmap(image.norm(x)) if np.isfinite(x) else (0.9, 0.9, 0.9, 1)
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


def _videos(videos: dict[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    figure = new_figure(WIDTH, 3.1)
    for axes, (body, (fall, start)) in zip(figure.subplots(1, len(videos)), videos.items(), strict=True):
        ink, orange = np.array([0.11, 0.37, 0.82]), np.array([0.9, 0.45, 0.05])
        image = 1 - fall[..., None] * (1 - ink)
        image = image - start[..., None] * (1 - orange) * 0.7
        axes.imshow(np.clip(image, 0, 1), interpolation="nearest")
        axes.set_title(body, fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
    return figure
