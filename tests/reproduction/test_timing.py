"""Least times, by a clock that is known."""

from gradsim_reproduction.timing import best


def test_the_first_run_does_not_count_and_the_least_of_the_others_does():
    now, costs = [0.0], iter((9.0, 3.0, 2.0, 4.0))

    def work():
        now[0] += next(costs)

    assert best({"work": work, "none": None}, 3, lambda: now[0]) == {"work": 2.0}


def test_cases_take_turns():
    order = []
    best({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    assert order == ["a", "b"] * 3
