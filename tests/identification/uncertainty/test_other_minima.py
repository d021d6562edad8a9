"""Minima besides the answer, of costs that are known."""

from types import SimpleNamespace

import pytest
import torch
from given_costs import parabolas, problem
from tolerances import SOLVED, near

from gradsim.identification.observation.base import NoiseFloor
from gradsim.identification.uncertainty.intervals import estimates_with_intervals
from gradsim.identification.uncertainty.other_minima import ALIKE, FAR, other_minima
from gradsim.identification.unknowns import Space
from gradsim.scene import Scene

SIGMA = 0.01
ANSWER = torch.tensor([0.5]).double()
INFORMATION = torch.tensor([[SIGMA**-2]]).double()
FLOOR = {"noisy": NoiseFloor(0.0, 100.0, 1.0), "clean": NoiseFloor(0.0, 100.0, 0.0)}


def two(distance: float, rise: float, noise: str = "noisy"):
    """Valleys at the answer and some standard deviations from it, which is higher by a rise."""
    lowest = 90.0 if noise == "noisy" else 0.0
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
    assert "cube.velocity.x = 0.200 ± 0.010 m/s" in others.words(clip.space, 90.0)
    (record,) = others.result(clip.space)
    assert record["values"] == pytest.approx({"cube.velocity.x": 0.2}, abs=1e-2 * SIGMA)
    assert record["chi2"] == pytest.approx(90)
