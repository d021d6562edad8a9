"""Initial velocities from which smoke forms a picture (the paper's Sec. C.4 and its video).

A filled disc of smoke in a periodic box without viscosity, 99 steps, three pictures. The unknown is the velocity at the
start of every cell; it begins as a small random one, the same for all. What is minimised is the mean square of what the
smoke at the end and the picture differ by, as a share of what it is for the disc itself. An iteration is one forward and one
backward pass, those of line searches included.

The original has a picture of its own at 110 x 110, 3.6 % of the first mean square after 30 iterations and 3.1 % after 49.
The picture is no state of the same simulation, so nothing is known of what can be reached.

Search for the initial velocity: limited-memory BFGS, which counts every forward and backward pass.

The velocity is the curl of a stream function on the corners of the cells, so it has no divergence whatever the unknowns
are; the unknowns are the stream function with its short waves made small,

    u = curl ψ,    ψ̂_k = z_k/(1 + |k|²/k₀²)^p

k in waves across the box. Steepest descent in z is then descent in a norm that costs rough flows more: without it, the
gradient is as rough as the edges of the smoke, and steps along it stir instead of moving.

Pictures that smoke is to form, and the smoke at the start: shapes drawn by their signed distance.

A box is 1 m wide, x to the right and y downwards. Inside is 1, outside 0, with an edge of the same width [m] on all grids.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradsim.physics.smoke.solver import Smoke
from gradsim.runtime.atomic import atomic_write
from gradsim_reproduction.runner import Outcome, Run, experiment, figure
from gradsim_reproduction.smoke import plots

SMOOTH, POWER = 2.0, 1.5  # k₀ and p
MEMORY = 20  # steps that curvature is learnt from
FIRST, REACH = 0.1, 0.3  # [m/s] root mean squares by which the first step, and a later one, may change the velocity
ENOUGH = 1e-4  # share of the expected decrease that a step has to bring (Armijo)


@dataclass(frozen=True)
class Found:
    """One evaluation: the loss, its gradient by the unknowns, and what a caller keeps of it."""

    loss: float
    gradient: Tensor


class Waves:
    """Velocities (2, n, n) from unknowns (n, n)."""

    def __init__(self, n: int):
        k = torch.fft.fftfreq(n, 1 / n, dtype=torch.float64)
        self.n, self.share = n, (1 + (k[:, None] ** 2 + k**2) / SMOOTH**2) ** -POWER
        self.share[0, 0] = 0

    def velocity(self, z: Tensor) -> Tensor:
        """At lower faces, free of divergence [m/s]."""
        psi = torch.fft.ifft2(torch.fft.fft2(z) * self.share).real
        return self.n * torch.stack([psi.roll(-1, 1) - psi, psi - psi.roll(-1, 0)])

    def drawn(self, seed: int, size: float) -> Tensor:
        """Random unknowns, whose velocity has the root mean square `size` [m/s]."""
        z = torch.randn(self.n, self.n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return z * (size / self.speed(z))

    def speed(self, z: Tensor) -> float:
        """Root mean square of the velocity [m/s]."""
        return self.velocity(z).square().mean().sqrt().item()


def descend(evaluate: Callable[[Tensor], Found], waves: Waves, z: Tensor, evaluations: int) -> None:
    """Lower the loss; stops after so many evaluations, or where the velocity has no influence on it.

    Args:
        evaluate: The loss of unknowns; keeps what the caller wants.
        waves: What a step means in velocities.
        z: Where to start.
        evaluations: At most so many.
    """
    here, used = evaluate(z), 1
    pairs: list[tuple[Tensor, Tensor]] = []
    while used < evaluations:
        step = -_scaled(here.gradient, pairs, waves)
        speed = waves.speed(step)
        if speed == 0:  # nothing left to gain
            return
        step = step * min(1.0, REACH / speed)
        slope, t = (here.gradient * step).sum().item(), 1.0
        if slope >= 0:  # curvature learnt too far away
            pairs = []
            continue
        there = evaluate(z + step)
        used += 1
        while there.loss > here.loss + ENOUGH * t * slope and used < evaluations:
            parabola = -slope * t**2 / 2 / (there.loss - here.loss - slope * t)
            t = max(0.1 * t, min(0.5 * t, parabola))
            there = evaluate(z + t * step)
            used += 1
        s, y = t * step, there.gradient - here.gradient
        if (s * y).sum() > 1e-10 * s.norm() * y.norm():
            pairs = [*pairs, (s, y)][-MEMORY:]
        z, here = z + s, there


def _scaled(gradient: Tensor, pairs: list[tuple[Tensor, Tensor]], waves: Waves) -> Tensor:
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


EDGE = 0.02  # [m] over which a picture goes from 0.12 to 0.88
LOW = 0.15  # [m] that the disc at the start lies below the middle


def targets(n: int) -> dict[str, Tensor]:
    """The three pictures (n, n)."""
    return {name: _filled(draw(*_places(n))) for name, draw in _SHAPES.items()}


def disc(n: int, mass: Tensor) -> Tensor:
    """Smoke at the start (n, n): a filled disc, below the middle, of the mass Σ ρ that the picture has.

    A flow without divergence makes no smoke, so another mass could not form the picture.
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
    return {"records": records, **plots.draw(run.out, records)}, summary(records)


def form(picture: Tensor, evaluations: int, seed: int) -> tuple[dict, dict[str, np.ndarray]]:
    """Search for the velocity of one picture.

    Args:
        picture: (n, n).
        evaluations: How many iterations.
        seed: Of the velocity at the start.

    Returns:
        Mean squares of all iterations, and what else a report needs; and arrays: the picture, the smoke at the end after
        the iterations `SHOWN`, and all frames of the best.
    """
    n, began = len(picture), time.process_time()
    box = Smoke((n, n), 1 / n, DT, advection="maccormack", dtype=torch.float64)
    waves, start = Waves(n), disc(n, picture.sum())
    first = (start - picture).square().mean().item()
    curve, divergence, best, shown, film = [], 0.0, np.inf, {}, np.zeros(0)

    def evaluate(z: Tensor) -> Found:
        nonlocal divergence, best, film
        z = z.detach().requires_grad_()
        plume = box.rollout(waves.velocity(z), start, frames=STEPS + 1, segment=None)
        difference = plume.density[0, -1] - picture
        loss = difference.square().mean() / first
        (gradient,) = torch.autograd.grad(loss, z)
        curve.append(loss.item() * first)
        divergence = max(divergence, plume.divergence.abs().max().item())
        if loss.item() < best:
            best, film = loss.item(), plume.density[0].detach().numpy().astype(np.float32)
        if len(curve) in SHOWN:
            shown[len(curve)] = film[-1]
        return Found(loss.item(), gradient)

    descend(evaluate, waves, waves.drawn(seed, SPEED), evaluations)
    shown[len(curve)] = film[-1]
    record = {"first": first, "curve": curve, "divergence": divergence}
    record |= {"mass": float(film[-1].sum() / film[0].sum()), "cpu_seconds": time.process_time() - began}
    kept = {"picture": picture.numpy().astype(np.float32), "start": film[0], "film": film}
    return record, {**kept, **{f"after_{k}": image for k, image in shown.items()}}


def ratio(record: dict, iterations: int) -> float:
    """Least mean square of the first iterations over that of the disc."""
    return min(record["curve"][:iterations]) / record["first"]


def summary(records: list[dict]) -> dict[str, dict]:
    """The worst of all pictures, of all and by size."""
    figures = {}
    for iterations, original in ORIGINAL.items():
        if any(len(r["curve"]) < iterations for r in records):
            continue
        worst = max(ratio(r, iterations) for r in records)
        coarse = min(r["cells"] for r in records) < min(EVALUATIONS)  # those of a trial, which are worse
        goal = None if coarse else original
        figures[f"mse_ratio_{iterations}"] = figure(worst, original, goal, coarse or worst < original)
        for n in dict.fromkeys(r["cells"] for r in records):
            own = {r["target"]: ratio(r, iterations) for r in records if r["cells"] == n}
            figures |= {f"mse_ratio_{iterations}_{name}_{n}": figure(value) for name, value in own.items()}
    figures["divergence_max"] = figure(max(r["divergence"] for r in records), goal=1e-10)
    return figures
