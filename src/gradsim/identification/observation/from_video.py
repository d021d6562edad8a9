"""From a video file to an observation, with the checks that a user's files need."""

import math
from pathlib import Path

import numpy as np
import torch

from gradsim import video as videos
from gradsim.errors import InputError
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.labelled_masks import LabelledMasks, shares
from gradsim.numerics.robust import robust_loss
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene.double_pendulum import DoublePendulum
from gradsim.video import masks as segmentation
from gradsim.video.background import read_background, subtract_background
from gradsim.video.timing import align_frames, centroids, suspicious_steps

QUANTIZED = 1 / 255 / math.sqrt(12)  # standard deviation of rounding to 8 bits
NOMINAL = 1 / 255  # noise of a pixel that is assumed where none is stated
OFF_COLOUR = 0.1  # RMS distance of pixels from the line between body and background at which a video is refused


def from_video(
    scene,
    path: str | Path,
    mask: str | Path | None = None,
    noise: float | None = None,
    camera: str = "camera",
    robust: str = "gaussian",
    ignore: str | Path | None = None,
    frames: str = "",
    background: str | Path | None = None,
) -> Masks | LabelledMasks:
    """Silhouettes of the scene's bodies in a video: of all together, or of each colour where bodies have two or three.

    Args:
        scene: Its camera, fps and flat colours are those of the video.
        path: The video.
        mask: A mask video of the same size and clock (bright on black; grey levels are coverage) of all bodies together.
            Without it the silhouettes come from the colours: I = B + Σ α (F − B) with the colours F of the bodies and the
            background B.
        noise: Standard deviation of a pixel's noise in [0, 1], before rounding to 8 bits. None: 1/255.
        camera: Name of the scene's camera that filmed it.
        robust: Loss of the residuals: "gaussian", or "huber" or "cauchy" against outliers.
        ignore: A video of the same size and clock whose bright pixels do not count, such as something that passes in
            front.
        frames: Which frames to use, in the words of `gradsim.video.timing.align_frames`; all by default. Frames that repeat
            the one before, and instants whose frame was dropped, do not count in any case.
        background: A picture or film of the empty scene, or "median" of this film, to subtract (camera at rest). Bodies
            are then found by the colour that the scene gives them all, or, where it gives none, by being different;
            and the noise is the film's own where none is stated.

    Raises:
        InputError: If a file is missing or corrupt, its size or clock differ from the scene's, it has one frame only,
            its colours are not the scene's, no pixel shows a body, no pixel or frame is left to count, or there is no such
            loss.
    """
    width, height = scene.view(camera).size
    film = videos.read(path)
    videos.check_video(film, width, height, scene.timing.fps, path)
    if len(film.frames) < 2:
        raise InputError(f"{path} has one frame; physics needs at least 2.")
    if mask is not None and background is not None:
        raise InputError("a mask video and a background are given; give one of them.")
    stated, noise = noise is not None, NOMINAL if noise is None else noise
    if not (math.isfinite(noise) and noise > 0):
        raise InputError(f"noise is {noise}; it is a standard deviation, above 0 (1/255 = 0.0039 is usual).")
    sigma, loss = math.hypot(noise, QUANTIZED), robust_loss(robust)
    alignment, notes = align_frames(film, scene.timing.fps, frames), {"loss": loss.name}
    weight = np.ones(film.frames.shape[:3])
    if ignore is not None:
        weight *= _counted(scene, ignore, film, path, camera)
    if mask is not None:
        masks = segmentation.from_mask_video(_beside(scene, mask, film, path, camera), grey=True)
    elif background is not None:
        empty = None if str(background) == "median" else read_background(background)
        found = subtract_background(film.frames, empty, _colour(scene))
        masks, weight = found.masks, weight * found.weight
        sigma = found.sigma * (sigma / found.noise if stated else 1.0)
        notes |= {"background": str(background), "film_noise": found.noise}
    elif len(kinds := colours(scene)) > 1:
        return _pieces(scene, film, path, kinds, sigma, weight, alignment, notes, camera, loss)
    else:
        masks, contrast = _from_colours(scene, film.frames, path)
        sigma /= contrast
    alignment.suspected.extend(suspicious_steps(centroids(masks)[alignment.index], alignment))
    weight = weight[alignment.index] * alignment.used[:, None, None]
    seen = Masks(torch.tensor(masks[alignment.index]), sigma, Silhouettes.of(scene, camera), torch.tensor(weight), loss)
    seen.notes |= alignment.notes() | notes
    return seen


def _beside(scene, path, film: videos.Video, filmed, camera: str) -> np.ndarray:
    """Frames of a video that goes with the film, one for each."""
    beside, (width, height) = videos.read(path), scene.view(camera).size
    videos.check_video(beside, width, height, scene.timing.fps, path)
    if len(beside.frames) != len(film.frames):
        raise InputError(f"{path} has {len(beside.frames)} frames, {filmed} has {len(film.frames)}; give one for each.")
    return beside.frames


def _counted(scene, ignore, film: videos.Video, filmed, camera: str) -> np.ndarray:
    """1 where no channel of the ignore video is bright, else 0."""
    counted = _beside(scene, ignore, film, filmed, camera).max(-1) < 128
    if not counted.any():
        raise InputError(f"{ignore} is bright everywhere, so no pixel counts; make bright only what is to be ignored.")
    return counted.astype(np.float64)


def _colour(scene) -> tuple[float, ...] | None:
    """The colour that the scene states for all its bodies."""
    found = list(colours(scene))
    stated = all("colour" in body.model_fields_set for body in scene.bodies.values())
    return found[0] if stated and len(found) == 1 else None


def colours(scene) -> dict[tuple[float, ...], list[str]]:
    """Parts of the surface of the scene's bodies by their colour."""
    found: dict[tuple[float, ...], list[str]] = {}
    for name, body in scene.bodies.items():
        double = isinstance(body, DoublePendulum)
        for part, colour in (
            ((f"{name}.first", body.colour), (f"{name}.second", body.second_colour))
            if double
            else ((name, body.colour),)
        ):
            found.setdefault(tuple(colour), []).append(part)
    return found


def _pieces(
    scene, film: videos.Video, path, kinds, sigma, weight, alignment, notes, camera: str, loss
) -> LabelledMasks:
    background = np.array(scene.background)
    alpha, noise, off = shares(film.frames, list(kinds), background)
    _check_colours(film.frames, path, " and ".join(str(list(c)) for c in kinds), background, off, alpha.sum(1))
    alignment.suspected.extend(suspicious_steps(centroids(alpha.sum(1))[alignment.index], alignment))
    counted = torch.tensor(weight[alignment.index] * alignment.used[:, None, None])
    part, silhouettes = torch.tensor(alpha[alignment.index]), Silhouettes.of(scene, camera)
    seen = LabelledMasks(part, (sigma * noise).tolist(), list(kinds.values()), silhouettes, True, counted, loss)
    seen.notes |= alignment.notes() | notes
    return seen


def _from_colours(scene, frames: np.ndarray, path) -> tuple[np.ndarray, float]:
    colour, background = np.array(next(iter(colours(scene)))), np.array(scene.background)
    alpha = segmentation.alpha_from_flat_colors(frames, colour, background)
    rebuilt = background + alpha[..., None] * (colour - background)
    off = math.sqrt(np.mean((frames / 255 - rebuilt) ** 2))
    _check_colours(frames, path, str(colour), background, off, alpha)
    return alpha, float(np.linalg.norm(colour - background))


def _check_colours(
    frames: np.ndarray, path, colour: str, background: np.ndarray, off: float, alpha: np.ndarray
) -> None:
    """Raise `InputError` if a film's colours are not the scene's: `off` by the root mean square, or nothing seen."""
    seen = (np.abs(frames / 255 - background).max(-1) > 0.1).mean()
    if seen == 0:
        raise InputError(f"{path} shows no pixel of a body: every pixel has the background's colour {background}.")
    if off > OFF_COLOUR or alpha.max() < 0.5:
        raise InputError(
            f"the colours of {path} are not those of the scene (body {colour}, background {background}): its pixels "
            f"are {off:.2g} off the line between them. Set `colour` and `background`, or give a mask video (--mask), or "
            "subtract the background (--background)."
        )
