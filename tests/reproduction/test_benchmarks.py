"""The peers of the benchmarks compute the same motion and gradients, and the bodies do touch the ground."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
rigid = importlib.import_module("rigid")
STEPS = 64


@pytest.fixture(scope="module")
def values():
    return rigid.worlds_of(rigid.Model(rigid.scene()), 3)


@pytest.fixture(scope="module")
def ours(values):
    """x and q of three worlds after some steps."""
    with torch.no_grad():
        cube = rigid.Model(rigid.scene(2, STEPS)).rollout(values)["cube"]
    return cube["x"][:, -1], cube["q"][:, -1]


def test_the_cube_touches_the_ground_in_most_steps():
    share, corners = rigid.contact()
    assert share > 0.9 and corners > 2


def test_plain_pytorch_moves_the_same_cube(values, ours):
    corners = torch.tensor(rigid.scene().bodies["cube"].shape.mesh().vertices)
    x, q, *_ = rigid.torch_rollout(values, corners, STEPS, rigid.DT)
    assert (x - ours[0]).abs().max() < 1e-10 and (q - ours[1]).abs().max() < 1e-10
    assert (x[2] - x[0]).abs().max() > 1e-4  # worlds differ: 0.3 % of the speed over 0.1 m


@pytest.mark.slow  # Newton's kernels take a quarter of a minute to compile
def test_newton_moves_the_same_cube(values, ours):
    """Newton turns by q + h ω q/2 and keeps ω, not L: both differ by O(h²) a step; the rest is its float32."""
    pytest.importorskip("newton", reason='Newton is not installed: pip install "gradsim[newton]"')
    peer = importlib.import_module("newton_cube").NewtonCube(
        values, STEPS, rigid.DT, rigid.SIZE, rigid.STIFFNESS, rigid.FRICTION_STIFFNESS, rigid.FRICTION
    )
    last = torch.tensor(peer.forward().copy()).double()
    moved = (ours[0] - values["cube.position"]).norm(dim=1).min()
    assert (last[:, :3] - ours[0]).norm(dim=1).max() < 1e-3 * moved
    assert (last[:, 3:] - ours[1]).abs().max() < 1e-4


def test_the_renderers_of_the_benchmark_draw_the_same_ball():
    render = importlib.import_module("renderer")
    job = render.Job("320", 24, 2)
    aa, soft, plain = job.ours("aa")[0](), job.ours("silhouette")[0](), render.twin(job)[0]()
    assert aa.shape == (1, 2, 3, 24, 24) and (aa[0, 0] - aa[0, 1]).abs().max() > 0.1  # the second is turned
    assert (soft[0] - plain).abs().max() < 1e-5  # float32 beside float64


def test_box_pixels_are_those_of_the_grown_boxes():
    render = importlib.import_module("renderer")
    job = render.Job("320", 24, 1)
    corners = job.view().screen.detach()[0, job.faces, :2]
    centre = torch.arange(24) + 0.5
    reach = render.REACH
    inside = [
        ((centre >= low) & (centre <= high)).sum()
        for triangle in corners
        for low, high in zip(triangle.amin(0) - reach, triangle.amax(0) + reach, strict=True)
    ]
    assert job.box_pixels() == int((torch.stack(inside[0::2]) * torch.stack(inside[1::2])).sum())


def test_deodr_draws_the_same_ball():
    pytest.importorskip("deodr", reason='DEODR is not installed: pip install "gradsim[bench]"')
    render = importlib.import_module("renderer")
    job = render.Job("320", 96, 1)
    theirs, ours = render.deodr(job)[0](), job.ours("aa")[0]()[0, 0].permute(1, 2, 0)
    # its colours are not corrected for perspective, and its edges are blurred
    assert (torch.tensor(theirs) - ours).abs().mean() < 0.01


@pytest.mark.parametrize("newton", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["alone", "and Newton"])
def test_peers_take_the_same_gradients_of_the_soft_box(newton, monkeypatch):
    """Without damping the laws are one; what is left are 20 steps of rounding in float32, which stiff elements grow."""
    solid = importlib.import_module("solid")
    if not newton:
        monkeypatch.setattr(solid, "has_newton", lambda lines: False)
    errors = solid.agreement(100, 20)
    assert newton <= ("newton" in errors) or not solid.has_newton([])
    assert "gradsim" in errors and max(errors.values()) < 1e-4


def test_the_soft_box_lies_on_the_ground_and_slides():
    solid = importlib.import_module("solid")
    box = solid.soft_box(100)
    last = solid.ours(box, 2, 100).last()[0]
    assert (last[:, 2] < 0).sum() >= 9  # half of its lowest layer
    assert (last[:, 0] - torch.tensor(box.x[:, 0])).mean() > 0.015  # 0.025 m at 1 m/s, less what friction takes


def test_bare_launches_have_the_gradients_of_the_operation():
    solid = importlib.import_module("solid")
    kept, frames = (solid.ours(solid.soft_box(100), *split) for split in ((7, 1), (3, 3)))
    forward, backward = kept.kernels()
    forward(), backward()
    adjoint = backward()  # of rows of x, y, z and a zero
    found = kept.run()
    assert torch.equal(adjoint[:, : found[0].shape[1], :3], found[0])
    assert all(torch.equal(a, b) for a, b in zip(found, frames.run(), strict=True))  # with states recomputed


def test_growth_is_the_exponent_of_a_power_law():
    assert importlib.import_module("solid").growth({n: 3.0 * n**1.5 for n in (10, 100, 1000)}) == pytest.approx(1.5)


@pytest.mark.slow
def test_newton_throws_the_same_sheet():
    """Air alone tells the two apart: it slows either by less than 10 m/s², so by 1.4 mm in 32 steps of 1/1920 s."""
    pytest.importorskip("newton", reason='Newton is not installed: pip install "gradsim[newton]"')
    peer, cloth = importlib.import_module("newton_particles"), importlib.import_module("cloth")
    sheet = cloth.cloth_sheet(64)
    theirs = peer.NewtonParticles(peer.cloth(sheet), 32, cloth.DT, sheet.weights).forward().mean(0)
    ours = cloth.ours(sheet, 2, 32).last()[0].mean(0)
    assert (ours - torch.tensor(theirs)).norm() < 1.4e-3
    assert (ours - torch.tensor(sheet.x.mean(0))).norm() > 0.08


def test_the_gear_of_the_benchmark_rolls():
    gear = importlib.import_module("gear")
    rollout = gear.iteration(31)
    last, start = rollout.last()[0], rollout.inputs[0][0]
    assert len(rollout.program.groups[0].index) == 1152
    assert 0.5 < (last[:, 0] - start[:, 0]).mean() < 1.5  # 1 s at 1.5 m/s, less what the ground takes
    assert last[:, 2].min() > -0.01  # its heaviest vertex, 0.056 kg, goes 3 √(m/k_e) = 7 mm deep at 3 m/s


def test_plain_pytorch_carries_the_same_smoke():
    """One scheme in three ways, so gradients differ by rounding."""
    found = {name: run() for name, run in importlib.import_module("smoke").cases(24).items()}
    ours = found["gradsim"]
    for name in ("torch, gather", "torch, grid_sample"):
        assert (found[name] - ours).abs().max() < 1e-9 * ours.abs().max(), name
