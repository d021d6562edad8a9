"""The gear of the paper's control task: what one iteration costs, forward and backward through 5760 steps.

1152 tetrahedra roll over the ground for 3 s at 1920 steps a second, by the numbers of the original; the loss is the mean of
the last positions, and gradients are by the activation and moduli of each tetrahedron, by start, masses and contact. All
of it goes through PyTorch's operation in float32, with a checkpoint at each of 90 frames. The original's figures are those
of its public code, measured: an iteration of its physics, without pictures.

A `Model` refuses this step: the lightest vertices are too light for friction of 10 N s/m. It does not blow up here, since
the ground slows the few that slide.
"""

import resource

import numpy as np
import torch
from clock import best, memory
from rollouts import Rollout

from gradsim.app.figures import figure
from gradsim.geometry.tet_grid import gear as gear_of_tets
from gradsim.physics.contact.vertex_plane import touch
from gradsim.physics.forces import neo_hookean
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft.rollout import Particles

FRAMES, SUBSTEPS, DT = 91, 64, 1 / 1920
DENSITY, MU, LAM, DAMPING = 1.0, 1000.0, 1000.0, 1.0  # [kg/m³], [Pa], [Pa], [Pa s]
GROUND = [1e4, 1.0, 10.0, 0.5]  # stiffness, damping, friction stiffness, friction
START, VELOCITY, GRAVITY = (-4.0, 0.0, 2.0), (1.5, 0.0, 0.0), (0.0, 0.0, -9.8)
ORIGINAL = {"cpu_seconds": 7.2, "mb": 812.0}


def iteration(frames: int = FRAMES) -> Rollout:
    """Forward and backward of the gear on edge."""
    mesh = gear_of_tets()
    shape = mesh.vertices[:, [0, 2, 1]] * (1, -1, 1)  # its axis along y
    share = np.bincount(mesh.tets.ravel(), np.repeat(mesh.volumes / 4, 4))
    vertices, tets = torch.tensor(shape), torch.tensor(mesh.tets)
    groups = (
        Elements(neo_hookean.FORCE, tets, neo_hookean.rest_shape(vertices, tets)),
        Elements(touch("paper"), torch.arange(len(shape))[:, None]),
    )
    each = lambda value: np.full(len(mesh.tets), value)
    activation = 0.01 * np.random.default_rng(0).standard_normal(len(mesh.tets))
    given = [shape + START, np.tile(VELOCITY, (len(shape), 1)), 1 / (DENSITY * share), GRAVITY]
    given += [
        each(MU),
        each(LAM),
        each(DAMPING),
        activation,
        [[0.0, 0.0, 1.0]],
        [0.0],
        *([number] for number in GROUND),
    ]
    inputs = [torch.tensor(np.asarray(value), dtype=torch.float32)[None] for value in given]
    weights = torch.full((len(shape), 3), 1 / len(shape))
    return Rollout(Particles(groups, frames, SUBSTEPS, DT), [*inputs, torch.zeros(1, 0)], weights)


def gear() -> tuple[dict, list[str]]:
    """CPU time and memory of an iteration."""
    run = iteration().run
    seconds = best({"run": run}, 3)["run"]
    figures = {
        "cpu_seconds_per_iteration": figure(seconds, paper=ORIGINAL["cpu_seconds"], goal=ORIGINAL["cpu_seconds"]),
        "peak_mb": figure(memory(run), paper=ORIGINAL["mb"], goal=ORIGINAL["mb"]),
        "process_mb": figure(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
    }
    return figures, [(__doc__ or "").strip(), "peak_mb: tensors alone; process_mb: the process with all its libraries."]
