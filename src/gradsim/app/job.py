"""What a fit was asked to do."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gradsim.app.asked import Asked, record

READING = ("robust", "ignore", "frames", "background")
FILMS = ("side_by_side.webm", "overlay.webm", "residuals.webm")


@dataclass(frozen=True, kw_only=True)
class Job(Asked):
    """A fit as asked for.

    Args:
        scene: The scene; its values of the unknowns are not used.
        video: The video.
        mask: A mask video, or None to take silhouettes from the colours.
        unknowns: NAME or NAME:LOW:HIGH.
        seed: Of the starts.
        starts: Their number.
        noise: Standard deviation of a pixel's noise in [0, 1]; None: 1/255.
        robust: Loss of a residual, as in `from_video`.
        ignore: Film whose bright pixels do not count.
        frames: Which to use.
        background: The empty scene, or "median".
        profile: Whether to add profile likelihoods along the two weakest directions.
    """

    command: ClassVar = "fit"
    noun: ClassVar = "fit"
    subject: ClassVar = "scene"
    answer: ClassVar = (
        *("result.json", "history.json", "report.html", "player.html", "leftover.png", "profiles.png"),
        *FILMS,
    )

    scene: Path
    video: Path
    unknowns: tuple[str, ...]
    mask: Path | None = None
    seed: int = 0
    starts: int = 16
    noise: float | None = None
    robust: str = "gaussian"
    ignore: Path | None = None
    frames: str = ""
    background: Path | str | None = None
    profile: bool = False

    def __post_init__(self):
        if self.background is not None and self.background != "median":
            object.__setattr__(self, "background", Path(self.background))

    @property
    def reading(self) -> dict:
        """How the film is read: further arguments of `from_video`."""
        return {name: getattr(self, name) for name in READING}


def video_as_given(folder: Path) -> str:
    """How the video was named when the job of this folder was begun."""
    kept = record(folder)
    return kept["arguments"]["video"] if kept else ""
