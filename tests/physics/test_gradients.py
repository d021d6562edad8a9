"""A gradient by name is the derivative, or an error that says why there is none; never a zero that is made up."""

import pytest
import torch
from model_cases import GROUND, cube, pendulum
from soft_cases import solid

import gradsim as gs
from gradsim.errors import InputError
from gradsim.physics.model import Model
from gradsim.render import Renderer
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene

NOTHING = "has no gradient, not even 0"


def ending(model, given=None):
    return model.rollout(given)["cube"]["x"][:, -1].sum()


def test_gradients_by_name_are_those_of_pytorch():
    model = Model(cube())
    found = gs.gradients(ending(model), model, ["cube.mass", "cube.velocity", "cube.velocity.y"])
    ending(model).backward()
    assert torch.equal(found["cube.mass"], model.get_parameter("cube.mass").grad)
    assert torch.equal(found["cube.velocity"], model.get_parameter("cube.velocity").grad)
    assert found["cube.velocity.y"] == found["cube.velocity"][1]


def test_gradient_by_what_was_given_has_its_worlds():
    model, mass = Model(cube()), torch.tensor([1.5, 2.0, 2.5]).double().requires_grad_()
    found = gs.gradients(ending(model, {"cube.mass": mass}), model, ["cube.mass"], {"cube.mass": mass})
    assert found["cube.mass"].shape == (3,) and found["cube.mass"].abs().min() > 0


def test_zero_of_free_fall_is_an_answer():
    """A1: the motion reads the mass, and does not depend on it."""
    model = Model(cube(ground=None, pushes=[]))
    assert gs.gradients(ending(model), model, ["cube.mass"])["cube.mass"] == 0


@pytest.mark.parametrize(
    "scene, name, why",
    [
        (cube(ground=None, friction=0.3), "cube.friction", "the scene has no ground or obstacle, so `cube` touches nothing"),
        (cube(collision="none", friction=0.3), "cube.friction", "`cube` has collision: none"),
        (cube(collision="none"), "ground.stiffness", "nothing can touch `ground`"),
        (cube(friction=0.3), "ground.friction", "in contact with `ground`, `cube` has its own `friction`"),
        (solid(), "post.friction", "in contact with `post`, `beam` has its own `friction`"),
        (solid(collision="none"), "beam.contact.friction", "`beam` has collision: none"),
    ],
)  # fmt: skip
def test_parameter_that_nothing_reads_has_no_gradient(scene, name, why):
    """However it is asked for."""
    model = Model(scene)
    value = model.values()[name].detach()
    ways = [
        lambda: model.rollout({name: value.clone().requires_grad_()}),
        lambda: model.tangent(model.values(), {name: torch.ones_like(value)}, 2),
        lambda: gs.gradients(model.rollout().surface.vertices.sum(), model, [name]),
    ]
    for ask in ways:
        with pytest.raises(InputError, match=f"`{name}` {NOTHING}: {why}"):
            ask()
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        torch.autograd.grad(model.rollout().surface.vertices.sum(), model.get_parameter(name))
    model.rollout({name: value})  # as a number it may be given


def test_every_parameter_of_a_scene_in_use_is_read():
    scene = cube(ground={**GROUND, "margin": 0.01})
    assert not Model(scene).unused_parameters and not Model(pendulum()).unused_parameters


@pytest.mark.parametrize("scene", [cube(friction=0.3), solid()], ids=["rigid", "soft"])
def test_what_nothing_reads_is_known_without_a_rollout(scene, monkeypatch):
    """Nor the kernels of one, which take seconds to build."""
    (group,) = Model(scene).groups
    monkeypatch.setattr(type(group.program(1, 1, 1e-3)), "forward", None)
    assert {name.rpartition(".")[2] for name in Model(scene).unused_parameters} == {"friction"}


def test_loss_on_states_has_no_gradient_by_camera_or_light():
    content = cube().model_dump(exclude_unset=True)
    content["lights"] = {"sun": {"kind": "directional", "direction": [0, 1, -1]}}
    model = Model(Scene.parse(content))
    for name in ("camera.focal", "lights.sun.colour"):
        with pytest.raises(InputError, match=f"`{name}` {NOTHING}: .* Only images depend on it"):
            gs.gradients(ending(model), model, [name])
        seen = Renderer.of(model.scene, law="lambert")
        values = model.values()
        image = seen(model.rollout().surface, {n: values[n] for n in ("camera.focal", "lights.sun.colour")})
        assert gs.gradients(image.sum(), model, [name])[name].abs().max() > 0


def test_loss_on_one_body_has_no_gradient_by_another():
    content = cube().model_dump(exclude_unset=True)
    content["bodies"]["other"] = {**content["bodies"]["cube"], "position": [2, 0, 0.3]}
    model = Model(Scene.parse(content))
    with pytest.raises(InputError, match=f"`other.mass` {NOTHING}: .* Use what it moves in the loss"):
        gs.gradients(ending(model), model, ["other.mass"])


def test_the_clock_has_a_gradient_where_it_is_given():
    content = pendulum().model_dump(exclude_unset=True)
    model, offset = Model(Scene.parse(content)), torch.zeros(1).double().requires_grad_()
    angle = lambda given: model.rollout(given)["bob"]["angle"][:, -1].sum()
    with pytest.raises(InputError, match=f"`timing.offset` {NOTHING}: .* Give `timing.offset` to the rollout"):
        gs.gradients(angle({}), model, ["timing.offset"])
    given = {"timing.offset": offset}
    assert gs.gradients(angle(given), model, ["timing.offset"], given)["timing.offset"].abs() > 0


def test_mistakes_in_asking_are_named():
    model = Model(cube())
    loss = ending(model)
    with pytest.raises(InputError, match=r"no parameter `cube.masss`; did you mean `cube.mass`"):
        gs.gradients(loss, model, ["cube.masss"])
    with pytest.raises(InputError, match=r"the loss has shape \(1, 6, 3\); give a scalar"):
        gs.gradients(model.rollout()["cube"]["x"], model, ["cube.mass"])
    with pytest.raises(InputError, match="the loss has no graph"):
        gs.gradients(loss.detach(), model, ["cube.mass"])
    with pytest.raises(InputError, match=f"`cube.mass` {NOTHING}: the loss does not depend on it"):
        gs.gradients(loss, model, ["cube.mass"], {"cube.mass": torch.ones(1).double().requires_grad_()})
    with pytest.raises(InputError, match="`cube.mass` is given as a tensor that requires no gradient"):
        gs.gradients(loss, model, ["cube.mass"], {"cube.mass": torch.ones(1).double()})
    model.get_parameter("cube.mass").requires_grad_(False)
    with pytest.raises(InputError, match="`cube.mass` is a parameter of the model that requires no gradient"):
        gs.gradients(loss, model, ["cube.mass"])


def test_second_derivatives_are_refused():
    model = Model(cube())
    mass = model.get_parameter("cube.mass")
    (slope,) = torch.autograd.grad(ending(model), mass, create_graph=True)
    assert torch.equal(slope, torch.autograd.grad(ending(model), mass)[0])
    with pytest.raises(NotImplementedError, match="RigidRollout is differentiable once"):
        torch.autograd.grad(slope, mass, retain_graph=True)
    with pytest.raises(NotImplementedError, match="RigidRollout is differentiable once"):
        slope.backward()


def test_forward_mode_is_refused_and_a_gradient_by_transform_is_that_of_autograd():
    model = Model(cube())
    mass = model.get_parameter("cube.mass").detach()[None]
    with pytest.raises(NotImplementedError, match="has no forward-mode derivative"):
        torch.func.jvp(lambda m: ending(model, {"cube.mass": m}), (mass,), (torch.ones_like(mass),))
    (expected,) = torch.autograd.grad(ending(model), model.get_parameter("cube.mass"))
    # the inputs' adjoint is in closed form in one and PyTorch's in the other, which round in another order
    slope = torch.func.grad(lambda m: ending(model, {"cube.mass": m}))(mass)[0]
    torch.testing.assert_close(slope, expected, rtol=1e-13, atol=0)


def test_camera_refuses_parameters_that_it_has_not():
    scene = cube()
    surface, fov = Model(scene).rollout().surface, torch.ones(1).double().requires_grad_()
    for renderer in (Silhouettes.of(scene).union, Renderer.of(scene)):
        with pytest.raises(
            InputError, match="`values` name `camera.fov`; the parameters of this camera are camera.focal"
        ):
            renderer(surface, {"camera.fov": fov})
