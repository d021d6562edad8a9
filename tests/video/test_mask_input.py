"""What a user may name as a mask."""

from pathlib import Path

import numpy as np
import pytest
from disc_clip import RECTANGLE, clip, overlap

from gradsim import video as videos
from gradsim.errors import InputError
from gradsim.video.mask_input import is_method, read_masks


@pytest.fixture(scope="module")
def film():
    frames, exact, _ = clip()
    return videos.Video(frames, np.arange(len(frames)) / 30, 30.0), exact


def test_methods_are_told_from_files():
    assert is_method("grabcut:1,2,3,4") and is_method(Path("color:1,2,3,4@5"))
    assert not any(map(is_method, ("grabcut", "masks.webm", "folder/color.json", "C:/masks.webm")))


@pytest.mark.parametrize("method", ["grabcut", "color"])
def test_methods_make_soft_masks(film, method):
    if method == "grabcut":
        pytest.importorskip("cv2")
    video, exact = film
    masks = read_masks(f"{method}:{RECTANGLE}", video, "v.mp4")
    assert overlap(masks, exact).min() > 0.95  # 0.94 of masks of 0 and 1
    assert ((masks > 0.2) & (masks < 0.8)).sum() > 20 * len(masks)


def test_opencv_that_is_missing_is_named_with_its_extra(film, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cv2", None)
    with pytest.raises(InputError, match=r'mask by `grabcut` needs cv2 .*pip install "gradsim\[masks\]"'):
        read_masks(f"grabcut:{RECTANGLE}", film[0], "v.mp4")


def test_masks_of_another_size_or_length_are_refused(tmp_path, film):
    video, exact = film
    grey = np.repeat((255 * exact).astype(np.uint8)[..., None], 3, -1)
    videos.write(tmp_path / "short.webm", grey[:5], 30)
    with pytest.raises(InputError, match="short.webm has 5 frames, v.mp4 has 20"):
        read_masks(tmp_path / "short.webm", video, "v.mp4")
    videos.write(tmp_path / "small.webm", grey[:, ::2, ::2], 30)
    with pytest.raises(InputError, match="small.webm is 80 × 60 px, v.mp4 is 160 × 120"):
        read_masks(tmp_path / "small.webm", video, "v.mp4")
    videos.write(tmp_path / "slow.webm", grey, 15)
    with pytest.raises(InputError, match="15 fps"):
        read_masks(tmp_path / "slow.webm", video, "v.mp4", fps=30)
    assert overlap(read_masks(tmp_path / "slow.webm", video, "v.mp4"), exact).min() > 0.99
