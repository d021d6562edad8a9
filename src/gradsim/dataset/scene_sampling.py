"""Sampling of scenes: what a sample is, and independent streams of random numbers for what a fit knows and what it does not."""

from dataclasses import dataclass

import numpy as np

from gradsim.scene import Scene

SCENE, TRUTH = 0, 1  # streams: known to a fit, and unknown


@dataclass(frozen=True)
class SampleScene:
    """A sampled scene without its true parameters.

    Attributes:
        object: Name of the object or shape.
        scene: Scene known to a fit; unknowns have the middle of their ranges.
        unknowns: Unknown parameters, as NAME:LOW:HIGH.
    """

    object: str
    scene: Scene
    unknowns: tuple[str, ...]


def random_stream(stream: int, seed: int, kind: int, number: int) -> np.random.Generator:
    """Independent random generator for `SCENE` or `TRUTH` of a sample."""
    return np.random.default_rng([seed, kind, number, stream])
