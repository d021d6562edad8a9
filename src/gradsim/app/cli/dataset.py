"""The commands `gradsim dataset ...`. Imports nothing heavy."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg, subcommand

from gradsim.app.cli.command import DONE, FAILED, Command, ThreadedCommand, working
from gradsim.errors import InputError

Engine = Literal["serial", "processes", "ray"]
Folder = Annotated[Positional[Path], arg(metavar="D")]


@dataclass(kw_only=True)
class ParallelCommand(ThreadedCommand):
    """Options of commands that process all units."""

    engine: Engine = "serial"
    """Executor: serial (this process), processes of this machine, or ray (a cluster; extra `ray`)."""
    workers: Annotated[int | None, arg(metavar="K", help_behavior_hint="(default: number of cores)")] = None
    """Number of workers; does not change the result."""


@dataclass(kw_only=True)
class Generate(ParallelCommand):
    """Generate videos with known physics; the same command again continues an interrupted run.

    Example: gradsim dataset generate rigid --n 100 --out data
    """

    kind: Annotated[Positional[str], arg(metavar="KIND")]
    """rigid, deformable or cloth."""
    n: Annotated[int, arg(metavar="N")]
    """Total number of videos; more can be added later."""
    out: Annotated[Path, arg(metavar="D")]
    """Folder of the data set."""
    seed: int = 0
    """Seed of the data set; a video depends on it and on its own number only."""
    sizes: Annotated[tuple[int, ...], arg(metavar="PX ...")] = (64, 256)
    """Width and height of the images: any of 32, 64, 128, 256."""
    shard: Annotated[str, arg(metavar="I/N")] = "1/1"
    """Generate the I-th of N parts (1/N to N/N) into the same folder; for job arrays."""

    def run(self, out, err):
        from gradsim.dataset.generate import generate

        options = {name: getattr(self, name) for name in ("seed", "sizes", "engine", "workers")}
        with working(err) as progress:
            progress.stage(f"{self.n} {self.kind} videos into {self.out}")
            summary = generate(
                self.kind, self.n, self.out, shard=_parse_shard(self.shard), report=progress.fraction, **options
            )
        rate = (
            f": {summary['cpu_s'] / summary['videos']:.3f} CPU-s each, {summary['wall_s']:.1f} s"
            if summary["videos"]
            else ""
        )
        out.print(f"generated {summary['videos']} videos{rate}", highlight=False)
        out.print(f"dataset: {self.out}", highlight=False, soft_wrap=True, markup=False)
        return DONE


@dataclass(kw_only=True)
class Verify(ParallelCommand):
    """Read a whole data set and report what is missing or corrupt; exit code 1 if anything is.

    Example: gradsim dataset verify data
    """

    folder: Folder
    """The data set."""
    json: bool = False
    """Print count, content_hash and faults as JSON."""

    def run(self, out, err):
        from gradsim.dataset.verify import verify

        with working(err) as progress:
            progress.stage(f"reading {self.folder}")
            verdict = verify(self.folder, self.engine, self.workers, progress.fraction)
        if self.json:
            print(json.dumps(verdict.summary(), indent=1))
        else:
            from gradsim.app.cli.dataset_tables import show_verdict

            show_verdict(out, verdict)
        return DONE if verdict.whole else FAILED


@dataclass(kw_only=True)
class Repair(ParallelCommand):
    """Generate again what `verify` finds missing or corrupt, and nothing else.

    Example: gradsim dataset repair data
    """

    folder: Folder
    """The data set."""

    def run(self, out, err):
        from gradsim.dataset.verify import repair

        with working(err) as progress:
            progress.stage(f"reading {self.folder}")
            verdict, summary = repair(self.folder, self.engine, self.workers, progress.fraction)
        for fault in verdict.faults:
            out.print(f"{fault.file}: {fault.why}", highlight=False, soft_wrap=True, markup=False)
        out.print(f"generated {summary['videos']} videos of {summary['units']} units again", highlight=False)
        return DONE


@dataclass(kw_only=True)
class Show(Command):
    """Unpack one video (with mask, scene, truth, a strip of instants) and print how to fit it; or make a sheet of several.

    Example: gradsim dataset show data 7 --out video7
    """

    folder: Folder
    """The data set."""
    number: Annotated[
        Positional[int | None], arg(metavar="[NUMBER]", help_behavior_hint="(default: a sheet of the first videos)")
    ] = None
    """Number of the video, from 0."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: D/shown; D/shown/NUMBER)")] = None
    """Output folder."""
    size: Annotated[int | None, arg(metavar="PX", help_behavior_hint="(default: the smallest)")] = None
    """Size of the images, one of those in the data set."""

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
    """Export the videos in a format of other libraries.

    Example: gradsim dataset export data --to webdataset --out shards
    """

    folder: Folder
    """The data set."""
    to: Literal["webdataset", "lerobot"]
    """webdataset: tar files of npz and json; lerobot: LeRobot format 3.0."""
    out: Annotated[Path, arg(metavar="E")]
    """A new folder."""
    size: Annotated[int | None, arg(metavar="PX", help_behavior_hint="(default: the smallest)")] = None
    """Size of the images, one of those in the data set."""

    def run(self, out, err):
        with working(err) as progress:
            progress.stage(f"{self.folder} to {self.out}")
            if self.to == "webdataset":
                from gradsim.dataset.webdataset import export_webdataset

                export_webdataset(self.folder, self.out, self.size, progress.fraction)
                lossless = True
            else:
                from gradsim.dataset.lerobot import export_lerobot

                lossless = export_lerobot(self.folder, self.out, self.size, progress.fraction)
        out.print(f"{self.to}: {self.out}", highlight=False, soft_wrap=True, markup=False)
        if not lossless:
            err.print("warning: this build of PyAV has no libx264rgb; the videos are lossy: do not fit them.")
        return DONE


@dataclass(kw_only=True)
class GenerationPlan(Command):
    """Estimate time and size of a data set from those of an existing one.

    Example: gradsim dataset plan data --n 100000
    """

    folder: Folder
    """An existing data set of the same kind and sizes; a hundred videos are enough."""
    n: Annotated[int, arg(metavar="N")]
    """Number of videos to plan for."""
    cores: Annotated[int, arg(metavar="K")] = 1
    """Number of cores."""
    json: bool = False
    """Print JSON instead of a table."""

    def run(self, out, err):
        from gradsim.dataset.generate import plan_generation
        from gradsim.dataset.layout import DatasetLayout

        planned, settings = plan_generation(self.folder, self.n, self.cores), DatasetLayout.open(self.folder).settings
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
    | Annotated[GenerationPlan, subcommand("plan")]
)
Dataset = Annotated[_Datasets, subcommand("dataset", description="Generate, check and export data sets of videos.")]


def _parse_shard(text: str) -> tuple[int, int]:
    """Index and number of shards.

    Raises:
        InputError: If the text is not I/N.
    """
    try:
        index, count = (int(part) for part in text.split("/"))
    except ValueError:
        raise InputError(f"--shard: got {text!r}; expected I/N, such as 3/8.") from None
    return index, count
