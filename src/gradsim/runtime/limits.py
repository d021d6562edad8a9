"""Limit of work, compared with what the sizes of an input say before work begins.

    GRADSIM_MAX_STEPS    time steps (frames × substeps) of one rollout; by default 10⁹, a quarter of an hour of one box

An environment variable, so that a library call, a command and its workers read the same.
"""

import math
import os

from gradsim.errors import InputError

MAX_STEPS = 1e9
STEPS_VARIABLE = "GRADSIM_MAX_STEPS"


def require_steps(frames: int, substeps: int) -> None:
    """Refuse a rollout of more time steps than the limit.

    Raises:
        InputError: If frames × substeps is above it.
    """
    limit = max_steps()
    if frames * substeps > limit:
        raise InputError(
            f"{frames} frames of {substeps} steps are {frames * substeps:.3g} time steps; the limit is {limit:.3g}. Use fewer "
            f"frames or `substeps`, a higher `fps`, or a softer contact or material; or set {STEPS_VARIABLE} to more."
        )


def max_steps() -> float:
    """The limit of frames × substeps.

    Raises:
        InputError: If the environment variable is not a number above 0.
    """
    text = os.environ.get(STEPS_VARIABLE)
    return _positive(STEPS_VARIABLE, text) if text else MAX_STEPS


def _positive(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not number > 0:
        raise InputError(f"the environment variable {name} is {text!r}; expected a number above 0.")
    return number
