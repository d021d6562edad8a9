"""Fig. 12: which frames its films have, what it says of a drifting cube, and its quick form."""

import numpy as np
import pytest

from gradsim_reproduction.landscapes import fig12


def test_every_video_has_the_frames_of_its_rate_and_length():
    found = {fig12.video_key(span, rate): frames for span, rate, frames in fig12.choices()}
    assert len(found) == len(fig12.SPANS) * (len(fig12.RATES) + 1)
    for span in fig12.SPANS:
        for rate in fig12.RATES:
            frames = found[fig12.video_key(span, rate)]
            assert frames[0] == 0 and frames[-1] == round(span * 120) and len(frames) == round(span * rate) + 1
        assert found[fig12.video_key(span, fig12.ENDS)] == [0, round(span * 120)]


@pytest.fixture(scope="module")
def drift() -> dict:
    return fig12.curves("drift", 0.1)["videos"]


@pytest.mark.slow
def test_the_last_frame_of_a_drift_steepens_with_the_square_of_the_time(drift):
    # x = J t/m, so ∂I/∂m ∝ t where the outline moves by less than a pixel or two and keeps its size
    steep = [drift[fig12.video_key(span, fig12.ENDS)]["curvature"] for span in fig12.SPANS]
    np.testing.assert_allclose(np.array(steep) / np.square(fig12.SPANS), steep[-1] / 4, rtol=0.15)


def test_twice_the_frames_tell_the_mass_by_the_root_of_two_better(drift):
    coarse, fine = (drift[fig12.video_key(2.0, rate)] for rate in (60, 120))
    assert coarse["bound"] / fine["bound"] == pytest.approx(2**0.5, rel=0.01)  # 121 and 241 frames
    assert coarse["curvature"] == pytest.approx(fine["curvature"], rel=0.02)  # a mean over frames


@pytest.mark.slow
def test_the_curvature_is_that_of_the_curve(drift):
    curve, step = drift[fig12.video_key(2.0, 30)], 0.1
    mass = np.array(fig12.curves("drift", step)["mass"])
    k = int(np.argmin(curve["loss"]))
    around = np.array(curve["loss"])[k - 1 : k + 2]
    secant = (around[0] - 2 * around[1] + around[2]) / step**2
    # a third derivative cancels; the fourth, by masses 10 % apart in x ∝ 1/m, is some (step/m)² of it
    assert mass[k] == pytest.approx(1) and curve["curvature"] == pytest.approx(secant, rel=0.1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_form_counts_minima_and_goes_on_after_an_interruption(tmp_path):
    result = fig12.fig12(tmp_path, quick=True)
    figures = result["figures"]
    assert all(figures[f"minima_drift_{fig12.video_key(span, 30)}"]["value"] == 1 for span in fig12.SPANS)
    assert figures["minima_tumble_2000ms_30hz"]["value"] > 5
    assert all((tmp_path / p["file"]).is_file() for p in result["images"])
    lines = (tmp_path / "landscapes.jsonl").read_text()
    assert fig12.fig12(tmp_path, quick=True)["figures"] == figures
    assert (tmp_path / "landscapes.jsonl").read_text() == lines
