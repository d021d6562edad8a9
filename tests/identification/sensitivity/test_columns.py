"""Derivatives of a motion that are computed once, against a tangent of each direction alone and against differences."""

import pytest
import torch

from gradsim.identification.sensitivity.columns import Columns
from gradsim.identification.sensitivity.lyapunov import growth
from gradsim.physics.model import Model
from gradsim.scene import Scene

FRAMES = 6
NAMES = ("cube.mass", "camera.focal", "ground.friction", "gravity")
STEP = 1e-5


@pytest.fixture(scope="module")
def model() -> Model:
    scene = Scene.library("cube")
    return Model(scene.model_copy(update={"timing": scene.timing.model_copy(update={"frames": FRAMES})}))


@pytest.fixture
def tangents_of(monkeypatch) -> list[int]:
    """Worlds of each tangent that a model computes."""
    counts, plain = [], Model.tangent

    def tangent(self, values, direction, frames):
        counts.append(len(next(iter(direction.values()))))
        return plain(self, values, direction, frames)

    monkeypatch.setattr(Model, "tangent", tangent)
    return counts


def directions(model: Model, names: tuple[str, ...], rate: float = 1.0) -> tuple[dict, dict]:
    """All parameters in a world for each name, and `rate` along it: along the last component of a vector."""
    along = {}
    for k, name in enumerate(names):
        along[name] = torch.zeros(len(names), *model.get_parameter(name).shape, dtype=torch.float64)
        along[name].view(len(names), -1)[k, -1] = rate
    first = {name: model.get_parameter(name).detach().expand_as(x).clone() for name, x in along.items()}
    return model.values(first), along


def tensors(trajectory) -> list[torch.Tensor]:
    return [y for state in trajectory.states.values() for y in state.values()]


def test_directions_at_once_are_those_alone_and_differences(model):
    values, along = directions(model, NAMES)
    trajectory, moving = Columns().tangent(model, values, along, FRAMES)
    for k, name in enumerate(NAMES):
        one = {n: x[k : k + 1] for n, x in values.items()}
        alone = model.tangent(one, {name: along[name][k : k + 1]}, FRAMES)
        pairs = zip((trajectory, moving), alone, strict=True)
        for y, z in ((y, z) for both, single in pairs for y, z in zip(tensors(both), tensors(single), strict=True)):
            assert torch.allclose(y[k], z[0], rtol=1e-10, atol=1e-10)
        ends = [
            tensors(model.rollout_unchecked({**one, name: one[name] + sign * STEP * along[name][k]}, FRAMES))
            for sign in (1, -1)
        ]
        for slope, high, low in zip(tensors(moving), *ends, strict=True):
            size = max(1.0, slope[k].abs().max().item())
            assert torch.allclose(slope[k], (high - low)[0] / (2 * STEP), atol=1e-4 * size)
    assert not any(y[1].any() for y in tensors(moving))  # a camera moves nothing
    assert all(y[0].any() for y in tensors(moving))


def test_a_direction_is_computed_once_whatever_its_rate(model, tangents_of):
    columns = Columns()
    first = columns.tangent(model, *directions(model, NAMES[:3]), FRAMES)[1]
    assert tangents_of == [2]  # not along the focal length
    again = columns.tangent(model, *directions(model, NAMES[:3]), FRAMES)[1]
    wider = columns.tangent(model, *directions(model, NAMES, rate=3.0), FRAMES)[1]
    assert tangents_of == [2, 1]
    for y, z, w in zip(tensors(first), tensors(again), tensors(wider), strict=True):
        assert torch.equal(y, z) and torch.allclose(3 * y, w[:3], rtol=1e-14)
    columns.clear()
    columns.tangent(model, *directions(model, NAMES), FRAMES)
    assert tangents_of == [2, 1, 3]


def test_another_point_or_length_is_another_motion(model, tangents_of):
    columns, (values, along) = Columns(), directions(model, NAMES)
    columns.tangent(model, values, along, FRAMES)
    heavier = {**values, "cube.mass": 2 * values["cube.mass"]}
    results = [columns.tangent(model, heavier, along, FRAMES), columns.tangent(model, values, along, 3)]
    expected = [model.tangent(heavier, along, FRAMES), model.tangent(values, along, 3)]
    assert tangents_of[:3] == [3, 3, 3]
    for pair, other in zip(results, expected, strict=True):
        for y, z in zip(map(tensors, pair), map(tensors, other), strict=True):
            assert all(map(torch.equal, y, z))


def test_growth_takes_what_is_known(model, tangents_of):
    columns = Columns()
    first = growth(model, frames=FRAMES, columns=columns)
    again = growth(model, frames=FRAMES, columns=columns)
    assert tangents_of == [12] and torch.equal(first.growth, again.growth)
