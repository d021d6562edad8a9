"""Rollouts of soft bodies launch by launch, one vertex or element a thread: how a GPU takes them.

A step is one launch for each group of elements, and one (semi-implicit) or two (Verlet) for the vertices; by Nyström's method
each of three stages is as a step of Verlet. The same functions of forces as on a CPU are called; what several elements add
to one vertex meets atomically.
"""

from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING

from gradsim.engine.lanes import Lane, specialize
from gradsim.engine.launch import replay

if TYPE_CHECKING:
    from gradsim.physics.soft import gpu_kernels
else:
    gpu_kernels = "gradsim.physics.soft.gpu_kernels"


def forward(job, states, f) -> None:
    """Fill frames after the first. `job`: see `rollout.Job`; states x, v and by Verlet a (worlds, frames, n)."""
    code, stages = _code(job.to.lane), _stages(job)
    for frame in range(states[0].shape[1] - 1):
        for k in range(job.evaluations):
            _step(code, job, frame, k, frame if k == 0 else frame + 1, frame + 1, states, f, stages)


def backward(job, segment: int, states, work, f, w, given, start, adjoints) -> None:
    """Adjoints of the start and of all parameters; arguments as for the kernels of a CPU."""
    code, tensor = _code(job.to.lane), lambda array: vars(array)["tensor"]
    n, frames, verlet = job.evaluations, states[0].shape[1], job.integrator == "verlet"
    stages = _stages(job)
    short = (tensor(job.structs[0].step) < 1e-7).any(0).tolist()  # SHORT of the kernels
    for first in (segment * s for s in reversed(range(-(-(frames - 1) // segment)))):
        last = min(first + segment, frames - 1)
        steps = (last - first) * n
        for state, y in zip(work, states, strict=False):
            tensor(state)[:, 0] = tensor(y)[:, first]
        for k in range(steps if verlet else steps - 1):
            _step(code, job, first + k // n, k % n, k, k + 1, work, f, stages)
        if not verlet:
            tensor(work[1])[:, steps] = tensor(states[1])[:, last]
        for k in reversed(range(steps)):
            frame = first + k // n
            if (k + 1) % n == 0:
                for adjoint, g in zip(start, given, strict=False):
                    tensor(adjoint).add_(tensor(g)[:, frame + 1])
            if verlet:
                _verlet_adjoint(code, job, frame, k, work, w, start, adjoints)
                continue
            if stages:
                _nystrom_adjoint(code, job, frame, k, work, f, w, start, adjoints, stages)
                continue
            if short[frame]:
                _add_forces(job, frame, k, work, f)
            _step_adjoint(code, job, frame, k, work, f, w, start, adjoints)
    for adjoint, g in zip(start, given, strict=False):
        tensor(adjoint).add_(tensor(g)[:, 0])


def _stages(job) -> SimpleNamespace | None:
    """Places, velocities and accelerations of the stages of a step by Nyström's method, and their adjoints."""
    if job.integrator != "nystrom":
        return None
    arrays = {name: job.work(3) for name in ("a", "b")} | {name: job.work(1) for name in ("y", "u")}
    return SimpleNamespace(**arrays, p_y=job.work(), p_u=job.work())


def _step(code, job, frame: int, k: int, before: int, after: int, states, f, stages) -> None:
    """Step k of a frame interval. By Verlet step 0 opens it, and has no length."""
    p, at = job.structs[0], (job.worlds, job.n)
    arguments = [p.inverse_mass, p.free, p.gravity, p.step, frame]
    if job.integrator == "verlet":
        replay(code.predict, at, [p.step, frame, int(k > 0), before, after, *states], job.device)
        _add_forces(job, frame, after, states[:2], f)
        replay(code.correct, at, [*arguments, int(k > 0), after, *states[1:], f], job.device)
    elif stages:
        _accelerate(code, job, frame, before, states, f, stages)
        replay(code.step_by_stages, at, [p.step, frame, before, after, stages.a, *states], job.device)
    else:
        _add_forces(job, frame, before, states, f)
        replay(code.step_vertices, at, [*arguments, before, after, *states, f], job.device)


def _step_adjoint(code, job, frame: int, k: int, work, f, w, start, adjoints) -> None:
    p, grad, at = job.structs[0], adjoints[0], (job.worlds, job.n)
    fixed = [p.inverse_mass, p.free, p.gravity, p.step, frame, k, f, work[1], *start]
    replay(code.step_vertices_adjoint, at, [*fixed, w, grad.inverse_mass, grad.gravity, grad.step], job.device)
    _add_adjoints(job, frame, k, work, w, start, adjoints)


def _verlet_adjoint(code, job, frame: int, k: int, work, w, start, adjoints) -> None:
    p, grad, at = job.structs[0], adjoints[0], (job.worlds, job.n)
    moves = int(k % job.evaluations > 0)
    fixed = [p.inverse_mass, p.free, p.gravity, p.step, frame, moves, k, work[2], start[1]]
    out = [work[1], start[2], w, grad.inverse_mass, grad.gravity, grad.step]
    replay(code.correct_adjoint, at, [*fixed, *out], job.device)
    _add_adjoints(job, frame, k + 1, work[:2], w, start[:2], adjoints)
    replay(code.predict_adjoint, at, [p.step, frame, moves, k, *work[1:], *start, grad.step], job.device)


def _place_stage(code, job, frame: int, k: int, s: int, states, stages) -> None:
    args = [job.structs[0].step, frame, k, s, *states, stages.a, stages.y, stages.u]
    replay(code.place_stage, (job.worlds, job.n), args, job.device)


def _accelerate(code, job, frame: int, s: int, states, f, stages) -> None:
    """Accelerations of the stages of the step from the state in place s."""
    p, at = job.structs[0], (job.worlds, job.n)
    for k in range(3):
        _place_stage(code, job, frame, k, s, states, stages)
        _add_forces(job, frame, 0, [stages.y, stages.u], f)
        replay(code.accelerate, at, [p.inverse_mass, p.free, p.gravity, k, stages.a, f], job.device)


def _nystrom_adjoint(code, job, frame: int, s: int, work, f, w, start, adjoints, stages) -> None:
    p, grad, at = job.structs[0], adjoints[0], (job.worlds, job.n)
    _accelerate(code, job, frame, s, work, f, stages)
    args = [p.step, frame, s, work[1], stages.a, *start, stages.b, grad.step]
    replay(code.step_by_stages_adjoint, at, args, job.device)
    pair = [stages.p_y, stages.p_u]
    for k in reversed(range(3)):
        _place_stage(code, job, frame, k, s, work, stages)
        fixed = [p.inverse_mass, p.free, p.gravity, k, stages.a, stages.b]
        replay(code.accelerate_adjoint, at, [*fixed, w, *pair, grad.inverse_mass, grad.gravity], job.device)
        _add_adjoints(job, frame, 0, [stages.y, stages.u], w, pair, adjoints)
        args = [p.step, frame, k, s, work[1], stages.a, *pair, *start, stages.b, grad.step]
        replay(code.place_stage_adjoint, at, args, job.device)


def _add_forces(job, frame: int, s: int, states, f) -> None:
    """Add the forces of the state in place s, in a frame interval."""
    e = job.structs[1]
    for g, kind in enumerate(job.forces.KINDS):
        elements = getattr(e, f"g{g}")
        kernel = getattr(job.forces, f"forces_of{kind}")
        replay(kernel, (job.worlds, elements.n0.shape[0]), [elements, frame, s, *states, f], job.device)


def _add_adjoints(job, frame: int, s: int, states, w, start, adjoints) -> None:
    """Add the adjoints of these forces, whose probes are w."""
    for g, kind in enumerate(job.forces.KINDS):
        elements, slopes = getattr(job.structs[1], f"g{g}"), getattr(adjoints[1], f"g{g}")
        kernel = getattr(job.forces, f"adjoints_of{kind}")
        args = [elements, slopes, frame, s, *states, w, *start]
        replay(kernel, (job.worlds, elements.n0.shape[0]), args, job.device)


@cache
def _code(lane: Lane):
    return specialize(gpu_kernels, lane)
