"""A film with copies and gaps is worth what its good frames are worth."""

import numpy as np
import pytest
import torch
from fit_cases import THROW, THROW_TRUTH, throw

from gradsim import video as videos
from gradsim.identification import synthetic
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.from_video import from_video
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.unknowns import Space

SCENE = throw(frames=12, size=20)
FPS = SCENE.timing.fps
HELD, LOST = [3, 6, 10], [4, 8]


@pytest.fixture(scope="module")
def clean() -> np.ndarray:
    _, trajectory = synthetic.simulate(SCENE, THROW, THROW_TRUTH)
    return synthetic.noisy_8bit(synthetic.render_video(SCENE, trajectory), 1 / 255, 0)


def spoilt(clean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Three held pictures and two lost ones, with the times of what is left."""
    frames, kept = clean.copy(), np.array([k for k in range(len(clean)) if k not in LOST])
    for k in HELD:
        frames[k] = frames[k - 1]
    return frames[kept], kept / FPS


def fitted(seen: Masks) -> tuple[np.ndarray, float]:
    """Scores of the unknowns, and χ²/N, at the best minimum of three starts."""
    problem = Problem(model_for(SCENE, space := Space(SCENE, THROW)), seen, space)
    starts = Population.at(space.draw(np.random.default_rng(0), 3))
    people, _ = descend(problem, starts, seen.frames, "pixels", 40)
    best = people.u[int(people.cost.argmin())]
    (cost,), (A,), _ = problem.linearize(best[None], seen.frames)
    truth = space.inner(torch.tensor([[THROW_TRUTH[n] for n in space.names]], dtype=torch.float64))[0]
    pixels = (seen.weight > 0).sum().item()  # all of them have noise, on the outline or not
    return ((best - truth) / torch.linalg.inv(A).diagonal().sqrt()).numpy(), cost.item() / pixels


def test_copies_and_gaps_do_not_count(tmp_path, clean):
    frames, times = spoilt(clean)
    videos.write(tmp_path / "v.webm", frames, times=times)
    seen = from_video(SCENE, tmp_path / "v.webm")
    bad = sorted(HELD + LOST)
    assert seen.frames == 12 and torch.nonzero(seen.weight.amax((1, 2)) == 0)[:, 0].tolist() == bad
    assert seen.notes["frames_dropped"] == LOST and seen.notes["frames_repeated"] == HELD
    assert seen.notes["frames_used"] == 7


@pytest.mark.slow
def test_a_video_with_copies_and_gaps_fits_as_well_as_a_clean_one(tmp_path, clean):
    frames, times = spoilt(clean)
    videos.write(tmp_path / "clean.webm", clean, FPS)
    videos.write(tmp_path / "spoilt.webm", frames, times=times)
    whole, treated = (from_video(SCENE, tmp_path / f"{name}.webm") for name in ("clean", "spoilt"))
    images = treated.masks[np.rint(times * FPS).astype(int)]  # one after the other, as if each were an instant
    untreated = Masks(images, whole.sigma, whole.silhouettes)
    for seen in (whole, treated):
        scores, misfit = fitted(seen)
        assert np.abs(scores).max() < 3.3 and misfit < 1.1  # white cannot get brighter, so half of its noise is cut
    scores, misfit = fitted(untreated)
    assert np.abs(scores).max() > 20 and misfit > 10
