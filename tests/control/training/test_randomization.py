"""Disturbances: reproducible draws about the values of a model."""

import pytest
import torch
from model_cases import cube

from gradsim.control.training.randomization import DomainRandomization
from gradsim.errors import InputError
from gradsim.physics.model import Model


def test_draws_are_within_their_sizes_and_depend_on_seed_and_iteration_alone():
    model = Model(cube())
    noise = DomainRandomization(model, {"cube.mass": 0.2}, {"cube.pushes.0.impulse": 0.5}, worlds=400, seed=3)
    one = noise(7)
    assert one["cube.mass"].shape == (400,) and one["cube.pushes.0.impulse"].shape == (400, 3)
    off = one["cube.mass"] / 2.0 - 1
    assert off.abs().max() <= 0.2 and off.std() == pytest.approx(0.2 / 3**0.5, rel=0.1)  # 1/√800 = 4 %
    blow = one["cube.pushes.0.impulse"] - torch.tensor([0.5, 0.2, -0.1])
    assert blow.abs().max() <= 0.5 and blow.std() == pytest.approx(0.5 / 3**0.5, rel=0.1)
    noise(8)
    assert all(torch.equal(value, one[name]) for name, value in noise(7).items())
    other = DomainRandomization(model, {"cube.mass": 0.2}, worlds=400, seed=4)(7)
    assert not torch.equal(other["cube.mass"], one["cube.mass"])
    assert not torch.equal(noise(8)["cube.mass"], one["cube.mass"])


def test_a_share_scales_a_vector_as_a_whole_and_a_model_takes_what_is_drawn():
    model = Model(cube())
    drawn = DomainRandomization(model, {"cube.velocity": 0.3}, worlds=3)(0)
    ratio = drawn["cube.velocity"] / model.get_parameter("cube.velocity").detach()
    assert torch.allclose(ratio, ratio[:, :1].expand(-1, 3)) and ratio.std() > 0.01
    assert model.rollout(drawn, frames=2)["cube"]["x"].shape == (3, 2, 3)


def test_what_cannot_be_disturbed_is_refused():
    model = Model(cube())
    with pytest.raises(InputError, match="no parameter `cube.mas` to disturb"):
        DomainRandomization(model, {"cube.mas": 0.2})
    with pytest.raises(InputError, match="disturbance of `cube.mass` is -0.1"):
        DomainRandomization(model, {"cube.mass": -0.1})
