"""What `pile.py` and `links.py` time: steps and calls of a model of rigid bodies, and MuJoCo's steps from the same start."""

import importlib.util
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from clock import best

from gradsim.app.figures import figure
from gradsim.physics.model import Model
from gradsim.scene import Scene

FPS, SUBSTEPS = 60, 20
FEW = 2  # frames of the short rollout
DT = 1 / (FPS * SUBSTEPS)
REPEATS = 3


def mujoco_is_there(notes: list[str]) -> bool:
    """Whether MuJoCo is installed; else a line says so."""
    if importlib.util.find_spec("mujoco") is not None:
        return True
    notes.append('MuJoCo is not installed, so nothing is compared with it: pip install "gradsim[engines]".')
    return False


def mujoco_run(xml: str, steps: int) -> Callable[[], None]:
    """Steps of MuJoCo's model from its start."""
    mujoco: Any = importlib.import_module("mujoco")
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)

    def run():
        mujoco.mj_resetData(model, data)
        mujoco.mj_step(model, data, steps)

    return run


def of_each_size(
    doc: str | None, name: str, goals: Mapping[int, float], scene: Callable[[int], Scene], xml: Callable[[int], str],
    ends: Callable[[int], tuple[str, str]],
) -> tuple[dict, list[str]]:  # fmt: skip
    """Figures of all sizes, and what a reader of them has to know.

    Args:
        doc: Begins the notes.
        name: Begins the figures, before the size.
        goals: Largest ratio of the times of a step by size.
        scene, xml: What moves, and the same for MuJoCo.
        ends: Bodies whose mass the gradient is by, and whose place it is of.
    """
    notes, figures = [(doc or "").strip()], {}
    has_mujoco = mujoco_is_there(notes)
    for size, goal in goals.items():
        first, last = ends(size)
        more, lines = compared(
            f"{name}_{size}", scene(size), f"{first}.mass", last, xml(size) if has_mujoco else None, goal
        )
        figures |= more
        notes += lines
    return figures, notes


def compared(name: str, scene: Scene, mass: str, last: str, xml: str | None, goal: float) -> tuple[dict, list[str]]:
    """Figures `<name>_vs_mujoco`, `_gradient_over_forward`, `_call_ms` and `_model_cpu_s`, with a line of each time.

    Args:
        name: Begins the figures.
        scene: What moves, in frames of `FPS` with `SUBSTEPS`; all of them are the long rollout.
        mass: Parameter of the gradient.
        last: Body whose place the gradient is of.
        xml: The same for MuJoCo, with steps of `DT`; None: it is not installed.
        goal: Largest ratio of the times of a step.
    """
    many = scene.timing.frames
    begin = time.process_time()
    model = Model(scene)
    setup = time.process_time() - begin
    value = model.get_parameter(mass).detach()[None]

    def forward(frames: int):
        with torch.no_grad():
            return model.rollout(frames=frames)

    def gradient(frames: int):
        leaf = value.clone().requires_grad_()
        model.rollout({mass: leaf}, frames=frames)[last]["x"][:, -1].sum().backward()
        return leaf.grad

    runs = {f"{f.__name__} {n}": lambda f=f, n=n: f(n) for f in (forward, gradient) for n in (FEW, many)}
    if xml:
        runs |= {f"mujoco {n}": mujoco_run(xml, (n - 1) * SUBSTEPS) for n in (FEW, many)}
    t = best(runs, REPEATS)
    per_step = lambda kind: (t[f"{kind} {many}"] - t[f"{kind} {FEW}"]) / ((many - FEW) * SUBSTEPS)
    step = {kind: per_step(kind) for kind in ("forward", "gradient", *(["mujoco"] if xml else []))}
    call = t[f"forward {FEW}"] - step["forward"] * (FEW - 1) * SUBSTEPS
    ratio = t[f"gradient {many}"] / t[f"forward {many}"]
    figures = {
        f"{name}_gradient_over_forward": figure(ratio, goal=4.0, ok=ratio <= 4.0),
        f"{name}_call_ms": figure(1e3 * call),
        f"{name}_model_cpu_s": figure(setup),
    }
    if xml:
        figures[f"{name}_vs_mujoco"] = figure(step["forward"] / step["mujoco"], goal=goal)
    notes = [f"{name}: {kind} {1e6 * seconds:.1f} µs a step" for kind, seconds in step.items()]
    notes.append(f"{name}: a call {1e3 * call:.1f} ms beside its steps; the model {setup:.2f} CPU-s")
    print(*notes, sep="\n", flush=True)
    return figures, notes
