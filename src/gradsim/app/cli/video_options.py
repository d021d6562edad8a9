"""Options of all commands that read videos of a scene. Imports nothing heavy."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import UseAppendAction, arg

from gradsim.app.cli.command import flatten
from gradsim.errors import InputError

OF_FROM_VIDEO = ("robust", "ignore", "frames", "background", "category")  # as arguments of `from_video`


@dataclass(kw_only=True)
class VideoOptions:
    """Masks, background, frames and noise of the videos, alike in `fit`, `compare`, `explain` and `landscape`."""

    mask: Annotated[
        UseAppendAction[list[list[str]]],
        arg(metavar="[CAMERA=]MASK ...", help_behavior_hint="(default: from the colors)"),
    ] = field(default_factory=list)
    """Masks of the bodies: video or folder of png, white on black; COCO annotations (.json); or, from a rectangle around the body in frame 0 (with @K, in frame K), grabcut:X,Y,W,H (by edges) or color:X,Y,W,H."""
    category: Annotated[str, arg(metavar="NAME[,NAME ...]", help_behavior_hint="(default: the only one)")] = ""
    """Categories of COCO annotations that are bodies."""
    background: Annotated[
        str | None, arg(metavar="FILE|median|mog2", help_behavior_hint="(default: the scene's background)")
    ] = None
    """Image or video of the empty scene to subtract, or, of the video itself, median or mog2 (which shadows do not fool); for a fixed camera."""
    frames: Annotated[str, arg(metavar="SPEC", help_behavior_hint="(default: all)")] = ""
    """Frames to use, comma-separated: A:B only these; !K not K; -K: K is an extra frame; +K: one is missing before K."""
    ignore: Annotated[Path | None, arg(metavar="MASK", help_behavior_hint="(default: none)")] = None
    """Video whose bright pixels are ignored."""
    robust: Annotated[str, arg(metavar="LOSS")] = "gaussian"
    """Robust loss for outlier pixels (occluders, artifacts): gaussian, huber or cauchy."""
    noise: Annotated[
        float | Literal["auto"] | None,
        arg(metavar="SIGMA|auto", help_behavior_hint="(default: 1/255; in `fit` auto for videos of lossy codecs)"),
    ] = None
    """Standard deviation of a pixel's noise, for pixels in [0, 1]; auto: outlines are off, by what the fit leaves."""

    @property
    def masks(self) -> list[str]:
        """All masks, in the order of their videos."""
        return flatten(self.mask)

    @property
    def arguments(self) -> dict:
        """Further arguments of `from_video`."""
        return {name: getattr(self, name) for name in OF_FROM_VIDEO}

    @property
    def stated(self) -> dict:
        """Arguments of `from_video` that differ from the defaults."""
        defaults = {f.name: f.default for f in fields(self)}
        return {name: value for name, value in self.arguments.items() if value != defaults[name]}

    def single_mask(self) -> str | None:
        """The mask of one video.

        Raises:
            InputError: If there are several.
        """
        if len(self.masks) > 1:
            raise InputError(f"got {len(self.masks)} masks (--mask), and there is one video; give one.")
        return self.masks[0] if self.masks else None

    def require_video(self, video: Path | None) -> None:
        """Raise `InputError` if an option is stated and no video that it could be of."""
        names = [*(["mask"] if self.masks else []), *self.stated]
        if names and video is None:
            raise InputError(f"--{names[0]} is of a video, and none is given; add --video VIDEO, or leave it out.")
