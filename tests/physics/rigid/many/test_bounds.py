"""Bounds and checks of many bodies at once are those of each body by itself."""

import pytest
import torch
from tolerances import ULPS, assert_near

from gradsim import Model, Scene
from gradsim.errors import InputError
from gradsim.physics.rigid.island import ConstrainedIsland

BOX, BALL = {"box": {"size": [0.2, 0.3, 0.4]}}, {"sphere": {"radius": 0.1}}


def scene(integrator: str = "rk4", height: float = 1.0, **more) -> Scene:
    """Boxes and a ball that can touch, of which one has its own contact parameters and no two the same scale."""
    bodies = {
        "first": {"shape": BOX, "mass": 2.0, "position": [0, 0, height], "angular_velocity": [1.0, 5.0, 2.0]},
        "ball": {"shape": BALL, "density": 700, "position": [1, 0, 2], "velocity": [0, 1, -3], "scale": 1.3},
        "last": {"shape": BOX, "mass": 0.5, "position": [3, 0, 1.5], "stiffness": 3e4, "friction": 0.2, **more},
    }
    ground = {"stiffness": 1e4, "dissipation": 0.4, "friction_stiffness": 30, "friction": 0.5, "rolling_friction": 0.01}
    contact = {"between": "all", "stiffness": 1e4, "friction_stiffness": 20, "friction": 0.5}
    timing = {"fps": 60, "frames": 3, "substeps": 200, "integrator": integrator}
    obstacle = {"radius": 0.3, "position": [0, 3, 0], "stiffness": 2e4}
    return Scene.parse(
        {
            "timing": timing,
            "bodies": bodies,
            "ground": ground,
            "obstacles": {"post": obstacle},
            "contacts": {"c": contact},
        }
    )


def island(model: Model) -> ConstrainedIsland:
    (group,) = model.groups
    assert isinstance(group, ConstrainedIsland)
    return group


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit"])
@pytest.mark.parametrize("more", [{}, {"drag": 3.0}, {"pushes": [{"impulse": [3, 0, 9], "point": [0, 0.1, 0]}]}])
def test_bounds_of_all_are_the_smallest_of_each(integrator, more):
    model = Model(scene(integrator, **more))
    group, values = island(model), model.values({"first.mass": torch.tensor([2.0, 0.3]).double()})
    speeds = [body.impact_speed(values) for body in group.systems]
    together = group.bounds.impact_speeds(values, group.stack.start(values), torch.zeros(3).double())
    assert_near(together, torch.stack(speeds, 1), ULPS)
    assert_near(group.bounds.stable_step(values), min(body.stable_step(values) for body in group.systems), ULPS)
    least = min(body.recommended_step(values, v) for body, v in zip(group.systems, speeds, strict=True))
    assert_near(group.bounds.recommended_step(values, together), least, ULPS)


def test_a_body_inside_the_ground_is_named_as_by_itself():
    model = Model(scene())
    values = model.values({"first.position": torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 0.1]]).double()})
    body = island(model).systems[0]
    with pytest.raises(InputError) as alone:
        body.check(values)
    with pytest.raises(InputError) as together:
        island(model).check(values)
    assert str(together.value) == str(alone.value) and "`first` starts 0.1 m inside `ground`" in str(alone.value)


def test_start_and_inertia_of_all_are_those_of_each():
    model = Model(scene())
    group, values = island(model), model.values()
    for k, states in enumerate(zip(*(body.start(values) for body in group.systems), strict=True)):
        assert_near(group.stack.start(values)[k], torch.stack(states, 1), ULPS)
    assert_near(group.stack.inertia(values), torch.stack([body.inertia(values) for body in group.systems], 1), ULPS)
