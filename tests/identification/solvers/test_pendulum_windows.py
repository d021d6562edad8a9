"""Multiple shooting of pendula: windows that begin with angles and rates."""

import numpy as np
import pytest
import torch
from checks import error

import gradsim as gs
from gradsim.identification.api import identify
from gradsim.identification.long_clip import MultipleShooting
from gradsim.identification.observation.labelled_masks import LabelledMasks
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.multiple_shooting import ShootingProblem
from gradsim.identification.unknowns import Space
from gradsim.render.silhouettes import Silhouettes

FRAMES = 25
UNKNOWNS = ("arms.first_length:0.4:0.6", "arms.second_mass:0.4:1.2", "arms.second_angle:0.4:2", "arms.first_rate:-1:1")


def shares(scene: gs.Scene, trajectory: gs.Trajectory) -> LabelledMasks:
    """Exact shares of every part, each of its own color, without noise."""
    silhouettes, names = Silhouettes.of(scene), [[part.name] for part in trajectory.parts]
    exact = silhouettes.shares(trajectory.surface, trajectory.values)[0].detach()
    return LabelledMasks(exact, [1 / 255] * len(names), names, silhouettes, noisy=False)


@pytest.fixture(scope="module")
def problem():
    """A double and a simple pendulum in one film of three colours."""
    content = gs.Scene.library("double_pendulum").model_dump()
    content["timing"]["frames"], content["camera"]["size"] = FRAMES, [40, 40]
    bob = {"kind": "pendulum", "pivot": [0, 0.5, 0.9], "string_length": 0.6, "radius": 0.1, "angle": 1.0, "rate": 0.5}
    content["bodies"]["bob"] = {**bob, "colour": [0.3, 0.8, 0.4]}
    scene = gs.Scene.parse(content)
    model = gs.Model(scene)
    return Problem(model, shares(scene, model.rollout()), Space(scene, [*UNKNOWNS, "bob.string_length:0.4:0.8"]))


def truth(problem):
    return problem.space.inner(torch.tensor([[0.5, 0.7, 1.2, 0.0, 0.6]], dtype=torch.float64))


def true_nodes(problem, cut):
    motion = problem.model.rollout_unchecked(problem.model.values(problem.space.values(truth(problem))), FRAMES)
    firsts = [first for first, _ in cut.windows.spans(FRAMES)][1:]
    return torch.stack([cut.windows.end(motion, first) for first in firsts], 1)


def test_windows_that_begin_on_the_motion_are_the_motion(problem):
    cut = ShootingProblem(problem, 8)
    assert cut.windows.size == 4 + 2
    segments = cut.at(truth(problem), true_nodes(problem, cut), 1.0, FRAMES)
    assert segments.gaps.abs().max() < 1e-10 and segments.data.item() < 1e-12
    off = cut.at(truth(problem) + 0.01, true_nodes(problem, cut), 1.0, FRAMES)
    assert off.gaps.abs().max() > 1e-3 and off.data.item() > 1


def test_derivatives_are_those_of_the_cost(problem):
    cut, generator = ShootingProblem(problem, 8), torch.Generator().manual_seed(1)
    normal = lambda like: torch.randn(like.shape, generator=generator).double()
    nodes = true_nodes(problem, cut)
    u, nodes = truth(problem) + 0.01, nodes + 1e-2 * normal(nodes) * cut.windows.scale
    along = 0.1 * normal(u), 0.1 * normal(nodes) * cut.windows.scale
    _, g = cut.normal(cut.at(u, nodes, 50.0, FRAMES), 50.0, FRAMES)
    slope = 2 * (g * torch.cat([along[0], along[1].flatten(1)], 1)).sum(1)
    ends = [cut.at(u + s * 1e-6 * along[0], nodes + s * 1e-6 * along[1], 50.0, FRAMES).cost for s in (1, -1)]
    assert error(slope, (ends[0] - ends[1]) / 2e-6) < 1e-5


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_video_is_solved_by_windows_and_one_shot():
    scene = gs.Scene.library("double_pendulum")
    content = scene.model_dump()
    content["timing"]["frames"], content["camera"]["size"] = 61, [48, 48]
    scene = gs.Scene.parse(content)
    observation = shares(scene, gs.Model(scene).rollout())
    fit = identify(scene, UNKNOWNS, observation=observation, starts=4, shooting=MultipleShooting(window=15))
    assert fit.shooting["answer"] == "one shot" and set(fit.shooting["largest_jump"]) == {"angle", "angular_velocity"}
    np.testing.assert_allclose([fit.values[n.split(":")[0]] for n in UNKNOWNS], [0.5, 0.7, 1.2, 0.0], atol=1e-6)
