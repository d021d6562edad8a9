"""What the walker's runs are said to show."""

import math

from gradsim.control.training.history import History, Iteration
from gradsim_reproduction.control.walker import figures


def run(distances: list[float], losses: list[float], way: float = 2.0) -> History:
    entries = [Iteration(loss, 1.0, 0.1, 1, 100, distance) for loss, distance in zip(losses, distances, strict=True)]
    return History(entries, names={"goal": 1, "policy": 0, "way": way})


def test_iterations_are_steps_until_the_distance_is_a_twentieth_of_the_way():
    runs = [
        run([2.0, 0.5, 0.09, 0.2], [4.0, 2.0, 1.0, 0.5]),
        run([2.0, 0.09, 0.5, 0.08], [4.0, 2.0, 1.0, 0.5]),
        run([4.0, 0.5, 0.21, 0.19], [4.0, 2.0, 1.0, 0.5], way=4.0),
    ]
    found = {name: figure["value"] for name, figure in figures(runs).items()}
    assert found["walker_iterations"] == 2 and found["walker_iterations_worst"] == 3
    assert found["walker_rollouts"] == 3 and found["walker_reached_share"] == 1
    assert abs(found["walker_share_at_least_loss"] - 0.0475) < 1e-12  # of 0.1, 0.04 and 0.0475


def test_a_run_that_never_gets_there_counts_as_infinitely_long():
    found = figures([run([2.0, 1.0], [2.0, 1.0])] * 2 + [run([2.0, 0.05], [2.0, 1.0])])
    assert found["walker_iterations"]["value"] == math.inf and not found["walker_iterations"]["ok"]
    assert found["walker_reached_share"]["value"] == 1 / 3 and not found["walker_reached_share"]["ok"]
