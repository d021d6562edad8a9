"""`gradsim capture --poses`: pose of a camera that moves in each frame of a clip, with covariance, from a target or a textured ground in view."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim import video as videos
from gradsim.app.commands.capturing.files import read_capture
from gradsim.app.job import open_scene
from gradsim.errors import InputError
from gradsim.geometry.camera_poses import CameraPoses
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.runtime.provenance import versions
from gradsim.scene import Scene
from gradsim.video.calibration.detect import detect, dictionary, explain_absence, opencv
from gradsim.video.calibration.estimate import Calibration
from gradsim.video.calibration.ground import MAX_FRAMES, Plane, Reference, ground_poses
from gradsim.video.calibration.ground_tracks import ground_tracks
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
        intrinsics: capture.json of an earlier calibration, whose lens is taken as known. With neither, the lens is that of the scene's camera.
    """

    targets: tuple[str, ...]
    scene: Path | None = None
    focal: float | None = None
    intrinsics: Path | None = None


@dataclass(frozen=True, eq=False)
class _FramePose:
    """R (3, 3) and t (3,) [m] of a frame, their covariance (6, 6), and the RMS distance of what is seen from the model [px]."""

    R: np.ndarray
    t: np.ndarray
    covariance: np.ndarray
    rms: float


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
        if target.kind in ("length", "sheet", "body"):
            raise InputError(
                f"--target {target.text}: --poses need a board or markers, whose corners have names, or a ground; a {target.kind} has none."
            )
        if target.dictionary:
            dictionary(target)
    ground = next((target for target in targets if target.kind == "ground"), None)
    marks = [target for target in targets if target.kind != "ground"]
    if not marks and options.scene is None:
        raise InputError(
            "--target ground: a ground alone does not tell where the camera is; give --scene, whose camera is that of the first frame, "
            "or a board or marker that is in view in one frame or more, as a further --target."
        )
    scene = open_scene(options.scene) if options.scene else None
    progress.stage(f"reading {source}")
    video = videos.read(source, scene.timing.fps if scene and Path(source).is_dir() else None)
    lens, entries = _lens(options, (video.width, video.height), scene)
    plane = None if ground is None else _plane(ground, scene)
    results = _marked(video.frames, lens, marks, source, 2 if plane is None else 1, progress) if marks else {}
    words, correlation = [], 0.0
    if plane is not None:
        results, words, correlation = _over_ground(video.frames, lens, plane, results, scene, progress)
    frames = list(results)
    chosen = list(results.values())
    times = np.array([video.times[k] - video.times[0] for k in frames])
    memory = -1 / (video.fps * np.log(correlation)) if correlation > 0 else 0.0
    arrays = {key: np.array([getattr(c, key) for c in chosen]) for key in ("R", "t", "covariance")}
    poses = CameraPoses(times, **arrays, correlation_time=memory)
    out.mkdir(parents=True, exist_ok=True)
    more = {
        "frames": frames,
        "fps": video.fps,
        "size": [video.width, video.height],
        "corner_rms": [c.rms for c in chosen],
        "targets": list(options.targets),
        "conventions": "x_c = R x + t; covariance of the rotation vector ω and t, R = exp(ω) R; m; rad",
        "versions": versions(),
    }
    poses.save(out / POSES, more)
    words = [*_words(poses, chosen, len(video.frames)), *words]
    if scene is not None:
        # the errors of a calibration that is both lens and first pose are those of all frames, to first order
        is_from_scene = not marks and options.intrinsics is None and options.focal is None
        _write_scene(out, scene, entries, ("prior",) if is_from_scene else ())
        words.append(f"scene: {out / SCENE}")
    progress.done()
    return "\n".join(words)


def _over_ground(
    images: np.ndarray,
    lens: Lens,
    plane: Plane,
    marked: Mapping[int, _FramePose],
    scene: Scene | None,
    progress: Progress,
) -> tuple[dict[int, _FramePose], list[str], float]:
    """Poses by the texture of the ground, in the world of marks (poses of frames with a target in view) or of the scene's camera, words on
    them, and the correlation of the errors of consecutive ones."""
    references = {k: Reference(pose.R, pose.t, pose.covariance) for k, pose in marked.items()}
    if not references and scene is not None:
        _, R, t = scene.view().matrices()
        references = {0: Reference(R, t)}
    if len(images) > MAX_FRAMES:
        raise InputError(
            f"the clip has {len(images)} frames; poses over a ground are for {MAX_FRAMES} at most, since all are one fit: trim it."
        )
    progress.stage(f"following the texture of the ground in {len(images)} frames")
    tracks = ground_tracks(images, lambda k: progress.fraction(k, len(images)))
    progress.stage(f"least squares on {len(tracks.frame)} observations of the ground")
    poses = ground_poses(tracks, lens, plane, references)
    results = {
        int(k): _FramePose(R, t, covariance, float(rms))
        for k, R, t, covariance, rms in zip(poses.frames, poses.R, poses.t, poses.covariance, poses.rms, strict=True)
    }
    first = (
        "frames with the target in view" if marked else "the camera of the scene, whose pose is that of the first frame"
    )
    words = [
        (
            f"ground: {poses.point_count} points count, {np.median(poses.points):.0f} in a frame (median); {100 * poses.left_out:.0f} % do not stay at one "
            f"place of the plane; the world is that of {first}"
        )
    ]
    return results, words, poses.correlation


def _plane(ground: Target, scene: Scene | None) -> Plane:
    """The place that the target states, or the only ground of the scene, or z = 0.

    Raises:
        InputError: If the scene has several grounds.
    """
    grounds = {} if scene is None or ground.is_placed else scene.grounds
    if len(grounds) > 1:
        raise InputError(
            f"--target ground: the scene has {len(grounds)} grounds ({', '.join(grounds)}); say which plane is meant by a point of it and a turn, "
            "as in ground@0,0,0.4 (which faces up)."
        )
    for plane in grounds.values():
        normal = np.array(plane.normal, float) / np.linalg.norm(plane.normal)
        return Plane.of(plane.height * normal, normal)
    origin, up = ground.in_world(np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    return Plane.of(origin, up - origin)


def _marked(
    images: np.ndarray, lens: Lens, targets: Sequence[Target], source: Path, least: int, progress: Progress
) -> dict[int, _FramePose]:
    """Pose of each frame (frames, height, width, 3) that has one by targets in view.

    Raises:
        InputError: If fewer than `least` have.
    """
    progress.stage(f"looking for {' and '.join(t.text for t in targets)} in {len(images)} frames")
    results: dict[int, Calibration] = {}
    before, missed = None, None
    for k, frame in enumerate(images):
        progress.fraction(k, len(images))
        gray = (gray_frames(frame) + 0.5).astype(np.uint8)
        view = detect(gray, targets, k)
        pose = None if view is None or len(view.pixels) < MIN_CORNERS else pose_of(view, lens, images.shape[2], before)
        if pose is None:
            missed = gray
            continue
        results[k], before = pose, (pose.R[0], pose.t[0])
    smooth = smooth_enough([pose.R[0] for pose in results.values()], list(results))
    results = {k: pose for (k, pose), good in zip(results.items(), smooth, strict=True) if good}
    if len(results) < least:
        advice = explain_absence(missed, targets) if missed is not None else ""
        wanted = "two or more" if least == 2 else "one or more"
        raise InputError(
            f"{' or '.join(t.text for t in targets)} has a pose in {len(results)} of {len(images)} frames of {source}; poses need {wanted}. "
            f"{advice or 'Is it whole, flat, sharp and in view, with a white border?'}"
        )
    return {k: _FramePose(c.R[0], c.t[0], c.covariance, c.corner_rms) for k, c in results.items()}


def _lens(options: PoseOptions, size: tuple[int, int], scene: Scene | None) -> tuple[Lens, dict]:
    """The lens without unknowns, and the keys of a scene's camera that say it."""
    neither = options.focal is None and options.intrinsics is None
    if (neither and scene is None) or (options.focal is not None and options.intrinsics is not None):
        raise InputError(
            "poses of a moving camera need a known lens: give --intrinsics capture.json of a calibration with a board, or --focal PX, or "
            "neither, where --scene has a camera with it."
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
    elif neither and scene is not None:
        view = scene.view()
        model, K = "fisheye" if view.fisheye else "pinhole", view.matrices()[0]
        coefficients = view.fisheye or view.distortion or (0.0,) * len(COEFFICIENTS[model])
        numbers = [K[0, 0], K[1, 1], K[0, 2], K[1, 2], *coefficients]
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


def _write_scene(out: Path, scene: Scene, entries: dict, more: Sequence[str]) -> None:
    """Write the scene with the camera that moves; `more` are further keys of its camera that stay."""
    old = scene.camera.model_dump(exclude_unset=True, exclude_none=True) if scene.camera else {}
    camera = {**entries, "motion": POSES, **{key: old[key] for key in (*KEYS_OF_SCENE_CAMERA, *more) if key in old}}
    content = scene.model_dump(by_alias=True, exclude_unset=True, exclude_none=True) | {"camera": camera}
    Scene.parse(content, folder=out).save(out / SCENE)


def _words(poses: CameraPoses, chosen: list[_FramePose], count: int) -> list[str]:
    sd = np.sqrt(np.median(np.diagonal(poses.covariance, axis1=1, axis2=2), axis=0))
    centers = -np.einsum("nji,nj->ni", poses.R, poses.t)
    rms = float(np.median([c.rms for c in chosen]))
    words = [
        f"{len(chosen)} of {count} frames have a pose, points {rms:.2g} px from the model (RMS, median)",
        (
            f"a pose is good to {1e3 * sd[:3].max():.2g} mrad and {1e3 * sd[3:].max():.2g} mm (median); the camera moves by "
            f"{1e3 * np.ptp(centers, axis=0).max():.3g} mm"
        ),
    ]
    if len(chosen) < MIN_POSE_SHARE * count:
        words.append("note: most frames have no pose, and do not count in a fit: is the target covered or out of view?")
    return words
