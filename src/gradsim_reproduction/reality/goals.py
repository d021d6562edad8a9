"""Goals that all rows of the league share."""

from gradsim.app.figures import figure

COVERED = (0.93, 0.97)  # of coordinates inside of bands of 95 %
HALVES = (0.6, 1.5)  # χ² per degree of freedom of the difference of two fits


def coverage_figure(share: float) -> dict:
    """Figure of the share of coordinates inside of bands."""
    return figure(share, goal=COVERED[0], ok=COVERED[0] <= share <= COVERED[1])


def halves_figure(chi2: float) -> dict:
    """Figure of χ² per degree of freedom of the difference of fits to disjoint halves of the recordings."""
    return figure(chi2, goal=HALVES[1], ok=HALVES[0] <= chi2 <= HALVES[1])
