"""A step of smoke: gradsim beside plain PyTorch, in one run.

All do the same: 128² or 256² periodic cells, double precision, bilinear advection of velocity and smoke from where the
midpoint rule says, an FFT projection, 20 steps forward, and backward to the velocity at the start. PyTorch takes means by
indexing (`gather`), or by `grid_sample` on fields that are padded by what their other edge has. Times are CPU time of one
thread per step, the least of repetitions that take turns.
"""

from collections.abc import Callable

import torch
from clock import best
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.physics.smoke.solver import Smoke
from gradsim_reproduction.control.smoke import StreamFunction, disc, targets

SIZES, STEPS, DT, PAD = (128, 256), 20, 0.01, 16
HALF = {0: (0.0, 0.5), 1: (0.5, 0.0), None: (0.5, 0.5)}  # where nodes lie in their cells, by component

Sampler = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Values between nodes (n, n), from nodes (n, n) and places in rows and columns (n, n)."""


def gather(q: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """By indexing."""
    n = len(q)
    i, j = y.floor(), x.floor()
    f, g = y - i, x - j
    i, j = i.long() % n, j.long() % n
    k, m = (i + 1) % n, (j + 1) % n
    return (1 - f) * ((1 - g) * q[i, j] + g * q[i, m]) + f * ((1 - g) * q[k, j] + g * q[k, m])


def grid_sample(q: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """By PyTorch's own sampler; particles come from less than `PAD` cells away."""
    n = len(q)
    padded = torch.nn.functional.pad(q[None, None], (PAD,) * 4, mode="circular")
    scale = lambda p: 2 * (p + PAD) / (n + 2 * PAD - 1) - 1
    places = torch.stack([scale(x), scale(y)], -1)[None]
    return torch.nn.functional.grid_sample(padded, places, align_corners=True)[0, 0]


def rollout(velocity: Tensor, density: Tensor, steps: int, sample: Sampler) -> Tensor:
    """The smoke at the end, by plain PyTorch, as `Smoke.rollout` does it."""
    n = len(density)
    cells = torch.arange(n, dtype=density.dtype)
    waves = torch.arange(n // 2 + 1, dtype=density.dtype)
    rates = (4 - 2 * (2 * torch.pi / n * cells).cos()[:, None] - 2 * (2 * torch.pi / n * waves).cos()) * n**2
    rates[0, 0] = torch.inf

    def project(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        divergence = n * (u.roll(-1, 0) - u + v.roll(-1, 1) - v)
        p = torch.fft.irfft2(torch.fft.rfft2(-divergence) / rates, s=(n, n))
        return u - n * (p - p.roll(1, 0)), v - n * (p - p.roll(1, 1))

    def advect(q: Tensor, component: int | None, u: Tensor, v: Tensor) -> Tensor:
        down, right = HALF[component]
        y, x = (cells + down)[:, None].expand(n, n), (cells + right).expand(n, n)
        flow = lambda y, x: (sample(u, y, x - 0.5), sample(v, y - 0.5, x))
        first = flow(y, x)
        middle = flow(y - 0.5 * DT * n * first[0], x - 0.5 * DT * n * first[1])
        return sample(q, y - DT * n * middle[0] - down, x - DT * n * middle[1] - right)

    u, v = project(*velocity)
    for _ in range(steps):
        u, v = project(advect(u, 0, u, v), advect(v, 1, u, v))
        density = advect(density, None, u, v)
    return density


def cases(n: int) -> dict[str, Callable[[], Tensor]]:
    """Gradients by the velocity at the start of the sum of squares of the smoke at the end, by name."""
    start = disc(n, targets(n)["ring"].sum())
    velocity = StreamFunction(n).velocity(StreamFunction(n).random(0, 0.3))

    def gradient(last: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype = torch.float64) -> Callable[[], Tensor]:
        def run() -> Tensor:
            leaf = velocity.to(dtype).requires_grad_()
            last(leaf, start.to(dtype)).square().sum().backward()
            assert leaf.grad is not None
            return leaf.grad

        return run

    def ours(advection: str, dtype: torch.dtype = torch.float64) -> Callable[[], Tensor]:
        box = Smoke((n, n), 1 / n, DT, advection=advection, dtype=dtype)
        last = lambda u, q: box.rollout(u, q, frames=STEPS + 1, segment=None).density[0, -1]
        return gradient(last, dtype)

    return {
        "gradsim": ours("bilinear"),
        "gradsim, maccormack": ours("maccormack"),
        "torch, gather": gradient(lambda u, q: rollout(u, q, STEPS, gather)),
        "torch, grid_sample": gradient(lambda u, q: rollout(u, q, STEPS, grid_sample)),
    }


def smoke() -> tuple[dict, list[str]]:
    """CPU time of a step, forward and backward, and ratios to PyTorch."""
    figures, notes = {}, []
    for n in SIZES:
        times = {name: spent / STEPS for name, spent in best(cases(n), repeats=3).items()}
        notes += [f"{n} x {n}, {name}: {1e3 * spent:.2f} ms a step" for name, spent in times.items()]
        figures |= {f"smoke_{n}_ms ({name})": figure(1e3 * spent) for name, spent in times.items()}
        for name in ("torch, gather", "torch, grid_sample"):
            figures[f"smoke_{n}_times_faster ({name})"] = figure(times[name] / times["gradsim"])
    return figures, notes
