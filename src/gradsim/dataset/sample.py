"""Samples of the data set: `sample(kind, number, seed)` draws one, the same on every machine, without simulating it.

What a fit may know and the truth come from different streams of random numbers, so that no scene tells its truth. To add
a kind, write a function from a random generator and a number to a `Drawn` in its own file, and put it into `DRAWS`.

Values of parameters written into a scene.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsim.dataset.ranges import SCENE, TRUTH, Drawn, stream
from gradsim.dataset.rigid import rigid
from gradsim.dataset.soft import cloth, deformable
from gradsim.errors import InputError
from gradsim.identification.unknowns import Unknown
from gradsim.scene import Scene, resolve
from gradsim.scene.node import Node

OWNERS = ("bodies", "grounds", "obstacles")  # whose names begin the names of parameters


def placed(scene: Scene, numbers: Mapping[str, float]) -> Scene:
    """The scene with values of its parameters, of their components ("body.velocity.x") or of several tied.

    Args:
        scene: Stays as it is.
        numbers: By name, within the ranges of the parameters [SI units].

    Raises:
        InputError: On a name that the scene lacks.
    """
    for tied, number in numbers.items():
        for dotted in Unknown(tied).names:
            name, component = resolve(scene, dotted)
            path = name.split(".")
            owner = [key for key in OWNERS if path[0] in getattr(scene, key)]
            scene = _put(scene, [*owner[:1], *path, *([] if component is None else [component])], number)
    return scene


def _put(node: Any, path: list, number: float) -> Any:
    """A copy of a node, mapping or tuple with the number at the end of the path."""
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
DRAWS: dict[str, Callable[[np.random.Generator, int], Drawn]] = {
    "rigid": rigid,
    "deformable": deformable,
    "cloth": cloth,
}
TEST_EVERY = 5  # the last of every five is for testing: 200 of the first 1000, as in the paper (Section 4.1)


@dataclass(frozen=True)
class Sample:
    """One video of the data set before it is simulated.

    Attributes:
        kind: One of `KINDS`.
        number: Which, from 0.
        seed: Of the data set.
        object: Name of the object or shape.
        scene: All that a fit may know; unknowns hold the middle of their ranges.
        unknowns: What it may not, as NAME:LOW:HIGH.
        truth: Values of the unknowns by name, uniform over their ranges [SI units].
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
        """Whether it is for "train" or for "test"."""
        return "test" if self.number % TEST_EVERY == TEST_EVERY - 1 else "train"

    def placed(self) -> Scene:
        """The scene with the truth in it: what is filmed."""
        return placed(self.scene, self.truth)


def sample(kind: str, number: int, seed: int = 0) -> Sample:
    """The `number`-th sample of a kind.

    Args:
        kind: One of `KINDS`.
        number: Which, from 0; each is drawn from its own random numbers.
        seed: Of the data set.

    Raises:
        InputError: If there is no such kind, or a number or seed is below 0.
    """
    if kind not in DRAWS:
        raise InputError(f"there is no kind {kind!r} of samples; there are {', '.join(DRAWS)}.")
    for name, given in (("number", number), ("seed", seed)):
        if given < 0:
            raise InputError(f"`{name}` is {given}; expected at least 0.")
    at = seed, KINDS.index(kind), number
    drawn = DRAWS[kind](stream(SCENE, *at), number)
    rng = stream(TRUTH, *at)
    truth = {}
    for text in drawn.unknowns:
        name, low, high = text.rsplit(":", 2)
        truth[name] = float(rng.uniform(float(low), float(high)))
    return Sample(kind, number, seed, drawn.object, drawn.scene, drawn.unknowns, truth)


def test_numbers(count: int) -> list[int]:
    """The first `count` numbers of samples for testing."""
    return [TEST_EVERY * k - 1 for k in range(1, count + 1)]


test_numbers.__test__ = False  # pytest would take it for a test
