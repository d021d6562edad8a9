"""Clips of a made-up cube, thrown and sliding, for the tests of `identify.clips` and `identify.clip_verdict`."""

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from gradsim.identification.solvers.clip_ensemble import ClipsProblem, PoseClip
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.scene import Scene

TRUTH = {
    "cube.mass": 0.4,
    "ground.stiffness": 4e3,
    "ground.dissipation": 0.5,
    "ground.friction_stiffness": 8.0,
    "ground.friction": 0.3,
    "gravity.z": -9.5,
}
RANGES = {
    "cube.mass": "0.1:2",
    "ground.stiffness": "1e3:2e4",
    "ground.dissipation": "0.1:2",
    "ground.friction_stiffness": "2:30",
    "ground.friction": "0.05:1",
    "gravity.z": "-15:-5",
}
FRAMES = 12
SIGMA_X, SIGMA_ANGLE = 1e-4, 1e-3


def model(frames: int = FRAMES) -> Model:
    """A 10 cm cube with the true values above a table, at 100 frames a second."""
    cube = {"shape": {"box": {"size": [0.1, 0.1, 0.1]}}, "mass": TRUTH["cube.mass"], "position": [0, 0, 0.2]}
    ground = {name.removeprefix("ground."): y for name, y in TRUTH.items() if name.startswith("ground.")}
    content = {"gravity": [0, 0, TRUTH["gravity.z"]], "timing": {"fps": 100, "frames": frames}}
    return Model(Scene.parse({**content, "bodies": {"cube": cube}, "ground": ground}), substeps=40)


@cache
def tosses(count: int = 3, frames: int = 45) -> tuple[Tensor, Tensor]:
    """Positions (tosses, frames, 3) and orientations (tosses, frames, 4) of tumbling tosses that end in sliding."""
    generator = torch.Generator().manual_seed(5)
    normal = lambda size: size * torch.randn(count, 3, generator=generator).double()
    given = {
        "cube.position": torch.tensor([0.0, 0.0, 0.16]).double() + normal(0.01),
        "cube.rotation_vector": normal(0.5),
        "cube.velocity": torch.tensor([1.0, 0.2, 0.0]).double() + normal(0.2),
        "cube.angular_velocity": normal(3.0),
    }
    with torch.no_grad():
        states = model().rollout(given, frames)["cube"]
    return states["x"], states["q"]


def cut(x: Tensor, q: Tensor, frames: int = FRAMES) -> list[PoseClip]:
    """Clips of tosses, one recording each."""
    clips = []
    for k in range(len(x)):
        for first in range(0, x.shape[1] - frames + 1, frames - 1):
            part = slice(first, first + frames)
            sigmas = torch.full((frames, 3), SIGMA_X), torch.full((frames, 3), SIGMA_ANGLE)
            clips.append(PoseClip(x[k, part], q[k, part], *sigmas, recording=f"toss {k}", first=first))
    return clips


def problem(clips: Sequence[PoseClip], *names: str) -> ClipsProblem:
    """The fit of these unknowns, NAME or NAME:LOW:HIGH; the others have their true values."""
    own = model(len(clips[0].x))
    unknowns = [name if ":" in name else f"{name}:{RANGES[name]}" for name in names]
    return ClipsProblem(own, "cube", clips, Space(own.scene, unknowns))


def truth(problem: ClipsProblem) -> Tensor:
    """The true unknowns (1, unknowns)."""
    return problem.space.inner(torch.tensor([[TRUTH[name] for name in problem.space.names]]).double())
