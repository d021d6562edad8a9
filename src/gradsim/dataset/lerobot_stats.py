"""Least, largest, mean and spread of the numbers of a LeRobot data set: of each episode, and of all."""

import numpy as np


class Stats:
    """Sums over all that was added, by feature."""

    def __init__(self):
        self._sums: dict[str, list[np.ndarray]] = {}

    def add(self, name: str, values: np.ndarray, count: int | None = None) -> dict[str, list]:
        """Take in rows of a feature.

        Args:
            name: Of the feature.
            values: (rows, numbers); of pictures, (pixels, 3), which are told as (3, 1, 1).
            count: Of frames; None: as many as rows.

        Returns:
            What of these rows alone is in `meta/episodes`.
        """
        x = values.astype(np.float64)
        pictures = count is not None
        own = [x.min(0), x.max(0), x.sum(0), (x * x).sum(0), np.array(len(x)), np.array(count or len(x))]
        if name in self._sums:
            low, high, *sums = self._sums[name]
            sums = [a + b for a, b in zip(sums, own[2:], strict=True)]
            self._sums[name] = [np.minimum(low, own[0]), np.maximum(high, own[1]), *sums]
        else:
            self._sums[name] = own
        return _told(own, pictures)

    def summary(self) -> dict[str, dict[str, list]]:
        """What of all rows is in `meta/stats.json`."""
        return {name: _told(sums, sums[4] != sums[5]) for name, sums in self._sums.items()}


def _told(sums: list[np.ndarray], pictures: bool) -> dict[str, list]:
    low, high, total, squares, rows, count = sums
    mean = total / rows
    std = np.sqrt(np.maximum(squares / rows - mean * mean, 0))
    told = {"min": low, "max": high, "mean": mean, "std": std}
    return {key: (v[:, None, None] if pictures else v).tolist() for key, v in told.items()} | {"count": [int(count)]}
