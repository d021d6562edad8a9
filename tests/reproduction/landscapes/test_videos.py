"""Films against the true one: what they compare, and derivatives along the curve."""

import numpy as np
import pytest
import torch

from gradsim_reproduction.landscapes.rigid import SELECTIONS, select_frames
from gradsim_reproduction.landscapes.scenes import RIGID, TRUE_MASS, cube, over
from gradsim_reproduction.landscapes.videos import NAME, VIEWS, adjoint, errors, gradient_errors, mass_rollouts, masses


def test_the_truth_is_on_the_grid_and_the_ends_are_the_paper_s():
    mass = masses()
    assert np.isclose(mass, TRUE_MASS, atol=1e-12).any() and mass[0] == 0.1 and mass[-1] == 5.0


def test_a_drifting_cube_goes_where_its_momentum_takes_it():
    model = over(cube("drift"), {NAME: torch.tensor([0.1, 5.0])})
    every, _ = mass_rollouts(model, np.array([0.1, 0.5, 5.0]))
    travel = (every["cube"]["x"][:, -1, 0] - every["cube"]["x"][:, 0, 0]).numpy()
    rounding = 7860 * 1e-16  # of so many steps, at places near 1 m
    np.testing.assert_allclose(travel, 0.13 / np.array([0.1, 0.5, 5.0]) * 2.0, rtol=0, atol=rounding)  # J/m over 2 s


def test_errors_are_zero_at_the_truth_and_at_the_start_and_nowhere_else():
    model = over(cube("slide"), {NAME: torch.tensor([0.5, 2.0])})
    every, true = mass_rollouts(model, np.array([0.5, 1.0, 2.0]))
    error = errors(VIEWS["coverage"](model.scene), every, true)
    assert error.shape == (3, 61)
    assert (error[1] == 0).all() and (error[:, 0] == 0).all() and (error[[0, 2], 5:] > 0).all()
    far = errors(VIEWS["coverage"](model.scene), every, true, "cdf")
    assert (far[1] == 0).all() and (far[[0, 2], 5:] > 0).all()


def test_selections_take_the_frames_they_are_named_for():
    error = np.arange(61.0)[None]
    assert {name: float(loss[0]) for name, loss in select_frames(error).items()} == {
        "all": 30,
        "fifth": 30,
        "first_and_middle": 15,
        "first_and_last": 30,
    }
    assert set(select_frames(error)) == set(SELECTIONS)


@pytest.mark.slow
def test_the_adjoint_is_the_slope_of_the_curve_where_nothing_touches():
    scene = cube("drift")
    mass = np.linspace(0.9, 1.3, 41)
    apart = gradient_errors(
        mass, *adjoint(over(scene, {NAME: torch.tensor(mass)}), NAME, VIEWS["coverage"](scene), mass)
    )
    # secants are off by (0.01)² L‴/6 over L′ ≈ 1e-4, but beside the minimum, where L′ changes sign
    assert np.median(apart) < 1e-3


@pytest.mark.parametrize("kind", RIGID)
def test_the_true_cube_stays_in_the_image(kind):
    scene = cube(kind)
    with torch.no_grad():
        covered = VIEWS["coverage"](scene)(over(scene, {NAME: torch.tensor([0.1])}).rollout().surface)[0]
    area = covered.sum((1, 2))
    assert area.min() > 0.8 * area[0]
