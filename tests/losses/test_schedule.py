"""Schedules of losses, and losses by name."""

import pytest
import torch
from image_cases import disc

from gradsim.errors import InputError
from gradsim.losses import LOSSES, Schedule, coarse_to_fine, stage


def test_each_iteration_has_the_loss_of_its_stage():
    schedule = Schedule(stage("cdf", 3), stage("pyramid", 2), stage(LOSSES["mse"], 4))
    assert schedule.iterations == 9
    assert [schedule.at(k).name for k in range(11)] == ["cdf"] * 3 + ["pyramid"] * 2 + ["mse"] * 6


def test_two_stages_converge_where_pixels_alone_do_not():
    def final_column(schedule: Schedule) -> float:
        column = torch.tensor(44.0, dtype=torch.float64, requires_grad=True)
        steps = torch.optim.Adam([column], 1.0)
        for k in range(schedule.iterations):
            for group in steps.param_groups:
                group["lr"] = 1.0 * 0.97**k
            steps.zero_grad()
            schedule.at(k)(disc(column)[None], disc(15.3)).sum().backward()
            steps.step()
        return column.item()

    assert final_column(coarse_to_fine(iterations=(60, 120))) == pytest.approx(15.3, abs=0.02)
    assert final_column(Schedule(stage("mse", 180))) > 40


def test_a_schedule_without_iterations_is_refused():
    with pytest.raises(InputError, match="no stages"):
        Schedule()
    with pytest.raises(InputError, match="0 iterations"):
        stage("cdf", 0)


def test_an_unknown_loss_is_refused():
    with pytest.raises(InputError, match="unknown image loss 'pixels'"):
        stage("pixels", 3)
