"""Draws from the posterior of a fit."""

import numpy as np
import pytest

from gradsim.errors import InputError
from gradsim.identification.uncertainty.draws import draws

COUNT = 20_000
WITHIN = 4 / np.sqrt(COUNT)  # four standard errors of a mean, in standard deviations


def result(covariance, std=(0.5, 0.2), low=(1.0, -5.0), high=(100.0, 5.0), value=(10.0, 1.0)) -> dict:
    """A result of two unknowns, the first with a logarithm."""
    unknowns = {
        name: {"value": v, "std": s, "low": a, "high": b}
        for name, v, s, a, b in zip(("cube.mass", "cube.velocity.x"), value, std, low, high, strict=True)
    }
    return {"unknowns": unknowns, "posterior": {"covariance": covariance, "logarithmic": [True, False]}}


def test_draws_have_the_errors_and_the_correlation_of_the_result():
    covariance = [[0.05**2, 0.8 * 0.05 * 0.2], [0.8 * 0.05 * 0.2, 0.2**2]]
    x = draws(result(covariance), COUNT)
    inner = np.stack([np.log(x["cube.mass"]), x["cube.velocity.x"]])
    assert np.abs((inner.mean(1) - [np.log(10), 1.0]) / [0.05, 0.2]).max() < WITHIN
    assert np.allclose(inner.std(1), [0.05, 0.2], rtol=0.03)  # six standard errors of a standard deviation
    assert np.corrcoef(inner)[0, 1] == pytest.approx(0.8, abs=0.02)


def test_error_bars_of_the_result_count_where_they_are_wider_than_its_covariance():
    x = draws(result([[0.01**2, 0.0], [0.0, 0.02**2]]), COUNT)  # as of `approximate`
    assert x["cube.velocity.x"].std() == pytest.approx(0.2, rel=0.03)


def test_open_direction_is_as_wide_as_the_ranges_and_the_ratio_stays_known():
    wide = [[1e6, 1e6], [1e6, 1e6 + 1e-8]]
    mass = {"value": 10.0, "std": None, "low": 1.0, "high": 100.0}
    content = {
        "unknowns": {"cube.mass": mass, "ground.stiffness": {**mass, "value": 1e4, "low": 1e3, "high": 1e5}},
        "posterior": {"covariance": wide, "logarithmic": [True, True]},
    }
    x = draws(content, COUNT)
    assert all(
        u["low"] <= x[name].min() < 2 * u["low"] and u["high"] / 2 < x[name].max() <= u["high"]
        for name, u in content["unknowns"].items()
    )
    assert np.allclose(x["ground.stiffness"] / x["cube.mass"], 1e3, rtol=0.01)


def test_draws_are_within_the_ranges_and_repeat_with_their_seed():
    content = result([[1.0, 0.0], [0.0, 4.0]], std=(10.0, 2.0), value=(99.0, 4.9))
    x, again, other = draws(content, 500, 3), draws(content, 500, 3), draws(content, 500, 4)
    assert x["cube.mass"].max() <= 100 and x["cube.velocity.x"].max() <= 5
    assert np.array_equal(x["cube.mass"], again["cube.mass"]) and not np.array_equal(x["cube.mass"], other["cube.mass"])


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (result([[1.0, 0.0], [0.0, 1.0]]), 0),
        (result([[1.0, 0.0], [0.0, 1.0]]), 2_000_000),
        (result([[None, 0.0], [0.0, 1.0]]), 5),
        ({"unknowns": {}}, 5),
        ({**result([]), "posterior": {}}, 5),
    ],
)
def test_what_cannot_be_drawn_from_is_refused(content, count):
    with pytest.raises(InputError, match="draws|covariance"):
        draws(content, count)
