"""Connected regions of masks, and those that stay from frame to frame: what appears for one frame alone is not a body.

Regions of neighbouring frames are paired, the nearest first, each with one at most. The gap between their boxes is at most
`MAX_SHIFT_DIAMETERS` diameters of the larger one.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

EIGHT_CONNECTED = np.ones((3, 3), bool)  # neighbors of a pixel: those that touch at a corner, too
MAX_SHIFT_DIAMETERS = 3.0  # diameters that a body may move in a frame


@dataclass(frozen=True)
class Region:
    """A connected region of one frame.

    Attributes:
        label: In the image of labels.
        area: [px].
        box: Rows and columns (4,): first and last + 1 of rows, then of columns.
    """

    label: int
    area: int
    box: np.ndarray

    def gap(self, other: "Region") -> float:
        """Distance between two boxes [px]."""
        a, b = self.box, other.box
        apart = [max(0, a[k] - b[k + 1], b[k] - a[k + 1]) for k in (0, 2)]
        return float(np.hypot(apart[0], apart[1]))

    @property
    def diameter(self) -> float:
        """Diameter of the circle of equal area [px]."""
        return 2 * (self.area / np.pi) ** 0.5


def connected_regions(body: np.ndarray, structure: np.ndarray | None = EIGHT_CONNECTED) -> tuple[np.ndarray, int]:
    """Labels (height, width), from 1, of the connected regions of a mask, and their number.

    Args:
        body: (height, width) bool.
        structure: Neighbors (3, 3) that are connected; None: without those that touch at a corner.
    """
    from scipy import ndimage

    labelled = ndimage.label(body, structure)
    assert isinstance(labelled, tuple)  # SciPy returns the number alone where it is handed an array for the labels
    return labelled


def label_regions(body: np.ndarray) -> tuple[np.ndarray, list[Region]]:
    """Labels (height, width) of the connected regions of a mask, and the regions, the largest first."""
    from scipy import ndimage

    labels, count = connected_regions(body)
    areas = np.bincount(labels.ravel(), minlength=count + 1)[1:]
    regions = [
        Region(k + 1, int(area), np.array([rows.start, rows.stop, columns.start, columns.stop]))
        for k, (area, (rows, columns)) in enumerate(zip(areas, ndimage.find_objects(labels), strict=True))
    ]
    return labels, sorted(regions, key=lambda r: -r.area)


def box_of(region: np.ndarray, margin: int = 1) -> tuple[slice, slice]:
    """Rows and columns of a region (height, width), and a margin."""
    sides = []
    for axis in (1, 0):
        (at,) = np.nonzero(region.any(axis))
        sides.append(slice(max(0, at[0] - margin), at[-1] + 1 + margin))
    return sides[0], sides[1]


def grown(bodies: np.ndarray) -> np.ndarray:
    """Bodies (…, height, width) dilated by one pixel, which the edge may cover in part."""
    tall = bodies.copy()
    tall[..., 1:, :] |= bodies[..., :-1, :]
    tall[..., :-1, :] |= bodies[..., 1:, :]
    near = tall.copy()
    near[..., 1:] |= tall[..., :-1]
    near[..., :-1] |= tall[..., 1:]
    return near


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
