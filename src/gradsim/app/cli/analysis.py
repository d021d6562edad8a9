"""The commands `gradsim explain`, `landscape` and `camera`. Imports nothing heavy."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from tyro.conf import OmitArgPrefixes, Positional, UseAppendAction, arg

from gradsim.app.cli.command import DONE, Command, ThreadedCommand, flatten, show, working
from gradsim.app.cli.video_options import VideoOptions


@dataclass(kw_only=True)
class Explain(ThreadedCommand):
    """Examine the gradients of a scene or a fit: which are zero, explode or hold only locally, where, and why."""

    subject: Annotated[Positional[Path], arg(metavar="SCENE|RUN")]
    """Scene file (YAML), name of a library scene, or folder made by `gradsim fit`: its scene at its estimates."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("runs/explain")
    """Output folder for result.json, report.html and plots."""
    unknown: Annotated[
        UseAppendAction[list[list[str]]],
        arg(metavar="NAME[:LOW:HIGH] ...", help_behavior_hint="(default: those of the fit; all positive quantities)"),
    ] = field(default_factory=list)
    """Quantity to differentiate by, such as cube.mass; repeatable."""
    video: Annotated[Path | None, arg(metavar="VIDEO", help_behavior_hint="(default: the trajectory only)")] = None
    """Video: gradients of its pixels."""
    json: bool = False
    """Print result.json instead of text."""
    reading: OmitArgPrefixes[VideoOptions] = field(default_factory=VideoOptions)

    def run(self, out, err):
        self.reading.require_video(self.video)
        mask, noise, reading = self.reading.single_mask(), self.reading.noise, self.reading.arguments
        from gradsim.app.commands.explain import explain

        with working(err) as progress:
            result, explanation = explain(
                self.subject, self.out, flatten(self.unknown), self.video, mask, noise, reading, progress=progress
            )
        if self.json:
            print(json.dumps(result, indent=1))
        else:
            out.print(str(explanation), highlight=False, markup=False, soft_wrap=True)
            out.print(f"report: {(self.out / 'report.html').resolve()}", highlight=False, soft_wrap=True, markup=False)
        return DONE


@dataclass(kw_only=True)
class Landscape(ThreadedCommand):
    """Plot the cost of a fit along one or two unknowns, with the others fixed."""

    target: Annotated[Positional[Path], arg(metavar="SCENE|RUN")]
    """Folder of a fit, demo or experiment, scene file (YAML), or name of a library scene."""
    unknown: Annotated[UseAppendAction[list[list[str]]], arg(metavar="NAME[:LOW:HIGH] ...")]
    """Unknown along an axis, such as cube.mass:2:12; one or two. The range is that of the run by default."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("runs/landscape")
    """Output folder for landscape.png, landscape.json and report.html."""
    video: Annotated[
        Path | None, arg(metavar="VIDEO", help_behavior_hint="(default: that of the run, or synthetic)")
    ] = None
    """Video; without any, the data are silhouettes of the scene's own trajectory."""
    points: Annotated[int | None, arg(help_behavior_hint="(default: 201, or 41 on each of two axes)")] = None
    """Number of points per axis."""
    reading: OmitArgPrefixes[VideoOptions] = field(default_factory=VideoOptions)

    def run(self, out, err):
        if not self.target.is_dir():  # a run has a video of its own
            self.reading.require_video(self.video)
        options = {"mask": self.reading.single_mask(), "noise": self.reading.noise, "reading": self.reading.stated}
        from gradsim.app.commands.landscape import write_landscape

        with working(err) as progress:
            result = write_landscape(
                self.target,
                flatten(self.unknown),
                self.out,
                self.video,
                points=self.points,
                **options,
                progress=progress,
            )
        out.print(result["images"][0]["caption"], highlight=False)
        show(result, self.out, out)
        return DONE


@dataclass(kw_only=True)
class Camera(Command):
    """Calibrate the camera of a scene from a known length in its image, or from outlines of a clip.

    With --length and --points: focal length or distance. With --refine: camera and start of the body by least squares on the
    outlines of the first frames, which finishes a scene that lies roughly on the image.
    """

    scene: Annotated[Positional[Path], arg(metavar="SCENE")]
    """Scene file (YAML) or name of a library scene."""
    out: Annotated[Path, arg(metavar="FILE")]
    """Scene file to write."""
    length: Annotated[float | None, arg(metavar="METERS", help_behavior_hint="(with --points)")] = None
    """Distance between two points of the image."""
    points: Annotated[str | None, arg(metavar="X1,Y1,X2,Y2", help_behavior_hint="(with --length)")] = None
    """The two points, column and row in px."""
    refine: Annotated[Path | None, arg(metavar="VIDEO", help_behavior_hint="(in place of --length)")] = None
    """Clip whose outlines the scene is refined on."""
    parts: str = "place,motion,string,distance"
    """With --refine: what is refined, of place, motion, string, size, distance, turn (of the camera) and focal."""
    frames: Annotated[str, arg(metavar="A:B", help_behavior_hint="(default: the first 8 with a whole body)")] = ""
    """With --refine: frames that count."""
    background: Annotated[str, arg(metavar="FILE|median|mog2")] = "median"
    """With --refine: background of the masks, as for `gradsim new`."""
    mask: Annotated[
        Path | None, arg(metavar="MASK", help_behavior_hint="(default: what differs from the background)")
    ] = None
    """With --refine: masks of the body, as for `gradsim new`."""
    category: Annotated[str, arg(metavar="NAME", help_behavior_hint="(default: the only one)")] = ""
    """With --refine: category of COCO annotations that is the body."""
    solve: str = "focal"
    """focal: the position of the camera is known; distance: its focal length is known, and it moves along its axis."""
    at: Annotated[str | None, arg(metavar="X,Y,Z", help_behavior_hint="(default: the look_at target)")] = None
    """World point in meters at the distance of the two points."""
    tilt: Annotated[float, arg(metavar="DEGREES")] = 0.0
    """Angle between the length and the image plane."""
    click: Annotated[float, arg(metavar="PX")] = 0.5
    """Standard deviation of the coordinates of the two points."""

    def run(self, out, err):
        from gradsim.app.commands.camera import calibrate_camera, refine_camera
        from gradsim.errors import InputError

        by_length = self.length is not None and self.points is not None
        if by_length == (self.refine is not None):
            raise InputError("give either --length and --points, or --refine VIDEO.")
        if self.refine is None:
            names = ("length", "points", "solve", "at", "tilt", "click")
            text = calibrate_camera(self.scene, self.out, **{name: getattr(self, name) for name in names})
        else:
            names = ("parts", "mask", "background", "category", "frames")
            with working(err) as progress:
                options = {name: getattr(self, name) for name in names}
                text = refine_camera(self.scene, self.out, self.refine, **options, progress=progress)
        out.print(text, highlight=False, soft_wrap=True, markup=False)
        out.print(f"scene: {self.out}", highlight=False, soft_wrap=True, markup=False)
        return DONE
