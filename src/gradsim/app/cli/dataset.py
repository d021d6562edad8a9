"""The commands `gradsim dataset ...`; like `cli.py` it imports nothing heavy."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg, subcommand

from gradsim.app.cli.command import DONE, FAILED, Command, working
from gradsim.errors import InputError

Engine = Literal["serial", "processes", "ray"]
Folder = Annotated[Positional[Path], arg(metavar="D")]


@dataclass(kw_only=True)
class Working(Command):
    """What commands share that work through all units."""

    engine: Engine = "serial"
    """Where the work is done: serial, here; processes of this machine; ray, on a cluster (extra `ray`)."""
    workers: Annotated[int | None, arg(metavar="K", help_behavior_hint="(default: one for each core)")] = None
    """How many at a time, at most. They change nothing but the time it takes."""


@dataclass(kw_only=True)
class Generate(Working):
    """Make videos with known physics; the same words again go on with a run that was stopped or killed."""

    kind: Annotated[Positional[str], arg(metavar="KIND")]
    """rigid, deformable or cloth."""
    n: Annotated[int, arg(metavar="N")]
    """How many videos there shall be; more may be made later."""
    out: Annotated[Path, arg(metavar="D")]
    """Folder of the data set."""
    seed: int = 0
    """Seed of the data set: every sample depends on it and its own number alone."""
    sizes: Annotated[tuple[int, ...], arg(metavar="PX ...")] = (64, 256)
    """Width and height of the pictures: any of 32, 64, 128, 256."""
    shard: Annotated[str, arg(metavar="I/N")] = "1/1"
    """Make the I-th of N shares (1/N to N/N), into the same folder as the others: for arrays of jobs."""

    def run(self, out, err):
        from gradsim.dataset.generate import generate

        given = {name: getattr(self, name) for name in ("seed", "sizes", "engine", "workers")}
        with working(err) as progress:
            progress.stage(f"{self.n} {self.kind} videos into {self.out}")
            made = generate(self.kind, self.n, self.out, shard=_share(self.shard), report=progress.share, **given)
        each = f": {made['cpu_s'] / made['videos']:.3f} CPU-s each, {made['wall_s']:.1f} s" if made["videos"] else ""
        out.print(f"made {made['videos']} videos{each}", highlight=False)
        out.print(f"dataset: {self.out}", highlight=False, soft_wrap=True)
        return DONE


@dataclass(kw_only=True)
class Verify(Working):
    """Read every bit of a data set again, and say what is missing or wrong; exit code 1 if something is."""

    folder: Folder
    """The data set."""
    json: bool = False
    """Print count, content_hash and everything found as JSON."""

    def run(self, out, err):
        from gradsim.dataset.verify import verify

        with working(err) as progress:
            progress.stage(f"reading {self.folder}")
            verdict = verify(self.folder, self.engine, self.workers, progress.share)
        if self.json:
            print(json.dumps(verdict.summary(), indent=1))
        else:
            from gradsim.app.cli.dataset_tables import show_verdict

            show_verdict(out, verdict)
        return DONE if verdict.whole else FAILED


@dataclass(kw_only=True)
class Repair(Working):
    """Make again what `verify` finds missing or wrong, and nothing else."""

    folder: Folder
    """The data set."""

    def run(self, out, err):
        from gradsim.dataset.verify import repair

        with working(err) as progress:
            progress.stage(f"reading {self.folder}")
            found, made = repair(self.folder, self.engine, self.workers, progress.share)
        for fault in found.faults:
            out.print(f"{fault.file}: {fault.why}", highlight=False, soft_wrap=True, markup=False)
        out.print(f"made {made['videos']} videos of {made['units']} units again", highlight=False)
        return DONE


@dataclass(kw_only=True)
class Show(Command):
    """Unpack one video: film, mask, scene, truth, a strip of instants; and say how to fit it. Or draw a sheet of some."""

    folder: Folder
    """The data set."""
    number: Annotated[
        Positional[int | None], arg(metavar="[NUMBER]", help_behavior_hint="(default: a sheet of the first)")
    ] = None
    """Which video, from 0."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: D/shown; D/shown/NUMBER)")] = None
    """Folder for its files."""
    size: Annotated[int | None, arg(metavar="PX", help_behavior_hint="(default: the smallest)")] = None
    """Which of the sizes."""

    def run(self, out, err):
        from gradsim.app.cli.dataset_tables import show_label
        from gradsim.app.commands.dataset import fit_command, overview, unpack

        if self.number is None:
            to = (self.out or self.folder / "shown") / "sheet.png"
            with working(err):
                count = overview(self.folder, to)
            out.print(f"sheet of {count} videos: {to}", highlight=False, soft_wrap=True, markup=False)
            return DONE
        to = self.out or self.folder / "shown" / str(self.number)
        with working(err):
            label = unpack(self.folder, self.number, to, self.size)
        show_label(out, label)
        out.print(f"video: {to}", highlight=False, soft_wrap=True, markup=False)
        out.print(f"fit: {fit_command(to, label['unknowns'])}", highlight=False, soft_wrap=True, markup=False)
        return DONE


@dataclass(kw_only=True)
class Export(Command):
    """Write the videos in a format of other libraries."""

    folder: Folder
    """The data set."""
    to: Literal["webdataset", "lerobot"]
    """webdataset: tar files of npz and json; lerobot: LeRobot's format, version 3.0."""
    out: Annotated[Path, arg(metavar="E")]
    """A new folder."""
    size: Annotated[int | None, arg(metavar="PX", help_behavior_hint="(default: the smallest)")] = None
    """Which of the sizes."""

    def run(self, out, err):
        with working(err) as progress:
            progress.stage(f"{self.folder} to {self.out}")
            if self.to == "webdataset":
                from gradsim.dataset.webdataset import export_webdataset

                export_webdataset(self.folder, self.out, self.size, progress.share)
                lossless = True
            else:
                from gradsim.dataset.lerobot import export_lerobot

                lossless = export_lerobot(self.folder, self.out, self.size, progress.share)
        out.print(f"{self.to}: {self.out}", highlight=False, soft_wrap=True, markup=False)
        if not lossless:
            err.print("warning: this build of PyAV has no libx264rgb; the films are lossy: do not fit them.")
        return DONE


@dataclass(kw_only=True)
class Plan(Command):
    """Say what a data set of any number of videos takes, from what one that is there took."""

    folder: Folder
    """A data set of the same kind and sizes; a hundred videos will do."""
    n: Annotated[int, arg(metavar="N")]
    """Videos of the one that is planned."""
    cores: Annotated[int, arg(metavar="K")] = 1
    """Cores that work on it."""
    json: bool = False
    """Print JSON instead of a table."""

    def run(self, out, err):
        from gradsim.dataset.generate import plan
        from gradsim.dataset.layout import Layout

        planned, settings = plan(self.folder, self.n, self.cores), Layout.open(self.folder).settings
        if self.json:
            print(json.dumps(planned.summary(), indent=1))
        else:
            from gradsim.app.cli.dataset_tables import show_plan

            show_plan(out, planned, settings.kind, " and ".join(f"{size} px" for size in settings.sizes))
        return DONE


_Datasets = (
    Annotated[Generate, subcommand("generate")]
    | Annotated[Verify, subcommand("verify")]
    | Annotated[Repair, subcommand("repair")]
    | Annotated[Show, subcommand("show")]
    | Annotated[Export, subcommand("export")]
    | Annotated[Plan, subcommand("plan")]
)
Dataset = Annotated[_Datasets, subcommand("dataset", description="Make, check and export data sets of videos.")]


def _share(text: str) -> tuple[int, int]:
    """The two numbers of --shard.

    Raises:
        InputError: If there are not two.
    """
    try:
        share, shares = (int(part) for part in text.split("/"))
    except ValueError:
        raise InputError(f"--shard: got {text!r}; expected I/N, such as 3/8.") from None
    return share, shares
