"""Where the pictures and films of a shot go: names of files, and files that appear whole."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim import video as videos
from gradsim.app.shot import Shot
from gradsim.runtime.atomic import whole
from gradsim.visualization.overlay_video import HEIGHT

COLOURS = 256  # of a frame of a gif


@dataclass(frozen=True)
class Gallery:
    """A folder for what a shot makes.

    Args:
        folder: The folder; made with the first file.
        shot: Camera and renderer show in the names.
        fps: Of films [1/s].
    """

    folder: Path
    shot: Shot
    fps: float

    def film(self, kind: str, frames: np.ndarray) -> tuple[Path, bool]:
        """Write a film, bit-exact where its format can and no preview is asked for; whether it is.

        Args:
            kind: Its name but for camera and renderer.
            frames: (frames, height, width, 3) uint8.
        """
        kind = kind if not self.shot.preview else "preview" if kind == "video" else f"{kind}_preview"
        path = self._path(kind, "" if self.shot.format == "png" else f".{self.shot.format}")
        if self.shot.preview:
            factor = max(1, round(HEIGHT / frames.shape[1]))
            videos.write_preview(path, frames.repeat(factor, 1).repeat(factor, 2), self.fps)
        elif path.suffix == ".gif" and max(len(np.unique(f.reshape(-1, 3), axis=0)) for f in frames) > COLOURS:
            videos.write_preview(path, frames, self.fps)
        else:
            videos.write(path, frames, self.fps)
            return path, True
        return path, False

    def picture(self, kind: str, picture: np.ndarray) -> Path:
        """Write a picture (height, width, 3) uint8 as png."""
        from PIL import Image

        path = self._path(kind, ".png")
        with whole(path) as draft:
            Image.fromarray(picture).save(draft)
        return path

    def arrays(self, kind: str, arrays: dict[str, np.ndarray]) -> Path:
        """Write arrays by name as npz."""
        path = self._path(kind, ".npz")
        with whole(path) as draft, draft.open("wb") as file:
            np.savez_compressed(file, **arrays)  # pyright: ignore[reportArgumentType]
        return path

    def _path(self, kind: str, suffix: str) -> Path:
        """side_mask.webm; the film itself of a further camera is side.webm, and one by `aa` video_aa.webm."""
        further = [self.shot.camera] if self.shot.camera != "camera" else []
        renderer = [self.shot.renderer] if self.shot.renderer not in (None, "coverage") else []
        words = [*further, *([] if further and kind == "video" else [kind]), *renderer]
        return self.folder / f"{'_'.join(words)}{suffix}"
