"""Rollouts of soft bodies launch by launch, one vertex or element a thread: how a GPU takes them.

A step is one launch for each group of elements and one for the vertices. The same functions of forces as on a CPU are
called; what several elements add to one vertex meets atomically.
"""

from functools import cache
from typing import TYPE_CHECKING

from gradsim.engine.lanes import Lane, specialize
from gradsim.engine.launch import replay

if TYPE_CHECKING:
    from gradsim.physics.soft import gpu_kernels
else:
    gpu_kernels = "gradsim.physics.soft.gpu_kernels"


def forward(job, substeps: int, states, f) -> None:
    """Fill frames after the first. `job`: see `particles.Job`; states x and v (worlds, frames, n)."""
    code = _code(job.to.lane)
    for frame in range(states[0].shape[1] - 1):
        for k in range(substeps):
            _step(code, job, frame, frame if k == 0 else frame + 1, frame + 1, states, f)


def backward(job, substeps: int, segment: int, states, work, f, w, given, start, adjoints) -> None:
    """Adjoints of the start and of all parameters; arguments as for the kernel in `soft/kernels.py`."""
    code, (grad, d) = _code(job.to.lane), adjoints
    tensor = lambda array: vars(array)["tensor"]
    p, e = job.structs
    frames = states[0].shape[1]
    segments = -(-(frames - 1) // segment)
    short = (tensor(p.step) < 1e-7).any(0).tolist()  # SHORT of the kernels
    for first in (segment * s for s in reversed(range(segments))):
        last = min(first + segment, frames - 1)
        steps = (last - first) * substeps
        for state, y in zip(work, states, strict=True):
            tensor(state)[:, 0] = tensor(y)[:, first]
        for k in range(steps - 1):
            _step(code, job, first + k // substeps, k, k + 1, work, f)
        tensor(work[1])[:, steps] = tensor(states[1])[:, last]
        for k in reversed(range(steps)):
            if (k + 1) % substeps == 0:
                for adjoint, g in zip(start, given, strict=True):
                    tensor(adjoint).add_(tensor(g)[:, first + (k + 1) // substeps])
            if short[first + k // substeps]:
                _add_forces(job, first + k // substeps, k, work, f)
            fixed = [p.inverse_mass, p.free, p.gravity, p.step, first + k // substeps, k, f, work[1], *start]
            out = [w, grad.inverse_mass, grad.gravity, grad.step]
            replay(code.step_vertices_adjoint, (job.worlds, job.n), [*fixed, *out], job.device)
            for g, kind in enumerate(job.forces.KINDS):
                kernel = getattr(job.forces, f"adjoints_of{kind}")
                elements, slopes = getattr(e, f"g{g}"), getattr(d, f"g{g}")
                replay(
                    kernel,
                    (job.worlds, elements.n0.shape[0]),
                    [elements, slopes, first + k // substeps, k, *work, w, *start],
                    job.device,
                )
    for adjoint, g in zip(start, given, strict=True):
        tensor(adjoint).add_(tensor(g)[:, 0])


def _step(code, job, frame: int, before: int, after: int, states, f) -> None:
    p = job.structs[0]
    _add_forces(job, frame, before, states, f)
    args = [p.inverse_mass, p.free, p.gravity, p.step, frame, before, after, *states, f]
    replay(code.step_vertices, (job.worlds, job.n), args, job.device)


def _add_forces(job, frame: int, s: int, states, f) -> None:
    """Add the forces of the state in place s, in a frame interval."""
    e = job.structs[1]
    for g, kind in enumerate(job.forces.KINDS):
        elements = getattr(e, f"g{g}")
        kernel = getattr(job.forces, f"forces_of{kind}")
        replay(kernel, (job.worlds, elements.n0.shape[0]), [elements, frame, s, *states, f], job.device)


@cache
def _code(lane: Lane):
    return specialize(gpu_kernels, lane)
