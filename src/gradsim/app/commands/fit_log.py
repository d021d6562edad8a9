"""`gradsim fit --log`: of a log of joints, alone or with a video in one likelihood."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from gradsim.app.clip_fit import ClipFit
from gradsim.app.commands.fit_job import write_clip_videos
from gradsim.app.report.log_plot import log_plot
from gradsim.app.report.page import plot
from gradsim.errors import InputError
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import Observation
from gradsim.identification.observation.from_video import from_video
from gradsim.identification.observation.joint_log import JointLog
from gradsim.identification.observation.multi_view import MultiView
from gradsim.identification.scene_models import parameter_values
from gradsim.physics.trajectory import Trajectory
from gradsim.scene import Scene
from gradsim.visualization.player import write_player

PLOT, TITLE = "log.png", "Log"
CAPTION = "Dots: samples of the log; lines: the fit. Right: what is left, and the noise (gray)."
LOG, FILM = "log", "camera"  # names of the two parts


class LogFit(ClipFit):
    """Fit of a log; its arguments have `log`, and may have a video.

    Raises:
        InputError: If an argument is wrong, or is for masks without a video.
    """

    def observe(self) -> Observation:
        """Read the log, and the video."""
        arguments = self.arguments
        if arguments.noise == "auto":
            raise InputError(
                "--noise auto needs a video alone, and a log is fitted with it; state the noise of a pixel, such as 0.02. That of sensors "
                "is `sd` of their channels."
            )
        if arguments.video is None:
            return JointLog(self.scene, loss=arguments.robust)
        film = from_video(
            self.scene, self.video_file, arguments.mask, arguments.noise, **arguments.video_options, textured=False
        )
        log = JointLog(self.scene, film.frames, loss=arguments.robust)
        both = MultiView({FILM: film, LOG: log})
        both.notes = {**film.notes, **log.notes}
        return both

    def search(self, checkpoint, progress) -> Fit:
        fit = super().search(checkpoint, progress)
        squares = self.log.chi2_of_sensors(self._fitted(fit))
        sensors = {name: {**entry, "chi2_per_n": squares[name]} for name, entry in self.log.notes["sensors"].items()}
        notes = [*fit.notes, *_rest_of_log(self.log), *_of_controllers(self.scene, self.space.ranges)]
        return replace(fit, notes=notes, evidence={**fit.evidence, "sensors": sensors})

    def write_videos(self, folder: Path, fit: Fit) -> dict:
        fitted = self._fitted(fit)
        predicted = {
            name: (times, reading[0].detach().numpy()) for name, (times, reading) in self.log.predict(fitted).items()
        }
        plot(folder / PLOT, partial(log_plot, self.log, predicted), TITLE, CAPTION)
        entries: dict = {"images": [{"file": PLOT, "title": TITLE, "caption": CAPTION}]}
        observed = None
        if self.arguments.video is not None:
            observed, _ = write_clip_videos(folder, self.scene, fitted, self.video_file, self.arguments.frames)
            entries["video"] = str(self.arguments.video)
        write_player(folder / "player.html", self.scene, fitted.scene_surface, observed)
        return entries

    @torch.no_grad()
    def _fitted(self, fit: Fit) -> Trajectory:
        """The motion of a fit."""
        return self.problem.model.rollout(parameter_values(self.scene, fit.values), frames=self.observation.frames)

    @property
    def log(self) -> JointLog:
        """The log, as it is compared."""
        log = self.problem.observation.parts.get(LOG, self.problem.observation)
        assert isinstance(log, JointLog)
        return log


def _rest_of_log(log: JointLog) -> Iterator[str]:
    """Words on samples after the last frame."""
    timing = log.scene.timing
    end, last = timing.time(log.frames - 1), max(sensor.signal.times[-1] for sensor in log.sensors.values())
    if last > 1.05 * end:
        frames = int(last * timing.fps) + 1
        yield f"The log goes on for {last - end:.3g} s after the last frame: `timing.frames: {frames}` would use all of it."


def _of_controllers(scene: Scene, unknown: Collection[str]) -> Iterator[str]:
    """Words on unknowns of a joint that a controller has, too."""
    for name, channel in scene.channels.items():
        if channel.quantity == "target":
            for key, gain in (("damping", "D"), ("stiffness", "P")):
                if f"joints.{channel.joint}.{key}" in unknown:
                    yield (
                        f"`{name}` is the target of a controller, so `joints.{channel.joint}.{key}` is that of the joint and the {gain} gain of the "
                        "controller together: no log of this loop tells them apart. Subtract the controller's, or log the motor's torque and "
                        "let it drive the joint."
                    )
