"""What an iteration costs: its physics, and its pictures, each alone, forward and backward.

The goal as a run folder shows it: its pictures, and where its outlines go in films.

Whether a motion reached its goal: figures that no search sees.

Reached: at the end it is away by at most a twentieth of what it was away at the start. That is measured between centres
of mass [m] where the goal's place is known, else between the centres of the silhouettes in the goal's pictures [px].

What result.json of `gradsim control` says: how near the goal was, after how many iterations, at what cost.

What a search found, to look at: films of its iterations, instants side by side, and how near each came.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from gradsim.control.goals.base import Goal
    from gradsim.control.plant import Episode, Plant
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from gradsim.control.goals.image import PictureGoal
from gradsim.geometry.image_io import to_bytes
from gradsim.runtime.atomic import atomic_path
from gradsim.visualization.control_video import Sought

if TYPE_CHECKING:
    from gradsim.control.task.setup import Setup
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gradsim.render.silhouettes import Silhouettes

if TYPE_CHECKING:
    from gradsim.control.plant import Episode
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gradsim.app.job import NAMES, ControlJob
from gradsim.control.training.history import History
from gradsim.identification.fit import SCHEMA
from gradsim.runtime.provenance import versions

if TYPE_CHECKING:
    from gradsim.app.commands.control_result import Shown
    from gradsim.control.task.setup import Setup
from typing import TYPE_CHECKING

import numpy as np

from gradsim.app.commands.control_search import played
from gradsim.app.report.control import STILLS
from gradsim.visualization.control_video import Screen, write_film
from gradsim.visualization.sheets import sheet

if TYPE_CHECKING:
    from gradsim.control.plant import Episode
    from gradsim.control.task.setup import Setup


def cost(plant: "Plant", policy: nn.Module, goal: "Goal", iteration: int, repeats: int = 2) -> dict[str, float]:
    """CPU seconds of one world, the least of some repeats.

    Args:
        plant: The plant.
        policy: The policy.
        goal: Its loss is that of the pictures.
        iteration: Whose loss it is, where that changes.
        repeats: How often each is done.

    Returns:
        `physics_seconds`: a rollout and the gradient by the policy of where the body ends; `picture_seconds`: the loss
        of an episode that is there already, and its gradient by the states.
    """

    def physics():
        episode = plant.rollout(policy)  # pyright: ignore[reportArgumentType]
        episode.centre()[:, -1].sum().backward()

    episode = plant.rollout(policy)  # pyright: ignore[reportArgumentType]
    states = {
        body: {name: y.detach().requires_grad_(y.is_floating_point()) for name, y in own.items()}
        for body, own in episode.trajectory.states.items()
    }
    still: Episode = replace(episode, trajectory=replace(episode.trajectory, states=states))

    def pictures():
        loss = goal.loss(still, iteration).sum()
        if loss.requires_grad:
            loss.backward()

    found = {"physics_seconds": _least(physics, repeats), "picture_seconds": _least(pictures, repeats)}
    policy.zero_grad()
    return found


def _least(work: Callable[[], None], repeats: int) -> float:
    spent = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)


SHARE = 0.05  # of the way from the start to the goal
LEAST = {"m": 0.0, "px": 1.0}  # silhouettes of one place differ by less than a pixel


@dataclass(frozen=True)
class Reach:
    """How far a goal is, and how near is near enough.

    Args:
        way: From the start to the goal.
        unit: "m" or "px".
    """

    way: float
    unit: str

    @classmethod
    def of(cls, goal: PictureGoal, episode: "Episode") -> "Reach":
        """Of the start of an episode."""
        if goal.truth is not None:
            start = episode.centre(goal.truth.body)[0, 0].detach()
            return cls(float(torch.linalg.vector_norm(start - goal.truth.centre)), "m")
        return cls(_apart(goal, episode, start=True), "px")

    @property
    def bound(self) -> float:
        """Away by so much at most, the goal is reached."""
        return max(SHARE * self.way, LEAST[self.unit])

    @property
    def position_error(self) -> float | None:
        """The same as a mean over x, y and z of squared distances [m²]; None where no place is known."""
        return self.bound**2 / 3 if self.unit == "m" else None

    def away(self, goal: PictureGoal, episode: "Episode") -> float:
        """How far an episode ends from the goal; infinity where it cannot be seen there."""
        distance = goal.distance(episode)
        return _apart(goal, episode) if distance is None else float(distance[0])

    def words(self, away: float) -> str:
        """So far from the goal, in words."""
        return f"ends {away:.3g} {self.unit} from the goal" if math.isfinite(away) else "ends out of view"


def silhouettes(goal: PictureGoal) -> list[Tensor]:
    """Where bodies are in the goal's pictures (height, width) in [0, 1]; of colours, what differs from the background."""
    if not goal.colours:
        return [target.detach() for target in goal.targets]
    empty = [torch.as_tensor(sees.background, dtype=torch.float64)[:, None, None] for sees in goal.sees]
    return [((t - e).abs().amax(0) > 0.1).double() for t, e in zip(goal.targets, empty, strict=True)]


@torch.no_grad()
def _apart(goal: PictureGoal, episode: "Episode", start: bool = False) -> float:
    """Mean distance of the centres of silhouettes over the pictures [px]."""
    found = []
    for sees, target, frame in zip(goal.sees, silhouettes(goal), goal.frames, strict=True):
        seen = episode.trajectory.at([0 if start else frame])
        draw = sees.union if isinstance(sees, Silhouettes) else sees.alpha
        found.append(_centre(draw(seen.surface, seen.values)[0, 0]) - _centre(target))
    apart = float(torch.linalg.vector_norm(torch.stack(found), dim=-1).mean())
    return apart if math.isfinite(apart) else math.inf


def _centre(mask: Tensor) -> Tensor:
    """Column and row of a silhouette's centre [px]; not numbers where it is empty."""
    rows, columns = (torch.arange(n, dtype=mask.dtype) + 0.5 for n in mask.shape)
    return torch.stack([(mask.sum(0) * columns).sum(), (mask.sum(1) * rows).sum()]) / mask.sum()


def write_goal(folder: Path, setup: "Setup") -> list[dict[str, str]]:
    """Write goal.png, or goal_1.png and so on where there are several; their names and captions.

    Each can be given again with --goal: a silhouette is grey, and a picture has the background of the scene.
    """
    from PIL import Image

    cameras, listed = setup.task.goal.cameras, []
    named = len(cameras) == len(setup.pictures) > 1
    for k, picture in enumerate(setup.pictures):
        name = "goal.png" if len(setup.pictures) == 1 else f"goal_{k + 1}.png"
        is_grey = bool((picture == picture[:1]).all())
        pixels = to_bytes(picture[0] if is_grey else picture.permute(1, 2, 0))
        with atomic_path(folder / name) as draft:
            Image.fromarray(pixels).save(draft)
        listed.append({"file": name, "text": f"{name}, as `{cameras[k]}` sees it" if named else name})
    return listed


def sought(setup: "Setup", goal: PictureGoal) -> tuple[str, list[Sought]]:
    """The first camera that sees the goal, and what it is to see in which frames."""
    count, length = len(setup.task.goal.frames), setup.plant.frames
    inside = silhouettes(goal)
    found = []
    for k in range(min(count, len(goal.frames))):
        shown: Tensor = setup.pictures[k if setup.at_goal is None and k < len(setup.pictures) else 0]
        found.append(Sought(goal.frames[k] % length, shown.permute(1, 2, 0).numpy(), inside[k].numpy()))
    return setup.task.goal.cameras[0], found


UNKNOWN = "The goal is a picture alone, so nobody knows where in space it is; figures in metres are left out."


def entries(history: History) -> dict[str, int]:
    """The iteration of each policy that the history keeps."""
    last = len(history) - 1
    numbers = {"first": 0, "middle": history.middle, "best": history.best, "last": last}
    return {name: k for name in NAMES if name in history.policies and (k := numbers[name]) is not None}


def content(job: ControlJob, setup: "Setup", history: History, shown: "Shown", spent: Mapping[str, float]) -> dict:
    """The content of result.json, but for the goal's pictures and what only the caller knows.

    Args:
        job: What was asked.
        setup: The task.
        history: At least one iteration.
        shown: Its films, and how near they came.
        spent: CPU seconds of an iteration's physics and pictures.
    """
    reach, rows = shown.reach, [_row(name, k, history) for name, k in entries(history).items()]
    first = None if job.method == "mpc" else _first(history, shown, setup.plant.frames)  # its iterations are of plans
    reached = shown.away["best"] <= reach.bound
    each = statistics.median(history.raw("seconds"))
    numbers = {
        "iterations_to_reach": first,
        "steps_per_rollout": setup.plant.steps,
        "cpu_seconds_per_iteration": each,
        **spent,
    }
    figures = {f"position_error_{row['name']}": _figure(row["position_error"]) for row in rows}
    if reach.position_error is not None:
        figures["position_error_best"] |= {"goal": reach.position_error, "ok": reached}
    return {
        **_head(job, setup.task.name),
        "status": "ok" if reached else "missed",
        "verdict": _verdict(reached, shown, first, job.quick),
        "figures": figures | {name: _figure(value) for name, value in numbers.items()},
        "policies": rows,
        "films": shown.films,
        "reach": _reach(shown),
        "best": history.best,
        "iterations": len(history),
        **{name: history.total(name)[-1] for name in ("rollouts", "steps")},
        "retreats": history.retreats,
        "cpu_seconds": history.total("seconds")[-1],
        **numbers,
        "outputs": setup.plant.outputs,
        "versions": versions(),
    }


def interrupted(job: ControlJob, title: str, history: History, resume: str) -> dict:
    """The content of result.json of a search that was stopped."""
    count = len(history)
    done = f"after {count} iteration{'s' if count != 1 else ''}" if count else "before the first iteration"
    words = f"The search was stopped {done}; what it knows is kept."
    rows = [_row(name, k, history) for name, k in entries(history).items()] if count else []
    return {
        **_head(job, title),
        "status": "interrupted",
        "verdict": {"title": "Stopped before the end", "words": words, "colour": "open"},
        "resume": resume,
        "policies": rows,
        "reach": {"position_error": None, "words": ""},
        "films": [],
        "iterations": count,
        "rollouts": history.total("rollouts")[-1] if count else 0,
        "steps": history.total("steps")[-1] if count else 0,
        "cpu_seconds": history.total("seconds")[-1] if count else 0.0,
        "versions": versions(),
    }


def _head(job: ControlJob, title: str) -> dict:
    own = {"task": str(job.task), "method": job.method, "quick": job.quick, "seed": job.seed}
    return {"schema": SCHEMA, "command": "control", "title": title, **own}


def _row(name: str, k: int, history: History) -> dict:
    entry = history.iterations[k]
    numbers = {key: getattr(entry, key) for key in ("loss", "distance", "position_error", "gradient_norm")}
    return {"name": name, "iteration": k, "stage": entry.stage, **{key: _known(x) for key, x in numbers.items()}}


def _first(history: History, shown: "Shown", frames: int) -> int | None:
    """The first iteration of whole films whose raw distance is within the bound; None: none, or not known."""
    if shown.reach.unit != "m":
        return None
    entries = enumerate(history.iterations)
    near = (k for k, e in entries if e.distance <= shown.reach.bound and e.frames == frames)
    return next(near, None)


def _reach(shown: "Shown") -> dict:
    reach = shown.reach
    words = (
        f"Reached: away by at most {reach.bound:.3g} {reach.unit} at the end; it is {reach.way:.3g} {reach.unit} at the "
        "start."
    )
    return {
        "bound": reach.bound,
        "way": _known(reach.way),
        "unit": reach.unit,
        "position_error": reach.position_error,
        "away": {name: _known(x) for name, x in shown.away.items()},
        "words": f"{words} {UNKNOWN}" if reach.unit == "px" else words,
    }


def _verdict(reached: bool, shown: "Shown", first: int | None, quick: bool) -> dict[str, str]:
    reach = shown.reach
    words = (
        f"The best policy {reach.words(shown.away['best'])}, which was {reach.way:.3g} {reach.unit} away at the start; "
        f"{reach.bound:.3g} {reach.unit} would do."
    )
    if reached:
        words += f" Iteration {first} was the first that came so near." if first is not None else ""
        return {"title": "The goal is reached", "words": words, "colour": "good"}
    if quick:
        hint = "This was a trial; leave out --quick for all iterations."
    elif first is None:
        hint = "More iterations may help, if the controls can bring it there at all."
    else:
        hint = f"Iteration {first} came so near, with a larger loss."
    return {"title": "The goal is missed", "words": f"{words} {hint}", "colour": "bad"}


def _figure(value: float | None) -> dict:
    return {"value": value, "paper": None, "goal": None, "ok": True}


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Shown:
    """What was filmed.

    Args:
        films: File, caption and iteration of each.
        reach: What counts as reached.
        away: How far each policy ends from the goal, by its name.
        best: The best motion.
    """

    films: list[dict]
    reach: Reach
    away: dict[str, float]
    best: "Episode"


@dataclass(frozen=True)
class _Shot:
    """One iteration: its motion, its film and its instants in one picture."""

    episode: "Episode"
    film: np.ndarray
    instants: np.ndarray


def show(
    out: Path, setup: "Setup", goal: PictureGoal, policy: nn.Module, history: History, most: int | None = None
) -> Shown:
    """Film the first, middle, best and last iteration, and write stages.png; the policy ends as the best one.

    Args:
        out: The run folder.
        setup: The task.
        goal: Its goal.
        policy: Of the kind whose states are in the history.
        history: What was found.
        most: Pictures in a film, see `Screen`.
    """
    screen, shots, stills, films, away, reach = (
        Screen(setup.task.scene, *sought(setup, goal), most),
        {},
        [],
        [],
        {},
        None,
    )
    for name, k in entries(history).items():
        if k not in shots:  # the best one is often the last
            policy.load_state_dict(history.policies[name], strict=False)  # constants of a policy are not in it
            episode = played(setup, policy)
            motion = episode.trajectory
            shots[k] = _Shot(episode, screen.film(motion), screen.instants(motion))
        shot = shots[k]
        reach = reach or Reach.of(goal, shot.episode)
        away[name] = reach.away(goal, shot.episode)
        write_film(out / f"{name}.webm", shot.film, screen.fps)
        text = f"{name.capitalize()}: iteration {k}, {reach.words(away[name])}."
        films.append({"file": f"{name}.webm", "text": text, "iteration": k})
        stills.append((shot.instants, f"{name}: iteration {k}"))
    policy.load_state_dict(history.policies["best"], strict=False)
    stills.append((screen.enlarged(screen.goals[-1]), "goal"))
    _write_sheet(out / STILLS, *zip(*stills, strict=True), columns=2 if screen.is_wide else len(stills))
    assert reach is not None  # the history has at least one iteration
    return Shown(films, reach, away, shots[history.best].episode)


def _write_sheet(path: Path, pictures: tuple[np.ndarray, ...], labels: tuple[str, ...], columns: int) -> None:
    from PIL import Image

    with atomic_path(path) as draft:
        Image.fromarray(sheet(pictures, columns, labels)).save(draft)
