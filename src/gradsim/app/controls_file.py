"""controls.npz: controls of a run's best policy, as `Model.rollout` takes them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gradsim.runtime.atomic import atomic_write
from gradsim.scene.parameters import parameters
from gradsim.scene.scene import Scene

if TYPE_CHECKING:
    from gradsim.control.plant import Episode, Plant

CONTROLS = "controls.npz"


def write_controls(folder: Path, plant: "Plant", episode: "Episode") -> None:
    """Write the controls of an episode: (frames - 1, elements) over time, or one value at the start."""
    values = plant.values(episode.actions[:1].detach(), plant.frames)
    with atomic_write(folder / CONTROLS) as file:
        np.savez(file, **{name: x[0].numpy() for name, x in values.items()})  # pyright: ignore[reportArgumentType]


def read_controls(folder: Path) -> dict[str, Tensor]:
    """Controls of one world by name, (1, ...); empty for a run of another command."""
    path = folder / CONTROLS
    if not path.is_file():
        return {}
    with np.load(path) as content:
        return {name: torch.from_numpy(content[name])[None] for name in content.files}


def constant_controls(folder: Path, scene: Scene) -> dict[str, list[float] | float]:
    """Controls that are one value at the start, such as a launch velocity, by name."""
    known = parameters(scene)
    values = {name: value[0].numpy() for name, value in read_controls(folder).items()}
    return {name: value.tolist() for name, value in values.items() if value.shape == known[name].value.shape}


def answer_words(scene: Scene, constant: Mapping[str, list[float] | float]) -> str:
    """A sentence with the controls that are one value, with their units; "" if there are none."""
    known, parts = parameters(scene), []
    for name, value in constant.items():
        numbers = ", ".join(f"{x:.4g}" for x in np.ravel(value))
        parts.append(f"{name} = {f'({numbers})' if np.ndim(value) else numbers} {known[name].unit}".strip())
    return f"Found: {'; '.join(parts)}." if parts else ""
