"""Make one differentiable PyTorch operation out of a program that runs outside PyTorch.

A `Program` is three plain functions on detached tensors: the shapes of its outputs, its value, and its
vector–Jacobian product. `operation(program)` is a callable on tensors that autograd and
`torch.compile(fullgraph=True)` see as one opaque node. This file is the only place where gradsim defines
operations of PyTorch: a plain autograd function, and a custom operation, which costs 0.1 to 0.5 ms more at each call,
for the compiler.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.autograd import forward_ad


class Program(Protocol):
    """Forward and backward pass of an operation. Inputs and outputs are lists of tensors in a fixed order.

    A program must not keep, change or return its inputs.
    """

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        """Shapes of the outputs, from the shapes of the inputs alone. Outputs have the dtype of input 0."""
        ...

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The outputs."""
        ...

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> Sequence[Tensor | None]:
        """∂loss/∂input for every input, given ∂loss/∂output for every output; None where it has no meaning."""
        ...


# The custom operation carries its program by number. Weak, since a program holds models, meshes and images.
_programs: WeakValueDictionary[int, Program] = WeakValueDictionary()
_numbers = count()


@torch.library.custom_op("gradsim::run", mutates_args=())
def _run(inputs: Sequence[Tensor], program: int) -> list[Tensor]:
    return _programs[program].forward([x.detach().contiguous() for x in inputs])


@_run.register_fake
def _(inputs, program):
    return [inputs[0].new_empty(shape) for shape in _programs[program].shapes(inputs)]


@torch.library.custom_op("gradsim::run_backward", mutates_args=())
def _run_backward(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor], program: int
) -> list[Tensor]:
    contiguous = [[x.detach().contiguous() for x in group] for group in (inputs, outputs, adjoints)]
    results = _programs[program].backward(*contiguous)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(results, inputs, strict=True)]


@_run_backward.register_fake
def _(inputs, outputs, adjoints, program):
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x in inputs]


def _setup(ctx, inputs, output):
    tensors, ctx.program = inputs
    ctx.count = len(tensors)
    ctx.save_for_backward(*tensors, *output)


def _backward(ctx, adjoints):
    inputs, outputs = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
    dense = [torch.zeros_like(y) if g is None else g for g, y in zip(adjoints, outputs, strict=True)]
    return _run_backward(inputs, outputs, dense, ctx.program), None


_run.register_autograd(_backward, setup_context=_setup)


class _Eager(torch.autograd.Function):
    """A program where nothing is compiled."""

    @staticmethod
    def forward(ctx, program: Program, *inputs: Tensor):
        outputs = program.forward([x.detach().contiguous() for x in inputs])
        ctx.program, ctx.count = program, len(inputs)
        ctx.save_for_backward(*inputs, *outputs)
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *adjoints: Tensor):
        with torch.no_grad():
            saved = [x.detach().contiguous() for x in ctx.saved_tensors]
            dense = [g.detach().contiguous() for g in adjoints]
            results = ctx.program.backward(saved[: ctx.count], saved[ctx.count :], dense)
        gradients = [g if needed else None for g, needed in zip(results, ctx.needs_input_grad[1:], strict=True)]
        if not torch.is_grad_enabled():
            return None, *gradients
        # PyTorch's `once_differentiable` takes gradients for constants where the adjoints are
        last = [None if g is None else g.detach().requires_grad_() for g in gradients]
        return None, *_Last.apply(_name(ctx.program), *last)


class _Last(torch.autograd.Function):
    """Gradients that are not differentiable: the second derivative is an error, not the part of it that PyTorch knows."""

    @staticmethod
    def forward(ctx, name: str, *gradients: Tensor | None):
        ctx.name = name
        return tuple(None if g is None else g.clone() for g in gradients)

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError(
            f"the gradient of {ctx.name} has no derivative: there are no second derivatives through it; take differences "
            f"of gradients."
        )


def _name(program: Program) -> str:
    """Name in error messages: that of the kernel of a `KernelProgram`, else that of the class."""
    return getattr(program, "kernel", type(program).__name__)


def inputs_of(node) -> tuple[Tensor, ...] | None:
    """Inputs of an operation, from its node in the graph of PyTorch; None if the node is of something else.

    Args:
        node: `tensor.grad_fn`, or one of those after it.

    Raises:
        RuntimeError: If a backward pass has let go of them.
    """
    if not isinstance(node, _Eager._backward_cls) and "gradsim_run" not in node.name():  # the name of `_run`'s node
        return None
    return node.saved_tensors[: node.count]


def operation(program: Program) -> Callable[..., list[Tensor]]:
    """A function of tensors that runs `program`, differentiable once.

    Second derivatives raise `NotImplementedError`, and so does the function where an input has a forward-mode tangent
    (`torch.func.jvp`), which it would lose.

    Args:
        program: See `Program`. It lives as long as the function does; a compiled backward pass needs it still.
    """
    number = next(_numbers)
    _programs[number] = program

    def run(*inputs: Tensor) -> list[Tensor]:
        if torch.compiler.is_compiling():
            return _run(inputs, number)
        if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(x).tangent is not None for x in inputs):
            raise NotImplementedError(
                f"{_name(program)} has no forward-mode derivative; take backward mode, or its `tangent`."
            )
        if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
            return list(_Eager.apply(program, *inputs))
        return program.forward([x.detach().contiguous() for x in inputs])

    return run
