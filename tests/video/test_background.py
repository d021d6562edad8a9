"""Masks in front of a textured background, compared with the exact coverage of our renderer."""

import numpy as np
import pytest
import torch
from fit_cases import throw
from PIL import Image
from scipy import ndimage

from gradsim import video as videos
from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.physics.model import Model
from gradsim.video import camera_noise
from gradsim.video.background import read_background, subtract_background
from gradsim.video.background_checks import SPECKLE, is_ghost
from gradsim.video.camera_noise import noise_and_bodies, noise_without
from gradsim.video.masks import LUMA

SIZE, COUNT, SIGMA = 40, 14, 1.5 / 255
BODY = np.array([0.85, 0.3, 0.1])


@pytest.fixture(scope="module")
def exact() -> np.ndarray:
    """Coverage by a box that crosses the image."""
    scene = throw(COUNT, SIZE, position=[-1.1, 0, 0.6], velocity=[3.6, 0, 0], angular_velocity=[1, 2, 3], pushes=[])
    with torch.no_grad():
        return synthetic.float_masks(scene, Model(scene).rollout()).masks.numpy()


def texture(seed=0) -> np.ndarray:
    """Smooth greenish-blue clutter."""
    noise = np.random.default_rng(seed).standard_normal((SIZE, SIZE, 3))
    smooth = ndimage.gaussian_filter(noise, (2, 2, 0))
    return np.clip([0.25, 0.5, 0.6] + 0.12 * smooth / smooth.std(), 0, 1)


def render(exact, behind=None, sigma=SIGMA, color=BODY, seed=1) -> np.ndarray:
    alpha, behind = exact[..., None], texture() if behind is None else behind
    clean = alpha * color + (1 - alpha) * behind
    return synthetic.noisy_8bit(torch.tensor(clean), sigma, seed)


def total(sigma=SIGMA) -> float:
    return float(np.hypot(sigma, 1 / 255 / 12**0.5))


def test_known_colour_gives_coverage_with_noise_of_mean_zero_and_the_stated_size(exact):
    result = subtract_background(render(exact), texture(), BODY)
    z = (result.masks - exact) * np.sqrt(result.weight) / result.sigma
    edge = (exact > 0.02) & (exact < 0.98)
    assert result.noise == pytest.approx(total(), rel=0.03)
    for where in (edge, exact == 0, exact == 1):  # 800 pixels at the edge and more elsewhere: 5 standard errors
        assert z[where].std() == pytest.approx(1, abs=0.12) and abs(z[where].mean()) < 0.2
    assert np.isfinite(z).all()


def test_median_of_a_video_serves_as_the_background(exact):
    result = subtract_background(render(exact), None, BODY)
    z = (result.masks - exact) * np.sqrt(result.weight) / result.sigma
    edge = (exact > 0.02) & (exact < 0.98)
    assert z[edge].std() < 1.3 and abs(z[edge].mean()) < 0.2  # where a body passes, fewer frames make B


def test_pixels_that_compression_repeats_do_not_hide_the_noise(exact):
    """Seven of eight pixels off the body are exactly as in the frame before; the median difference is then that of rounding."""
    frames, rng = render(exact, seed=3), np.random.default_rng(4)
    for before, now, mask in zip(frames, frames[1:], exact[1:], strict=False):
        repeated = (rng.random(mask.shape) < 7 / 8) & ~ndimage.binary_dilation(mask > 0, iterations=6)
        now[repeated] = before[repeated]
    result = subtract_background(frames)
    assert result.noise > 2 / 3 / 255
    assert np.abs((result.masks > 0.5).sum((1, 2)) - (exact > 0.5).sum((1, 2))).max() < 12


def test_unknown_colour_is_learnt_from_inside_the_body(exact):
    result = subtract_background(render(exact), texture())
    edge = (exact > 0.02) & (exact < 0.98)
    z = (result.masks - exact) * np.sqrt(result.weight) / result.sigma
    assert z[edge].std() < 1.5 and abs(z[edge].mean()) < 0.3
    assert (result.masks[ndimage.binary_dilation(exact > 0, np.ones((1, 5, 5))) == 0] == 0).all()
    area, true = result.masks.sum((1, 2)), exact.sum((1, 2))
    np.testing.assert_allclose(area, true, rtol=0.02, atol=0.1)  # 0.1 px: a sliver of ten pixels, 3 σ of 0.01 each


def test_coverage_from_luma_does_not_shift_with_the_chroma(exact):
    """Chroma between the pixels, as a codec that states another siting leaves it: half a pixel to the right of luma."""
    frames = render(exact, behind=texture() * 0.5).astype(np.float64)
    luma = (frames @ [0.299, 0.587, 0.114])[..., None]
    chroma = frames - luma
    shifted = luma + (chroma + np.roll(chroma, 1, 2)) / 2
    frames = np.rint(shifted).clip(0, 255).astype(np.uint8)
    whole = [k for k, mask in enumerate(exact) if mask.any() and not mask[:, [0, -1]].any()]
    centre = lambda masks: np.array([masks[k].sum(0) @ np.arange(SIZE) / masks[k].sum() for k in whole])
    right = [(centre(subtract_background(frames, subsampled=s).masks) - centre(exact)).mean() for s in (False, True)]
    assert right[0] > 0.1 and abs(right[1]) < 0.3 * right[0]


def test_weights_fall_with_the_contrast_and_are_zero_without_contrast(exact):
    behind = texture()
    behind[:, 18:21] = BODY
    behind[:, 24:27] = 0.7 * BODY + 0.3 * behind[:, 24:27]
    result = subtract_background(render(exact, behind), behind, BODY)
    assert (result.weight[:, :, 18:21] == 0).all()
    assert (result.weight[:, :, 24:27] < 0.2).all() and np.median(result.weight) > 0.5
    z = (result.masks - exact) * np.sqrt(result.weight) / result.sigma
    assert np.abs(z[:, :, 24:27]).max() < 5.5


def test_noise_is_that_of_the_video_whatever_its_size(exact):
    for sigma in (0.5 / 255, 4 / 255):
        assert subtract_background(render(exact, sigma=sigma), texture(), BODY).noise == pytest.approx(
            total(sigma), rel=0.1
        )


def test_a_white_sky_does_not_hide_the_noise_of_what_is_below_it(exact):
    """Three quarters of the picture are overexposed, where noise goes one way and its median is zero."""
    behind = texture()
    behind[:30] = 1.0
    result = subtract_background(render(exact, behind))
    assert result.noise == pytest.approx(total(), rel=0.1)
    assert np.abs((result.masks > 0.5).sum((1, 2)) - (exact > 0.5).sum((1, 2))).max() < 12


def test_an_edge_that_a_codec_blurs_is_not_a_ghost_and_one_of_the_background_alone_is():
    behind = np.full((20, 20, 3), 0.5)
    behind[:10] = 1.0
    softer, strip = 0.95 * behind + 0.05 * 0.75, np.zeros((20, 20), bool)  # as in some frames of h264
    strip[8:12, 3:17] = True
    assert not is_ghost(255 * softer, behind, strip)
    assert is_ghost(np.full((20, 20, 3), 127.5), np.where(strip[..., None], 0.8, 0.5), strip)


def test_single_hot_pixels_are_not_a_body(exact):
    frames = render(exact)
    frames[:, 2, 2] = 255
    assert (subtract_background(frames, texture()).masks[:, :5, :5] == 0).all()


def test_a_few_pixels_that_flicker_do_not_refuse_the_median(exact):
    """As codecs change a texture again and again, here four pixels in six frames of fourteen."""
    large, behind = (np.repeat(np.repeat(x, 3, k), 3, k + 1) for x, k in ((exact, 1), (texture(), 0)))
    assert SPECKLE * np.median((large > 0.5).sum((1, 2))) > 16  # four pixels, and their neighbours
    frames = render(large, behind)
    frames[:12:2, 2:4, 2:4] = 255
    masks = subtract_background(frames, None).masks
    assert abs(masks[:, 18:] - large[:, 18:]).mean() < 0.01


def test_a_moving_camera_is_refused(exact):
    wide = np.tile(texture(), (1, 2, 1))
    frames = np.concatenate([render(exact[[k]], wide[:, k // 2 : SIZE + k // 2], seed=k) for k in range(COUNT)])
    with pytest.raises(InputError, match=r"camera moves.*px"):
        subtract_background(frames, None, BODY)


def encoded(path, frames) -> np.ndarray:
    videos.write_preview(path, frames, 30)
    return videos.read(path).frames


def crossing(behind, shifts) -> np.ndarray:
    """Frames of a disc that crosses a background (height, width, 3), each moved by one of `shifts` [px] along the columns."""
    row, column = np.mgrid[: behind.shape[0], : behind.shape[1]] + 0.5
    moved_by = [ndimage.shift(behind, (0, shift, 0), order=3, mode="nearest") for shift in shifts]
    places = np.linspace(12, behind.shape[1] - 12, len(shifts))
    alpha = np.stack([np.clip(8.5 - np.hypot(column - x, row - behind.shape[0] / 2), 0, 1) for x in places])[..., None]
    return synthetic.noisy_8bit(torch.tensor(alpha * BODY + (1 - alpha) * np.stack(moved_by)), SIGMA, 1)


def colored_wall(with_luma: bool) -> np.ndarray:
    noise = np.random.default_rng(3).standard_normal((96, 128, 3))
    smooth = ndimage.gaussian_filter(noise, (3, 3, 0))
    wall = 0.5 + 0.12 * smooth / smooth.std()
    return np.round(np.clip(wall if with_luma else wall - (wall @ LUMA)[..., None] + 0.5, 0, 1) * 255) / 255


@pytest.mark.parametrize("with_luma", [True, False])
def test_chroma_of_half_the_resolution_is_no_motion_of_the_camera(tmp_path, with_luma):
    """It lies half a pixel beside luma, as the image of the empty wall does not have it."""
    wall = colored_wall(with_luma)
    frames = encoded(tmp_path / "wall.mp4", crossing(wall, np.zeros(12)))
    _, bodies = noise_and_bodies(frames, wall, True)
    assert bodies.any()
    assert noise_without(frames, wall, bodies, True) < 0.1
    with pytest.raises(InputError, match="the camera moves"):
        noise_and_bodies(frames, wall, False)  # all channels tell it


@pytest.mark.parametrize("with_luma", [True, False])
@pytest.mark.parametrize("end", [0.6, -0.6])  # with −0.4 of chroma, which takes part of it away or adds to it
@pytest.mark.parametrize("slow", [True, False])
def test_a_camera_that_moves_along_or_against_the_offset_of_chroma_is_refused(tmp_path, with_luma, end, slow):
    wall = colored_wall(with_luma)
    shifts = np.linspace(0, end, 12) if slow else end * (np.arange(12) // 3 % 2)
    frames = encoded(tmp_path / "wall.mp4", crossing(wall, shifts))
    with pytest.raises(InputError, match="the camera moves"):
        noise_and_bodies(frames, wall, True)


def test_a_jolt_in_the_first_frame_is_no_motion_of_the_camera():
    wall = colored_wall(with_luma=False)
    _, bodies = noise_and_bodies(crossing(wall, np.eye(12)[0]), wall, True)
    assert bodies.any()


def test_a_body_that_stays_is_refused(exact):
    """Ten frames at one place: the median shows the body there, and each frame without it a ghost."""
    stays = np.concatenate([np.repeat(exact[[6]], COUNT, 0), exact[7:]])
    with pytest.raises(InputError, match="median.*--background FILE"):
        subtract_background(render(stays), None, BODY)


def test_a_body_that_hardly_moves_is_refused(exact):
    wobble = np.stack([np.roll(exact[6], k % 3, axis=1) for k in range(COUNT)])
    with pytest.raises(InputError, match="--background FILE"):
        subtract_background(render(wobble), None)


def test_a_video_without_a_body_is_refused(exact):
    with pytest.raises(InputError, match="nothing in the video differs"):
        subtract_background(render(0 * exact), texture(), BODY)


def test_a_background_of_the_bodys_colour_is_refused(exact):
    behind = 0.4 + 0.02 * texture()
    with pytest.raises(InputError, match="body's colour"):
        subtract_background(render(exact, behind), behind, behind.mean((0, 1)))


def test_a_body_of_another_colour_than_stated_is_refused(exact):
    with pytest.raises(InputError, match=r"not of the colour \[0.1, 0.9, 0.2\]"):
        subtract_background(render(exact), texture(), [0.1, 0.9, 0.2])


def test_a_background_of_another_size_is_refused(exact):
    with pytest.raises(InputError, match="40 × 40"):
        subtract_background(render(exact), texture()[:-2], BODY)


def test_images_and_videos_of_the_empty_scene_are_read(tmp_path, exact):
    Image.fromarray(np.rint(255 * texture()).astype(np.uint8)).save(tmp_path / "b.png")
    assert np.abs(read_background(tmp_path / "b.png") - texture()).max() <= 0.5 / 255 + 1e-9
    videos.write(tmp_path / "b.webm", render(0 * exact), 20)
    assert np.abs(read_background(tmp_path / "b.webm") - texture()).max() < 5 * SIGMA
    for name in ("none.png", "none.webm"):
        with pytest.raises(InputError, match="none"):
            read_background(tmp_path / name)
    (tmp_path / "bad.png").write_bytes(b"not an image")
    with pytest.raises(InputError, match=r"bad\.png"):
        read_background(tmp_path / "bad.png")


@pytest.fixture(scope="module")
def blurred():
    """Disc (frames, size, size) that moves 10 px while the shutter is open for half a frame, its shadow, and both as a video."""
    size, sub, radius = 96, 24, 16
    row, column = np.mgrid[:size, :size] + 0.5
    edge = lambda x, y, r: np.clip(r + 0.5 - np.hypot(column - x, row - y), 0, 1)
    shares = (np.arange(sub) + 0.5) / sub - 0.5
    middles = [(8 + 20 * t, 40 + 4 * t) for t in range(1, 5)]
    alpha, shadow = (
        np.array([np.mean([edge(x + 10 * s, y + 2 * s + below, radius) for s in shares], 0) for x, y in middles])
        for below in (0, 26)
    )
    noise = np.random.default_rng(0).standard_normal((size, size, 3))
    smooth = ndimage.gaussian_filter(noise, (3, 3, 0))
    behind = np.clip([0.45, 0.6, 0.65] + 0.08 * smooth / smooth.std(), 0, 1)
    image = behind * (1 - 0.3 * shadow[..., None])
    image = image + alpha[..., None] * (BODY - image)
    return alpha, synthetic.noisy_8bit(torch.tensor(image), SIGMA, 2), behind


def test_edges_of_a_blurred_body_with_a_shadow_are_measured_where_the_mask_and_the_shutter_are_known(blurred):
    alpha, frames, behind = blurred
    result = subtract_background(frames, behind, bodies=alpha > 0.5, blur=0.5)
    length = 2 * np.pi * 16
    wide = (result.masks.sum((1, 2)) - alpha.sum((1, 2))) / length
    assert np.abs(wide).max() < 0.1
    assert np.sqrt(np.mean((result.masks - alpha)[(alpha > 0.02) & (alpha < 0.98)] ** 2)) < 0.06
    without = subtract_background(frames, behind)  # takes the shadow for a body
    assert ((without.masks.sum((1, 2)) - alpha.sum((1, 2))) / length > 2).all()


def test_bodies_that_hide_a_part_of_the_background_for_ever_need_an_empty_scene(blurred):
    _, frames, _ = blurred
    with pytest.raises(InputError, match="cover a part of the background in all frames"):
        subtract_background(frames, None, bodies=np.ones(frames.shape[:3], bool))


def test_a_body_that_is_darker_on_one_side_is_not_shifted_towards_the_other():
    """With the color of a few pixels further inside, shifts are up to 0.014 px and areas 0.3 % large at this shading."""
    fine = (np.arange(8 * SIZE) + 0.5) / 8
    centers = [(14.3 + k, 18.6 + 0.4 * k) for k in range(COUNT - 2)]
    discs = [np.hypot(fine - x, (fine - y)[:, None]) < 9 for x, y in centers]
    exact = np.stack([disc.reshape(SIZE, 8, SIZE, 8).mean((1, 3)) for disc in discs])
    slope = np.linspace(-1, 1, SIZE)[:, None, None] * BODY
    masks = subtract_background(render(exact, sigma=0.0, color=0.5 * (BODY + slope)), texture()).masks
    rows = np.arange(SIZE)
    middle = lambda images: (images.sum(2) @ rows) / images.sum((1, 2))
    assert np.abs(middle(masks) - middle(exact)).max() < 0.005
    np.testing.assert_allclose(masks.sum((1, 2)), exact.sum((1, 2)), rtol=1e-3)


def test_a_shadow_that_is_darkest_at_the_body_does_not_widen_its_mask():
    """Light that falls linearly over 8 px to half at the edge of a disc; with that of the nearest pixel outside, masks are 0.045 px wide."""
    size, radius = 96, 20
    row, column = np.mgrid[:size, :size] + 0.5
    distance = np.hypot(row - 48, column - 48) - radius
    alpha = np.clip(0.5 - distance, 0, 1)[None]
    light = 1 - 0.5 * np.clip(1 - distance / 8, 0, 1)
    noise = np.random.default_rng(1).standard_normal((size, size, 3))
    smooth = ndimage.gaussian_filter(noise, (3, 3, 0))
    behind = np.clip([0.45, 0.6, 0.65] + 0.08 * smooth / smooth.std(), 0, 1)
    image = behind * light[..., None] * (1 - alpha[..., None]) + alpha[..., None] * BODY
    result = subtract_background(synthetic.noisy_8bit(torch.tensor(image), SIGMA, 2), behind, bodies=alpha > 0.5)
    assert abs((result.masks.sum() - alpha.sum()) / (2 * np.pi * radius)) < 0.03


def test_the_light_on_a_body_of_two_faces_is_that_of_the_face_at_the_edge(blurred):
    """A disc whose lower third is darker, in a motion to the right of 10 px: the dark face is 10 px wide, and its edge not blurred."""
    alpha, _, behind = blurred
    middles = [(8 + 20 * t, 40 + 4 * t) for t in range(1, 5)]
    row = np.arange(96) + 0.5
    dark = np.array([np.where(row - y > 6, 0.6, 1.0) for _, y in middles])[:, :, None, None]
    image = behind * (1 - alpha[..., None]) + alpha[..., None] * dark * BODY
    result = subtract_background(
        synthetic.noisy_8bit(torch.tensor(image), SIGMA, 2), behind, bodies=alpha > 0.5, blur=0.5
    )
    low = np.array([row > y + 11 for _, y in middles])[:, :, None] & np.ones(96, bool)
    assert np.abs((result.masks - alpha).sum((1, 2), where=low)).max() / 30 < 0.15  # some 30 px of the outline


@pytest.mark.parametrize("color", [None, [0.05, 0.04, 0.1]])
def test_edges_of_a_camera_with_a_response_are_shares_of_light(exact, color):
    """A dark body in front of a bright background: shares of values are 0.1 off in pixels half of which it covers."""
    dark, bright, gamma = np.array([0.05, 0.04, 0.1]), texture() + 0.2, 2.2
    blurred = ndimage.uniform_filter1d(exact, 5, axis=2)  # as motion blurs it
    mixed = blurred[..., None] * dark**gamma + (1 - blurred[..., None]) * bright**gamma
    frames = np.rint(255 * (mixed ** (1 / gamma) + 0.004 * np.random.default_rng(2).standard_normal(mixed.shape)))
    frames = frames.clip(0, 255).astype(np.uint8)
    edge = (blurred > 0.3) & (blurred < 0.7)
    mean = lambda g: (subtract_background(frames, bright, color, blur=0.5, gamma=g).masks - blurred)[edge].mean()
    assert mean(1.0) < -0.08 and abs(mean(gamma)) < 0.025


def test_a_body_too_small_to_have_an_inside_has_its_own_color():
    """A disc of 5 px in one frame: no pixel is far enough from its edge; most pixels about it are of the background."""
    row, column = np.mgrid[:SIZE, :SIZE] + 0.5
    alpha = np.clip(2.9 - np.hypot(row - 20.3, column - 15.6), 0, 1)
    behind = np.full((SIZE, SIZE, 3), 0.7)
    image = behind * (1 - alpha[..., None]) + alpha[..., None] * np.array([0.12, 0.45, 0.25])
    masks = subtract_background(np.rint(255 * image[None]).astype(np.uint8), behind).masks
    assert np.abs(masks[0] - alpha).max() < 0.02  # rounding: 0.5/255 of a contrast of 0.5, of color and pixel


def test_noise_is_told_where_bodies_cover_all_that_is_not_white(exact):
    stays, behind = np.repeat(exact[[6]], COUNT, 0), np.ones((SIZE, SIZE, 3))
    behind[stays[0] > 0.5] = 0.5
    result = subtract_background(render(stays, behind), behind, BODY)
    assert np.isfinite(result.noise) and result.noise > 0 and np.isfinite(result.masks).all()


def test_few_frames_of_a_long_lossy_video_tell_how_much_a_faint_body_differs(monkeypatch):
    random, count, size = np.random.default_rng(0), 60, 48
    background = np.full((size, size, 3), 0.4)
    truth = np.zeros((count, size, size), bool)
    for k in range(count):
        truth[k, 20:30, k // 2 : k // 2 + 12] = True
    contrast = random.integers(10, 15, (count, 1, 1, 1))
    flicker = random.random((*truth.shape, 3)) < 0.1
    frames = (102 + truth[..., None] * contrast + flicker).astype(np.uint8)
    looked = []
    largest = camera_noise._largest
    monkeypatch.setattr(camera_noise, "_largest", lambda image: looked.append(image) or largest(image))
    _, few = camera_noise.noise_and_bodies(frames, background, lossy=True)
    assert 0 < len(looked) <= camera_noise.SAMPLED_FRAMES
    monkeypatch.setattr(camera_noise, "SAMPLED_FRAMES", count)
    _, all_frames = camera_noise.noise_and_bodies(frames, background, lossy=True)
    assert len(looked) > count and (few != all_frames).mean() < 1e-3
    assert (few & truth).sum() > 0.99 * (few | truth).sum()
