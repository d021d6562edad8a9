"""Small problems with whole arrays of unknowns for the tests of `identify`: a beam of tetrahedra that swings and touches."""

import soft_cases
import torch
from torch import Tensor

from gradsim.identification.fields.fields import Field, FieldSpace
from gradsim.identification.fields.problem import FieldProblem
from gradsim.identification.observation.vertices import Vertices
from gradsim.identification.synthetic import own_steps
from gradsim.physics.model import Model

MASS = Field("beam.vertex_mass_factor")
VELOCITY = Field("beam.vertex_velocity", scale=0.5)
NAMES = {"mass": MASS, "velocity": VELOCITY}


def tracked(*fields: Field, frames: int = 6, sigma: float = 1e-3, seed: int = 0) -> tuple[FieldProblem, Tensor]:
    """Every vertex of the beam seen without noise at each frame, and the truth: u of the scene and about 30 % from it."""
    model = Model(own_steps(soft_cases.solid()))
    space = FieldSpace(model, fields)
    truth = space.start() + 0.3 * torch.randn(len(space), generator=torch.manual_seed(seed), dtype=torch.float64)
    with torch.no_grad():
        seen = model.rollout(space.values(truth[None]), frames)["beam"]["x"][0]
    return FieldProblem(model, Vertices("beam", seen, sigma), space), truth
