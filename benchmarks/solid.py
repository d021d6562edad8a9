"""A soft box on the ground: gradsim beside a hand-written SIMD control and Newton's SolverSemiImplicit, in one run.

All move the box of `soft_box.py`, with 100, 1000 and 10 000 tetrahedra, by the same step, and take the gradient of a
weighted sum of the last positions by start, masses, four numbers of each tetrahedron, and the ground's. Times are CPU
time of one thread per step, forward and backward, the least of repetitions that take turns; all compute in float32.

The laws differ in damping alone: ours is objective, so that no rigid motion sets it off, and costs more; the control's and
Newton's is of Ḟ and of three vertices of four. The ground's damps both ways here, there only what goes in.

`kernel`: launches that keep all states, as the control does. `op`: PyTorch's operation with a checkpoint each frame of
64 steps, in a rollout of 1920, 640 or 128. `newton graph` replays a recording of all steps and gradients; `newton` is
launched step by step on a tape; both found their contacts before the clock starts. `newton collide` finds them in
each step, as Newton's own example of a soft body does.
"""

import math

import numpy as np
import torch
from clock import best, memory
from rollouts import Cases, Rollout, at_least, has_newton, per_step
from soft_box import DT, GRAVITY, SoftBox, soft_box

from gradsim.app.figures import figure
from gradsim.physics.contact.vertex_plane import touch
from gradsim.physics.forces import neo_hookean as law
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft.rollout import Particles

STEPS = {100: 300, 1000: 300, 10000: 100}  # that keep all states
FRAMES, SUBSTEPS = {100: 31, 1000: 11, 10000: 3}, 64  # of the operation
SHORT = {100: 100, 1000: 50, 10000: 20}  # what Python drives step by step
WORLDS = 64
GOALS = {  # by number of tetrahedra; above, at most; below, at least
    "vs_simd_kernel": {100: 1.7, 1000: 1.6, 10000: 1.6},
    "vs_simd_op": {100: 2.3, 1000: 2.0, 10000: 2.0},
    "vs_newton_graph": {100: 12.0, 1000: 6.0, 10000: 5.0},
    "vs_newton": {100: 100.0, 1000: 20.0, 10000: 7.0},
}
PER_WORLD = {100: 0.4, 1000: 0.6}
NAMES = ("x", "v", "inverse_mass", "gravity", "mu", "lam", "damping", "activation")


def ours(box: SoftBox, frames: int, substeps: int, worlds: int = 1, dtype: torch.dtype = torch.float32) -> Rollout:
    """The box in equal worlds."""
    every = lambda a: torch.tensor(np.asarray(a), dtype=dtype).expand(worlds, *np.shape(a)).contiguous()
    index = torch.tensor(box.tets, dtype=torch.long)
    tets = Elements(law.FORCE, index, law.rest_shape(torch.tensor(box.shape), index))
    ground = Elements(touch("paper"), torch.arange(len(box.x))[:, None])
    given = [box.x, box.v, box.inverse_mass, [0.0, 0.0, -GRAVITY], box.mu, box.lam, box.damping, box.activation]
    given += [[[0.0, 0.0, 1.0]], [0.0], *([number] for number in box.ground.values())]
    inputs = [*map(every, given), torch.zeros(worlds, 0, dtype=dtype)]
    return Rollout(Particles((tets, ground), frames, substeps, DT), inputs, torch.tensor(box.weights, dtype=dtype))


def cases(tets: int, lines: list[str]) -> Cases:
    """What is timed beside each other for a box of this size."""
    box, steps = soft_box(tets), STEPS[tets]
    forward, backward = ours(box, steps + 1, 1).kernels()
    op = ours(box, FRAMES[tets], SUBSTEPS)
    found = {"forward": (steps, forward), "backward": (steps, backward), "op": (op.steps, op.run)}
    if tets in PER_WORLD:
        many = max(1, steps // 10)
        forward, backward = ours(box, many + 1, 1, WORLDS).kernels()
        found |= {"worlds forward": (many, forward), "worlds backward": (many, backward)}
    if has_control(lines):
        from simd_control import SimdControl

        control = SimdControl(box, steps)
        found |= {"control forward": (steps, control.forward), "control backward": (steps, control.backward)}
    if has_newton(lines):
        from newton_particles import NewtonParticles, solid

        short = SHORT[tets]
        once, each = (NewtonParticles(solid(box), short, DT, box.weights, c, box.activation) for c in (False, True))
        found |= {"newton": (short, once.forward_backward), "newton graph": (short, once.recorded())}
        found["newton collide"] = short, each.forward_backward
    return found


def has_control(lines: list[str]) -> bool:
    """Whether the control can run; else a line says why not."""
    from simd_control import missing

    why = missing()
    line = f"There is no control to compare with: {why}"
    if why and line not in lines:
        lines.append(line)
    return not why


def agreement(tets: int = 100, steps: int = 100) -> dict[str, float]:
    """Largest relative difference of gradients from our float64, with no damping, where the laws are one."""
    box = soft_box(tets).undamped()
    named = lambda rollout: {name: g.double().numpy()[0] for name, g in zip(NAMES, rollout.run(), strict=False)}
    exact = named(ours(box, steps + 1, 1, dtype=torch.float64))
    found = {"gradsim": named(ours(box, steps + 1, 1))}
    if has_control([]):
        from simd_control import SimdControl

        control = SimdControl(box, steps)
        control.forward_backward()
        found["control"] = control.gradients()
    if has_newton([]):
        from newton_particles import NewtonParticles, solid

        newton = NewtonParticles(solid(box), steps, DT, box.weights, activation=box.activation)
        newton.forward_backward()
        found["newton"] = newton.gradients()
    norm = np.linalg.norm
    asked = [name for name in NAMES if name not in ("gravity", "damping")]
    return {peer: max(float(norm(g[n] - exact[n]) / norm(exact[n])) for n in asked) for peer, g in found.items()}


def growth(times: dict[int, float]) -> float:
    """Exponent p of time ∝ tetrahedraᵖ, from a straight line through the logarithms."""
    return float(np.polyfit(np.log(list(times)), np.log(list(times.values())), 1)[0])


def solid() -> tuple[dict, list[str]]:
    """All figures of soft bodies."""
    lines = [(__doc__ or "").strip()]
    figures = {f"gradient_error_{name}": figure(e, goal=1e-4) for name, e in agreement().items()}
    times: dict[int, dict[str, float]] = {}
    for tets in STEPS:
        t = times[tets] = per_step(cases(tets, lines), f"{tets} tetrahedra", lines)
        kernel = t["forward"] + t["backward"]
        if "newton" in t:
            for name in ("newton_graph", "newton"):
                faster = t[name.replace("_", " ")] / kernel
                figures[f"vs_{name}_{tets}"] = at_least(faster, GOALS[f"vs_{name}"][tets])
            figures[f"vs_newton_collide_{tets}"] = figure(t["newton collide"] / kernel)
        if "control forward" in t:
            control = t["control forward"] + t["control backward"]
            for name, mine in (("kernel", kernel), ("op", t["op"])):
                figures[f"vs_simd_{name}_{tets}"] = figure(mine / control, goal=GOALS[f"vs_simd_{name}"][tets])
        if tets in PER_WORLD:
            many = (t["worlds forward"] + t["worlds backward"]) / WORLDS
            figures[f"worlds64_{tets}"] = figure(many / kernel, goal=PER_WORLD[tets])
        op = ours(soft_box(tets), FRAMES[tets], SUBSTEPS)
        figures[f"bytes_per_step_{tets}"] = figure(1e6 * memory(op.run) / op.steps)
        figures[f"us_per_step_kernel_{tets}"] = figure(1e6 * kernel)
        figures[f"us_per_step_op_{tets}"] = figure(1e6 * t["op"])
    return figures | sizes({tets: t["op"] for tets, t in times.items()}), lines


def sizes(times: dict[int, float]) -> dict[str, dict]:
    """How the time of a step through the operation grows, up to 100 000 tetrahedra."""
    large = ours(soft_box(100000), 2, 10)
    every = times | {100000: best({"op": large.run}, 2)["op"] / large.steps}
    ns = {tets: 1e9 * t / tets for tets, t in every.items()}
    exponent = growth(every)
    found = {f"ns_per_tetrahedron_{tets}": figure(t) for tets, t in ns.items()}
    return found | {"growth_exponent": figure(exponent, goal=1.1, ok=math.isfinite(exponent) and exponent <= 1.1)}
