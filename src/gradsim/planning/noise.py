"""Noise that a plan assumes, and the observation of a film that has not been made.

Independent noise in each pixel, as of `gradsim fit --noise SIGMA`: masks of bodies of one color have σ / |F − B| with the colors F of the
bodies and B of the background, those of several colors the rows' norms of the inverse. Or errors of outlines, as of
`--noise auto`, of a size in pixels (`identification.uncertainty.outline`).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from gradsim.errors import InputError
from gradsim.identification.observation.base import Masks, Observation
from gradsim.identification.observation.from_video import NOMINAL_NOISE, QUANTIZATION_NOISE, colors
from gradsim.identification.observation.labelled_masks import LabelledMasks
from gradsim.identification.observation.multi_view import MultiView
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene

USUAL_OUTLINE = 0.15  # [px] RMS displacement of outlines where only `auto` is stated
USUAL_CORRELATION = 0.5  # of an outline's displacement from frame to frame


@dataclass(frozen=True)
class OutlineNoise:
    """Errors of outlines of masks.

    Args:
        size: RMS displacement of an outline [px].
        shift: RMS shift of a frame's whole outline [px].
        correlation: Of one frame's displacement with the next.
    """

    size: float = USUAL_OUTLINE
    shift: float = USUAL_OUTLINE / 3
    correlation: float = USUAL_CORRELATION


@dataclass(frozen=True)
class VideoNoise:
    """Noise of a film.

    Args:
        pixel: Standard deviation of a pixel's noise, for pixels in [0, 1].
        mask: Standard deviation of coverage, in place of that which follows from `pixel` and the colors.
        outline: Errors of outlines; they replace both.
    """

    pixel: float = NOMINAL_NOISE
    mask: float | None = None
    outline: OutlineNoise | None = None

    @classmethod
    def parse(cls, stated: "float | str | VideoNoise | None") -> "VideoNoise":
        """From a standard deviation, "auto", or "auto:SIZE" with the displacement of outlines in px.

        Raises:
            InputError: If it is neither.
        """
        if isinstance(stated, VideoNoise):
            return stated
        expected = f"noise is {stated!r}; expected a standard deviation above 0, such as 0.004, `auto`, or `auto:0.2` (displacement in px)."
        if stated is None:
            return cls()
        text = str(stated).strip()
        head, _, size = text.partition(":")
        try:
            value = float(size or USUAL_OUTLINE) if head == "auto" else float(text)
        except ValueError:
            raise InputError(expected) from None
        if not (math.isfinite(value) and value > 0):
            raise InputError(expected)
        if head == "auto":
            return cls(outline=OutlineNoise(value, value / 3))
        return cls(pixel=value)

    @property
    def words(self) -> str:
        """The assumption in words."""
        if self.outline is not None:
            return f"outlines of masks are off by {self.outline.size:.2g} px (RMS), alike in neighbouring pixels and frames"
        if self.mask is not None:
            return f"masks with independent noise of {self.mask:.2g} in each pixel"
        return f"independent noise of {self.pixel:.2g} in each pixel of 8 bits, and bodies of the colors of the scene"


def observation_of(scene: Scene, noise: VideoNoise) -> Observation:
    """Masks by all cameras of a scene, empty: what they tell depends on the noise and on derivatives alone.

    Raises:
        InputError: If the scene has no camera, or its bodies have the color of the background.
    """
    views = {name: _of_camera(scene, name, noise) for name in scene.views}
    if not views:
        raise InputError("the scene has no camera; give it one: a plan is for films.")
    return next(iter(views.values())) if len(views) == 1 else MultiView(views)


def _of_camera(scene: Scene, camera: str, noise: VideoNoise) -> Masks | LabelledMasks:
    silhouettes, frames = Silhouettes.of(scene, camera), scene.timing.frames
    width, height = scene.view(camera).size
    kinds = colors(scene)
    if noise.mask is not None or noise.outline is not None or len(kinds) > 3:
        masks = Masks(torch.zeros(frames, height, width).double(), noise.mask or 1.0, silhouettes)
        return masks
    contrast = np.array(list(kinds)) - np.array(scene.background)
    if np.linalg.svd(contrast)[1].min() < 1e-3:
        raise InputError(
            "the colors of the bodies are those of the background or of one another, so no film would show them; change `colour`."
        )
    factors = np.linalg.norm(np.linalg.pinv(contrast), axis=0)
    sigmas = (math.hypot(noise.pixel, QUANTIZATION_NOISE) * factors).tolist()
    if len(kinds) == 1:
        return Masks(torch.zeros(frames, height, width).double(), sigmas[0], silhouettes)
    blank = torch.zeros(frames, len(kinds), height, width).double()
    return LabelledMasks(blank, sigmas, list(kinds.values()), silhouettes)
