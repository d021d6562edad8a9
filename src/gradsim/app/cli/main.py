"""The command `gradsim`: words in, exit code out.

    0 done   1 failed run   2 bad input   3 unidentifiable, the model does not explain the data, or a goal is missed
    130 stopped by Ctrl-C

Results go to stdout, everything else to stderr. PyTorch, Warp and matplotlib are imported by the commands that need
them, so that `--help` answers at once.
"""

import contextlib
import json
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, UseAppendAction, arg, subcommand

from gradsim.app.cli.command import BAD_INPUT, CODES, DONE, FAILED, OPEN, STOPPED, Command, show, working
from gradsim.app.cli.control import Control
from gradsim.app.cli.dataset import Dataset
from gradsim.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

JOB = (
    "noise",
    "robust",
    "ignore",
    "frames",
    "background",
    "starts",
    "seed",
    "profile",
)  # of a fit: options that determine its answer
_BAD_PATHS = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


@dataclass(kw_only=True)
class Demo(Command):
    """Identify mass, stiffness and friction of a bouncing cube from a video, in a minute."""

    out: Annotated[Path, arg(metavar="DIR")] = Path("out/demo")
    """Folder for the video, result.json and report.html."""
    seed: int = 0
    """Seed of everything random."""

    def run(self, out, err):
        from gradsim.app.commands.demo import demo
        from gradsim.app.report.report import write_report

        with working(err) as progress:
            result = demo(self.out, self.seed, progress=progress)
            write_report(self.out)
        show(result, self.out, out)
        return CODES[result["status"]]


@dataclass(kw_only=True)
class Import(Command):
    """Turn an MJCF, URDF or USD file into a scene file; needs the extra `newton`."""

    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """MJCF (.xml, .mjcf), URDF (.urdf) or USD (.usd, .usda, .usdc, .usdz)."""
    out: Annotated[Path, arg(metavar="SCENE")]
    """Scene file (YAML) to write; meshes go into a folder beside it."""
    skip: bool = False
    """Leave out what a scene cannot represent, instead of refusing the file."""
    fixed_base: bool = False
    """Hold the root of a URDF to the world; it floats otherwise."""

    def run(self, out, err):
        from gradsim.scene.importers import newton

        with working(err):
            meshes = self.out.with_name(f"{self.out.stem}_meshes")
            imported = newton.load(self.file, meshes, self.skip, self.fixed_base)
        imported.scene.save(self.out)
        for note in imported.notes:
            err.print(f"note: {note}", highlight=False, soft_wrap=True, markup=False)
        out.print(f"scene: {self.out}", highlight=False, soft_wrap=True)
        return DONE


@dataclass(kw_only=True)
class Simulate(Command):
    """Run a scene; its motion goes to trajectory.npz."""

    scene: Annotated[Positional[Path], arg(metavar="SCENE")]
    """Scene file (YAML), or the name of a library scene, such as cube."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/NAME OF THE SCENE FILE)")] = None
    """Folder for the run."""

    def run(self, out, err):
        from gradsim.app.commands import fit as runs

        folder = self.out or Path("runs") / self.scene.stem
        with working(err) as progress:
            runs.simulate(self.scene, folder, progress=progress)
        out.print(f"run: {folder}", highlight=False, soft_wrap=True)
        return DONE


@dataclass(kw_only=True)
class Render(Command):
    """Film a run or a scene, without loss; or make one picture, a turntable, a contact sheet, a strip of instants."""

    target: Annotated[Positional[Path], arg(metavar="RUN|SCENE")]
    """Folder made by `gradsim simulate` or `gradsim fit` (at its estimates), or a scene to simulate first."""
    out: Annotated[
        Path | None, arg(metavar="DIR", help_behavior_hint="(default: the run folder; runs/NAME OF THE SCENE FILE)")
    ] = None
    """Folder for what is made."""
    camera: Annotated[str, arg(metavar="NAME")] = "camera"
    """Which of the scene's cameras films; that of `side` makes side.webm and side_mask.webm."""
    format: Literal["webm", "mp4", "gif", "png"] = "webm"
    """Kind of the films; png makes folders. All are bit-exact, gif up to 256 colours a frame."""
    preview: bool = False
    """Write preview.FORMAT alone: enlarged, not exact, shown right by every player."""
    renderer: Annotated[
        str | None,
        arg(metavar="NAME", help_behavior_hint="(default: coverage; aa for textures, shading, visible grounds)"),
    ] = None
    """coverage is exact, with flat colours, and what is fitted; aa adds depth and shading; softras and dibr are the paper's;
    mitsuba traces paths of light, with shadows, slowly (extra `mitsuba`). An unknown name lists all."""
    spp: Annotated[int, arg(metavar="N")] = 64
    """Samples per pixel of mitsuba; its noise falls with their root."""
    shading: Annotated[
        Literal["colour", "lambert", "phong", "blinn-phong"] | None, arg(help_behavior_hint="(default: the scene's)")
    ] = None
    """How light falls on surfaces."""
    size: Annotated[str | None, arg(metavar="WxH", help_behavior_hint="(default: the camera's)")] = None
    """Pixels; all of the camera's view is in it."""
    frame: Annotated[int | None, arg(metavar="K", help_behavior_hint="(default: all)")] = None
    """One picture, of this frame; of a turntable, where it stops."""
    turntable: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: none)")] = None
    """A film of N views from all around."""
    sheet: Annotated[str | None, arg(metavar="ROWSxCOLUMNS", help_behavior_hint="(default: none)")] = None
    """A contact sheet of frames at equal distances."""
    strip: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: none)")] = None
    """N instants in one picture, earlier ones fainter."""
    depth: bool = False
    """Also distance from the camera's plane, as pictures and in buffers.npz [m]."""
    normals: bool = False
    """Also normals."""
    ids: bool = False
    """Also which part is seen."""
    flow: bool = False
    """Also optical flow to the next frame [px]."""

    def run(self, out, err):
        from gradsim.app.commands import render
        from gradsim.app.commands.render import BUFFERS, Shot, pair

        named = ("camera", "format", "preview", "renderer", "spp", "shading", "frame", "turntable", "strip")
        shot = Shot(
            **{name: getattr(self, name) for name in named},
            size=pair(self.size, "--size", "width and height in px"),
            sheet=pair(self.sheet, "--sheet", "rows and columns"),
            buffers=tuple(name for name in BUFFERS if getattr(self, name)),
        )
        with working(err) as progress:
            made = render.render(self.target, shot, self.out, progress=progress)
        kind = "lossless" if made.lossless else "to look at, not to fit"
        for name, path in made.files.items():
            line = f"film: {path} ({kind})" if name == "video" else f"{name}: {path}"
            out.print(line, highlight=False, soft_wrap=True, markup=False)
        return DONE


@dataclass(kw_only=True)
class Fit(Command):
    """Find unknown parameters of a scene from a video of it, with error bars and a verdict.

    Several films at once: of further cameras of the scene as NAME=FILM; of further clips, one after the other.
    """

    scene: Annotated[Positional[Path | None], arg(metavar="SCENE", help_behavior_hint="(required)")] = None
    """Scene file (YAML), or the name of a library scene; its values of the unknowns are not used as a start. With --resume,
    the run folder will do."""
    more: Annotated[Positional[tuple[Path, ...]], arg(metavar="[SCENE ...]")] = ()
    """Scenes of further clips; without them the first one is that of all."""
    video: Annotated[
        UseAppendAction[list[list[str]]], arg(metavar="[CAMERA=]FILM ...", help_behavior_hint="(required)")
    ] = field(default_factory=list)
    """Film of it: mp4, webm, gif or a folder of png; lossless is best."""
    unknown: Annotated[
        UseAppendAction[list[list[str]]], arg(metavar="NAME[:LOW:HIGH] ...", help_behavior_hint="(required)")
    ] = field(default_factory=list)
    """What to solve for, such as cube.mass:2:12; as often as needed."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(required)")] = None
    """Folder for result.json, report.html and pictures."""
    mask: Annotated[
        UseAppendAction[list[list[str]]],
        arg(metavar="[CAMERA=]M ...", help_behavior_hint="(default: from the colours)"),
    ] = field(default_factory=list)
    """Film of the objects' mask, white on black."""
    window: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: one shot)")] = None
    """Cut a long or chaotic clip into windows of so many frames (multiple shooting)."""
    noise: Annotated[float | None, arg(metavar="SIGMA", help_behavior_hint="(default: 1/255)")] = None
    """Standard deviation of a pixel's noise, of 1."""
    robust: Annotated[str, arg(metavar="LOSS")] = "gaussian"
    """gaussian; huber or cauchy where pixels may be wrong: something passes through, a blotch, flipped pixels."""
    ignore: Annotated[Path | None, arg(metavar="M", help_behavior_hint="(default: every pixel counts)")] = None
    """Film whose bright pixels do not count."""
    background: Annotated[
        str | None, arg(metavar="FILE|median", help_behavior_hint="(default: the scene's colour)")
    ] = None
    """Picture or film of the empty scene, or median (of a film whose camera stands still), to subtract."""
    frames: Annotated[str, arg(metavar="WORDS", help_behavior_hint="(default: all)")] = ""
    """Frames to use: A:B these only, !K not K, -K K was put in, +K one is missing before K; commas between."""
    profile: bool = False
    """Add the profile likelihood along the two weakest directions; takes some seconds more."""
    starts: int = 16
    """Starts drawn from the whole ranges."""
    seed: int = 0
    """Seed of the starts."""
    resume: bool = False
    """Go on with a fit that was stopped or killed: `gradsim fit --resume DIR`, or the same words again."""
    json: bool = False
    """Print result.json instead of tables."""

    def run(self, out, err):
        folder = self._folder()
        from gradsim.app.commands import fit as runs
        from gradsim.app.commands import fit_multi
        from gradsim.app.job import Job

        unknowns, films, masks = (
            [word for group in said for word in group] for said in (self.unknown, self.video, self.mask)
        )
        options = {name: getattr(self, name) for name in JOB}
        with working(err) as progress:
            if self.scene is None or self._is_folder_alone():
                job = Job.of(folder, {**options, "unknowns": tuple(unknowns)})
                result = runs.fit(job, folder, resume=True, progress=progress)
            else:
                clips = fit_multi.clips([self.scene, *self.more], films, masks)
                if clips[0].plain and len(clips) == 1 and self.window is None:
                    video, mask = clips[0].videos["camera"], clips[0].masks.get("camera")
                    job = Job(scene=self.scene, video=video, mask=mask, unknowns=tuple(unknowns), **options)
                    result = runs.fit(job, folder, self.resume, progress=progress)
                elif self.ignore is not None or self.frames or self.background is not None:
                    raise InputError(
                        "--ignore, --frames and --background are for the film of one camera; leave them out, "
                        "or fit that film alone."
                    )
                elif self.profile or self.resume:
                    raise InputError(
                        "--profile and --resume are for the film of one camera; leave them out, or fit that film alone."
                    )
                else:
                    shared = {name: options[name] for name in ("seed", "starts", "noise", "robust")}
                    result = fit_multi.fit(clips, unknowns, folder, progress=progress, window=self.window, **shared)
        if self.json:
            print(json.dumps(result, indent=1))
        else:
            show(result, folder, out)
        return CODES[result["status"]]

    def _is_folder_alone(self) -> bool:
        """Whether a run folder is all that says what to do."""
        return self.resume and (self.scene is None or self.scene.is_dir())

    def _folder(self) -> Path:
        """The run folder.

        Raises:
            InputError: If something that is needed was not said.
        """
        folder = self.out or (self.scene if self._is_folder_alone() else None)
        needed = {"--out DIR": folder}
        if not self._is_folder_alone():
            needed |= {"SCENE": self.scene, "--video V": self.video, "--unknown NAME[:LOW:HIGH]": self.unknown}
        missing = [name for name, value in needed.items() if not value]
        if missing and self.resume and self.scene is not None and not self.scene.exists():
            raise InputError(
                f"there is no run folder {self.scene}; a fit that left none starts again, without --resume."
            )
        if missing or folder is None:
            raise InputError(f"missing: {', '.join(missing)}. See gradsim fit --help.")
        return folder


@dataclass(kw_only=True)
class Compare(Command):
    """Fit a video with several models and say which of them the data choose."""

    scene: Annotated[Positional[Path], arg(metavar="SCENE")]
    """Scene file (YAML) or the name of a library scene, the first model."""
    video: Annotated[Path, arg(metavar="V")]
    """Film of it."""
    unknown: Annotated[UseAppendAction[list[list[str]]], arg(metavar="NAME[:LOW:HIGH] ...")]
    """What to solve for, such as cube.mass:2:12; as often as needed."""
    out: Annotated[Path, arg(metavar="DIR")]
    """Folder for result.json, report.html and pictures."""
    without: Annotated[tuple[str, ...], arg(metavar="PART ...")] = ()
    """Models that lack something: friction, elasticity, damping."""
    model: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    """Other standard models: "with friction", "with damping", "paper law", "continuous law", rk4."""
    mask: Annotated[Path | None, arg(metavar="M", help_behavior_hint="(default: from the colours)")] = None
    """Film of the objects' mask, white on black."""
    noise: Annotated[float | None, arg(metavar="SIGMA", help_behavior_hint="(default: 1/255)")] = None
    """Standard deviation of a pixel's noise, of 1."""
    starts: int = 16
    """Starts drawn from the whole ranges, for each model."""
    seed: int = 0
    """Seed of the starts."""
    json: bool = False
    """Print result.json instead of tables."""

    def run(self, out, err):
        from gradsim.app.commands import compare

        unknowns = [name for group in self.unknown for name in group]
        models = [*(f"without {part}" for part in self.without), *self.model]
        with working(err) as progress:
            result = compare.run(
                self.scene,
                self.video,
                self.mask,
                unknowns,
                models,
                self.out,
                seed=self.seed,
                starts=self.starts,
                noise=self.noise,
                progress=progress,
            )
        if self.json:
            print(json.dumps(result, indent=1))
        else:
            show(result, self.out, out)
        return CODES[result["status"]]


@dataclass(kw_only=True)
class Explain(Command):
    """Say which gradients of a scene or a fit are zero, explode, or hold in one tooth only: where, and by which force."""

    subject: Annotated[Positional[Path], arg(metavar="SCENE|RUN")]
    """Scene file (YAML), the name of a library scene, or a folder made by `gradsim fit`: its scene at its estimates."""
    out: Annotated[Path, arg(metavar="DIR")]
    """Folder for result.json, report.html and pictures."""
    unknown: Annotated[
        UseAppendAction[list[list[str]]],
        arg(metavar="NAME[:LOW:HIGH] ...", help_behavior_hint="(default: those of the fit; all positive quantities)"),
    ] = field(default_factory=list)
    """What to differentiate by, such as cube.mass; as often as needed."""
    video: Annotated[Path | None, arg(metavar="V", help_behavior_hint="(default: the motion alone)")] = None
    """A film: gradients of its pixels."""
    mask: Annotated[Path | None, arg(metavar="M", help_behavior_hint="(default: from the colours)")] = None
    """Film of the objects' mask, white on black."""
    json: bool = False
    """Print result.json instead of words."""

    def run(self, out, err):
        from gradsim.app.commands.explain import explain

        unknowns = [name for group in self.unknown for name in group]
        with working(err) as progress:
            result, found = explain(self.subject, self.out, unknowns, self.video, self.mask, progress=progress)
        if self.json:
            print(json.dumps(result, indent=1))
        else:
            out.print(str(found), highlight=False, markup=False, soft_wrap=True)
            out.print(f"report: {(self.out / 'report.html').resolve()}", highlight=False, soft_wrap=True)
        return DONE


@dataclass(kw_only=True)
class Camera(Command):
    """Complete the camera of a scene from a known length in its picture: the focal length, or the distance."""

    scene: Annotated[Positional[Path], arg(metavar="SCENE")]
    """Scene file (YAML), or the name of a library scene."""
    length: Annotated[float, arg(metavar="METRES")]
    """Between two points of the picture."""
    points: Annotated[str, arg(metavar="X1,Y1,X2,Y2")]
    """The two points, column and row in px."""
    out: Annotated[Path, arg(metavar="FILE")]
    """Scene file to write."""
    solve: str = "focal"
    """focal: the camera's place is right; distance: its focal length is, and it moves along its axis."""
    at: Annotated[str | None, arg(metavar="X,Y,Z", help_behavior_hint="(default: what it looks at)")] = None
    """World point in metres that is as far away as the two points."""
    tilt: Annotated[float, arg(metavar="DEGREES")] = 0.0
    """Angle between the length and the image plane."""
    click: Annotated[float, arg(metavar="PX")] = 0.5
    """Standard deviation of a coordinate of the two points."""

    def run(self, out, err):
        from gradsim.app.commands import fit as runs

        found = runs.camera(
            self.scene,
            self.out,
            length=self.length,
            points=self.points,
            solve=self.solve,
            at=self.at,
            tilt=self.tilt,
            click=self.click,
        )
        out.print(found, highlight=False, soft_wrap=True)
        out.print(f"scene: {self.out}", highlight=False, soft_wrap=True)
        return DONE


@dataclass(kw_only=True)
class Reproduce(Command):
    """Run an experiment, of the paper or ours, and compare its figures with their goals."""

    name: Annotated[Positional[str], arg(metavar="NAME")]
    """Experiment, such as table1, fig4 or real-cube; `all` runs those of the paper."""
    out: Annotated[Path, arg(metavar="DIR")]
    """Folder for result.json, report.html and pictures."""
    quick: bool = False
    """A smaller version, in a minute or so (`all`: in some ten)."""
    foreign: bool = False
    """Targets from another renderer and four times the substeps (joint)."""
    scenes: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: the experiment's own number)")] = None
    """How many scenes, objects or instances (where an experiment has them)."""
    engine: Annotated[str | None, arg(metavar="serial|processes|ray", help_behavior_hint="(default: serial)")] = None
    """What runs independent fits: this process, processes of this machine, or a Ray cluster."""
    workers: Annotated[int | None, arg(metavar="K", help_behavior_hint="(default: as many as cores)")] = None
    """How many fits at a time, at most."""
    epochs: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: the experiment's own number)")] = None
    """How long the whole network is trained (convnet)."""
    weights: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: none)")] = None
    """Weights of a network to begin with (convnet)."""
    seed: int = 0
    """Seed of everything random."""

    def run(self, out, err):
        from gradsim.app import experiments
        from gradsim.app.report.report import write_report

        try:
            with working(err) as progress:
                result = experiments.reproduce(
                    self.name,
                    self.out,
                    self.quick,
                    self.seed,
                    progress,
                    foreign=self.foreign,
                    scenes=self.scenes,
                    engine=self.engine,
                    workers=self.workers,
                    epochs=self.epochs,
                    weights=self.weights,
                )
                write_report(self.out)
        except KeyboardInterrupt:
            if any(self.out.glob("*.jsonl")):
                err.print("What is finished is kept: run the same command again to go on.")
            raise
        show(result, self.out, out)
        if result["status"] == "failed":
            return FAILED
        # an experiment may be about what cannot be identified, so that its figures count and not its status
        return DONE if all(figure.get("ok", True) for figure in result.get("figures", {}).values()) else OPEN


@dataclass(kw_only=True)
class Landscape(Command):
    """Draw the cost of a fit along one or two unknowns, with the others held."""

    target: Annotated[Positional[Path], arg(metavar="SCENE|RUN")]
    """Folder of a fit, demo or experiment, or a scene file (YAML) or the name of a library scene."""
    unknown: Annotated[UseAppendAction[list[list[str]]], arg(metavar="NAME[:LOW:HIGH] ...")]
    """Along what, such as cube.mass:2:12; one or two. The range is that of the run by default."""
    out: Annotated[Path, arg(metavar="DIR")]
    """Folder for landscape.png, landscape.json and report.html."""
    video: Annotated[Path | None, arg(metavar="V", help_behavior_hint="(default: that of the run, or made up)")] = None
    """Film of it; without any, the scene's own motion is what was seen."""
    mask: Annotated[Path | None, arg(metavar="M", help_behavior_hint="(default: from the colours)")] = None
    """Film of the objects' mask, white on black."""
    noise: Annotated[float | None, arg(metavar="SIGMA", help_behavior_hint="(default: 1/255)")] = None
    """Standard deviation of a pixel's noise, of 1."""
    points: Annotated[int | None, arg(help_behavior_hint="(default: 201, or 41 along each of two)")] = None
    """Points along each axis."""

    def run(self, out, err):
        from gradsim.app.commands.landscape import draw_landscape

        asked = [name for group in self.unknown for name in group]
        with working(err) as progress:
            result = draw_landscape(
                self.target, asked, self.out, self.video, self.mask, self.noise, self.points, progress=progress
            )
        out.print(result["pictures"][0]["caption"], highlight=False)
        show(result, self.out, out)
        return DONE


@dataclass(kw_only=True)
class View(Command):
    """Show a motion in three dimensions, in the browser, until Ctrl-C; needs the extra `viewer`."""

    target: Annotated[Positional[Path], arg(metavar="RUN|SCENE")]
    """Folder made by `gradsim simulate`, `fit` or `demo`, a scene file (YAML), or the name of a library scene."""
    host: str = "127.0.0.1"
    """Address to listen at; 0.0.0.0 lets other machines in."""
    port: int = 8080
    """Port to listen at; the next free one if it is taken."""
    open: bool = False
    """Open the page in this machine's browser."""
    clip: Annotated[int, arg(metavar="N")] = 1
    """Of a fit of several clips, which one."""

    def run(self, out, err):
        from gradsim.app.viewer.content import viewable
        from gradsim.app.viewer.viewer import Viewer

        with working(err) as progress:
            progress.stage(f"moving {self.target}")
            viewer = Viewer(viewable(self.target, self.clip), self.host, self.port)
        for line in (viewer.url, f"from another machine: {viewer.tunnel}", "Ctrl-C ends it."):
            out.print(line, highlight=False, soft_wrap=True, markup=False)
        if self.open:
            import webbrowser

            webbrowser.open(viewer.url)
        with contextlib.suppress(KeyboardInterrupt):
            viewer.serve()
        viewer.stop()
        return DONE


@dataclass(kw_only=True)
class Doctor(Command):
    """Say what this machine has, and whether gradsim works on it."""

    def run(self, out, err):
        from gradsim.app.commands import doctor

        with working(err):
            findings = doctor.examine()
        out.print(doctor.table(findings))
        return DONE if all(f.ok for f in findings) else FAILED


_Commands = (
    Annotated[Demo, subcommand("demo")]
    | Annotated[Import, subcommand("import")]
    | Annotated[Simulate, subcommand("simulate")]
    | Annotated[Render, subcommand("render")]
    | Annotated[Fit, subcommand("fit")]
    | Annotated[Explain, subcommand("explain")]
    | Annotated[Camera, subcommand("camera")]
    | Annotated[Compare, subcommand("compare")]
    | Annotated[Control, subcommand("control")]
    | Dataset
    | Annotated[Landscape, subcommand("landscape")]
    | Annotated[Reproduce, subcommand("reproduce")]
    | Annotated[View, subcommand("view")]
    | Annotated[Doctor, subcommand("doctor")]
)


def main(words: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        words: Arguments; those of the process by default.

    Returns:
        The exit code.

    Raises:
        SystemExit: After `--help` (0) and on wrong usage (2).
    """
    command = tyro.cli(
        _Commands,
        prog="gradsim",
        description="Physical parameters from video: differentiable physics and rendering, with error bars.",
        args=words,
        config=(FlagCreatePairsOff,),
    )
    from rich.console import Console

    out, err = Console(), Console(stderr=True)
    try:
        return command.run(out, err)
    except KeyboardInterrupt:
        err.print("stopped")
        return STOPPED
    except Exception as error:  # noqa: BLE001 -- the border to the user
        return complain(error, err, command.debug)


def complain(error: Exception, err: "Console", debug: bool) -> int:
    """One readable panel for an error, and its exit code."""
    from pydantic import ValidationError

    from gradsim.app.cli.console import error_panel

    if debug:
        traceback.print_exception(error)
    if isinstance(error, (InputError, ValidationError, *_BAD_PATHS)):
        err.print(error_panel("bad input", str(error)))
        return BAD_INPUT
    hint = "" if debug else "Run again with --debug for the traceback."
    err.print(error_panel("failed", f"{type(error).__name__}: {error}", hint))
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
