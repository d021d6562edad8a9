"""Work and precision of the integrators: error of the vertices against CPU time of a rollout, by kind of body.

The old default, semi-implicit Euler, beside the new one: `rk4` for rigid bodies, `nystrom` for springs and `verlet` for other
soft bodies, on scenes of the library, some equal worlds in float64 on one thread. Both take 1 to 8 times the steps that
`substeps: auto` proposes for the old one. The error is the root mean square over the vertices of the surface and all frames of
a clip, against the new default with 64 times these steps. `gain` is the error of the old default over that of the new one at
equal CPU time, that of the dearer of the two with the first number of steps, `gain_fine` at that of the cheaper with the last
(interpolated in logarithms). The CPU time is that of the line through the measured times over the number of steps: a shared
machine is noisy.
"""

import time
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim.app.figures import figure
from gradsim.physics.model import Model
from gradsim.runtime.atomic import atomic_path
from gradsim.scene import Scene

OLD = "semi-implicit"
KINDS = {  # scene, and worlds, so many that their steps cost more than the launch
    "rigid": ("cube", 256),
    "solid": ("beam", 8),
    "solid in contact": ("soft_ball", 8),
    "cloth": ("flag", 8),
    "springs": ("rope", 256),
}
FACTORS, REFERENCE = (1, 2, 4, 8), 64
REPEATS = 3
GAIN = 10.0  # goal of the new default over the old one


def precision(out: Path) -> tuple[dict, list[str]]:
    """Figures, and what a reader of them has to know; the curves are drawn to `precision.png`."""
    figures, notes, curves = {}, [(__doc__ or "").strip()], {}
    for kind, (name, worlds) in KINDS.items():
        scene = Scene.library(name)
        (body,) = scene.bodies
        auto = lambda integrator, scene=scene: _stepped(scene, integrator, "auto")
        new = auto("auto").integrator_of(body)
        steps = Model(auto(OLD)).substeps
        reference = _measure(_stepped(scene, new, REFERENCE * steps), 1, 0)[0]
        curves[kind] = pair = {}
        for integrator in (OLD, new):
            measured = [_measure(_stepped(scene, integrator, factor * steps), worlds, REPEATS) for factor in FACTORS]
            errors = [(x - reference).square().sum(-1).mean().sqrt().item() for x, _ in measured]
            pair[integrator] = np.array([_line([seconds for _, seconds in measured]), errors])
        old, better = pair[OLD], pair[new]
        key = f"precision_{kind.replace(' ', '_')}"
        for where, cost in (("", max(old[0, 0], better[0, 0])), ("_fine", min(old[0, -1], better[0, -1]))):
            at = lambda curve, cost=cost: np.interp(np.log(cost), *np.log(curve))
            gain = np.exp(at(old) - at(better))
            figures[f"{key}_gain{where}"] = figure(float(gain), goal=GAIN, ok=bool(gain >= GAIN))
            notes.append(f"{kind} (`{name}`, {1e3 * cost:.3g} ms): {new} is {gain:.3g} times nearer at equal CPU time.")
        for integrator, (seconds, errors) in pair.items():
            figures[f"{key}_{integrator}_error_m"] = figure(float(errors[0]))
            figures[f"{key}_{integrator}_cpu_seconds"] = figure(float(seconds[0]))
            order = np.log2(errors[:-1] / errors[1:])[:3].mean()
            figures[f"{key}_{integrator}_order"] = figure(float(order))
    _draw(curves, out / "precision.png")
    return figures, notes


def _stepped(scene: Scene, integrator: str, substeps: int | str) -> Scene:
    timing = scene.timing.model_copy(update={"integrator": integrator, "substeps": substeps})
    return scene.model_copy(update={"timing": timing})


def _measure(scene: Scene, worlds: int, repeats: int) -> tuple[torch.Tensor, float]:
    """Vertices of the surface in all frames, and CPU time of a rollout of one world [s], the least of some."""
    model, frames, seconds = Model(scene), scene.timing.frames, [np.inf]
    trajectory = model.rollout_unchecked(model.values(), frames)
    values = model.values({"gravity": model.get_parameter("gravity").detach().repeat(worlds, 1)})
    for _ in range(repeats):
        start = time.process_time()
        model.rollout_unchecked(values, frames)
        seconds.append((time.process_time() - start) / worlds)
    return trajectory.surface.vertices[0].detach(), min(seconds)


def _line(seconds: list[float]) -> np.ndarray:
    """Line over `FACTORS` that is nearest to these times, relatively."""
    return np.polyval(np.polyfit(FACTORS, seconds, 1, w=1 / np.array(seconds)), FACTORS)


def _draw(curves: dict[str, dict[str, np.ndarray]], path: Path) -> None:
    drawing = Figure((3.2 * len(curves), 3.0), layout="constrained")
    for ax, (kind, pair) in zip(drawing.subplots(1, len(curves)), curves.items(), strict=True):
        for integrator, (seconds, errors) in pair.items():
            ax.loglog(1e3 * seconds, errors, "o-", label=integrator)
        ax.set_title(kind)
        ax.set_xlabel("CPU time of a rollout [ms]")
        ax.legend(fontsize=7)
    drawing.axes[0].set_ylabel("error of vertices [m]")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as draft:
        drawing.savefig(draft, format="png", dpi=120)
