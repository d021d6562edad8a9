"""The comparison of losses and alphas on pictures of another renderer, on few of its starts."""

import numpy as np
import pytest
import torch
from tolerances import ROUNDING, assert_near

from gradsim.losses import LOSSES
from gradsim_reproduction.images import falls
from gradsim_reproduction.images import independent_target as target
from gradsim_reproduction.images.falls import FRAMES, FallProblem, UniformSpace


def problem(tangent, unknowns: int = 3) -> tuple[FallProblem, torch.Tensor]:
    seen = target.reference_video("ball", (0.8, 1.1, 9.0), "grid", 0)
    space = UniformSpace(torch.full((unknowns,), -20.0).double(), torch.full((unknowns,), 20.0).double())
    return FallProblem(target.BODIES["ball"], seen, tangent, (0.0, 9.81)[unknowns - 1 :], space), torch.tensor(
        [[0.7, 1.4, 8.0], [0.83, 1.0, 10.0]], dtype=torch.float64
    )[:, :unknowns]


@pytest.mark.parametrize("loss", ["mse", "cdf"])
def test_the_gradient_of_a_fall_is_the_central_difference_of_its_cost(loss):
    fall, u = problem(falls.exact_coverage)
    cost, A, g = fall.linearize(u, FRAMES, LOSSES[loss])
    assert_near(cost, fall.cost(u, FRAMES, LOSSES[loss]), ROUNDING)
    assert torch.allclose(A, A.mT) and (torch.linalg.eigvalsh(A) > 0).all()
    for step, own in zip(1e-6 * torch.eye(3).double(), g.T, strict=True):
        ends = [fall.cost(u + s * step, FRAMES, LOSSES[loss]) for s in (1, -1)]
        assert torch.allclose(2 * own, (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


@pytest.mark.parametrize("alpha", ["SoftRas 1 px", "DIB-R 1 px"])
def test_differences_along_unknowns_are_the_adjoint_of_the_alpha(alpha):
    """Both leave out faces far from a pixel, where they cover 1e-4: an adjoint does not see them come and go, and the sum
    over some 30 faces at each pixel of the rim is some hundredths of the slope there."""
    fall, u = problem(target.ALPHAS[alpha].tangent)
    u = u.requires_grad_()
    (gradient,) = torch.autograd.grad(fall.cost(u, FRAMES, LOSSES["mse"]).sum(), u)
    g = fall.linearize(u.detach(), FRAMES, LOSSES["mse"])[2]
    assert ((2 * g - gradient).abs() < 0.03 * gradient.abs().amax(0)).all()


def test_cdf_and_then_pixels_find_a_ball_from_afar_to_a_thousandth_of_a_pixel():
    errors = target.height_errors(
        target.Row(falls.exact_coverage, ["ball"]), target.SCHEDULES[target.TWO_STAGES], (3.0, 40.0), "random", 0
    )
    assert errors.shape == (2, 2) and errors.abs().max() < 1e-3


def test_pixels_alone_find_it_from_near_only():
    errors = target.height_errors(
        target.Row(falls.exact_coverage, ["ball"]), target.SCHEDULES["mse"], (3.0, 30.0), "random", 0
    )
    found = target.summary(errors, (3.0, 30.0))
    assert found["basin_px"] == 3 and found["arrived"] == 2 and found["error_px"] < 1e-3


def test_the_basin_ends_at_the_first_offset_from_which_one_start_does_not_arrive():
    errors = torch.tensor([[0.1, 0.3, 0.2, 0.1], [-0.2, 0.4, 5.0, 0.1]])
    found = target.summary(errors, (1.0, 2.0, 3.0, 4.0))
    assert found["basin_px"] == 2 and found["arrived"] == 7 and found["error_px"] == pytest.approx(0.4)
    assert target.summary(errors + 9, (1.0, 2.0, 3.0, 4.0))["error_px"] is None


def test_height_speed_and_gravity_come_from_one_video():
    found = target.throw("cube", 4, np.random.default_rng(2))
    assert max(found["speed_rel_error"] + found["gravity_rel_error"]) < 5e-3


@pytest.mark.slow
def test_quick_run_meets_its_goals(tmp_path):
    result = target.independent_target(tmp_path, quick=True)
    assert all(f["ok"] for f in result["figures"].values())
    assert all((tmp_path / p["file"]).is_file() for p in result["images"])
