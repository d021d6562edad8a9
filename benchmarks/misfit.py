"""The sum of squares over masks, its gradient and matrix by the unknowns, per pixel that an outline crosses.

Sixteen worlds of a turning cube in 24 frames, against noisy masks of the first of them; the cube is a third of the picture high at every size.
CPU time of one thread, the least of repetitions, in float64, with what the call does in Python.
"""

import math

import numpy as np
import torch
from clock import best
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.geometry import mesh as meshes
from gradsim.numerics import rotation
from gradsim.render.coverage.coverage import coverage
from gradsim.render.coverage.objective import objective
from gradsim.render.coverage.targets import target

SIZES = {"64": (64, 64), "256": (256, 256), "vga": (480, 640)}
WORLDS, FRAMES, UNKNOWNS = 16, 24, (1, 4)
ACROSS, SCATTER = 0.33, 0.02  # edge of the cube, and scatter of its places over worlds, over the height of the picture
SIGMA = 0.01
GOAL = 15.0  # [ns]


def cubes(mesh, height: int, width: int) -> Tensor:
    """Vertices on the screen (worlds, frames, n, 2) [px]: a turn in the frames, places that differ between worlds."""
    generator = torch.Generator().manual_seed(0)
    angle = torch.linspace(0, math.tau / 4, FRAMES, dtype=torch.float64)
    turn = rotation.exponential(angle[:, None] * torch.tensor([0.6, 0.7, 0.3], dtype=torch.float64))
    x = rotation.rotate(turn[:, None], torch.tensor(mesh.vertices, dtype=torch.float64))[..., :2]
    away = torch.randn(WORLDS, 1, 1, 2, generator=generator, dtype=torch.float64) * SCATTER
    return (x / np.ptp(mesh.vertices, 0).max() * ACROSS + away) * height + torch.tensor([width, height]) / 2


def misfit() -> tuple[dict, list[str]]:
    """Figures, and what a reader of them has to know."""
    notes, figures = [(__doc__ or "").strip()], {}
    mesh = meshes.box((1.0, 0.8, 0.6))
    faces, generator = torch.tensor(mesh.faces), torch.Generator().manual_seed(1)
    for name, (height, width) in SIZES.items():
        screen = cubes(mesh, height, width)
        image = coverage(screen, faces, height, width)
        crossed = int(((image > 0) & (image < 1)).sum())
        noise = torch.randn(image[0].shape, generator=generator, dtype=torch.float64)
        observed = target(image[0] + SIGMA * noise, torch.full_like(image[0], SIGMA**-2))
        del image
        for unknowns in UNKNOWNS:
            tangent = torch.randn(WORLDS, unknowns, *screen.shape[1:], generator=generator, dtype=torch.float64)
            seconds = best({"misfit": lambda t=tangent, s=screen, o=observed: objective(s, t, faces, o, True)})[
                "misfit"
            ]
            figures[f"misfit_ns_{name}_{unknowns}"] = figure(1e9 * seconds / crossed, goal=GOAL)
            notes.append(f"{name}, {unknowns} unknowns: {1e3 * seconds:.2f} ms, {crossed} pixels of outlines")
            print(notes[-1], flush=True)
    return figures, notes
