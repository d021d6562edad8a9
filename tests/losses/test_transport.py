"""Normalized CDFs of images: values, derivative, and width of the basin."""

import pytest
import torch
from image_cases import disc, images
from tolerances import ROUNDING, assert_near

from gradsim.losses import cdf, cdf_of_sums_tangent, cdf_tangent, mse, transport
from gradsim.losses.transport import moments


def test_cdf_tangent_equals_the_jvp():
    image, tangent = images(2, 3, 5, 7), images(2, 3, 5, 7, 4) - 0.5
    value, slope = cdf_tangent(image, tangent)
    for k in range(4):
        expected, along = torch.func.jvp(cdf, (image,), (tangent[..., k],))  # pyright: ignore[reportAssignmentType]
        assert torch.allclose(value, expected, rtol=1e-13)
        assert_near(slope[..., k], along, ROUNDING)


def test_cdf_from_sums_is_the_cdf_of_the_image():
    image, tangent = images(3, 5, 7), images(3, 5, 7, 2)
    sums = torch.cat([image.sum(-1), image.sum(-2)], -1)
    slopes = torch.cat([tangent.sum(-2), tangent.sum(-3)], -2)
    for own, expected in zip(cdf_of_sums_tangent(sums, slopes, 5), cdf_tangent(image, tangent), strict=True):
        assert torch.equal(own, expected)


def test_cdf_rises_to_one_along_rows_and_columns():
    value = cdf(images(5, 7))
    for part in value.split([5, 7]):
        assert (part.diff() >= 0).all()
        assert part[-1].item() == pytest.approx(1, rel=1e-3 / images(5, 7).sum().item())


def test_cdf_of_an_empty_image_is_zero_with_a_finite_derivative():
    empty = torch.zeros(4, 4, dtype=torch.float64, requires_grad=True)
    value = cdf(empty)
    (gradient,) = torch.autograd.grad(value.sum(), empty)
    assert (value == 0).all() and torch.isfinite(gradient).all()


def test_a_shift_by_columns_moves_the_cdf_by_its_length():
    """The area between two CDFs in one dimension is the distance of transport."""
    gap = (cdf(disc(20)) - cdf(disc(33)))[20:]
    assert gap.sum().item() == pytest.approx(13, rel=1e-4)


def test_transport_sees_a_body_where_pixels_see_nothing():
    """Far apart, the derivative of the difference of pixels by the distance is 0; that of transport is not."""
    near, far, target = disc(40), disc(41), disc(10)
    assert mse(near[None], target).item() == pytest.approx(mse(far[None], target).item(), rel=1e-6)
    assert transport(far[None], target).item() > 1.02 * transport(near[None], target).item()


def test_losses_are_means_for_each_world():
    image, target = images(2, 3, 5, 7), images(3, 5, 7)
    assert mse(image, target).tolist() == pytest.approx([((x - target) ** 2).mean().item() for x in image])
    assert transport(image, target)[1].item() == pytest.approx(((cdf(image[1]) - cdf(target)) ** 2).mean().item())
    assert mse(target[None], target).item() == transport(target[None], target).item() == 0


def test_second_moments_of_a_body_stay_where_it_moves():
    """They are about the centroid, at up to 1/3 of a width from the center; 1e-3 px of mass is added to the body's 28."""
    bodies = torch.stack([disc(column, row) for column, row in ((10.0, 10.0), (30.0, 8.0), (50.0, 13.0))])
    central = moments(bodies)[:, 2:]
    assert torch.allclose(central, central[:1].expand_as(central), rtol=0, atol=1e-3 / 28 / 9)
    assert (central[:, [0, 2]] > 1e-4).all()  # (3/2 px)² in squares of 60 px: 6e-4 and more
