"""Losses of blurred images: mass, Gaussian, width of the basin, and the schedule from blurred to sharp."""

import math

import pytest
import torch
from image_cases import disc, images
from tolerances import ROUNDING, assert_near, near

from gradsim.errors import InputError
from gradsim.losses import Blurred, Schedule, blur, blur_to_sharp, image_loss, mse, stage


@pytest.mark.parametrize("sigma", [0.7, 3.0, 25.0])
def test_a_blur_keeps_the_mass_of_every_image(sigma):
    """Also of one on the edge, and with a Gaussian that is wider than the image."""
    image = images(2, 3, 9, 14)
    image[:, :, :, 3:] = 0
    assert_near(blur(image, sigma).sum((-2, -1)), image.sum((-2, -1)), ROUNDING)


def test_a_blurred_point_is_a_gaussian_of_its_sigma():
    """Its variance is σ² but for the cut at 4 σ, beyond which 1.1e-3 of it lie."""
    point = torch.zeros(61, 61, dtype=torch.float64)
    point[30, 30] = 1
    spread, offset = blur(point, 3.0), torch.arange(61).double() - 30
    assert (spread.sum(0) @ offset.square()).item() == pytest.approx(9, rel=1.2e-3)
    ratio = spread[30, 33] / spread[30, 30]
    assert ratio.item() == near(math.exp(-0.5), ROUNDING)


def test_the_derivative_of_a_blurred_loss_matches_differences():
    image, target = images(2, 7, 9), images(7, 9, seed=4)
    assert torch.autograd.gradcheck(lambda x: Blurred("mse", 2.0)(x, target), image.requires_grad_())


def test_a_blur_widens_the_basin_of_pixels():
    """The difference of pixels is the same 30 and 31 px away; blurred by 12 px it is not."""
    near, far, target = disc(40)[None], disc(41)[None], disc(10)
    wide = Blurred("mse", 12.0)
    assert wide(far, target).item() > 1.005 * wide(near, target).item()
    assert mse(far, target).item() == pytest.approx(mse(near, target).item(), rel=1e-6)


def test_the_blur_falls_by_a_constant_factor_to_its_last_sigma():
    schedule = Schedule(*blur_to_sharp("mse", (16.0, 1.0), 5), stage("mse", 10))
    sigmas = [getattr(schedule.at(k), "sigma", 0.0) for k in range(7)]
    assert sigmas == pytest.approx([16, 8, 4, 2, 1, 0, 0])
    assert schedule.iterations == 15


def test_a_zero_blur_and_an_unknown_loss_are_refused():
    with pytest.raises(InputError, match="the blur is 0 px; it must be above 0"):
        Blurred("mse", 0)
    with pytest.raises(InputError, match="unknown image loss 'mze'"):
        Blurred("mze", 1.0)
    with pytest.raises(InputError, match="0 iterations"):
        blur_to_sharp("mse", (8, 1), 0)


def test_the_name_of_a_blurred_loss_has_its_blur():
    assert Blurred(image_loss("iou"), 2.5).name == "iou blurred by 2.5 px"
