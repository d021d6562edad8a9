"""Make one differentiable PyTorch operation out of a program that runs outside PyTorch.

A `Program` is three plain functions on detached tensors: the shapes of its outputs, its value, and its
vector–Jacobian product. `operation(program)` is a callable on tensors that autograd and
`torch.compile(fullgraph=True)` see as one opaque node. This file is the only place where gradsim defines
operations of PyTorch: a plain autograd function, and a custom operation, which costs 0.1 to 0.5 ms more at each call,
for the compiler.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from operator import attrgetter
from typing import Any, Protocol
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch._C._autograd import _top_saved_tensors_default_hooks
from torch.autograd import forward_ad


class BoundCall(Protocol):
    """One call of a program whose inputs are bound: what it computes depends on some tensors, `leaves`, whose numbers it has already."""

    def forward(self) -> list[Tensor]:
        """The outputs."""
        ...

    def backward_by(
        self, needed: Sequence[bool], inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Any]
    ) -> Sequence[Tensor | None]:
        """Gradients by the leaves, for which they are needed; `inputs` are not read, an adjoint of None is zero."""
        ...

    def inner_inputs(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """Inputs of the program."""
        ...


class ImageCall(Protocol):
    """One call of a program that has run; it keeps what its backward pass reads."""

    leaves: Sequence[Tensor]

    def backward_by(
        self, needed: Sequence[bool], inputs: Sequence[Tensor], outputs: Sequence[Any], adjoints: Sequence[Any]
    ) -> Sequence[Tensor | None]:
        """Gradients by the leaves, for which they are needed; nothing but the adjoint of the one output is read."""
        ...


class Program(Protocol):
    """Forward and backward pass of an operation. Inputs and outputs are lists of tensors in a fixed order.

    A program must not keep, change or return its inputs. One that can leave out derivatives has `backward_by(needed, inputs, outputs,
    adjoints)`, too: `backward` where some results may be None. One that is another program of inputs that it makes itself has
    `inner_inputs(inputs)`. One with an attribute `reads_missing_adjoints` that is true is given None, and not zeros, for adjoints of
    outputs that nothing depends on, except by `torch.compile`.
    """

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        """Shapes of the outputs, from the shapes of the inputs alone. Outputs have the dtype of input 0."""
        ...

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The outputs."""
        ...

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Any]
    ) -> Sequence[Tensor | None]:
        """∂loss/∂input for every input, given ∂loss/∂output for every output; None where it has no meaning."""
        ...


# The custom operation carries its program by a name, which the compiler takes for a constant; a number that differs at
# the second call it would take for a variable. Weak, since a program holds models, meshes and images.
_programs: WeakValueDictionary[str, Program] = WeakValueDictionary()
_numbers = count()
_IS_LEAF = attrgetter("is_leaf")


@torch.library.custom_op("gradsim::run", mutates_args=())
def _run(inputs: Sequence[Tensor], program: str) -> list[Tensor]:
    return _programs[program].forward([x.detach().contiguous() for x in inputs])


@_run.register_fake
def _(inputs, program):
    return [inputs[0].new_empty(shape) for shape in _programs[program].shapes(inputs)]


@torch.library.custom_op("gradsim::run_backward", mutates_args=())
def _run_backward(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor], program: str
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
    dense = without_gaps(adjoints, outputs)
    return _run_backward(inputs, outputs, dense, ctx.program), None


_run.register_autograd(_backward, setup_context=_setup)


class _Eager(torch.autograd.Function):
    """A program where nothing is compiled."""

    @staticmethod
    def forward(program: Program, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(program.forward([x.detach().contiguous() for x in inputs]))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.program, *tensors = inputs
        ctx.count = len(tensors)
        if getattr(ctx.program, "reads_missing_adjoints", False):
            ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *output)

    @staticmethod
    def backward(ctx, *adjoints: Tensor):
        needed = ctx.needs_input_grad[1:]
        plain = not torch.is_grad_enabled() and not is_transformed()
        run = _Gradient.forward if plain else _Gradient.apply
        return None, *run(ctx.program, needed, *ctx.saved_tensors, *adjoints)

    @staticmethod
    def jvp(ctx, *_):
        raise NotImplementedError(_no_tangent(ctx.program))

    @staticmethod
    def vmap(info, in_dims, program: Program, *inputs: Tensor):
        return _one_by_one(lambda *some: _Eager.apply(program, *some), info, in_dims[1:], inputs)


class _Direct(torch.autograd.Function):
    """`_Eager` outside of transforms, at a third of its fixed cost: `setup_context` is what they need."""

    @staticmethod
    def forward(ctx, program: Program, *inputs: Tensor) -> tuple[Tensor, ...]:
        outputs = _Eager.forward(program, *inputs)
        _Eager.setup_context(ctx, (program, *inputs), outputs)
        return outputs

    backward = _Eager.backward


class _Bound(torch.autograd.Function):
    """A `BoundCall`, outside of transforms."""

    @staticmethod
    def forward(ctx, call: "BoundCall", *leaves: Tensor) -> tuple[Tensor, ...]:
        outputs = tuple(call.forward())
        # nobody reads their numbers again, so those of the caller may change before the backward pass
        plain = all(map(_IS_LEAF, leaves))
        ctx.leaves = leaves if plain else [x if x.is_leaf else None for x in leaves]
        saved = () if plain else [None if x.is_leaf else x for x in leaves]
        ctx.program, ctx.count = call, len(saved)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*saved, *outputs)
        return outputs

    @staticmethod
    def backward(ctx, *adjoints: Tensor | None):
        needed, tensors = ctx.needs_input_grad[1:], ctx.saved_tensors
        if torch.is_grad_enabled() or is_transformed():
            outputs = tensors[ctx.count :]
            dense = without_gaps(adjoints, outputs)
            saved = tensors[: ctx.count] or ctx.leaves
            leaves = [y if x is None else x for x, y in zip(ctx.leaves, saved, strict=True)]
            return None, *_Gradient.apply(ctx.program, needed, *leaves, *outputs, *dense)
        return None, *ctx.program.backward_by(needed, (), tensors[ctx.count :], adjoints)


class _Image(torch.autograd.Function):
    """A call whose output is there already, and that has numbers of its own to go back with; outside of transforms."""

    @staticmethod
    def forward(ctx, call: "ImageCall", output: list[Tensor], *leaves: Tensor) -> Tensor:
        ctx.program = call
        return output.pop()

    @staticmethod
    def backward(ctx, adjoint: Tensor | None):
        needed, call, _ = ctx.needs_input_grad[2:], ctx.program, ctx.saved_tensors  # which raise if the graph is gone
        if torch.is_grad_enabled() or is_transformed():
            leaves = call.leaves
            return None, None, *_Gradient.apply(call, needed, *leaves, None, adjoint)
        return None, None, *call.backward_by(needed, (), (), (adjoint,))


# without what `Function.apply` does for transforms
_apply_bound = super(torch.autograd.Function, _Bound).apply  # pyright: ignore[reportAttributeAccessIssue]
_apply_image = super(torch.autograd.Function, _Image).apply  # pyright: ignore[reportAttributeAccessIssue]

# PyTorch asks for it at each call
vars(_Eager.forward)["__signature__"] = inspect.signature(_Eager.forward)


class _Gradient(torch.autograd.Function):
    """The backward pass of a program: an operation on all tensors that it reads, which is not differentiable.

    It depends on inputs and adjoints alike, so every path of a second derivative leads through it and raises. PyTorch's
    `once_differentiable` raises for adjoints that require a gradient; for constant ones it drops the path by the inputs.
    """

    @staticmethod
    def forward(program: Program, needed: Sequence[bool], *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        count = len(needed)
        plain: list[Any] = [None if x is None else x.detach().contiguous() for x in tensors]
        end = count + (len(plain) - count) // 2  # of the outputs; there are as many adjoints
        by = getattr(program, "backward_by", None)
        backward = program.backward if by is None else partial(by, needed)
        results = backward(plain[:count], plain[count:end], plain[end:])
        return tuple(g if need else None for g, need in zip(results, needed, strict=True))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.name = _name(inputs[0])

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError(
            f"{ctx.name} is differentiable once: there are no second derivatives through it. Take central differences "
            f"of gradients; for least squares, JᵀJ of forward sensitivities (`Model.tangent`)."
        )

    jvp = backward

    @staticmethod
    def vmap(info, in_dims, program: Program, needed: Sequence[bool], *tensors: Tensor):
        return _one_by_one(lambda *some: _Gradient.apply(program, needed, *some), info, in_dims[2:], tensors)


def without_gaps(adjoints: Sequence[Any], outputs: Sequence[Tensor]) -> list[Tensor]:
    """∂loss/∂output for every output, 0 in place of None."""
    return [torch.zeros_like(y) if g is None else g for g, y in zip(adjoints, outputs, strict=True)]


def may_be_differentiated(*tensors: Tensor) -> bool:
    """True if a derivative by one of them may be taken: in reverse mode, in forward mode or by `torch.func`."""
    # In this order: `is_transformed` breaks the graph of `torch.compile` before there is a generator, whose globals Dynamo
    # would walk, at times too deep.
    return is_transformed() or (torch.is_grad_enabled() and any(x.requires_grad for x in tensors))


def is_transformed() -> bool:
    """True if tensors may carry tangents of forward mode, or be wrapped by `torch.func`."""
    return forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active()


def are_saved_tensors_hooked() -> bool:
    """True if hooks see what a graph saves, as those of `torch.utils.checkpoint`: then calls must save as many tensors each time."""
    return _top_saved_tensors_default_hooks(True) is not None


def _one_by_one(function: Callable[..., tuple[Tensor, ...]], info, in_dims, tensors: Sequence[Tensor]):
    """`torch.func.vmap` of a program: one run for each sample."""
    pairs = list(zip(tensors, in_dims, strict=True))
    runs = [function(*(x if d is None else x.select(d, k) for x, d in pairs)) for k in range(info.batch_size)]
    outputs = tuple(None if samples[0] is None else torch.stack(samples) for samples in zip(*runs, strict=True))
    return outputs, tuple(None if y is None else 0 for y in outputs)


def _name(program: Program) -> str:
    """Name in error messages: that of the kernel of a `KernelProgram`, else that of the class."""
    return getattr(program, "kernel", type(program).__name__)


def _no_tangent(program: Program) -> str:
    return (
        f"{_name(program)} has no forward-mode derivative (`jvp`, `jacfwd`, `hessian`); take reverse mode (`grad`, "
        f"`jacrev`), or forward sensitivities (`Model.tangent`). It has no second derivatives."
    )


def inputs_of(node) -> tuple[Tensor, ...] | None:
    """Inputs of an operation, from its node in the graph of PyTorch; None if the node is of something else.

    Args:
        node: `tensor.grad_fn`, or one of those after it.

    Raises:
        RuntimeError: If a backward pass has let go of them.
    """
    eager = _Eager._backward_cls, _Direct._backward_cls, _Bound._backward_cls
    if not isinstance(node, eager) and "gradsim_run" not in node.name():  # the name of `_run`'s node
        return None
    tensors, program = node.saved_tensors[: node.count], node.program
    program = _programs.get(program) if isinstance(program, str) else program
    inner = getattr(program, "inner_inputs", None)
    return tensors if inner is None else inner(tensors)


def operation(program: Program) -> Callable[..., list[Tensor]]:
    """A function of tensors that runs `program`, differentiable once.

    Second derivatives raise `NotImplementedError`, and so does the function where an input has a forward-mode tangent
    (`torch.func.jvp`).

    Args:
        program: See `Program`. It lives as long as the function does; a compiled backward pass needs it still.
    """
    key = str(next(_numbers))
    _programs[key] = program

    def run(*inputs: Tensor) -> list[Tensor]:
        if torch.compiler.is_compiling():
            if forward_ad._current_level >= 0:  # a custom operation would lose the tangent
                raise NotImplementedError(_no_tangent(program))
            return _run(inputs, key)
        if is_transformed():
            return list(_Eager.apply(program, *inputs))
        return list((_Direct.apply if may_be_differentiated(*inputs) else _Eager.forward)(program, *inputs))

    return run


def apply_bound(call: BoundCall, leaves: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Outputs of a call, differentiable once by its leaves; not within transforms."""
    return _apply_bound(call, *leaves)


def apply_image(call: ImageCall, output: Tensor) -> Tensor:
    """The output of a call, differentiable once by its leaves; not within transforms."""
    return _apply_image(call, [output], *call.leaves)
