"""COCO annotations: run lengths against an encoder of the test's own, polygons against areas, and what can be wrong."""

import json

import numpy as np
import pytest

from gradsim.errors import InputError
from gradsim.video.coco import decode_counts, polygon_coverage, read_coco

HEIGHT, WIDTH, COUNT = 9, 12, 4


def blobs(seed: int = 0, count: int = COUNT) -> np.ndarray:
    """Random masks (count, HEIGHT, WIDTH), among them one that begins in the first pixel."""
    masks = np.random.default_rng(seed).random((count, HEIGHT, WIDTH)) < 0.4
    masks[0, 0, 0], masks[1, 0, 0] = True, False
    return masks


def runs(mask: np.ndarray) -> list[int]:
    """Run lengths down the columns, of 0 first."""
    flat, counts, value = mask.T.ravel().tolist(), [0], False
    for pixel in flat:
        if pixel != value:
            counts.append(0)
            value = pixel
        counts[-1] += 1
    return counts


def compressed(counts: list[int]) -> str:
    """Run lengths as text, by the description of the format: two's complement in groups of 5 bits, lowest first."""
    text = ""
    for k, count in enumerate(counts):
        number = count - counts[k - 2] if k > 2 else count
        bits = 5
        while not -(1 << bits - 1) <= number < 1 << bits - 1:
            bits += 5
        digits = number % (1 << bits)
        for shift in range(0, bits, 5):
            text += chr(48 + (digits >> shift & 31) + (32 if shift + 5 < bits else 0))
    return text


def rle(mask: np.ndarray, text: bool = False) -> dict:
    counts = runs(mask)
    return {"size": list(mask.shape), "counts": compressed(counts) if text else counts}


def coco(masks: np.ndarray, text: bool = False, **more) -> dict:
    """A file with an image for each frame, the last one first."""
    images = [{"id": 70 - k, "file_name": f"{k}.png", "height": HEIGHT, "width": WIDTH} for k in range(len(masks))]
    annotations = [
        {"id": k, "image_id": 70 - k, "category_id": 1, "segmentation": rle(m, text)}
        for k, m in enumerate(masks)
        if m.any()
    ]
    return {"images": images[::-1], "annotations": annotations, "categories": [{"id": 1, "name": "ball"}], **more}


def read(path, content, category: str = "", count: int = COUNT) -> np.ndarray:
    (path / "m.json").write_text(json.dumps(content), encoding="utf-8")
    return read_coco(path / "m.json", count, HEIGHT, WIDTH, category)


def test_known_text_is_decoded():
    """By hand: 52 = 20 + 32·1 has the digits 20 (continued, 20 + 32 + 48 = d) and 1; −3 is 29 in five bits (29 + 48 = M)."""
    assert decode_counts("d1") == [52] and decode_counts("37") == [3, 7]
    assert decode_counts("397M") == [3, 9, 7, 6]  # the fourth is 9 − 3
    with pytest.raises(ValueError, match="ends within a number"):
        decode_counts("d")
    with pytest.raises(ValueError, match="character"):
        decode_counts("~")


def test_large_and_falling_counts_survive_the_text():
    counts = [0, 5, 100_000, 3, 2, 40, 99_999, 16, 15, 1]
    assert decode_counts(compressed(counts)) == counts


@pytest.mark.parametrize("text", [False, True])
def test_masks_are_those_that_were_encoded_in_the_order_of_file_names(tmp_path, text):
    masks = blobs()
    np.testing.assert_array_equal(read(tmp_path, coco(masks, text)), masks)


def test_file_names_are_sorted_as_numbers(tmp_path):
    masks = blobs(count=12)
    np.testing.assert_array_equal(read(tmp_path, coco(masks), count=12), masks)


def test_annotations_without_images_and_lists_of_one_a_frame_are_read(tmp_path):
    masks = blobs()
    bare = {"annotations": [{"image_id": k, "segmentation": rle(m)} for k, m in enumerate(masks)]}
    np.testing.assert_array_equal(read(tmp_path, bare), masks)
    np.testing.assert_array_equal(read(tmp_path, [rle(m, text=True) for m in masks]), masks)
    np.testing.assert_array_equal(read(tmp_path, [None, *({"segmentation": rle(m)} for m in masks[1:])])[1:], masks[1:])


def test_tracks_and_masklets_are_read(tmp_path):
    masks, others = blobs(), blobs(1)
    tracks = [[rle(m, True) for m in masks], [None, *(rle(m) for m in others[1:])]]
    content = {"annotations": [{"category_id": k, "segmentations": track} for k, track in enumerate(tracks)]}
    np.testing.assert_array_equal(read(tmp_path, content, "0"), masks)
    both = masks | others
    both[0] = masks[0]
    np.testing.assert_array_equal(read(tmp_path, content, "0,1"), both)
    masklet = {"masklet": [list(pair) for pair in zip(*tracks, strict=True)], "masklet_id": [4, 9]}
    np.testing.assert_array_equal(read(tmp_path, masklet, "4"), masks)
    with pytest.raises(InputError, match=r"2 categories \(4, 9\).*--category 4"):
        read(tmp_path, masklet)


def test_a_frame_without_annotations_is_empty(tmp_path):
    masks = blobs()
    masks[2] = False
    assert not read(tmp_path, coco(masks))[2].any()


def test_several_annotations_of_a_frame_are_united(tmp_path):
    masks, others = blobs(), blobs(1)
    content = coco(masks)
    content["annotations"] += coco(others)["annotations"]
    np.testing.assert_array_equal(read(tmp_path, content), masks | others)


def test_a_category_is_chosen_by_its_name(tmp_path):
    masks, others = blobs(), blobs(1)
    content = coco(masks)
    content["annotations"] += [a | {"category_id": 2} for a in coco(others)["annotations"]]
    content["categories"] += [{"id": 2, "name": "hand"}]
    np.testing.assert_array_equal(read(tmp_path, content, "ball"), masks)
    np.testing.assert_array_equal(read(tmp_path, content, "ball, hand"), masks | others)
    with pytest.raises(InputError, match=r"2 categories \(ball, hand\).*--category ball, or --category ball,hand"):
        read(tmp_path, content)
    with pytest.raises(InputError, match="no category bat; it has ball, hand"):
        read(tmp_path, content, "bat")


def test_the_coverage_of_a_polygon_adds_up_to_its_area():
    """Shoelace formula; edges that cross a row of pixels are sampled on 8 lines, which costs some 1e-3."""
    rng = np.random.default_rng(3)
    angles = np.sort(rng.uniform(0, 2 * np.pi, 7))
    x, y = 15 + 11 * np.cos(angles), 14 + 9 * np.sin(angles)
    area = 0.5 * abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))
    cover = polygon_coverage([np.stack([x, y], 1).ravel().tolist()], 28, 32)
    assert cover.sum() == pytest.approx(area, rel=2e-3) and cover.min() == 0 and cover.max() == 1
    moment = (cover.sum(0) @ (np.arange(32) + 0.5)) / cover.sum()
    other = np.roll(x, -1) * y - x * np.roll(y, -1)
    assert moment == pytest.approx(((x + np.roll(x, -1)) @ other) / (3 * other.sum()), abs=0.01)


def test_a_rectangle_covers_fractions_of_pixels_and_overlaps_once():
    box = [1.25, 1, 3.5, 1, 3.5, 3, 1.25, 3]
    cover = polygon_coverage([box, box], 4, 5)
    np.testing.assert_allclose(cover[1], [0, 0.75, 1, 0.5, 0])
    np.testing.assert_allclose(cover[[0, 3]], 0)


def test_a_polygon_may_reach_over_the_border_and_have_a_hole():
    np.testing.assert_allclose(polygon_coverage([[-5, -5, 9, -5, 9, 9, -5, 9]], 3, 4), 1)
    star = [0, 0, 4, 0, 4, 4, 0, 4, 0, 0, 1, 1, 3, 1, 3, 3, 1, 3, 1, 1]  # even-odd: the inner square is a hole
    np.testing.assert_allclose(polygon_coverage([star], 4, 4)[1:3, 1:3], 0, atol=1e-12)


def test_polygons_of_a_file_are_read(tmp_path):
    content = coco(blobs())
    for annotation in content["annotations"]:
        annotation["segmentation"] = [[1, 1, 3, 1, 3, 4, 1, 4], [6, 6, 8, 6, 8, 8, 6, 8]]
    assert read(tmp_path, content).sum() == pytest.approx(COUNT * (6 + 4))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            lambda c: c["annotations"][0]["segmentation"].update(size=[WIDTH, HEIGHT]),
            "frame 0: a mask is 9 × 12 px, the video 12 × 9",
        ),
        (
            lambda c: c["annotations"][1]["segmentation"]["counts"].append(7),
            "frame 1: run lengths add up to 115; expected 9 × 12 = 108",
        ),
        (lambda c: c["annotations"][1]["segmentation"].update(counts="d"), "frame 1: the run lengths cannot be read"),
        (lambda c: c["images"].pop(), "annotates 3 frames, the video has 4"),
        (lambda c: c["annotations"][0].update(image_id=5), "annotation 0 is of image 5, which `images` lacks"),
        (lambda c: c["annotations"][0].update(segmentation=[[1, 2, 3, 4]]), "a polygon has 4 numbers"),
        (lambda c: c["annotations"][0].update(segmentation=3), "a segmentation is int"),
        (lambda c: c["annotations"].clear(), "no mask pixel in any frame"),
        (lambda c: c.pop("annotations"), "no list `annotations`"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, change, match):
    content = coco(blobs())
    change(content)
    with pytest.raises(InputError, match=match):
        read(tmp_path, content)


def test_files_that_are_missing_or_no_json_are_refused(tmp_path):
    with pytest.raises(InputError, match="none.json does not exist"):
        read_coco(tmp_path / "none.json", COUNT, HEIGHT, WIDTH)
    (tmp_path / "m.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        read_coco(tmp_path / "m.json", COUNT, HEIGHT, WIDTH)
