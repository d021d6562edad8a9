"""Minima besides the answer, of costs that are known."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from given_costs import parabolas, problem
from tolerances import SOLVED, near

from gradsim.identification.observation.base import NoiseFloor
from gradsim.identification.uncertainty.intervals import estimates_with_intervals
from gradsim.identification.uncertainty.other_minima import ALIKE, FAR, _without_turns, other_minima
from gradsim.identification.unknowns import Space
from gradsim.scene import Scene

SIGMA = 0.01
ANSWER = torch.tensor([0.5]).double()
INFORMATION = torch.tensor([[SIGMA**-2]]).double()
FLOOR = {"noisy": NoiseFloor(0.0, 100.0, 1.0), "clean": NoiseFloor(0.0, 100.0, 0.0)}


def two(distance: float, rise: float, noise: str = "noisy", lowest: float | None = None):
    """Valleys at the answer and some standard deviations from it, which is higher by a rise."""
    lowest = lowest if lowest is not None else 90.0 if noise == "noisy" else 0.0
    centers = (ANSWER.item(), SIGMA, lowest), (ANSWER.item() - distance * SIGMA, SIGMA, lowest + rise)
    clip = problem(lambda u: parabolas(u, *centers), n=1)
    space = Space(Scene.library("cube"), ["cube.velocity.x:-1:1"])
    clip.space, clip.scenes, clip.is_external = space, [], False
    clip.residual_blocks = lambda u, frames: [u / SIGMA]
    clip.observation = SimpleNamespace(growth=1.0, outline_noise=False, noise_floor=lambda frames: FLOOR[noise])
    ends = ANSWER + torch.linspace(-1.1 * distance, 0.0, 24).double()[:, None] * SIGMA
    return clip, other_minima(clip, ANSWER, lowest, INFORMATION, ends)


@pytest.mark.parametrize(
    ("distance", "rise", "noise", "listed"),
    [
        (30, 0.5 * ALIKE, "noisy", True),
        (30, 1.1 * ALIKE, "noisy", False),  # noise does not make as much
        (0.8 * FAR, 0.0, "noisy", False),  # within the error bars
        (30, 0.0, "clean", True),
        (30, 0.5 * ALIKE, "clean", False),  # nothing makes a difference where there is no noise
    ],
)
def test_a_minimum_is_listed_that_is_far_and_as_low(distance, rise, noise, listed):
    _, others = two(distance, rise, noise)
    assert (others is not None) == listed
    if others is not None:
        away = (others.u - ANSWER + distance * SIGMA) / SIGMA
        assert away.shape == (1, 1) and away.abs().max() < 0.01  # the decrease of χ² that counts is 0.01
        assert others.std.tolist() == [[near(SIGMA, SOLVED)]]
        assert others.starts == [13]  # of 24 even places, those beyond 5/11 of the way


@pytest.mark.parametrize(
    ("rise", "noise", "lowest", "better"),
    [
        (-0.5, "noisy", 90.0, False),
        (-2.0, "noisy", 90.0, True),
        (-0.3, "clean", 0.9, False),  # time steps leave as much
        (-0.89, "clean", 0.9, True),
        (0.0, "clean", 0.0, False),
    ],
)
def test_a_minimum_that_is_lower_than_noise_or_steps_make_it_is_better(rise, noise, lowest, better):
    _, others = two(30, rise, noise, lowest)
    assert others is not None and others.is_better == better


def test_minima_that_no_sample_is_about_are_left():
    _, others = two(30, 0.0)
    assert others is not None
    near, far = (ANSWER - off * SIGMA for off in (27.0, 20.0))
    assert others.among(torch.stack([ANSWER, far])) is None
    assert others.among(torch.stack([ANSWER, near])) is not None


def test_ends_that_are_hopeless_on_the_steps_of_the_search_are_left():
    """Alike on fine steps, a thousand apart on those of the search: fine steps are not taken for it."""
    clip, others = two(30, 0.0)
    assert others is not None
    coarse, _ = two(30, 1000.0)
    clip.cost = lambda *more: pytest.fail("fine steps were taken")
    assert other_minima(clip, ANSWER, 90.0, INFORMATION, others.u, searched=coarse) is None


def test_an_angle_and_a_rotation_a_turn_on_are_one_place():
    names = ["bob.angle", "cube.mass", *(f"cube.rotation_vector.{x}" for x in "xyz")]
    space: Any = SimpleNamespace(names=names, units=["rad", "kg", "rad", "rad", "rad"], logarithmic=5 * [False])
    answer = torch.tensor([[2.6, 7.0, 1.0, -2.0, 0.5]]).double()
    turned = answer.clone()
    turned[0, 0] -= 2 * math.pi
    turned[0, 2:] *= 1 - 2 * math.pi / answer[0, 2:].norm()
    torch.testing.assert_close(_without_turns(space, turned, answer), answer, rtol=1e-12, atol=1e-12)
    turned[0, 1] += 2 * math.pi  # of a mass that is no turn
    assert (_without_turns(space, turned, answer) - answer).abs().max() > 6
    nothing = torch.zeros(1, 5).double()
    assert torch.equal(_without_turns(space, nothing, nothing), nothing)


def test_intervals_hold_all_minima_and_nothing_is_identifiable_that_differs():
    """Two at 30 σ from one another, all alike: a variance of 15² + 1."""
    clip, others = two(30, 0.0)
    assert others is not None
    std = torch.tensor([SIGMA]).double()
    bars = SimpleNamespace(std_inner=std, relative=std / 2)
    plain = estimates_with_intervals(clip.space, ANSWER, bars)  # pyright: ignore[reportArgumentType]
    (speed,) = others.widened(clip.space, ANSWER, std, plain).values()
    assert plain["cube.velocity.x"].identifiable and not speed.identifiable
    assert speed.value == ANSWER.item() and speed.std == pytest.approx(SIGMA * (15**2 + 1) ** 0.5, rel=1e-3)
    assert speed.interval95[0] == pytest.approx(0.2 - 1.96 * SIGMA, abs=1e-2 * SIGMA)
    assert speed.interval95[1] == pytest.approx(0.5 + 1.96 * SIGMA, abs=1e-2 * SIGMA)
    assert others.covariance(ANSWER, std[None] ** 2).item() == pytest.approx(speed.std**2)
    assert "cube.velocity.x = 0.200 ± 0.010 m/s" in others.words(clip.space, ANSWER, std, 90.0)
    assert "cube.velocity.x = 0.500 ± 0.010 m/s; " in others.words(clip.space, ANSWER, std, 90.0)
    (record,) = others.result(clip.space)
    assert record["values"] == pytest.approx({"cube.velocity.x": 0.2}, abs=1e-2 * SIGMA)
    assert record["chi2"] == pytest.approx(90)
