"""`gradsim fit --tracks`: of tracks of markers, with or without the video that they are from."""

from functools import partial
from pathlib import Path

import torch

from gradsim import video as videos
from gradsim.app.clip_fit import ClipFit
from gradsim.app.report.page import plot
from gradsim.app.report.track_plot import track_plot
from gradsim.errors import InputError
from gradsim.identification.fit import Fit
from gradsim.identification.observation.multi_view import MultiView
from gradsim.identification.observation.points import Points
from gradsim.identification.observation.tracks import read_tracks, read_tracks_of_cameras
from gradsim.identification.scene_models import parameter_values
from gradsim.visualization.overlay_video import mark_points
from gradsim.visualization.player import write_player

PLOT, VIDEO = "tracks{}.png", "overlay.webm"
TITLE = "Tracks"
CAPTION = "Crosses: tracks; lines: the fit. Right: what is left, and the noise that was stated (gray)."
MASKS_ONLY = ("mask", "background", "ignore", "frames", "category")


class TracksFit(ClipFit):
    """Fit of tracks of markers; its arguments have `tracks`.

    Raises:
        InputError: If an argument is wrong or is for masks, or a video has another size than the camera or fewer frames than
            the tracks.
    """

    def observe(self) -> Points | MultiView:
        """Read the tracks."""
        arguments = self.arguments
        assert arguments.tracks is not None
        if excluded := [f"--{name}" for name in MASKS_ONLY if getattr(arguments, name)]:
            raise InputError(
                f"{' and '.join(excluded)} are for masks of a video, and --tracks are no masks; leave them out."
            )
        if isinstance(arguments.noise, str):
            raise InputError(
                f"--noise {arguments.noise} is for masks; give the noise of the tracks in px or m, such as 0.5."
            )
        cameras, files = arguments.track_cameras or ("camera",), [arguments.tracks, *arguments.more_tracks]
        paths = dict(zip(cameras, files, strict=True))
        if len(paths) > 1:
            tracks = read_tracks_of_cameras(self.scene, paths, arguments.noise, arguments.robust)
        else:
            tracks = read_tracks(self.scene, arguments.tracks, arguments.noise, cameras[0], arguments.robust)
        if arguments.video is not None:
            self._check_video(arguments.video, tracks.frames)
        return tracks

    def write_videos(self, folder: Path, fit: Fit) -> dict:
        with torch.no_grad():
            values = parameter_values(self.scene, fit.values)
            fitted = self.problem.model.rollout(values, frames=self.observation.frames)
            predicted = {camera: part.predict(fitted)[0].numpy() for camera, part in self.points.items()}
        entries: dict = {"tracks": str(self.arguments.tracks), "images": []}
        for camera, part in self.points.items():
            ending = "" if camera in ("", "camera") else f"_{camera}"
            file, title = PLOT.format(ending), f"{TITLE}{f' of {camera}' if ending else ''}"
            plot(folder / file, partial(track_plot, part, predicted[camera], self.scene.timing.fps), title, CAPTION)
            entries["images"].append({"file": file, "title": title, "caption": CAPTION})
        observed = None
        if self.arguments.video is not None:
            observed = videos.read_with_clock(self.arguments.video, self.scene.timing.fps).frames[
                : self.observation.frames
            ]
            entries["video"] = str(self.arguments.video)
            camera, first = next(iter(self.points.items()))
            if first.silhouettes is not None:
                marked = mark_points(observed, first.positions.numpy(), predicted[camera])
                videos.write_preview(folder / VIDEO, marked, self.scene.timing.fps)
                entries["videos"] = [{"file": VIDEO, "text": "Tracks (crosses) and the fit (circles) over the video."}]
        write_player(folder / "player.html", self.scene, fitted.scene_surface, observed)
        return entries

    @property
    def points(self) -> dict[str, Points]:
        """Tracks by camera; of one camera under its name, or ""."""
        return {name: part for name, part in self.observation.parts.items() if isinstance(part, Points)}  # all are

    def _check_video(self, path: Path, frames: int) -> None:
        video, camera = (
            videos.read_with_clock(path, self.scene.timing.fps),
            self.scene.view((self.arguments.track_cameras or ("camera",))[0]),
        )
        width, height = camera.size
        videos.check_video(video, width, height, self.scene.timing.fps, path, self.scene.timing.stamps)
        if len(video.frames) < frames:
            raise InputError(
                f"{path} has {len(video.frames)} frames, the tracks {frames}; give the video they are from."
            )
