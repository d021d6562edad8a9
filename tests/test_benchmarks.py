"""The peers of the benchmark compute the same motion, and the cube does touch the ground."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
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
