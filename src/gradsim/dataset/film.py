"""What a sample's camera sees: colours in the light, exact masks, and the motion behind them.

Pictures are drawn at 256 × 256 pixels, and smaller ones are means of theirs: those of 64 × 64 average 16 samples a
pixel, whatever other sizes are made. Masks are exact coverages (`render.coverage`), of which such means are exact too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from gradsim.dataset.sample import Sample
from gradsim.dataset.windows import SAMPLED, Windows
from gradsim.errors import InputError
from gradsim.identification.api import model_for, placed
from gradsim.identification.unknowns import Space
from gradsim.scene import Scene, Visible

SIZES = (32, 64, 128, 256)  # [px] of pictures
GROUND = Visible(size=60.0, colour=(0.6, 0.55, 0.45))


@dataclass(frozen=True, eq=False)
class Film:
    """One video of the data set.

    Attributes:
        frames: By size, (frames, size, size, 3) uint8: RGB, row 0 on top.
        masks: By size, (frames, size, size) uint8: 255 where bodies cover the whole pixel, whatever is before them.
        states: By "body.quantity", (frames, ...) float64, see `Trajectory`.
    """

    frames: dict[int, np.ndarray]
    masks: dict[int, np.ndarray]
    states: dict[str, np.ndarray]


def filmed(scene: Scene, size: int | None = None) -> Scene:
    """The scene as it is filmed: in the light, on a ground that is seen.

    Args:
        scene: Of a sample; its camera has `look_at` with `fov`, which goes with any size.
        size: Width and height of its camera's image [px]; None keeps them.
    """
    grounds = {name: g if g.visible else g.model_copy(update={"visible": GROUND}) for name, g in scene.grounds.items()}
    camera = scene.view() if size is None else scene.view().model_copy(update={"size": (size, size)})
    return scene.model_copy(update={"grounds": grounds, "shading": "lambert", "camera": camera})


def check_sizes(sizes: Sequence[int]) -> None:
    """Refuse sizes of pictures that are not made.

    Raises:
        InputError: On another one than `SIZES`, the same twice, or none.
    """
    wrong = next((size for size in sizes if size not in SIZES), None)
    if wrong is not None or not sizes or len(set(sizes)) < len(sizes):
        known = ", ".join(map(str, SIZES))
        raise InputError(f"sizes: got {', '.join(map(str, sizes)) or 'none'}; expected some of {known}, each once.")


def film(sample: Sample, sizes: Sequence[int]) -> Film:
    """Simulate and draw a sample, in the model that a fit of its unknowns uses.

    Args:
        sample: What to film.
        sizes: Of the pictures, among `SIZES` [px].
    """
    scene = filmed(sample.scene, SAMPLED)
    with torch.no_grad():
        trajectory = model_for(scene, Space(scene, sample.unknowns)).rollout(placed(scene, sample.truth))
        windows = Windows.around(scene, trajectory.surface)
        colours, still = windows.pictures(scene, trajectory)
        masks, nothing = windows.masks(trajectory.surface), torch.zeros(1, SAMPLED, SAMPLED)
    states = {f"{body}.{key}": y[0].numpy() for body, own in trajectory.states.items() for key, y in own.items()}
    return Film(
        {size: windows.paste(colours, still, size) for size in sizes},
        {size: windows.paste(masks, nothing, size)[..., 0] for size in sizes},
        states,
    )
