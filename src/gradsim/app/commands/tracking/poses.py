"""`gradsim capture --poses`: pose of a camera that moves in each frame of a clip, with covariance, from a target in view."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim import video as videos
from gradsim.app.commands.capture_files import read_capture
from gradsim.app.job import open_scene
from gradsim.errors import InputError
from gradsim.geometry.camera_poses import CameraPoses
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.runtime.provenance import versions
from gradsim.scene import Scene
from gradsim.video.calibration.detect import detect, dictionary, explain_absence, opencv
from gradsim.video.calibration.estimate import Calibration
from gradsim.video.calibration.lens import COEFFICIENTS, KEYS, Lens, make_lens
from gradsim.video.calibration.moving import MIN_CORNERS, pose_of, smooth_enough
from gradsim.video.calibration.target import Target, check_targets, parse_target
from gradsim.video.tracking.tracker import gray_frames

POSES, SCENE = "poses.json", "scene.yaml"
MIN_POSE_SHARE = 0.5  # share of frames with a pose, below which a note says so
# Keys of the scene's camera that stay
KEYS_OF_SCENE_CAMERA = ("readout", "scan", "exposure", "instants", "delay", "gamma", "gain")


@dataclass(frozen=True, kw_only=True)
class PoseOptions:
    """Options of `capture_poses`.

    Attributes:
        targets: Texts of `parse_target`.
        scene: Scene whose camera is replaced; None: none.
        focal: Known focal length [px] of square pixels, center in the middle, no distortion.
        intrinsics: capture.json of an earlier calibration, whose lens is taken as known.
    """

    targets: tuple[str, ...]
    scene: Path | None = None
    focal: float | None = None
    intrinsics: Path | None = None


def capture_poses(source: Path, out: Path, options: PoseOptions, progress: Progress | None = None) -> str:
    """Estimate a pose for each frame; writes poses.json, and with a scene scene.yaml.

    Args:
        source: Clip.
        out: Output folder.
        options: Targets and lens.
        progress: Receives stages.

    Returns:
        The poses in words.

    Raises:
        InputError: If an option or the clip is wrong, the lens is not given, or the target is in less than two frames.
    """
    progress = progress or NullProgress()
    targets = [parse_target(text) for text in options.targets]
    check_targets(targets)
    opencv()
    for target in targets:
        if target.kind in ("length", "sheet"):
            raise InputError(
                f"--target {target.text}: --poses need a board or markers, whose corners have names; a {target.kind} has none."
            )
        if target.dictionary:
            dictionary(target)
    scene = open_scene(options.scene) if options.scene else None
    progress.stage(f"reading {source}")
    video = videos.read(source, scene.timing.fps if scene and Path(source).is_dir() else None)
    size = (video.width, video.height)
    lens, entries = _lens(options, size, scene)
    progress.stage(f"looking for {' and '.join(t.text for t in targets)} in {len(video.frames)} frames")
    results = _poses(video.frames, lens, targets, source)
    frames = list(results)
    chosen = list(results.values())
    times = np.array([video.times[k] - video.times[0] for k in frames])
    R, t = np.array([c.R[0] for c in chosen]), np.array([c.t[0] for c in chosen])
    poses = CameraPoses(times, R, t, np.array([c.covariance for c in chosen]))
    out.mkdir(parents=True, exist_ok=True)
    more = {
        "frames": frames,
        "fps": video.fps,
        "size": list(size),
        "corner_rms": [c.corner_rms for c in chosen],
        "targets": list(options.targets),
        "conventions": "x_c = R x + t; covariance of the rotation vector ω and t, R = exp(ω) R; m; rad",
        "versions": versions(),
    }
    poses.save(out / POSES, more)
    words = _words(poses, chosen, len(video.frames))
    if scene is not None:
        _write_scene(out, scene, entries)
        words.append(f"scene: {out / SCENE}")
    progress.done()
    return "\n".join(words)


def _poses(images: np.ndarray, lens: Lens, targets: Sequence[Target], source: Path) -> dict[int, Calibration]:
    """Pose of each frame (frames, height, width, 3) that has one.

    Raises:
        InputError: If less than two have.
    """
    results: dict[int, Calibration] = {}
    before, missed = None, None
    for k, frame in enumerate(images):
        gray = (gray_frames(frame) + 0.5).astype(np.uint8)
        view = detect(gray, targets, k)
        pose = None if view is None or len(view.pixels) < MIN_CORNERS else pose_of(view, lens, images.shape[2], before)
        if pose is None:
            missed = gray
            continue
        results[k], before = pose, (pose.R[0], pose.t[0])
    smooth = smooth_enough([pose.R[0] for pose in results.values()], list(results))
    results = {k: pose for (k, pose), good in zip(results.items(), smooth, strict=True) if good}
    if len(results) < 2:
        advice = explain_absence(missed, targets) if missed is not None else ""
        raise InputError(
            f"{' or '.join(t.text for t in targets)} has a pose in {len(results)} of {len(images)} frames of {source}; poses need two or more. "
            f"{advice or 'Is it whole, flat, sharp and in view, with a white border?'}"
        )
    return results


def _lens(options: PoseOptions, size: tuple[int, int], scene: Scene | None) -> tuple[Lens, dict]:
    """The lens without unknowns, and the keys of a scene's camera that say it."""
    if (options.focal is None) == (options.intrinsics is None):
        raise InputError(
            "poses of a moving camera need a known lens: give --intrinsics capture.json of a calibration with a board, or --focal PX."
        )
    if scene and tuple(scene.view().size) != size:
        w, h = scene.view().size
        raise InputError(
            f"the frames are {size[0]} × {size[1]} px, `camera.size` of {options.scene} is {w} × {h}; resize them, or change `camera.size`."
        )
    if options.intrinsics is not None:
        earlier = read_capture(options.intrinsics)
        if tuple(earlier["size"]) != size:
            w, h = earlier["size"]
            raise InputError(
                f"the frames are {size[0]} × {size[1]} px, those of the calibration {options.intrinsics} {w} × {h}; calibrate at the size of the clip."
            )
        model, K = earlier["model"], np.array(earlier["K"])
        numbers = [K[0, 0], K[1, 1], K[0, 2], K[1, 2], *earlier[KEYS[model]]]
    else:
        focal = options.focal or 0.0
        if not 0 < focal < float("inf"):
            raise InputError(f"--focal is {focal:g}; expected a number of px above 0.")
        model, numbers = "pinhole", [focal, focal, size[0] / 2, size[1] / 2, 0, 0, 0, 0, 0]
    lens = make_lens(model, numbers, ("focal", "centre", *COEFFICIENTS[model]))
    K = [[float(numbers[0]), 0.0, float(numbers[2])], [0.0, float(numbers[1]), float(numbers[3])], [0.0, 0.0, 1.0]]
    entries = {"size": list(size), "K": K}
    if any(numbers[4:]):
        entries[KEYS[model]] = [float(x) for x in numbers[4:]]
    return lens, entries


def _write_scene(out: Path, scene: Scene, entries: dict) -> None:
    old = scene.camera.model_dump(exclude_unset=True, exclude_none=True) if scene.camera else {}
    camera = {**entries, "motion": POSES, **{key: old[key] for key in KEYS_OF_SCENE_CAMERA if key in old}}
    content = scene.model_dump(by_alias=True, exclude_unset=True, exclude_none=True) | {"camera": camera}
    Scene.parse(content, folder=out).save(out / SCENE)


def _words(poses: CameraPoses, chosen: list[Calibration], count: int) -> list[str]:
    sd = np.sqrt(np.median(np.diagonal(poses.covariance, axis1=1, axis2=2), axis=0))
    centers = -np.einsum("nji,nj->ni", poses.R, poses.t)
    rms = float(np.median([c.corner_rms for c in chosen]))
    words = [
        f"{len(chosen)} of {count} frames have a pose, corners {rms:.2g} px from the model (RMS, median)",
        (
            f"a pose is good to {1e3 * sd[:3].max():.2g} mrad and {1e3 * sd[3:].max():.2g} mm (median); the camera moves by "
            f"{1e3 * np.ptp(centers, axis=0).max():.3g} mm"
        ),
    ]
    if len(chosen) < MIN_POSE_SHARE * count:
        words.append("note: most frames have no pose, and do not count in a fit: is the target covered or out of view?")
    return words
