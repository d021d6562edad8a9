"""Scenes whose rigid bodies hold one another: one group, with the states of each body by its name."""

import pytest
import torch
from tolerances import SOLVED, ULPS, assert_near

from gradsim import Model, Scene
from gradsim.errors import InputError
from gradsim.physics.model import Divergence
from gradsim.physics.repeated_calls import RepeatedCall
from gradsim.physics.rigid import multibody
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.island import ConstrainedIsland

pytestmark = pytest.mark.usefixtures("unoptimized_kernels")

LINK = {"shape": {"box": {"size": [0.1, 0.1, 0.6]}}, "mass": 0.8}


def scene(**timing) -> Scene:
    return Scene.parse(
        {
            "timing": {"fps": 60, "frames": 7, "integrator": "rk4", "substeps": 4, **timing},
            "bodies": {"free": {**LINK, "position": [2, 0, 0]}, "upper": LINK, "lower": LINK},
            "joints": {
                "hip": {
                    "kind": "revolute",
                    "between": ["world", "upper"],
                    "axis": [0, 1, 0],
                    "child_point": [0, 0, 0.3],
                    "angle": 0.7,
                    "rate": 1.5,
                },
                "knee": {
                    "kind": "ball",
                    "between": ["upper", "lower"],
                    "parent_point": [0, 0, -0.3],
                    "child_point": [0, 0, 0.3],
                    "angular_velocity": [0.3, 1.0, 0.5],
                    "damping": 0.02,
                },
            },
        }
    )


def test_bodies_that_hold_one_another_are_one_group_and_a_free_one_is_alone():
    alone, linked = Model(scene()).groups
    assert [s.name for s in alone.systems] == ["free"]
    assert isinstance(linked, ConstrainedIsland) and [s.name for s in linked.systems] == ["upper", "lower"]


def test_joints_stay_closed():
    model = Model(scene())
    trajectory, linked = model.rollout(), model.groups[1]
    assert isinstance(linked, ConstrainedIsland) and linked.joints
    gap, rate = linked.joints.residual(trajectory.states, trajectory.values)
    assert gap.abs().max() < 1e-6 and rate.abs().max() < 1e-5  # fourth order at h = 1/240 s


def test_a_rollout_can_go_on_from_its_own_state():
    model = Model(scene())
    whole = model.rollout(frames=7)
    states = {name: {k: y[:, 3] for k, y in own.items()} for name, own in whole.states.items()}
    rest = model.rollout(frames=4, start=states)
    for name, own in rest.states.items():
        for k, y in own.items():
            torch.testing.assert_close(y, whole[name][k][:, 3:], rtol=0, atol=0)


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit"])
def test_gradients_are_the_same_bits_where_evaluations_are_made_again(monkeypatch, integrator):
    model = Model(scene(integrator=integrator))
    names = ["joints.hip.angle", "lower.mass", "gravity", "upper.scale"]
    slopes = []
    for most in (multibody.MOST_SLOT_BYTES, 0):
        monkeypatch.setattr(multibody, "MOST_SLOT_BYTES", most)
        model.groups[1].program(5, model.substeps, model.dt, 1).pool.clear()  # pyright: ignore[reportAttributeAccessIssue] -- of rigid bodies
        leaves = {name: model.get_parameter(name).detach()[None].clone().requires_grad_() for name in names}
        end = model.rollout(leaves, frames=5)["lower"]
        slopes.append(torch.autograd.grad(end["x"].square().sum() + end["l"].sum(), list(leaves.values())))
    for first, second in zip(*slopes, strict=True):
        assert first.any() and torch.equal(first, second)


def test_calls_with_other_numbers_in_between_are_the_same_bits():
    model = Model(scene(integrator="semi-implicit"))
    heavy = {"lower.mass": torch.tensor([3.0]).double()}
    first = model.rollout(frames=3)["lower"]["x"]
    for overrides in (heavy, {}, {"joints.hip.angle": torch.tensor([0.1]).double()}, {}):
        again = model.rollout(overrides, frames=3)["lower"]["x"]
        assert torch.equal(again, first) == (not overrides)
    assert torch.equal(
        model.rollout(heavy, frames=3)["lower"]["x"],
        Model(scene(integrator="semi-implicit")).rollout(heavy, frames=3)["lower"]["x"],
    )


def test_tangent_matches_the_gradient_of_a_model():
    model = Model(scene(integrator="semi-implicit", substeps=8))
    names = ["joints.knee.angular_velocity", "joints.hip.angle", "lower.mass", "gravity", "joints.knee.damping"]
    generator = torch.Generator().manual_seed(0)
    draw = lambda like: torch.randn(like.shape, generator=generator, dtype=like.dtype)
    given = {
        name: model.get_parameter(name).detach()[None].expand(2, *model.get_parameter(name).shape) for name in names
    }
    leaves = {name: x.clone().requires_grad_() for name, x in given.items()}
    trajectory = model.rollout(leaves)
    adjoint = draw(trajectory["lower"]["x"])
    found = torch.autograd.grad((trajectory["lower"]["x"] * adjoint).sum(), list(leaves.values()))
    along = {name: draw(x) for name, x in given.items()}
    _, tangent = model.tangent(model.values(given), along, 7)
    forward = (tangent["lower"]["x"] * adjoint).sum()
    reverse = sum((g * along[name]).sum() for g, name in zip(found, names, strict=True))
    assert abs(forward - reverse) < 1e-11 * abs(forward)


def test_a_torque_may_change_from_frame_to_frame():
    model = Model(scene())
    torque = torch.zeros(1, 6, 1, dtype=torch.float64)
    torque[0, 3:] = 1.0
    before, after = model.rollout()["upper"]["x"], model.rollout({"joints.hip.torque": torque})["upper"]["x"]
    assert_near(before[:, :4], after[:, :4], ULPS, scale=1.0)
    assert (before[:, 4:] - after[:, 4:]).abs().max() > 1e-5


@pytest.mark.slow
def test_what_joints_hold_may_collide_with_nothing_where_the_rest_collides():
    """A ball stands on the ground, the link that hangs from it reaches below; both weigh on it."""
    ball = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1.0, "position": [0, 0, 0.1 - 5e-5]}
    contents = {
        "timing": {"fps": 60, "frames": 7, "integrator": "rk4", "substeps": 16},
        "bodies": {"ball": ball, "lower": {**LINK, "collision": "none"}},
        "joints": {"hold": {"kind": "fixed", "between": ["ball", "lower"], "child_point": [0, 0, 0.3]}},
        "ground": {"stiffness": 1.8 * 9.81 / 5e-5},
    }
    model = Model(Scene.parse(contents))
    trajectory = model.rollout()
    assert_near(trajectory["ball"]["x"][0, -1, 2].item(), 0.1 - 5e-5, SOLVED, scale=1.0)
    slope = torch.autograd.grad(trajectory["lower"]["x"][0, -1, 2], model.get_parameter("ground.stiffness"))[0]
    assert slope > 0


def test_a_joint_that_comes_apart_is_told_though_all_is_finite():
    """A link that spins too fast for the step; the other world is as it should be."""
    model = Model(scene(integrator="semi-implicit", substeps=2))
    spins = torch.tensor([[0.3, 1.0, 0.5], [30.0, 100.0, 50.0]]).double()
    model.rollout({"joints.knee.angular_velocity": spins[:1]}, frames=7)
    with pytest.raises(Divergence, match="joint `(hip|knee)` comes apart, .* of world 1: .*rk4, or more"):
        model.rollout({"joints.knee.angular_velocity": spins}, frames=7)


def test_semi_implicit_steps_feed_no_energy_to_slender_links_that_spin():
    """8 steps a frame; by the angular velocity before each step it would grow a thousandfold."""
    link = {"shape": {"box": {"size": [0.1, 0.08, 0.5]}}, "mass": 1.0}
    ball = {"kind": "ball", "child_point": [0, 0, 0.25]}
    contents = {
        "timing": {"fps": 30, "frames": 301, "substeps": 8},
        "bodies": {"upper": link, "lower": link},
        "joints": {
            "hip": {
                **ball,
                "between": ["world", "upper"],
                "rotation_vector": [1.5, 0.3, 0],
                "angular_velocity": [0, 0, 3],
            },
            "knee": {**ball, "between": ["upper", "lower"], "parent_point": [0, 0, -0.25]},
        },
    }
    model = Model(Scene.parse(contents))
    with torch.no_grad():
        trajectory = model.rollout()
    energy = 0.0
    for body in model.systems:
        assert isinstance(body, RigidBody)
        own = trajectory[body.name]
        spin = body.spin(own["q"], own["l"], trajectory.values)
        energy += 0.5 * own["v"].square().sum(-1) + 0.5 * (spin * own["l"]).sum(-1) + 9.81 * own["x"][..., 2]
    weight = 2 * 9.81 * 0.5  # [J] that half a length lifts
    assert (energy - energy[:, :1]).abs().max() < 0.1 * weight


def test_a_torque_for_another_number_of_intervals_is_refused():
    torque = torch.zeros(1, 5, 1, dtype=torch.float64)
    with pytest.raises(InputError, match=r"given for 5 frame intervals; 7 frames have 6: give \(worlds, 6, 1\)\."):
        Model(scene()).rollout({"joints.hip.torque": torque})


def test_a_spring_that_is_too_stiff_for_the_step_names_all_that_it_moves():
    content = scene().model_dump(exclude_unset=True)
    content["joints"]["hip"]["stiffness"] = 1e7
    with pytest.raises(InputError, match="that `upper` and `lower` meet: it needs at most"):
        Model(Scene.parse(content))


def test_an_axis_of_length_zero_is_named():
    with pytest.raises(
        Divergence, match=r"`joints.hip.axis` is a direction of length 0; expected one such as \(0, 0, 1\)"
    ):
        Model(scene()).rollout({"joints.hip.axis": torch.zeros(1, 3).double()})


def touching() -> Scene:
    """Three boxes, one on the others, of which a joint holds one; a blow on the upper one."""
    law = {"stiffness": 2e4, "dissipation": 0.5, "friction_stiffness": 50, "friction": 0.5}
    box = {"shape": {"box": {"size": [0.2, 0.2, 0.2]}}, "mass": 1.0}
    bodies = {
        "left": box | {"position": [-0.11, 0, 0.1001]},
        "right": box,
        "upper": box
        | {
            "position": [0, 0.02, 0.3003],
            "velocity": [0, 0, -0.3],
            "pushes": [{"impulse": [0.3, 0.1, 0], "point": [0, 0, 0.1], "at": 0.02}],
        },
    }
    joint = {"kind": "ball", "between": ["world", "right"], "parent_point": [0.11, 0, 0.1001], "child_point": [0, 0, 0]}
    return Scene.parse(
        {
            "gravity": 9.81,
            "timing": {"fps": 60, "frames": 4, "substeps": 20, "integrator": "rk4"},
            "bodies": bodies,
            "ground": law,
            "joints": {"pin": joint},
            "contacts": {"boxes": {"between": "all", **law}},
        }
    )


@pytest.mark.parametrize("worlds", [1, 9])
@pytest.mark.parametrize(
    ("make", "body", "names"),
    [
        (touching, "upper", ["upper.mass", "right.mass", "contacts.boxes.friction", "gravity"]),
        (lambda: scene(integrator="semi-implicit"), "lower", ["lower.mass", "joints.hip.angle", "gravity"]),
        (lambda: scene(integrator="semi-implicit", substeps=1), "lower", ["lower.mass", "joints.hip.angle"]),
    ],
    ids=["touching", "linked", "single steps"],
)
def test_gradients_by_kept_steps_are_those_by_steps_that_are_computed_again(monkeypatch, worlds, make, body, names):
    results, kept = [], []
    for most in (multibody.MOST_SLOT_BYTES, 0):
        monkeypatch.setattr(multibody, "MOST_SLOT_BYTES", most)
        model, factors = Model(make()), torch.linspace(1.0, 1.1, worlds, dtype=torch.float64)
        for scale in (1.0, 1.0, 1.2, 1.0):  # bound from the second on, with other numbers, and with those of before
            values = {name: model.get_parameter(name).detach()[None] * scale for name in names}
            leaves = {n: (x * factors.reshape(-1, *[1] * (x.ndim - 1))).requires_grad_() for n, x in values.items()}
            end = model.rollout(leaves)[body]
            model.rollout({n: x * 0.9 for n, x in leaves.items()})  # writes to the arrays before the backward pass
            loss = end["x"].square().sum() + end["l"][:, -1].sum()
            results.append([end["x"].detach(), end["q"].detach(), *torch.autograd.grad(loss, list(leaves.values()))])
        (call,) = [
            c for _, calls in model._repeated._threads.values() for c in calls.values() if isinstance(c, RepeatedCall)
        ]
        kept.append([g.bound.stored for g in call.groups if isinstance(g.group, ConstrainedIsland) and g.bound])
    assert kept == [[True], [False]]
    half = len(results) // 2
    for first, second in zip(results[:half], results[half:], strict=True):
        for x, y in zip(first, second, strict=True):
            assert x.any()
            # modules that other tests load without optimization round differently
            torch.testing.assert_close(x, y, rtol=1e-11, atol=1e-12)
