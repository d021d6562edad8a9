"""Robust losses: weights, calibration, and winsorized residuals of outliers."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from tolerances import ROUNDING, assert_near

from gradsim.errors import InputError
from gradsim.numerics.robust import OUTLIER, ROBUST_LOSSES, robust_loss

ROBUST = [ROBUST_LOSSES["huber"], ROBUST_LOSSES["cauchy"]]
R = torch.linspace(-30, 30, 4001, dtype=torch.float64)


def expected(function, bend: float) -> float:
    """Mean of an even function of a standard normal number, integrated on both sides of the bend."""
    density = lambda r: np.exp(-r * r / 2) / np.sqrt(2 * np.pi)
    return 2 * sum(quad(lambda r: function(r) * density(r), *ends)[0] for ends in ((0, bend), (bend, 15)))


def influence(loss):
    return lambda r: float(loss.weight(torch.tensor(r, dtype=torch.float64)) * r)


@pytest.mark.parametrize("loss", ROBUST_LOSSES.values(), ids=ROBUST_LOSSES)
def test_weight_is_half_the_derivative_of_rho_over_r(loss):
    r = R[R != 0].requires_grad_()
    (slope,) = torch.autograd.grad(loss.rho(r).sum(), r)
    assert_near(slope, 2 * r * loss.weight(r), ROUNDING)


@pytest.mark.parametrize("loss", ROBUST, ids=lambda loss: loss.name)
def test_curvature_is_the_inverse_of_the_spread_under_gaussian_noise(loss):
    """λ = E[ψ']/E[ψ²] and efficiency E[ψ']²/E[ψ²]; E[ψ'] = E[r ψ] by Stein's identity."""
    psi = influence(loss)
    square, slope = expected(lambda r: psi(r) ** 2, loss.bend), expected(lambda r: r * psi(r), loss.bend)
    assert loss.scale == pytest.approx(slope / square, rel=1e-7)
    assert loss.efficiency == pytest.approx(slope**2 / square, rel=1e-7) == pytest.approx(0.95, abs=1e-3)


@pytest.mark.parametrize("loss", ROBUST_LOSSES.values(), ids=ROBUST_LOSSES)
def test_squares_of_roots_are_the_cost_and_their_slope_is_finite_at_zero(loss):
    r = torch.cat([R, torch.tensor([0.0, 1e-12, -1e-5, 1e-3, 1e6]).double()]).requires_grad_()
    assert_near(loss.root(r).square(), loss.scale * loss.rho(r), ROUNDING)
    (slope,) = torch.autograd.grad(loss.root(r).sum(), r)
    assert slope.isfinite().all() and slope[len(R)].item() == pytest.approx(loss.scale**0.5, rel=1e-6)


def test_cauchy_rho_is_its_logarithm_also_near_zero():
    r = torch.logspace(-9, 3, 200, dtype=torch.float64)
    k2 = ROBUST_LOSSES["cauchy"].bend ** 2
    assert_near(ROBUST_LOSSES["cauchy"].rho(r), k2 * torch.log1p(r**2 / k2), ROUNDING)


@pytest.mark.parametrize("loss", ROBUST, ids=lambda loss: loss.name)
def test_winsorized_residuals_have_mean_square_one_and_the_information_of_the_estimate(loss):
    noise = torch.tensor(np.random.default_rng(0).standard_normal(200_000))
    r, J = loss.winsorize(noise, torch.ones(len(noise), 1).double())
    assert r.square().mean().item() == pytest.approx(1, abs=0.01)  # 4 standard errors
    assert J.square().mean().item() == pytest.approx(loss.efficiency, abs=1e-6)  # |r| > 5 once in 2 million


@pytest.mark.parametrize("loss", ROBUST, ids=lambda loss: loss.name)
def test_information_of_an_outlier_falls_with_its_size(loss):
    r, J = loss.winsorize(torch.tensor([200.0, -200.0]).double(), torch.ones(2, 1).double())
    assert r[0] == -r[1] and r[0].square() < 2.6  # 1.345² / E[ψ²]: two in a hundred pixels are no mismatch
    assert J[0].item() == pytest.approx(loss.efficiency**0.5 * OUTLIER / 200)


def test_an_unknown_loss_is_refused_and_the_known_ones_are_listed():
    with pytest.raises(InputError, match="gaussian, huber, cauchy"):
        robust_loss("tukey")
