"""Replays of recorded calls against the function itself: values, gradients, tangents, and numbers that change in any way."""

import warnings

import pytest
import torch

from gradsim.engine.bound_function import BoundFunction
from gradsim.engine.forward_mode import derivative
from gradsim.engine.numbers import MOST_BYTES, bytes_of

CONSTANT = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)


def outputs(tensors):
    """Products, sequences, several results, a constant, a tensor that is handed on, and one that nothing else touches."""
    a, b, c = tensors["a"], tensors["b"], tensors["c"]
    first, second = torch.stack([a * CONSTANT, b.exp()]).unbind(0)
    wide = torch.broadcast_tensors(c[:, None], a)[0]
    return [first / second, (wide * second).sum(-1), c, a.new_zeros(len(a), 2), torch.cat([a, b.to(a)], 1)]


def numbers(seed: int, worlds: int = 2) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tensor = lambda *shape: torch.rand(worlds, *shape, generator=generator, dtype=torch.float64) + 0.5
    return {"a": tensor(3), "b": tensor(3), "c": tensor()}


@pytest.fixture
def bound() -> BoundFunction:
    """One that has recorded the calls."""
    function = BoundFunction(outputs)
    for seed in range(2):
        function(numbers(seed))
    assert all(recording.is_replayable for recording in function.recordings.values())
    return function


def assert_same(got, expected):
    assert len(got) == len(expected)
    assert all(torch.equal(x, y) for x, y in zip(got, expected, strict=True))


def test_replays_are_the_function_whichever_numbers_change(bound):
    some = numbers(3)
    assert_same(bound(some), outputs(some))
    for name in some:
        some = {**some, name: numbers(4)[name]}
        assert_same(bound(some), outputs(some))
    assert_same(bound(some), outputs(some))


def test_numbers_that_are_written_past_pytorch_are_noticed(bound):
    some = numbers(3)
    bound(some)
    some["b"].data.mul_(2)  # no version counter tells of it
    assert_same(bound(some), outputs(some))
    some["a"].numpy()[0, 1] = 7
    assert_same(bound(some), outputs(some))


def test_an_index_of_several_tensors_stays_one():
    """PyTorch reads a list of them as an index, with a warning, and is to read it as one tensor."""
    order = torch.tensor([2, 0])
    indexed = BoundFunction(lambda tensors: [tensors["a"][tensors["row"], order], tensors["a"][(tensors["row"],)]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(3):
            given = numbers(seed) | {"row": torch.tensor([seed % 2, 0])}
            assert_same(indexed(given), [given["a"][given["row"], order], given["a"][given["row"]]])


def test_results_do_not_follow_a_tensor_that_is_written_to_later(bound):
    some = numbers(3)
    handed_on = bound(some)[2]
    before = handed_on.clone()
    some["c"].mul_(2)
    assert torch.equal(handed_on, before)


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_gradients_are_those_of_the_function(bound, name):
    slopes = []
    for function in (outputs, bound):
        some = numbers(5)
        some[name].requires_grad_()
        slopes.append(torch.autograd.grad(sum(y.square().sum() for y in function(some)), some[name])[0])
    assert torch.equal(*slopes)


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_tangents_are_those_of_the_function(bound, name):
    some, along = numbers(6), {name: numbers(7)[name]}
    moving = {name: some[name]}
    expected = derivative(lambda one: outputs({**some, **one}), moving, along)
    got = derivative(lambda one: bound({**some, **one}, along), moving, along)
    for (value, slope), (y, dy) in zip(zip(*got, strict=True), zip(*expected, strict=True), strict=True):
        assert torch.equal(value, y)
        assert (slope is None) == (dy is None) and (dy is None or torch.equal(slope, dy))


def test_nothing_is_recorded_of_tensors_with_tangents():
    bound, some = BoundFunction(outputs), numbers(8)
    bound(some)  # the second call with these shapes would be recorded
    direction = {name: numbers(9)[name] for name in "ab"}
    moving = {name: some[name] for name in direction}
    values, _ = derivative(lambda one: bound({**some, **one}, direction), moving, direction)
    assert_same(values, outputs(some))
    assert not any(bound.recordings.values())
    for _ in range(2):
        assert_same(bound(some), outputs(some))
    half = {"b": direction["b"]}
    expected = derivative(lambda one: outputs({**some, **one}), {"b": some["b"]}, half)[1]
    got = derivative(lambda one: bound({**some, **one}, half), {"b": some["b"]}, half)[1]
    for x, y in zip(got, expected, strict=True):
        assert (x is None) == (y is None) and (x is None or torch.equal(x, y))


def test_equal_rows_and_other_numbers_of_worlds(bound):
    for worlds in (1, 2, 3, 3, 3):
        some = {name: x[:1].expand(worlds, *x.shape[1:]) for name, x in numbers(worlds).items()}
        assert_same(bound(some), outputs(some))


def test_large_tensors_are_compared_too():
    function = lambda tensors: [tensors["x"] * 2]
    bound, x = BoundFunction(function), torch.arange(MOST_BYTES, dtype=torch.float64)[None]
    assert bytes_of(x) is None
    for _ in range(3):
        assert torch.equal(bound({"x": x})[0], x * 2)
        x[0, -1] += 1


@pytest.mark.parametrize(
    "function",
    [
        lambda tensors: [tensors["x"] * (2 if tensors["x"].sum() > 0 else 3)],
        lambda tensors: [tensors["x"] * tensors["x"].max().item()],
        lambda tensors: [torch.from_numpy(tensors["x"].numpy() * 2)],
        lambda tensors: [(tensors["x"] * 1).mul_(2)],
        lambda tensors: [torch.add(tensors["x"], 1, out=torch.empty_like(tensors["x"]))],
    ],
    ids=["branch", "item", "numpy", "in place", "out"],
)
def test_functions_that_read_or_write_numbers_are_called_as_they_are(function):
    bound = BoundFunction(function)
    for sign in (1.0, 1.0, -1.0, 2.0):
        tensors = {"x": torch.tensor([[sign, 2 * sign]])}
        assert torch.equal(bound(tensors)[0], function(tensors)[0])
    assert not any(recording.is_replayable for recording in bound.recordings.values())


def test_numbers_tell_rows_that_are_equal_from_those_that_are_not():
    row = torch.tensor([[1.0, 2.0]])
    assert bytes_of(row.expand(3, 2)) == bytes_of(row)
    assert bytes_of(row.repeat(3, 1)) != bytes_of(row)
    assert bytes_of(torch.zeros(2, 3).T) is None
