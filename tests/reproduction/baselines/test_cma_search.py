import sys

import numpy as np
import pytest

from gradsim.dataset import sample
from gradsim.errors import InputError
from gradsim_reproduction.baselines import cma_search
from gradsim_reproduction.baselines.cma_search import cma, problem_of, search, solve


def test_the_search_finds_the_least_of_a_valley_and_keeps_to_its_budget():
    pytest.importorskip("cma")
    tried, goal = [], np.array([0.3, 0.8])

    def losses(points):
        tried.extend(points)
        return ((points - goal) ** 2 * [1, 100]).sum(1)

    rng = np.random.default_rng(0)
    best, least, taken = search(losses, lambda: rng.random(2), 300, rng)
    assert taken == len(tried) <= 300 and taken > 280  # a generation of two unknowns has six
    assert np.abs(best - goal).max() < 1e-3 and least == min(losses(np.array(tried)))
    assert np.min(tried) >= 0 and np.max(tried) <= 1


def test_a_stalled_run_is_followed_by_another():
    # two valleys, the deeper one narrow: one run from (0.9,) ends in the other
    pytest.importorskip("cma")
    rng, starts = np.random.default_rng(1), []

    def start():
        starts.append([0.9] if not starts else rng.random(1))
        return np.array(starts[-1])

    def losses(points):
        x = points[:, 0]
        return np.minimum((x - 0.9) ** 2 + 0.5, 50 * (x - 0.1) ** 2)

    best, least, _ = search(losses, start, 2000, rng)
    assert len(starts) > 2 and abs(best[0] - 0.1) < 1e-3 and least < 1e-6


def test_the_loss_of_pixels_vanishes_at_the_truth_and_what_is_not_asked_is_known():
    for unknowns in (("body.mass",), tuple(sample("rigid", 4).truth)):
        problem, truth = problem_of(sample("rigid", 4), unknowns), sample("rigid", 4).truth
        assert problem.space.names == list(unknowns)
        at = problem.space.inner(problem.space.low.new_tensor([[truth[name] for name in unknowns]]))
        cost = problem.cost(at, problem.frames).item()
        # rounding of log and exp, which contact enlarges, against the millions of another mass
        assert cost < 1e-6 and problem.cost(at + 0.1, problem.frames).item() > 1e3


def test_a_sample_is_solved_from_a_start_that_knows_no_truth(tmp_path, monkeypatch):
    pytest.importorskip("cma")
    monkeypatch.setitem(cma_search.QUICK, 1, 60)
    one = cma([4], 0, tmp_path, quick=True)[0]
    assert one["rollouts"] <= 60 and set(one["values"]) == {"body.mass"} and 2 <= one["values"]["body.mass"] <= 12
    assert cma([4], 0, tmp_path, quick=True)[0] == one  # from the ledger, with its time
    again = solve(sample("rigid", 4), ["body.mass"], 60)
    assert {**again, "cpu_seconds": 0} == {**one, "cpu_seconds": 0}


def test_a_missing_library_is_named_with_its_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "cma", None)
    with pytest.raises(InputError, match=r'pip install "gradsim\[baselines\]"'):
        cma([4], 0, tmp_path)
