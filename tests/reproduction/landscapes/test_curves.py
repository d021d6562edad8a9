"""Minima, basins and curvature of curves that are known in closed form."""

import numpy as np
import pytest

from gradsim_reproduction.landscapes.curves import basin, curvature, curve_record, curve_statistics, minima


def two_wells(x: np.ndarray) -> np.ndarray:
    """Minima at 1 (0) and 4 (0.5), a top of 1 between them at 2.5, and an end at 6 that is lower than what is before it."""
    return np.interp(x, [0, 1, 2.5, 4, 5, 6], [2, 0, 1, 0.5, 0.75, 0.25])


def test_every_minimum_is_found_with_its_depth_and_barrier():
    x = np.linspace(0, 6, 601)
    found = minima(x, two_wells(x))
    assert [one.place for one in found] == pytest.approx([1, 4, 6])
    assert [one.loss for one in found] == pytest.approx([0, 0.25, 0.125])  # over the largest, 2
    # from 1 to the top of the curve; from 4 over 5 to below 0.5; from 6 over 2.5 to below 0.25
    assert [one.barrier for one in found] == pytest.approx([1, 0.125, 0.375])
    assert [one.end for one in found] == [False, False, True]


def test_a_flat_stretch_is_no_minimum_unless_it_lies_lower_than_what_surrounds_it():
    x = np.arange(7.0)
    assert [one.place for one in minima(x, np.array([4.0, 3, 3, 2, 1, 2, 2]))] == [4]
    assert [one.place for one in minima(x, np.array([4.0, 1, 1, 2, 0, 2, 3]))] == [1, 4]


def test_rounding_makes_no_minima():
    x = np.linspace(-1, 1, 201)
    rough = x**2 + 1e-13 * np.random.default_rng(0).standard_normal(201)
    assert len(minima(x, rough)) == 1


def test_the_basin_ends_where_it_no_longer_goes_down_to_the_lowest_point():
    x = np.linspace(0, 6, 601)
    assert basin(x, two_wells(x)) == pytest.approx((0, 2.5))
    assert curve_statistics(x, two_wells(x))["share"] == pytest.approx(2.5 / 6, abs=1 / 600)


def test_the_curvature_of_a_parabola_is_exact():
    x = np.linspace(0, 2, 21)
    assert curvature(x, 3.5 * (x - 1) ** 2) == pytest.approx(7, rel=1e-10)


def test_a_curve_is_kept_with_its_shape_and_with_what_does_not_change():
    x = np.linspace(0, 1, 11)
    loss = np.maximum(0.3, (x - 1) ** 2)  # flat from 0.5 on, but for the grid point before
    told = curve_record(x, loss)
    assert told["flat"] == pytest.approx(0.5) and told["loss"] == pytest.approx(loss.tolist(), rel=1e-5)
