"""Tensors to registers of worlds and back."""

import pytest
import torch
import warp as wp

from gradsim.engine.lanes import Lane
from gradsim.engine.layout import Layout

SHAPES = {"Real": (), "Vec3": (3,), "Mat3": (3, 3), "Quat": (4,)}
LANES = [Lane("float64", 8), Lane("float64", 1), Lane("float32", 16), Lane("float64", 4)]


def numbers(*shape: int, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("items", [(), (5,), (2, 3), (0,)])
@pytest.mark.parametrize("worlds", [1, 7, 8, 17])
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
def test_unpacking_gives_back_what_was_packed(lane, kind, worlds, items):
    layout = Layout(lane)
    value = numbers(worlds, *items, *SHAPES[kind], dtype=layout.dtype)
    array = layout.pack(kind, value)
    assert array.shape == (layout.packs(worlds), *items)
    assert layout.packs(worlds) * lane.width >= worlds > (layout.packs(worlds) - 1) * lane.width
    back, tangent = layout.unpack(kind, array, worlds)
    assert torch.equal(back, value)
    assert tangent is None


@pytest.mark.parametrize("items", [(), (5,), (0,)])
@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize("kind", SHAPES)
def test_dual_arrays_carry_value_and_tangent(kind, width, items):
    layout = Layout(Lane("float64", width, dual=True))
    value, along = numbers(11, *items, *SHAPES[kind]), numbers(11, *items, *SHAPES[kind]) + 1
    back, tangent = layout.unpack(kind, layout.pack(kind, value, along), 11)
    assert torch.equal(back, value)
    assert tangent is not None
    assert torch.equal(tangent, along)
    back, tangent = layout.unpack(kind, layout.pack(kind, value), 11)
    assert torch.equal(back, value)
    assert tangent is not None
    assert not tangent.any()


def test_worlds_lie_next_to_each_other_and_copies_of_the_last_fill_up():
    tensor = wp.to_torch(Layout(Lane("float64", 8)).pack("Vec3", numbers(11, 2, 3)))
    assert tensor.shape == (2, 2, 3, 8)
    worlds = tensor.permute(0, 3, 1, 2).reshape(16, 2, 3)
    assert torch.equal(worlds[:11], numbers(11, 2, 3))
    assert torch.equal(worlds[11:], numbers(11, 2, 3)[-1:].expand(5, 2, 3))


@pytest.mark.parametrize(
    "view", [lambda x: x.flip(1), lambda x: x[::2], lambda x: x.mT, lambda x: x[:1].expand(9, -1, -1)]
)
def test_any_view_of_a_tensor_can_be_packed(view):
    value = view(numbers(9, 3, 3))
    layout = Layout(Lane("float64", 8))
    assert torch.equal(layout.unpack("Vec3", layout.pack("Vec3", value), len(value))[0], value)


def test_zeros_have_the_shape_of_a_packed_tensor():
    layout = Layout(Lane("float32", 16))
    for kind, shape in SHAPES.items():
        zeros, packed = layout.zeros(kind, 17, (2,), torch.device("cpu")), layout.pack(kind, numbers(17, 2, *shape))
        assert (zeros.shape, zeros.dtype) == (packed.shape, packed.dtype)
        assert not wp.to_torch(zeros).any()


def test_scalars_are_converted_to_the_precision_of_the_lanes():
    array = Layout(Lane("float32", 16)).scalars(numbers(4, 2))
    assert array.shape == (4, 2)
    assert torch.equal(wp.to_torch(array), numbers(4, 2).float())


@pytest.mark.parametrize("worlds", [1, 3, 9])
@pytest.mark.parametrize("kind", ["Real", "Quat"])
def test_an_array_is_filled_again_from_tensors_that_require_a_gradient(kind, worlds):
    """First where no gradients are recorded, then where they are: the array belongs to no graph."""
    layout = Layout(Lane("float64", 4))
    array = layout.zeros(kind, worlds, (2,), torch.device("cpu"))
    for is_recorded in (False, True, True):
        value = torch.randn(worlds, 2, *SHAPES[kind], dtype=torch.float64, requires_grad=True)
        with torch.set_grad_enabled(is_recorded):
            layout.fill(array, kind, value)
            assert torch.equal(layout.unpack(kind, array, worlds)[0], value)
        assert not layout.memory(array).requires_grad
        assert torch.equal(layout.memory(array), layout.memory(layout.pack(kind, value.detach())))


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
def test_an_array_is_filled_again_where_numbers_are_others(lane):
    layout = Layout(lane)
    value = numbers(3, 4, 3, dtype=layout.dtype)
    array = layout.zeros("Vec3", 3, (4,), torch.device("cpu"))
    for step in range(3):
        for _ in range(2):
            layout.fill_where_new(array, "Vec3", value)
            assert torch.equal(layout.unpack("Vec3", array, 3)[0], value)
        value[2, 3, step] += 1  # in place
    layout.fill_where_new(array, "Vec3", value[:1])
    assert torch.equal(layout.unpack("Vec3", array, 3)[0], value[:1].expand(3, 4, 3))


@pytest.mark.parametrize("dual", [False, True])
def test_one_row_of_numbers_fills_an_array_for_any_number_of_worlds(monkeypatch, dual):
    """Copies of the last world fill up; rows that differ, and the same bytes of another precision, are written."""
    layout, written = Layout(Lane("float64", 8, dual)), []
    array, fill = layout.zeros("Real", 8, (2,), torch.device("cpu")), Layout.fill
    monkeypatch.setattr(Layout, "fill", lambda self, *args: written.append(1) or fill(self, *args))
    row, rows = torch.randn(1, 2).double(), torch.randn(3, 2).double()
    cases = (row.expand(5, 2), True), (row.expand(3, 2), False), (row, False), (rows, True), (rows[:2], True)
    for value, is_written in (*cases, (row.expand(7, 2), True), (row.view(torch.float32)[:, :2], True)):
        written.clear()
        layout.fill_where_new(array, "Real", value, value if dual else None)
        assert bool(written) == is_written
        expected = torch.cat([value, value[-1:].expand(8 - len(value), 2)]).double()
        for part in layout.unpack("Real", array, 8)[: 1 + dual]:
            assert part is not None and torch.equal(part, expected)
