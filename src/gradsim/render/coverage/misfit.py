"""Least-squares sums over pictures that are compared one by one (`misfit_kernels.py`)."""

import math
import mmap
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import Lane, members, specialize
from gradsim.engine.launch import array, field, replay, struct_of, worthwhile_threads
from gradsim.engine.rows import row_functions
from gradsim.render.coverage.coverage import coverage_code, outline_code, outline_scratch
from gradsim.render.coverage.edges import functions, mesh_of
from gradsim.render.coverage.targets import BLOCK, Target, goal_code, goal_of

if TYPE_CHECKING:
    from gradsim.render.coverage import canvas_kernels, misfit_kernels
else:
    canvas_kernels = "gradsim.render.coverage.canvas_kernels"
    misfit_kernels = "gradsim.render.coverage.misfit_kernels"

LANES = 4  # a divisor of BLOCK; a steep edge touches 2 or 3 pixels of a row
MOST_KEPT = 4  # sizes of pages
NUMBER_BYTES, LARGE_PAGES = 8, 2**22  # of a number; from which on pages are the system's own
GPU_WORKERS = 1024
GPU_NUMBERS = 2**29  # of their pages

EDGES = ("Edge", "cell", "face_camera", "in_column", "in_row", "outline_edge", "silhouette")
DRAWING = ("MAX_ROW_GAP", "ROUNDING", "Box", "as_coverage", "at_fraction", "bounds", "is_seen")
OUTLINES = ("Bins", "Outline", "arrange", "empty_band", "is_outer", "next_cut", "touched", "widen_band")
GOALS = ("BLOCK", "Goal", "Pair", "influence", "one_by_one", "other_rows", "rho", "target_of")
CANVAS = ("Canvas", "Pixel", "cell_of", "draw_outline", "on_grid", "LINE", "ROW")
CANVAS_ENTRIES = (
    "LEFT_EDGE",
    "LEFT_BEGIN",
    "LEFT_END",
    "RIGHT_EDGE",
    "RIGHT_BEGIN",
    "RIGHT_END",
    "X",
    "Y",
    "SLOPE",
    "STEEPNESS",
    "INVERSE",
)


class _Kept(threading.local):
    """Pages of the last launches of this thread on a CPU, by their size."""

    def __init__(self):
        self.pages: dict[tuple, tuple[Any, Any]] = {}


_kept = _Kept()


def misfit(screen: Tensor, tangent: Tensor, faces: Tensor, observed: Target, convex: bool, frames: int) -> list[Tensor]:
    """Cost (bodies,), half of its gradient (bodies, unknowns) and the lower triangle of the matrix, of pictures that are compared one by one."""
    device, (height, width), unknowns = screen.device, observed.size, tangent.shape[1]
    bodies, on_cpu = len(screen) * frames, device.type == "cpu"
    code = _misfit_code(Lane("float64", LANES if on_cpu else 1))
    workers = (
        worthwhile_threads(code.misfit, bodies, str(device)) if on_cpu else _pages(bodies, height, width, unknowns)
    )
    size = workers, height, width, len(faces), unknowns, convex
    pages = _kept.pages if on_cpu else {}
    if (code, *size) not in pages:
        if len(pages) == MOST_KEPT:
            pages.clear()
        pages[(code, *size)] = _pages_of(code, screen, faces, *size)
    outline, canvas = pages[(code, *size)]
    out = [screen.new_zeros(bodies, *tail) for tail in ((), (unknowns,), (unknowns, unknowns))]
    front = torch.empty(bodies, len(faces), dtype=torch.bool, device=device)
    points = array(code.Pixel, screen.detach().flatten(0, 1)), array(code.Pixel, tangent.detach().to(screen.dtype))
    drawing = [*points, *mesh_of(faces), convex, goal_of(observed, screen), height, width, frames, workers]
    scratch = [array(wp.bool, front), outline, canvas]
    replay(code.misfit, workers, [*drawing, *scratch, *(array(wp.float64, x) for x in out)], str(device))
    return out


def _pages(bodies: int, height: int, width: int, unknowns: int) -> int:
    """Bodies that a GPU draws at a time."""
    return max(1, min(bodies, GPU_WORKERS, GPU_NUMBERS // (height * width * (4 + unknowns))))


def _pages_of(
    code, screen: Tensor, faces: Tensor, workers: int, height: int, width: int, count: int, unknowns: int, convex: bool
) -> tuple[Any, Any]:
    """Outlines and canvases of workers, zero."""
    cells, edges, unknowns = height * (width + 2 + 2 * BLOCK), max(1, 3 * count), max(1, unknowns)
    sizes = dict.fromkeys(("difference", "owner", "upper", "lower"), (cells,))
    sizes |= {"moments": (edges * code.MOMENTS * code.WIDTH,), "lean": (edges, 2 * unknowns)}
    sizes |= {"shared": (cells, unknowns), "lines": (edges, code.LINE)}
    fields = {name: field(wp.float64, zero_pages(screen, workers, *size)) for name, size in sizes.items()}
    for name, size in {"rows": (height + 1, code.ROW), "count": ()}.items():
        fields[name] = field(wp.int32, torch.zeros(workers, *size, dtype=torch.int32, device=screen.device))
    return outline_scratch(screen, faces, workers, convex, height), struct_of(code.Canvas, fields)


def zero_pages(like: Tensor, *shape: int) -> Tensor:
    """Zeros with the dtype and device of a tensor; on a CPU of pages that cost nothing until they are drawn on."""
    if like.device.type == "cpu" and like.dtype == torch.float64:
        size = NUMBER_BYTES * math.prod(shape)
        if size < LARGE_PAGES:
            return torch.from_numpy(np.zeros(shape))
        # freed memory that is used again (`runtime.allocator`) would have to be cleared
        return torch.from_numpy(np.frombuffer(mmap.mmap(-1, size)).reshape(shape))
    return like.new_zeros(*shape)


@cache
def _misfit_code(lane: Lane):
    dtype = torch.float64
    bound = functions(dtype, *EDGES) | members(coverage_code(dtype), *DRAWING) | row_functions(lane)
    bound |= members(outline_code(dtype), *OUTLINES) | members(goal_code(dtype), *GOALS)
    canvas = specialize(canvas_kernels, lane, **bound)
    return specialize(misfit_kernels, lane, **bound, **members(canvas, *CANVAS, *CANVAS_ENTRIES))
