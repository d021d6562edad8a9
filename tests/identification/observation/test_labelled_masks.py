"""Bodies of several colours in one film: what each takes of the pixels, and what is compared where they meet."""

import numpy as np
import pytest
import torch
from checks import error

import gradsim as gs
from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.identification.observation.from_video import colors, from_video
from gradsim.identification.observation.labelled_masks import LabelledMasks, color_shares
from gradsim.identification.problem import Problem
from gradsim.identification.unknowns import Space
from gradsim.render.silhouettes import Silhouettes
from gradsim.video import write as write_video

UNKNOWNS = ("arms.first_length:0.3:0.7", "arms.second_mass:0.3:1.5", "arms.second_angle:-2:2")
NAMES = (("arms.first",), ("arms.second",))


@pytest.fixture(scope="module")
def scene():
    """Forty frames from where the bobs cross on the screen."""
    content = gs.Scene.library("double_pendulum").model_dump()
    content["timing"] |= {"frames": 24}
    content["camera"]["size"] = [48, 48]
    return gs.Scene.parse(content)


@pytest.fixture(scope="module")
def problem(scene):
    model, silhouettes = gs.Model(scene), Silhouettes.of(scene)
    seen = silhouettes.shares(model.rollout().surface)[0].detach()
    return Problem(model, LabelledMasks(seen, [1 / 255] * 2, NAMES, silhouettes, noisy=False), Space(scene, UNKNOWNS))


TRUTH = torch.tensor([[np.log(0.5), np.log(0.7), 1.2]], dtype=torch.float64)


def test_shares_are_those_of_the_video(scene):
    trajectory, silhouettes = gs.Model(scene).rollout(), Silhouettes.of(scene)
    expected = silhouettes.shares(trajectory.surface)[0].detach()
    video = synthetic.render_video(scene, trajectory).numpy()
    kinds = colors(scene)
    assert list(kinds.values()) == [["arms.first"], ["arms.second"]]
    found, noise, off = color_shares(video, list(kinds), scene.background)
    assert error(torch.tensor(found), expected) < 1e-12 and off < 1e-12
    drawn = np.random.default_rng(0).normal(size=(1, 200, 200, 3))
    spread = color_shares(drawn + np.array(scene.background), list(kinds), scene.background)[0].std((0, 2, 3))
    np.testing.assert_allclose(spread, noise, rtol=0.03)


def test_truth_explains_float_frames_where_bobs_hide_one_another(problem):
    assert len(problem.observation.overlap_frames) > 3
    assert problem.cost(TRUTH, 24).item() < 1e-15
    assert problem.cost(TRUTH + 0.01, 24).item() > 1e3


def test_every_pixel_counts_once_and_where_things_meet_for_all_together(problem):
    seen = problem.observation
    once = torch.stack([masks.weight for masks in seen.single])
    joint = torch.zeros_like(once[0]).index_copy(0, seen.overlap_frames, seen.combined.weight)
    assert ((once.sum(0) > 0) != (joint > 0)).all()
    hidden = (seen.shares > 1e-9).all(1)
    assert hidden.any() and (joint[hidden] > 0).all()


def test_normal_equations_are_those_of_the_residuals(problem):
    u = TRUTH + torch.tensor([[0.01, -0.02, 0.01]])
    cost, A, g = problem.linearize(u, 24)
    ((r, J),) = problem.jacobian(u, 24)
    assert r.shape == (1, 24 * 3 * 48 * 48)
    assert error(problem.residuals(u).detach(), r) < 1e-12
    assert error((r**2).sum(1), cost) < 1e-12
    assert error((J.mT @ r[..., None])[..., 0], g) < 1e-12 and error(J.mT @ J, A) < 1e-12


@pytest.mark.parametrize("residual", ["pixels", "cdf"])
def test_gradient_matches_a_secant_of_the_cost(problem, residual):
    u, e = TRUTH + 0.01, 1e-6 * torch.tensor([[1.0, -2.0, 0.5]])
    _, _, g = problem.linearize(u, 24, residual)
    secant = (problem.cost(u + e, 24, residual) - problem.cost(u - e, 24, residual)) / 4
    assert (g * e).sum().item() == pytest.approx(secant.item(), rel=1e-5)


def test_parts_of_a_clip_are_those_frames_alone(problem):
    part = problem.observation.slice_frames(5, 20)
    assert torch.equal(part.shares, problem.observation.shares[5:20])
    assert part.overlap_frames.tolist() == [k - 5 for k in problem.observation.overlap_frames.tolist() if 5 <= k < 20]
    apart = min(set(range(24)) - set(problem.observation.overlap_frames.tolist()))
    none = problem.observation.slice_frames(apart, apart + 1)
    assert len(none.overlap_frames) == 0 and none.noise_floor(1).informative > 0


def test_video_of_two_colors_becomes_pieces(tmp_path, scene):
    trajectory = gs.Model(scene).rollout()
    video = (synthetic.render_video(scene, trajectory).numpy() * 255).round().astype(np.uint8)
    write_video(tmp_path / "v.webm", video, scene.timing.fps)
    seen = from_video(scene, tmp_path / "v.webm")
    assert isinstance(seen, LabelledMasks) and seen.names == [("arms.first",), ("arms.second",)]
    exact = Silhouettes.of(scene).shares(trajectory.surface)[0].detach()
    assert (
        seen.shares - exact
    ).abs().max() < 4 * 0.5 / 255 * 5  # half a grey level, through the inverse of the colours
    with pytest.raises(InputError, match="no pixel of a body"):
        write_video(tmp_path / "w.webm", np.full_like(video, 128), scene.timing.fps)
        from_video(scene, tmp_path / "w.webm")


def test_masses_and_damping_of_arms_show_no_scale(scene):
    """All three unknown: the fit names the direction, and what would fix it."""
    unknowns = ["arms.first_mass:0.5:2", "arms.second_mass:0.3:1.5", "arms.damping:0.002:0.05"]
    model, silhouettes = gs.Model(scene), Silhouettes.of(scene)
    seen = silhouettes.shares(model.rollout().surface)[0].detach()
    fit = gs.identify(
        scene, unknowns, observation=LabelledMasks(seen, [1 / 255] * 2, NAMES, silhouettes, False), starts=4
    )
    assert fit.status == "unidentifiable" and fit.rank == 2
    (null,) = fit.null_directions
    assert set(null.combination) == {name.split(":")[0] for name in unknowns}
    np.testing.assert_allclose(list(null.combination.values()), 1 / np.sqrt(3), atol=1e-3)
    assert "one common factor changes nothing" in null.explanation and "`force`" in null.explanation
    values = fit.values
    assert values["arms.second_mass"] / values["arms.first_mass"] == pytest.approx(0.7, rel=1e-6)
    assert values["arms.damping"] / values["arms.first_mass"] == pytest.approx(0.01, rel=1e-4)
