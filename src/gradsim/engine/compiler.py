"""Compiler flags for arithmetic on SIMD registers, which Warp's CPU compiler leaves out.

It works on a register of 64 bytes in two halves, fuses no product with a sum, keeps every `0 + x`, because that turns −0
into 0, and puts registers that it has to store across the lines of the cache. Sources that are all arithmetic on packs run
up to a third faster without this (`benchmarks/run.py solid`). Sums round differently then, so not for a source where two ways to write a sum have to agree, as at an edge of two
triangles.
"""

from types import ModuleType

import numpy as np
import warp as wp

from gradsim.engine.lanes import Lane, set_options

FUSED_FLAGS = "-ffp-contract=fast -fno-signed-zeros"
WIDE_FLAGS = "-mprefer-vector-width=512 -mstackrealign"


def compiled_for_packs(module: ModuleType, lane: Lane) -> ModuleType:
    """Set the flags of a specialized template (see `engine.lanes`) for arithmetic on registers; returns it."""
    configured = wp.config.cpu_compiler_flags
    flags = ["-march=native" if configured is None else configured, FUSED_FLAGS]
    if lane.width * np.dtype(lane.dtype).itemsize == 64:
        flags.append(WIDE_FLAGS)
    set_options(module, cpu_compiler_flags=" ".join(flags))
    return module
