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


def forward(buffers, states, f) -> None:
    """Fill frames after the first. `buffers`: see `rollout_buffers.RolloutBuffers`; states x, v and by Verlet a (worlds, frames, n)."""
    code, stages = _code(buffers.to.lane), _stages(buffers)
    for frame in range(states[0].shape[1] - 1):
        for k in range(buffers.evaluations):
            _step(code, buffers, frame, k, frame if k == 0 else frame + 1, frame + 1, states, f, stages)


def backward(buffers, segment: int, states, work, f, w, given, start, adjoints) -> None:
    """Adjoints of the start and of all parameters; arguments as for the kernels of a CPU."""
    code, tensor = _code(buffers.to.lane), lambda array: vars(array)["tensor"]
    n, frames, verlet = buffers.evaluations, states[0].shape[1], buffers.integrator == "verlet"
    stages = _stages(buffers)
    short = (tensor(buffers.structs[0].step) < 1e-7).any(0).tolist()  # `MIN_STEP` of the kernels
    for first in (segment * s for s in reversed(range(-(-(frames - 1) // segment)))):
        last = min(first + segment, frames - 1)
        steps = (last - first) * n
        for state, y in zip(work, states, strict=False):
            tensor(state)[:, 0] = tensor(y)[:, first]
        for k in range(steps if verlet else steps - 1):
            _step(code, buffers, first + k // n, k % n, k, k + 1, work, f, stages)
        if not verlet:
            tensor(work[1])[:, steps] = tensor(states[1])[:, last]
        for k in reversed(range(steps)):
            frame = first + k // n
            if (k + 1) % n == 0:
                for adjoint, g in zip(start, given, strict=False):
                    tensor(adjoint).add_(tensor(g)[:, frame + 1])
            if verlet:
                _verlet_adjoint(code, buffers, frame, k, work, w, start, adjoints)
                continue
            if stages:
                _nystrom_adjoint(code, buffers, frame, k, work, f, w, start, adjoints, stages)
                continue
            if short[frame]:
                _add_forces(buffers, frame, k, work, f)
            _step_adjoint(code, buffers, frame, k, work, f, w, start, adjoints)
    for adjoint, g in zip(start, given, strict=False):
        tensor(adjoint).add_(tensor(g)[:, 0])


def _stages(buffers) -> SimpleNamespace | None:
    """Places, velocities and accelerations of the stages of a step by Nyström's method, and their adjoints."""
    if buffers.integrator != "nystrom":
        return None
    arrays = {name: buffers.work(3) for name in ("a", "b")} | {name: buffers.work(1) for name in ("y", "u")}
    return SimpleNamespace(**arrays, p_y=buffers.work(), p_u=buffers.work())


def _step(code, buffers, frame: int, k: int, before: int, after: int, states, f, stages) -> None:
    """Step k of a frame interval. By Verlet step 0 opens it, and has no length."""
    p, at = buffers.structs[0], (buffers.worlds, buffers.n)
    arguments = [p.inverse_mass, p.free, p.gravity, p.step, frame]
    if buffers.integrator == "verlet":
        replay(code.predict, at, [p.step, frame, int(k > 0), before, after, *states], buffers.device)
        _add_forces(buffers, frame, after, states[:2], f)
        replay(code.correct, at, [*arguments, int(k > 0), after, *states[1:], f], buffers.device)
    elif stages:
        _accelerate(code, buffers, frame, before, states, f, stages)
        replay(code.step_by_stages, at, [p.step, frame, before, after, stages.a, *states], buffers.device)
    else:
        _add_forces(buffers, frame, before, states, f)
        replay(code.step_vertices, at, [*arguments, before, after, *states, f], buffers.device)


def _step_adjoint(code, buffers, frame: int, k: int, work, f, w, start, adjoints) -> None:
    p, grad, at = buffers.structs[0], adjoints[0], (buffers.worlds, buffers.n)
    fixed = [p.inverse_mass, p.free, p.gravity, p.step, frame, k, f, work[1], *start]
    replay(code.step_vertices_adjoint, at, [*fixed, w, grad.inverse_mass, grad.gravity, grad.step], buffers.device)
    _add_adjoints(buffers, frame, k, work, w, start, adjoints)


def _verlet_adjoint(code, buffers, frame: int, k: int, work, w, start, adjoints) -> None:
    p, grad, at = buffers.structs[0], adjoints[0], (buffers.worlds, buffers.n)
    moves = int(k % buffers.evaluations > 0)
    fixed = [p.inverse_mass, p.free, p.gravity, p.step, frame, moves, k, work[2], start[1]]
    out = [work[1], start[2], w, grad.inverse_mass, grad.gravity, grad.step]
    replay(code.correct_adjoint, at, [*fixed, *out], buffers.device)
    _add_adjoints(buffers, frame, k + 1, work[:2], w, start[:2], adjoints)
    replay(code.predict_adjoint, at, [p.step, frame, moves, k, *work[1:], *start, grad.step], buffers.device)


def _place_stage(code, buffers, frame: int, k: int, s: int, states, stages) -> None:
    args = [buffers.structs[0].step, frame, k, s, *states, stages.a, stages.y, stages.u]
    replay(code.place_stage, (buffers.worlds, buffers.n), args, buffers.device)


def _accelerate(code, buffers, frame: int, s: int, states, f, stages) -> None:
    """Accelerations of the stages of the step from the state in place s."""
    p, at = buffers.structs[0], (buffers.worlds, buffers.n)
    for k in range(3):
        _place_stage(code, buffers, frame, k, s, states, stages)
        _add_forces(buffers, frame, 0, [stages.y, stages.u], f)
        replay(code.accelerate, at, [p.inverse_mass, p.free, p.gravity, k, stages.a, f], buffers.device)


def _nystrom_adjoint(code, buffers, frame: int, s: int, work, f, w, start, adjoints, stages) -> None:
    p, grad, at = buffers.structs[0], adjoints[0], (buffers.worlds, buffers.n)
    _accelerate(code, buffers, frame, s, work, f, stages)
    args = [p.step, frame, s, work[1], stages.a, *start, stages.b, grad.step]
    replay(code.step_by_stages_adjoint, at, args, buffers.device)
    pair = [stages.p_y, stages.p_u]
    for k in reversed(range(3)):
        _place_stage(code, buffers, frame, k, s, work, stages)
        fixed = [p.inverse_mass, p.free, p.gravity, k, stages.a, stages.b]
        replay(code.accelerate_adjoint, at, [*fixed, w, *pair, grad.inverse_mass, grad.gravity], buffers.device)
        _add_adjoints(buffers, frame, 0, [stages.y, stages.u], w, pair, adjoints)
        args = [p.step, frame, k, s, work[1], stages.a, *pair, *start, stages.b, grad.step]
        replay(code.place_stage_adjoint, at, args, buffers.device)


def _add_forces(buffers, frame: int, s: int, states, f) -> None:
    """Add the forces of the state in place s, in a frame interval."""
    e = buffers.structs[1]
    for g, kind in enumerate(buffers.forces.KINDS):
        elements = getattr(e, f"g{g}")
        kernel = getattr(buffers.forces, f"forces_of{kind}")
        replay(kernel, (buffers.worlds, elements.n0.shape[0]), [elements, frame, s, *states, f], buffers.device)


def _add_adjoints(buffers, frame: int, s: int, states, w, start, adjoints) -> None:
    """Add the adjoints of these forces, whose probes are w."""
    for g, kind in enumerate(buffers.forces.KINDS):
        elements, slopes = getattr(buffers.structs[1], f"g{g}"), getattr(adjoints[1], f"g{g}")
        kernel = getattr(buffers.forces, f"adjoints_of{kind}")
        args = [elements, slopes, frame, s, *states, w, *start]
        replay(kernel, (buffers.worlds, elements.n0.shape[0]), args, buffers.device)


@cache
def _code(lane: Lane):
    return specialize(gpu_kernels, lane)
