"""Least times of cases that take turns, on a machine that others use too."""

import gc
import time
from collections.abc import Callable, Mapping

Case = Callable[[], object]
REPEATS = 7


def best(
    cases: Mapping[str, Case | None], repeats: int = REPEATS, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Least time of each [s], CPU time by default; they take turns, after a run of each that is not counted.

    The garbage collector runs in between, as in `timeit`: what one case leaves behind is not counted to another.
    """
    times = {name: float("inf") for name, case in cases.items() if case}
    for turn in range(repeats + 1):
        for name, case in cases.items():
            if case:
                gc.collect()
                gc.disable()
                begin = clock()
                case()
                spent = clock() - begin
                gc.enable()
                if turn:
                    times[name] = min(times[name], spent)
    return times
