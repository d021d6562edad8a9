"""Half widths of approximate answers from the causes that explain a video."""

import pytest
import torch
from wavy_ball import scene

from gradsim.identification.uncertainty.causes import Cause
from gradsim.identification.uncertainty.tolerance import MARGIN, relative, tolerances
from gradsim.identification.unknowns import Space

SPACE = Space(scene(), ("ball.velocity.x:0:2", "ball.mass:0.2:5"))
ANSWER = SPACE.inner(torch.tensor([1.0, 2.0]).double())


def cause(shift=(0.02, -0.03), std=(0.004, 0.002), explained=True, unusual=1.0) -> Cause:
    return Cause("timing.rate", 0.03, "", 0.2, explained, shift, "", std, unusual)


def test_an_interval_holds_the_answers_of_all_causes_that_explain_the_video():
    other = cause((-0.01, 0.05), (0.001, 0.003))
    half = tolerances(SPACE, ANSWER, [cause(), other, cause((9.0, 9.0), explained=False)])
    expected = [MARGIN * 0.02 + 1.96 * 0.004, MARGIN * 0.05 + 1.96 * 0.003]
    torch.testing.assert_close(half, torch.tensor(expected).double(), rtol=1e-4, atol=0)
    torch.testing.assert_close(relative(SPACE, ANSWER, half), half)  # of 1 m/s, and of a logarithm


@pytest.mark.parametrize(
    "causes",
    [
        [],
        [cause(explained=False), cause()],  # the best one leaves something
        [cause(shift=(0.07, 0.0))],  # 10.5 %
        [cause(unusual=6.0)],
        [Cause("masks", None, "", None)],
        [Cause("ground.law", None, "", 0.3, True, words="another law")],  # has other unknowns
    ],
)
def test_an_answer_is_not_approximate_where_nothing_likely_explains_the_video_or_numbers_differ_by_much(causes):
    assert tolerances(SPACE, ANSWER, causes) is None


def test_an_answer_at_the_end_of_a_range_is_not_approximate():
    at_end = SPACE.inner(torch.tensor([2.0, 2.0]).double())
    assert tolerances(SPACE, at_end, [cause()]) is None and tolerances(SPACE, ANSWER, [cause()]) is not None


def test_a_number_near_zero_has_no_relative_tolerance():
    still = SPACE.inner(torch.tensor([0.1, 2.0]).double())
    assert tolerances(SPACE, still, [cause()]) is None
