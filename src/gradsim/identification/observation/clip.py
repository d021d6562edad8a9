"""Description of one recording: its video files and how to read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gradsim.errors import InputError
from gradsim.identification.observation.base import Observation
from gradsim.identification.observation.from_video import AUTO_NOISE, from_video
from gradsim.identification.observation.multi_view import MultiView
from gradsim.runtime.allocator import freed_memory_reused

Files = str | Path | Mapping[str, str | Path]


@dataclass(frozen=True)
class Clip:
    """One recording of a scene: video files and how to read them.

    Args:
        video: Video file of `camera`; or of several cameras, by the camera's name.
        mask: Mask video, COCO annotations, or a method with a rectangle, as in `from_video`, where the colors of the scene are not
            those of the video; or by the camera's name.
        noise: Standard deviation of a pixel's noise in [0, 1], before rounding to 8 bits. "auto": as `from_video`, of one
            camera. None: 1/255; in `identify`, "auto" for a video of a lossy codec.
        robust: Loss of the residuals: "gaussian", or "huber" or "cauchy" against outliers.
        ignore: Video of the same size and clock; its bright pixels do not count.
        frames: Frames to use, such as "0:30" or "!12"; see `gradsim.video.timing.align_frames`.
        background: Image or video of the empty scene, or "median" or "mog2", to subtract.
        camera: Name of the scene's camera, where `video` is one file.
        category: Categories of COCO annotations that are bodies, as in `from_video`.
    """

    video: Files
    mask: Files | None = None
    noise: float | str | None = None
    robust: str = "gaussian"
    ignore: str | Path | None = None
    frames: str = ""
    background: str | Path | None = None
    camera: str = "camera"
    category: str = ""

    @classmethod
    def of(cls, clip: "Clip | Files") -> "Clip":
        """A clip; of files, the clip with defaults."""
        return clip if isinstance(clip, Clip) else cls(clip)

    @property
    def videos(self) -> Mapping[str, str | Path]:
        """Video files by camera."""
        return self._by_camera(self.video)

    @freed_memory_reused()
    def observe(self, scene, outlines_by_default: bool = False, textured: bool = False) -> Observation:
        """Silhouettes of the scene's bodies in the videos; arguments as for `from_video`.

        Raises:
            InputError: As `from_video`, and if a camera is none of the scene's, or has a mask without a video.
        """
        videos, masks = self._by_camera(self.video), self._by_camera(self.mask)
        for camera in [*videos, *masks]:
            scene.view(camera)
            if camera not in videos:
                raise InputError(f"camera `{camera}` has a mask video and no video; give both.")
        parts = {
            camera: from_video(
                scene,
                path,
                masks.get(camera),
                self.noise,
                camera,
                robust=self.robust,
                ignore=self.ignore,
                frames=self.frames,
                background=self.background,
                outlines_by_default=outlines_by_default and len(videos) == 1,
                category=self.category,
                textured=textured,
            )
            for camera, path in videos.items()
        }
        if self.noise == AUTO_NOISE and len(parts) != 1:
            raise InputError(f"noise is `{AUTO_NOISE}`, which is for one camera; got {len(parts)}. State the noise.")
        return MultiView(parts) if len(parts) != 1 else next(iter(parts.values()))

    def _by_camera(self, files: Files | None) -> Mapping[str, str | Path]:
        if files is None:
            return {}
        return files if isinstance(files, Mapping) else {self.camera: files}
