"""Landscapes: the numbers of a grid are those of the problem, and valleys are counted."""

import numpy as np
import pytest
from fit_cases import THROW_TRUTH, thrown, true_inner
from tolerances import SOLVED, near

from gradsim.identification.landscape import Axis, landscape, valleys


@pytest.fixture(scope="module")
def problem():
    return thrown()


def test_every_point_of_the_grid_has_the_cost_of_the_problem(problem):
    axes = [Axis.along(problem, "cube.velocity.x", 4), Axis.along(problem, "cube.mass", 3)]
    found = landscape(problem, true_inner(problem, THROW_TRUTH)[0], axes)
    assert found.pixels.shape == found.cdf.shape == (4, 3)
    for i, j in ((0, 0), (3, 1), (2, 2)):
        values = {"cube.velocity.x": axes[0].values[i], "cube.mass": axes[1].values[j]}
        u = true_inner(problem, values)
        for grid, residual in ((found.pixels, "pixels"), (found.cdf, "cdf")):
            expected = problem.cost(u, problem.frames, residual).item()  # alone: another width of lanes
            assert grid[i, j] == near(expected, SOLVED)


def test_the_lowest_point_of_float_frames_is_next_to_the_truth(problem):
    axis = Axis.along(problem, "cube.mass", 40)
    told = []
    found = landscape(problem, true_inner(problem, THROW_TRUTH)[0], [axis], lambda *state: told.append(state))
    cell = axis.values[1] - axis.values[0]
    for grid in (found.pixels, found.cdf):
        assert abs(axis.values[grid.argmin()] - THROW_TRUTH["cube.mass"]) <= cell
    assert told[-1] == (40, found.pixels.min())


def test_a_wide_range_of_a_positive_unknown_is_divided_by_its_logarithm(problem):
    assert (
        not Axis.along(problem, "cube.mass", 3).logarithmic
        and not Axis.along(problem, "cube.velocity.x", 3).logarithmic
    )
    problem.space.unknowns[0] = type(problem.space.unknowns[0])("cube.mass", 1e-2, 1e2)
    assert Axis.along(problem, "cube.mass", 3).values == pytest.approx([1e-2, 1, 1e2])
    problem.space.unknowns[0] = type(problem.space.unknowns[0])("cube.mass", 1, 8)


def test_valleys_are_counted_and_the_lowest_has_its_share():
    x = np.linspace(0, 4 * np.pi, 101)
    assert valleys(x**2) == (1, 1.0)
    count, share = valleys(np.cos(x) - 0.01 * x)  # minima at π and 3π; the hill between them at 2π
    assert count == 2 and share == pytest.approx(0.5, abs=0.02)
    assert valleys(np.add.outer((x - 3) ** 2, (x - 4) ** 2)) == (1, 1.0)
    two = np.minimum(*(np.add.outer((x - a) ** 2, (x - b) ** 2) + c for a, b, c in ((3, 3, 0), (9, 9, 1))))
    count, share = valleys(two)
    assert count == 2 and 0.4 < share < 0.6
