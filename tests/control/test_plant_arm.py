"""Motors of joints are controls over time, for policies that see and policies that do not."""

import pytest
import torch
from checks import error
from plant_cases import Table

from gradsim import Model, Scene
from gradsim.control.plant import Control, Plant

pytestmark = pytest.mark.usefixtures("unoptimized_kernels")


class Hand:
    """Senses that see where the hand is."""

    size = 3

    def __call__(self, states, values, plant):
        return states["hand"]["x"]


def plant(observation=None) -> Plant:
    content = Scene.library("arm").model_dump(exclude_unset=True)
    content["timing"] |= {"frames": 9, "substeps": 4}
    controls = [Control("joints.shoulder.torque", -4.0, 4.0), Control("joints.elbow.target", -1.0, 1.0)]
    return Plant(Model(Scene.parse(content)), controls, 2, observation)


@pytest.mark.slow
def test_motors_of_an_arm_are_set_over_time_with_one_gradient_either_way():
    system = plant(Hand())
    assert system.outputs == 2 and not system.launched
    u = torch.rand(system.intervals, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 2 - 1
    found = {}
    for feedback in (False, True):
        policy = Table(u.clone(), system.interval / system.model.scene.timing.fps, feedback)
        x = system.rollout(policy).trajectory["hand"]["x"]
        (x * torch.randn(x.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)).sum().backward()
        found[feedback] = x.detach(), policy.u.grad
    assert (found[False][1].abs() > 1e-6).all()  # every interval moves the hand
    assert error(found[True][0], found[False][0]) < 1e-12 and error(found[True][1], found[False][1]) < 1e-10
