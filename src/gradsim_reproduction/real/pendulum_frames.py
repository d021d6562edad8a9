"""Which frames of a film a rigid pendulum can explain.

A ball on a string that is let go high up falls freely, jerks the string tight and shakes on it for a while: its
distance from the middle of the circle changes, which that of a rigid pendulum cannot. So the frames are cut into
swings at the turning points, and the last swings count, back to the first one whose distances scatter by more than
`STEADY` times those of the steadiest swing. Nothing but the places of the ball in the picture decides.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

STEADY = 1.5
UNSEEN = 0.5  # [px] scatter that tells nothing: outlines are no better


@dataclass(frozen=True)
class Swings:
    """A film of a pendulum, cut.

    Args:
        released: First frame in which the ball has moved by its radius.
        turns: First frame of each swing, and the last frame of all.
        scatter: Of the distance from the middle, for each swing [px].
        first: First frame that counts.
        circle: Column and row of the middle, and radius [px].
    """

    released: int
    turns: list[int]
    scatter: list[float]
    first: int
    circle: tuple[float, float, float]

    @property
    def rule(self) -> str:
        """The choice in words."""
        swings = ", ".join(f"{a}–{b}: {s:.1f} px" for (a, b), s in zip(pairwise(self.turns), self.scatter, strict=True))
        return (
            f"Released at frame {self.released}. Scatter of the ball's distance from the middle of its circle, swing by "
            f"swing ({swings}). A taut string keeps it; the frames count from {self.first}, where the last swings that "
            f"scatter by less than {STEADY} times the steadiest one begin."
        )


def cut(centres: np.ndarray, radius: float) -> Swings:
    """Cut a film into swings, and choose those that count.

    Args:
        centres: Of the ball in each frame (frames, 2) [px].
        radius: Of the ball [px].
    """
    from scipy.optimize import least_squares

    moved = np.hypot(*(centres - centres[0]).T) > radius
    released = int(moved.argmax()) if moved.any() else 0
    places = centres[released:]
    reach = np.ptp(places, 0).max()
    guess = (*places.mean(0) - (0, reach / 2), reach / 2)
    away = lambda c: np.hypot(places[:, 0] - c[0], places[:, 1] - c[1]) - c[2]
    circle = least_squares(away, guess, loss="soft_l1").x
    angle = np.arctan2(places[:, 0] - circle[0], places[:, 1] - circle[1])
    change = np.diff(angle)
    turns = [0, *(1 + np.flatnonzero(change[1:] * change[:-1] <= 0)).tolist(), len(places) - 1]
    turns = [released + t for t in sorted(set(turns))]
    off = away(circle)
    parts = [off[a - released : b + 1 - released] for a, b in pairwise(turns)]
    scatter = [float(np.sqrt(np.mean(part**2))) for part in parts]
    limit = STEADY * max(min(scatter), UNSEEN)
    count = 0
    while count < len(scatter) and scatter[-1 - count] <= limit:
        count += 1
    return Swings(released, turns, scatter, turns[-1 - max(count, 1)], tuple(circle.tolist()))
