"""Samples of the data set: `sample(kind, number, seed)` draws one, identical on every machine, without simulation.

The scene and its true parameters come from different random streams, so a scene reveals nothing of its truth. To add a
kind, write a function from a random generator and a number to a `SampleScene` in its own file, and add it to `SAMPLERS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsim.dataset.rigid import rigid
from gradsim.dataset.scene_sampling import SCENE, TRUTH, SampleScene, random_stream
from gradsim.dataset.soft import cloth, deformable
from gradsim.errors import InputError
from gradsim.identification.unknowns import Unknown
from gradsim.scene import Scene, resolve
from gradsim.scene.node import Node

OWNERS = ("bodies", "grounds", "obstacles")  # sections of a scene whose keys begin parameter names


def with_parameters(scene: Scene, numbers: Mapping[str, float]) -> Scene:
    """Copy a scene with other values of parameters, of components ("body.velocity.x") or of tied parameters.

    Args:
        scene: The scene.
        numbers: Values by name, within the ranges of the parameters [SI units].

    Raises:
        InputError: If the scene has no such parameter.
    """
    for tied, number in numbers.items():
        for dotted in Unknown(tied).names:
            name, component = resolve(scene, dotted)
            path = name.split(".")
            owner = [key for key in OWNERS if path[0] in getattr(scene, key)]
            scene = _put(scene, [*owner[:1], *path, *([] if component is None else [component])], number)
    return scene


def _put(node: Any, path: list, number: float) -> Any:
    """Copy a node, mapping or tuple with the number at the end of the path."""
    if not path:
        return number
    key, *rest = path
    if isinstance(node, Node):
        return node.model_copy(update={key: _put(getattr(node, key), rest, number)})
    if isinstance(node, Mapping):
        return {**node, key: _put(node[key], rest, number)}
    key = int(key)
    return (*node[:key], _put(node[key], rest, number), *node[key + 1 :])


KINDS = ("rigid", "deformable", "cloth")
SAMPLERS: dict[str, Callable[[np.random.Generator, int], SampleScene]] = {
    "rigid": rigid,
    "deformable": deformable,
    "cloth": cloth,
}
TEST_EVERY = 5  # the last of five is for testing: 200 of the first 1000, as in the paper (Section 4.1)


@dataclass(frozen=True)
class Sample:
    """A video of the data set before simulation.

    Attributes:
        kind: One of `KINDS`.
        number: Number of the sample, from 0.
        seed: Seed of the data set.
        object: Name of the object or shape.
        scene: Scene known to a fit; unknowns have the middle of their ranges.
        unknowns: Unknown parameters, as NAME:LOW:HIGH.
        truth: True values of the unknowns by name, uniform over their ranges [SI units].
    """

    kind: str
    number: int
    seed: int
    object: str
    scene: Scene
    unknowns: tuple[str, ...]
    truth: dict[str, float]

    @property
    def split(self) -> str:
        """Split of the sample: "train" or "test"."""
        return "test" if self.number % TEST_EVERY == TEST_EVERY - 1 else "train"

    def true_scene(self) -> Scene:
        """Scene with the true parameters, which is rendered."""
        return with_parameters(self.scene, self.truth)


def sample(kind: str, number: int, seed: int = 0) -> Sample:
    """Draw a sample.

    Args:
        kind: One of `KINDS`.
        number: Number of the sample, from 0; each has its own random streams.
        seed: Seed of the data set.

    Raises:
        InputError: If the kind is unknown, or a number or seed is below 0.
    """
    if kind not in SAMPLERS:
        raise InputError(f"unknown kind {kind!r} of samples; choose one of {', '.join(SAMPLERS)}.")
    for name, value in (("number", number), ("seed", seed)):
        if value < 0:
            raise InputError(f"`{name}` is {value}; expected at least 0.")
    key = seed, KINDS.index(kind), number
    scene = SAMPLERS[kind](random_stream(SCENE, *key), number)
    rng = random_stream(TRUTH, *key)
    truth = {}
    for text in scene.unknowns:
        name, low, high = text.rsplit(":", 2)
        truth[name] = float(rng.uniform(float(low), float(high)))
    return Sample(kind, number, seed, scene.object, scene.scene, scene.unknowns, truth)


def test_numbers(count: int) -> list[int]:
    """First `count` sample numbers of the test split."""
    return [TEST_EVERY * k - 1 for k in range(1, count + 1)]


test_numbers.__test__ = False  # pytest would take it for a test
