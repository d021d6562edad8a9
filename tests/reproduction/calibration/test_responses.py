"""Row `response` of `reproduce capture`: films by cameras with an unknown gamma."""

import numpy as np
import pytest

from gradsim.video.read import read
from gradsim_reproduction.calibration import film_fits
from gradsim_reproduction.calibration.film_fits import make_film
from gradsim_reproduction.calibration.film_scenes import film
from gradsim_reproduction.calibration.responses import response_figures, response_summary


def record(status: str, z: float, gamma_z: float, ignored: str) -> dict:
    u = {"cube.mass": {"z": z, "inside": abs(z) < 1.96}}
    fit = {"status": status, "unknowns": u, "silent": status == "ok" and abs(z) > 5}
    naive = {"status": ignored, "unknowns": {"cube.mass": {"z": 3 * z, "inside": False}}, "silent": False}
    return {"unknown": fit | {"gamma_z": gamma_z, "gamma_sd": 0.1}, "ignored": naive}


def test_figures_count_intervals_of_ok_fits_and_silent_failures():
    records = [record("ok", 1.0, 1.0, "mismatch"), record("ok", -6.0, -1.0, "ok"), record("mismatch", 3.0, 0.0, "ok")]
    row = response_summary(records)
    assert (row["ok"], row["silent"], row["intervals"], row["ignored_ok"]) == (2, 1, 2, 2)
    assert row["coverage"] == 0.5 and row["gamma_z_rms"] == pytest.approx(np.sqrt(2 / 3))
    assert not response_figures(row)["response: silent_failures"]["ok"]


@pytest.mark.slow  # draws and encodes six videos
def test_pixels_of_a_film_are_light_to_the_power_of_one_over_gamma(tmp_path, monkeypatch):
    """Background of the empty scene, whose noise averages out: 8 frames of 0.5 % to 1.2 %."""
    monkeypatch.setattr(film_fits, "calibrated", lambda *_: (tmp_path, {}))
    levels = []
    for gamma in (1.0, 2.2):
        folder = tmp_path / str(gamma)
        folder.mkdir()
        make_film(film("throw", 101, 0), folder, gamma)
        levels.append(read(folder / "empty.mp4").frames.mean(0) / 255)
    assert np.abs(levels[1] - levels[0] ** (1 / 2.2)).mean() < 0.01
