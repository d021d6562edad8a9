"""Rows and coordinates of joints, and where they place their children, against the positions themselves."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from joint_cases import BOX, FOUR_BAR, TREE
from scipy.spatial.transform import Rotation

from gradsim import InputError, Model, Scene
from gradsim.numerics import rotation
from gradsim.physics.rigid.joints import joints_of
from gradsim.physics.system import STEP_SAFETY


def laid(content=TREE):
    """The joints of a scene, its parameters, and its states at the start by body and name."""
    model = Model(Scene.parse(content))
    values = {name: v.detach() for name, v in model.values().items()}
    joints: Any = joints_of(model.systems, model.scene)  # pyright: ignore[reportArgumentType] -- all are rigid
    return joints, values, started(joints, values)


def started(joints, values):
    start = joints.start({b.name: b.start(values) for b in joints.bodies}, values)
    return {name: dict(zip("xqvl", own, strict=True)) for name, own in start.items()}


def test_a_start_obeys_every_row_and_keeps_to_it():
    joints, values, states = laid()
    gap, rate = joints.residual(states, values)
    assert gap.shape == (1, 3 + 5 + 5 + 6) and max(gap.abs().max(), rate.abs().max()) < 1e-14


def test_coordinates_of_a_start_are_those_that_the_scene_gives():
    joints, values, states = laid()
    found = joints.coordinates_of(states, values)
    for name in found:
        for key, value in found[name].items():
            assert (value - values[f"joints.{name}.{key}"]).abs().max() < 1e-13, (name, key)


def test_velocities_of_a_start_are_those_of_its_places():
    """Coordinates moved on by their rates for a moment ±h move every body by ±h v and turn it by ±h ω: to O(h²)."""
    joints, values, states = laid()
    h = 1e-5
    places = []
    for sign in (1, -1):
        moved = dict(values)
        for owner, keys in (("joints.elbow", ("angle", "rate")), ("joints.rail", ("displacement", "speed"))):
            moved[f"{owner}.{keys[0]}"] = values[f"{owner}.{keys[0]}"] + sign * h * values[f"{owner}.{keys[1]}"]
        moved["base.position"] = values["base.position"] + sign * h * values["base.velocity"]
        for owner in ("base", "joints.wrist"):
            step = rotation.exponential(sign * h * values[f"{owner}.angular_velocity"])
            turn = rotation.multiply(step, rotation.exponential(values[f"{owner}.rotation_vector"]))
            moved[f"{owner}.rotation_vector"] = rotation.logarithm(turn)
        places.append(started(joints, moved))
    for body in joints.bodies:
        ahead, behind = (place[body.name] for place in places)
        spin = rotation.logarithm(rotation.multiply(ahead["q"], rotation.conjugate(behind["q"]))) / (2 * h)
        own = states[body.name]
        assert ((ahead["x"] - behind["x"]) / (2 * h) - own["v"]).abs().max() < 1e-8, body.name
        assert (spin - body.spin(own["q"], own["l"], values)).abs().max() < 1e-8, body.name


def test_rates_of_rows_are_those_of_their_values():
    """For any motion of the bodies, that of the joints or not: by a central difference along the velocities."""
    joints, values, _ = laid()
    torch.manual_seed(0)
    values, states = {n: v.expand(3, *v.shape[1:]) for n, v in values.items()}, {}
    for body in joints.bodies:
        x, v, spin = torch.randn(3, 3, 3).double()
        q = torch.nn.functional.normalize(torch.randn(3, 4).double(), dim=-1)
        states[body.name] = {"x": x, "q": q, "v": v, "l": body.momentum(q, spin, values)}
    h, ends = 1e-5, []
    for sign in (1, -1):
        moved = {}
        for body in joints.bodies:
            own = states[body.name]
            spin = body.spin(own["q"], own["l"], values)
            q = rotation.multiply(rotation.exponential(sign * h * spin), own["q"])
            moved[body.name] = {**own, "x": own["x"] + sign * h * own["v"], "q": q}
        ends.append(joints.residual(moved, values)[0])
    rate = joints.residual(states, values)[1]
    assert ((ends[0] - ends[1]) / (2 * h) - rate).abs().max() < 1e-9 * rate.abs().max()


def test_an_angle_over_frames_has_no_jumps_of_whole_turns():
    """Two turns and a half, from an angle beyond half a turn."""
    content = {
        "bodies": {"wheel": {"shape": BOX, "mass": 1.0}},
        "joints": {"hub": {"kind": "revolute", "between": ["world", "wheel"], "axis": [1, 2, 2], "angle": 4.0}},
    }
    joints, values, _states = laid(content)
    angles = 4.0 + torch.linspace(0, 5 * np.pi, 40).double()
    q = rotation.from_axis_angle(torch.tensor([1.0, 2, 2]).double().expand(40, 3), angles)[None]
    still = torch.zeros(1, 40, 3).double()
    found = joints.coordinates_of({"wheel": {"x": still, "q": q, "v": still, "l": still}}, values)["hub"]
    assert (found["angle"][0] - angles).abs().max() < 1e-12


def test_a_start_is_differentiable_by_points_axes_scales_and_coordinates():
    joints, values, _ = laid()
    names = [
        n for n in values if n.startswith("joints.") and n.split(".")[-1] in ("child_point", "parent_point", "axis")
    ]
    names += ["joints.elbow.angle", "joints.elbow.rate", "joints.wrist.rotation_vector", "arm.scale", "plate.inertia"]

    def end(*given):
        states = started(joints, {**values, **dict(zip(names, given, strict=True))})
        return tuple(states[n][key] for n in ("hand", "plate") for key in "xqvl")

    given = [values[n].clone().requires_grad_() for n in names]
    assert torch.autograd.gradcheck(end, given, eps=1e-6, atol=1e-7)


def test_a_loop_that_meets_is_taken_and_one_that_is_open_is_refused():
    joints, values, states = laid(FOUR_BAR)
    assert max(y.abs().max() for y in joints.residual(states, values)) < 1e-14
    joints.check(values)
    assert joints.coordinates_of(states, values)["d"]["angle"].abs().max() < 1e-14  # counted from the start
    with pytest.raises(InputError, match=r"joints.d closes a loop that is open by 0.01 m at the start"):
        joints.check({**values, "joints.d.parent_point": torch.tensor([[0.0, 0, -0.41]]).double()})
    with pytest.raises(InputError, match=r"joints.d closes a loop that opens at"):
        joints.check({**values, "joints.b.rate": torch.tensor([1.0]).double()})


def test_given_moments_and_centre_replace_those_of_the_shape():
    """A box of inertia (1, 2, 2.5) about axes turned by 30° about z, weighed off its middle."""
    turn = Rotation.from_euler("z", 30, degrees=True)
    body = {
        "shape": BOX,
        "mass": 2.0,
        "scale": 2.0,
        "inertia": [1.0, 2.0, 2.5],
        "centre_of_mass": [0.1, 0.0, 0.0],
        "inertia_quat_xyzw": turn.as_quat().tolist(),
    }
    model = Model(Scene.parse({"bodies": {"body": body}}))
    (system,), values = model.systems, model.values()
    expected = 4 * turn.as_matrix() @ np.diag([1, 2, 2.5]) @ turn.as_matrix().T
    assert np.abs(system.inertia(values)[0].detach().numpy() - expected).max() < 1e-14  # pyright: ignore
    product = system.inertia(values) @ system.inertia_inverse(values)  # pyright: ignore
    assert (product[0].detach() - torch.eye(3)).abs().max() < 1e-14
    vertices = model.rollout(frames=1).surface.vertices[0, 0].detach()
    assert (vertices.mean(0) - torch.tensor([-0.2, 0, 0], dtype=torch.float64)).abs().max() < 1e-14
    assert model.rollout(frames=1)["body"]["x"].abs().max() == 0


def test_a_good_step_resolves_swings_of_what_is_held_at_its_centre():
    """A bar hinged at its centre, with a ball's centre 0.4 m off it: a swing of ω² = g/0.4 m at the most."""
    hinge = {"kind": "revolute", "between": ["world", "bar"], "axis": [0, 1, 0], "parent_point": [0, 0, 5.0]}
    weight = {"kind": "ball", "between": ["bar", "ball"], "parent_point": [0.4, 0, 0]}
    content = {"gravity": 9.81, "bodies": {"bar": {"shape": BOX, "mass": 1.0}, "ball": {"shape": BOX, "mass": 1.0}}}
    joints, values, _ = laid({**content, "joints": {"hinge": hinge, "weight": weight}})
    assert joints.recommended_step(values) == pytest.approx(STEP_SAFETY * 0.5 * math.sqrt(0.4 / 9.81))
    joints, values, _ = laid({**content, "joints": {"hinge": hinge}})
    assert joints.recommended_step(values) == math.inf  # it turns about its centre, and nothing swings


def test_numbers_of_joints_keep_the_order_of_the_scene():
    joints, values, _ = laid()
    found = dict(zip(joints.names, joints.inputs(values), strict=True))
    assert [kind for kind, *_ in joints.coordinates] == ["ball", "turn", "slide"]
    assert found["spring"].tolist() == [[0, 1, 0]] and found["damping"].tolist() == [[0.02, 0, 0]]
    assert found["upper"][0, 1] == 1.0 and found["limit"].tolist() == [[0, 10, 0]]
    timed = {**values, "joints.rail.force": torch.tensor([[[1.0], [2.0]]]).double()}
    assert dict(zip(joints.names, joints.inputs(timed), strict=True))["torque"].tolist() == [[[0, 0, 1], [0, 0, 2]]]
