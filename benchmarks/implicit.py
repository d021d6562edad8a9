"""Work and precision of implicit and explicit steps: a slender beam and a plate of two layers, stiff and soft.

The lower layer is 1 000 times as stiff as the upper one. Both bodies are held at one end and fall under their weight, for half a
swing. Explicit steps are those of velocity Verlet, the longest that are stable (to 2 %); implicit ones those of the midpoint rule
and of Euler. The error is the root mean square over vertices and frames against Verlet steps of half the size, over that of the
displacement. `implicit_over_explicit` is CPU time of the fewest implicit steps that are off by less than 1e-3 over that of the
explicit ones, which cannot be fewer; `_gradient` the same with the gradient by all inputs. One world in float64 on one thread,
the least of repetitions that take turns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from clock import best
from matplotlib.figure import Figure
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.geometry import tet_grid
from gradsim.physics.forces import neo_hookean
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft.implicit import ImplicitParticles
from gradsim.physics.soft.rollout import Particles
from gradsim.runtime.atomic import atomic_path

FRAMES = 9
REPEATS = 2
ERROR, GOAL = 1e-3, 0.3
YOUNG, RATIO, POISSON, DENSITY = 1e6, 1e3, 0.3, 1000.0
GRAVITY = 9.81
THETA = {"midpoint": 0.5, "implicit": 1.0}
SUBSTEPS = {"midpoint": (4, 8, 16, 32, 50, 64), "implicit": (8, 64)}
FINER = 2  # steps of the reference
TRIAL = 2  # frames in which steps that are too long show


@dataclass(frozen=True)
class Body:
    """A layered body.

    Attributes:
        size: Its edges [m].
        cells: Cells along them.
        duration: Of the clip [s].
    """

    size: tuple[float, float, float]
    cells: tuple[int, int, int]
    duration: float


BODIES = {
    "beam": Body((0.5, 0.01, 0.01), (50, 1, 2), 0.12),
    "plate": Body((0.3, 0.3, 0.002), (12, 12, 2), 0.06),
}


def start(body: Body) -> tuple[tuple[Elements, ...], list[Tensor], list[int]]:
    """Elements, inputs and pinned vertices of a rollout from rest."""
    mesh = tet_grid.box(body.size, body.cells)
    x, tets = torch.tensor(mesh.vertices), torch.tensor(mesh.tets)
    group = Elements(neo_hookean.FORCE, tets, neo_hookean.rest_shape(x, tets))
    share = group.rest["volume"] * DENSITY / tets.shape[1]
    mass = torch.zeros(len(x), dtype=x.dtype).index_add(0, tets.flatten(), share.repeat_interleave(tets.shape[1]))
    lower = x[tets, 2].mean(1) < x[:, 2].mean()
    young = YOUNG * torch.where(lower, RATIO, 1.0).to(x)
    mu, lam = young / (2 * (1 + POISSON)), young * POISSON / ((1 + POISSON) * (1 - 2 * POISSON))
    none = x.new_zeros(1, 1)
    gravity = x.new_tensor([[0.0, 0.0, -GRAVITY]])
    inputs = [x[None], torch.zeros_like(x)[None], 1 / mass[None], gravity, mu[None], lam[None], none, none]
    return (group,), [*inputs, x.new_zeros(1, 0)], (x[:, 0] == x[:, 0].min()).nonzero()[:, 0].tolist()


def rollout(
    body: Body, name: str, substeps: int, frames: int = FRAMES
) -> tuple[Particles | ImplicitParticles, list[Tensor]]:
    """A program of the clip, and its inputs."""
    groups, inputs, pinned = start(body)
    arguments = (groups, frames, substeps, body.duration / ((FRAMES - 1) * substeps), pinned)
    if name == "verlet":
        return Particles(*arguments, integrator=name), inputs
    return ImplicitParticles(*arguments, theta=THETA[name], factored=True), inputs


def longest(body: Body) -> int:
    """Fewest Verlet steps per frame that are stable."""
    low, high = 1000, 30_000
    while high > 1.02 * low:
        middle = round((low * high) ** 0.5)
        program, inputs = rollout(body, "verlet", middle, TRIAL)
        x = program.forward(inputs)[0]
        stands = bool(x.isfinite().all() and (x - x[:, :1]).abs().max() < max(body.size))
        low, high = (low, middle) if stands else (middle + 1, high)
    return high


def gradient(program: Particles | ImplicitParticles, inputs: list[Tensor]) -> Callable[[], object]:
    """A rollout and the gradient of the sum of its states."""

    def run() -> list[Tensor]:
        outputs = program.forward(inputs)
        return program.backward(inputs, outputs, [torch.ones_like(y) for y in outputs])

    return run


def implicit(out: Path) -> tuple[dict, list[str]]:
    """Figures, and what a reader of them has to know; the curves are drawn to `implicit.png`."""
    figures, notes, curves = {}, [(__doc__ or "").strip()], {}
    for name, body in BODIES.items():
        explicit = longest(body)
        program, inputs = rollout(body, "verlet", FINER * explicit)
        exact = program.forward(inputs)[0]
        size = (exact - exact[:, :1]).square().mean().sqrt()
        runs = {("verlet", explicit): rollout(body, "verlet", explicit)}
        runs |= {(kind, n): rollout(body, kind, n) for kind, counts in SUBSTEPS.items() for n in counts}
        cases = {key: (lambda run=run: run[0].forward(run[1])) for key, run in runs.items()}
        errors = {key: float((case()[0] - exact).square().mean().sqrt() / size) for key, case in cases.items()}
        seconds = best({f"{kind} {n}": case for (kind, n), case in cases.items()}, REPEATS)
        curves[name] = {
            kind: np.array([[seconds[f"{kind} {n}"], e] for (k, n), e in errors.items() if k == kind]).T
            for kind in ("verlet", *SUBSTEPS)
        }
        fewest = min((n for (kind, n), e in errors.items() if kind == "midpoint" and e < ERROR), default=None)
        notes.append(f"{name}: {explicit} explicit steps a frame, off by {errors['verlet', explicit]:.1e}.")
        notes += [
            f"{name}: {kind}, {n} steps a frame, off by {e:.1e}, {seconds[f'{kind} {n}']:.3g} s"
            for (kind, n), e in errors.items()
        ]
        if fewest is None:
            continue
        both = {key: gradient(*runs[key]) for key in (("midpoint", fewest), ("verlet", explicit))}
        with_gradient = best({key[0]: case for key, case in both.items()}, 1)
        for suffix, ratio in (
            ("", seconds[f"midpoint {fewest}"] / seconds[f"verlet {explicit}"]),
            ("_gradient", with_gradient["midpoint"] / with_gradient["verlet"]),
        ):
            figures[f"implicit_over_explicit_{name}{suffix}"] = figure(ratio, goal=GOAL, ok=ratio <= GOAL)
        figures[f"implicit_{name}_steps_replaced"] = figure(explicit / fewest)
    _draw(curves, out / "implicit.png")
    return figures, notes


def _draw(curves: dict[str, dict[str, np.ndarray]], path: Path) -> None:
    drawing = Figure((3.6 * len(curves), 3.2), layout="constrained")
    for ax, (name, kinds) in zip(drawing.subplots(1, len(curves)), curves.items(), strict=True):
        for kind, (seconds, errors) in kinds.items():
            ax.loglog(seconds, errors, "o-", label=kind)
        ax.set_title(name)
        ax.set_xlabel("CPU time of a rollout [s]")
        ax.legend(fontsize=7)
    drawing.axes[0].set_ylabel("relative error of vertices")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as draft:
        drawing.savefig(draft, format="png", dpi=120)
