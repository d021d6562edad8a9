"""Observations from video files, with checks of the user's input."""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch

from gradsim import video as videos
from gradsim.errors import InputError
from gradsim.geometry.camera_poses import CameraPoses
from gradsim.identification.observation.base import OFF_BY_A_PIXEL, Masks
from gradsim.identification.observation.labelled_masks import LabelledMasks, color_shares
from gradsim.identification.observation.light_masks import LightMasks
from gradsim.numerics.robust import robust_loss
from gradsim.render.silhouettes import Silhouettes
from gradsim.render.windows import Windows
from gradsim.scene import Scene
from gradsim.scene.body import Pendulum, Rigid
from gradsim.scene.double_pendulum import DoublePendulum
from gradsim.video import masks as segmentation
from gradsim.video.background import MOG2, read_background, subtract_background
from gradsim.video.clip_properties import variable_stamps
from gradsim.video.connected_regions import connected_regions
from gradsim.video.mask_faults import mask_faults
from gradsim.video.mask_input import (
    is_method,
    masks_and_edges,
    matching_frames,
)
from gradsim.video.read import frames_with_clock, is_lossy, is_subsampled, read_times
from gradsim.video.timing import FrameAlignment, align_times, centroids, repeated_frames, suspicious_steps
from gradsim.video.windowed import WHOLE_PIXELS, WindowedVideo, read_clock, read_windows

QUANTIZATION_NOISE = 1 / 255 / math.sqrt(12)  # standard deviation of rounding to 8 bits
NOMINAL_NOISE = 1 / 255  # default noise of a pixel
AUTO_NOISE = "auto"  # noise that is estimated from outlines
OUTLINE = math.sqrt(OFF_BY_A_PIXEL)  # and σ meanwhile
# Pixels across a body that are enough for its outline, which is off by as much in neighbouring ones
OUTLINE_BODY_PIXELS = 20
FEWEST = 8  # frames from which the noise of outlines can be estimated
MEAN_RATE = 0.05  # relative difference of mean rates at which a clock is another one
CLOSED_GAP = 2  # [px] width of gaps in the mask of a textured body that are closed
MIN_PIECE_SHARE = 0.1  # of the largest piece of such a mask, below which a piece is none
MIN_HULL_FILL = 0.8  # of the convex hull of a body, at least, that its mask fills
OFF_COLOR = 0.1  # RMS distance of pixels from the line between body and background at which a video is refused
BRIGHT = 128  # level of an ignore video from which a pixel does not count
VISIBLE = 0.1  # difference of a channel from the background at which a pixel shows a body


def with_stamps(scene, path: str | Path):
    """The scene with the times of a video's frames, where these are of a variable rate and the scene states none; else itself.

    Args:
        scene: Scene with the mean rate of the video.
        path: Path of the video.

    Raises:
        InputError: If the scene's rate is another than the video's mean.
    """
    clock = None if scene.timing.stamps is not None else read_times(path)
    return scene if clock is None else with_times(scene, *clock, path)


def with_times(scene, times: np.ndarray, fps: float, path: str | Path):
    """The same, of a video that was read.

    Args:
        scene: As for `with_stamps`.
        times: Of the frames [s].
        fps: Mean rate [1/s].
        path: Path of the video, for errors.

    Raises:
        InputError: As `with_stamps`.
    """
    stamps = variable_stamps(times, fps)
    if stamps is None:
        return scene
    if abs(fps / scene.timing.fps - 1) > MEAN_RATE:
        raise InputError(
            f"{path} has a variable rate, {fps:.6g} frames per second in the mean, and the scene's `timing.fps` is "
            f"{scene.timing.fps:.6g}: change it, or give `timing.stamps`."
        )
    timing = {"stamps": tuple(stamps.tolist()), "frames": len(stamps), "fps": (len(stamps) - 1) / float(stamps[-1])}
    return Scene.parse(
        {**scene.model_dump(exclude_unset=True), "timing": scene.timing.model_dump(exclude_unset=True) | timing}
    )


def from_video(
    scene,
    path: str | Path,
    mask: str | Path | None = None,
    noise: float | str | None = None,
    camera: str = "camera",
    robust: str = "gaussian",
    ignore: str | Path | None = None,
    frames: str = "",
    background: str | Path | None = None,
    outlines_by_default: bool = False,
    category: str = "",
    textured: bool = False,
) -> Masks | LabelledMasks:
    """Masks of the scene's bodies in a video: one for all, or one per color if the bodies have two or three colors.

    Args:
        scene: Scene with the camera, fps and flat colors of the video.
        path: Path of the video.
        mask: Masks of all bodies: a video or folder of png of the same size and clock (white on black; grey levels are coverage),
            COCO annotations (.json), or "grabcut:X,Y,W,H" or "color:X,Y,W,H", from a rectangle around the body in frame 0, or in
            frame K with "@K" at the end; see `gradsim.video.mask_input`. Without it the masks follow from the colors:
            I = B + Σ α (F − B) with the colors F of the bodies and the background B.
        noise: Standard deviation of a pixel's noise in [0, 1], before rounding to 8 bits. None: 1/255. "auto": outlines are
            off, alike in neighbouring pixels and in frames; by how much follows from the fit (`uncertainty.outline`).
        camera: Name of the scene's camera.
        robust: Loss of the residuals: "gaussian", or "huber" or "cauchy" against outliers.
        ignore: Video of the same size and clock whose bright pixels are excluded, such as an occluder.
        frames: Frames to use, in the syntax of `gradsim.video.timing.align_frames`; by default all. Repeated frames, and
            instants of dropped frames, are excluded in any case.
        background: Image or video of the empty scene, or "median" or "mog2" of this video, to subtract (static camera). Bodies are
            then detected by their common color, or, if the scene states none, by their difference from the background; with
            `mask` too, bodies are where that is, and their edges are measured against the background: without shadows;
            the noise is estimated from the video unless `noise` is given. By "mog2" shadows are not bodies.
        outlines_by_default: Whether noise None is "auto" for a video of a lossy codec, where that is possible.
        category: Of COCO annotations: names of the categories that are bodies, separated by commas; needed if there are several.
        textured: Whether bodies have a texture, so that masks cannot go by the colors of the scene.

    Raises:
        InputError: If a file is missing or corrupt, its size or clock differs from the scene's, it has one frame only,
            its colors are not the scene's, no pixel shows a body, no pixel or frame is left, or the loss is unknown.
    """
    width, height = scene.view(camera).size
    fps, stamps = scene.timing.fps, scene.timing.stamps
    flat = mask is None and background is None and ignore is None and not textured and len(colors(scene)) == 1
    from_masks = mask is not None and not is_method(mask) and background is None and ignore is None and not textured
    if flat:
        film = _read_windows(scene, path)
    else:
        film = read_clock(frames_with_clock(path, fps)) if from_masks else videos.read_with_clock(path, fps)
    videos.check_video(film, width, height, fps, path, stamps)
    if len(film.times) < 2:
        raise InputError(f"{path} has one frame; a fit needs at least 2.")
    if mask is not None and str(background) == MOG2:
        raise InputError(f"got a mask (--mask) and `--background {MOG2}`; give one of them, or another background.")
    if textured and mask is None and background is None:
        raise InputError(
            "textured bodies have no color of their own to tell them from the background; subtract it (--background mog2, median or FILE), "
            "or give masks (--mask)."
        )
    if category and mask is None:
        raise InputError("got a category (--category) and no COCO annotations; give them (--mask FILE.json).")
    copies = film.repeated if isinstance(film, WindowedVideo) else repeated_frames(film.frames)
    alignment, notes = align_times(film.times, copies, fps, frames, stamps), {"loss": robust_loss(robust).name}
    single = mask is not None or background is not None or len(colors(scene)) == 1
    if noise is None and outlines_by_default and single and alignment.used.sum() >= FEWEST and is_lossy(path):
        noise = notes["noise"] = AUTO_NOISE
    outline_noise = noise == AUTO_NOISE
    stated, noise = noise is not None and not outline_noise, OUTLINE if outline_noise else noise
    noise = NOMINAL_NOISE if noise is None else noise
    if isinstance(noise, str) or not (math.isfinite(noise) and noise > 0):
        raise InputError(
            f"noise is {noise}; expected a standard deviation above 0, such as 1/255 = 0.0039, or `{AUTO_NOISE}`."
        )
    sigma, loss = math.hypot(noise, QUANTIZATION_NOISE), robust_loss(robust)
    weight = np.ones((len(film.times), 1, 1))
    if (poses := scene.view(camera).poses) is not None:
        if poses.covariance.any() and not outline_noise:
            raise InputError(
                f"camera `{camera}` moves by poses with errors, which move whole outlines, and the noise of pixels is stated or not that of outlines; give "
                f"--noise {AUTO_NOISE} (of one camera, with one mask), or observe tracks (--tracks), whose error bars take the covariance of the poses."
            )
        _exclude_frames_without_pose(alignment, poses, scene, path)
    windows, whole_pixels = film.windows if isinstance(film, WindowedVideo) else None, WHOLE_PIXELS
    if ignore is not None:  # what a body hides behind may be wider than a window
        assert isinstance(film, videos.Video)
        whole_pixels = sys.maxsize
        weight = _included(ignore, film, path, fps if stamps is None else None)
    view, edges, shadows = scene.view(camera), None, None
    gamma, gain = view.gamma or 1.0, view.gain or 1.0
    if view.gain is not None and str(background) in ("None", "median", MOG2):
        raise InputError(
            f"camera `{camera}` has a `gain`, which is over a film of the empty scene; give it (--background FILE), or remove `gain`."
        )
    if gamma != 1 and mask is None and background is None:
        raise InputError(
            f"camera `{camera}` has gamma {gamma:g}, which counts where edges are measured against a background or a color next to them; "
            "give --background or --mask color:X,Y,W,H, or remove `gamma`: colors of a scene are values, not light."
        )
    if flat and isinstance(film, WindowedVideo):
        masks, contrast = _masks_from_color(scene, film.parts, film.samples, path, film.subsampled)
        sigma /= 1.0 if outline_noise else contrast
    elif mask is not None:
        clock = fps if stamps is None else None
        masks, edges, windows = masks_and_edges(mask, film, path, clock, category, gamma, whole_pixels)
    else:
        masks = None
    if background is not None and isinstance(film, videos.Video):
        empty = {"median": None, MOG2: MOG2}.get(str(background), background)
        empty = gain ** (1 / gamma) * read_background(empty) if empty not in (None, MOG2) else empty
        bodies, blur = None if masks is None else masks > 0.5, (scene.view(camera).exposure or 0.0) * fps
        bodies = bodies if bodies is None or windows is None else windows.spread(bodies)
        windowed = math.prod(film.frames.shape[:3]) > whole_pixels
        color = None if textured else _common_color(scene)
        subtraction = subtract_background(
            film.frames, empty, color, is_subsampled(path), bodies, blur, gamma, windowed=windowed
        )
        masks, weight, edges = subtraction.masks, weight * subtraction.weight, subtraction.edges
        windows, shadows = subtraction.windows, subtraction.shadows
        if not outline_noise:
            sigma = subtraction.sigma * (sigma / subtraction.noise if stated else 1.0)
        notes |= {"background": str(background), "video_noise": subtraction.noise}
    elif masks is None and len(kinds := colors(scene)) > 1 and isinstance(film, videos.Video):
        if outline_noise:
            raise InputError(
                f"noise is `{AUTO_NOISE}`, which needs one mask, and the scene's bodies have {len(kinds)} colours; state the noise, or "
                "give a mask video of all (--mask)."
            )
        return _labelled_masks(scene, film, path, kinds, sigma, weight, alignment, notes, camera, loss)
    elif masks is None and isinstance(film, videos.Video):
        masks, contrast = _masks_from_color(scene, film.frames, film.frames, path, is_subsampled(path))
        sigma /= 1.0 if outline_noise else contrast
    if textured and all(isinstance(body, Rigid) and body.shape.mesh().convex for body in scene.bodies.values()):
        assert masks is not None
        masks = _filled(masks)
    assert masks is not None
    places = centroids(masks) + (0.0 if windows is None else windows.corner[:, ::-1])
    alignment.suspected.extend(suspicious_steps(places[alignment.index], alignment))
    weight = weight[alignment.index] * alignment.used[:, None, None]
    if outline_noise and (count := int(alignment.used.sum())) < FEWEST:
        raise InputError(
            f"noise is `{AUTO_NOISE}`, which needs at least {FEWEST} frames, and {path} has {count} that are used; state the noise."
        )
    in_order = len(alignment.index) == len(masks) and bool((alignment.index == np.arange(len(masks))).all())
    images = torch.from_numpy(masks if in_order else masks[alignment.index])
    silhouettes, views = Silhouettes.of(scene, camera), None
    if windows is not None:
        views = Windows(torch.from_numpy(windows.corner[alignment.index]), windows.shape, windows.size)
        notes["windows"] = f"{views.shape[1]} × {views.shape[0]} px"
    observation = Masks(images, sigma, silhouettes, torch.from_numpy(weight), loss, views)
    if edges is not None and (view.gamma is not None or view.gain is not None):
        edges = edges.of_frames(alignment.index, masks[0].size).at_gain(gamma, gain)
        observation = LightMasks(observation, edges, gamma, gain)
    faults = mask_faults(masks, most_pieces(scene), alignment.index[alignment.used].tolist(), windows, shadows)
    observation.outline_noise = outline_noise
    observation.notes |= alignment.notes() | notes
    if faults.words:
        observation.notes |= {"mask_faults": faults.words, "mask_advice": faults.advice}
    if outline_noise and (factor := observation.largest_bin(OUTLINE_BODY_PIXELS)) > 1:
        observation = observation.binned(factor)
        observation.notes["binning"] = factor
    observation.mask_faults = faults
    return observation


def _filled(masks: np.ndarray) -> np.ndarray:
    """Masks (frames, height, width) of opaque convex bodies, without the holes and notches where their texture has the color of the background.

    The largest piece of a mask, and others of a tenth of it, become their convex hulls, unless these are much larger: then something
    else is in the mask.
    """
    from scipy.ndimage import binary_closing, binary_fill_holes, binary_opening

    square, filled = np.ones((3, 3), bool), np.zeros_like(masks)
    for image, mask in zip(filled, masks, strict=True):
        whole = binary_fill_holes(binary_closing(np.pad(mask > 0.5, CLOSED_GAP), square, CLOSED_GAP))
        pieces, count = connected_regions(binary_opening(whole, square))
        sizes = np.bincount(pieces.ravel(), minlength=count + 1)[1:]
        rows, columns = (slice(CLOSED_GAP, n + CLOSED_GAP) for n in mask.shape)
        for k in np.nonzero(sizes > MIN_PIECE_SHARE * sizes.max(initial=0))[0]:
            np.maximum(image, _hull(pieces == 1 + k)[rows, columns], out=image)
    return filled


def _exclude_frames_without_pose(alignment: FrameAlignment, poses: CameraPoses, scene, path) -> None:
    times = np.array([scene.timing.time(k) for k in range(len(alignment.used))])
    alignment.used[:] &= poses.covers(times)
    if alignment.used.sum() < 2:
        raise InputError(
            f"{alignment.used.sum()} frames of {path} have a pose of the camera; a fit needs at least 2. Are the poses those of this clip?"
        )


def _hull(piece: np.ndarray) -> np.ndarray:
    """Coverage (height, width) by the convex hull of a piece; the piece itself where it is far from convex.

    The edge of a piece is half a pixel from the centers of its outermost pixels in the mean.
    """
    from scipy.spatial import ConvexHull, QhullError

    places = np.argwhere(piece)
    try:
        hull = ConvexHull(places)
    except QhullError:  # a line
        return piece.astype(float)
    low, high = np.maximum(places.min(0) - 1, 0), places.max(0) + 2
    box = np.stack(np.meshgrid(*(np.arange(a, b) for a, b in zip(low, high, strict=True)), indexing="ij"), -1)
    distance = (box @ hull.equations[:, :2].T + hull.equations[:, 2]).max(-1)
    if len(places) < MIN_HULL_FILL * (distance <= 1e-9).sum():
        return piece.astype(float)
    covered = np.zeros(piece.shape)
    within = tuple(slice(a, min(b, n)) for a, b, n in zip(low, high, piece.shape, strict=True))
    covered[within] = np.clip(1 - distance, 0, 1)[: within[0].stop - low[0], : within[1].stop - low[1]]
    return covered


def _included(ignore, film: videos.Video, path, fps: float | None) -> np.ndarray:
    """1 where no channel of the ignore video is bright, else 0."""
    included = matching_frames(ignore, film, path, fps).max(-1) < BRIGHT
    if not included.any():
        raise InputError(f"{ignore} is bright everywhere, so no pixel is left; only ignored pixels should be bright.")
    return included.astype(np.float64)


def _common_color(scene) -> tuple[float, ...] | None:
    """Color that the scene states for all its bodies; None if they have none in common."""
    stated = all("colour" in body.model_fields_set for body in scene.bodies.values())
    values = list(colors(scene))
    return values[0] if stated and len(values) == 1 else None


def most_pieces(scene) -> int | None:
    """Most pieces in which bodies of a scene are seen; None if one of them is soft, and may be thinner than a pixel."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count = 0
    for name, body in scene.bodies.items():
        if isinstance(body, Rigid):
            mesh = body.shape.mesh()
            edges, n = mesh.faces[:, [0, 1, 1, 2]].reshape(-1, 2), len(mesh.vertices)
            count += connected_components(coo_array((np.ones(len(edges)), tuple(edges.T)), (n, n)), directed=False)[0]
        elif isinstance(body, Pendulum | DoublePendulum):
            count += len(body.part_colors(name))
        else:
            return None
    return count


def colors(scene) -> dict[tuple[float, ...], list[str]]:
    """Parts of the surface of the scene's bodies by their colour."""
    by_color: dict[tuple[float, ...], list[str]] = {}
    for name, body in scene.bodies.items():
        for part, color in body.part_colors(name).items():
            by_color.setdefault(tuple(color), []).append(part)
    return by_color


def _labelled_masks(
    scene, film: videos.Video, path, kinds, sigma, weight, alignment, notes, camera: str, loss
) -> LabelledMasks:
    background = np.array(scene.background)
    alpha, noise, off = color_shares(film.frames, list(kinds), background)
    _check_colors(film.frames, path, " and ".join(str(list(c)) for c in kinds), background, off, alpha.sum(1))
    alignment.suspected.extend(suspicious_steps(centroids(alpha.sum(1))[alignment.index], alignment))
    weight = np.broadcast_to(weight, film.frames.shape[:3])
    used = torch.tensor(weight[alignment.index] * alignment.used[:, None, None])
    part, silhouettes = torch.tensor(alpha[alignment.index]), Silhouettes.of(scene, camera)
    observation = LabelledMasks(part, (sigma * noise).tolist(), list(kinds.values()), silhouettes, True, used, loss)
    observation.notes |= alignment.notes() | notes
    return observation


def _alpha(scene, subsampled: bool) -> Callable[[np.ndarray], np.ndarray]:
    """Coverage (height, width) of a part (height, width, 3) of a frame by bodies of one color."""
    colour, background = np.array(next(iter(colors(scene)))), np.array(scene.background)
    metric = _metric(colour, background, subsampled)
    return lambda part: segmentation.alpha_from_flat_colors(part[None], colour, background, metric=metric)[0]


def _metric(colour: np.ndarray, background: np.ndarray, subsampled: bool) -> np.ndarray:
    return segmentation.luma_metric(colour, background) if subsampled else np.eye(3)


def _read_windows(scene, path) -> WindowedVideo:
    """A video of bodies of one color, or windows of it."""
    frames = frames_with_clock(path, scene.timing.fps)
    alpha = cache(lambda: _alpha(scene, frames.subsampled))  # made once the file has proved to be a video
    return read_windows(frames, lambda part: alpha()(part))


def _masks_from_color(
    scene, parts: Sequence[np.ndarray] | np.ndarray, samples: Sequence[np.ndarray] | np.ndarray, path, subsampled: bool
) -> tuple[np.ndarray, float]:
    """Masks by the color of the bodies of frames or of windows of them, and the noise of a pixel over that of the masks.

    Whether the colors are those of the scene is seen by the samples of the frames, which may be all their pixels.
    """
    colour, background = np.array(next(iter(colors(scene)))), np.array(scene.background)
    alpha, masks = _alpha(scene, subsampled), np.empty((len(parts), *parts[0].shape[:2]))
    for k, part in enumerate(parts):
        masks[k] = alpha(part)
    sampled = masks if samples is parts else map(alpha, samples)
    off = segmentation.distance_from_line(samples, sampled, colour, background)
    _check_colors(samples, path, str(colour), background, off, masks)
    along = _metric(colour, background, subsampled) @ (colour - background)
    return masks, float((colour - background) @ along / np.linalg.norm(along))


def _check_colors(
    frames: Iterable[np.ndarray], path, colour: str, background: np.ndarray, off: float, alpha: np.ndarray
) -> None:
    """Raise `InputError` if the colors of a video are not the scene's (`off`: RMS distance), or no body is visible."""
    if not segmentation.share_off_color(frames, background, VISIBLE):
        raise InputError(f"{path} shows no pixel of a body: every pixel has the background's colour {background}.")
    if off > OFF_COLOR or alpha.max() < 0.5:
        raise InputError(
            f"the colours of {path} are not those of the scene (body {colour}, background {background}): its pixels "
            f"are {off:.2g} off the line between them. Set `colour` and `background`, or give a mask video (--mask), or "
            "subtract the background (--background)."
        )
