"""Search over the unknowns that are more than a prior."""

import numpy as np
import torch
from fit_cases import throw

from gradsim.identification.held_numbers import FreeSpace, search_with_priors_held
from gradsim.identification.observation.base import Masks
from gradsim.identification.priors import priors_of
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.multistart import MultistartConfig, search
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes
from tests.support.tolerances import SOLVED, near

UNKNOWNS = ["cube.velocity.x:-1:3", "gravity.z:-12:-8"]


def problem():
    """A thrown cube whose focal length and mass are known by priors."""
    scene = throw(10, 24)
    focal = float(scene.view().matrices()[0][0, 0])
    priors = {"camera.focal": (focal, 0.01 * focal), "cube.mass": (2.0, 0.1)}
    space, model = Space(scene, UNKNOWNS, priors=priors_of([scene], priors)[0]), Model(scene)
    truth = space.inner(torch.tensor([[1.2, -9.5, focal, 2.0]], dtype=torch.float64))
    view = Silhouettes.of(scene)
    values = model.values(space.values(truth))
    image = Masks(torch.zeros(10, 24, 24), 1.0, view).image(model.rollout_unchecked(values, 10))
    return Problem(model, Masks(image, 0.01, view), space), truth


def test_derivatives_of_the_free_unknowns_are_those_of_all():
    whole, truth = problem()
    part = problem()[0]
    part.space = FreeSpace(whole.space, [0, 1])
    u = truth[:, :2] + 0.01
    cost, A, g = part.linearize(u, whole.frames)
    expected = whole.linearize(part.space.whole(u), whole.frames)
    assert cost.item() == near(expected[0].item(), SOLVED)
    assert A[0].flatten().tolist() == near(expected[1][0, :2, :2].flatten().tolist(), SOLVED)
    assert g[0].tolist() == near(expected[2][0, :2].tolist(), SOLVED)


def test_a_search_starts_and_ends_with_the_others_at_their_means():
    least, truth = problem()
    entries = []
    outcome = search_with_priors_held(
        least, MultistartConfig(starts=4), np.random.default_rng(0), entries.append, None, search
    )
    assert outcome.initial.shape == outcome.final.shape == (4, 4)
    assert (outcome.initial[:, 2:] == truth[0, 2:]).all() and (outcome.best[2:] == truth[0, 2:]).all()
    assert all(len(entry["u"]) == 4 for entry in entries)
    assert (outcome.best - truth[0]).abs().max() < 1e-3
