"""Elements that share a number: who shares it, what the policy then sets, and mistakes."""

import pytest
import soft_cases
import torch
from checks import error
from torch import nn

from gradsim.control.actuator_sharing import element_centers, groups_along
from gradsim.control.baselines.common import SmoothActions
from gradsim.control.plant import Control, Plant
from gradsim.control.policies import Sinusoids
from gradsim.control.task.setup import Setup
from gradsim.control.task.task import Task
from gradsim.errors import InputError
from gradsim.physics.model import Model

NAME = "beam.activation"
GROUPS = torch.tensor([0, 2, 1, 0, 1, 2, 2, 0, 1, 0])


class Numbers(nn.Module):
    """The same numbers at all times."""

    feedback = False

    def __init__(self, u):
        super().__init__()
        self.u = nn.Parameter(u)

    def forward(self, times, observation=None):
        return self.u.expand(1, len(times), -1)


def plant(share=None, **options) -> Plant:
    return Plant(Model(soft_cases.solid()), [Control(NAME, -0.3, 0.1)], sharing=share, **options)


def test_a_shared_number_is_that_number_for_each_element_of_its_group():
    """So its gradient is the sum of theirs."""
    few = torch.tensor([0.4, -0.7, 0.2], dtype=torch.float64)
    one, each = Numbers(few), Numbers(few[GROUPS])
    systems = plant({NAME: GROUPS}), plant()
    assert [system.outputs for system in systems] == [3, 10]
    ends = []
    for system, policy in zip(systems, (one, each), strict=True):
        x = system.rollout(policy).trajectory["beam"]["x"]
        (x * torch.linspace(-1, 1, x.numel(), dtype=x.dtype).view_as(x)).sum().backward()
        ends.append(x)
    assert torch.equal(*ends)
    assert one.u.grad is not None and each.u.grad is not None
    assert error(one.u.grad, torch.zeros(3).double().index_add(0, GROUPS, each.u.grad)) < 1e-12


def test_elements_of_a_gear_share_along_its_axis():
    """Its layers are alike: a group holds one element of each, whose centres differ in z alone, to float32."""
    model = Setup.of(Task.load("gear"), 0, quick=True).plant.model
    groups, places = groups_along(model, "gear.activation", "z"), element_centers(model, "gear.activation")
    assert places is not None
    count = int(groups.max()) + 1
    assert count == 288 and (groups.bincount() == 4).all()
    for k in range(count):
        own = places[groups == k]
        assert (own[:, :2] - own[0, :2]).abs().max() < 1e-6 and len(own[:, 2].unique()) == 4


def test_elements_of_no_such_symmetry_stay_alone():
    """In a random rest shape no two centres differ along an axis alone."""
    model = plant().model
    (body,) = model.systems
    body.matter.rest += 0.01 * torch.randn(body.rest.shape, generator=torch.Generator().manual_seed(0)).double()
    assert groups_along(model, NAME, "x").tolist() == list(range(10))


def test_a_task_says_what_is_shared():
    content = Task.load("gear").model_dump(exclude_none=True)
    system = Setup.of(Task.parse({**content, "share": {"gear.activation": "z"}}), 0, quick=True).plant
    assert system.outputs == 288 and Setup.of(Task.parse({**content, "share": {}}), 0, quick=True).plant.outputs == 1152
    assert (Sinusoids(system.outputs)(system.times, None).shape[2]) == 288
    with pytest.raises(InputError, match=r"share.*did you mean `gear.activation`"):
        Task.parse({**content, "share": {"gear.activatoin": "z"}})
    with pytest.raises(InputError, match="share"):
        Task.parse({**content, "share": {"gear.activation": "w"}})


def test_a_smooth_policy_of_shared_outputs_gives_what_the_elements_share():
    """Hats at the middle of a group; here all groups differ."""
    system = plant({NAME: GROUPS})
    u = SmoothActions(system)(system.times)
    assert u.shape == (1, system.intervals, 3)


def test_mistakes_are_named():
    model = plant().model
    for share, words in (
        ({"beam.mu": GROUPS}, "is not a control"),
        ({NAME: GROUPS[:4]}, "for each of its 10 elements"),
        ({NAME: GROUPS.double()}, "whole number"),
        ({NAME: GROUPS + 1}, "some have no element"),
    ):
        with pytest.raises(InputError, match=words):
            plant(share)
    with pytest.raises(InputError, match="x, y or z"):
        groups_along(model, NAME, "r")
    with pytest.raises(InputError, match="does not have a number for each element"):
        groups_along(model, "beam.mu", "z")


def test_hinges_are_told_from_triangles_where_there_are_as_many():
    model = Model(soft_cases.cloth(shape={"grid": {"size": [0.3, 0.2], "cells": [2, 2]}}))
    (sheet,) = model.systems
    elements = {
        key: index for key, index in zip(("activation", "bending_activation"), sheet.matter.groups, strict=False)
    }
    assert len(elements["activation"].index) == len(elements["bending_activation"].index) == 8
    for key, group in elements.items():
        places = element_centers(model, f"flag.{key}")
        assert places is not None and torch.equal(places, sheet.rest[group.index].mean(1))
