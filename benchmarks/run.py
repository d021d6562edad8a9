"""Speed, as ratios of CPU time measured side by side in one run: `python benchmarks/run.py NAME|all --out DIR`."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from gradsim.experiments import synthetic
from gradsim.experiments.demo import UNKNOWNS
from gradsim.experiments.figures import figure, write_result
from gradsim.identify.estimate import least_squares, model_for
from gradsim.identify.unknowns import Space
from gradsim.physics import hunt_crossley
from gradsim.physics.contact import definition as friction_definition
from gradsim.physics.rigid import RigidRollout
from gradsim.rotation import conjugate, exponential, multiply, rotate
from gradsim.scene import Scene

ORIGINAL = {"forward": 1600.0, "forward_backward": 934.0}
"""Steps per CPU second of the original release, one cube in contact on one core (its public code, measured)."""


def best(run: Callable[[], object], repeats: int = 5) -> float:
    """Least CPU time of a call [s]."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        run()
        times.append(time.process_time() - begin)
    return min(times)


def torch_rollout(inputs: list[torch.Tensor], steps: int, dt: float) -> list[torch.Tensor]:
    """The same physics step by step in plain PyTorch: what a user would write without an engine."""
    x, q, v, l, mass, inverse, gravity, points, radius, normal, height, ke, a, kf, mu, *_ = inputs
    for _ in range(steps):
        spin = rotate(q, (inverse @ rotate(conjugate(q), l)[..., None])[..., 0])
        arm = rotate(q[:, None], points) - normal * radius[..., None]
        u = v[:, None] + torch.linalg.cross(spin[:, None].expand_as(arm), arm)
        gap = ((x[:, None] + arm) * normal).sum(-1) - height
        force = friction_definition(
            u, normal.expand_as(u), hunt_crossley.definition(gap, (u * normal).sum(-1), ke, a), kf, mu
        )
        v = v + dt * (force.sum(1) / mass[:, None] + gravity)
        l = l + dt * torch.linalg.cross(arm, force).sum(1)
        spin = rotate(q, (inverse @ rotate(conjugate(q), l)[..., None])[..., 0])
        q = multiply(exponential(spin * dt), q)
        x = x + dt * v
    return [x, q, v, l]


def rigid() -> dict:
    """A cube in contact: 64 worlds, float64, one thread, against PyTorch step by step and the original's figures."""
    scene = Scene.library("cube")
    model = model_for(scene, Space(scene, UNKNOWNS))
    (system,) = model.systems
    worlds, frames, substeps = 64, 16, 64
    values = {name: v.detach().expand(worlds, *v.shape[1:]) for name, v in model.values().items()}
    inputs = [x.detach().contiguous() for x in system.inputs(values)]
    inputs[-2], inputs[-1] = inputs[-2][:, :0], inputs[-1][:, :0]  # no push
    wide, narrow = (RigidRollout(frames, substeps, model.dt, width=w) for w in (None, 1))
    steps = (frames - 1) * substeps * worlds
    outputs = wide.forward(inputs)
    few, peer_steps = [x[:1] for x in inputs], 50
    leaves = [x.clone().requires_grad_() for x in few]
    forward = best(lambda: wide.forward(inputs)) / steps
    backward = best(lambda: wide.backward(inputs, outputs, outputs)) / steps
    scalar = best(lambda: narrow.forward(inputs)) / steps
    batch_peer = best(lambda: torch_rollout(inputs, peer_steps, model.dt), 3) / (peer_steps * worlds)
    lone_peer = best(lambda: torch_rollout(few, peer_steps, model.dt), 3) / peer_steps
    lone_both = best(lambda: torch_rollout(leaves, peer_steps, model.dt)[0].sum().backward(), 3) / peer_steps
    both = forward + backward
    return {
        "us_per_world_step_forward": figure(forward * 1e6),
        "us_per_world_step_forward_backward": figure(both * 1e6),
        "speedup_of_packs_over_width_1": figure(scalar / forward, goal=1, ok=scalar > forward),
        "speedup_over_torch_64_worlds_forward": figure(batch_peer / forward, goal=1, ok=batch_peer > forward),
        "speedup_over_torch_1_world_forward": figure(lone_peer / forward, goal=100, ok=lone_peer > 100 * forward),
        "speedup_over_torch_1_world_forward_backward": figure(lone_both / both, goal=100, ok=lone_both > 100 * both),
        "steps_per_cpu_second_forward": figure(
            1 / forward, paper=ORIGINAL["forward"], goal=1600, ok=forward < 1 / 1600
        ),
        "steps_per_cpu_second_forward_backward": figure(
            1 / both, paper=ORIGINAL["forward_backward"], goal=934, ok=both < 1 / 934
        ),
    }


def identify() -> dict:
    """The demo's fit to float frames: what it costs and how near it comes."""
    scene = Scene.library("cube")
    truth = synthetic.draw_truth(scene, UNKNOWNS, 0)
    model, trajectory = synthetic.simulate(scene, UNKNOWNS, truth)
    fit = least_squares(scene, synthetic.float_masks(scene, trajectory), UNKNOWNS, model=model).against(truth)
    return {
        "fit_cpu_seconds": figure(fit.cpu_seconds),
        "fit_rollouts": figure(fit.rollouts),
        "fit_worst_relative_error": figure(synthetic.worst_relative_error(fit), paper=2.87e-4, goal=1e-6),
    }


CASES = {"rigid": rigid, "identify": identify}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*CASES, "all"])
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    figures = {}
    for name in CASES if given.name == "all" else [given.name]:
        print(f"{name} …", flush=True)
        figures |= CASES[name]()
    write_result(given.out, f"benchmarks {given.name}", {}, figures)
    for name, f in figures.items():
        print(f"{name:<48} {f['value']:.4g}" + (f"   original or paper {f['paper']:g}" if f["paper"] else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
