"""Histories: raw beside best, sums as a second axis, and files."""

import math

import pytest
import torch

from gradsim.app.commands.control_result import stored_iterations
from gradsim.control.training.history import History, Iteration
from gradsim.errors import InputError

LOSSES = [5.0, 3.0, 4.0, math.nan, 2.0, 6.0]


def history() -> History:
    made = History(names={"task": "gear", "seed": 3})
    for k, loss in enumerate(LOSSES):
        entry = Iteration(loss, 0.1 + k, 0.25, 1 + k % 2, 100 * (1 + k % 2), 7.0 - k, stage="mse", frames=9)
        made.add(entry, {"weight": torch.full((2,), float(k))})
    return made


def test_raw_curves_stay_raw_and_the_best_is_chosen_by_the_loss_alone():
    made = history()
    assert made.raw() == pytest.approx(LOSSES, nan_ok=True)
    assert made.at_best() == [5, 3, 3, 3, 2, 2]
    assert made.at_best("distance") == [7, 6, 6, 6, 3, 3] and made.best == 4
    assert made.policies["best"]["weight"].tolist() == [4, 4] and made.policies["last"]["weight"].tolist() == [5, 5]
    assert made.policies["first"]["weight"].tolist() == [0, 0]


def test_losses_of_another_stage_or_length_are_not_compared():
    made = history()
    for loss, stage, frames in ((50.0, "cdf", 9), (40.0, "cdf", 9), (70.0, "cdf", 10)):
        made.add(Iteration(loss, stage=stage, frames=frames))
    assert made.at_best()[-3:] == [50, 40, 70]


def test_rollouts_and_steps_are_summed_for_a_second_axis():
    assert history().total() == [1, 3, 4, 6, 7, 9]
    assert history().total("steps")[-1] == 900 and history().total("seconds")[-1] == 1.5


def test_kept_policies_do_not_change_with_the_one_that_is_trained():
    weight = torch.zeros(2)
    made = History()
    made.add(Iteration(1.0), {"weight": weight})
    weight += 1
    assert made.policies["best"]["weight"].tolist() == [0, 0]


def test_the_middle_policy_is_named_by_its_own_iteration_where_a_search_ends_early(tmp_path):
    made = history()  # half of 9 iterations, of which 6 came
    made.iterations, last = made.iterations[:4], made.iterations[4:]
    made.add(last[0], {"weight": torch.full((2,), 4.0)})
    made.keep_middle()
    made.add(last[1], {"weight": torch.full((2,), 5.0)})
    assert made.middle == 4 and made.policies["middle"]["weight"].tolist() == [4, 4]
    made.save(tmp_path / "history.json")
    assert History.load(tmp_path / "history.json").middle == 4
    assert stored_iterations(made) == {"first": 0, "middle": 4, "best": 4, "last": 5}


def test_a_file_brings_back_all_numbers(tmp_path):
    made = history()
    made.retreats = 2
    made.save(tmp_path / "run" / "history.json")
    again = History.load(tmp_path / "run" / "history.json")
    assert again.json() == made.json() and again.names == {"task": "gear", "seed": 3} and again.retreats == 2
    assert math.isnan(again.raw()[3]) and again.best == 4


def test_what_is_no_history_is_refused(tmp_path):
    (tmp_path / "other.json").write_text('{"schema": "gradsim.result/1"}')
    (tmp_path / "torn.json").write_text('{"schema": "grad')
    for name in ("other.json", "torn.json", "missing.json"):
        with pytest.raises(InputError, match=name):
            History.load(tmp_path / name)
    with pytest.raises(InputError, match="the history is empty"):
        _ = History().best
