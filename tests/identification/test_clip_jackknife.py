import clip_cases as cases
import numpy as np
import pytest
import torch

from gradsim.identification.clip_jackknife import jackknife_estimates, leave_one_out
from gradsim.identification.solvers.clip_ensemble import descend

SCALE = {"cube.mass", "ground.stiffness", "ground.friction_stiffness"}


@pytest.fixture(scope="module")
def noisy():
    """A problem, where it was solved, and the answers without each recording."""
    x, q = cases.tosses()
    noise = cases.SIGMA_X * torch.randn(x.shape, generator=torch.Generator().manual_seed(6)).double()
    problem = cases.problem(cases.cut(x + noise, q), *cases.RANGES)
    best = descend(problem, problem.at(cases.truth(problem)), 10)
    return problem, best, leave_one_out(problem, best, 4)


@pytest.mark.slow
def test_mass_without_a_known_force_is_open_and_the_words_say_with_what(noisy):
    problem, best, (_, left_out) = noisy
    estimates, verdict, _ = jackknife_estimates(problem, best, left_out, best.u[:0])
    assert {name for name, e in estimates.items() if not e.identifiable} >= SCALE
    weakest = verdict.null[0]
    for name, coefficient in weakest.combination.items():
        assert abs(coefficient) == pytest.approx(3**-0.5 if name in SCALE else 0, abs=1e-3)
    assert "one common factor" in weakest.explanation and "known size" in weakest.explanation
    low, high = estimates["cube.mass"].interval95
    assert (low, high) == (pytest.approx(0.1), pytest.approx(2.0)) and not np.isfinite(estimates["cube.mass"].std)


def test_intervals_hold_the_truth_of_what_is_not_open(noisy):
    problem, best, (_, left_out) = noisy
    estimates, _, bars = jackknife_estimates(problem, best, left_out, best.u[:0])
    for name in ("ground.friction", "gravity.z"):
        assert estimates[name].identifiable
        assert abs(estimates[name].value - cases.TRUTH[name]) < 3 * estimates[name].std
        size = abs(estimates[name].value) if name == "ground.friction" else 1.0
        assert estimates[name].std == pytest.approx(size * max(bars[name].values()))


def test_each_recording_is_left_out_once(noisy):
    _, best, (names, left_out) = noisy
    assert names == ["toss 0", "toss 1", "toss 2"] and left_out.shape == (3, best.u.shape[1])


def test_disagreement_over_cuts_widens_the_error(noisy):
    problem, best, (_, left_out) = noisy
    k = problem.space.names.index("ground.friction")
    other = best.u.clone()
    other[0, k] += 0.4
    _, _, bars = jackknife_estimates(problem, best, left_out, other)
    assert bars["ground.friction"]["between_cuts"] == pytest.approx(0.2)


def test_jackknife_is_about_the_mean_of_the_answers(noisy):
    """Answers without one of n recordings, if each estimate is the mean of n numbers: the bar is their standard error."""
    problem, best, _ = noisy
    numbers = torch.randn(3, best.u.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 100
    left_out = (numbers.sum(0) - numbers) / 2
    _, _, bars = jackknife_estimates(problem, best, left_out, best.u[:0])
    expected = numbers.std(0) / 3**0.5
    assert [bar["leave_one_out"] for bar in bars.values()] == pytest.approx(expected.tolist(), rel=1e-10)
