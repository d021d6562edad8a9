"""Kinds of bodies that are registered by a user: a mass on a spring, in closed form."""

import pytest
import torch
from user_body_cases import Bob, BobSystem, registered

from gradsim.errors import InputError
from gradsim.identification.sensitivity.lyapunov import growth
from gradsim.physics.user_body import register_body


@pytest.fixture
def model():
    with registered() as model:
        yield model


def test_its_trajectory_is_its_formula(model):
    """Float64 rounding alone is between them."""
    t = torch.arange(9) / 20
    torch.testing.assert_close(model.rollout()["bob"]["height"][0], 0.5 * torch.cos(3.0 * t.double()))


def test_tangents_and_gradients_are_those_of_the_formula(model):
    """dz/dω = -a t sin(ω t), by forward and by reverse mode."""
    t = torch.arange(9).double() / 20
    slope = -0.5 * t * torch.sin(3.0 * t)
    _, moving = model.tangent(model.values(), {"bob.frequency": torch.ones(1, dtype=torch.float64)}, 9)
    torch.testing.assert_close(moving["bob"]["height"][0], slope)
    model.rollout()["bob"]["height"][0, 5].backward()
    torch.testing.assert_close(model.get_parameter("bob.frequency").grad, slope[5])


def test_no_error_of_a_start_grows_where_there_is_none(model):
    assert growth(model).growth.tolist() == [1.0] * 9


def test_a_kind_that_exists_and_numbers_that_do_not_are_refused(model):
    with pytest.raises(InputError, match="there is a kind of body 'rigid' already"):
        register_body("rigid", Bob, (), BobSystem)
    with pytest.raises(InputError, match="Bob has no key 'mass'"):
        register_body("bob", Bob, ("mass",), BobSystem)
