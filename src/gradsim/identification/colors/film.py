"""Frames of a video whose colors are compared."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim import video as videos
from gradsim.identification.observation.from_video import matching_frames
from gradsim.video.read import is_lossy
from gradsim.video.timing import align_frames


@dataclass(frozen=True, eq=False)
class Film:
    """Frames of a video at the instants of a scene.

    Args:
        frames: (frames, height, width, 3) uint8.
        used: Which pixels may count (frames, height, width), bool.
        path: The file.
        lossy: Whether its codec is lossy.
    """

    frames: np.ndarray
    used: np.ndarray
    path: Path
    lossy: bool

    @classmethod
    def read(cls, scene, path: str | Path, frames: str = "", ignore: str | Path | None = None) -> "Film":
        """Read a video.

        Args:
            scene: Scene with its clock.
            path: The file.
            frames: Frames to use, as in `from_video`.
            ignore: Video whose bright pixels do not count.
        """
        fps, stamps = scene.timing.fps, scene.timing.stamps
        video = videos.read_with_clock(path, fps)
        alignment = align_frames(video, fps, frames, stamps)
        used = np.broadcast_to(alignment.used[:, None, None], video.frames[alignment.index].shape[:3]).copy()
        if ignore is not None:
            other = matching_frames(ignore, video, path, fps if stamps is None else None)
            used &= other[alignment.index].max(-1) < 128
        return cls(video.frames[alignment.index], used, Path(path), is_lossy(path))
