"""`gradsim fit --tracks`: of tracks of markers, with or without the video that they are from."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch

from gradsim import video as videos
from gradsim.app.clip_fit import ClipFit
from gradsim.app.report.page import plot
from gradsim.app.report.track_plot import track_plot
from gradsim.errors import InputError
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import Observation
from gradsim.identification.observation.multi_view import MultiView
from gradsim.identification.observation.points import Points
from gradsim.identification.observation.tracks import read_tracks, read_tracks_of_cameras
from gradsim.identification.scene_models import parameter_values
from gradsim.physics.trajectory import Trajectory
from gradsim.scene import Scene
from gradsim.visualization.overlay_video import mark_points
from gradsim.visualization.player import write_player

PLOT, VIDEO = "tracks{}.png", "overlay.webm"
TITLE = "Tracks"
CAPTION = "Crosses: tracks; lines: the fit. Right: what is left, and the noise that was stated (gray)."
MASKS_ONLY = ("mask", "background", "ignore", "frames", "category")


def observed_tracks(
    scene: Scene, paths: Mapping[str, Path], noise: float | str | None, robust: str
) -> Points | MultiView:
    """Tracks by the name of their camera; see `read_tracks`.

    Raises:
        InputError: As `read_tracks`, or if the noise is one of masks.
    """
    if isinstance(noise, str):
        raise InputError(f"--noise {noise} is for masks; give the noise of the tracks in px or m, such as 0.5.")
    if len(paths) > 1:
        return read_tracks_of_cameras(scene, paths, noise, robust)
    ((camera, path),) = paths.items()
    return read_tracks(scene, path, noise, camera, robust)


def points_of(observation: Observation) -> dict[str, Points]:
    """Tracks of an observation by camera; of one camera under its name, or ""."""
    return {name: part for name, part in observation.parts.items() if isinstance(part, Points)}


def write_track_plots(
    folder: Path, points: Mapping[str, Points], fitted: Trajectory, fps: float, clip: int = 0
) -> list[dict]:
    """Plots of tracks and of those of a motion, and their entries of a result; of a clip that is counted from 1, or of the only one."""
    entries = []
    for camera, part in points.items():
        ending = (f"_{clip}" if clip else "") + ("" if camera in ("", "camera") else f"_{camera}")
        words = ", ".join(([f"clip {clip}"] if clip else []) + ([camera] if camera not in ("", "camera") else []))
        file, title = PLOT.format(ending), f"{TITLE} of {words}" if words else TITLE
        predicted = part.predict(fitted)[0].numpy()
        plot(folder / file, partial(track_plot, part, predicted, fps), title, CAPTION)
        entries.append({"file": file, "title": title, "caption": CAPTION})
    return entries


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
        cameras, files = arguments.track_cameras or ("camera",), [arguments.tracks, *arguments.more_tracks]
        paths = dict(zip(cameras, files, strict=True))
        tracks = observed_tracks(self.scene, paths, arguments.noise, arguments.robust)
        if arguments.video is not None:
            self._check_video(arguments.video, tracks.frames)
        return tracks

    def write_videos(self, folder: Path, fit: Fit) -> dict:
        with torch.no_grad():
            values = parameter_values(self.scene, fit.values)
            fitted = self.problem.model.rollout(values, frames=self.observation.frames)
            images = write_track_plots(folder, self.points, fitted, self.scene.timing.fps)
        entries: dict = {"tracks": str(self.arguments.tracks), "images": images}
        observed = None
        if self.arguments.video is not None:
            observed = videos.read_with_clock(self.arguments.video, self.scene.timing.fps).frames[
                : self.observation.frames
            ]
            entries["video"] = str(self.arguments.video)
            first = next(iter(self.points.values()))
            if first.silhouettes is not None:
                marked = mark_points(observed, first.positions.numpy(), first.predict(fitted)[0].detach().numpy())
                videos.write_preview(folder / VIDEO, marked, self.scene.timing.fps)
                entries["videos"] = [{"file": VIDEO, "text": "Tracks (crosses) and the fit (circles) over the video."}]
        write_player(folder / "player.html", self.scene, fitted.scene_surface, observed)
        return entries

    @property
    def points(self) -> dict[str, Points]:
        """Tracks by camera."""
        return points_of(self.observation)

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
