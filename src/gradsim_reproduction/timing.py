"""Least times of cases that take turns, on a machine that others use too."""

import gc
import time
from collections.abc import Callable, Mapping

Case = Callable[[], object]
REPEATS = 7


def best(
    cases: Mapping[str, Case | None],
    repeats: int = REPEATS,
    clock: Callable[[], float] = time.process_time,
    collects: bool = True,
) -> dict[str, float]:
    """Least time of each [s], CPU time by default; they take turns, after a run of each that is not counted.

    The garbage collector runs in between: what one case leaves behind is not counted to another. It reads all objects of the process, so that code and
    numbers of a case are in no cache of the CPU when its turn begins; `collects=False` is as in a loop of the case, where they are.
    """
    times = {name: float("inf") for name, case in cases.items() if case}
    for turn in range(repeats + 1):
        for name, case in cases.items():
            if case:
                if collects:
                    gc.collect()
                gc.disable()
                begin = clock()
                case()
                spent = clock() - begin
                gc.enable()
                if turn:
                    times[name] = min(times[name], spent)
    return times
