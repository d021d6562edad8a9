"""Initial velocities from which smoke forms an image (the paper's Sec. C.4 and its video).

A filled disc of smoke in a periodic box without viscosity, 99 steps, three images. The unknown is the velocity at the
start of every cell; it begins as a small random one, the same for all. What is minimised is the mean square of what the
smoke at the end and the image differ by, as a share of what it is for the disc itself. An iteration is one forward and one
backward pass, those of line searches included.

The original has an image of its own at 110 x 110, 3.6 % of the first mean square after 30 iterations and 3.1 % after 49.
The image is not a state of the same simulation, so the smallest possible loss is unknown.

Search for the initial velocity: limited-memory BFGS, which counts every forward and backward pass.

The velocity is the curl of a stream function on the corners of the cells, so it has no divergence whatever the unknowns
are; the unknowns are the stream function with its short waves made small,

    u = curl ψ,    ψ̂_k = z_k/(1 + |k|²/k₀²)^p

k in waves across the box. Steepest descent in z is then descent in a norm that costs rough flows more: without it, the
gradient is as rough as the edges of the smoke, and steps along it stir instead of moving.

Images that smoke is to form, and the smoke at the start: shapes drawn by their signed distance.

A box is 1 m wide, x to the right and y downwards. Inside is 1, outside 0, with an edge of the same width [m] on all grids.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.physics.smoke.solver import Smoke
from gradsim.runtime.atomic import atomic_write
from gradsim.video import write_preview
from gradsim_reproduction.plotting import BLUE, GREEN, ORANGE, Draw, new_figure, write_figures
from gradsim_reproduction.runner import Outcome, Run, experiment

SMOOTH, POWER = 2.0, 1.5  # k₀ and p
MEMORY = 20  # steps that curvature is learnt from
FIRST, REACH = 0.1, 0.3  # [m/s] root mean squares by which the first step, and a later one, may change the velocity
ENOUGH = 1e-4  # share of the expected decrease that a step has to bring (Armijo)


@dataclass(frozen=True)
class Evaluation:
    """One evaluation: the loss, its gradient by the unknowns, and what a caller keeps of it."""

    loss: float
    gradient: Tensor


class StreamFunction:
    """Velocities (2, n, n) from unknowns (n, n)."""

    def __init__(self, n: int):
        k = torch.fft.fftfreq(n, 1 / n, dtype=torch.float64)
        self.n, self.share = n, (1 + (k[:, None] ** 2 + k**2) / SMOOTH**2) ** -POWER
        self.share[0, 0] = 0

    def velocity(self, z: Tensor) -> Tensor:
        """At lower faces, free of divergence [m/s]."""
        psi = torch.fft.ifft2(torch.fft.fft2(z) * self.share).real
        return self.n * torch.stack([psi.roll(-1, 1) - psi, psi - psi.roll(-1, 0)])

    def random(self, seed: int, size: float) -> Tensor:
        """Random unknowns, whose velocity has the root mean square `size` [m/s]."""
        z = torch.randn(self.n, self.n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return z * (size / self.speed(z))

    def speed(self, z: Tensor) -> float:
        """Root mean square of the velocity [m/s]."""
        return self.velocity(z).square().mean().sqrt().item()


def descend(evaluate: Callable[[Tensor], Evaluation], waves: StreamFunction, z: Tensor, evaluations: int) -> None:
    """Lower the loss; stops after `evaluations` evaluations, or where the velocity has no influence on it.

    Args:
        evaluate: The loss of unknowns; keeps what the caller wants.
        waves: Map from unknowns to velocities.
        z: Where to start.
        evaluations: Largest number of evaluations.
    """
    current, used = evaluate(z), 1
    pairs: list[tuple[Tensor, Tensor]] = []
    while used < evaluations:
        step = -_scaled(current.gradient, pairs, waves)
        speed = waves.speed(step)
        if speed == 0:  # nothing left to gain
            return
        step = step * min(1.0, REACH / speed)
        slope, t = (current.gradient * step).sum().item(), 1.0
        if slope >= 0:  # curvature learnt too far away
            pairs = []
            continue
        trial = evaluate(z + step)
        used += 1
        while trial.loss > current.loss + ENOUGH * t * slope and used < evaluations:
            parabola = -slope * t**2 / 2 / (trial.loss - current.loss - slope * t)
            t = max(0.1 * t, min(0.5 * t, parabola))
            trial = evaluate(z + t * step)
            used += 1
        s, y = t * step, trial.gradient - current.gradient
        if (s * y).sum() > 1e-10 * s.norm() * y.norm():
            pairs = [*pairs, (s, y)][-MEMORY:]
        z, current = z + s, trial


def _scaled(gradient: Tensor, pairs: list[tuple[Tensor, Tensor]], waves: StreamFunction) -> Tensor:
    """Gradient times the inverse curvature, by two loops over pairs (Nocedal 1980); the first is scaled to `FIRST`."""
    if not pairs:
        return gradient * (FIRST / (waves.speed(gradient) or FIRST))
    q, shares = gradient, []
    for s, y in reversed(pairs):
        shares.append((s * q).sum() / (s * y).sum())
        q = q - shares[-1] * y
    s, y = pairs[-1]
    q = q * ((s * y).sum() / (y * y).sum())
    for (s, y), share in zip(pairs, reversed(shares), strict=True):
        q = q + s * (share - (y * q).sum() / (s * y).sum())
    return q


EDGE = 0.02  # [m] over which an image goes from 0.12 to 0.88
LOW = 0.15  # [m] that the disc at the start lies below the middle


def targets(n: int) -> dict[str, Tensor]:
    """The three images (n, n)."""
    return {name: _filled(draw(*_places(n))) for name, draw in _SHAPES.items()}


def disc(n: int, mass: Tensor) -> Tensor:
    """Smoke at the start (n, n): a filled disc, below the middle, of the mass Σ ρ that the image has.

    A flow without divergence makes no smoke, so another mass could not form the image.
    """
    x, y = _places(n)
    radius = (mass / n**2 / math.pi).sqrt()
    smoke = _filled((x - 0.5).hypot(y - 0.5 - LOW) - radius)
    return smoke * (mass / smoke.sum())


def _places(n: int) -> tuple[Tensor, Tensor]:
    along = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    y, x = torch.meshgrid(along, along, indexing="ij")
    return x, y


def _filled(distance: Tensor) -> Tensor:
    return torch.sigmoid(-4 / EDGE * distance)


def _ring(x: Tensor, y: Tensor) -> Tensor:
    return ((x - 0.5).hypot(y - 0.5) - 0.26).abs() - 0.055


def _blobs(x: Tensor, y: Tensor) -> Tensor:
    return torch.minimum((x - 0.3).hypot(y - 0.36) - 0.19, (x - 0.72).hypot(y - 0.68) - 0.146)


def _letter(x: Tensor, y: Tensor) -> Tensor:
    """A G: an arc from 45° above the right to the right itself, the long way round, and a bar."""
    radius, half = 0.25, 0.06
    begin = -math.pi / 4
    angle = torch.atan2(y - 0.5, x - 0.5)
    end = (x - 0.5 - radius * math.cos(begin)).hypot(y - 0.5 - radius * math.sin(begin))
    open_part = (angle > begin) & (angle < 0)
    arc = torch.where(open_part, end, ((x - 0.5).hypot(y - 0.5) - radius).abs())
    bar = (x - x.clamp(0.55, 0.5 + radius)).hypot(y - 0.52)
    return torch.minimum(arc, bar) - half


_SHAPES = {"ring": _ring, "letter": _letter, "blobs": _blobs}


STEPS, DT = 99, 0.01  # [s]
SPEED = 0.02  # [m/s] root mean square at the start
EVALUATIONS = {128: 49, 256: 49}  # by cells along an edge
QUICK = {32: 30}
SHOWN = (1, 10, 30, 49)  # iterations
ORIGINAL = {30: 0.036, 49: 0.031}


@experiment("smoke", "Smoke that forms images")
def smoke(run: Run) -> Outcome:
    """Search for the velocities; writes runs.jsonl, the best trajectories as npz, plots and videos.

    Quick: 32² cells, 30 iterations.
    """
    ledger, records = run.ledger("runs.jsonl", quick=run.quick), []
    for n, evaluations in (QUICK if run.quick else EVALUATIONS).items():
        for name, image in targets(n).items():
            key, path = f"{name} {n}", run.out / f"{name}_{n}.npz"
            record = ledger.get(key) if path.exists() else None
            if record is None:
                run.progress.stage(f"{name}, {n} x {n} cells")
                record, arrays = form(image, evaluations, run.seed)
                with atomic_write(path) as file:
                    np.savez_compressed(file, **arrays)  # pyright: ignore[reportArgumentType] -- no such name
                record = ledger.put(key, {"target": name, "cells": n, **record})
            records.append(record)
    return {"records": records, **draw(run.out, records)}, summary(records)


def form(image: Tensor, evaluations: int, seed: int) -> tuple[dict, dict[str, np.ndarray]]:
    """Search for the velocity of one image.

    Args:
        image: (n, n).
        evaluations: How many iterations.
        seed: Seed of the velocity at the start.

    Returns:
        Mean squares of all iterations, and what else a report needs; and arrays: the image, the smoke at the end after
        the iterations `SHOWN`, and all frames of the best.
    """
    n, began = len(image), time.process_time()
    box = Smoke((n, n), 1 / n, DT, advection="maccormack", dtype=torch.float64)
    waves, start = StreamFunction(n), disc(n, image.sum())
    first = (start - image).square().mean().item()
    curve, divergence, best, last_frames, video = [], 0.0, np.inf, {}, np.zeros(0)

    def evaluate(z: Tensor) -> Evaluation:
        nonlocal divergence, best, video
        z = z.detach().requires_grad_()
        plume = box.rollout(waves.velocity(z), start, frames=STEPS + 1, segment=None)
        difference = plume.density[0, -1] - image
        loss = difference.square().mean() / first
        (gradient,) = torch.autograd.grad(loss, z)
        curve.append(loss.item() * first)
        divergence = max(divergence, plume.divergence.abs().max().item())
        if loss.item() < best:
            best, video = loss.item(), plume.density[0].detach().numpy().astype(np.float32)
        if len(curve) in SHOWN:
            last_frames[len(curve)] = video[-1]
        return Evaluation(loss.item(), gradient)

    descend(evaluate, waves, waves.random(seed, SPEED), evaluations)
    last_frames[len(curve)] = video[-1]
    record = {"first": first, "curve": curve, "divergence": divergence}
    record |= {"mass": float(video[-1].sum() / video[0].sum()), "cpu_seconds": time.process_time() - began}
    arrays = {"image": image.numpy().astype(np.float32), "start": video[0], "video": video}
    return record, {**arrays, **{f"after_{k}": image for k, image in last_frames.items()}}


def ratio(record: dict, iterations: int) -> float:
    """Least mean square of the first iterations over that of the disc."""
    return min(record["curve"][:iterations]) / record["first"]


def summary(records: list[dict]) -> dict[str, dict]:
    """The worst of all images, of all and by size."""
    figures = {}
    for iterations, original in ORIGINAL.items():
        if any(len(r["curve"]) < iterations for r in records):
            continue
        worst = max(ratio(r, iterations) for r in records)
        coarse = min(r["cells"] for r in records) < min(EVALUATIONS)  # those of a trial, which are worse
        goal = None if coarse else original
        figures[f"mse_ratio_{iterations}"] = figure(worst, original, goal, coarse or worst < original)
        for n in dict.fromkeys(r["cells"] for r in records):
            ratios = {r["target"]: ratio(r, iterations) for r in records if r["cells"] == n}
            figures |= {f"mse_ratio_{iterations}_{name}_{n}": figure(value) for name, value in ratios.items()}
    figures["divergence_max"] = figure(max(r["divergence"] for r in records), goal=1e-10)
    return figures


COLORS = {"ring": BLUE, "letter": ORANGE, "blobs": GREEN}
SMOKE = mpl.colormaps["magma"]
INSTANTS = 8  # of a strip
HEIGHT, FPS, REST = 256, 25, 25  # [px], [1/s], repetitions of the last frame of a video
ORIGINAL_CURVE = ((0, 1.0), (30, 0.036), (49, 0.031))  # iterations, share of the first mean square


def draw(out: Path, records: Sequence[dict]) -> dict:
    """Write plots and videos; returns their entries for `result.json`."""
    curve_text = (
        "Every forward and backward pass, line searches included, relative to the mean square of the initial disc. "
        "Crosses: the original, on its own image at 110 x 110."
    )
    figures: dict[str, tuple[Draw, str, str]] = {"curves": (lambda: _curves(records), "Mean squares", curve_text)}
    videos = []
    for n in dict.fromkeys(r["cells"] for r in records):
        names = [r["target"] for r in records if r["cells"] == n]
        arrays = {name: np.load(out / f"{name}_{n}.npz") for name in names}
        text = "Left: the image. Then the smoke after 99 steps, by the best velocity after this many iterations."
        figures[f"iterations_{n}"] = (lambda a=arrays: _iterations(a), f"{n} x {n} cells", text)
        text = "From the disc to the image, by the best velocity."
        figures[f"motion_{n}"] = (lambda a=arrays: _motion(a), f"Motion, {n} x {n} cells", text)
        write_preview(out / f"smoke_{n}.webm", _video(list(arrays.values())), FPS)
        videos.append({"file": f"smoke_{n}.webm", "text": f"{', '.join(names)}: image and smoke, {n} x {n} cells."})
    return {"images": write_figures(out, figures), "videos": videos}


def _curves(records: Sequence[dict]) -> Figure:
    figure = new_figure(8.6, 4.2)
    axes = figure.subplots()
    sizes = list(dict.fromkeys(r["cells"] for r in records))
    for r in records:
        line = "-" if r["cells"] == sizes[0] else "--"
        share = np.array(r["curve"]) / r["first"]
        label = f"{r['target']}, {r['cells']}²"
        axes.plot(np.arange(1, len(share) + 1), share, line, color=COLORS[r["target"]], lw=1.3, label=label)
    axes.plot(*zip(*ORIGINAL_CURVE, strict=True), "x", color="#111111", ms=7, label="original")
    axes.set(yscale="log", xlabel="iterations", ylabel="mean square over that of the disc")
    axes.grid(alpha=0.2)
    axes.legend(ncols=2)
    return figure


def _iterations(arrays: dict) -> Figure:
    counts = sorted(
        {int(k.removeprefix("after_")) for run in arrays.values() for k in run.files if k.startswith("after_")}
    )
    columns = ["image", "disc", *(f"{k} iterations" if k > 1 else "1 iteration" for k in counts)]
    figure = new_figure(1.45 * len(columns), 1.5 * len(arrays) + 0.2)
    for row, run in zip(figure.subplots(len(arrays), len(columns), squeeze=False), arrays.values(), strict=True):
        images = [run["image"], run["start"], *(run[f"after_{k}"] for k in counts)]
        _row(row, images)
    for axes, title in zip(figure.axes, columns, strict=False):
        axes.set_title(title, fontsize=8)
    return figure


def _motion(arrays: dict) -> Figure:
    figure = new_figure(1.45 * INSTANTS, 1.5 * len(arrays) + 0.2)
    for row, run in zip(figure.subplots(len(arrays), INSTANTS, squeeze=False), arrays.values(), strict=True):
        video = run["video"]
        steps = np.linspace(0, len(video) - 1, INSTANTS).round().astype(int)
        _row(row, video[steps])
    for axes, step in zip(figure.axes, steps, strict=False):
        axes.set_title(f"step {step}", fontsize=8)
    return figure


def _row(row: Sequence, images: Sequence[np.ndarray]) -> None:
    for axes, image in zip(row, images, strict=True):
        axes.imshow(image, cmap=SMOKE, vmin=0, vmax=1, interpolation="nearest")
        axes.axis("off")


def _video(runs: Sequence) -> np.ndarray:
    """Images above, smoke below (frames, height, width, 3) uint8."""
    times = max(1, HEIGHT // len(runs[0]["image"]))
    columns = []
    for run in runs:
        video = run["video"]
        video = np.concatenate([video, video[-1:].repeat(REST, 0)])
        above = run["image"][None].repeat(len(video), 0)
        columns.append(np.pad(np.concatenate([above, video], 1), ((0, 0), (1, 1), (1, 1)), constant_values=1.0))
    frames = np.concatenate(columns, 2).repeat(times, 1).repeat(times, 2)
    return (SMOKE(frames.clip(0, 1))[..., :3] * 255).round().astype(np.uint8)
