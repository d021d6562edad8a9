"""What a search found, to look at: films of its iterations, instants side by side, and how near each came."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from gradsim.app.control_goal import sought
from gradsim.app.control_methods import played
from gradsim.app.control_reach import Reach
from gradsim.app.control_report import STILLS
from gradsim.app.control_result import entries
from gradsim.control.history import History
from gradsim.control.picture_goal import PictureGoal
from gradsim.runtime.atomic import whole
from gradsim.visualization.control_video import Screen, write_film
from gradsim.visualization.sheets import sheet

if TYPE_CHECKING:
    from gradsim.control.plant import Episode
    from gradsim.control.setup import Setup


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

    with whole(path) as draft:
        Image.fromarray(sheet(pictures, columns, labels)).save(draft)
