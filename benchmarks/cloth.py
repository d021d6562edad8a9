"""A sheet of cloth in the air: gradsim beside Newton's SolverSemiImplicit, in one run.

Both move the sheet of `cloth_sheet.py`, with 64, 512 and 2048 triangles, by the same step, and take the gradient of a
weighted sum of the last positions by start, masses and material. Elements are the same: triangles in their plane, hinges
between them, and air on each triangle. The laws are not: ours are stable neo-Hookean, with objective damping, with
gradients for flat hinges, and with those of triangles face-on and edge-on. Times are CPU time of one thread per step,
forward and backward, the least of repetitions that take turns; both compute in float32.

`kernel`: launches that keep all states. `op`: PyTorch's operation with a checkpoint each frame of 32 steps. `newton graph`
replays a recording of all steps and gradients, `newton` is launched step by step on a tape, as its users run it.
"""

import numpy as np
import torch
from clock import memory
from cloth_sheet import BENDING, DAMPING, DRAG, DT, GRAVITY, LIFT, STIFFNESS, ClothSheet, cloth_sheet
from rollouts import Cases, Rollout, at_least, has_newton, per_step

from gradsim.app.figures import figure
from gradsim.physics.forces import aerodynamics, bending, membrane
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft.rollout import Particles

STEPS = {64: 300, 512: 300, 2048: 100}  # that keep all states
FRAMES, SUBSTEPS = {64: 31, 512: 11, 2048: 6}, 32  # of the operation
SHORT = {64: 100, 512: 50, 2048: 30}  # what Python drives step by step
WORLDS = 64


def ours(sheet: ClothSheet, frames: int, substeps: int, worlds: int = 1) -> Rollout:
    """The sheet in equal worlds."""
    every = lambda a: torch.tensor(np.asarray(a), dtype=torch.float32).expand(worlds, *np.shape(a)).contiguous()
    triangles, hinges = torch.tensor(sheet.triangles), torch.tensor(sheet.hinges)
    shape = torch.tensor(sheet.shape)
    groups = (
        Elements(membrane.FORCE, triangles, membrane.rest_shape(shape, triangles)),
        Elements(bending.FORCE, hinges, bending.rest_shape(shape, hinges)),
        Elements(aerodynamics.FORCE, triangles),
    )
    given = [sheet.x, sheet.v, sheet.inverse_mass, [0.0, 0.0, -GRAVITY]]
    given += [[STIFFNESS], [STIFFNESS], [DAMPING], [0.0]]  # μ, λ, damping, activation
    given += [[BENDING], [0.0], [0.0]]  # stiffness, damping, activation
    given += [[1.0], [DRAG], [LIFT], [[0.0, 0.0, 0.0]]]  # density, drag, lift, wind
    inputs = [*map(every, given), torch.zeros(worlds, 0)]
    return Rollout(Particles(groups, frames, substeps, DT), inputs, torch.tensor(sheet.weights).float())


def cases(triangles: int, lines: list[str]) -> Cases:
    """What is timed beside each other for a sheet of this size."""
    sheet, steps = cloth_sheet(triangles), STEPS[triangles]
    many = max(1, steps // 10)
    op = ours(sheet, FRAMES[triangles], SUBSTEPS)
    found: Cases = {"op": (op.steps, op.run)}
    for prefix, rollout in (("", ours(sheet, steps + 1, 1)), ("worlds ", ours(sheet, many + 1, 1, WORLDS))):
        forward, backward = rollout.kernels()
        found |= {f"{prefix}forward": (rollout.steps, forward), f"{prefix}backward": (rollout.steps, backward)}
    if has_newton(lines):
        from newton_particles import NewtonParticles, cloth

        newton, short = NewtonParticles(cloth(sheet), SHORT[triangles], DT, sheet.weights), SHORT[triangles]
        found |= {"newton": (short, newton.forward_backward), "newton graph": (short, newton.recorded())}
    return found


def cloth() -> tuple[dict, list[str]]:
    """All figures of cloth."""
    lines, figures = [(__doc__ or "").strip()], {}
    for triangles in STEPS:
        t = per_step(cases(triangles, lines), f"{triangles} triangles", lines)
        kernel = t["forward"] + t["backward"]
        for name in ("newton graph", "newton"):
            if name in t:
                figures[f"cloth_vs_{name.replace(' ', '_')}_{triangles}"] = at_least(t[name] / kernel, 1.0)
        many = (t["worlds forward"] + t["worlds backward"]) / WORLDS
        figures[f"cloth_worlds64_{triangles}"] = figure(many / kernel, goal=1.0)
        op = ours(cloth_sheet(triangles), FRAMES[triangles], SUBSTEPS)
        figures[f"cloth_bytes_per_step_{triangles}"] = figure(1e6 * memory(op.run) / op.steps)
        figures[f"cloth_us_per_step_kernel_{triangles}"] = figure(1e6 * kernel)
        figures[f"cloth_us_per_step_op_{triangles}"] = figure(1e6 * t["op"])
    return figures, lines
