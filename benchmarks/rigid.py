"""A cube that slides on the ground: gradsim beside Newton's SolverSemiImplicit and plain PyTorch, in one run.

All move the same cube by the same law with the same step: a linear spring of k_e at each corner, friction
min(μ f_n, k_f u) against the slip u, no damping (Newton's damps only while a corner goes in, ours both ways; without
damping the laws are one). The cube starts at rest depth, slides and turns, and touches the ground all the time.

Times are CPU time of one thread per step, medians of repetitions that take turns. Forward gives the last state; forward
and backward gives the gradient of its sum by the start and all parameters. Gradsim (`Model.rollout`) and PyTorch compute
in float64, Newton has float32 only. Gradsim and PyTorch test all eight corners in each step; Newton gets the four that
touch once, before the clock starts, as in its own differentiable examples. `newton graph` replays a recording of all
steps, `newton eager` launches step by step on a tape, as its users run it. What goes step by step in Python (PyTorch,
`newton eager`) runs a shorter clip.
"""

import gc
import importlib.util
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch_cube import rollout as torch_rollout

from gradsim.app.figures import figure
from gradsim.numerics.rotation import rotate
from gradsim.physics import Model
from gradsim.scene import Scene

SIZE, MASS, STIFFNESS, FRICTION_STIFFNESS, FRICTION = 0.4, 4.0, 5e4, 100.0, 0.2
FRAMES, SUBSTEPS, FPS = 17, 64, 30  # 1024 steps of 1/1920 s, the original's rate
STEPS, SHORT, DT = (FRAMES - 1) * SUBSTEPS, SUBSTEPS, 1 / (FPS * SUBSTEPS)
DEPTH = MASS * 9.81 / (4 * STIFFNESS)  # [m] at rest on four corners
WORLDS = 64
ORIGINAL = {"forward": 1600.0, "forward_backward": 934.0}
"""Steps per CPU second of the original release, one cube in contact on one core (its public code, measured)."""

Cases = dict[str, tuple[int, Callable[[], object]]]
"""What is timed by name: number of steps, and the run."""


def scene(frames: int = FRAMES, substeps: int = SUBSTEPS) -> Scene:
    """The cube on the ground."""
    cube = {
        "shape": {"box": {"size": [SIZE] * 3}},
        "mass": MASS,
        "position": [0, 0, SIZE / 2 - DEPTH],
        "velocity": [3, 0, 0],
        "angular_velocity": [0, 0, 2],
    }
    contact = {"stiffness": STIFFNESS, "friction_stiffness": FRICTION_STIFFNESS, "friction": FRICTION}
    return Scene.parse(
        {
            "gravity": 9.81,
            "timing": {
                "fps": FPS * SUBSTEPS / substeps,
                "frames": frames,
                "substeps": substeps,
                "integrator": "semi-implicit",
            },
            "bodies": {"cube": cube},
            "ground": {"law": "paper", "damping": 0.0, **contact},
        }
    )


def worlds_of(model: Model, worlds: int) -> dict[str, Tensor]:
    """All parameters (worlds, ...); worlds differ by up to 10 % in speed and spin, world 0 is the scene."""
    faster = 1 + 0.1 * torch.arange(worlds, dtype=model.dtype)[:, None] / WORLDS
    values = {name: v.detach().clone() for name, v in model.values({"cube.velocity": faster.expand(-1, 3)}).items()}
    for name in ("cube.velocity", "cube.angular_velocity"):
        values[name] = model.get_parameter(name).detach() * faster
    return values


def contact() -> tuple[float, float]:
    """Share of steps in which the cube of world 0 touches the ground, and how many corners do on average."""
    model = Model(scene(STEPS + 1, 1))
    with torch.no_grad():
        cube = model.rollout()["cube"]
    corners = torch.tensor(model.scene.bodies["cube"].shape.mesh().vertices)
    heights = (cube["x"][0, :-1, None] + rotate(cube["q"][0, :-1, None], corners))[..., 2]
    touching = (heights < 0).sum(1).double()
    return (touching > 0).double().mean().item(), touching.mean().item()


def runs(last: Callable[[dict[str, Tensor]], list[Tensor]], values: dict[str, Tensor], steps: int) -> Cases:
    """Forward, and forward and backward, of a function from parameters to the last state."""

    def forward():
        with torch.no_grad():
            return last(values)

    def forward_backward():
        leaves = {name: v.detach().requires_grad_() for name, v in values.items()}
        torch.stack([y.sum() for y in last(leaves)]).sum().backward()
        return leaves["cube.velocity"].grad

    return {"forward": (steps, forward), "forward_backward": (steps, forward_backward)}


def gradsim_last(model: Model) -> Callable[[dict[str, Tensor]], list[Tensor]]:
    """The last state by gradsim."""
    return lambda values: [y[:, -1] for y in model.rollout(values)["cube"].values()]


def cases(worlds: int) -> Cases:
    """Everything that is timed with this number of worlds."""
    found: Cases = {}
    for name, dtype in (("gradsim", torch.float64), ("gradsim float32", torch.float32)):
        model = Model(scene(), dtype=dtype)
        found |= named(name, runs(gradsim_last(model), worlds_of(model, worlds), STEPS))
    model = Model(scene())
    values = worlds_of(model, worlds)
    corners = torch.tensor(model.scene.bodies["cube"].shape.mesh().vertices)
    found |= named("torch", runs(lambda v: torch_rollout(v, corners, SHORT, DT), values, SHORT))
    if has_newton():
        from newton_cube import NewtonCube

        material = STIFFNESS, FRICTION_STIFFNESS, FRICTION
        found |= named("newton eager", NewtonCube(values, SHORT, DT, SIZE, *material).eager())
        found |= named("newton graph", NewtonCube(values, STEPS, DT, SIZE, *material).graphs())
    return found


def named(prefix: str, some: Cases) -> Cases:
    return {f"{prefix} {kind}": case for kind, case in some.items()}


def has_newton() -> bool:
    """Whether Newton is installed."""
    return importlib.util.find_spec("newton") is not None


def medians(some: Cases, repeats: int) -> dict[str, float]:
    """Median CPU time per step of every case [s]; one round of all warms up, then they take turns.

    The garbage collector runs in between, as in `timeit`: what one case leaves behind is not counted to another.
    """
    times = {name: [] for name in some}
    for k in range(repeats + 1):
        for name, (steps, run) in some.items():
            gc.collect()
            gc.disable()
            begin = time.process_time()
            run()
            spent = time.process_time() - begin
            gc.enable()
            if k:
                times[name].append(spent / steps)
    return {name: statistics.median(t) for name, t in times.items()}


def rigid(repeats: int = 5) -> tuple[dict, list[str]]:
    """Figures, and what a reader of them has to know."""
    share, corners = contact()
    notes = [
        (__doc__ or "").strip(),
        (
            f"{STEPS} steps of {DT:.3g} s ({SHORT} where Python drives each step); "
            f"the cube touches the ground in {share:.0%} of them, with {corners:.2f} corners on average."
        ),
    ]
    # One and many worlds take turns as well, since they are compared with one another.
    every = {f"{name} {n}": case for n in (1, WORLDS) for name, case in cases(n).items()}
    times = medians(every, repeats)
    figures = {"contact_share": figure(share, goal=0.9, ok=share > 0.9), "contact_corners": figure(corners)}
    if has_newton():
        figures |= ratios("vs_newton", "newton graph", times) | ratios("vs_newton_eager", "newton eager", times)
    else:
        notes.append('Newton is not installed, so nothing is compared with it: pip install "gradsim[newton]".')
    figures |= ratios("vs_torch", "torch", times)
    for suffix, kind in (("", "forward_backward"), ("_forward", "forward")):
        per_world = times[f"gradsim {kind} {WORLDS}"] / WORLDS / times[f"gradsim {kind} 1"]
        figures[f"worlds64_per_world{suffix}"] = figure(per_world, goal=0.4)
    for kind, original in ORIGINAL.items():
        rate = 1 / times[f"gradsim {kind} 1"]
        figures[f"steps_per_cpu_second_{kind}"] = figure(rate, paper=original, goal=original, ok=rate > original)
    figures |= {f"us_per_step_{name.replace(' ', '_')}": figure(t * 1e6) for name, t in times.items()}
    return figures, notes


def ratios(name: str, peer: str, times: dict[str, float]) -> dict[str, dict]:
    """The peer's time over gradsim's, each way; the figure of the bare name is the least of them."""
    each = {
        f"{name}_{kind}_{n}": times[f"{peer} {kind} {n}"] / times[f"gradsim {kind} {n}"]
        for n in (1, WORLDS)
        for kind in ORIGINAL
    }
    least = min(each.values())
    return {name: figure(least, goal=1, ok=least > 1)} | {k: figure(v, goal=1, ok=v > 1) for k, v in each.items()}
