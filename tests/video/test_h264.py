"""Lossy h264 from a process of its own."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from gradsim import video
from gradsim.video import masks
from gradsim.video.background import subtract_background
from gradsim.video.front_coverage import COLOR_WEIGHTS
from gradsim.video.h264 import write_h264
from gradsim.video.read import is_subsampled
from gradsim.video.soft_edges import with_soft_edges

CLOCK = Fraction(1, 90000)


def frames(count=26, height=240, width=320):
    """A noisy pattern that moves; at half the size an encoder in this process writes the same bytes, too."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:height, :width]
    images = [np.sin((columns + 3 * k) / 9) * np.cos((rows + k) / 7) for k in range(count)]
    colored = np.stack(images)[..., None] * [90, 60, 30] + 120
    return (colored + 4 * rng.standard_normal(colored.shape)).clip(0, 255).astype(np.uint8)


def test_the_same_frames_are_the_same_bytes_whatever_the_process_did_before(tmp_path):
    paths = [tmp_path / f"{k}.mp4" for k in range(3)]
    for path in paths:
        size = write_h264(path, frames(), Fraction(30), {"crf": "28"})
        assert 0 < size < path.stat().st_size
        video.read(path)  # in this process, of which the memory is other from now on
    first, *others = (path.read_bytes() for path in paths)
    assert all(content == first for content in others)


def test_frames_come_back_about_as_they_were(tmp_path):
    path = tmp_path / "film.mp4"
    write_h264(path, frames(), Fraction(30), {"crf": "10"})
    back = video.read(path)
    assert back.frames.shape == frames().shape and back.fps == pytest.approx(30)
    assert np.abs(back.frames - frames().astype(float)).mean() < 4


def test_stamps_are_those_of_the_clock(tmp_path):
    path, ticks = tmp_path / "film.mp4", [0, 2700, 6300, 9000]
    write_h264(path, frames(4), Fraction(30), {"crf": "20"}, stamps=ticks, clock=CLOCK)
    assert video.read(path).times == pytest.approx([t / 90000 for t in ticks], abs=1e-9)


def test_planes_of_gray_are_gray(tmp_path):
    path = tmp_path / "film.mp4"
    planes = np.concatenate([np.full((3, 64, 64), 81), np.full((3, 32, 64), 128)], 1)
    write_h264(path, planes, Fraction(30), {"crf": "10"}, planar=True)
    assert np.abs(video.read(path).frames - (81 - 16) * 255 / 219).max() < 2


def test_an_encoder_that_fails_is_quoted(tmp_path):
    with pytest.raises(RuntimeError, match=r"libx264 wrote no .*film.mp4: (.|\n)*No such file"):
        write_h264(tmp_path / "none" / "film.mp4", frames(2), Fraction(30), {})


def disks(count=24, size=96, radius=7.0):
    """Coverage (count, size, size) of a disk that moves to the right, from four points a pixel and axis."""
    at = (np.arange(4 * size) + 0.5) / 4
    cover = [np.hypot(at[None] - 14 - 1.3 * k, at[:, None] - 23.4) < radius for k in range(count)]
    return np.stack(cover).reshape(count, size, 4, size, 4).mean((2, 4))


ORANGE, GRAY = np.array([0.9, 0.35, 0.1]), np.array([0.88, 0.88, 0.88])


@pytest.fixture(scope="module")
def orange(tmp_path_factory):
    """Frames of an orange disk before a gray wall, whose chroma an encoder has put beside its luma."""
    path, cover = tmp_path_factory.mktemp("film") / "disk.mp4", disks()[..., None]
    write_h264(path, np.rint(255 * (cover * ORANGE + (1 - cover) * GRAY)).astype(np.uint8), Fraction(30), {"crf": "12"})
    assert is_subsampled(path)
    return video.read(path).frames


def aside(measured):
    """How far masks are to the right of the disks [px], mean over frames."""
    columns, near = np.arange(measured.shape[2]) + 0.5, disks(radius=10.0) > 0
    centers = [(m.sum(1) * columns).sum(1) / m.sum((1, 2)) for m in (measured * near, disks())]
    return float(np.mean(centers[0] - centers[1]))


def test_masks_of_subsampled_films_go_by_luma(orange):
    metric = masks.luma_metric(ORANGE, GRAY)
    assert abs(aside(masks.alpha_from_flat_colors(orange, ORANGE, GRAY))) > 0.1
    assert abs(aside(masks.alpha_from_flat_colors(orange, ORANGE, GRAY, metric=metric))) < 0.03
    wall = np.tile(GRAY, (*orange.shape[1:3], 1))
    assert abs(aside(subtract_background(orange, wall, ORANGE).masks)) > 0.1
    assert abs(aside(subtract_background(orange, wall, ORANGE, subsampled=True).masks)) < 0.05


def test_colors_as_bright_as_their_background_are_told_by_all_channels():
    green = np.array([0.3, 0.5986, 0.3])
    assert np.array_equal(masks.luma_metric(green, [0.475, 0.475, 0.475]), np.eye(3))
    wall = np.full((1, 4, 4, 3), 0.475)
    alpha = masks.alpha_from_flat_colors(np.rint(255 * wall).astype(np.uint8), green, [0.475] * 3, metric=np.eye(3))
    assert np.abs(alpha).max() < 0.02


def test_edges_of_masks_by_a_method_go_by_luma_as_well(orange):
    bodies = np.stack([cover > 0.5 for cover in disks()])
    assert abs(aside(with_soft_edges(orange, bodies)[0])) > 0.06
    assert abs(aside(with_soft_edges(orange, bodies, metric=COLOR_WEIGHTS)[0])) < 0.04


@pytest.mark.parametrize("crf", ["18", "23", "28"])
def test_a_codec_that_changes_blocks_of_the_background_is_no_body(tmp_path, crf):
    """Before a texture with noise of two levels, of which the codec leaves a part."""
    cover, path = disks(80, 128, 9.0)[::2], tmp_path / "film.mp4"
    rng = np.random.default_rng(3)
    wall = gaussian_filter(rng.normal(size=(128, 128, 3)), (3, 3, 0))
    wall = 0.55 + 0.12 * wall / wall.std()
    clean = cover[..., None] * ORANGE + (1 - cover[..., None]) * wall
    noisy = (clean + 0.008 * rng.normal(size=clean.shape)).clip(0, 1)
    write_h264(path, np.rint(255 * noisy).astype(np.uint8), Fraction(30), {"crf": crf})
    bodies = subtract_background(video.read(path).frames, None, subsampled=True).masks > 0.5
    both = (bodies & (cover > 0.5)).sum((1, 2)) / (bodies | (cover > 0.5)).sum((1, 2))
    assert both.min() > 0.7
