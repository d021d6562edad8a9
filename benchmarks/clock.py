"""CPU time of cases that take turns, and the memory of tensors."""

from typing import Any

import torch

from gradsim_reproduction.timing import REPEATS, Case, best

__all__ = ["REPEATS", "Case", "best", "memory"]


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
