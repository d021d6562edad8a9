"""Masks from a video file, and everything that can be wrong with one."""

import json
import math

import numpy as np
import pytest
import torch
from fit_cases import throw
from PIL import Image

from gradsim import video as videos
from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.identification.observation.from_video import from_video, most_pieces
from gradsim.physics.model import Model
from gradsim.scene import Scene

SCENE = throw()


@pytest.fixture(scope="module")
def frames() -> np.ndarray:
    with torch.no_grad():
        return synthetic.noisy_8bit(synthetic.render_video(SCENE, Model(SCENE).rollout()), 1 / 255, 0)


def written(path, frames: np.ndarray, fps: float = 20):
    videos.write(path, frames, fps)
    return path


def test_masks_of_a_video_are_those_of_the_motion(tmp_path, frames):
    """The mean of a colour's three channels has the noise σ/|F − B| along their line."""
    evidence = from_video(SCENE, written(tmp_path / "v.webm", frames), noise=1 / 255)
    exact = synthetic.float_masks(SCENE, Model(SCENE).rollout())
    inside = (exact.masks > 0.02) & (exact.masks < 0.98)
    error = (evidence.masks - exact.masks)[inside]
    contrast = math.dist((0.1, 0.2, 0.6), (1, 1, 1))
    assert evidence.sigma == pytest.approx(math.hypot(1 / 255, 1 / 255 / math.sqrt(12)) / contrast)
    assert error.std().item() == pytest.approx(evidence.sigma, rel=0.2)
    assert abs(error.mean().item()) < 0.2 * evidence.sigma


def test_a_mask_video_takes_the_place_of_colours(tmp_path, frames):
    exact = synthetic.float_masks(SCENE, Model(SCENE).rollout()).masks
    grey = (exact * 255).round().to(torch.uint8)[..., None].expand(-1, -1, -1, 3).numpy()
    video = written(tmp_path / "v.webm", frames[..., ::-1].copy())
    evidence = from_video(SCENE, video, written(tmp_path / "m.webm", grey))
    assert (evidence.masks - exact).abs().max() <= 0.5 / 255 + 1e-12


def annotated(masks: np.ndarray, category: int = 1) -> dict:
    """COCO annotations of masks (frames, height, width) bool: run lengths down the columns."""
    annotations = []
    for k, mask in enumerate(masks):
        ends = np.flatnonzero(np.diff(mask.T.ravel(), prepend=False))
        counts = np.diff(ends, prepend=0, append=mask.size).tolist()
        segmentation = {"size": list(mask.shape), "counts": counts}
        annotations.append({"image_id": k, "category_id": category, "segmentation": segmentation})
    return {"annotations": annotations, "categories": [{"id": 1, "name": "box"}, {"id": 2, "name": "hand"}]}


def test_coco_annotations_take_the_place_of_colours(tmp_path, frames):
    exact = synthetic.float_masks(SCENE, Model(SCENE).rollout()).masks.numpy() > 0.5
    video, content = written(tmp_path / "v.webm", frames[..., ::-1].copy()), annotated(exact)
    (tmp_path / "m.json").write_text(json.dumps(content))
    evidence = from_video(SCENE, video, tmp_path / "m.json")
    np.testing.assert_array_equal(evidence.masks.numpy(), exact)
    assert "mask_faults" not in evidence.notes
    content["annotations"] += annotated(exact[::-1], 2)["annotations"]
    (tmp_path / "m.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="--category box"):
        from_video(SCENE, video, tmp_path / "m.json")
    chosen = from_video(SCENE, video, tmp_path / "m.json", category="box")
    torch.testing.assert_close(chosen.masks, evidence.masks)


def test_a_category_is_of_annotations_alone(tmp_path, frames):
    video = written(tmp_path / "v.webm", frames)
    with pytest.raises(InputError, match="no COCO annotations"):
        from_video(SCENE, video, category="box")
    with pytest.raises(InputError, match="v.webm has none; leave it out"):
        from_video(SCENE, video, video, category="box")


def test_a_folder_of_png_has_the_clock_of_the_video(tmp_path, frames):
    exact = synthetic.float_masks(SCENE, Model(SCENE).rollout()).masks.numpy()
    (tmp_path / "masks").mkdir()
    for k, mask in enumerate(exact):
        Image.fromarray((mask * 255).round().astype(np.uint8)).save(tmp_path / "masks" / f"{k:03}.png")
    evidence = from_video(SCENE, written(tmp_path / "v.webm", frames[..., ::-1].copy()), tmp_path / "masks")
    assert np.abs(evidence.masks.numpy() - exact).max() <= 0.5 / 255 + 1e-12


def test_a_mask_by_colors_from_a_rectangle_is_that_of_the_motion(tmp_path, frames):
    exact = synthetic.float_masks(SCENE, Model(SCENE).rollout()).masks.numpy()
    rows, columns = np.nonzero(exact[0] > 0)
    sides = (columns.min() - 1, rows.min() - 1, np.ptp(columns) + 3, np.ptp(rows) + 3)
    evidence = from_video(SCENE, written(tmp_path / "v.webm", frames), f"color:{','.join(map(str, sides))}")
    assert np.abs(evidence.masks.numpy() - exact).mean() < 0.01


def test_masks_that_cannot_be_right_are_noted_by_frame(tmp_path, frames):
    exact = synthetic.float_masks(SCENE, Model(SCENE).rollout()).masks
    grey = (exact * 255).round().to(torch.uint8)[..., None].expand(-1, -1, -1, 3).numpy().copy()
    grey[3] = 0
    video, mask = written(tmp_path / "v.webm", frames), written(tmp_path / "m.webm", grey)
    evidence = from_video(SCENE, video, mask)
    assert evidence.notes["mask_faults"] == ["the mask is empty in frame 3"]
    assert evidence.mask_faults.every_frame == [3]
    assert "--frames" in evidence.notes["mask_advice"]
    assert "mask_faults" not in from_video(SCENE, video, mask, frames="!3").notes


def test_a_second_piece_in_every_frame_is_noted_where_the_scene_has_one_body(tmp_path, frames):
    """As a shadow: it does not come and go, so most frames have two pieces."""
    exact = synthetic.float_masks(SCENE, Model(SCENE).rollout()).masks
    grey = (exact * 255).round().to(torch.uint8)[..., None].expand(-1, -1, -1, 3).numpy().copy()
    grey[:, -9:, -9:] = 255
    video, mask = written(tmp_path / "v.webm", frames), written(tmp_path / "m.webm", grey)
    notes = from_video(SCENE, video, mask).notes
    assert notes["mask_faults"] == ["the mask is in more pieces than there are bodies in frames 1 to 5, 7"]
    assert "--background mog2" in notes["mask_advice"]


def test_pieces_are_those_of_the_meshes_of_a_scene():
    content = SCENE.model_dump(exclude_unset=True)
    (body,) = content["bodies"].values()
    assert most_pieces(SCENE) == 1
    assert most_pieces(Scene.parse(content | {"bodies": {"a": body, "b": body}})) == 2
    rope = {"kind": "springs", "shape": {"rope": {"length": 1.0}}, "mass": 1.0, "stiffness": 100.0, "radius": 0.01}
    assert most_pieces(Scene.parse(content | {"bodies": {"rope": rope}})) is None


@pytest.mark.parametrize("content", [b"", b"this is no video", None])
def test_missing_empty_and_corrupt_files_are_refused(tmp_path, content):
    path = tmp_path / "clip.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((InputError, FileNotFoundError), match="clip.mp4"):
        from_video(SCENE, path)


def test_a_video_that_breaks_off_is_refused_or_read_in_part_with_a_clear_message(tmp_path, frames):
    whole = written(tmp_path / "v.webm", frames).read_bytes()
    (tmp_path / "cut.webm").write_bytes(whole[: len(whole) // 8])
    with pytest.raises(InputError, match="cut.webm"):
        from_video(SCENE, tmp_path / "cut.webm")


def test_wrong_size_names_both_sizes(tmp_path, frames):
    wide = np.pad(frames, ((0, 0), (0, 0), (0, 8), (0, 0)), mode="edge")
    with pytest.raises(InputError, match="32.*24|24.*32"):
        from_video(SCENE, written(tmp_path / "v.webm", wide))


def test_wrong_clock_names_both_rates(tmp_path, frames):
    with pytest.raises(InputError, match="25(.|\n)*20|20(.|\n)*25"):
        from_video(SCENE, written(tmp_path / "v.webm", frames, fps=25))


def test_one_frame_is_not_enough(tmp_path, frames):
    with pytest.raises(InputError, match="frame"):
        from_video(SCENE, written(tmp_path / "v.webm", frames[:1]))


def test_a_video_without_a_body_is_refused(tmp_path, frames):
    with pytest.raises(InputError, match="no pixel of a body"):
        from_video(SCENE, written(tmp_path / "v.webm", np.full_like(frames, 255)))


def test_an_empty_mask_is_refused(tmp_path, frames):
    video, mask = written(tmp_path / "v.webm", frames), written(tmp_path / "m.webm", np.zeros_like(frames))
    with pytest.raises(InputError, match="mask"):
        from_video(SCENE, video, mask)


def test_a_mask_of_another_length_is_refused(tmp_path, frames):
    video, mask = written(tmp_path / "v.webm", frames), written(tmp_path / "m.webm", frames[:5])
    with pytest.raises(InputError, match=f"5 frames.*{len(frames)}"):
        from_video(SCENE, video, mask)


def test_wrong_colours_are_refused_with_the_way_out(tmp_path, frames):
    with pytest.raises(InputError, match="--mask"):
        from_video(SCENE, written(tmp_path / "v.webm", 255 - frames))


def content_colour():
    return SCENE.bodies["cube"].colour


def of_colours(*colors):
    content = SCENE.model_dump(exclude_unset=True)
    for k, colour in enumerate(colors):
        other = {**content["bodies"]["cube"], "colour": colour, "position": [k + 1, 0, 1]}
        content["bodies"][f"other{k}"] = other
    return Scene.parse(content)


def test_bodies_of_too_many_or_too_like_colours_need_a_mask(tmp_path, frames):
    path = written(tmp_path / "v.webm", frames)
    for more in ([[0.9, 0.1, 0.1], [0.1, 0.9, 0.1], [0.1, 0.1, 0.9]], [[c + 0.02 for c in content_colour()]]):
        with pytest.raises(InputError, match="cannot be distinguished .* --mask|--mask"):
            from_video(of_colours(*more), path)


def test_noise_of_outlines_needs_one_mask_and_some_frames(tmp_path, frames):
    path = written(tmp_path / "v.webm", frames)
    assert from_video(SCENE, path, noise="auto").outline_noise and not from_video(SCENE, path).outline_noise
    with pytest.raises(InputError, match="needs at least 8 frames, and .* has 5 that are used"):
        from_video(SCENE, path, noise="auto", frames="0:5")
    with pytest.raises(InputError, match="needs one mask, and the scene's bodies have 2 colours"):
        from_video(of_colours([0.9, 0.1, 0.1]), path, noise="auto")


@pytest.mark.parametrize("noise", [0.0, -0.1, math.nan, math.inf, "loud"])
def test_noise_has_to_be_a_standard_deviation(tmp_path, frames, noise):
    with pytest.raises(InputError, match="standard deviation"):
        from_video(SCENE, written(tmp_path / "v.webm", frames), noise=noise)


def test_bright_pixels_of_an_ignore_video_do_not_count(tmp_path, frames):
    hidden = np.zeros_like(frames)
    hidden[2:4, 5:12, 3:9] = 255
    spoilt = np.where(hidden > 0, 128, frames)
    plain = from_video(SCENE, written(tmp_path / "v.webm", frames))
    masked = from_video(
        SCENE, written(tmp_path / "s.webm", spoilt), ignore=written(tmp_path / "i.webm", hidden), robust="huber"
    )
    out = torch.tensor(hidden[..., 0] > 0)
    assert torch.equal(masked.weight == 0, out) and torch.equal(masked.masks[~out], plain.masks[~out])
    assert masked.loss.name == "huber"
    trajectory = Model(SCENE).rollout()
    assert (
        masked.cost(trajectory, 8, "pixels") < from_video(SCENE, tmp_path / "s.webm").cost(trajectory, 8, "pixels") / 50
    )


def test_an_ignore_video_that_is_bright_everywhere_is_refused(tmp_path, frames):
    with pytest.raises(InputError, match="no pixel is left"):
        from_video(
            SCENE, written(tmp_path / "v.webm", frames), ignore=written(tmp_path / "i.webm", np.full_like(frames, 255))
        )


def encoded(path, frames: np.ndarray, fps: int = 20):
    """The video as a camera writes it."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps, options={"crf": "20"})
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], "yuv420p"
        for image in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def test_outlines_of_lossy_videos_are_off_unless_the_noise_is_stated(tmp_path, frames):
    lossy, own = encoded(tmp_path / "v.mp4", frames), written(tmp_path / "v.webm", frames)
    auto = lambda path, **given: from_video(SCENE, path, outlines_by_default=True, **given)
    seen = auto(lossy)
    assert seen.outline_noise and seen.notes["noise"] == "auto"
    assert not auto(own).outline_noise and not auto(lossy, noise=0.02).outline_noise
    assert not auto(lossy, frames="0:6").outline_noise  # too few
    assert not from_video(SCENE, lossy).outline_noise


def test_a_camera_with_a_response_needs_edges_that_are_measured(tmp_path, frames):
    """Coverage is of light in front of a background; colors of the scene are values."""
    content = SCENE.model_dump(exclude_unset=True, by_alias=True)
    scene = Scene.parse(content | {"camera": content["camera"] | {"gamma": 2.2}})
    path = written(tmp_path / "v.webm", frames)
    with pytest.raises(InputError, match="gamma 2.2.*--background"):
        from_video(scene, path)
    exact = synthetic.float_masks(SCENE, Model(SCENE).rollout()).masks.numpy()[..., None]
    light = exact * np.array([0.1, 0.2, 0.6]) ** 2.2 + 1 - exact
    coded = written(tmp_path / "coded.webm", np.rint(255 * light ** (1 / 2.2)).astype(np.uint8))
    Image.new("RGB", exact.shape[2:0:-1], (255, 255, 255)).save(tmp_path / "empty.png")
    edge = (exact[..., 0] > 0.3) & (exact[..., 0] < 0.7)
    shifted, measured = (
        (from_video(one, coded, background=tmp_path / "empty.png", noise=1 / 255).masks.numpy() - exact[..., 0])[
            edge
        ].mean()
        for one in (SCENE, scene)
    )
    assert shifted < -0.1 and abs(measured) < 0.01
