"""Derivatives along a direction, by the rules of sums and products with a constant, against those of `torch.func`."""

import subprocess
import sys

import pytest
import torch
from tolerances import ULPS, assert_near, near

from gradsim.engine.forward_mode import derivative

generator = torch.Generator().manual_seed(0)
x, y, dx, dy, row, column = (
    torch.rand(shape, generator=generator, dtype=torch.float64) + 0.5
    for shape in [(4, 3), (4, 3), (4, 3), (4, 3), (3,), (4, 1)]
)

SOFTMAX = """
import sys, torch
from gradsim.engine.forward_mode import derivative

inverse = lambda s: [1 / (s["x"] + 1), 2 - s["x"], torch.linalg.cross(s["x"], torch.ones(3))]
derivative(inverse, {"x": torch.ones(3)}, {"x": torch.ones(3)})
print("torch._dynamo" in sys.modules)
x, dx = {"x": torch.arange(4.0).reshape(2, 2)}, {"x": torch.tensor([[3.0, 1.0], [1.0, 1.0]])}
gradient = lambda s: torch.ops.aten._softmax_backward_data(2 * s["x"], torch.softmax(s["x"], 1), 1, torch.float32)
for function in (lambda s: torch.softmax(s["x"], 1), gradient):
    (tangent,) = derivative(lambda s: [function(s)], x, dx)[1]
    print("torch._decomp.decompositions_for_jvp" in sys.modules)
print(torch.equal(tangent, torch.func.jvp(gradient, (x,), (dx,))[1]))
"""

FUNCTIONS = {
    "sum": lambda s: s["x"] + row,
    "sum with a constant first": lambda s: row + s["x"],
    "sum that broadcasts": lambda s: s["x"][:, :1] + row,
    "difference": lambda s: s["x"] - column,
    "difference from a constant": lambda s: column - s["x"],
    "difference from a constant that broadcasts": lambda s: row - s["x"][:, :1],
    "product": lambda s: s["x"] * row,
    "product with a constant first": lambda s: row * s["x"],
    "quotient": lambda s: s["x"] / column,
    "quotient of a constant": lambda s: column / s["x"],
    "product of vectors": lambda s: torch.linalg.cross(s["x"], row.expand(4, 3)),
    "product of vectors with a constant first": lambda s: torch.linalg.cross(row[None], s["x"]),
    "product of two vectors that vary": lambda s: torch.linalg.cross(s["x"], s["y"]),
    "quotient of a number": lambda s: 3 / s["x"],
    "difference from a number": lambda s: 2 - s["x"],
    "quotient of an integer tensor": lambda s: torch.arange(1, 4) / s["x"],
    "numbers": lambda s: 2 * (1 - s["x"] / 3) - 4 / (s["x"] + 1) * 5,
    "two variables": lambda s: s["x"] * s["y"] / (s["x"] + s["y"]) - s["y"],
    "keywords": lambda s: torch.add(s["x"], row, alpha=2) * torch.mul(s["y"], column),
    "in place": lambda s: (s["x"] * 1).mul_(row).add_(column),
    "of another type": lambda s: s["x"] * torch.arange(3),
    "difference from a constant of double precision": lambda s: row - s["x"].float(),
    "sum with a constant of double precision": lambda s: s["x"].float() + row,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives_are_those_of_torch_func(name):
    function = FUNCTIONS[name]
    values, tangents = derivative(lambda s: [function(s)], {"x": x, "y": y}, {"x": dx, "y": dy})
    value, tangent, *_ = torch.func.jvp(lambda *s: function(dict(zip("xy", s, strict=True))), (x, y), (dx, dy))
    assert torch.equal(values[0], value)
    assert tangents[0] is not None
    assert_near(tangents[0], tangent, ULPS)


def test_an_output_of_constants_has_no_derivative():
    assert derivative(lambda s: [row * 2 - 1, s["x"]], {"x": x}, {"x": dx})[1][0] is None


def test_a_derivative_has_a_gradient():
    """d/dc of the sum of ∂(c x²)/∂x dx is the sum of 2 x dx."""
    c = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    ((tangent,),) = [derivative(lambda s: [c * s["x"] * s["x"]], {"x": x}, {"x": dx})[1]]
    assert tangent is not None
    (gradient,) = torch.autograd.grad(tangent.sum(), c)
    assert gradient.item() == near((2 * x * dx).sum().item(), ULPS)


def test_what_few_operations_need_is_compiled_when_one_is_met():
    """PyTorch has a rule for a softmax, and for its gradient what that is made of; its compiler is not read for a quotient."""
    lines = subprocess.run([sys.executable, "-c", SOFTMAX], check=True, capture_output=True, text=True).stdout.split()
    assert lines == ["False", "False", "True", "True"]
