"""Masks from COCO annotations, as annotation tools and SAM 2 write them: run lengths or polygons in JSON.

Run lengths count pixels column by column, first those off the body, then those on it, and so on in turn. They are a list, or
text in which each character holds 5 bits of a number, lowest first (ASCII code minus 48; bit 6: more follow; bit 5 of the last:
the number is negative). From the third on, the text has the difference to the count before the last.

A polygon is x, y, x, y, … in pixels from the outer corner of the first pixel. Its coverage is exact along rows, and sampled on
`LINES` lines a row; parts that overlap do not add up.

https://cocodataset.org/#format-data; frames of objects in one list: the `masklet` of SA-V, the `segmentations` of YouTube-VIS.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradsim.errors import InputError
from gradsim.video.connected_regions import box_of

LINES = 8  # per row of pixels, on which a polygon is sampled


def read_coco(path: str | Path, count: int, height: int, width: int, category: str = "") -> np.ndarray:
    """Masks (count, height, width) in [0, 1] of the annotated bodies, their union in each frame.

    Args:
        path: JSON with `images`, `annotations` and `categories`, with an image for each frame, in the order of their file
            names, or of their numbers where they have none; with `segmentations` or a `masklet` over the frames; or a list of one
            annotation, or run length, for each frame (null: nothing).
        count: Frames of the video.
        height: Of the video [px].
        width: Of the video [px].
        category: Names or numbers, separated by commas, of the categories (in a `masklet`: of the objects) that count; all, if
            there is one only.

    Raises:
        InputError: If the file cannot be read, annotates another number of frames or another size, has no mask, or has
            several categories of which none is chosen.
    """
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; give COCO annotations, or a mask video (--mask).") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not JSON ({error}); export the COCO annotations again.") from None
    frames = _frames(content, path, count, category)
    masks = np.zeros((count, height, width))
    for k, segmentations in enumerate(frames):
        for segmentation in segmentations:
            part = _decoded(segmentation, height, width, f"{path}, frame {k}")
            if part.any():
                box = box_of(part)  # memory of what is never written is not taken
                np.maximum(masks[k][box], part[box], out=masks[k][box])
    if not masks.any():
        raise InputError(f"{path} has no mask pixel in any frame; annotate the body, or give another mask (--mask).")
    return masks


def decode_counts(text: str) -> list[int]:
    """Run lengths from their compressed form.

    Raises:
        ValueError: If the text ends within a number, or has another character.
    """
    counts: list[int] = []
    value = shift = 0
    for character in text:
        code = ord(character) - 48
        if not 0 <= code < 64:
            raise ValueError(f"character {character!r}")
        value |= (code & 31) << shift
        shift += 5
        if code & 32:
            continue
        if code & 16:
            value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value = shift = 0
    if shift:
        raise ValueError("it ends within a number")
    return counts


def polygon_coverage(polygons: Sequence[Sequence[float]], height: int, width: int) -> np.ndarray:
    """Coverage (height, width) in [0, 1] of the union of polygons [x, y, x, y, …] in pixels."""
    lines = (np.arange(height * LINES) + 0.5) / LINES
    total = np.zeros((height * LINES, width))
    for flat in polygons:
        x, y = np.asarray(flat, np.float64).reshape(-1, 2).T
        right, below = np.roll(x, -1), np.roll(y, -1)
        crossed = (y[:, None] <= lines) != (below[:, None] <= lines)  # (edges, lines)
        with np.errstate(divide="ignore", invalid="ignore"):
            at = x[:, None] + (lines - y[:, None]) / (below - y)[:, None] * (right - x)[:, None]
        crossings = np.sort(np.where(crossed, at, np.inf), 0)  # even-odd rule: inside between the first and second, …
        inside = np.zeros_like(total)
        for start, stop in zip(crossings[0::2], crossings[1::2], strict=False):
            inside += _lengths(start, stop, width)
        total = np.maximum(total, inside)
    return total.reshape(height, LINES, width).mean(1)


def _lengths(start: np.ndarray, stop: np.ndarray, width: int) -> np.ndarray:
    """Length (lines, width) of the interval from `start` to `stop` (lines,) within each pixel; infinity is past the last."""
    edges = np.arange(width)
    return np.clip(stop[:, None] - edges, 0, 1) - np.clip(start[:, None] - edges, 0, 1)


def _frames(content: Any, path: Path, count: int, category: str) -> list[list[Any]]:
    """Segmentations of each frame."""
    if isinstance(content, list):
        entries = [[] if entry is None else [_segmentation(entry)] for entry in content]
        names = {_category(entry, {}) for entry in content if entry is not None} - {""}
        if len(names) > 1 or category:
            chosen = _chosen(sorted(names), category, path)
            entries = [
                entry if entry and _category(one, {}) in chosen else []
                for entry, one in zip(entries, content, strict=True)
            ]
        return _require_count(entries, count, path)
    if isinstance(content, Mapping) and isinstance(content.get("masklet"), list):
        names = [str(k) for k in content.get("masklet_id") or range(max(map(len, content["masklet"]), default=0))]
        chosen = _chosen(names, category, path)
        entries = [
            [one for name, one in zip(names, entry, strict=False) if name in chosen and one is not None]
            for entry in content["masklet"]
        ]
        return _require_count(entries, count, path)
    if not isinstance(content, Mapping) or not isinstance(content.get("annotations"), list):
        raise InputError(
            f"{path} has no list `annotations`; expected COCO annotations, a `masklet`, or a list with one annotation a frame."
        )
    labels = {c.get("id"): str(c.get("name", c.get("id"))) for c in content.get("categories") or ()}
    annotations = content["annotations"]
    chosen = _chosen(sorted({_category(a, labels) for a in annotations}), category, path)
    annotations = [a for a in annotations if _category(a, labels) in chosen]
    if any("segmentations" in a for a in annotations):
        tracks = [_require_count(a["segmentations"], count, path) for a in annotations if "segmentations" in a]
        return [[track[k] for track in tracks if track[k] is not None] for k in range(count)]
    return _by_image(content, annotations, path, count)


def _by_image(content: Mapping, annotations: Iterable[Mapping], path: Path, count: int) -> list[list[Any]]:
    images = content.get("images") or []
    order = [image.get("id") for image in _sorted(images)]
    if not order:
        order = sorted({a.get("image_id") for a in content["annotations"]}, key=_natural)
    _require_count(order, count, path)
    places = {image: k for k, image in enumerate(order)}
    entries: list[list[Any]] = [[] for _ in order]
    for annotation in annotations:
        if annotation.get("image_id") not in places:
            raise InputError(
                f"{path}: annotation {annotation.get('id')} is of image {annotation.get('image_id')}, which `images` lacks; "
                "export images and annotations together."
            )
        entries[places[annotation["image_id"]]].append(_segmentation(annotation))
    return entries


def _require_count(entries: list, count: int, path: Path) -> list:
    if len(entries) != count:
        raise InputError(
            f"{path} annotates {len(entries)} frames, the video has {count}; expected an image for each, without annotations "
            "where nothing is in view. Annotate all frames, or cut the video to those that are."
        )
    return entries


def _chosen(names: Sequence[str], category: str, path: Path) -> set[str]:
    """Categories that count.

    Raises:
        InputError: If there are several and none is chosen, or one is not among them.
    """
    if not category:
        if len(names) > 1:
            raise InputError(
                f"{path} has {len(names)} categories ({', '.join(names)}); say which are bodies of the scene: --category "
                f"{names[0]}, or --category {','.join(names)} for all."
            )
        return set(names)
    chosen = {part.strip() for part in category.split(",")}
    if missing := sorted(chosen - set(names)):
        raise InputError(
            f"{path} has no category {', '.join(missing)}; it has {', '.join(names) or 'none'}. Change --category."
        )
    return chosen


def _category(annotation: Any, labels: Mapping) -> str:
    number = annotation.get("category_id") if isinstance(annotation, Mapping) else None
    return labels.get(number, "" if number is None else str(number))


def _segmentation(entry: Any) -> Any:
    """Segmentation of an annotation, or the entry itself if it is one."""
    return entry.get("segmentation", entry) if isinstance(entry, Mapping) else entry


def _decoded(segmentation: Any, height: int, width: int, where: str) -> np.ndarray:
    """Coverage (height, width) of run lengths, or of polygons."""
    if isinstance(segmentation, Mapping) and "counts" in segmentation and "size" in segmentation:
        return _from_runs(segmentation, height, width, where)
    if isinstance(segmentation, list):
        polygons = segmentation if not segmentation or isinstance(segmentation[0], list) else [segmentation]
        if any(len(p) < 6 or len(p) % 2 or not np.isfinite(p).all() for p in polygons):
            raise InputError(
                f"{where}: a polygon has {min(map(len, polygons))} numbers; expected x, y of 3 corners or more."
            )
        return polygon_coverage(polygons, height, width)
    raise InputError(
        f"{where}: a segmentation is {type(segmentation).__name__}; expected `size` and `counts`, or polygons."
    )


def _from_runs(runs: Mapping, height: int, width: int, where: str) -> np.ndarray:
    rows, columns = (int(n) for n in runs["size"])
    if (rows, columns) != (height, width):
        raise InputError(
            f"{where}: a mask is {columns} × {rows} px, the video {width} × {height}; annotate the video itself, or resize one."
        )
    try:
        counts = decode_counts(runs["counts"]) if isinstance(runs["counts"], str) else [int(n) for n in runs["counts"]]
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: the run lengths cannot be read ({error}); export the annotations again.") from None
    if sum(counts) != rows * columns or min(counts) < 0:
        raise InputError(
            f"{where}: run lengths add up to {sum(counts)}; expected {rows} × {columns} = {rows * columns}. Export the "
            "annotations again."
        )
    on = np.arange(len(counts)) % 2
    return np.repeat(on, counts).reshape(columns, rows).T.astype(np.float64)


def _sorted(images: Iterable[Mapping]) -> list[Mapping]:
    """Images by file name, or by number where one has no name."""
    images = list(images)
    key = "file_name" if all("file_name" in image for image in images) else "id"
    return sorted(images, key=lambda image: _natural(image.get(key)))


def _natural(name: object) -> list[tuple[int, str]]:
    """Sorting key that reads digits as numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", str(name))]
