"""Frames of a video whose colors are compared."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim import video as videos
from gradsim.identification.observation.from_video import matching_frames
from gradsim.video.background import MOG2, background_behind, read_background
from gradsim.video.read import is_lossy, is_subsampled
from gradsim.video.timing import align_frames


@dataclass(frozen=True, eq=False)
class Film:
    """Frames of a video at the instants of a scene.

    Args:
        frames: (frames, height, width, 3) uint8.
        used: Which pixels may count (frames, height, width), bool.
        path: The file.
        lossy: Whether its codec is lossy.
        subtracted: Whether masks are what differs from a background.
        background: (height, width, 3) in [0, 1], of the empty scene; None: the median of the frames.
        gamma, gain: Response of the camera; None where the scene does not state it.
        subsampled: Whether the codec has chroma at half the resolution.
    """

    frames: np.ndarray
    used: np.ndarray
    path: Path
    lossy: bool
    subtracted: bool = False
    background: np.ndarray | None = None
    gamma: float | None = None
    gain: float | None = None
    subsampled: bool = False

    @classmethod
    def read(
        cls,
        scene,
        path: str | Path,
        frames: str = "",
        ignore: str | Path | None = None,
        background: str | Path | None = None,
        camera: str = "camera",
    ) -> "Film":
        """Read a video.

        Args:
            scene: Scene with its clock.
            path: The file.
            frames: Frames to use, as in `from_video`.
            ignore: Video whose bright pixels do not count.
            background: What masks are subtracted from, as in `from_video`; None where they are not.
            camera: Name of the scene's camera.
        """
        fps, stamps = scene.timing.fps, scene.timing.stamps
        video = videos.read_with_clock(path, fps)
        alignment = align_frames(video, fps, frames, stamps)
        used = np.broadcast_to(alignment.used[:, None, None], video.frames[alignment.index].shape[:3]).copy()
        if ignore is not None:
            other = matching_frames(ignore, video, path, fps if stamps is None else None)
            used &= other[alignment.index].max(-1) < 128
        view = scene.view(camera)
        file = None if background is None or str(background) in ("median", MOG2) else background
        return cls(
            video.frames[alignment.index],
            used,
            Path(path),
            is_lossy(path),
            background is not None,
            None if file is None else (view.gain or 1.0) ** (1 / (view.gamma or 1.0)) * read_background(file),
            view.gamma,
            view.gain,
            is_subsampled(path),
        )

    def empty(self, bodies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Background (height, width, 3) in [0, 1] of frames with bodies (frames, height, width), and pixels that no frame shows without them."""
        if self.background is not None:
            return self.background, np.zeros(bodies.shape[1:], bool)
        B = background_behind(self.frames, bodies)
        hidden = np.isnan(B[..., 0])
        return np.where(hidden[..., None], 0.5, B), hidden
