"""What `gradsim control` was asked to do."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gradsim.app.asked import Asked
from gradsim.control.task import Task

METHODS = ("gradient", "mpc", "diffphysics", "random", "cma", "reinforce", "ppo")
NAMES = ("first", "middle", "best", "last")  # of the policies that are kept and filmed


@dataclass(frozen=True, kw_only=True)
class ControlJob(Asked):
    """A controller as asked for.

    Args:
        task: Name of a task of the library, or its file.
        goal: A picture in place of the task's.
        method: One of `METHODS`.
        iterations: Instead of the task's.
        quick: Whether to take the trial that the task describes.
        seed: Of the goal that is drawn, of the policy's start, and of everything else random.
    """

    command: ClassVar = "control"
    noun: ClassVar = "search"
    subject: ClassVar = "task"
    answer: ClassVar = (
        *("result.json", "history.json", "report.html", "player.html", "convergence.png", "stages.png"),
        *("policy.pt", "controls.npz"),
        *(f"{name}.webm" for name in NAMES),
    )

    task: Path | str
    goal: Path | None = None
    method: str = "gradient"
    iterations: int | None = None
    quick: bool = False
    seed: int = 0

    def load(self) -> Task:
        """The task."""
        return Task.load(self.task)
