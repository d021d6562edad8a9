"""Numbers drawn for a seed, and dotted places in a task."""

import numpy as np
import pytest
from pydantic import ValidationError

from gradsim.control.task.draws import RandomDraw, set_at
from gradsim.errors import InputError


def draw(**changes) -> RandomDraw:
    return RandomDraw.model_validate({"low": 2, "high": 5, "into": {"goal.place.0": 1}, **changes})


def test_a_seed_always_draws_the_same_and_another_one_another():
    numbers = [draw().values("right", seed)["goal.place.0"] for seed in (0, 1, 0)]
    assert numbers[0] == numbers[2] != numbers[1]


def test_a_new_draw_leaves_the_others():
    assert draw().values("right", 3) != draw().values("left", 3)
    assert draw().values("right", 3) == draw().values("right", 3)


def test_numbers_are_even_over_their_range_without_its_lower_end():
    """1000 numbers over a length of 3: the mean is 3.5 to 4 σ/√n, with σ = 3/√12."""
    numbers = np.array([draw().values("right", seed)["goal.place.0"] for seed in range(1000)])
    assert numbers.min() > 2 and numbers.max() <= 5
    assert abs(numbers.mean() - 3.5) < 4 * 3 / 12**0.5 / 1000**0.5
    assert draw(high=2).values("right", 0) == {"goal.place.0": 2}


def test_whole_numbers_have_both_ends_and_stay_whole():
    several = draw(whole=True, into={"cells": [1, 2], "size": [0.125, 0.25]})
    found = [several.values("n", seed) for seed in range(60)]
    assert {v["cells"][0] for v in found} == {2, 3, 4, 5}
    for values in found:
        n = values["cells"][0]
        assert values == {"cells": [n, 2 * n], "size": [0.125 * n, 0.25 * n]}
        assert all(isinstance(cells, int) for cells in values["cells"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"low": 6}, "got 6, which is above `high`, 5; swap them"),
        ({"whole": True, "low": 2.5}, "got 2.5; a `whole` number needs a whole end"),
        ({"into": {}}, "is empty; give the keys that the number sets"),
        ({"into": {"a": "far"}}, "expected a number"),
        ({"hihg": 6}, "unknown key; did you mean `high`"),
    ],
)
def test_mistakes_of_a_draw_are_told(changes, words):
    with pytest.raises(ValidationError, match=words):
        draw(**changes)


def test_a_value_goes_to_its_place():
    content = {"goal": {"place": [1, 2, 3]}, "search": {}}
    set_at(content, "goal.place.2", 9.0)
    set_at(content, "search.rate", 0.1)
    assert content == {"goal": {"place": [1, 2, 9.0]}, "search": {"rate": 0.1}}


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("gaol.place.0", "unknown key `gaol.place.0`; did you mean `goal`"),
        ("goal.place.3", "`goal.place` has 3 items, counted from 0"),
        ("goal.place.x", "`goal.place` has 3 items"),
        ("goal.place.0.0", "`goal.place.0` is 1, which has no parts"),
        ("xyzzy.a", "; the task has goal"),
    ],
)
def test_a_place_that_is_not_there_is_refused(place, words):
    with pytest.raises(InputError, match=words):
        set_at({"goal": {"place": [1, 2, 3]}}, place, 0)
