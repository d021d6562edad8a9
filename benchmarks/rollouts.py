"""What `solid.py` and `cloth.py` time of a `Particles` program, its bare kernels and its operation, and say about it."""

from collections.abc import Mapping, Sequence

import torch
from clock import Case, best
from rigid import has_newton as newton_is_there
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.engine import launch
from gradsim.physics.soft import rollout

Cases = dict[str, tuple[int, Case]]
"""What is timed by name: number of steps, and the run."""


class Rollout:
    """A program with its inputs and the loss Σ weights · x after the last step, the same in all worlds.

    Args:
        program: The rollout.
        inputs: See `Particles`.
        weights: (vertices, 3).
    """

    def __init__(self, program: rollout.Particles, inputs: Sequence[Tensor], weights: Tensor):
        self.program, self.inputs, self.weights = program, list(inputs), weights
        self.steps = (program.frames - 1) * program.substeps

    def run(self) -> list[Tensor]:
        """Gradients of the loss by all inputs, through the operation of PyTorch: the states between frames are recomputed."""
        leaves = [value.detach().requires_grad_() for value in self.inputs]
        x, _v = self.program.run(*leaves)
        return list(torch.autograd.grad((x[:, -1] * self.weights).sum(), leaves))

    def last(self) -> Tensor:
        """Positions after the last step (worlds, n, 3)."""
        return self.program.forward(self.inputs)[0][:, -1]

    def kernels(self) -> tuple[Case, Case]:
        """Forward and backward as bare launches, with all their arrays ready.

        A backward launch begins with the adjoint of the last state, adds up those of the parameters, and returns that of
        the start as it lies in memory.
        """
        launches = []

        def noted(*args):
            launches.append((args, launch.recorded(*args)))
            return launches[-1][1]

        rollout.recorded = noted  # pyright: ignore[reportPrivateImportUsage] -- to see what it launches
        try:
            outputs = self.program.forward(self.inputs)
            adjoints = [torch.zeros_like(y) for y in outputs]
            adjoints[0][:, -1] = self.weights
            self.program.backward(self.inputs, outputs, adjoints)
        finally:
            rollout.recorded = launch.recorded  # pyright: ignore[reportPrivateImportUsage]
        (_, forward), (args, backward) = launches
        start = [vars(array)["tensor"] for array in (args[2][-2].x, args[2][-2].v)]

        def back():
            for tensor in start:
                tensor.zero_()
            backward()
            return start[0]

        return forward, back


def per_step(cases: Mapping[str, tuple[int, Case]], job: str, lines: list[str]) -> dict[str, float]:
    """CPU time of a step [s] of each case, with a line each that is printed as well."""
    found = best({name: run for name, (_, run) in cases.items()})
    times = {name: found[name] / steps for name, (steps, _) in cases.items()}
    lines += [f"{job}: {name} {1e6 * seconds:.2f} µs a step" for name, seconds in times.items()]
    print(*lines[-len(times) :], sep="\n", flush=True)
    return times


def has_newton(lines: list[str]) -> bool:
    """Whether Newton is installed; else a line says so."""
    line = 'Newton is not installed, so nothing is compared with it: pip install "gradsim[newton]".'
    if not newton_is_there() and line not in lines:
        lines.append(line)
    return newton_is_there()


def at_least(value: float, goal: float) -> dict:
    """A figure that is met from the goal up."""
    return figure(value, goal=goal, ok=value >= goal)
