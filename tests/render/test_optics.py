"""Lenses against OpenCV; rolling shutters against closed forms."""

import pytest
import torch
from tolerances import ROUNDING, assert_near

from gradsim import InputError
from gradsim.render.camera import look_at
from gradsim.render.optics import (
    USED_RADIUS_SHARE,
    Optics,
    OpticsValues,
    distort,
    image_points,
    interpolate,
    radial_limit,
    rays,
    undistort,
)

BROWN = torch.tensor([-0.28, 0.07, 1e-3, -2e-3, 0.01], dtype=torch.float64)
FISHEYE = torch.tensor([0.02, -0.01, 0.003, -0.001], dtype=torch.float64)
LENSES = pytest.mark.parametrize(("k", "fisheye"), [(BROWN, False), (FISHEYE, True)])
K = torch.tensor([[600.0, 0.0, 320.0], [0.0, 590.0, 240.0], [0.0, 0.0, 1.0]], dtype=torch.float64)


@pytest.fixture
def points():
    """Normalized image points (200, 2) over a field of view of 62°."""
    return 1.2 * torch.rand(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 0.6


@LENSES
def test_pixels_are_those_of_opencv(points, k, fisheye):
    cv2 = pytest.importorskip("cv2")
    view = look_at((1.0, -3.0, 1.5), (0.1, 0.2, 0.3), (0.0, 0.0, 1.0), 0.8, 640, 480)
    optics = Optics(fisheye=k) if fisheye else Optics(distortion=k)
    view = type(view)(K, view.R, view.t, 640, 480, optics)
    world = (torch.cat([3 * points, torch.full((200, 1), 3.0).double()], 1) - view.t) @ view.R
    project = cv2.fisheye.projectPoints if fisheye else cv2.projectPoints
    turn = cv2.Rodrigues(view.R.numpy())[0]
    expected = project(world.numpy()[:, None], turn, view.t.numpy()[:, None], K.numpy(), k.numpy())[0]
    pixels, depth = view.project(world)
    assert (pixels - torch.tensor(expected[:, 0])).abs().max() < 1e-10  # [px]
    assert_near(depth, torch.full((200,), 3.0), ROUNDING)


@LENSES
def test_undistorted_points_are_distorted_back(points, k, fisheye):
    assert_near(undistort(distort(points, k, fisheye), k, fisheye), points, ROUNDING)


def test_rays_through_a_lens_can_be_transformed():
    """By the matrix of the camera's rotation."""
    K, pixels = (
        torch.tensor([[80.0, 0, 32], [0, 80, 24], [0, 0, 1]]).double(),
        torch.tensor([[5.5, 7.5], [40.5, 30.5]]).double(),
    )
    k = torch.tensor([-0.2, 0.05, 1e-3, -2e-3, 0.01], dtype=torch.float64)
    R = torch.eye(3, dtype=torch.float64)
    along = 1e-4 * torch.arange(9.0).reshape(3, 3).double().sin()
    slope = torch.func.jacrev(lambda R: rays(K, R, pixels, k))(R)
    secant = (rays(K, R + along, pixels, k) - rays(K, R - along, pixels, k)) / 2
    assert torch.allclose(torch.einsum("niab,ab->ni", slope, along), secant, rtol=0, atol=1e-10)
    assert_near(torch.func.jacfwd(lambda R: rays(K, R, pixels, k))(R), slope, ROUNDING)


def test_points_far_off_the_image_stay_there():
    k = torch.tensor([-0.3, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)  # r (1 - 0.3 r²) turns back at r = 1.054
    assert radial_limit(k).item() == pytest.approx(USED_RADIUS_SHARE / 0.9**0.5, rel=0.02)
    r = torch.linspace(0, 10, 400).double()
    bent = distort(torch.stack([r, torch.zeros_like(r)], 1), k)[:, 0]
    assert (bent.diff() > 0).all()


def test_a_body_at_constant_speed_is_sheared_by_a_rolling_shutter():
    # x = x₀ + v_x τ, y = y₀ + v_y τ, τ = T (y/n − ½): y = (y₀ − v_y T/2)/(1 − v_y T/n)
    T, n, v = 0.02, 480.0, torch.tensor([900.0, 700.0]).double()
    times = torch.linspace(-1, 1, 5).double() / 60
    start = torch.rand(1, 1, 1, 30, 2, generator=torch.Generator().manual_seed(1)).double() * n
    samples = start + v * times[:, None, None]
    zero = torch.zeros(1).double()
    pixels = image_points(
        samples, times[None], K[None], Optics(readout=T), OpticsValues(None, zero + T, zero), (480, 640)
    )
    y = (start[..., 1] - v[1] * T / 2) / (1 - v[1] * T / n)
    x = start[..., 0] + v[0] * T * (y / n - 0.5)
    assert_near(pixels, torch.stack([x, y], -1)[:, 0], ROUNDING)


def test_an_exposure_is_centered_on_the_stamp():
    times = torch.linspace(-1, 1, 5).double() / 60
    samples = 100 * times[:, None, None].expand(1, 1, -1, 3, 2) + 200
    numbers = OpticsValues(None, torch.zeros(1).double(), torch.tensor([0.03], dtype=torch.float64))
    pixels = image_points(samples, times[None], K[None], Optics(exposure=0.03, instants=3), numbers, (480, 640))
    assert_near(pixels[0, :, 0, 0], torch.tensor([199.0, 200.0, 201.0]), ROUNDING)


def test_parabolas_of_samples_are_exact_and_an_impact_disturbs_one_interval():
    t = torch.tensor([[-2.0, -1.0, 0.0, 1.5, 2.5, 3.5]]).double() / 120  # as of a variable frame rate
    tau = torch.linspace(t[0, 0].item(), t[0, -1].item(), 40).double()[None, None]
    path = lambda s: torch.stack([3 + 50 * s - 4000 * s**2, -7 * s], -1)
    points, speeds = interpolate(path(t)[None, :, :, None].expand(-1, -1, -1, 40, -1), t, tau)
    assert_near(points, path(tau), ROUNDING)
    assert_near(speeds[..., 0], 50 - 8000 * tau, ROUNDING)
    bounce = lambda s: path(s) + torch.where(s > 0.004, 900 * (s - 0.004), 0.0)[..., None]  # between two samples
    points, _ = interpolate(bounce(t)[None, :, :, None].expand(-1, -1, -1, 40, -1), t, tau)
    off = (points - bounce(tau)).abs().amax(-1)
    assert off[(tau > 0) & (tau < t[0, 3])].max() > 0.5
    # next to it, at worst a chord in place of the parabola: |acceleration| h²/8
    assert off[(tau < 0) | (tau > t[0, 3])].max() < 8000 / 120**2 / 8
    assert off[(tau < t[0, 1]) | (tau > t[0, 4])].max() < 1e-12


def test_optics_that_cannot_be_are_refused():
    with pytest.raises(InputError, match=r"`distortion` is \[0.5\]; expected 5 finite coefficients"):
        Optics(distortion=torch.tensor([0.5]))
    with pytest.raises(InputError, match="a lens has one of them"):
        Optics(distortion=BROWN, fisheye=FISHEYE)


def test_a_resized_image_has_the_same_lines():
    view = look_at((0.0, -3.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.8, 640, 480)
    view = type(view)(view.K, view.R, view.t, 640, 480, Optics(readout=0.02))
    assert view.resized(320, 320).optics.span(320, 320) == (40.0, 280.0)
    assert view.resized(320, 320).resized(640, 640).optics.span(640, 640) == (80.0, 560.0)
    assert view.pinhole.optics is None
