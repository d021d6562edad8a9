"""The commands `gradsim fit` and `gradsim compare`. Imports nothing heavy."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import OmitArgPrefixes, Positional, UseAppendAction, arg

from gradsim.app.cli.command import ThreadedCommand, flatten, run_folder, show, working
from gradsim.app.cli.video_options import VideoOptions
from gradsim.errors import InputError, Status

SHARED_OPTIONS = (
    "starts",
    "seed",
    "estimator",
    "known_numbers",
    "discrepancy",
)  # of one clip and of several
FIT_OPTIONS = (
    *SHARED_OPTIONS,
    "profile",
    "plan",
    "observe",
    "engine",
)  # of one clip


@dataclass(kw_only=True)
class Fit(ThreadedCommand):
    """Estimate unknown parameters of a scene from a video, with error bars and a verdict.

    Several videos: of further cameras of the scene as NAME=VIDEO; of further clips, one after the other.
    """

    scene: Annotated[Positional[Path | None], arg(metavar="SCENE", help_behavior_hint="(required)")] = None
    """Scene file (YAML) or name of a library scene; values of unknowns are ignored. With --resume: the run folder."""
    more: Annotated[Positional[tuple[Path, ...]], arg(metavar="[SCENE ...]", help_behavior_hint="")] = ()
    """Scenes of further clips; by default the first scene is that of all clips."""
    video: Annotated[
        UseAppendAction[list[list[str]]], arg(metavar="[CAMERA=]VIDEO ...", help_behavior_hint="(required)")
    ] = field(default_factory=list)
    """Video: mp4, webm, gif or a folder of png; lossless is best."""
    tracks: Annotated[
        UseAppendAction[list[list[str]]], arg(metavar="[CAMERA=]FILE ...", help_behavior_hint="(default: masks)")
    ] = field(default_factory=list)
    """Tracks of the scene's markers to fit in place of masks: CSV with the columns name, frame (or time), u and v in px (or x, y and z in m), and sd; the video is then optional. Those of further cameras as CAMERA=FILE."""
    log: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: none)")] = None
    """Log of the scene's `channels`: angles and rates of joints, and what drives their motors (CSV, MCAP, parquet of LeRobot); alone, or with a video in one likelihood."""
    unknown: Annotated[
        UseAppendAction[list[list[str]]], arg(metavar="NAME[:LOW:HIGH] ...", help_behavior_hint="(required)")
    ] = field(default_factory=list)
    """Unknown to estimate, such as cube.mass:2:12; repeatable."""
    prior: Annotated[
        UseAppendAction[list[list[str]]],
        arg(metavar="NAME=MEAN±SD|FILE ...", help_behavior_hint="(default: those of the scene)"),
    ] = field(default_factory=list)
    """Number that is known with an uncertainty, in SI units: NAME=MEAN±SD, NAME=MEAN+-SD or NAME=MEAN±5%; it becomes an unknown. Or a .json file of several with their covariance. Repeatable."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/fit)")] = None
    """Run folder for result.json, report.html, plots and videos."""
    window: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: single shooting)")] = None
    """Multiple shooting with windows of N frames, for a long or chaotic clip."""
    observe: Literal["outlines", "pictures"] = "outlines"
    """What of the video is compared: the outlines of the bodies; or pictures, outlines and the colors inside of them, of a texture that may be unknown: they show a spin."""
    engine: Annotated[str, arg(metavar="NAME")] = "gradsim"
    """What moves the bodies: gradsim, or mujoco (extra engines): the model that `gradsim export --to mjcf` writes, by whose contact the answer then holds."""
    profile: bool = False
    """Add profile likelihoods along the two weakest directions; takes some seconds."""
    known_numbers: Annotated[bool, arg(help_behavior_hint="(default: it is made)")] = True
    """Leave out the table of what an error of 1 % in each known number of the scene would do to the unknowns."""
    discrepancy: bool = False
    """Add error bars that hold where the model is wrong: a discrepancy correlated in time, of several clips also numbers that scatter between them; the verdict stays."""
    plan: Annotated[bool, arg(help_behavior_hint="(default: it is named)")] = True
    """Where an unknown is left open, do not name the one change of a next video that would tell most (docs/guides/plan.md); of one clip."""
    starts: int = 16
    """Number of starts, drawn from the whole ranges."""
    estimator: Annotated[str, arg(metavar="NAME")] = "least-squares"
    """Search for the best fit: least-squares, gradient-descent (Adam, for comparison), …"""
    seed: int = 0
    """Seed of the starts."""
    resume: bool = False
    """Continue an interrupted fit: `gradsim fit --resume DIR` (default: runs/fit), or the same command again with --resume."""
    json: bool = False
    """Print result.json instead of tables."""
    reading: OmitArgPrefixes[VideoOptions] = field(default_factory=VideoOptions)

    def run(self, out, err):
        folder = self._folder()
        with working(err) as progress:
            result = self._fit(folder, progress)
        if self.json:
            print(json.dumps(result, indent=1))
        else:
            show(result, folder, out)
        return Status(result["status"]).exit_code

    def _fit(self, folder: Path, progress) -> dict:
        from gradsim.app.commands import fit
        from gradsim.app.commands.fit_job import run_fit
        from gradsim.app.commands.fit_multi import MultiClipFit, parse_clips
        from gradsim.app.commands.fit_tracks import TracksFit
        from gradsim.app.job import FitArguments

        unknowns, options = flatten(self.unknown), {name: getattr(self, name) for name in FIT_OPTIONS}
        options |= self._priors() | self.reading.arguments | {"noise": self.reading.noise}
        if self.scene is None or self._is_run_folder():
            arguments = FitArguments.load(folder, {**options, "unknowns": tuple(unknowns)})
            return run_fit(fit.clip_job(arguments), folder, resume=True, progress=progress)
        if self.tracks and self.observe == "pictures":
            raise InputError("--observe pictures is for a video, and --tracks are fitted in its place; leave one out.")
        if self.log is not None:
            return run_fit(fit.clip_job(self._log_arguments(options)), folder, self.resume, progress)
        if self.tracks:
            return run_fit(TracksFit(self._tracks_arguments(options)), folder, self.resume, progress)
        clips = parse_clips([self.scene, *self.more], flatten(self.video), self.reading.masks)
        if len(clips) == 1 and clips[0].is_single_camera and self.window is None:
            video, mask = clips[0].videos["camera"], clips[0].masks.get("camera")
            arguments = FitArguments(scene=self.scene, video=video, mask=mask, unknowns=tuple(unknowns), **options)
            return fit.fit(arguments, folder, self.resume, progress=progress)
        names = ("profile", "resume")
        chosen = ["observe pictures"] if self.observe == "pictures" else []
        chosen += [f"engine {self.engine}"] if self.engine != "gradsim" else []
        if excluded := [f"--{name}" for name in [*(name for name in names if getattr(self, name)), *chosen]]:
            raise InputError(
                f"{' and '.join(excluded)} are for one clip of one camera without --window; leave them out, or fit that "
                "clip alone."
            )
        shared = {name: options[name] for name in SHARED_OPTIONS}
        shared |= {"priors": flatten(self.prior), "noise": self.reading.noise, "reading": self.reading.arguments}
        return run_fit(MultiClipFit(clips, unknowns, window=self.window, **shared), folder, progress=progress)

    def _priors(self) -> dict[str, tuple]:
        """Priors as arguments of a fit."""
        from gradsim.identification.priors import is_file

        stated = flatten(self.prior)
        files = tuple(Path(text) for text in stated if is_file(text))
        return {"priors": tuple(text for text in stated if not is_file(text)), "prior_files": files}

    def _tracks_arguments(self, options: dict):
        """Arguments of a fit of tracks.

        Raises:
            InputError: If there are several scenes, videos or masks, or windows.
        """
        from gradsim.app.commands.fit_multi import parse_clips
        from gradsim.app.job import FitArguments

        assert self.scene is not None  # checked before
        videos, (clip, *others) = flatten(self.video), parse_clips([self.scene], flatten(self.tracks))
        if others:
            raise InputError("--tracks names a camera twice; give one table for each camera.")
        cameras, files = tuple(clip.videos), tuple(clip.videos.values())
        if self.more or len(videos) > 1 or any("=" in video for video in videos) or self.reading.mask or self.window:
            raise InputError(
                "--tracks are of one clip: give one SCENE, at most one VIDEO (of the first table's camera), no --mask and no --window."
            )
        video = Path(videos[0]) if videos else None
        named = {} if cameras == ("camera",) else {"track_cameras": cameras, "more_tracks": files[1:]}
        return FitArguments(
            scene=self.scene, video=video, tracks=files[0], unknowns=tuple(flatten(self.unknown)), **named, **options
        )  # pyright: ignore[reportArgumentType]

    def _log_arguments(self, options: dict):
        """Arguments of a fit of a log.

        Raises:
            InputError: If there are several scenes, videos or masks, tracks, windows, or options of a video without one.
        """
        from gradsim.app.job import FitArguments

        assert self.scene is not None  # checked before
        videos = flatten(self.video)
        if self.more or len(videos) > 1 or any("=" in video for video in videos) or self.tracks or self.window:
            raise InputError("--log is of one clip: give one SCENE, at most one VIDEO, no --tracks and no --window.")
        if self.observe == "pictures":
            raise InputError("--observe pictures is for a video alone; leave it or --log out.")
        video, mask = Path(videos[0]) if videos else None, self.reading.single_mask()
        self.reading.require_video(video)
        return FitArguments(
            scene=self.scene, video=video, log=self.log, mask=mask, unknowns=tuple(flatten(self.unknown)), **options
        )

    def _is_run_folder(self) -> bool:
        """True if SCENE is the run folder to resume."""
        return self.resume and (self.scene is None or self.scene.is_dir())

    def _folder(self) -> Path:
        """The run folder.

        Raises:
            InputError: If a required argument is missing.
        """
        if self._is_run_folder():
            return self.out or self.scene or run_folder("fit", None, resume=True)
        required = {
            "SCENE": self.scene,
            "--video VIDEO": self.video or self.tracks or self.log,
            "--unknown NAME[:LOW:HIGH]": self.unknown or self.prior,
        }
        missing = [name for name, value in required.items() if not value]
        if missing and self.resume and self.scene is not None and not self.scene.exists():
            raise InputError(f"the run folder {self.scene} does not exist; start the fit without --resume.")
        if missing:
            raise InputError(f"missing: {', '.join(missing)}. See gradsim fit --help.")
        return run_folder("fit", self.out, self.resume)


@dataclass(kw_only=True)
class Compare(ThreadedCommand):
    """Fit a video, or several, with several models and rank them by the evidence, and by prediction of videos that were not fitted."""

    scene: Annotated[Positional[Path], arg(metavar="SCENE")]
    """Scene file (YAML) or name of a library scene, the first model."""
    more: Annotated[Positional[tuple[Path, ...]], arg(metavar="[SCENE ...]", help_behavior_hint="")] = ()
    """Scenes of further clips; by default the first scene is that of all clips."""
    video: Annotated[
        UseAppendAction[list[list[str]]], arg(metavar="[CAMERA=]VIDEO ...", help_behavior_hint="(required)")
    ] = field(default_factory=list)
    """Video of it; several: of further clips, which all models fit together, or of further cameras, as for `gradsim fit`."""
    tracks: Annotated[
        UseAppendAction[list[list[str]]], arg(metavar="[CAMERA=]FILE ...", help_behavior_hint="(default: masks)")
    ] = field(default_factory=list)
    """Tracks of the scene's markers in place of videos, as for `gradsim fit`; several: of further clips, or of further cameras."""
    unknown: Annotated[UseAppendAction[list[list[str]]], arg(metavar="NAME[:LOW:HIGH] ...")]
    """Unknown to estimate, such as cube.mass:2:12; repeatable. Of several clips: NAME@each for one in each clip."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/compare)")] = None
    """Run folder for result.json, report.html, plots and videos."""
    prior: Annotated[
        UseAppendAction[list[list[str]]],
        arg(metavar="NAME=MEAN±SD|FILE ...", help_behavior_hint="(default: those of the scene)"),
    ] = field(default_factory=list)
    """Number that is known with an uncertainty, as for `gradsim fit`; of every model that has it."""
    without: Annotated[tuple[str, ...], arg(metavar="PART ...")] = ()
    """Models without a part: friction, elasticity, damping."""
    model: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    """Other standard models: "with friction", "with damping", "paper law", "continuous law", rk4."""
    candidates: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: none)")] = None
    """Further models: YAML file of changes of the scene by name, and `unknowns` that they add (docs/guides/prediction.md)."""
    folds: Annotated[int | None, arg(metavar="K", help_behavior_hint="(default: no prediction)")] = None
    """Divide the clips into K folds, and let every model predict each fold from a fit to the others: K times the work."""
    first_frames: Annotated[int, arg(metavar="N")] = 0
    """Frames of a predicted clip to which its own unknowns (NAME@each) are fitted; those after them are predicted."""
    starts: int = 16
    """Number of starts of each model, drawn from the whole ranges."""
    seed: int = 0
    """Seed of the starts and the folds."""
    json: bool = False
    """Print result.json instead of tables."""
    reading: OmitArgPrefixes[VideoOptions] = field(default_factory=VideoOptions)

    def run(self, out, err):
        folder = run_folder("compare", self.out)
        from gradsim.app.commands.compare import ModelComparison
        from gradsim.app.commands.fit_job import run_fit
        from gradsim.app.commands.fit_multi import parse_clips

        models = [*(f"without {part}" for part in self.without), *self.model]
        options = {name: getattr(self, name) for name in ("seed", "starts", "candidates", "folds", "first_frames")}
        options |= {"noise": self.reading.noise, "reading": self.reading.arguments}
        if self.tracks and (excluded := self._of_masks()):
            raise InputError(
                f"{' and '.join(excluded)} are for videos, and --tracks are compared in their place; leave them out."
            )
        files, options["tracks"] = flatten(self.tracks or self.video), bool(self.tracks)
        clips = parse_clips([self.scene, *self.more], files, self.reading.masks)
        with working(err) as progress:
            job = ModelComparison(clips, flatten(self.unknown), models, priors=flatten(self.prior), **options)
            result = run_fit(job, folder, progress=progress)
        if self.json:
            print(json.dumps(result, indent=1))
        else:
            show(result, folder, out)
        return Status(result["status"]).exit_code

    def _of_masks(self) -> list[str]:
        """Options that are for videos alone."""
        names = [name for name, files in (("video", self.video), ("mask", self.reading.masks)) if files]
        return [f"--{name}" for name in [*names, *(name for name in self.reading.stated if name != "robust")]]
