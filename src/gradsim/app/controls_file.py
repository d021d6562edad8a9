"""controls.npz: controls of a run's best policy, as `Model.rollout` takes them."""

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
    """Write the controls of an episode: (frames - 1, elements) over time, or one value at the start."""
    values = plant.values(episode.actions[:1].detach(), plant.frames)
    with atomic_write(folder / CONTROLS) as file:
        np.savez(file, **{name: x[0].numpy() for name, x in values.items()})  # pyright: ignore[reportArgumentType]


def read_controls(folder: Path) -> dict[str, Tensor]:
    """Controls of one world by name; empty for a run of another command."""
    path = folder / CONTROLS
    if not path.is_file():
        return {}
    with np.load(path) as content:
        return {name: torch.from_numpy(content[name])[None] for name in content.files}
