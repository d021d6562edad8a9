"""What the best policy of a run sets, kept beside it: controls.npz, by the names that a rollout takes."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gradsim.runtime.atomic import atomic_write

if TYPE_CHECKING:
    from gradsim.control.plant import Episode, Plant

CONTROLS = "controls.npz"


def write_controls(folder: Path, plant: "Plant", episode: "Episode") -> None:
    """Write what an episode's actions mean: (frames - 1, elements) each over time, or a value at the start."""
    values = plant.values(episode.actions[:1].detach(), plant.frames)
    with atomic_write(folder / CONTROLS) as file:
        np.savez(file, **{name: x[0].numpy() for name, x in values.items()})  # pyright: ignore[reportArgumentType]


def controls(folder: Path) -> dict[str, Tensor]:
    """What `Model.rollout` is to be given, one world; empty where the folder is no run of a controller."""
    path = folder / CONTROLS
    if not path.is_file():
        return {}
    with np.load(path) as content:
        return {name: torch.from_numpy(content[name])[None] for name in content.files}
