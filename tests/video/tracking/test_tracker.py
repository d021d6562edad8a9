"""Tracks of texture: images drawn by OpenCV's warps and projections, whose motion is known."""

import cv2
import numpy as np
import pytest

from gradsim.errors import InputError
from gradsim.video.tracking.match import Image, Patch, match
from gradsim.video.tracking.tracker import FLOOR, textured_points, track

HEIGHT, WIDTH, NOISE = 120, 160, 2.0


def texture(rng, height=HEIGHT, width=WIDTH):
    """Gray noise of several scales."""
    layers = [cv2.GaussianBlur(rng.standard_normal((height, width)), (0, 0), s) for s in (1.2, 2.5, 5)]
    total = sum(layer / layer.std() for layer in layers)
    return np.clip(128 + 45 * total / total.std(), 0, 255)


def video(images, rng, noise=NOISE):
    noisy = [image + noise * rng.standard_normal(image.shape) for image in images]
    return np.repeat(np.clip(np.round(noisy), 0, 255).astype(np.uint8)[..., None], 3, -1)


def shifted(base, maps):
    """Images of a large texture by affine maps (2, 3) from its pixels to those of the image, pixel centers at whole numbers."""
    big = base.astype(np.float32)
    draw = lambda M: cv2.warpAffine(
        big, M, (4 * WIDTH, 4 * HEIGHT), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT
    )
    scale = np.array([[4.0, 0, 1.5], [0, 4, 1.5], [0, 0, 1]])
    return [
        cv2.resize(draw((scale @ np.vstack([M, [0, 0, 1]]))[:2]), (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
        for M in maps
    ]


def turning(k):
    """A slow turn with a drift about the middle, as a map of pixels of frame 0 to those of frame k."""
    a, s = np.radians(1.5 * k), 1 + 0.004 * k
    A = s * np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    middle = np.array([WIDTH, HEIGHT]) / 2 - 0.5
    return np.column_stack([A, middle - A @ middle + np.array([0.37, -0.21]) * k])


def test_errors_have_the_stated_standard_deviations():
    """Six points in 20 frames of two videos: without the floor the mean square of errors over stated ones is about 1.

    Errors of one track are alike (the noise of its patch), so there are about 12 independent ones in each direction.
    """
    scores, errors = [], []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        maps = [turning(k) for k in range(20)]
        frames = video(shifted(texture(rng), maps), rng)
        starts = rng.uniform([50, 40], [WIDTH - 50, HEIGHT - 40], (6, 2))
        tracks = track(frames, {f"p{j}": start for j, start in enumerate(starts)})
        assert len(tracks.names) == 6 and tracks.tracked.all()
        truth = np.array([(starts - 0.5) @ M[:, :2].T + M[:, 2] + 0.5 for M in maps])
        errors.append(tracks.positions - truth)
        stated = np.sqrt(np.maximum(tracks.sd**2 - FLOOR**2, 1e-6) + tracks.drift**2)[..., None]
        scores.append((errors[-1] / stated)[1:])
    assert np.abs(errors).max() < 0.06 and 0.4 < np.mean(np.square(scores)) < 2


def test_tracks_rougher_than_their_patches_say_have_a_larger_noise():
    """Frames that are shown up to 0.1 px off, as a codec does: the noise is that of these shifts, 0.1/√3 px."""
    rng = np.random.default_rng(5)
    off = rng.uniform(-0.1, 0.1, (30, 2))
    maps = [np.array([[1.0, 0, 0.8 * k + off[k, 0]], [0, 1, 0.3 * k + off[k, 1]]]) for k in range(30)]
    tracks = track(video(shifted(texture(rng), maps), rng), {"p": (60.2, 55.7), "q": (90.0, 70.0)})
    assert 0.7 < np.median(tracks.sd) / (0.1 / 3**0.5) < 1.6


def test_a_track_that_is_rougher_than_the_others_has_a_larger_noise_of_its_own():
    """Of nine points, one is in a part of the image that is shown up to 0.3 px off."""
    rng = np.random.default_rng(6)
    off = rng.uniform(-0.3, 0.3, (30, 2))
    places = {f"p{k}": (40.0 + 30 * (k % 3), 40.0 + 30 * (k // 3)) for k in range(9)}
    flat = texture(rng)
    still = [np.array([[1.0, 0, 0.2 * k], [0, 1, 0.1 * k]]) for k in range(30)]
    shaken = [np.array([[1.0, 0, 0.2 * k + off[k, 0]], [0, 1, 0.1 * k + off[k, 1]]]) for k in range(30)]
    images = shifted(flat, still)
    for image, other in zip(images, shifted(flat, shaken), strict=True):
        image[85:120, 85:120] = other[85:120, 85:120]
    tracks = track(video(images, rng), places)
    noise = np.median(tracks.sd[1:], 0)
    assert noise[8] > 2 * np.median(noise[:8])


def test_a_patch_that_changes_is_cut_anew_and_its_drift_grows():
    """A texture that turns into another one while it moves by 0.5 px a frame."""
    rng = np.random.default_rng(3)
    maps = [np.array([[1.0, 0, 0.5 * k], [0, 1, 0.2 * k]]) for k in range(30)]
    first, second = (np.stack(shifted(texture(rng), maps)) for _ in range(2))
    share = (np.arange(30) / 29)[:, None, None]
    tracks = track(video((1 - share) * first + share * second, rng), {"p": (61.0, 62.0)})
    drift = tracks.drift[tracks.tracked[:, 0], 0]
    assert len(drift) > 20 and (np.diff(drift) >= 0).all() and drift[-1] > 3 * drift[1]


def test_a_covered_point_has_a_gap_and_comes_back():
    rng = np.random.default_rng(1)
    images = shifted(texture(rng), [np.array([[1.0, 0, 1.3 * k], [0, 1, 0.4 * k]]) for k in range(16)])
    for k in (6, 7, 8):
        images[k][40:90, 60:110] = texture(rng)[40:90, 60:110]
    tracks = track(video(images, rng), {"p": (75.5, 62.5)})
    assert np.flatnonzero(~tracks.tracked[:, 0]).tolist() == [6, 7, 8]
    assert np.abs(tracks.positions[-1, 0] - [75.5 + 1.3 * 15, 62.5 + 0.4 * 15]).max() < 0.1


def test_a_point_between_two_surfaces_is_lost():
    """The left half moves, the right half does not: no place is that of the patch."""
    rng = np.random.default_rng(2)
    moving = shifted(texture(rng), [np.array([[1.0, 0, 0], [0, 1, 4.0 * k]]) for k in range(12)])
    still = texture(rng)
    frames = video([np.hstack([image[:, :80], still[:, 80:]]) for image in moving], rng)
    tracks = track(frames, {"edge": (78.0, 60.0), "whole": (60.0, 60.0)})
    assert tracks.names == ["whole"] and tracks.lost == ("edge",)
    with pytest.raises(InputError, match="all points .* were lost within"):
        track(frames, {"edge": (78.0, 60.0)})


def test_the_covariance_of_a_match_is_that_of_repeated_noise():
    """60 draws of noise of both images: the variance of the place is the stated one within a quarter (sd of a variance of 120 numbers: 13 %)."""
    rng = np.random.default_rng(0)
    clean = texture(rng)
    places, stated = [], []
    for _ in range(60):
        noisy = [Image(clean + 3 * rng.standard_normal(clean.shape)) for _ in range(2)]
        patch = Patch.cut(noisy[0], np.array([80.5, 60.5]), 8)
        result = match(noisy[1], patch, np.array([80.9, 60.2]), np.eye(2))
        places.append(result.place)
        stated.append(np.trace(result.covariance))
    ratio = np.var(places, axis=0).sum() / np.mean(stated)
    assert 0.6 < ratio < 1.25


def test_chosen_points_are_in_the_region_and_have_texture():
    image = np.full((HEIGHT, WIDTH), 90.0)
    image[20:70, 30:90] = texture(np.random.default_rng(0))[20:70, 30:90]
    points = textured_points(image.astype(np.float32), 8, (25, 15, 70, 60))
    assert len(points) >= 3 and (points >= [25, 15]).all() and (points <= [95, 75]).all()
    with pytest.raises(InputError, match="no point in the region has a texture"):
        textured_points(image.astype(np.float32), 8, (110, 80, 45, 35))


@pytest.mark.parametrize(
    "points, first, words",
    [
        ({}, 0, "no points to track"),
        ({"p": (80, 60)}, 3, "the first frame is 3; the video has 4"),
        ({"p": (2, 60)}, 0, "`p` is at 2,60 px; a patch of 17 px"),
        ({"p": (120, 90)}, 0, "`p` at 120,90 px has no texture"),
    ],
)
def test_points_that_cannot_be_tracked_are_refused(points, first, words):
    image = texture(np.random.default_rng(0))
    image[75:105, 100:140] = 90
    frames = np.repeat(np.stack([image] * 4).astype(np.uint8)[..., None], 3, -1)
    with pytest.raises(InputError, match=words):
        track(frames, points, first)
