"""Videos of a fit that are made some frames at a time, against those of all frames at once."""

from functools import partial

import numpy as np
import pytest
import torch
from fit_cases import throw

from gradsim import video as videos
from gradsim.app.commands import fit_job
from gradsim.app.commands.fit_job import write_clip_videos, write_residual_video
from gradsim.identification import synthetic
from gradsim.identification.observation import from_video as from_video_module
from gradsim.identification.observation.from_video import from_video
from gradsim.physics.model import Model
from gradsim.video import windowed

SCENE = throw()
PIXELS = 24 * 24  # of a frame


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    """The motion and a film of it."""
    with torch.no_grad():
        trajectory = Model(SCENE).rollout()
    frames = synthetic.noisy_8bit(synthetic.render_video(SCENE, trajectory), 1 / 255, 0)
    path = tmp_path_factory.mktemp("film") / "v.webm"
    videos.write(path, frames, SCENE.timing.fps)
    return trajectory, path


def test_parts_of_a_film_make_the_videos_of_all_of_it(film, tmp_path, monkeypatch):
    trajectory, path = film
    monkeypatch.setattr(fit_job, "DRAWN_PIXELS", 3 * PIXELS)
    for name, pixels in (("whole", 100 * PIXELS), ("parts", 3 * PIXELS)):
        monkeypatch.setattr(fit_job, "WHOLE_PIXELS", pixels)
        (tmp_path / name).mkdir()
        observed, mask = write_clip_videos(tmp_path / name, SCENE, trajectory, path)
        assert len(observed) == len(trajectory.times) and (mask is None) == (name == "parts")
        np.testing.assert_array_equal([observed[k] for k in range(len(observed))], videos.read(path).frames)
    for kind in ("side_by_side.webm", "overlay.webm"):
        whole, parts = (videos.read(tmp_path / name / kind) for name in ("whole", "parts"))
        np.testing.assert_array_equal(parts.frames, whole.frames)
        np.testing.assert_array_equal(parts.times, whole.times)


@pytest.mark.parametrize("binning", [1, 4])
def test_residuals_of_windows_are_drawn_in_the_pixels_that_are_compared(film, tmp_path, monkeypatch, binning):
    trajectory, path = film
    monkeypatch.setattr(windowed, "MARGIN", 4)
    monkeypatch.setattr(windowed, "GRID", 4)
    monkeypatch.setattr(from_video_module, "read_windows", partial(windowed.read_windows, whole_pixels=PIXELS))
    masks = from_video(SCENE, path, noise=1 / 255)
    assert masks.windows and masks.windows.shape != (24, 24)
    masks = masks.binned(binning) if binning > 1 else masks
    drawn = []
    monkeypatch.setattr(fit_job, "write_residuals", lambda folder, observed, mask, fps: drawn.append(mask))
    for mask in (None, np.zeros((len(trajectory.times), 24, 24))):
        write_residual_video(tmp_path, masks, trajectory, mask, SCENE.timing.fps)
        left = (drawn.pop() - masks.masks.numpy())[:, 1:-1, 1:-1] / masks.sigma
        assert left.shape[1] > 0 and np.abs(left).max() < 8  # noise: the outline of the fit is that of the film
    monkeypatch.undo()
    write_residual_video(tmp_path, masks, trajectory, None, SCENE.timing.fps)
    assert len(videos.read(tmp_path / "residuals.webm").frames) == len(trajectory.times)
