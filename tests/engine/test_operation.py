"""A program as an operation of PyTorch."""

import pytest
import torch
from checks import gradients

from gradsim.engine.operation import operation


class Products:
    """x y and Σ x of worlds: a program with two inputs, two outputs and a note of what it was given."""

    def __init__(self):
        self.seen = []

    def shapes(self, inputs):
        return [tuple(inputs[0].shape), (inputs[0].shape[0],)]

    def forward(self, inputs):
        x, y = inputs
        self.seen += inputs
        return [x * y, x.sum(1)]

    def backward(self, inputs, outputs, adjoints):
        (x, y), (a, b) = inputs, adjoints
        self.seen += [*inputs, *outputs, *adjoints]
        return [a * y + b[:, None], a * x]


def values() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(4, 3, generator=generator, dtype=torch.float64, requires_grad=True) for _ in range(2)]


def loss(outputs) -> torch.Tensor:
    product, total = outputs
    return (product**2).sum() + (total**3).sum()


def plain(x, y) -> list[torch.Tensor]:
    return [x * y, x.sum(1)]


def test_value_and_gradient_are_those_of_the_program():
    x, y = values()
    run = operation(Products())
    assert all(torch.equal(a, b) for a, b in zip(run(x, y), plain(x, y), strict=True))
    found = torch.autograd.grad(loss(run(x, y)), [x, y])
    wanted = torch.autograd.grad(loss(plain(x, y)), [x, y])
    assert all(torch.allclose(a, b, rtol=1e-14) for a, b in zip(found, wanted, strict=True))
    assert torch.autograd.gradcheck(lambda *z: tuple(run(*z)), (x, y))


def test_output_without_adjoint_counts_as_zero():
    x, y = values()
    (found,) = torch.autograd.grad(operation(Products())(x, y)[1].sum(), [x])
    assert torch.equal(found, torch.ones(4, 3).double())


def test_input_without_gradient_stays_without():
    x, y = values()
    loss(operation(Products())(x.detach(), y)).backward()
    assert x.grad is None
    assert y.grad is not None
    assert not any(out.requires_grad for out in operation(Products())(x.detach(), y.detach()))


def test_program_sees_detached_contiguous_tensors():
    x, y = values()
    program = Products()
    loss(operation(program)(x[:, [2, 0, 1]].mT.reshape(3, 4).mT, y)).backward()
    assert len(program.seen) == 8
    assert all(t.is_contiguous() and not t.requires_grad for t in program.seen)


def test_programs_do_not_mix():
    class Halves(Products):
        def forward(self, inputs):
            return [0.5 * out for out in super().forward(inputs)]

        def backward(self, inputs, outputs, adjoints):
            return [0.5 * g for g in super().backward(inputs, outputs, adjoints)]

    x, y = values()
    whole, half = operation(Products()), operation(Halves())
    for ones in ([torch.ones(4, 3).double(), torch.ones(4).double()],):
        pairs = zip(gradients(whole, [x, y], ones), gradients(half, [x, y], ones), strict=True)
        assert all(torch.equal(a, 2 * b) for a, b in pairs)


def test_compiler_sees_one_node_and_gets_the_same_gradient():
    x, y = values()
    run = operation(Products())
    compiled = torch.compile(lambda x, y: loss(run(2 * x, y)), fullgraph=True, backend="aot_eager")
    value = compiled(x, y)
    assert torch.equal(value, loss(run(2 * x, y)))
    found = torch.autograd.grad(value, [x, y])
    wanted = torch.autograd.grad(loss(run(2 * x, y)), [x, y])
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_operation_keeps_the_contract_of_pytorch():
    x, y = values()
    program = Products()
    operation(program)
    from gradsim.engine import operation as module

    torch.library.opcheck(torch.ops.gradsim.run.default, ([x, y], module._programs.index(program)))


def test_second_derivative_is_refused():
    x, y = values()
    (first,) = torch.autograd.grad(loss(operation(Products())(x, y)), [x], create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula|differentiate twice"):
        first.sum().backward()
