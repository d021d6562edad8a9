"""Masks that are windows of images, against the same masks whole."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from fit_cases import throw
from PIL import Image
from scipy.ndimage import gaussian_filter

from gradsim import video as videos
from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.identification.api import least_squares
from gradsim.identification.observation import base
from gradsim.identification.observation import from_video as from_video_module
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.from_video import from_video
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes
from gradsim.render.windows import Windows
from gradsim.video import mask_input, windowed

SCENE = throw()


@pytest.fixture(scope="module")
def trajectory():
    with torch.no_grad():
        return Model(SCENE).rollout()


def pair(trajectory, reach: int, uneven: bool = False) -> tuple[Masks, Masks]:
    """Masks in windows about the body, by whole multiples of 4 pixels, and the same with zeros around.

    `uneven`: pixels of the windows have weights of their own, as before a background; a corner has 0.
    """
    silhouettes = Silhouettes.of(SCENE)
    with torch.no_grad():
        image = silhouettes.union(trajectory.surface, trajectory.values)[0]
    image = image + 0.01 * torch.randn(image.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    size, corners, whole = image.shape[1:], [], torch.zeros_like(image)
    parts = image.new_zeros(len(image), reach, reach)
    for frame, part, full in zip(image, parts, whole, strict=True):
        middle = (frame > 0.5).nonzero().double().mean(0)
        ends = [min(max(0, int(m - reach / 2) // 4 * 4), n - reach) for m, n in zip(middle, size, strict=True)]
        at = tuple(slice(a, a + reach) for a in ends)
        part[:], full[at] = frame[at], frame[at]
        corners.append(ends)
    windows = Windows(torch.tensor(corners), (reach, reach), (size[0], size[1]))
    used = torch.ones(len(image), 1, 1, dtype=torch.float64)
    used[2] = 0
    own = used
    if uneven:
        own = torch.rand(parts.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.3
        own[own < 0.5] = 0
        own[:, 0, 0] = 0
        own, used = own * used, used.expand(whole.shape).clone()
        for full, weight, (row, column) in zip(used, own, corners, strict=True):
            full[row : row + reach, column : column + reach] = weight
    return Masks(parts, 0.01, silhouettes, own, windows=windows), Masks(whole, 0.01, silhouettes, used)


def elsewhere():
    """A motion that leaves the windows."""
    with torch.no_grad():
        return Model(throw(velocity=[2.5, 0.0, 1.0])).rollout()


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("residual", ["pixels", "cdf"])
def test_costs_are_those_of_whole_masks_with_zeros(trajectory, residual, uneven):
    part, whole = pair(trajectory, reach=12, uneven=uneven)
    for motion in (trajectory, elsewhere()):
        torch.testing.assert_close(
            part.cost(motion, part.frames, residual), whole.cost(motion, part.frames, residual), rtol=1e-10, atol=0
        )


@pytest.mark.parametrize("uneven", [False, True])
def test_residuals_are_those_of_the_pixels_of_windows(trajectory, uneven):
    part, whole = pair(trajectory, reach=12, uneven=uneven)
    (own,), (all_pixels,) = (list(y.residuals(trajectory, y.frames, "pixels")) for y in (part, whole))
    torch.testing.assert_close(own.square().sum(1), all_pixels.square().sum(1), rtol=1e-10, atol=0)


@pytest.mark.parametrize("residual", ["pixels", "cdf"])
def test_residuals_of_a_few_frames_at_a_time_are_those_of_all(trajectory, residual, monkeypatch):
    part, _ = pair(trajectory, reach=12)
    (whole,) = part.residuals(trajectory, part.frames - 1, residual)
    monkeypatch.setattr(base, "WINDOWS_CHUNK", 3 * 12 * 12)
    blocks = list(part.residuals(trajectory, part.frames - 1, residual))
    assert [block.shape[1] for block in blocks[:-1]] == [3 * whole.shape[1] // (part.frames - 1)] * (len(blocks) - 1)
    assert len(blocks) > 2 and torch.equal(torch.cat(blocks, 1), whole)


@pytest.mark.parametrize("uneven", [False, True])
def test_binned_windows_are_windows_of_binned_masks(trajectory, uneven):
    part, whole = pair(trajectory, reach=12, uneven=uneven)
    assert part.can_be_binned(4) and not part.can_be_binned(8)
    own, expected = part.binned(4), whole.binned(4)
    cost = own.cost(trajectory, own.frames, "pixels")
    torch.testing.assert_close(cost, expected.cost(trajectory, own.frames, "pixels"), rtol=1e-10, atol=0)
    torch.testing.assert_close(part.slice_frames(1, 5).masks, part.masks[1:5])


@pytest.mark.parametrize("kind", [0, 1])
def test_binning_some_frames_at_a_time_has_the_bits_of_all_at_once(trajectory, kind, monkeypatch):
    masks = pair(trajectory, reach=12)[kind]
    monkeypatch.setattr(base, "WINDOWS_CHUNK", masks.masks.numel())
    expected = masks.binned(4)
    monkeypatch.setattr(base, "WINDOWS_CHUNK", 2 * masks.masks[0].numel())
    binned = masks.binned(4)
    assert torch.equal(binned.masks, expected.masks) and torch.equal(binned.weight, expected.weight)
    assert not binned.weight[2].any() and binned.weight[1].any()


def test_a_fit_to_windows_is_that_to_the_whole_video(trajectory, tmp_path, monkeypatch):
    """Outside of windows there was noise alone, which tells nothing."""
    frames = synthetic.noisy_8bit(synthetic.render_video(SCENE, trajectory), 1 / 255, 0)
    videos.write(tmp_path / "v.webm", frames, SCENE.timing.fps)
    whole = from_video(SCENE, tmp_path / "v.webm", noise=1 / 255)
    monkeypatch.setattr(windowed, "MARGIN", 4)
    monkeypatch.setattr(windowed, "GRID", 4)
    monkeypatch.setattr(from_video_module, "read_windows", partial(windowed.read_windows, whole_pixels=64**2))
    part = from_video(SCENE, tmp_path / "v.webm", noise=1 / 255)
    assert isinstance(part, Masks) and isinstance(whole, Masks) and part.windows is not None
    assert part.masks.numel() < 0.7 * whole.masks.numel() and "windows" in part.notes and "windows" not in whole.notes
    for k, (row, column) in enumerate(part.windows.corner.tolist()):
        height, width = part.windows.shape
        assert torch.equal(part.masks[k], whole.masks[k, row : row + height, column : column + width])
    unknown = ["cube.velocity.x:-1:3"]
    one, other = (least_squares(SCENE, y, unknown) for y in (part, whole))
    (a,), (b,) = one.unknowns.values(), other.unknowns.values()
    assert abs(a.value - b.value) < 1e-3 * b.std


def test_mask_films_are_read_in_windows_but_not_where_some_pixels_are_ignored(trajectory, tmp_path, monkeypatch):
    """Pixel for pixel those of whole frames; a body may go on behind what is ignored, beyond the window of what is in view."""
    with torch.no_grad():
        image = Silhouettes.of(SCENE).union(trajectory.surface, trajectory.values)[0].numpy()
    frames = synthetic.noisy_8bit(synthetic.render_video(SCENE, trajectory), 1 / 255, 0)
    grey = np.rint(255 * image).astype(np.uint8)[..., None].repeat(3, -1)
    post = np.zeros_like(frames)
    post[:, 6:18, 11:13] = 255
    for name, film in (("v", frames), ("mask", grey), ("post", post)):
        videos.write(tmp_path / f"{name}.webm", film, SCENE.timing.fps)
    (tmp_path / "labels").mkdir()
    label = np.zeros_like(grey[0])
    label[-4:, -4:] = 1
    for k in range(len(grey)):
        Image.fromarray(label).save(tmp_path / "labels" / f"{k:02}.png")
    mask = {"mask": tmp_path / "mask.webm"}
    read = lambda **choice: from_video(SCENE, tmp_path / "v.webm", noise=1 / 255, **mask | choice)
    whole, hidden = read(), read(ignore=tmp_path / "post.webm")
    assert isinstance(whole, Masks) and whole.windows is None
    assert np.array_equal(whole.masks.numpy(), grey[..., 0] / 255)
    monkeypatch.setattr(windowed, "MARGIN", 4)
    monkeypatch.setattr(windowed, "GRID", 4)
    monkeypatch.setattr(from_video_module, "WHOLE_PIXELS", 64**2)
    again = read(ignore=tmp_path / "post.webm")
    assert again.windows is None and torch.equal(again.weight, hidden.weight) and torch.equal(again.masks, hidden.masks)
    assert np.array_equal(hidden.weight.numpy(), (post[..., 0] == 0).astype(float))
    monkeypatch.setattr(mask_input, "read", None)  # of all frames
    part = read()
    assert isinstance(part, Masks) and part.windows is not None
    height, width = part.windows.shape
    for k, (row, column) in enumerate(part.windows.corner.tolist()):
        at = slice(row, row + height), slice(column, column + width)
        assert torch.equal(part.masks[k], whole.masks[k][at])
    with pytest.raises(InputError, match="levels 0 and 1 alone"):
        read(mask=tmp_path / "labels")


CROSSING = throw(14, 64, position=[-1.1, 0, 0.6], velocity=[3.6, 0, 0], angular_velocity=[1, 2, 3], pushes=[])


@pytest.fixture(scope="module")
def crossing(tmp_path_factory):
    """A film before a texture, with annotations of the body, an image of the empty scene and the exact coverage."""
    folder = tmp_path_factory.mktemp("crossing")
    with torch.no_grad():
        coverage = synthetic.float_masks(CROSSING, Model(CROSSING).rollout()).masks.numpy()
    smooth = gaussian_filter(np.random.default_rng(0).standard_normal((*coverage.shape[1:], 3)), (2, 2, 0))
    wall = np.clip([0.25, 0.5, 0.6] + 0.08 * smooth / smooth.std(), 0, 1)
    clean = coverage[..., None] * CROSSING.bodies["cube"].colour + (1 - coverage[..., None]) * wall
    frames = synthetic.noisy_8bit(torch.tensor(clean), 1 / 255, 1)
    (folder / "film").mkdir()
    for k, frame in enumerate(frames):
        Image.fromarray(frame).save(folder / "film" / f"{k:03}.png")
    Image.fromarray(np.rint(255 * wall).astype(np.uint8)).save(folder / "wall.png")
    outline = [
        [[c, r, c + 1, r, c + 1, r + 1, c, r + 1] for r, c in np.argwhere(mask > 0.5).tolist()] for mask in coverage
    ]
    (folder / "masks.json").write_text(json.dumps([entry or None for entry in outline]))
    full = int((coverage > 0.5).sum((1, 2)).argmax())
    rows, columns = np.nonzero(coverage[full] > 0)
    x, y = int(columns.min()), int(rows.min())
    box = f"{x},{y},{int(columns.max()) + 1 - x},{int(rows.max()) + 1 - y}@{full}"
    return folder, box


@pytest.mark.parametrize(
    "choice",
    [
        {"background": "median"},
        {"background": "wall.png"},
        {"background": "wall.png", "mask": "masks.json"},
        {"background": "median", "mask": "color:BOX"},
        {"mask": "color:BOX"},
        {"mask": "masks.json"},
    ],
    ids=lambda choice: ", ".join(choice.values()),
)
def test_masks_that_are_made_of_all_frames_are_compared_in_windows(crossing, choice, monkeypatch):
    """Pixel for pixel those of whole frames, with what is left out 0, the same weights and edges."""
    folder, box = crossing
    file = lambda name: name.replace("BOX", box) if ":" in name or name == "median" else folder / name
    read = lambda: from_video(CROSSING, folder / "film", noise=1 / 255, **{k: file(v) for k, v in choice.items()})
    whole = read()
    monkeypatch.setattr(windowed, "MARGIN", 8)
    monkeypatch.setattr(windowed, "GRID", 4)
    monkeypatch.setattr(from_video_module, "WHOLE_PIXELS", 64**2)
    part = read()
    assert isinstance(whole, Masks) and whole.windows is None
    assert isinstance(part, Masks) and part.windows is not None
    assert (part.sigma, part.notes["frames_used"]) == (whole.sigma, whole.notes["frames_used"])
    assert part.masks[0].numel() < 0.6 * whole.masks[0].numel()
    height, width = part.windows.shape
    outside = whole.masks.clone()
    weight = whole.weight.expand_as(whole.masks)
    for k, (row, column) in enumerate(part.windows.corner.tolist()):
        at = slice(row, row + height), slice(column, column + width)
        assert torch.equal(part.masks[k], whole.masks[k][at])
        assert torch.equal(part.weight.expand_as(part.masks)[k], weight[k][at])
        outside[k][at] = 0
    clear = 0.0 if "mask" in choice else 0.3  # noise of a stated color
    assert float(outside.abs().max()) <= clear


def test_a_fit_before_a_wall_of_the_color_of_the_body_is_that_to_the_whole_film(tmp_path, monkeypatch):
    """Pixels without contrast tell nothing, and count for nothing in windows, too, nor do corners of windows in them."""
    with torch.no_grad():
        coverage = synthetic.float_masks(CROSSING, Model(CROSSING).rollout()).masks.numpy()[..., None]
    color = np.array(CROSSING.bodies["cube"].colour)
    wall = np.tile([0.3, 0.5, 0.6], (64, 64, 1))
    wall[:, 20:23] = color
    wall[:16] = color
    frames = synthetic.noisy_8bit(torch.tensor(coverage * color + (1 - coverage) * wall), 1 / 255, 1)
    videos.write(tmp_path / "v.webm", frames, CROSSING.timing.fps)
    Image.fromarray(np.rint(255 * wall).astype(np.uint8)).save(tmp_path / "wall.png")
    monkeypatch.setattr(windowed, "MARGIN", 8)
    monkeypatch.setattr(windowed, "GRID", 4)
    fits = []
    for pixels in (2**24, 64**2):
        monkeypatch.setattr(from_video_module, "WHOLE_PIXELS", pixels)
        observed = from_video(CROSSING, tmp_path / "v.webm", noise=1 / 255, background=tmp_path / "wall.png")
        assert isinstance(observed, Masks)
        fits.append(
            (observed.windows, least_squares(CROSSING, observed, ["cube.velocity.x:3:4"]).unknowns["cube.velocity.x"])
        )
    (_, whole), (windows, part) = fits
    assert windows is not None
    assert abs(part.value - whole.value) < 0.3 * whole.std and abs(part.std / whole.std - 1) < 0.1
