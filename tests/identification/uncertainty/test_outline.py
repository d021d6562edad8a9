"""Error bars of masks whose outlines are off, on a ball that other code moves and draws."""

import math

import numpy as np
import pytest
import torch
from wavy_ball import ANGLES, DISTANCE, FOCAL, NAMES, centres, masks, scene, waves

import gradsim as gs
from gradsim.errors import InputError, Status
from gradsim.identification.api import model_for
from gradsim.identification.observation.base import Masks
from gradsim.identification.problem import Problem
from gradsim.identification.uncertainty.outline import (
    HARMONICS,
    OutlineErrors,
    fit_outline,
    outline_length,
    sums_by_frame,
)
from gradsim.identification.unknowns import Space
from gradsim.render.silhouettes import Silhouettes

TRUTH = (1.0, 4.0, -9.81)
WAVY, WIDE = 0.3, 0.3  # px


def fitted(seed: int, drag: float = 0.0, truth=TRUTH, frames: int = 24) -> gs.Fit:
    rng = np.random.default_rng([17, seed])
    displacement = WIDE + WAVY * waves(frames, 5.0, 0.5, rng)
    seen = masks(centres(frames, truth, drag), displacement)
    return gs.identify(scene(frames), NAMES, observation=seen, starts=2, seed=seed)


def test_harmonics_of_the_displacement_are_measured():
    """Slope of each against the truth; pixels of an outline that is off by a third of a pixel tell them to some 10 %."""
    rng, frames = np.random.default_rng(1), 12
    displacement = WAVY * waves(frames, 5.0, 0.5, rng)
    space = Space(scene(frames), NAMES)
    problem = Problem(model_for(scene(frames), space), masks(centres(frames, TRUTH), displacement), space)
    measured = sums_by_frame(problem, space.inner(torch.tensor([TRUTH]).double())[0]).modes.numpy()
    angle = 2 * np.pi * np.arange(ANGLES) / ANGLES
    for k in range(1, HARMONICS - 1):
        for column, wave, sign in ((2 * k - 2, np.cos, 1), (2 * k - 1, np.sin, -1)):  # up is negative in the image
            true = 2 * sign * (displacement * wave(k * angle)).mean(1)
            assert measured[:, column] @ true / (true @ true) == pytest.approx(1, abs=0.15)
    mean = displacement.mean(1)
    assert np.abs(measured[:, -1] - mean).max() < 0.15


def test_the_length_of_an_outline_is_that_of_its_circle():
    image = masks(centres(1, TRUTH), np.zeros((1, ANGLES))).masks
    radius = math.sqrt(image.sum().item() / math.pi)
    assert outline_length(image).sum().item() == pytest.approx(2 * math.pi * radius, rel=0.02)


def test_a_wavy_outline_gives_error_bars_that_hold_and_its_width():
    """With the noise of a pixel, 1/255, the same masks are a mismatch, dozens of stated standard deviations off."""
    fit = fitted(0)
    assert fit.status == Status.OK
    for name, true in zip(fit.unknowns, TRUTH, strict=True):
        e = fit.unknowns[name]
        assert abs(e.value - true) < 4 * e.std and e.std < 0.02 * abs(true)
    outline = fit.result()["outline"]
    assert outline["offset"] == pytest.approx(WIDE, abs=0.15) and outline["size"] == pytest.approx(WAVY, abs=0.1)
    assert fit.residual_diagnostics is not None and np.nanmean(fit.residual_diagnostics.chi2_per_n) == pytest.approx(
        1, abs=0.1
    )
    assert outline["explained"] and f"{outline['size']:.2g} px" in outline["words"]
    assert outline["causes"] == []


def test_a_shift_that_all_frames_share_is_within_the_error_bars():
    """Of a tenth of a pixel, as by the place of a codec's colors. The start is known, so that the speed absorbs it."""
    waves_of = 0.02 * waves(24, 5.0, 0.5, np.random.default_rng([17, 0]))
    seen = masks(centres(24, TRUTH) + [0.1 * DISTANCE / FOCAL, 0.0], waves_of)
    fit = gs.identify(scene(24), NAMES, observation=seen, starts=2, seed=0)
    assert fit.status == Status.OK
    for name, true in zip(fit.unknowns, TRUTH, strict=True):
        e = fit.unknowns[name]
        assert abs(e.value - true) < 2 * e.std and e.std < 0.02 * abs(true)


def test_motion_that_the_model_cannot_make_is_no_noise_of_outlines():
    """Linear drag of 0.8 per second, which the scene lacks, bends the path by some pixels."""
    fit = fitted(0, drag=0.8)
    assert fit.status == Status.MISMATCH
    assert not fit.outline["explained"] and "does not move like the video" in fit.outline["words"]
    assert fit.residual_diagnostics is not None and fit.residual_diagnostics.words == fit.outline["words"]


def test_a_body_of_the_wrong_size_is_no_wide_mask():
    seen = masks(centres(16, TRUTH), np.full((16, ANGLES), 1.6))
    fit = gs.identify(scene(16), NAMES, observation=seen, starts=2)
    assert fit.status == Status.MISMATCH and "size, distance" in fit.outline["words"]


def test_what_outlines_cannot_be_estimated_for_is_refused():
    seen = masks(centres(12, TRUTH), np.zeros((12, ANGLES)))
    with pytest.raises(InputError, match="one shot without priors"):
        gs.identify(scene(12), NAMES, observation=seen, shooting=gs.MultipleShooting(window=6))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_intervals_of_wavy_outlines_hold_the_truth():
    """40 films, three unknowns each: 114 of 120 at 95 %, whose standard deviation is 4 where a film's three go together."""
    held, scores = [], []
    for seed in range(40):
        rng = np.random.default_rng([18, seed])
        truth = rng.uniform(0.8, 1.2), rng.uniform(3.6, 4.2), rng.uniform(-11, -9)
        fit = fitted(seed, truth=truth)
        for e, true in zip(fit.unknowns.values(), truth, strict=True):
            held.append(e.interval95[0] <= true <= e.interval95[1])
            scores.append((e.value - true) / e.std)
    assert 0.88 <= np.mean(held) <= 1 and 0.7 < np.sqrt(np.mean(np.square(scores))) < 1.3


def test_error_bars_do_not_depend_on_the_sigma_of_the_masks():
    """σ is a scale: residuals and derivatives are divided by it, and errors of outlines are in pixels."""
    seen = masks(centres(12, TRUTH), WAVY * waves(12, 5.0, 0.5, np.random.default_rng(2)))
    space = Space(scene(12), NAMES)
    model, covariances = model_for(scene(12), space), []
    for sigma in (0.1, 0.01):
        seen = Masks(seen.masks, sigma, seen.silhouettes)
        seen.outline_noise = True
        covariances.append(
            fit_outline(Problem(model, seen, space), space.inner(torch.tensor([TRUTH]).double())[0])[2].covariance
        )
    assert torch.allclose(covariances[0], covariances[1], rtol=1e-6)


def test_bodies_that_are_apart_have_no_common_outline():
    """Each lies within a few degrees of their common centre, in which harmonics cannot be told apart."""
    one = scene(10).model_dump(exclude_unset=True)
    ball = one["bodies"]["ball"] | {"shape": {"sphere": {"radius": 0.12}}}
    places = {"ball": [-0.9, 0, 0.2], "other": [0.9, 0, 0.9]}
    two = gs.Scene.parse(one | {"bodies": {name: ball | {"position": place} for name, place in places.items()}})
    space = Space(two, NAMES[:2])
    model, silhouettes = model_for(two, space), Silhouettes.of(two)
    with torch.no_grad():
        trajectory = model.rollout()
        seen = Masks(silhouettes.union(trajectory.surface, trajectory.values)[0], 0.1, silhouettes)
    with pytest.raises(InputError, match="Bodies that are apart"):
        fit_outline(Problem(model, seen, space), space.inner(torch.tensor([[1.0, 4.0]]).double())[0])


@pytest.mark.parametrize(
    ("size", "binning", "explained"), [(1.0, 1, True), (2.0, 1, False), (2.0, 2, True), (3.9, 5, False)]
)
def test_outlines_that_are_far_off_are_those_of_another_motion(size, binning, explained):
    """Far off, harmonics cannot be told apart, and no shift exceeds them. Fitted pixels may be large, and hide less than their size."""
    errors = OutlineErrors(torch.eye(1), 0.1, 0.01, size, 0.5 * size, 1.1, 5.0, 0.5, binning)
    assert errors.explained == explained and ("does not move like the video" in errors.words) == (not explained)
