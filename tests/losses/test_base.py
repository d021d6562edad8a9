"""Shared checks of all image losses: derivatives, mean squares, masks per object, width of the basin."""

import pytest
import torch
from image_cases import disc, images
from tolerances import ULPS, assert_near

from gradsim.errors import InputError
from gradsim.losses import LOSSES, MSE, ImageLoss, Robust, image_loss

ALL = [*LOSSES.values(), Robust(MSE(), 0.3, "cauchy"), Robust(LOSSES["cdf"], 0.05, "huber")]
all_losses = pytest.mark.parametrize("loss", ALL, ids=lambda loss: loss.name)
WIDE_BASIN = {"cdf", "moments", "whereabouts", "pyramid", "distance"}


@all_losses
def test_the_mean_square_of_residuals_is_the_loss_of_each_world(loss: ImageLoss):
    image, target = images(2, 3, 4, 6, 7), images(3, 4, 6, 7, seed=4)
    r = loss.residual(image, target)
    assert r.shape[:-1] == (2, 3, 4)
    assert_near(loss(image, target), (r * r).mean((1, 2, 3)), ULPS)


@all_losses
def test_gradient_is_the_central_difference(loss: ImageLoss):
    """Steps of 1e-5 in float64: the error of the difference is about 1e-10 of the loss's third derivative."""
    image, target = images(2, 3, 6, 7).requires_grad_(), images(3, 6, 7, seed=4)
    (gradient,) = torch.autograd.grad(loss(image, target).sum(), image)
    along = images(2, 3, 6, 7, seed=5) - 0.5
    ends = [loss(image.detach() + h * along, target).sum() for h in (1e-5, -1e-5)]
    slope = ((ends[0] - ends[1]) / 2e-5).item()
    assert (gradient * along).sum().item() == pytest.approx(slope, rel=1e-6)


@all_losses
def test_tangent_is_the_jacobian_of_autograd_times_the_tangents_of_the_image(loss: ImageLoss):
    image, tangents, target = images(2, 2, 5, 6), images(2, 2, 5, 6, 3) - 0.5, images(2, 5, 6, seed=4)
    r, J = loss.tangent(image, tangents, target)
    assert torch.equal(r, loss.residual(image, target))
    jacobian = torch.autograd.functional.jacobian(lambda x: loss.residual(x, target), image)
    assert torch.allclose(J, torch.einsum("abmcdhw,cdhwu->abmu", jacobian, tangents), rtol=1e-11, atol=1e-12)
    assert loss.tangent(image, tangents[..., :0], target)[1].shape == (*r.shape, 0)


@all_losses
@pytest.mark.parametrize("kind", ["empty", "full", "equal", "empty against a body", "full against a body"])
def test_derivatives_are_finite_where_denominators_vanish(loss: ImageLoss, kind: str):
    body = disc(30)[None]
    image = {"empty": 0 * body, "full": 0 * body + 1, "equal": body}[kind.split()[0]].requires_grad_()
    target = body if "body" in kind else image.detach()
    value = loss(image, target)
    (gradient,) = torch.autograd.grad(value.sum(), image)
    r, J = loss.tangent(image.detach(), torch.ones(*image.shape, 1).double(), target)
    assert all(x.isfinite().all() for x in (value, gradient, r, J))
    if "body" not in kind:
        assert value.item() == 0 and (gradient == 0).all()


@all_losses
def test_each_object_is_compared_with_its_own_target(loss: ImageLoss):
    masks, target = images(2, 3, 2, 5, 6), images(3, 2, 5, 6, seed=4)
    alone = [loss(masks[:, :, [k]], target[:, [k]]) for k in range(2)]
    assert torch.allclose(loss(masks, target), (alone[0] + alone[1]) / 2, rtol=1e-13)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_only_wide_basin_losses_pull_a_body_that_is_eight_radii_away(loss: ImageLoss):
    """Their slope would bring them there within ten steps; at the middle of a pixel the others have none."""
    column = torch.tensor(40.5, dtype=torch.float64, requires_grad=True)
    value = loss(disc(column)[None], disc(15.5))
    (slope,) = torch.autograd.grad(value.sum(), column)
    if loss.name in WIDE_BASIN:
        assert slope.item() * 25 > 0.1 * value.item()
    else:
        assert abs(slope.item()) * 25 < 1e-3 * value.item()


def test_an_unknown_name_is_refused_and_the_known_ones_are_listed():
    with pytest.raises(InputError, match="mse, l1, iou, pyramid, cdf, moments, whereabouts, distance"):
        image_loss("chamfer")


@pytest.mark.parametrize("shape", [(3, 5, 6), (4, 5, 7), (2, 2, 4, 5, 6), (5,), (4, 1, 6)])
def test_a_target_that_does_not_fit_is_refused(shape: tuple[int, ...]):
    if shape == (4, 1, 6):  # one row for all is a target; four images of one world are not four worlds
        shape = (2, 4, 5, 1)
    with pytest.raises(InputError, match="target of shape"):
        LOSSES["mse"](images(2, 4, 5, 6), images(*shape))


def test_tangents_of_another_shape_are_refused():
    with pytest.raises(InputError, match="unknowns"):
        LOSSES["cdf"].tangent(images(2, 5, 6), images(2, 5, 6), images(5, 6))
