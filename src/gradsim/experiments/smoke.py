"""Initial velocities from which smoke forms a picture (the paper's Sec. C.4 and its video).

A filled disc of smoke in a periodic box without viscosity, 99 steps, three pictures. The unknown is the velocity at the
start of every cell; it begins as a small random one, the same for all. What is minimised is the mean square of what the
smoke at the end and the picture differ by, as a share of what it is for the disc itself. An iteration is one forward and one
backward pass, those of line searches included.

The original has a picture of its own at 110 x 110, 3.6 % of the first mean square after 30 iterations and 3.1 % after 49.
The picture is no state of the same simulation, so nothing is known of what can be reached.
"""

import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradsim.experiments import smoke_pictures
from gradsim.experiments.figures import figure, write_result
from gradsim.experiments.ledger import Ledger
from gradsim.experiments.smoke_search import Found, Waves, descend
from gradsim.experiments.smoke_targets import disc, targets
from gradsim.files import whole
from gradsim.identify.progress import Progress, Silent
from gradsim.physics.smoke import Smoke

STEPS, DT = 99, 0.01  # [s]
SPEED = 0.02  # [m/s] root mean square at the start
EVALUATIONS = {128: 49, 256: 49}  # by cells along an edge
QUICK = {32: 30}
SHOWN = (1, 10, 30, 49)  # iterations
ORIGINAL = {30: 0.036, 49: 0.031}


def smoke(out: Path, quick: bool = False, seed: int = 0, progress: Progress | None = None) -> dict:
    """Run the experiment into a folder; finished pictures are kept there, and an interrupted run goes on after them.

    Args:
        out: Gets result.json, runs.jsonl, the final motions as npz, pictures and films.
        quick: 32² cells, 30 iterations.
        seed: Of the velocity at the start.
        progress: Is told what happens.
    """
    out, progress = Path(out), progress or Silent()
    plan = QUICK if quick else EVALUATIONS
    done, records = Ledger(out / "runs.jsonl", {"seed": seed, "quick": quick}), []
    for n, evaluations in plan.items():
        for name, picture in targets(n).items():
            key, path = f"{name} {n}", out / f"{name}_{n}.npz"
            record = done.get(key) if path.exists() else None
            if record is None:
                progress.stage(f"{name}, {n} x {n} cells")
                record, kept = form(picture, evaluations, seed)
                with whole(path) as draft, draft.open("wb") as file:
                    np.savez_compressed(file, **kept)  # pyright: ignore[reportArgumentType] -- no such name
                record = done.put(key, {"target": name, "cells": n, **record})
            records.append(record)
    progress.done()
    result = {"title": "Smoke that forms pictures", "seed": seed, "quick": quick, "records": records}
    result |= smoke_pictures.draw(out, records)
    return write_result(out, "reproduce smoke", result, summary(records))


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
