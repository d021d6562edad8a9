"""What `triangle_kernels.py` has for other kernels."""

from functools import cache

import torch

from gradsim.engine.lanes import lane_of, specialise


@cache
def distances(dtype: torch.dtype) -> dict:
    """Functions of the template, by name."""
    code = specialise("gradsim.render.triangle_kernels", lane_of(dtype))
    return {name: getattr(code, name) for name in ("reach", "to_segment", "to_border", "centre")}
