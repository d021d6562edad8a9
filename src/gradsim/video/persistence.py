"""Regions of masks that stay from frame to frame: what appears for one frame alone is not a body.

Regions of neighbouring frames are paired, the nearest first, each with one at most. The gap between their boxes is at most
`MAX_SHIFT_DIAMETERS` diameters of the larger one.
"""

from itertools import pairwise

import numpy as np

from gradsim.video.connected_regions import Region, label_regions

MAX_SHIFT_DIAMETERS = 3.0  # diameters that a body may move in a frame


def remove_flashes(bodies: np.ndarray) -> np.ndarray:
    """Masks (T, height, width) without regions that neither the frame before nor the one after has."""
    if len(bodies) < 2:
        return bodies.copy()
    frames = [label_regions(body) for body in bodies]
    paired: list[set[int]] = [set() for _ in frames]
    for k, ((_, before), (_, after)) in enumerate(pairwise(frames)):
        for first, second in _pairs(before, after):
            paired[k].add(first.label)
            paired[k + 1].add(second.label)
    return np.stack([np.isin(labels, list(stay)) for (labels, _), stay in zip(frames, paired, strict=True)])


def _pairs(before: list[Region], after: list[Region]) -> list[tuple[Region, Region]]:
    reachable = [(a, b) for a in before for b in after if a.gap(b) <= MAX_SHIFT_DIAMETERS * max(a.diameter, b.diameter)]
    # of those that are equally near, mostly since boxes overlap, the most alike
    reachable.sort(key=lambda pair: (pair[0].gap(pair[1]), abs(np.log(pair[0].area / pair[1].area))))
    pairs, first, second = [], set(), set()
    for a, b in reachable:
        if a.label not in first and b.label not in second:
            pairs.append((a, b))
            first.add(a.label)
            second.add(b.label)
    return pairs
