"""The kernel of lenses and shutters against the definition in PyTorch, and its derivatives against differences."""

import pytest
import torch
from tolerances import ROUNDING, assert_near

from gradsim.geometry.surface import Appearance, Part
from gradsim.render.coverage.coverage import coverage
from gradsim.render.coverage.optical_projection import OpticsTangent, edge_pieces, project_optics
from gradsim.render.coverage.subdivision import subdivide
from gradsim.render.optics import Optics, OpticsValues, image_points

WORLDS, FRAMES, SAMPLES, VERTICES, UNKNOWNS, SIZE = 2, 3, 5, 7, 4, (480, 640)
STEP = 2e-6  # of the differences: small enough that no vertex takes another parabola
LENSES = {
    "brown": {"distortion": torch.tensor([-0.28, 0.07, 1e-3, -2e-3, 0.01]).double()},
    "fisheye": {"fisheye": torch.tensor([0.02, -0.01, 0.003, -0.001]).double()},
    "none": {},
}


def case(lens, shutter):
    """Arguments of `project_optics` with derivatives of everything."""
    rng = torch.Generator().manual_seed(3)
    normal = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=rng)
    offsets = (torch.arange(SAMPLES).double() - 2).repeat(FRAMES, 1) / 120
    offsets[1, 3:] *= 1.3  # a longer interval, as of a variable frame rate
    t = offsets[None, :, :, None, None]
    size = WORLDS, FRAMES, 1, VERTICES, 2
    samples = torch.rand(*size, dtype=torch.float64, generator=rng) * torch.tensor([640.0, 480.0])
    samples = samples + 900 * normal(*size) * t + 4500 * normal(*size) * t**2 + 2e5 * normal(*size) * t**3
    moving = 100 * normal(WORLDS, UNKNOWNS, FRAMES, SAMPLES, VERTICES, 2)
    K = torch.tensor([[600.0, 3.0, 320.0], [0.0, 590.0, 240.0], [0.0, 0.0, 1.0]]).double()[None]
    dK = torch.zeros(WORLDS, UNKNOWNS, 3, 3).double()
    dK[:, 0, 0, 0], dK[:, 1, 1, 1], dK[:, 2, 0, 2], dK[:, 3, 1, 2] = 50, 30, 10, 20
    optics = Optics(**lens, readout=0.02, exposure=0.01, instants=3)
    scales = torch.tensor([[1.0], [0.9]]).double()
    k = None if optics.coefficients is None else optics.coefficients * scales
    dk = None if k is None else 0.1 * normal(WORLDS, UNKNOWNS, k.shape[1])
    values = OpticsValues(k, torch.tensor([0.02, -0.03]).double(), torch.tensor([0.01, 0.012]).double())
    along = OpticsTangent(dK, dk, 0.01 * normal(WORLDS, UNKNOWNS), 0.01 * normal(WORLDS, UNKNOWNS))
    if not shutter:
        samples, moving, offsets = samples[:, :, 2:3], moving[:, :, :, 2:3], None
    return samples, moving, offsets, K.expand(WORLDS, 3, 3), optics, values, along


@pytest.mark.parametrize("lens", LENSES)
@pytest.mark.parametrize("shutter", [False, True])
def test_kernel_is_the_definition_and_so_are_both_derivatives(lens, shutter):
    samples, moving, offsets, K, optics, values, along = case(LENSES[lens], shutter)
    screen, slope = project_optics(samples, moving, offsets, K, optics, values, along, SIZE)
    assert_near(screen, image_points(samples, offsets, K, optics, values, SIZE), ROUNDING)
    weight = torch.randn(screen.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    for u in range(UNKNOWNS):

        def shifted(e, u=u):
            k = None if values.coefficients is None else values.coefficients + e * along.coefficients[:, u]
            times = values.readout + e * along.readout[:, u], values.exposure + e * along.exposure[:, u]
            numbers = OpticsValues(k, *times)
            return image_points(samples + e * moving[:, u], offsets, K + e * along.K[:, u], optics, numbers, SIZE)

        differences = (shifted(STEP) - shifted(-STEP)) / (2 * STEP)
        # rounding of 1e-13 px over the step, of slopes of some hundred px
        assert (slope[:, u] - differences).abs().max() < 1e-6 * differences.abs().max()
        e = torch.zeros((), dtype=torch.float64, requires_grad=True)
        (adjoint,) = torch.autograd.grad((shifted(e) * weight).sum(), e)
        assert_near(adjoint, (slope[:, u] * weight).sum(), ROUNDING, scale=slope[:, u].abs().sum().item())


def test_vertices_that_are_not_drawn_are_nan_or_off_the_image_without_derivatives():
    samples, moving, offsets, K, optics, values, along = case(LENSES["brown"], True)
    samples[0, 1, 2, 3] = -1e6
    screen, slope = project_optics(samples, moving, offsets, K, optics, values, along, SIZE)
    assert (screen[0, 3:6, 3] == -1e6).all() and (slope[0, :, 3:6, 3] == 0).all()
    missing = torch.where(samples < -1e5, torch.nan, samples)
    k = values.coefficients.clone().requires_grad_()
    pixels = image_points(missing, offsets, K, optics, OpticsValues(k, values.readout, values.exposure), SIZE)
    assert pixels[0, 3:6, 3].isnan().all() and pixels.isnan().sum() == 6
    assert torch.autograd.grad(pixels.nansum(), k)[0].isfinite().all()


def test_edges_that_a_lens_bends_are_cut_until_straight_pieces_are_right():
    corners = torch.tensor([[60.0, 60.0], [260.0, 60.0], [260.0, 210.0], [60.0, 210.0]]).double()
    faces = torch.tensor([[0, 1, 2], [0, 2, 3]])
    part = Part("sheet", slice(0, 4), faces, False, Appearance())
    optics, zero = Optics(distortion=LENSES["brown"]["distortion"]), torch.zeros(1).double()
    values = OpticsValues(optics.distortion[None], zero, zero)
    K = torch.tensor([[[300.0, 0.0, 160.0], [0.0, 300.0, 120.0], [0.0, 0.0, 1.0]]]).double()
    samples = corners[None, None, None]
    (pieces,) = edge_pieces(samples, None, K, optics, values, (240, 320), (part,))
    assert pieces == 8

    def drawn(count):
        points, (cut,) = subdivide(samples, (part,), [count])
        pixels = image_points(points, None, K, optics, values, (240, 320))
        return coverage(pixels, cut.faces, 240, 320, convex=False)

    exact = drawn(64)
    assert (drawn(pieces) - exact).abs().max() < 0.06  # of a pixel's area, by edges within 0.05 px
    assert (drawn(1) - exact).abs().max() > 0.9
    fine = subdivide(samples, (part,), [4])[1][0]
    assert len(fine.faces) == 32 and fine.size == 25
