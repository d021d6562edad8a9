"""What a kind of the data set draws, and the streams of random numbers that it draws from."""

from dataclasses import dataclass

import numpy as np

from gradsim.scene import Scene

SCENE, TRUTH = 0, 1  # streams: what a fit may know, and what it may not


@dataclass(frozen=True)
class Drawn:
    """A scene before its truth is drawn.

    Attributes:
        object: Name of the object or shape.
        scene: All that a fit may know; unknowns hold the middle of their ranges.
        unknowns: What it may not, as NAME:LOW:HIGH.
    """

    object: str
    scene: Scene
    unknowns: tuple[str, ...]


def stream(which: int, seed: int, kind: int, number: int) -> np.random.Generator:
    """Random numbers for `SCENE` or `TRUTH` of one sample, independent of all others."""
    return np.random.default_rng([seed, kind, number, which])
