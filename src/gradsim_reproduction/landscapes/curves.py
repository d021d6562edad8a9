"""Analysis of a loss curve over one parameter: minima, their depth, and the basin of the lowest."""

from dataclasses import asdict, dataclass

import numpy as np

from gradsim.identification.landscape import valleys

ROUNDING = 1e-9  # of the largest loss: shallower minima are ignored
DEEP = 0.01  # of the largest loss
DIGITS = 6  # of the losses that are kept


@dataclass(frozen=True)
class Minimum:
    """A local minimum of a curve on a grid.

    Args:
        place: The parameter there; of equal neighbours the first.
        loss: Over the largest of the curve.
        barrier: How far a walk from here has to climb until it may go below this minimum, over the largest loss; for
            the lowest, to the top of the curve.
        end: Whether it is an end of the range, where a bounded descent stops.
    """

    place: float
    loss: float
    barrier: float
    end: bool


def minima(values: np.ndarray, loss: np.ndarray) -> list[Minimum]:
    """The local minima of a loss (n,) at increasing parameters (n,), in their order."""
    distinct = np.r_[True, np.diff(loss) != 0]  # a flat stretch is one point
    place, height = values[distinct], loss[distinct] / max(loss.max(), np.finfo(float).tiny)
    walled = np.r_[np.inf, height, np.inf]
    result = []
    for k in np.flatnonzero((walled[1:-1] < walled[:-2]) & (walled[1:-1] < walled[2:])):
        barrier = min(_climb(height[k::-1]), _climb(height[k:]), float(height.max() - height[k]))
        if barrier > ROUNDING:
            result.append(Minimum(float(place[k]), float(height[k]), barrier, bool(k in (0, len(place) - 1))))
    return result


def _climb(height: np.ndarray) -> float:
    """From the first point up to the highest before lower ground; infinite where there is none."""
    lower = np.flatnonzero(height < height[0])
    return float(height[: lower[0]].max() - height[0]) if len(lower) else np.inf


def basin(values: np.ndarray, loss: np.ndarray) -> tuple[float, float]:
    """Between which parameters it goes downhill all the way to the lowest point."""
    k = int(loss.argmin())
    down, up = (int(np.logical_and.accumulate(step > 0).sum()) for step in (np.diff(loss[k::-1]), np.diff(loss[k:])))
    return float(values[k - down]), float(values[k + up])


def curvature(values: np.ndarray, loss: np.ndarray) -> float:
    """Second derivative at the lowest point, from its neighbours on an even grid."""
    k = int(np.clip(loss.argmin(), 1, len(loss) - 2))
    return float((loss[k - 1] - 2 * loss[k] + loss[k + 1]) / (values[1] - values[0]) ** 2)


def curve_statistics(values: np.ndarray, loss: np.ndarray) -> dict:
    """All of it, as a ledger keeps it: "minima" (each a `Minimum`), "inner" and "deep" (how many of them lie within the
    range, and behind a barrier of at least 1 %), "lowest", "basin", "share" (of the points that lead downhill to the
    lowest), "flat" (of the steps of the grid that change nothing), "curvature"."""
    points = minima(values, loss)
    return {
        "minima": [asdict(one) for one in points],
        "inner": sum(not one.end for one in points),
        "deep": sum(one.barrier >= DEEP for one in points),
        "lowest": float(values[loss.argmin()]),
        "basin": basin(values, loss),
        "share": valleys(loss)[1],
        "flat": float((np.abs(np.diff(loss)) <= ROUNDING * loss.max()).mean()),
        "curvature": curvature(values, loss),
    }


def rounded(loss: np.ndarray) -> list:
    """As a ledger keeps it."""
    return np.vectorize(lambda x: float(f"{x:.{DIGITS}g}"), otypes=[float])(loss).tolist()


def curve_record(values: np.ndarray, loss: np.ndarray) -> dict:
    """A curve as a ledger keeps it: its `curve_statistics`, and "loss"."""
    return curve_statistics(values, loss) | {"loss": rounded(loss)}
