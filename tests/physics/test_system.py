"""Capabilities of bodies, whose default is that of a body without them: poses, velocities, rigid surfaces, contact points."""

import pytest
import soft_cases
import torch
from checks import error
from tolerances import SOLVED, assert_near
from user_body_cases import registered

from gradsim.errors import InputError
from gradsim.physics import Model
from gradsim.physics.contact_events import touches
from gradsim.scene import Scene

SIZE = 0.4
BOX = {"shape": {"box": {"size": [0.3, 0.2, 0.1]}}, "mass": 2.0, "velocity": [1, 0, 2], "angular_velocity": [3, -2, 4]}
ARMS = {"kind": "double_pendulum", "first_length": 0.3, "second_length": 0.2, "first_angle": 1.0, "second_rate": 2.0}
SWING = {"kind": "pendulum", "string_length": 0.4, "radius": 0.1, "angle": 0.7}


def alone(body: dict) -> Model:
    return Model(Scene.parse({"bodies": {"it": body}, "timing": {"fps": 20, "frames": 5, "substeps": 20}}))


@pytest.fixture(params=["rigid", "pendulum", "double", "soft", "user"])
def model(request):
    if request.param == "user":
        with registered() as model:
            yield model
    elif request.param == "soft":
        yield Model(soft_cases.cloth())
    else:
        yield alone({"rigid": BOX, "pendulum": SWING, "double": ARMS}[request.param])


def directions(model: Model) -> list[str]:
    (system,) = model.systems
    return [f"{system.name}.{key}" for key in system.start_keys] or [f"{system.name}.amplitude"]


def rollout(model: Model, name: str, shift: float):
    """The trajectory with a parameter shifted along (1, 2, …)."""
    values = {key: value.detach() for key, value in model.values().items()}
    way = torch.arange(1, values[name][0].numel() + 1, dtype=torch.float64).reshape(values[name].shape)
    with torch.no_grad():
        return model.rollout({name: values[name] + shift * way}, frames=5), values, {name: way}


def test_pose_tangent_is_the_limit_of_pose_differences(model):
    """Central differences of step 1e-6 err by rounding over it, 1e-9, and no contact opens or closes within them."""
    (system,) = model.systems
    for name in directions(model):
        (ahead, *_), (behind, *_) = (rollout(model, name, s) for s in (1e-6, -1e-6))
        _, values, along = rollout(model, name, 0.0)
        with torch.no_grad():
            own, moving = model.tangent(values, along, 5)
        tangent = system.pose_tangent(own[system.name], moving[system.name], SIZE)
        difference = system.pose_difference(ahead[system.name], behind[system.name], SIZE) / 2e-6
        assert tangent.shape == difference.shape
        assert (tangent - difference).abs().max() < 1e-6 * tangent.abs().max().clamp(min=1.0), name


def test_velocity_tangent_is_the_rate_of_the_pose_tangent_in_free_motion():
    """d/dt δx = δv, for a box that turns freely: δω is that of the angular velocity, not of the momentum.

    Of a box with equal moments ω is constant, so δθ(t) = δθ(0) + t δω to first order in t.
    """
    cube = {**BOX, "shape": {"box": {"size": [0.2, 0.2, 0.2]}}, "angular_velocity": [0, 0, 0]}
    model = alone(cube)
    (system,) = model.systems
    _, values, along = rollout(model, "it.angular_velocity", 0.0)
    with torch.no_grad():
        own, moving = model.tangent(values, along, 5)
    args = (own["it"], moving["it"])
    pose, pace = system.pose_tangent(*args, SIZE), system.velocity_tangent(*args, values, along, SIZE)
    assert error(pose[0], own.times[:, None] * pace[0]) < 1e-6
    assert torch.allclose(pace[0, :, 3:], along["it.angular_velocity"].expand(5, 3))


def test_a_tangent_of_the_inertia_changes_the_angular_velocity():
    """ω = I⁻¹ l and I ∝ m, so ∂ω/∂log m = −ω at a fixed momentum."""
    model = alone(BOX)
    (system,) = model.systems
    values = {key: value.detach() for key, value in model.values().items()}
    states = {key: y[:, :1].detach() for key, y in model.rollout(frames=2)["it"].items()}
    still = {key: torch.zeros_like(y) for key, y in states.items()}
    pace = system.velocity_tangent(states, still, values, {"it.mass": values["it.mass"]}, SIZE)
    spin = system.spin(states["q"], states["l"], values)
    assert torch.allclose(pace[..., 3:], -spin) and (pace[..., :3] == 0).all()


def test_only_velocities_of_the_states_count_as_velocities(model):
    (system,) = model.systems
    states = {key: y.detach() for key, y in model.rollout()[system.name].items()}
    values = {key: value.detach() for key, value in model.values().items()}
    pose, pace = (
        system.pose_tangent(states, states, 1.0),
        system.velocity_tangent(states, states, values, {}, 1.0),
    )
    assert pose.shape[:2] == pace.shape[:2] == (1, model.scene.timing.frames)
    assert pose.shape[2] + pace.shape[2] <= system.state_size  # a quaternion has one number more than a turn
    assert set(system.velocities) < set(system.states)


def test_points_of_contact_are_there_where_there_is_something_to_touch(model):
    (system,) = model.systems
    touching = system.contact_points
    assert (touching is None) == (not model.scene.surfaces or not system.contact_law)
    if touching is None:
        with pytest.raises(InputError, match="no points of contact"):
            touches(system, model.rollout()[system.name], model.values())


def test_points_of_contact_move_as_the_surface_does():
    """Of a box that its vertices touch with: their places, and velocities by central differences over 2 h = 2e-3 s."""
    content = {"ground": {"height": -9.0, "stiffness": 100}, "gravity": 0}
    timing = {"fps": 1000, "frames": 3, "substeps": 1, "integrator": "rk4"}
    model = Model(Scene.parse({"bodies": {"it": BOX}, "timing": timing, **content}))
    (system,) = model.systems
    trajectory = model.rollout()
    points, states = system.contact_points, {key: y[0].detach() for key, y in trajectory["it"].items()}
    assert points is not None and points.surfaces == ["ground"] and points.label(3) == "vertex 3"
    parameters = {key: y[0].detach() for key, y in points.parameters(trajectory.values).items()}
    surface = trajectory.surface.vertices[0].detach()
    assert torch.equal(points.positions(states, parameters)[:, 0], surface)
    velocity = points.velocities(states, parameters, torch.zeros(3, 1, points.count, 3, dtype=torch.float64))
    assert error((surface[2] - surface[0]) / 2e-3, velocity[1, 0]) < 1e-5


def test_only_a_body_whose_shape_changes_has_elements(model):
    (system,) = model.systems
    shape = system.deformable
    assert (shape is None) == (system.states != ("x", "v"))
    if shape is not None:
        main, hinges = shape.elements_of("mu_factor"), shape.elements_of("bending_damping")
        assert main.shape[1] == 3 and hinges.shape[1] == 4 and len(shape.free) == len(shape.rest)
        assert torch.equal(main, shape.elements_of(""))


def test_a_body_alone_is_an_island_without_pairs_and_joints(model):
    (island,) = model.groups
    assert island.is_single and island.pairs is None and island.open_joint_message({}, {}, []) == ""


def test_bodies_that_touch_or_hold_one_another_are_an_island_that_is_not_single():
    bodies = {"a": {**BOX, "position": [0, 0, 1]}, "b": BOX}
    contacts = {"all": {"between": ["a", "b"], "stiffness": 1e4}}
    model = Model(Scene.parse({"bodies": bodies, "contacts": contacts, "timing": {"frames": 2, "substeps": 100}}))
    (island,) = model.groups
    assert (
        not island.is_single
        and island.pairs.contacts == {(0, 1): "all"}
        and island.open_joint_message({}, {}, []) == ""
    )


@pytest.mark.parametrize("body", [BOX, SWING, ARMS, {**ARMS, "second_colour": [1, 0, 0]}])
def test_the_scene_knows_the_color_of_each_part(body):
    model = alone(body)
    (system,) = model.systems
    colors = model.scene.bodies["it"].part_colors("it")
    assert list(colors) == [part.name for part in system.parts]
    for part in system.parts:
        assert tuple(torch.as_tensor(part.appearance.color).tolist()) == pytest.approx(colors[part.name])


def test_a_rollout_begins_in_the_state_of_a_frame_of_another(model):
    """Bodies without a start state say so; of others frame 2 begins a rollout whose frame 2 is frame 4 of the first."""
    (system,) = model.systems
    start = system.start_state
    assert (start is None) == (system.states[0] in ("height", "x") and "q" not in system.states)
    if start is None:
        return
    with torch.no_grad():
        trajectory = model.rollout(frames=5)
        frame = lambda k: {key: y[:, k] for key, y in trajectory[system.name].items()}
        instant = start.instant(frame(2), trajectory.values)
        numbers = start.numbers(instant)
        assert numbers.shape == (1, start.size) and sum(start.parts.values()) == start.size == len(start.units(1.0))
        again = model.rollout(start.parameters(numbers), frames=3)[system.name]
    for key, y in frame(4).items():
        assert_near(again[key][:, 2], y, SOLVED)
    later = start.instant(frame(4), trajectory.values)
    assert (start.gap(instant, instant).abs() < 1e-12).all() and (start.gap(instant, later).abs() > 1e-3).any()


def test_a_surface_that_a_pose_carries_is_the_surface(model):
    (system,) = model.systems
    trajectory = model.rollout()
    carried = system.rigid_shape_and_pose(trajectory[system.name], trajectory.values)
    assert (carried is not None) == (system.states == ("x", "q", "v", "l"))
    if carried is not None:
        rest, x, q = carried
        whole = system.vertices([x, q], trajectory.values)
        assert torch.equal(whole, trajectory.surface.vertices) and rest.shape[1] == whole.shape[2]
