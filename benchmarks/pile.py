"""Piles of 10, 100 and 300 boxes on a ground: gradsim beside MuJoCo, in one run.

Columns of boxes fall by a tenth of a millimetre onto one another and rest. Both take the same steps of 1/1200 s, gradsim semi-implicit ones with
contact by penalty, MuJoCo's with its own solver and defaults, which takes longer steps for the same motion: a figure here is a cost per step. Of
gradsim a step is the difference of two rollouts of different length, so that what a call costs beside is left out and told apart. Times are CPU time
of one thread, the least of repetitions that take turns, in float64.
"""

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import torch
from clock import best

from gradsim.app.figures import figure
from gradsim.physics.model import Model
from gradsim.scene import Scene

SIZE, GAP, FPS, SUBSTEPS = 0.2, 1e-4, 60, 20
FEW, MANY = 2, 8  # frames of the short and of the long rollout
GOALS = {10: 2.0, 100: 2.0, 300: 3.0}
REPEATS = 3
LAW = {"stiffness": 2e4, "dissipation": 0.5, "friction_stiffness": 50, "friction": 0.5}


def places(count: int) -> list[tuple[float, float, float]]:
    """Centres [m] of boxes in layers, three of them in large piles; every other layer is shifted."""
    side = max(2, round((count / 3) ** 0.5))
    layers = [(*divmod(k % side**2, side), k // side**2) for k in range(count)]
    return [
        (1.05 * SIZE * i + 0.15 * SIZE * (layer % 2), 1.05 * SIZE * j, SIZE / 2 + GAP + (SIZE + GAP) * layer)
        for i, j, layer in layers
    ]


def scene(count: int) -> Scene:
    """The pile."""
    boxes = {
        f"box{k}": {"shape": {"box": {"size": [SIZE] * 3}}, "mass": 1.0, "position": list(place)}
        for k, place in enumerate(places(count))
    }
    return Scene.parse(
        {
            "gravity": 9.81,
            "timing": {"fps": FPS, "frames": MANY, "substeps": SUBSTEPS},
            "bodies": boxes,
            "ground": LAW,
            "contacts": {"boxes": {"between": "all", **LAW}},
        }
    )


def mujoco_run(count: int, steps: int) -> Callable[[], None]:
    """Steps of MuJoCo from the same start."""
    mujoco: Any = importlib.import_module("mujoco")
    half = SIZE / 2
    bodies = "".join(
        f'<body pos="{x} {y} {z}"><freejoint/><geom type="box" size="{half} {half} {half}" mass="1"/></body>'
        for x, y, z in places(count)
    )
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{1 / (FPS * SUBSTEPS)}"/><worldbody><geom type="plane" size="9 9 1"/>{bodies}</worldbody></mujoco>'
    )
    data = mujoco.MjData(model)

    def run():
        mujoco.mj_resetData(model, data)
        mujoco.mj_step(model, data, steps)

    return run


def pile() -> tuple[dict, list[str]]:
    """Figures, and what a reader of them has to know."""
    notes, figures = [(__doc__ or "").strip()], {}
    has_mujoco = importlib.util.find_spec("mujoco") is not None
    if not has_mujoco:
        notes.append('MuJoCo is not installed, so nothing is compared with it: pip install "gradsim[engines]".')
    steps = (MANY - FEW) * SUBSTEPS
    for count, goal in GOALS.items():
        begin = time.process_time()
        model = Model(scene(count))
        setup = time.process_time() - begin

        def forward(frames: int, model: Model = model):
            with torch.no_grad():
                return model.rollout(frames=frames)

        def gradient(frames: int, model: Model = model):
            mass = torch.ones(1, dtype=torch.float64, requires_grad=True)
            model.rollout({"box0.mass": mass}, frames=frames)["box0"]["x"][:, -1].sum().backward()
            return mass.grad

        cases = {
            f"{f.__name__} {frames}": lambda f=f, n=frames: f(n) for f in (forward, gradient) for frames in (FEW, MANY)
        }
        if has_mujoco:
            cases |= {f"mujoco {frames}": mujoco_run(count, (frames - 1) * SUBSTEPS) for frames in (FEW, MANY)}
        t = best(cases, REPEATS)
        step = {
            name: (t[f"{name} {MANY}"] - t[f"{name} {FEW}"]) / steps
            for name in ("forward", "gradient", "mujoco")
            if f"{name} {FEW}" in t
        }
        notes += [f"{count} boxes: {name} {1e3 * seconds:.3f} ms a step" for name, seconds in step.items()]
        call = t[f"forward {FEW}"] - step["forward"] * (FEW - 1) * SUBSTEPS
        notes.append(f"{count} boxes: a call {1e3 * call:.1f} ms beside its steps; the model {setup:.2f} CPU-s")
        print(*notes[-len(step) - 1 :], sep="\n", flush=True)
        if has_mujoco:
            ratio = step["forward"] / step["mujoco"]
            figures[f"pile_{count}_vs_mujoco"] = figure(ratio, goal=goal, ok=ratio <= goal)
        ratio = t[f"gradient {MANY}"] / t[f"forward {MANY}"]
        figures[f"pile_{count}_gradient_over_forward"] = figure(ratio, goal=4.0, ok=ratio <= 4.0)
        figures[f"pile_{count}_model_cpu_s"] = figure(setup)
    return figures, notes
