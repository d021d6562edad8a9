"""A rod that swings from one end: gradsim beside plain PyTorch of the same law, and beside Newton's rods, in one run.

The rod of 16, 64 and 256 edges stretches, bends and twists, and falls from level about its pinned end. PyTorch takes the same semi-implicit
steps with the same forces (`reference` of each force, whole arrays, no loops but that over steps), and autograd; both compute in float64.
Newton's rods are rigid capsules with compliant joints under SolverVBD, 5 iterations, in float32, forward alone: another law by another
integrator, which takes longer steps for the same motion, so that its figure is a cost per step and no more. Times are CPU time of one thread
per step of all edges, the least of repetitions that take turns.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from clock import Case, best
from rigid import has_newton
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.physics.forces import rod_bending, rod_frame, spring
from gradsim.physics.model import Model
from gradsim.scene import Scene

FRAMES, SUBSTEPS, TORCH_STEPS, NEWTON_STEPS = 6, 64, 24, 40
LENGTH, MASS, STRETCHING, BENDING, TWISTING = 1.0, 0.05, 30.0, 2e-3, 1e-3
DT = {16: 4e-5, 64: 5e-6, 256: 4e-7}  # [s] of a step: what bends is stiffer with the fourth power of an edge's length
EDGES = tuple(DT)
NEWTON_DT, ITERATIONS = 1e-3, 5


def scene(edges: int) -> Scene:
    """The rod, clamped at its first vertex."""
    rod = {
        "kind": "rod",
        "shape": {"line": {"length": LENGTH, "segments": edges}},
        "mass": MASS,
        "radius": 0.01,
        "stretching": STRETCHING,
        "bending": BENDING,
        "twisting": TWISTING,
        "stretching_time": 0.0,
        "bending_time": 0.0,
        "twisting_time": 0.0,
        "curvature1": 1.0,
        "natural_twist": 0.5,
        "pinned": ["-x"],
        "collision": "none",
    }
    timing = {"fps": 1 / (DT[edges] * SUBSTEPS), "frames": FRAMES, "substeps": SUBSTEPS, "integrator": "semi-implicit"}
    return Scene.parse({"timing": timing, "bodies": {"rod": rod}})


class TorchRod:
    """The same steps in plain PyTorch.

    Args:
        model: Whose numbers these are.
        dt: Of a step [s].
    """

    def __init__(self, model: Model, dt: float):
        system: Any = model.systems[0]
        values = model.values({})
        self.dt, self.start = dt, system.matter.rest.clone()
        self.parts = [(spring, system.matter.edges), (rod_bending, system.matter.bends)]
        self.parts.append((rod_frame, system.matter.groups[2].index))
        numbers = [x[0] for x in system.matter.parameters(values, self.start[None])]
        self.numbers = [numbers[:3], numbers[3:12], numbers[12:15]]
        self.inverse = 1 / system.matter.mass(values)[0]
        self.inverse[0] = 0
        self.gravity = torch.tensor([0.0, 0.0, -9.81], dtype=torch.float64)

    def roll(self, steps: int, factor: Tensor) -> Tensor:
        """Last positions; `factor` multiplies the stiffness of bending."""
        x, v = self.start, torch.zeros_like(self.start)
        pinned = (self.inverse > 0)[:, None]
        for _ in range(steps):
            force = torch.zeros_like(x)
            for (law, nodes), numbers in zip(self.parts, self.numbers, strict=True):
                used = [y * factor if law is rod_bending and k in (3, 4) else y for k, y in enumerate(numbers)]
                force = force.index_add(0, nodes.flatten(), law.reference(x[nodes], v[nodes], *used).flatten(0, 1))
            v = v + self.dt * (force * self.inverse[:, None] + self.gravity * pinned)
            x = x + self.dt * v
        return x


def newton_case(edges: int) -> tuple[int, Case]:
    """Steps of Newton's rod, forward."""
    import newton
    import warp as wp

    builder: Any = newton.ModelBuilder()
    points = [wp.vec3(*row) for row in np.stack([np.linspace(0, LENGTH, edges + 1), *np.zeros((2, edges + 1))], 1)]
    rod = newton.Rod(points, radius=0.01)
    builder.add_rod(
        rod=rod, stretch_stiffness=STRETCHING * edges, bend_stiffness=BENDING * edges, twist_stiffness=TWISTING * edges
    )
    builder.color()
    model = builder.finalize(device="cpu")
    solver = newton.solvers.SolverVBD(model, iterations=ITERATIONS)
    states, control = [model.state(), model.state()], model.control()

    def run() -> None:
        for _ in range(NEWTON_STEPS):
            states[0].clear_forces()
            solver.step(states[0], states[1], control, None, NEWTON_DT)
            states.reverse()

    return NEWTON_STEPS, run


def cases(edges: int) -> tuple[dict[str, tuple[int, Case]], float]:
    """What is timed, and the largest distance [m] of both after the steps of PyTorch."""
    model = Model(scene(edges))
    plain, steps = TorchRod(model, DT[edges]), (FRAMES - 1) * SUBSTEPS
    factor = torch.ones((), dtype=torch.float64)

    def forward() -> None:
        with torch.no_grad():
            model.rollout({})

    def gradient(run: Callable[[Tensor], Tensor]) -> None:
        one = factor.clone().requires_grad_()
        torch.autograd.grad(run(one), one)

    ours = lambda one: model.rollout({"rod.bending": (BENDING * one)[None]})["rod"]["x"][:, -1].square().sum()
    theirs = lambda one: plain.roll(TORCH_STEPS, one).square().sum()
    with torch.no_grad():
        few = Model(scene(edges).model_copy(update={"timing": scene(edges).timing.model_copy(update={"frames": 2})}))
        last = few.rollout({})["rod"]["x"][0, -1]
        distance = float((last - plain.roll(SUBSTEPS, factor)[: len(last)]).abs().max())
    timed: dict[str, tuple[int, Case]] = {
        "forward": (steps, forward),
        "gradient": (steps, lambda: gradient(ours)),
        "torch forward": (TORCH_STEPS, lambda: _no_grad(lambda: plain.roll(TORCH_STEPS, factor))),
        "torch gradient": (TORCH_STEPS, lambda: gradient(theirs)),
    }
    if has_newton():
        timed["newton forward"] = newton_case(edges)
    return timed, distance


def _no_grad(run: Callable[[], Any]) -> None:
    with torch.no_grad():
        run()


def rod() -> tuple[dict, list[str]]:
    """All figures of rods."""
    lines, figures = [(__doc__ or "").strip()], {}
    if not has_newton():
        lines.append('Newton is not installed, so nothing is compared with it: pip install "gradsim[newton]".')
    for edges in EDGES:
        timed, distance = cases(edges)
        least = best({name: run for name, (_, run) in timed.items()})
        t = {name: least[name] / steps for name, (steps, _) in timed.items()}
        lines += [f"{edges} edges: {name} {1e6 * seconds:.2f} µs a step" for name, seconds in t.items()]
        print(*lines[-len(t) :], sep="\n", flush=True)
        figures[f"rod_forward_vs_torch_{edges}"] = figure(t["torch forward"] / t["forward"])
        figures[f"rod_gradient_vs_torch_{edges}"] = figure(t["torch gradient"] / t["gradient"])
        if "newton forward" in t:
            figures[f"rod_step_vs_newton_step_{edges}"] = figure(t["newton forward"] / t["forward"])
        figures[f"rod_distance_from_torch_{edges}"] = figure(distance, goal=1e-12)
        figures[f"rod_us_per_step_gradient_{edges}"] = figure(1e6 * t["gradient"])
    return figures, lines
