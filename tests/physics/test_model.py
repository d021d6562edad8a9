"""A scene as a module: parameters by name, their derivatives through a rollout, worlds, precision, and refusals."""

import math
import re

import numpy as np
import pytest
import soft_cases
import torch
from checks import central_difference, directions, gradients, weights
from model_cases import GROUND, PAPER, cluttered, cube, pendulum
from tolerances import ROUNDING, assert_near

from gradsim.errors import InputError
from gradsim.physics.model import Divergence, Model
from gradsim.render.camera import from_scene
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene

SCENES = {
    "cluttered": cluttered(),
    "mass": cube(),
    "density": cube(("density", 300.0)),
    "paper": cube(ground=PAPER),
    "pendulum": pendulum(),
}
UNHURT = ("timing.rate", "timing.offset")  # refused where a push has a window
UNREAD = [("cluttered", f"{name}.{key}") for name in ("ground", "post", "step") for key in ("stiffness", "friction")]
MOVING = [
    (kind, name)
    for kind, scene in SCENES.items()
    for name in Model(scene).kinds
    if not name.startswith("camera.")
    and (name not in UNHURT or kind in ("cluttered", "pendulum"))
    and (kind, name) not in UNREAD
]
IDLE = [("cluttered", "post.friction_stiffness")]  # the box slides on the post throughout


@pytest.mark.parametrize("kind, name", MOVING)
def test_adjoint_of_every_parameter_matches_central_differences(kind, name):
    """100 steps with contact; states and vertices of all frames. Acceptance: 1e-7 in float64."""
    model = Model(SCENES[kind])
    value, lower = model.values()[name].detach(), model.kinds[name].lower
    value = value + 1e-4 * (value == lower)  # differences stay within the range

    def observed(given):
        trajectory = model.rollout({name: given})
        (states,) = trajectory.states.values()
        return [*states.values(), trajectory.surface.vertices]

    along, adjoints = directions([value], 1), weights(observed(value), 2)
    (gradient,) = gradients(observed, [value], adjoints)
    secant = central_difference(observed, [value], along, 1e-5)
    terms = torch.cat([(w * s).flatten() for w, s in zip(adjoints, secant, strict=True)])
    assert (terms.abs().max() > 0) == ((kind, name) not in IDLE)
    assert abs((gradient * along[0]).sum() - terms.sum()) <= 1e-7 * terms.abs().sum()


@pytest.mark.parametrize("kind", SCENES)
def test_nothing_reads_numbers_of_contact_that_a_body_has_of_its_own(kind):
    assert Model(SCENES[kind]).unused_parameters == {name for own, name in UNREAD if own == kind}


def test_the_box_of_these_tests_meets_its_ground():
    high = Model(cube()).rollout({"ground.height": torch.tensor([-9.0]).double()})["cube"]["x"]
    assert (Model(cube()).rollout()["cube"]["x"][:, -1] - high[:, -1]).norm() > 0.01


def test_parameters_have_the_names_of_the_scene():
    model = Model(cube())
    names = dict(model.named_parameters())
    assert set(names) == set(model.kinds)
    assert names["cube.mass"].item() == 2.0
    assert model.get_parameter("ground.friction") is names["ground.friction"]
    assert model.get_parameter("cube.pushes.0.impulse").tolist() == [0.5, 0.2, -0.1]


def test_an_optimiser_of_pytorch_moves_a_parameter():
    model = Model(cube())
    target = model.rollout({"cube.velocity": torch.tensor([[1.2, 0.2, -1.5]]).double()})["cube"]["x"].detach()
    optimiser = torch.optim.SGD([model.get_parameter("cube.velocity")], 10.0)
    losses = []
    for _ in range(5):
        optimiser.zero_grad()
        loss = (model.rollout()["cube"]["x"] - target).square().sum()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.5 * losses[0]


def test_falling_body_tells_nothing_about_its_mass():
    """A1: x of a body in free flight does not contain m, so the gradient is 0 to the last bit."""
    model = Model(cube(ground=None, pushes=[]))
    model.rollout()["cube"]["x"].square().sum().backward()
    assert model.get_parameter("cube.mass").grad == 0
    assert model.get_parameter("gravity").grad.abs().min() > 0


def test_falling_body_follows_the_discrete_parabola():
    """A1: x_n = x₀ + n h v₀ + g h² n (n + 1)/2 under semi-implicit Euler."""
    model = Model(cube(ground=None, pushes=[]))
    x = model.rollout()["cube"]["x"][0].detach()
    n = 20 * torch.arange(6).double()[:, None]
    start, v, g = (model.get_parameter(k).detach() for k in ("cube.position", "cube.velocity", "gravity"))
    expected = start + n * model.dt * v + g * model.dt**2 * n * (n + 1) / 2
    assert torch.allclose(x, expected, rtol=0, atol=1e-13 * 120)


def test_each_world_of_a_batch_moves_as_it_does_alone():
    model = Model(cube())
    mass = torch.tensor([1.5, 2.0, 2.5]).double()
    together = model.rollout({"cube.mass": mass})["cube"]
    for k in range(3):
        alone = model.rollout({"cube.mass": mass[k : k + 1]})["cube"]
        assert all(torch.equal(together[s][k], alone[s][0]) for s in alone)


def test_checkpoints_do_not_change_the_gradient():
    grads = []
    for segment in (1, 3):
        model = Model(cube())
        model.rollout(segment=segment)["cube"]["q"].pow(3).sum().backward()
        moving = [
            n for n in model.kinds if not n.startswith("camera.") and n != "timing.offset"
        ]  # frame 0 is the start
        grads.append([model.get_parameter(name).grad for name in moving])
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_tangent_of_a_rollout_equals_its_derivative_by_autograd():
    model = Model(cube())
    values = {n: v.detach() for n, v in model.values().items()}
    along = {"cube.mass": torch.tensor([1.0]).double(), "ground.friction": torch.tensor([-0.3], dtype=torch.float64)}
    trajectory, tangent = model.tangent(values, along, 6)
    assert_near(trajectory["cube"]["x"], model.rollout()["cube"]["x"], ROUNDING)
    mass = values["cube.mass"].requires_grad_()
    friction = values["ground.friction"].requires_grad_()
    final = model.rollout({"cube.mass": mass, "ground.friction": friction})["cube"]["x"][0, -1]
    for axis in range(3):
        a, b = torch.autograd.grad(final[axis], [mass, friction], retain_graph=True)
        expected = (a - 0.3 * b).item()
        assert tangent["cube"]["x"][0, -1, axis].item() == pytest.approx(expected, rel=1e-9, abs=1e-14)


def test_single_precision_agrees_with_double():
    """100 steps add at most about 100 roundings of 6e-8 each, times the growth of the motion."""
    double, single = Model(cube()), Model(cube(), dtype=torch.float32)
    ours, other = double.rollout()["cube"], single.rollout()["cube"]
    assert other["x"].dtype == torch.float32 and ours["x"].dtype == torch.float64
    for key in ours:
        assert torch.allclose(ours[key].float(), other[key], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("convert", [lambda m: m.to(torch.float32), lambda m: m.float()], ids=["to", "float"])
@pytest.mark.parametrize("scene", [cluttered(), soft_cases.solid(), pendulum()], ids=["rigid", "soft", "pendulum"])
def test_a_converted_model_rolls_out_in_its_dtype(scene, convert):
    """As one made in that dtype, bit by bit; and back, from parameters that were rounded."""
    model, single = Model(scene), Model(scene, dtype=torch.float32)
    model.rollout(frames=2)
    parameters = dict(model.named_parameters())
    assert convert(model) is model and model.dtype == torch.float32 and model.substeps == single.substeps
    ours, other = model.rollout(frames=3), single.rollout(frames=3)
    for name, states in other.states.items():
        for key, y in states.items():
            assert y.dtype == torch.float32 and torch.equal(ours.states[name][key], y)
    assert torch.equal(ours.surface.vertices, other.surface.vertices)
    ours.surface.vertices.sum().backward()
    assert all(
        p is parameters[name] and p.grad.dtype == torch.float32
        for name, p in model.named_parameters()
        if p.grad is not None
    )
    model.double()
    assert all(y.dtype == torch.float64 for own in model.rollout(frames=3).states.values() for y in own.values())
    given = {name: p.detach().double()[None] for name, p in single.named_parameters()}
    assert torch.equal(model.rollout(frames=3).surface.vertices, Model(scene).rollout(given, 3).surface.vertices)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_dtype_that_kernels_have_not_is_refused_and_changes_nothing(dtype):
    with pytest.raises(InputError, match=f"got {dtype}; expected torch.float32 or torch.float64"):
        Model(pendulum(), dtype=dtype)
    model = Model(pendulum())
    before = model.rollout()["bob"]["angle"]
    with pytest.raises(InputError, match=f"got {dtype}; expected torch.float32 or torch.float64"):
        model.to(dtype)
    assert torch.equal(model.rollout()["bob"]["angle"], before)


@pytest.mark.slow
def test_compiled_rollout_and_image_have_the_same_value_and_gradient():
    """With breaks of the graph where the model looks at values; each rollout and mask is one node (`test_operation.py`)."""
    model = Model(cube(ground=GROUND))
    silhouettes = Silhouettes(from_scene(model.scene.camera), (1.0, 1.0, 1.0))

    def loss(mass):
        trajectory = model.rollout({"cube.mass": mass})
        return silhouettes(trajectory.surface, trajectory.values).square().sum()

    results = []
    for function in (loss, torch.compile(loss, backend="aot_eager")):
        mass = torch.tensor([1.8, 2.2]).double().requires_grad_()
        value = function(mass)
        results.append((value, *torch.autograd.grad(value, [mass])))
    (value, gradient), (compiled_value, compiled_gradient) = results
    assert_near(value, compiled_value, ROUNDING)
    assert torch.allclose(gradient, compiled_gradient, rtol=1e-10)
    assert gradient.abs().min() > 1e-3


def test_compiled_model_refuses_the_whole_graph_and_says_where():
    """What `docs/theory/time_steps.md` says of `fullgraph`."""
    model = Model(pendulum())
    with pytest.raises(RuntimeError, match=r"model\.rollout|in program|in rollout"):
        torch.compile(lambda: model.rollout()["bob"]["angle"], fullgraph=True, backend="eager")()


def test_divergence_names_step_body_and_quantity():
    model = Model(cube())
    with pytest.raises(Divergence, match=r"`cube` diverges: \w+ is not finite from step \d+ on .* world 1"):
        model.rollout({"cube.mass": torch.tensor([1.0, 0.0]).double()})


def test_the_step_that_diverges_is_the_first_that_is_not_finite():
    model = Model(cube())
    given = {"cube.mass": torch.tensor([0.0]).double()}
    with pytest.raises(Divergence) as caught:
        model.rollout(given)
    step = int(re.search(r"from step (\d+)", str(caught.value))[1])  # pyright: ignore[reportOptionalSubscript]
    system = model.systems[0]
    inputs = [*system.inputs(model.values(given)), torch.full((1, step), model.dt, dtype=torch.float64)]
    states = system.program(step + 1, 1, model.dt, 1).forward([x.detach() for x in inputs])
    finite = torch.stack([torch.isfinite(y[0]).all(1) for y in states]).all(0)
    assert finite[:step].all() and not finite[step]


def test_a_step_too_large_for_the_stiffness_names_the_substeps_that_it_needs():
    scene = cube(ground={**GROUND, "stiffness": 1e6})
    with pytest.raises(InputError, match="too large for the stiffness") as caught:
        Model(scene, substeps=1)
    needed = int(re.search(r"substeps to (\d+)", str(caught.value))[1])  # pyright: ignore[reportOptionalSubscript]
    Model(scene, substeps=needed)
    with pytest.raises(InputError, match="too large"):
        Model(scene, substeps=needed - 1)


def test_a_body_that_starts_inside_the_ground_is_refused_with_its_depth():
    flat = {**GROUND, "normal": [0, 0, 1], "height": 0.0}
    upright = {"rotation_vector": [0, 0, 0], "scale": 1.0}
    with pytest.raises(InputError, match=r"`cube` starts 0\.04 m inside `ground`"):
        Model(cube(ground=flat, position=[0, 0, 0.05], **upright))
    Model(cube(ground=flat, position=[0, 0, 0.09], **upright))


def test_a_parameter_that_the_scene_lacks_is_refused():
    with pytest.raises(InputError, match=r"no parameter `cube\.mas`"):
        Model(cube()).rollout({"cube.mas": torch.ones(1).double()})


def test_what_is_no_tensor_of_worlds_is_refused():
    model = Model(cube())
    for value, words in ((torch.tensor(2.0), r"\(\)"), (torch.ones(3, 1), r"\(3, 1\)")):
        with pytest.raises(
            InputError, match=f"`cube.mass` is given with shape {words}; expected a tensor \\(worlds\\)"
        ):
            model.rollout({"cube.mass": value})
    with pytest.raises(InputError, match="drop its last dimension by `squeeze"):
        model.rollout({"cube.mass": torch.ones(3, 1)})
    with pytest.raises(InputError, match="`gravity` is given for 2 worlds, `cube.mass` for 3"):
        model.rollout({"gravity": torch.zeros(2, 3), "cube.mass": torch.ones(3)})


def test_a_body_that_a_trajectory_lacks_is_named():
    with pytest.raises(InputError, match="no body `bax`; there are cube"):
        Model(cube()).rollout(frames=2)["bax"]


def test_automatic_substeps_resolve_the_contact():
    """The motion of a bounce changes by little when the step is halved: O(h) with a fifth of the stable step."""
    scene = cube().model_copy(update={"timing": cube().timing.model_copy(update={"substeps": "auto"})})
    model = Model(scene)
    finer = Model(scene, substeps=4 * model.substeps)
    assert (model.rollout()["cube"]["x"] - finer.rollout()["cube"]["x"]).abs().max() < 5e-3


def test_the_ball_of_a_pendulum_stays_at_its_distance_from_the_pivot():
    model = Model(pendulum())
    trajectory = model.rollout()
    ball = trajectory.surface.vertices[0, :, : len(model.systems[0].ball)]
    centre = (ball.max(1).values + ball.min(1).values) / 2
    distance = (centre - torch.tensor([0.1, 0.2, 1.0], dtype=torch.float64)).norm(dim=-1)
    assert_near(distance, 0.56, ROUNDING)


def test_bodies_of_both_kinds_move_in_one_scene():
    alone = cube(gravity=9.81)
    content = alone.model_dump(exclude_unset=True)
    content["bodies"]["bob"] = {"kind": "pendulum", "pivot": [0, 0, 1], "string_length": 0.5, "radius": 0.05}
    both = Model(Scene.parse(content)).rollout()
    assert torch.equal(both["cube"]["x"], Model(alone).rollout()["cube"]["x"])
    assert set(both.states) == {"cube", "bob"} and len(both.surface.parts) == 2


def test_tangent_of_the_surface_does_not_depend_on_the_order_of_the_unknowns():
    model = Model(cube())
    values = {name: v.detach() for name, v in model.values().items()}
    along = {name: torch.ones_like(values[name]) for name in ("cube.scale", "cube.mass", "gravity")}
    found = []
    for order in (list(along), sorted(along, key=list(values).index)):
        own, moved = model.tangent(values, {name: along[name] for name in order}, 6)
        found.append(own.surface_tangent(moved, {name: along[name] for name in order})[1])
    assert found[0].abs().max() > 0.1 and torch.equal(*found)


def test_a_rollout_takes_numbers_of_one_world():
    model = Model(Scene.library("cube"))
    moved = model.rollout({"cube.mass": 3.0, "cube.velocity": [1.0, 0.5, 0.0]}, frames=3)
    same = model.rollout({"cube.mass": torch.tensor([3.0]), "cube.velocity": torch.tensor([[1.0, 0.5, 0.0]])}, frames=3)
    assert torch.equal(moved["cube"]["x"], same["cube"]["x"]) and moved["cube"]["v"][0, 0, 0].item() == 1.0


def test_a_rollout_takes_lists_and_arrays_of_worlds_and_components():
    model = Model(Scene.library("cube"))
    moved = model.rollout({"cube.mass": [3.0, 4.0], "cube.velocity.x": np.array([1.0, 2.0])}, frames=3)
    velocity = moved.values["cube.velocity"]
    assert velocity[:, 0].tolist() == [1.0, 2.0] and torch.equal(velocity[:, 1:], velocity[:1, 1:].expand(2, 2))
    speed = torch.tensor([1.0, 2.0]).double().requires_grad_()
    model.rollout({"cube.velocity.x": speed, "cube.velocity.z": 0.5}, frames=3)["cube"]["x"][:, -1, 0].sum().backward()
    assert speed.grad is not None and speed.grad.min() > 0.01
    with pytest.raises(InputError, match="as a vector and by component"):
        model.rollout({"cube.velocity": [1.0, 0.0, 0.0], "cube.velocity.x": 1.0})
    with pytest.raises(InputError, match="did you mean `cube.velocity`"):
        model.rollout({"cube.velocty": [1.0, 0.0, 0.0]})


@pytest.mark.parametrize(
    "name, values, words",
    [
        ("ground.friction", [0.3, math.nan, 0.3], "of world 1 is nan; expected a number of at least 0"),
        ("ground.friction", [0.3, 0.3, -0.3], "of world 2 is -0.3; expected a number of at least 0"),
        ("cube.position", [[0.0, 0.0, math.inf]], "of world 0 is inf; expected a number that is finite"),
    ],
)
def test_numbers_that_no_scene_may_have_are_refused_by_a_rollout(name, values, words):
    """A contact with a friction of NaN gave finite motion, and a gradient of 0."""
    with pytest.raises(InputError, match=words):
        Model(Scene.library("cube")).rollout({name: torch.tensor(values).double()}, frames=3)


@pytest.mark.parametrize("value", [[[1.0], [2.0]], "heavy", None, {"x": 1.0}])
def test_numbers_of_another_shape_are_refused(value):
    with pytest.raises(InputError, match=r"`cube\.mass` is given as .*expected a tensor \(worlds\)"):
        Model(Scene.library("cube")).rollout({"cube.mass": value})


def test_a_trajectory_prints_its_bodies_and_no_numbers_of_states():
    text = repr(Model(Scene.library("cube")).rollout(frames=3))
    assert (
        text.startswith("Trajectory(3 frames, 0 to 0.0667 s; cube: x (1, 3, 3), q (1, 3, 4)") and "tensor" not in text
    )


@pytest.mark.parametrize("name", ["motors", "density", "has_shutter"])
def test_a_body_with_the_name_of_an_attribute_is_refused(name):
    ball = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1}
    with pytest.raises(InputError, match="rename it in the scene"):
        Model(Scene.parse({"bodies": {name: ball}}))


def test_a_body_may_be_a_log():
    assert (
        "log.mass" in Model(Scene.parse({"bodies": {"log": {"shape": {"sphere": {"radius": 0.1}}, "mass": 1}}})).kinds
    )


def test_a_rollout_after_one_in_inference_mode_has_a_gradient():
    model = Model(Scene.library("cube"))
    with torch.inference_mode():
        expected = model.rollout(frames=3)["cube"]["x"].clone()
    x = model.rollout(frames=3)["cube"]["x"]
    assert torch.equal(x.detach(), expected)
    (gradient,) = torch.autograd.grad(x.sum(), [model.get_parameter("cube.velocity")])
    assert gradient.abs().max() > 0
