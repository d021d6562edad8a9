"""Functions of columns of parameters: their results are those of the function, whatever changes from call to call."""

import torch

from gradsim.physics.rigid.many.columns import BoundColumns, Column

MASSES, FORCE = Column(["a.mass", "b.mass"]), Column(["a.force", "b.force"])


def accelerations(values):
    """Of two bodies (worlds, 2), less g; of one that has a drag less that."""
    drag = values["b.drag"] if "b.drag" in values else 0.0  # noqa: SIM401 -- reads as bodies do
    force = (
        FORCE.of(values)
        if FORCE.is_even(values)
        else torch.stack([y.sum(-1).reshape(-1) for y in FORCE.parts(values)], 1)
    )
    return [force / MASSES.of(values) - values["g"][:, None] - drag]


def parameters(**changed):
    names = {"a.mass": 2.0, "b.mass": 3.0, "a.force": 5.0, "b.force": 7.0, "g": 9.81}
    return {name: torch.tensor([x]).double() for name, x in (names | changed).items()}


def test_results_follow_whatever_number_changes():
    bound = BoundColumns(accelerations)
    for changed in ({}, {}, {}, {"a.mass": 4.0}, {"g": 1.0}, {"a.mass": 4.0}, {"b.force": 1.0}):
        values = parameters(**changed)
        assert torch.equal(bound(values)[0], accelerations(values)[0])


def test_numbers_written_in_place_are_noticed():
    bound, values = BoundColumns(accelerations), parameters()
    for _ in range(3):
        bound(values)
    values["b.mass"].data.fill_(11.0)
    assert torch.equal(bound(values)[0], accelerations(values)[0])


def test_gradients_are_those_of_the_function():
    bound, values = BoundColumns(accelerations), parameters()
    for _ in range(3):
        bound(values)
    leaf = values["a.mass"].clone().requires_grad_()
    (slope,) = torch.autograd.grad(bound({**values, "a.mass": leaf})[0].sum(), leaf)
    assert slope == -5.0 / 4.0


def test_tangents_are_those_of_the_function():
    bound, values = BoundColumns(accelerations), parameters()
    for _ in range(3):
        bound(values)
    with torch.autograd.forward_ad.dual_level():
        moving = torch.autograd.forward_ad.make_dual(values["b.force"], torch.ones(1).double())
        tangent = torch.autograd.forward_ad.unpack_dual(bound({**values, "b.force": moving}, ["b.force"])[0]).tangent
    assert torch.equal(tangent, torch.tensor([[0.0, 1 / 3]], dtype=torch.float64))


def test_a_number_for_each_interval_needs_no_column():
    bound, values = BoundColumns(accelerations), parameters()
    for _ in range(3):
        bound(values)
    timed = {**values, "a.force": torch.tensor([[2.0, 1.0]]).double()}
    assert torch.equal(bound(timed)[0], accelerations(timed)[0])


def test_what_is_in_the_parameters_decides_as_before():
    bound, values = BoundColumns(accelerations), parameters(**{"b.drag": 0.5})
    for _ in range(3):
        assert torch.equal(bound(values)[0], accelerations(values)[0])
