"""Limits of memory and work, compared with what the sizes of an input say before work begins.

    GRADSIM_MEMORY_GB    memory that a run may plan for [GB]; by default 80 % of this machine's
    GRADSIM_MAX_STEPS    time steps (frames × substeps) of one rollout; by default 10⁹, a quarter of an hour of one box

Both are environment variables, so that a library call, a command and its workers read the same.
"""

import math
import os

from gradsim.errors import InputError

SHARE = 0.8  # of the memory of the machine
STEPS = 1e9
MEMORY_VARIABLE, STEPS_VARIABLE = "GRADSIM_MEMORY_GB", "GRADSIM_MAX_STEPS"


def memory_limit() -> float:
    """Memory that a run may plan for [bytes].

    Raises:
        InputError: If the variable is not a positive number.
    """
    if text := os.environ.get(MEMORY_VARIABLE):
        return _positive(MEMORY_VARIABLE, text) * 1e9
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return math.inf
    return SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def require_memory(size: float, what: str, way_out: str) -> None:
    """Refuse work that needs more memory than there is.

    Args:
        size: Memory [bytes], from declared sizes.
        what: What needs it, such as "1000 images of 16384 × 16384 px".
        way_out: What makes it smaller.

    Raises:
        InputError: If it is above `memory_limit`.
    """
    if size > (limit := memory_limit()):
        raise InputError(
            f"{what} need about {size / 1e9:.3g} GB of memory; the limit is {limit / 1e9:.3g} GB. {way_out}, or set "
            f"{MEMORY_VARIABLE} to more."
        )


def require_steps(frames: int, substeps: int) -> None:
    """Refuse a rollout of more time steps than the limit.

    Raises:
        InputError: If frames × substeps is above it.
    """
    text = os.environ.get(STEPS_VARIABLE)
    limit = _positive(STEPS_VARIABLE, text) if text else STEPS
    if frames * substeps > limit:
        raise InputError(
            f"{frames} frames of {substeps} steps are {frames * substeps:.3g} time steps; the limit is {limit:.3g}. Use fewer "
            f"frames or `substeps`, a higher `fps`, or a softer contact or material; or set {STEPS_VARIABLE} to more."
        )


def _positive(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not number > 0:
        raise InputError(f"the environment variable {name} is {text!r}; expected a number above 0.")
    return number
