"""`gradsim capture`: camera and covariance from targets in view."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim.app.commands.capturing.body import capture_body
from gradsim.app.commands.capturing.files import (
    CaptureOptions,
    camera_content,
    capture_content,
    leading_comments,
    read_capture,
    write_scene,
)
from gradsim.app.commands.capturing.length import capture_length
from gradsim.app.figures import write_result
from gradsim.app.job import open_scene
from gradsim.app.report import capture_plot, plots
from gradsim.app.report.report import write_report
from gradsim.errors import InputError, Status
from gradsim.numerics.formatting import with_error
from gradsim.runtime.atomic import atomic_path, write_json
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.scene import Scene
from gradsim.video.calibration.detect import detect, dictionary, explain_absence, opencv
from gradsim.video.calibration.estimate import MAX_SD, Calibration, View, calibrate
from gradsim.video.calibration.frames import Frame, check_path, choose, read_frames, sharpness
from gradsim.video.calibration.lens import COEFFICIENTS, Lens, make_lens
from gradsim.video.calibration.start import initial_poses
from gradsim.video.calibration.target import Target, check_targets, parse_target

FEWEST_VIEWS = 3  # of a board, for the lens
LOOKED_AT = 6  # frames that are searched for what is in them instead of the target
THUMBNAIL = 480  # [px] width of frames on the page
FOCAL = 1.2  # of the width: initial focal length, about a phone's
ONLY_FOCAL = (
    "of the lens only the focal length was estimated (square pixels, center in the middle, no distortion); give the lens of a "
    "calibration with a board by --intrinsics capture.json."
)
LARGE_RMS = 1.0  # [px] of corners, above which the page warns


@dataclass(eq=False)
class _Detections:
    """Views of a source with thumbnails of their frames.

    Args:
        size: Width and height [px].
        count: Frames that were looked at.
    """

    size: tuple[int, int]
    views: list[View]
    sharp: list[float]
    pictures: dict[int, np.ndarray]
    count: int


def capture(source: Path, out: Path, options: CaptureOptions, progress: Progress | None = None) -> tuple[dict, str]:
    """Calibrate a camera; writes capture.json, result.json, report.html, pictures, and scene.yaml if a scene is given.

    Args:
        source: Video, image or folder of images.
        out: Output folder.
        options: Targets and options.
        progress: Receives stages.

    Returns:
        Content of result.json, and the numbers in words.

    Raises:
        InputError: If an option or file is wrong, no target is in view, or the views do not determine the camera.
    """
    progress = progress or NullProgress()
    targets = [parse_target(text) for text in options.targets]
    check_targets(targets)
    _check(options, targets, source)
    scene = open_scene(options.scene) if options.scene else None
    if targets[0].kind == "length":
        return capture_length(source, out, options, targets[0], scene)
    if targets[0].kind == "body":
        return capture_body(source, out, options, targets[0], scene, progress)
    if options.mask or options.background != "median":
        raise InputError("--mask and --background are for --target body; leave them out.")
    earlier = read_capture(options.intrinsics) if options.intrinsics else None
    detections = _detect(source, targets, scene, earlier, options, progress)
    views = _chosen(detections, options)
    lens, notes = _lens(detections.size, options, earlier, targets, len(views))
    progress.stage(f"least squares on {sum(len(v.pixels) for v in views)} corners of {len(views)} views")
    views, lens, poses = initial_poses(views, lens, detections.size[0], targets[0].kind == "sheet")
    calibration = calibrate(views, lens, poses)
    progress.stage("writing the report")
    result = _write(Path(out), source, calibration, detections, options, scene, notes)
    progress.done()
    return result, "\n".join([*_words(result), *(f"note: {note}" for note in result["notes"])])


def _check(options: CaptureOptions, targets: Sequence[Target], source: Path) -> None:
    opencv()
    for target in targets:
        if target.kind == "ground":
            raise InputError(
                f"--target {target.text}: a ground gives the motion of a camera, not its lens; add --poses."
            )
        if target.dictionary:
            dictionary(target)
    check_path(Path(source))
    if options.focal is not None and not 0 < options.focal < float("inf"):
        raise InputError(f"--focal is {options.focal:g}; expected a number of px above 0.")
    if options.focal is not None and options.intrinsics:
        raise InputError("got --focal and --intrinsics; give one of them.")
    if options.intrinsics and options.fix:
        raise InputError("got --intrinsics and --fix; the earlier calibration says what is fixed. Give one of them.")
    if options.views < 1:
        raise InputError(f"--views is {options.views}; expected 1 or more.")
    make_lens(options.model, [1.0] * (4 + len(COEFFICIENTS[options.model])), options.fix)


def _detect(
    source: Path,
    targets: Sequence[Target],
    scene: Scene | None,
    earlier: Mapping | None,
    options: CaptureOptions,
    progress: Progress,
) -> _Detections:
    progress.stage(f"looking for {' and '.join(t.text for t in targets)} in {source}")
    detections = _Detections((0, 0), [], [], {}, 0)
    missed: list[Frame] = []
    for frame in read_frames(Path(source)):
        height, width = frame.color.shape[:2]
        if not detections.count:
            detections.size = (width, height)
            _check_size(detections.size, scene, earlier, options)
        detections.count += 1
        view = detect(frame.gray, targets, frame.index, frame.label)
        if view is not None:
            detections.views.append(view)
            detections.sharp.append(sharpness(frame, view))
            stride = max(1, width // THUMBNAIL)
            detections.pictures[frame.index] = frame.color[::stride, ::stride].copy()
        elif len(missed) < LOOKED_AT or detections.count % 20 == 0:
            missed = [*missed[-LOOKED_AT:], frame]
    if not detections.views:
        names = " or ".join(t.text for t in targets)
        advice = next(filter(None, (explain_absence(frame.gray, targets) for frame in missed)), "")
        advice = advice or "is it whole, flat, sharp and in view, with a white border?"
        raise InputError(f"{names} is in none of the {detections.count} frames of {source}: {advice}")
    return detections


def _check_size(size: tuple[int, int], scene: Scene | None, earlier: Mapping | None, options: CaptureOptions) -> None:
    text = f"the frames are {size[0]} × {size[1]} px"
    if earlier and tuple(earlier["size"]) != size:
        w, h = earlier["size"]
        raise InputError(
            f"{text}, those of the calibration {options.intrinsics} {w} × {h}; calibrate at the size of the clip, or resize."
        )
    if scene and scene.camera is not None and tuple(scene.camera.size) != size:
        w, h = scene.camera.size
        raise InputError(
            f"{text}, `camera.size` of {options.scene} is {w} × {h}; resize them, or change `camera.size`."
        )


def _chosen(detections: _Detections, options: CaptureOptions) -> list[View]:
    """Views to use, that of the camera's pose first."""
    frames = [view.frame for view in detections.views]
    if options.frame is not None and options.frame not in frames:
        listed = ", ".join(map(str, frames[:12])) + ("…" if len(frames) > 12 else "")
        raise InputError(
            f"--frame is {options.frame}; the target was detected in the frames {listed}. Choose one of them."
        )
    is_known = options.intrinsics is not None or options.focal is not None
    count = 1 if is_known else options.views
    chosen = choose(detections.views, detections.sharp, count, detections.size)
    first = frames.index(options.frame) if options.frame is not None else chosen[0]
    rest = [k for k in chosen if k != first][: count - 1]
    return [detections.views[k] for k in (first, *rest)]


def _lens(
    size: tuple[int, int], options: CaptureOptions, earlier: Mapping | None, targets: Sequence[Target], views: int
) -> tuple[Lens, list[str]]:
    """The lens with its unknowns, and notes on what was assumed."""
    if earlier:
        K, key = np.array(earlier["K"]), "distortion" if earlier["model"] == "pinhole" else "fisheye"
        numbers = [K[0, 0], K[1, 1], K[0, 2], K[1, 2], *earlier[key]]
        prior = (earlier["names"], earlier["mean"], np.array(earlier["covariance"]))
        return make_lens(earlier["model"], numbers, earlier["fixed"], prior), []
    coefficients = COEFFICIENTS[options.model]
    focal = options.focal or FOCAL * size[0]
    numbers = [focal, focal, size[0] / 2, size[1] / 2, *(0.0 for _ in coefficients)]
    if options.focal is not None:
        return make_lens(options.model, numbers, ("focal", "centre", *coefficients)), []
    fixed, notes = options.fix, []
    if not targets[0].is_board and views < FEWEST_VIEWS:
        fixed = tuple(dict.fromkeys((*fixed, "square", "centre", *coefficients)))
        notes = [ONLY_FOCAL]
    lens = make_lens(options.model, numbers, fixed)
    if len(lens.names) > 1 and views < FEWEST_VIEWS:
        plural = "views" if views > 1 else "view"
        raise InputError(
            f"{targets[0].text} was detected in {views} {plural}; the lens needs {FEWEST_VIEWS} or more, in different "
            "tilts. Take more, or give the lens (--intrinsics capture.json, --focal PX), or estimate the focal length alone: "
            f"--fix square centre {' '.join(coefficients)}."
        )
    return lens, notes


def _write(
    out: Path,
    source: Path,
    calibration: Calibration,
    detections: _Detections,
    options: CaptureOptions,
    scene: Scene | None,
    notes: list[str],
) -> dict:
    out.mkdir(parents=True, exist_ok=True)
    content = capture_content(calibration, detections.size, options.targets)
    notes = [*notes, *_warnings(calibration, content, detections)]
    write_json(out / "capture.json", content)
    images = []
    drawings = {
        "corners": (
            lambda: capture_plot.corners(calibration, detections.pictures, detections.size),
            "Corners",
            "Corners that were detected, and in red those that were left out.",
        ),
        "residuals": (
            lambda: capture_plot.residuals(calibration, detections.size),
            "Residuals",
            f"Image - model, enlarged, over the image, and its distribution; RMS {calibration.corner_rms:.3g} px.",
        ),
    }
    for name, (draw, title, caption) in drawings.items():
        with atomic_path(out / f"{name}.png") as draft:
            draft.write_bytes(plots.png(draw))
        images.append({"file": f"{name}.png", "title": title, "caption": caption})
    if scene is not None and options.scene is not None:
        write_scene(out / "scene.yaml", scene, leading_comments(options.scene), camera_content(content), source)
    is_open = any(sd > MAX_SD * abs(x) for name, x, sd in _rows(content) if ".focal" in name)
    result = {
        "title": f"Camera from {' and '.join(options.targets)}",
        "status": Status.UNIDENTIFIABLE if is_open else Status.OK,
        "video": str(source),
        "notes": notes,
        "estimates": _estimates(content),
        "images": images,
        **{key: content[key] for key in ("size", "model", "views", "corner_rms", "frames", "position", "K", "R", "t")},
    }
    result = write_result(out, "capture", result, {})
    write_report(out)
    return result


def _rows(content: Mapping) -> list[tuple[str, float, float]]:
    return list(zip(content["names"], content["mean"], content["sd"], strict=True))


def _estimates(content: Mapping) -> list[dict]:
    """Rows of the page: the unknowns, and the position of the camera."""
    rows = [
        {"name": name, "value": value, "sd": sd, "unit": unit}
        for (name, value, sd), unit in zip(_rows(content), content["units"], strict=True)
    ]
    triples = zip("xyz", content["position"], content["position_sd"], strict=True)
    return rows + [{"name": f"position.{axis}", "value": x, "sd": sd, "unit": "m"} for axis, x, sd in triples]


def _warnings(calibration: Calibration, content: Mapping, detections: _Detections) -> list[str]:
    notes = []
    if calibration.corner_rms > LARGE_RMS:
        notes.append(
            f"corners are {calibration.corner_rms:.2g} px off: is the target flat, of the stated size, and the lens a "
            f"{calibration.lens.model}?"
        )
    if calibration.dropped:
        notes.append(f"frames {', '.join(map(str, calibration.dropped))} were left out: their corners fit no pose.")
    pixels = np.concatenate([view.pixels for view in calibration.views])
    covered = np.ptp(pixels, axis=0) / detections.size
    if len(calibration.lens.names) > 1 and not len(calibration.lens.prior_root) and covered.min() < 0.6:
        notes.append(
            f"corners cover {100 * covered[0]:.0f} % of the width and {100 * covered[1]:.0f} % of the height of the image: "
            "outside of them the distortion is extrapolated. Take views with the target at the borders."
        )
    return notes


def _words(result: Mapping) -> list[str]:
    rows = [
        f"{row['name']}: {with_error(row['value'], row['sd'])} {row['unit']}".rstrip() for row in result["estimates"]
    ]
    return [f"{result['views']} views, corners {result['corner_rms']:.3g} px from the model (RMS)", *rows]
