"""What one call of `Model.rollout` costs beside its kernels: small jobs beside hand-written SIMD and Newton's graph, in one run.

The soft box of `soft_box.py`, with 100, 1000 and 10 000 tetrahedra, is built as a scene, so that all that a user's call does is in the time:
names, checks, layout, launches and PyTorch's graph. A call has one frame or ten of 64 steps. Gradients are those of Σ weights · x after the last step by
velocities and masses of all vertices and by μ, λ, damping and activation of each tetrahedron, which the control has, too;
`call_100_tets_all_vs_simd` takes them by all parameters of the model. Contact with the ground is the scene's and touches vertices of the surface alone.
Before each turn the garbage collector runs, and leaves no code and no number in the caches of the CPU; `_in_loop` is without it, as calls one after another.
`cube` is that of the library, and that of `rigid.py` beside Newton's recording of 1 024 steps. Times are CPU time of one thread, the least of
repetitions that take turns; the box computes in float32, the cubes in float64 (Newton's in float32).
"""

from collections.abc import Callable

import rigid
import torch
from clock import Case, best
from soft_box import CELL, CELLS, DAMPING, DENSITY, DT, GROUND, POISSON, YOUNG, SoftBox, soft_box
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.physics import Model
from gradsim.scene import Scene

SUBSTEPS, ONE_FRAME, TEN_FRAMES = 64, 2, 11
WORLDS = 64
GOALS = {
    "call_100_tets_vs_simd": 3.0,
    "vs_simd_api_1000": 1.4,
    "vs_simd_api_10000": 1.4,
    "worlds64_vs_simd": 0.6,
    "call_ms_cube": 0.8,
}
NEWTON_GOAL = 1.2  # at least
IN_LOOP = "_in_loop"
TURNS = {True: 20, False: 200}  # after a run of the garbage collector, without one
SOFTER = {
    "damping": 1.0,
    "friction_stiffness": 5.0,
}  # of the ground: corners of the scene's box are lighter than those of the arrays


def box_scene(tets: int, frames: int) -> Scene:
    """The soft box on the ground."""
    lengths = [CELL * n for n in CELLS[tets]]
    box = {
        "kind": "solid",
        "shape": {"box": {"size": lengths, "cells": list(CELLS[tets]), "per_cell": 5}},
        "density": DENSITY,
        "mu": YOUNG / (2 * (1 + POISSON)),
        "lam": YOUNG * POISSON / ((1 + POISSON) * (1 - 2 * POISSON)),
        "damping": DAMPING,
        "position": [0, 0, lengths[2] / 2],
        "velocity": [1.0, 0.0, -0.5],
    }
    timing = {"fps": 1 / (SUBSTEPS * DT), "frames": frames, "substeps": SUBSTEPS, "integrator": "semi-implicit"}
    ground = {"law": "paper", **GROUND} | SOFTER
    return Scene.parse({"gravity": 9.81, "timing": timing, "bodies": {"box": box}, "ground": ground})


def box_leaves(box: SoftBox, worlds: int) -> dict[str, Tensor]:
    """Numbers of all vertices and tetrahedra by name, equal in all worlds."""
    numbers = {"mu": box.mu, "lam": box.lam, "damping": box.damping, "activation": box.activation}
    numbers["vertex_velocity"] = box.v - [1.0, 0.0, -0.5]
    numbers["vertex_mass_factor"] = box.inverse_mass / box.inverse_mass
    tensor = lambda a: torch.tensor(a, dtype=torch.float32).expand(worlds, *a.shape).clone()
    return {f"box.{name}": tensor(a) for name, a in numbers.items()}


def box_call(tets: int, frames: int, worlds: int = 1, by_all: bool = False) -> Case:
    """A rollout through the model and its gradient."""
    box, model = soft_box(tets), Model(box_scene(tets, frames), dtype=torch.float32)
    weights = torch.tensor(box.weights, dtype=torch.float32)
    leaves = {} if by_all else box_leaves(box, worlds)
    model.requires_grad_(by_all)

    def run():
        model.zero_grad()
        for leaf in leaves.values():
            leaf.requires_grad_().grad = None
        (model.rollout(leaves)["box"]["x"][:, -1] * weights).sum().backward()

    return run


def cube_calls() -> dict[str, Case]:
    """The library's cube: a rollout, and one with its gradient by all parameters."""
    model = Model(Scene.library("cube"))

    def forward():
        with torch.no_grad():
            model.rollout()

    def forward_backward():
        model.zero_grad()
        model.rollout()["cube"]["x"][:, -1].sum().backward()

    return {"cube forward": forward, "cube forward_backward": forward_backward}


def control_calls(tets: int, frames: int) -> Case | None:
    """The hand-written control over as many steps; None where it cannot run."""
    from simd_control import SimdControl, missing

    return None if missing() else SimdControl(soft_box(tets), (frames - 1) * SUBSTEPS).forward_backward


def missing_control() -> str | None:
    """What a reader has to know where the control cannot run."""
    from simd_control import missing

    reason = missing()
    return reason and f"NO RATIOS to the hand-written SIMD control (figures `..._vs_simd...`): {reason}"


def newton_calls() -> dict[str, Case]:
    """The cube of `rigid.py` in one world: ours, and Newton's recording."""
    model = Model(rigid.scene())
    values = rigid.worlds_of(model, 1)
    found: dict[str, Callable] = {"ours": rigid.runs(rigid.gradsim_last(model), values, 1)["forward_backward"][1]}
    if rigid.has_newton():
        from newton_cube import NewtonCube

        material = rigid.STIFFNESS, rigid.FRICTION_STIFFNESS, rigid.FRICTION
        cube = NewtonCube(values, rigid.STEPS, rigid.DT, rigid.SIZE, *material)
        found["newton"] = cube.graphs()["forward_backward"][1]
    return found


def calls() -> tuple[dict, list[str]]:
    """Figures, and what a reader of them has to know."""
    lines, figures = [(__doc__ or "").strip()], {}
    if reason := missing_control():
        lines.append(reason)
        print(reason, flush=True)
    jobs = {
        "call_100_tets_vs_simd": (100, ONE_FRAME, 1, False),
        "call_100_tets_all_vs_simd": (100, ONE_FRAME, 1, True),
        "vs_simd_api_1000": (1000, TEN_FRAMES, 1, False),
        "vs_simd_api_10000": (10000, TEN_FRAMES, 1, False),
        "worlds64_vs_simd": (100, TEN_FRAMES, WORLDS, False),
    }
    for name, (tets, frames, worlds, by_all) in jobs.items():
        cases = {"ours": box_call(tets, frames, worlds, by_all), "control": control_calls(tets, frames)}
        for collects, end in ((True, ""), (False, IN_LOOP))[: 1 if tets > 100 else 2]:
            times = best(cases, 3 if tets > 1000 else TURNS[collects], collects=collects)
            lines.append(f"{name}{end}: {', '.join(f'{key} {1e3 * t:.3f} ms' for key, t in times.items())}")
            if "control" in times:
                ratio = times["ours"] / worlds / times["control"]
                figures[name + end] = figure(ratio, goal=None if end else GOALS.get(name))
            print(lines[-1], flush=True)
    for collects, end in ((True, ""), (False, IN_LOOP)):
        times = best(cube_calls(), TURNS[collects], collects=collects)
        figures[f"call_ms_cube{end}"] = figure(1e3 * times["cube forward"], goal=None if end else GOALS["call_ms_cube"])
        figures[f"call_ms_cube_with_gradient{end}"] = figure(1e3 * times["cube forward_backward"])
    times = best(newton_calls(), 20)
    lines.append(f"cube of 1024 steps: {', '.join(f'{key} {1e3 * t:.2f} ms' for key, t in times.items())}")
    print(lines[-1], flush=True)
    if "newton" in times:
        faster = times["newton"] / times["ours"]
        figures["cube_vs_newton_graph"] = figure(faster, goal=NEWTON_GOAL, ok=faster >= NEWTON_GOAL)
    return figures, lines
