# pyright: reportInvalidTypeForm=false
"""Rollout kernels of any body: the forward sweep, and the checkpointed reverse sweep of its discrete adjoint.

A kernel file defines two structs and four functions, and gets its kernels from `forward_sweep` and `reverse_sweep`:

    Parameters    parameters of the rollout, and the workspace of a step
    States        states at several instants, arrays (packs, instants, ...)

    step(parameters, states, source, target, row, interval, i)
        state `target` from state `source`, by the step `row` of the rollout, in the frame interval `interval`
    copy_state(from_, source, to, target, i)
        copy a state from one `States` to another
    add_state(parameters, states, frame, adjoint, i)
        add the adjoint of a frame to the adjoint of the state
    step_adjoint(parameters, states, source, row, interval, i, adjoint, gradient)
        adjoint of the state before a step from that of the state after it; `gradient` is a `Parameters` of adjoints, to be
        added to. State `source + 1` of `states` is the one after the step

with `i` the pack of worlds. Optional: `prepare(parameters, i)` before all steps, and `prepare_adjoint(parameters, i,
gradient)` after all their adjoints; `frame_steps(parameters, states, frame, substeps, i)`, all steps from one frame to the
next, where these are faster with the state in registers (7 % for a rigid body). Frames are checkpoints: the reverse sweep
recomputes the steps of one segment of frames at a time from the first frame of the segment (Griewank & Walther, Evaluating
Derivatives, 2nd ed., §12). With `spacing(parameters)`, without `frame_steps`, the states of a rollout may be those after all
steps: it is their number from one frame to the next, 1, or that of the steps, of which none is recomputed then.
"""

from typing import Any

import warp as wp

from gradsim.engine.lanes import FORWARD


def forward_sweep(
    module: str, Parameters, States, step, prepare: Any = None, frame_steps: Any = None, spacing: Any = None
):
    """Kernel that fills the frames `begin` + 1 to `end` from frame `begin`.

    It is a Warp module of its own, since a rollout without gradients compiles in a third of the time of the reverse sweep.

    Args:
        module: `__name__` of the kernel file.
        Parameters: Struct, see the head of this file; so the others.
    """
    prepared, in_registers, spaced = prepare is not None, frame_steps is not None, spacing is not None

    @wp.kernel(enable_backward=False, module=module + FORWARD)
    def forward(
        offset: int,  # see `engine.launch`
        parameters: Parameters,
        substeps: int,
        begin: int,
        end: int,
        # out
        states: States,
    ):
        i = offset + wp.tid()
        if prepared:  # known when this is compiled, and so is what is left out
            prepare(parameters, i)
        between = wp.int32(1)
        if spaced:
            between = spacing(parameters)
        for frame in range(begin, end):
            if in_registers:
                frame_steps(parameters, states, frame, substeps, i)
            else:
                for k in range(substeps):  # one call: it is compiled into its place
                    source = frame * between + wp.min(k, between)
                    target = frame * between + wp.min(k + 1, between)
                    step(parameters, states, source, target, frame * substeps + k, frame, i)

    return forward


def reverse_sweep(
    module: str,
    Parameters,
    States,
    Adjoint,
    step,
    copy_state,
    add_state,
    step_adjoint,
    prepare: Any = None,
    prepare_adjoint: Any = None,
    recalls: bool = False,
    spacing: Any = None,
):
    """Kernel for the adjoint of the frames `begin` to `end`: adds up the adjoints of frame `begin` and of parameters.

    Where `states` has those after all steps, as where there is one between frames, none is recomputed, and `steps` is `states` itself. Else it is a
    workspace with room for one state more than the steps of a segment.

    Args:
        module: `__name__` of the kernel file.
        Parameters: Struct, see the head of this file; so the others.
        Adjoint: Struct of the adjoint of one state.
        recalls: Whether `step_adjoint` takes from a workspace what `step` left there for each state of `steps`; then the last step of a segment is
            recomputed, too.
    """
    prepared, spaced = prepare is not None, spacing is not None

    @wp.kernel(enable_backward=False, module=module)
    def backward(
        offset: int,  # see `engine.launch`
        parameters: Parameters,
        substeps: int,
        segment: int,  # frames between checkpoints
        begin: int,
        end: int,
        states: States,
        steps: States,
        frame_adjoints: States,
        # out; begins with the adjoint of frame `end` without its own part
        adjoint: Adjoint,
        gradient: Parameters,
    ):
        i = offset + wp.tid()
        if prepared:
            prepare(parameters, i)
        between = wp.int32(1)
        if spaced:
            between = spacing(parameters)
        segments = (end - begin + segment - 1) // segment
        for s in range(segments):
            first = begin + (segments - 1 - s) * segment
            last = wp.min(first + segment, end)
            count = (last - first) * substeps
            base = wp.where(substeps > between, 0, first * substeps)
            if substeps > between:
                copy_state(states, first, steps, 0, i)
                recomputed = count - 1
                if recalls:  # known when this is compiled
                    recomputed = count
                for k in range(recomputed):
                    step(parameters, steps, k, k + 1, first * substeps + k, first + k // substeps, i)
                if not recalls:
                    copy_state(states, last, steps, count, i)
            for m in range(count):
                k = count - 1 - m
                interval = first + k // substeps
                if (k + 1) % substeps == 0:
                    add_state(parameters, frame_adjoints, interval + 1, adjoint, i)
                step_adjoint(parameters, steps, base + k, first * substeps + k, interval, i, adjoint, gradient)
        if begin == 0:
            add_state(parameters, frame_adjoints, 0, adjoint, i)
        if prepared:
            prepare_adjoint(parameters, i, gradient)

    return backward
