"""Answers at an end of their range: linear least squares, whose minimum outside is known, and a fit whose range leaves the truth out."""

import numpy as np
import pytest
import torch
from fit_cases import recorded, throw
from wavy_ball import centres, masks, scene, waves

import gradsim as gs
from gradsim.errors import Status
from gradsim.identification import verdict
from gradsim.identification.observation.base import Masks
from gradsim.identification.uncertainty.range_ends import PressedEnds, near_ends, pressed_ends, unconstrained_step
from gradsim.identification.unknowns import Space

NAMES = ["cube.velocity.x:-1:1", "cube.velocity.z:-1:1"]


@pytest.mark.parametrize(
    ("minimum", "words", "contradicted"),
    [
        ((0.5, 0.2), "", False),
        ((1.2, 0.2), "upper end of its range, 1 m/s, and the data ask for about 1.2 m/s, 2 standard", False),
        ((1.4, 0.2), "about 1.4 m/s, 4 standard deviations away: widen the range", True),
        (
            (0.5, -1.5),
            "cube.velocity.z is at the lower end of its range, -1 m/s, and the data ask for about -1.5 m/s, 5 st",
            True,
        ),
    ],
)
def test_a_minimum_outside_of_the_range_is_found_by_one_step_of_least_squares(minimum, words, contradicted):
    """Errors of 0.1 m/s, independent: the answer of least squares in the box is the nearest point of the box."""
    space, H = Space(throw(), NAMES), torch.eye(2).double() / 0.1**2
    u = torch.tensor(minimum).double().clamp(-1, 1)
    g = H @ (u - torch.tensor(minimum).double())
    pressed = pressed_ends(space, u, unconstrained_step(H, g), torch.linalg.inv(H))
    assert pressed.contradicted == contradicted and len(pressed.words) == bool(words)
    assert words in "".join(pressed.words)


def test_a_gradient_that_leads_inward_is_no_reason_to_doubt_a_range():
    """Where one unknown is far outside, the step moves the other one with it, also from its end inward."""
    space = Space(throw(), NAMES)
    pressed = pressed_ends(space, torch.tensor([1.0, -1.0]).double(), torch.tensor([-9.0, 9.0]).double(), torch.eye(2))
    assert not pressed.words and not pressed.contradicted


def test_an_answer_near_an_end_is_named():
    space = Space(throw(), NAMES)
    (words,) = near_ends(space, torch.tensor([0.97, 0.5]).double())
    assert words.startswith("cube.velocity.x = 0.97 is near the upper end of its range, -1 to 1: if the truth")
    assert not near_ends(space, torch.tensor([0.9, -0.9]).double())


def test_a_step_of_numbers_that_are_not_finite_is_none():
    assert not unconstrained_step(torch.full((2, 2), torch.nan), torch.ones(2)).any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gravity", "status"), [("gravity.z:-12:-8", Status.OK), ("gravity.z:-9.4:-8", Status.MISMATCH)]
)
def test_a_range_that_leaves_the_truth_out_is_contradicted_by_outlines(gravity, status):
    """Outlines of a ball that falls by 9.81 m/s²; a speed takes up so much of the rest that outlines alone look explained."""
    seen = masks(centres(24, (1.0, 4.0, -9.81)), 0.3 * waves(24, 5.0, 0.5, np.random.default_rng(3)))
    fit = gs.identify(scene(24), ["ball.velocity.x:0:2", "ball.velocity.z:1:5", gravity], observation=seen, starts=2)
    assert fit.status == status and any("end of its range" in note for note in fit.notes) == (status != Status.OK)


def test_a_range_that_leaves_the_truth_out_is_contradicted_by_pixels():
    """Noise so large that χ² sees nothing: the answer is many standard deviations inside, all the same."""
    problem = recorded(throw(), ["cube.velocity.x:-1:3"], {"cube.velocity.x": 0.9})
    data = problem.observation
    noise = torch.tensor(np.random.default_rng(2).normal(0, 0.2, data.masks.shape))
    fit = gs.identify(
        throw(), ["cube.velocity.x:-1:0.8"], observation=Masks(data.masks + noise, 0.2, data.silhouettes), starts=2
    )
    assert fit.status == Status.MISMATCH and fit.chi2_per_n < 1.3 and "widen the range" in fit.notes[0]


@pytest.mark.slow
def test_explained_outlines_are_a_mismatch_where_a_range_is_contradicted(monkeypatch):
    seen = masks(centres(14, (1.0, 4.0, -9.81)), 0.3 * waves(14, 5.0, 0.5, np.random.default_rng(3)))
    for contradicted, status in ((False, Status.OK), (True, Status.MISMATCH)):
        monkeypatch.setattr(verdict, "pressed_ends", lambda *_, c=contradicted: PressedEnds(["words"], c))
        fit = gs.identify(scene(14), ["ball.velocity.x:0:2"], observation=seen, starts=1, known_numbers=False)
        assert fit.outline["explained"] and fit.status == status and "words" in fit.notes
