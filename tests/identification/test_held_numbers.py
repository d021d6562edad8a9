"""Search over the unknowns that are more than a prior."""

import numpy as np
import pytest
import torch
from fit_cases import throw
from tolerances import SOLVED, near

from gradsim.identification import verdict
from gradsim.identification.held_numbers import FreeSpace, drawn_indices, search_with_priors_held, with_priors_held
from gradsim.identification.observation.base import Masks
from gradsim.identification.priors import priors_of
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.de_mcmc import Samples
from gradsim.identification.solvers.multistart import MultistartConfig, Outcome, search
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes

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


def test_samples_are_of_the_free_unknowns_about_an_answer(monkeypatch):
    """Numbers that only a prior makes unknown stay at the answer; the cloud has the size of two unknowns."""
    whole, truth = problem()
    u = truth[0] + torch.tensor([0.0, 0.0, 0.002, 0.03])
    part = with_priors_held(whole, u)
    assert drawn_indices(whole.space) == [0, 1] and len(part.space) == 2
    assert (part.space.whole(u[:2]) == u).all()
    draws = u[:2] + 1e-3 * torch.tensor(np.random.default_rng(0).standard_normal((200, 2)))
    asked = []

    def explored(problem, at, information, discretization, seed, outcome, columns):
        assert outcome.final.shape[1] == 4 and columns == [0, 1]
        asked.append((len(problem.space), at, information.shape))
        return Samples(draws, at, problem.cost(at[None], problem.frames).item() - 1.0, 0.5), ["note"]

    monkeypatch.setattr(verdict, "_explored", explored)
    fisher = whole.linearize(u[None], whole.frames)[1][0]
    samples, lower, value, notes = verdict._sampled_with_priors_held(
        whole, u, fisher, None, 0, Outcome.of(whole, u[None], u[None], 0)
    )
    assert asked[0][0] == 2 and (asked[0][1] == u[:2]).all() and asked[0][2] == (2, 2)
    assert (samples.u[:, :2] == draws).all() and (samples.u[:, 2:] == u[2:]).all() and notes == ["note"]
    assert lower is not None and (lower == u).all() and (value[2:] == u[2:]).all()
    assert (value[:2] - draws.mean(0)).abs().max() < 3e-4


def test_a_posterior_without_principal_axes_is_that_of_the_curvature_and_not_agreed(monkeypatch):
    least, truth = problem()

    def fails(*_):
        raise torch.linalg.LinAlgError("eigh: failed to converge")  # pyright: ignore[reportPrivateImportUsage]

    monkeypatch.setattr(verdict, "posterior", fails)
    information = least.linearize(truth, least.frames)[1][0]
    samples, notes = verdict._explored(least, truth[0], information, None, 0, Outcome.of(least, truth, truth, 0))
    assert not samples.agreed and "could not be sampled" in notes[0]
    expected = torch.linalg.inv(information).diagonal().sqrt()
    assert (samples.u.std(0) / expected).tolist() == pytest.approx(
        [1.0] * 4, rel=0.15
    )  # of 400 draws, to 4 standard errors


def test_samples_are_widened_alike_in_any_units():
    """A unit that is 1e9 smaller; of a matrix that is no covariance, what is positive in units of its diagonal counts."""
    covariance = torch.tensor([[4.0, 1.0, 0.5], [1.0, 1.0, 0.0], [0.5, 0.0, -1.0]]).double()
    samples = Samples(torch.zeros(4000, 3).double(), torch.zeros(3).double(), 0.0, 0.5)
    widened = lambda units: torch.cov((verdict._widened(samples, covariance * units * units[:, None], 0).u / units).T)
    plain = widened(torch.ones(3).double())
    assert plain[:2, :2].flatten().tolist() == pytest.approx([4.0, 1.0, 1.0, 1.0], abs=0.3)
    assert (widened(torch.tensor([1.0, 1e9, 1e-3]).double()) - plain).abs().max() < 1e-6


@pytest.mark.parametrize(
    ("costs", "unanimous"),
    [
        ([10.0] * 8, True),
        ([10.0] * 5 + [np.inf] * 3, True),  # left behind in the first frames
        ([10.0] * 4 + [np.inf] * 4, False),  # most of the starts say nothing
        ([10.0] * 5 + [40.0] + [np.inf] * 2, False),  # another end of the same clip
        ([10.0] * 7, False),  # too few
    ],
)
def test_starts_that_came_to_the_end_agree(costs, unanimous):
    cost, u = torch.tensor(costs).double(), torch.zeros(len(costs), 2).double()
    assert verdict._unanimous(Outcome(u, u, cost, u[0], 10.0, 1, [])) is unanimous
