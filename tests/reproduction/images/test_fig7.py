"""Fig. 7: what its films show, how it counts, and its quick form."""

import numpy as np
import pytest
import torch
from tolerances import ROUNDING, assert_near

from gradsim.physics.model import Model
from gradsim.render.renderer import Renderer
from gradsim.render.shading.shading import Shading
from gradsim_reproduction.images import fig7


def test_an_error_is_settled_when_it_is_small_to_the_end():
    error = np.array([0.5, 0.005, 0.02, 0.003, 0.001])
    errors = np.stack([error, np.full(5, 0.5), np.full(5, 0.0)], -1)[None]
    np.testing.assert_array_equal(fig7.settling_iteration(errors), [[3, np.inf, 0]])


def test_the_table_says_what_share_came_home_and_how_fast():
    near, far = [0.5, 0.004, 0.004], [0.5, 0.5, 0.3]  # of two starts, the first of which comes home by colours
    records = [
        {"view": "softras, rgb", "optimiser": "sgd", "variant": variant, "errors": np.transpose([one, far]).tolist()}
        for variant, one in (("colour", far), ("shading", near), ("texture", near))
    ]
    rows = fig7.rows(fig7.summary(records), [("softras, rgb", "sgd")])
    assert [row["name"] for row in rows] == [
        f"SoftRas without opacity, momentum: {variant}" for variant in ("only colour", "shading", "texture")
    ]
    assert [row["note"] for row in rows] == ["0 % within 1 %", *["50 % within 1 %, after 1 iterations"] * 2]
    assert rows[0]["ours"] == pytest.approx(0.3) and rows[1]["ours"] == pytest.approx(0.152)
    assert all(row["paper"] is None for row in rows)


def test_truths_and_starts_cover_the_same_range_and_do_not_know_one_another():
    truths, starts = (
        torch.cat([fig7.drawn_mass(n, 0, stream, 1) for n in range(400)]) for stream in ("truth", "start")
    )
    for drawn in (truths, starts):
        assert drawn.min() > 2 and drawn.max() < 12
        assert abs(drawn.mean().item() - 7) < 4 * 10 / 12**0.5 / 20  # four standard deviations of a mean of 400
    assert abs(torch.corrcoef(torch.stack([truths, starts]))[0, 1].item()) < 4 / 20


def test_a_texture_has_all_colors_and_goes_on_at_its_edges():
    painting = fig7.texture(np.random.default_rng(0))
    assert painting.min() > 0 and painting.max() < 1 and (painting.std((1, 2)) > 0.2).all()
    steps = np.abs(np.diff(painting, axis=2)).mean()
    assert np.abs(painting[:, :, 0] - painting[:, :, -1]).mean() < 1.5 * steps


def test_only_opacity_shows_the_mass_in_the_paper_s_images_of_one_colour(tmp_path):
    scene = fig7.thrown(0, 0, tmp_path)
    render = Renderer.of(scene, "softras", shading=Shading.paper("colour"))
    mass = torch.tensor([4.0, 5.0]).double().requires_grad_()
    seen = render.output(Model(scene).rollout({"body.mass": mass}, frames=8).surface)
    by_colour, by_opacity = (
        torch.autograd.grad((x[0] - x[1].detach()).square().sum(), mass, retain_graph=True)[0][0].abs().item()
        for x in (seen.rgb, seen.alpha)
    )
    assert by_colour < 1e-6 * by_opacity


def test_a_descent_comes_nearer_to_the_mass_and_keeps_its_course(tmp_path):
    scene = fig7.thrown(1, 0, tmp_path)
    how = {"view": "aa", "variant": "texture", "optimiser": "adam"}
    record = fig7.descend(scene, 1, how, 0, 2, 12)
    errors, losses = np.array(record["errors"]), np.array(record["losses"])
    assert errors.shape == losses.shape == (13, 2)
    assert (losses[-1] < 0.5 * losses[0]).all()
    start = fig7.drawn_mass(1, 0, "start", 2).numpy()
    assert_near(errors[0], np.abs(start / record["truth"] - 1), ROUNDING)


@pytest.mark.slow
def test_the_quick_form_draws_three_curves_and_goes_on_after_an_interruption(tmp_path):
    result = fig7.fig7(tmp_path, quick=True)
    assert {f"mass_error_{v} (aa, adam)" for v in fig7.VARIANTS} <= result["figures"].keys()
    assert all((tmp_path / p["file"]).is_file() for p in result["images"])
    assert "exact coverage, Adam: texture" in (tmp_path / "table.md").read_text()
    lines = (tmp_path / "descents.jsonl").read_text()
    assert fig7.fig7(tmp_path, quick=True)["figures"] == result["figures"]
    assert (tmp_path / "descents.jsonl").read_text() == lines
