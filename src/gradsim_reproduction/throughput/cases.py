"""Cases of Table 4 (right): a soft box on the ground and its images, forward and backward, by the public API.

    dp_forward       a rollout, nothing kept for gradients
    dp_backward      the backward pass alone: gradients of the last place by μ and λ of each tetrahedron, by all start
                     velocities and by friction; the states between two frames are computed again in it
    dr_forward       images of the surface, 64 × 64 pixels, SoftRas with colours; dr_forward_aa the same by exact coverage
    dpdr_backward    the backward pass alone of a rollout of which every step is drawn, and compared

Steps are 0.25 ms; a frame has 32 of them, and one where every step is drawn. All in float32. A rate is steps a second of one
world; of several worlds at once, their steps together.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from gradsim.geometry.surface import Surface
from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory
from gradsim.render.renderer import Renderer
from gradsim.scene import Scene
from gradsim_reproduction.timing import Case, best

CELLS = {  # of five tetrahedra each, by their number
    100: (5, 2, 2),
    200: (5, 4, 2),
    400: (5, 4, 4),
    1000: (5, 5, 8),
    2000: (10, 5, 8),
    5000: (10, 10, 10),
    10000: (10, 10, 20),
}
CELL = 0.1  # [m]
RATE, SUBSTEPS = 4000, 32  # steps a second; of a frame
WORK = 2_000_000  # tetrahedra times steps of a case: some hundredths of a second
LONGEST = 60  # frames, where that would be more
IMAGES = {100: 16, 10000: 8}  # images of a case, by the least number of tetrahedra


def box(tets: int, frames: int, substeps: int) -> Scene:
    """A box of cubes of 0.1 m that slides over the ground."""
    size = [CELL * n for n in CELLS[tets]]
    top, away = size[2] / 2, max(size) + 1.5
    look = {"eye": [away / 2, -away, away / 2 + top], "target": [0, 0, top], "fov": "45 deg"}
    body = {
        "kind": "solid",
        "shape": {"box": {"size": size, "cells": list(CELLS[tets])}},
        "mu": 7700,
        "lam": 11500,
        "density": 100,
        "damping": 2,
        "velocity": [1, 0, -0.5],
        "position": [0, 0, top + 1e-3],
        "colour": [0.16, 0.28, 0.62],
    }
    content = {
        "name": f"box of {tets} tetrahedra",
        "gravity": 9.81,
        "timing": {"fps": RATE / substeps, "frames": frames, "substeps": substeps, "integrator": "semi-implicit"},
        "bodies": {"box": body},
        "ground": {"law": "paper", "stiffness": 1e3, "damping": 1, "friction_stiffness": 5, "friction": 0.5},
        "camera": {"size": [64, 64], "look_at": look},
    }
    return Scene.parse(content)


class Rollout:
    """A box in equal worlds.

    Args:
        tets: A key of `CELLS`.
        frames, substeps: Its length.
        worlds: How many.
        device: Device of PyTorch.
    """

    def __init__(self, tets: int, frames: int, substeps: int, worlds: int, device: str):
        self.scene = box(tets, frames, substeps)
        self.model, self.steps = Model(self.scene, dtype=torch.float32, device=device), (frames - 1) * substeps
        self.worlds, values = worlds, self.model.values()
        self.given = {
            "box.mu": values["box.mu"].expand(worlds, tets),
            "box.lam": values["box.lam"].expand(worlds, tets),
            "box.velocity": values["box.velocity"].expand(worlds, 3),
            "ground.friction": values["ground.friction"].expand(worlds),
        }
        self.leaves = {name: value.detach().clone().requires_grad_() for name, value in self.given.items()}

    @torch.no_grad()
    def forward(self) -> Trajectory:
        return self.model.rollout(self.given)

    def backward(self, loss: Callable[[Trajectory], Tensor]) -> Callable[[], tuple[Tensor, ...]]:
        """The backward pass of a rollout that has been made, alone."""
        value, leaves = loss(self.model.rollout(self.leaves)), list(self.leaves.values())
        return lambda: torch.autograd.grad(value, leaves, retain_graph=True)


def last_place(trajectory: Trajectory) -> Tensor:
    """A loss of the last state."""
    return trajectory["box"]["x"][:, -1].square().sum()


def rates(tets: int, worlds: int = 1, device: str = "cpu", repeats: int = 5, work: int = WORK) -> dict[str, float]:
    """Steps, or images, a second of every case; of several worlds, physics alone.

    CPU time on a CPU, where one thread works; else the time on the wall until the device is idle.
    """
    frames = 1 + min(LONGEST, max(2, round(work / (tets * worlds * SUBSTEPS))))
    rollout = Rollout(tets, frames, SUBSTEPS, worlds, device)
    steps = rollout.steps * worlds
    cases: dict[str, Case] = {"dp_forward": rollout.forward, "dp_backward": rollout.backward(last_place)}
    counts = {"dp_forward": steps, "dp_backward": steps}
    if worlds == 1:
        image_cases, image_counts = _images(tets, device)
        cases, counts = cases | image_cases, counts | image_counts
    spent = best(cases, repeats, time.process_time if device == "cpu" else idle)
    return {name: counts[name] / seconds for name, seconds in spent.items()}


def _images(tets: int, device: str) -> tuple[dict[str, Case], dict[str, int]]:
    """Cases that draw, and how many images, each of them of one step."""
    count = IMAGES[max(n for n in IMAGES if n <= tets)]
    rollout = Rollout(tets, count + 1, 1, 1, device)
    soft, exact = (Renderer.of(rollout.scene, name) for name in ("softras", "aa"))
    whole = rollout.forward().surface
    surface = Surface(whole.vertices[:, 1:], whole.parts)

    def compared(trajectory: Trajectory) -> Tensor:
        surface_of_all = trajectory.surface
        return soft(Surface(surface_of_all.vertices[:, 1:], surface_of_all.parts)).square().sum()

    def forward(render: Renderer) -> Case:
        def draw():
            with torch.no_grad():
                return render(surface)

        return draw

    cases = {"dr_forward": forward(soft), "dr_forward_aa": forward(exact), "dpdr_backward": rollout.backward(compared)}
    return cases, dict.fromkeys(cases, count)


def idle() -> float:
    """Time after all work of the GPU is done [s]."""
    torch.cuda.synchronize()
    return time.perf_counter()


def gpu() -> str | None:
    """Why nothing is timed on a GPU; None where it can be."""
    import warp

    if not torch.cuda.is_available():
        return "PyTorch sees no GPU"
    return None if warp.is_cuda_available() else "Warp sees no GPU"
