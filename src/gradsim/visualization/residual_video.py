"""Video of the whitened residuals of a fit.

Red: the fit covers more of a pixel than the observation; blue: less; white: 0. One scale for the whole video.
"""

import math
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont

from gradsim import video as videos
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.labelled_masks import LabelledMasks
from gradsim.visualization.overlay_video import factor

NOISE = 5.0  # [σ] the scale is never narrower, so that noise stays inside
BAND, BAR = 26, 74  # [px] heights of the caption and width of the scale
INK, OUTLINE = (31, 36, 48), np.array([170, 176, 186], np.uint8)
COLORS = mpl.colormaps["RdBu_r"]


def residual_video(r: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Frames (frames, height, width, 3) uint8 of whitened residuals.

    Args:
        r: (model − video)/σ (frames, height, width).
        mask: Mask of the fit (frames, height, width); its outline is drawn in gray.
    """
    reach, times = scale(r), factor(r)
    big = (COLORS(np.clip(0.5 + 0.5 * r / reach, 0, 1))[..., :3] * 255).round().astype(np.uint8)
    big = big.repeat(times, 1).repeat(times, 2)
    inside = mask.repeat(times, 1).repeat(times, 2) > 0.5
    edge = (inside ^ np.roll(inside, 1, 1)) | (inside ^ np.roll(inside, 1, 2))
    quiet = (np.abs(r) < 0.2 * reach).repeat(times, 1).repeat(times, 2)
    big[edge & quiet] = OUTLINE
    frames, height, width, _ = big.shape
    video = np.full((frames, height + BAND, width + BAR, 3), 255, np.uint8)
    video[:, BAND:, :width] = big
    video[:, :, width:] = _bar(reach, height + BAND)
    for k in range(frames):
        worst = np.abs(r[k]).max()
        video[k, :BAND, :width] = _text(f"frame {k}   largest |r| {worst:.3g} σ", width, BAND)
    return video


def write_residuals(folder: Path, observed: Masks | LabelledMasks, mask: np.ndarray, fps: float) -> None:
    """Write residuals.webm for a report.

    Args:
        folder: Run directory.
        observed: The fitted masks.
        mask: Mask of the fit (frames, height, width), of whole images, or of the pixels that are compared.
        fps: Frames per second.
    """
    if mask.shape != observed.masks.shape and (binning := observed.silhouettes.binning) > 1:
        frames, height, width = observed.masks.shape
        mask = mask.reshape(frames, height, binning, width, binning).mean((2, 4))
    r = (mask - observed.masks.numpy()) * np.sqrt(observed.weight.numpy()) / observed.sigma
    videos.write_preview(folder / "residuals.webm", residual_video(r, mask), fps)


def scale(r: np.ndarray) -> float:
    """Limit of the color scale [σ]: at least 5, else 1, 2 or 5 times a power of ten above 99.8 % of the nonzero residuals."""
    sizes = np.abs(r[np.isfinite(r) & (np.abs(r) > 1e-12)])
    most = max(NOISE, float(np.quantile(sizes, 0.998))) if sizes.size else NOISE
    power = 10.0 ** math.floor(math.log10(most))
    return next(k * power for k in (1, 2, 5, 10) if k * power >= most * (1 - 1e-9))


def _bar(reach: float, height: int) -> np.ndarray:
    """Vertical color bar."""
    image = Image.new("RGB", (BAR, height), "white")
    top, low = BAND + 6, height - 8
    levels = np.linspace(1, 0, low - top)
    strip = (COLORS(levels)[:, None, :3] * 255).round().astype(np.uint8).repeat(14, 1)
    image.paste(Image.fromarray(strip), (8, top))
    draw, font = ImageDraw.Draw(image), _font(12)
    draw.rectangle((7, top - 1, 22, low), outline=INK)
    for share in (1.0, 0.5, 0.0, -0.5, -1.0):
        y = top + (low - top) * (1 - share) / 2
        draw.text((27, y), f"{share * reach:+.3g} σ" if share else "0", fill=INK, font=font, anchor="lm")
    return np.array(image)


def _font(size: int) -> ImageFont.FreeTypeFont:
    """Font with Greek letters; part of matplotlib."""
    return ImageFont.truetype(font_manager.findfont("DejaVu Sans"), size)


def _text(words: str, width: int, height: int) -> np.ndarray:
    image = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(image).text((6, height / 2), words, fill=INK, font=_font(13), anchor="lm")
    return np.array(image)
