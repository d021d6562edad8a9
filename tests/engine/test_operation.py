"""A program as an operation of PyTorch."""

import gc
import weakref

import pytest
import torch
from checks import gradients

from gradsim.engine.operation import inputs_of, operation


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
    run = operation(program)
    from gradsim.engine import operation as module

    (number,) = [k for k, kept in module._programs.items() if kept is program]
    torch.library.opcheck(torch.ops.gradsim.run.default, ([x, y], number))
    assert run


def test_inputs_are_found_in_the_graph_until_it_is_gone():
    x, y = torch.rand(2, 2, 3).unbind()
    product, _ = operation(Products())(x.requires_grad_(), y)
    loss = product.sum()
    assert inputs_of(loss.grad_fn) is None
    node = product.grad_fn
    assert all(map(torch.equal, inputs_of(node), (x, y))) and len(inputs_of(node)) == 2
    loss.backward()
    with pytest.raises(RuntimeError, match="freed"):
        inputs_of(node)


def test_program_is_let_go_with_its_operation_and_its_graph():
    x, y = values()
    program = Products()
    program.forward = lambda inputs: [inputs[0] * inputs[1], inputs[0].sum(1)]  # that of the class keeps a note
    gone, outputs = weakref.ref(program), operation(program)(x, y)
    del program
    gc.collect()
    assert gone() is not None  # for the backward pass
    loss(outputs).backward()
    del outputs
    gc.collect()
    assert gone() is None


def test_nothing_is_recorded_where_gradients_are_off():
    x, y = values()
    run = operation(Products())
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            assert all(torch.equal(a, b) for a, b in zip(run(x, y), plain(x, y), strict=True))
            assert not any(out.requires_grad for out in run(x, y))


def test_a_graph_that_is_kept_gives_the_same_gradient_twice():
    x, y = values()
    value = loss(operation(Products())(x, y))
    first = torch.autograd.grad(value, [x, y], retain_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(first, torch.autograd.grad(value, [x, y]), strict=True))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(value, [x, y])


def test_a_tangent_is_refused_and_not_lost():
    x, y = (v.detach() for v in values())
    run = operation(Products())
    with pytest.raises(NotImplementedError, match="Products has no forward-mode derivative"):
        torch.func.jvp(lambda given: run(given, y)[0], (x,), (y,))
    kept = torch.func.jvp(lambda given: 2 * given + run(x, y)[0], (x,), (y,))[1]  # of what has no tangent
    assert torch.equal(kept, 2 * y)


def test_second_derivative_is_refused():
    x, y = values()
    (first,) = torch.autograd.grad(loss(operation(Products())(x, y)), [x], create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula|no second derivatives"):
        first.sum().backward()
