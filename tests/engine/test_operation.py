"""A program as an operation of PyTorch."""

import builtins
import gc
import weakref

import pytest
import torch
from checks import gradients
from derivative_cases import SECOND
from tolerances import ULPS, assert_near
from torch.func import grad, jacrev, vjp, vmap

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


FIRST = {
    "grad": lambda function, x: grad(lambda x: function(x).square().sum())(x),
    "vjp": lambda function, x: vjp(function, x)[1](torch.ones(4, 3).double())[0],
    "jacrev": lambda function, x: jacrev(function)(x),
    "vmap": lambda function, x: vmap(function)(torch.stack([x, 2 * x])),
    "vmap of grad": lambda function, x: vmap(grad(lambda x: function(x).square().sum()))(torch.stack([x, 2 * x])),
    "grad of vmap": lambda function, x: grad(lambda xs: vmap(function)(xs).square().sum())(torch.stack([x, 2 * x])),
    "jacrev of vmap": lambda function, x: jacrev(lambda xs: vmap(function, 1, 1)(xs).sum(1))(torch.stack([x, 2 * x], 1)),
    "grad without create_graph": lambda function, x: torch.no_grad()(grad(lambda x: function(x).sum()))(x),
    "functional.jacobian": lambda function, x: torch.autograd.functional.jacobian(function, x),
}  # fmt: skip


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


def test_compiled_function_may_change_its_operation():
    x, y = values()
    runs = operation(Products()), operation(Products())
    compiled = torch.compile(lambda run, x, y: loss(run(x, y)), fullgraph=True, backend="aot_eager")
    assert all(torch.equal(compiled(run, x, y), loss(run(x, y))) for run in runs * 2)


def test_operation_keeps_the_contract_of_pytorch():
    x, y = values()
    program = Products()
    run = operation(program)
    from gradsim.engine import operation as module

    (key,) = [k for k, kept in module._programs.items() if kept is program]
    torch.library.opcheck(torch.ops.gradsim.run.default, ([x, y], key))
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


@pytest.mark.parametrize("way", SECOND)
@pytest.mark.parametrize("linear", [False, True], ids=["adjoints depend on inputs", "constant adjoints"])
def test_second_derivatives_are_refused(way, linear):
    """Also where they are 0 by what autograd sees: adjoints are constants, and so are saved inputs behind the node."""
    x, y = (v.detach() for v in values())
    run = operation(Products())
    through = lambda x: run(2 * x, y)[0].sum() if linear else loss(run(2 * x, y))
    with pytest.raises(NotImplementedError, match=r"^Products (is differentiable once|has no forward-mode derivative)"):
        SECOND[way](through, x)


def test_second_derivatives_that_do_not_pass_through_it_are_those_of_pytorch():
    x, y = values()
    total = loss(operation(Products())(x, y)) + y.detach()[0] @ x[1] ** 3
    z = torch.rand(3, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(total * 2 + (z**3).sum(), z, create_graph=True)
    assert torch.equal(torch.autograd.grad(first.sum(), z)[0], 6 * z)


@pytest.mark.parametrize("name", FIRST)
def test_transforms_of_first_order_are_those_of_pytorch(name):
    x, y = (v.detach() for v in values())
    run = operation(Products())
    got, wanted = FIRST[name](lambda x: run(2 * x, y)[0], x), FIRST[name](lambda x: plain(2 * x, y)[0], x)
    assert_near(got, wanted, ULPS)


def test_an_input_without_gradient_stays_without_under_transforms():
    class Blind(Products):
        def backward(self, inputs, outputs, adjoints):
            return [super().backward(inputs, outputs, adjoints)[0], None]

    run, (x, y) = operation(Blind()), values()
    (gradient,) = torch.autograd.grad(run(x, y)[0].sum(), [y], allow_unused=True, create_graph=True)
    assert gradient is None
    each = torch.func.jacrev(lambda x: run(x, y.detach())[0])(x.detach())
    assert torch.equal(each, torch.func.jacrev(lambda x: x * y.detach())(x.detach()))


def test_batched_adjoints_of_autograd_are_refused():
    x, y = values()
    out = operation(Products())(x, y)[1]
    with pytest.raises(RuntimeError, match="Batching rule"):
        torch.autograd.grad(out, x, torch.eye(4).double(), is_grads_batched=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("way", ["autograd.grad of autograd.grad", "backward of autograd.grad", "backward of backward"])
def test_second_derivatives_of_a_compiled_function_raise(way, backend):
    x, y = (v.detach() for v in values())
    run = operation(Products())
    compiled = torch.compile(lambda x: loss(run(2 * x, y)), fullgraph=True, backend=backend)
    with pytest.raises(RuntimeError, match="double backward|no autograd formula|not have been used in the graph"):
        SECOND[way](compiled, x)


def test_a_tangent_is_refused_while_compiling(monkeypatch):
    nested: dict = {}
    for _ in range(3000):  # deeper than the stack: compiling must not walk what the modules of a process have in sight
        nested = {"deeper": nested}
    monkeypatch.setattr(builtins, "nested", nested, raising=False)
    x, y = (v.detach() for v in values())
    run = operation(Products())
    along = torch.compile(lambda x: torch.func.jvp(lambda x: run(x, y)[0], (x,), (y,))[1], backend="eager")
    with pytest.raises(NotImplementedError, match="Products has no forward-mode derivative"):
        along(x)
