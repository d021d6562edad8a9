"""The command `gradsim control`. Imports nothing heavy."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from gradsim.app.cli.command import ThreadedCommand, run_folder, show, working
from gradsim.errors import InputError, Status

OPTIONS = ("goal", "method", "iterations", "quick", "seed")  # that determine the result


@dataclass(kw_only=True)
class Control(ThreadedCommand):
    """Search for a controller that moves a body to a goal image, by gradients through physics and rendering."""

    task: Annotated[Positional[str | None], arg(metavar="TASK", help_behavior_hint="(required)")] = None
    """Library task (walker, gear, cloth, jellyfish, throw) or task file (YAML). With --resume: the run folder."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/control)")] = None
    """Run folder for policy.pt, result.json, report.html and videos."""
    goal: Annotated[Path | None, arg(metavar="IMAGE", help_behavior_hint="(default: the task's)")] = None
    """Goal image from the task's camera: in color on the scene's background, or a gray silhouette, bright on black."""
    method: Annotated[
        Literal["gradient", "mpc", "diffphysics", "random", "cma", "reinforce", "ppo"],
        arg(
            help="gradient: a policy from images only; mpc: model predictive control by the same gradients. The others are "
            "baselines: diffphysics knows the goal in 3-D; random, cma, reinforce and ppo use no gradients of the physics "
            "(cma, ppo: extra `control`)."
        ),
    ] = "gradient"
    iterations: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: the task's)")] = None
    """Iterations (mpc: of each plan). One is a rollout forward and backward; for cma, reinforce and ppo 16 rollouts."""
    quick: bool = False
    """A small version, in less than a minute."""
    seed: int = 0
    """Seed of the goal, of the initial policy, and of everything else random."""
    resume: bool = False
    """Continue an interrupted search: `gradsim control --resume DIR` (default: runs/control), or the same command again with --resume."""
    json: bool = False
    """Print result.json instead of tables."""

    def run(self, out, err):
        folder, options = self._folder(), {name: getattr(self, name) for name in OPTIONS}
        from gradsim.app.commands.control import control
        from gradsim.app.job import ControlArguments

        with working(err) as progress:
            if self.task is None or self._is_run_folder():
                arguments = ControlArguments.load(folder, options)
            else:
                is_file = Path(self.task).suffix.lower() in (".yaml", ".yml")
                arguments = ControlArguments(task=Path(self.task) if is_file else self.task, **options)
            result = control(arguments, folder, self.resume, progress)
        if self.json:
            print(json.dumps(result, indent=1))
        else:
            show(result, folder, out)
        return Status(result["status"]).exit_code

    def _is_run_folder(self) -> bool:
        """True if TASK is the run folder to resume."""
        return self.resume and (self.task is None or Path(self.task).is_dir())

    def _folder(self) -> Path:
        """The run folder.

        Raises:
            InputError: If a required argument is missing.
        """
        if self._is_run_folder():
            return self.out or (Path(self.task) if self.task else run_folder("control", None, resume=True))
        if self.task is None:
            raise InputError("missing: TASK. See gradsim control --help.")
        folder = run_folder("control", self.out, self.resume)
        if self.resume and self.out is None and not folder.exists():
            raise InputError(f"the run folder {self.task} does not exist; start training without --resume.")
        return folder
