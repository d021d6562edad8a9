"""The command `gradsim control`; like `cli.py` it imports nothing heavy."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from gradsim.app.cli.command import CODES, Command, show, working
from gradsim.errors import InputError

OPTIONS = ("goal", "method", "iterations", "quick", "seed")  # that determine the answer


@dataclass(kw_only=True)
class Control(Command):
    """Search for a controller that brings a body to where a picture shows it, by gradients through physics and pictures."""

    task: Annotated[Positional[str | None], arg(metavar="TASK", help_behavior_hint="(required)")] = None
    """A task of the library (walker, gear, cloth, jellyfish, throw), or a task file (YAML). With --resume, the run folder
    will do."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(required)")] = None
    """Folder for policy.pt, result.json, report.html and films."""
    goal: Annotated[Path | None, arg(metavar="PICTURE", help_behavior_hint="(default: the task's)")] = None
    """Picture of the goal as the task's camera sees it: in colours before the scene's background, or a silhouette, bright
    on black in grey."""
    method: Literal["gradient", "mpc", "diffphysics", "random", "cma", "reinforce", "ppo"] = "gradient"
    """gradient: a policy from pictures alone; mpc: planned anew in each interval, by the same gradients. The others are
    baselines: diffphysics is told where the goal is in 3-D; random, cma, reinforce and ppo do without gradients of the
    physics (cma, ppo: extra `control`)."""
    iterations: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: the task's)")] = None
    """Iterations: of each plan for mpc. One is a rollout forward and backward; for cma, reinforce and ppo 16 rollouts."""
    quick: bool = False
    """A smaller version, in less than a minute."""
    seed: int = 0
    """Seed of the goal, of the policy's start, and of everything else random."""
    resume: bool = False
    """Go on with a search that was stopped or killed: `gradsim control --resume DIR`, or the same words again."""
    json: bool = False
    """Print result.json instead of tables."""

    def run(self, out, err):
        folder, said = self._folder(), {name: getattr(self, name) for name in OPTIONS}
        from gradsim.app.commands.control import control
        from gradsim.app.job import ControlJob

        with working(err) as progress:
            if self.task is None or self._is_folder_alone():
                job = ControlJob.of(folder, said)
            else:
                is_file = Path(self.task).suffix.lower() in (".yaml", ".yml")
                job = ControlJob(task=Path(self.task) if is_file else self.task, **said)
            result = control(job, folder, self.resume, progress)
        if self.json:
            print(json.dumps(result, indent=1))
        else:
            show(result, folder, out)
        return CODES[result["status"]]

    def _is_folder_alone(self) -> bool:
        """Whether a run folder is all that says what to do."""
        return self.resume and (self.task is None or Path(self.task).is_dir())

    def _folder(self) -> Path:
        """The run folder.

        Raises:
            InputError: If something that is needed was not said.
        """
        folder = self.out or (Path(self.task) if self.task and self._is_folder_alone() else None)
        if folder is None and self.resume and self.task is not None:
            raise InputError(
                f"there is no run folder {self.task}; a search that left none starts again, without --resume."
            )
        needed = {"TASK": self.task or self.resume, "--out DIR": folder}
        missing = [name for name, value in needed.items() if not value]
        if missing or folder is None:
            raise InputError(f"missing: {', '.join(missing)}. See gradsim control --help.")
        return folder
