"""CPU time of cases that take turns, and the memory of tensors."""

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

Case = Callable[[], object]
REPEATS = 7


def best(cases: Mapping[str, Case | None], repeats: int = REPEATS) -> dict[str, float]:
    """Least CPU time of each [s]; they take turns, after a run of each that is not counted.

    The garbage collector runs in between, as in `timeit`: what one case leaves behind is not counted to another.
    """
    times = {name: float("inf") for name, case in cases.items() if case}
    for turn in range(repeats + 1):
        for name, case in cases.items():
            if case:
                gc.collect()
                gc.disable()
                begin = time.process_time()
                case()
                spent = time.process_time() - begin
                gc.enable()
                if turn:
                    times[name] = min(times[name], spent)
    return times


def memory(case: Case) -> float:
    """Most memory that tensors hold at once during a run, beyond what they hold before [MB]."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as found:
        case()
    held = most = 0
    profiler: Any = found.profiler
    for event in sorted(profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most / 1e6
