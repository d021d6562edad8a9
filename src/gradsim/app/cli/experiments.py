"""The commands `gradsim demo`, `reproduce` and `doctor`. Imports nothing heavy."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from gradsim.app.cli.command import DONE, FAILED, INCONCLUSIVE, Command, ThreadedCommand, show, working
from gradsim.errors import Status


@dataclass(kw_only=True)
class Demo(ThreadedCommand):
    """Estimate mass, stiffness and friction of a bouncing cube from a video, in a minute."""

    out: Annotated[Path, arg(metavar="DIR")] = Path("runs/demo")
    """Output folder for the video, result.json and report.html."""
    seed: int = 0
    """Seed of everything random."""

    def run(self, out, err):
        from gradsim.app.commands.demo import demo
        from gradsim.app.report.report import write_report

        with working(err) as progress:
            result = demo(self.out, self.seed, progress=progress)
            write_report(self.out)
        show(result, self.out, out)
        return Status(result["status"]).exit_code


@dataclass(kw_only=True)
class Reproduce(ThreadedCommand):
    """Run an experiment, of the paper or ours, and compare its figures with their goals."""

    name: Annotated[Positional[str], arg(metavar="NAME")]
    """Experiment; `all` runs those of the paper."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/NAME)")] = None
    """Output folder for result.json, report.html and plots."""
    quick: bool = False
    """A small version, in about a minute (`all`: about ten)."""
    foreign: bool = False
    """Targets by another renderer with four times the substeps (joint)."""
    scenes: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: the experiment's own number)")] = None
    """Number of scenes, objects or instances, for experiments that have several."""
    engine: Annotated[str | None, arg(metavar="serial|processes|ray", help_behavior_hint="(default: serial)")] = None
    """Executor of independent fits: this process, processes of this machine, or a Ray cluster."""
    workers: Annotated[int | None, arg(metavar="K", help_behavior_hint="(default: number of cores)")] = None
    """Number of workers."""
    epochs: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: the experiment's own number)")] = None
    """Training epochs of the whole network (convnet)."""
    weights: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: none)")] = None
    """Initial weights of the network (convnet)."""
    rows: Annotated[str | None, arg(metavar="NAMES", help_behavior_hint="(default: all)")] = None
    """Rows of a table, such as beam,cables (reality)."""
    seed: int = 0
    """Seed of everything random."""

    @classmethod
    def name_experiments(cls) -> None:
        """Put the names of all experiments into the help, which takes a look into all installed packages."""
        from gradsim.app.experiments import experiments

        cls.__doc__ = f"{(cls.__doc__ or '').splitlines()[0]}\n\nThere are {', '.join(experiments())}."

    def run(self, out, err):
        from gradsim.app import experiments
        from gradsim.app.report.report import write_report

        folder = self.out or Path("runs") / self.name
        names = ("foreign", "scenes", "engine", "workers", "epochs", "weights", "rows")
        options = {name: getattr(self, name) for name in names}
        try:
            with working(err) as progress:
                result = experiments.reproduce(self.name, folder, self.quick, self.seed, progress, **options)
                write_report(folder)
        except KeyboardInterrupt:
            if any(folder.glob("*.jsonl")):
                err.print("Finished parts are kept: run the same command again to continue.")
            raise
        show(result, folder, out)
        if result["status"] == Status.FAILED:
            return FAILED
        # an experiment may be about what cannot be identified: its figures count, not its status
        return DONE if all(figure.get("ok", True) for figure in result.get("figures", {}).values()) else INCONCLUSIVE


@dataclass(kw_only=True)
class Doctor(Command):
    """Check versions and capabilities of this machine."""

    warm: Annotated[
        tuple[str, ...] | None, arg(metavar="SCENE ...", help_behavior_hint="(default: nothing is compiled)")
    ] = None
    """First compile what fits of these scenes need, on all cores; without names, of the whole library."""

    def run(self, out, err):
        from gradsim.app.commands import doctor

        with working(err) as progress:
            count = 0
            if self.warm is not None:
                from gradsim.app.commands.warm import warm

                progress.stage("compiling kernels")
                count = warm(self.warm, report=progress.fraction)
            findings = doctor.examine()
        if self.warm is not None:
            out.print(f"{count} modules compiled.")
        out.print(doctor.table(findings))
        return DONE if all(f.ok for f in findings) else FAILED
