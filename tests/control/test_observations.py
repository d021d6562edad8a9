"""Senses: numbers of order 1 that say where bodies are, with gradients through feedback or without."""

import re
from functools import partial
from types import SimpleNamespace

import pytest
import soft_cases
import torch
from checks import central_difference, error
from model_cases import cube, pendulum
from plant_cases import inputs, swinging
from tolerances import ROUNDING, assert_near

from gradsim import Scene
from gradsim.control.observations import ImageObservation, StateObservation
from gradsim.control.policies import Feedback
from gradsim.errors import InputError
from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.render.renderer import Renderer
from gradsim.render.silhouettes import Silhouettes

SCENES = {
    "beam": soft_cases.solid,
    "flag": soft_cases.cloth,
    "net": soft_cases.net,
    "cube": cube,
    "bob": pendulum,
    "arms": lambda: Scene.library("double_pendulum"),
}


def moved(model: Model, frame: int = 3):
    """States at a frame, and all parameters."""
    trajectory = model.rollout(frames=frame + 1)
    states = {body: {name: y[:, frame].detach() for name, y in own.items()} for body, own in trajectory.states.items()}
    return states, {name: value.detach() for name, value in trajectory.values.items()}


@pytest.mark.parametrize("name", SCENES)
def test_numbers_are_as_many_as_the_size_says_and_of_order_one(name):
    model = Model(SCENES[name]())
    observation = StateObservation(model, points=4)
    seen = observation(*moved(model))
    assert seen.shape == (1, observation.size) and seen.dtype == torch.float64
    assert 0.1 < seen.square().mean().sqrt() < 3 and seen.abs().max() < 10


@pytest.mark.parametrize("name", ["beam", "cube"])
def test_a_body_elsewhere_is_seen_by_its_centre_alone(name):
    model = Model(SCENES[name]())
    observation, (states, values) = StateObservation(model), moved(model)
    shift = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64)
    away = {name: {**states[name], "x": states[name]["x"] + shift}}
    change = observation(away, values) - observation(states, values)
    assert_near(change[0, :3], shift / observation.units[name].radius, ROUNDING)
    assert change[0, 3:].abs().max() < 1e-12


def test_a_centre_is_seen_from_its_start_or_from_its_target():
    model = Model(cube())
    start, values = moved(model, 0)
    assert StateObservation(model)(start, values)[0, :3].abs().max() < 1e-15
    target = torch.tensor([1.0, 2.0, 3.0]).double()
    observation = StateObservation(model, target=target)
    expected = (start["cube"]["x"][0] - target) / observation.units["cube"].radius
    assert_near(observation(start, values)[0, :3], expected, ROUNDING)
    assert torch.equal(StateObservation(model, target={"cube": target})(start, values), observation(start, values))


def test_chosen_vertices_are_spread_over_the_body():
    model = Model(soft_cases.solid())
    rest = model.systems[0].rest
    chosen = rest[StateObservation(model, points=6).units["beam"].landmarks]
    apart = torch.pdist(chosen).min()
    assert torch.cdist(rest, chosen).amin(1).max() <= apart and apart > 0.09
    assert len(StateObservation(model, points=99).units["beam"].landmarks) == len(model.systems[0].rest)


def test_spin_is_that_of_the_scene_whatever_the_inertia():
    """l = I ω: a heavier body of the same spin has more angular momentum."""
    model = Model(cube())
    (body,) = model.systems
    mass = {"cube.mass": torch.tensor([2.0, 3.1], dtype=torch.float64)}
    start = {name: y[:, 0].detach() for name, y in model.rollout(mass, 1)["cube"].items()}
    still = model.values({**mass, "cube.pushes.0.impulse": torch.zeros(1, 3).double()})
    without = {name: y[:, 0].detach() for name, y in model.rollout(still, 1)["cube"].items()}
    omega = body.spin(without["q"], without["l"], still)
    assert_near(omega, torch.tensor([2.0, 1.0, -3.0]).double().expand(2, 3), ROUNDING)
    assert_near(body.momentum(start["q"], body.spin(start["q"], start["l"], still), still), start["l"], ROUNDING)


def of(model: Model) -> SimpleNamespace:
    """All that observations need of a plant."""
    return SimpleNamespace(model=model)


def gradient(policy: Feedback, plant, weights: torch.Tensor) -> list[torch.Tensor]:
    loss = (plant.rollout(policy).trajectory["beam"]["x"][:, -1] * weights).sum()
    return list(torch.autograd.grad(loss, list(policy.parameters())))


@pytest.mark.parametrize("kind", ["state", "image"])
def test_gradients_through_observations_are_those_of_the_closed_loop(kind):
    """Backpropagation through time against secants of all weights at once; 1e-6 for kinks of coverage between them."""
    see = {"state": StateObservation, "image": lambda m: ImageObservation(Silhouettes.of(m.scene), (6, 5), 0.02)}[kind]
    plant = swinging(observation=see)
    policy = Feedback(inputs(plant), plant.outputs, (5,), phases=2, start=0.8, seed=3)
    weights = torch.randn(1, len(plant.model.systems[0].rest), 3, dtype=torch.float64, generator=torch.manual_seed(1))
    slopes = gradient(policy, plant, weights)
    names = [name for name, _ in policy.named_parameters()]

    class Called:
        feedback = True

        def __init__(self, function):
            self.function = function

        def __call__(self, times, observation):
            return self.function(times, observation)

    along = [torch.randn(p.shape, dtype=torch.float64, generator=torch.manual_seed(5)) for p in policy.parameters()]

    def value(*at):
        changed = partial(torch.func.functional_call, policy, dict(zip(names, at, strict=True)))
        return [
            (
                plant.rollout(Called(lambda times, seen: changed((times, seen)))).trajectory["beam"]["x"][:, -1]
                * weights
            ).sum()[None]
        ]

    with torch.no_grad():
        (secant,) = central_difference(value, [p.detach() for p in policy.parameters()], along, 1e-5)
    rate = torch.stack([(g * d).sum() for g, d in zip(slopes, along, strict=True)]).sum()
    assert plant.observe(plant.begin()).std() > 0.05
    assert error(rate, secant[0]) < 1e-6


def test_a_detached_gradient_is_that_of_the_actions_alone():
    """As if each observation were a number that was written down before."""
    plant = swinging(observation=lambda model: StateObservation(model, 3, detached=True))
    policy = Feedback(inputs(plant), plant.outputs, (5,), start=0.8, seed=3)
    weights = torch.randn(1, len(plant.model.systems[0].rest), 3, dtype=torch.float64, generator=torch.manual_seed(1))
    written = []

    class Written(torch.nn.Module):
        feedback = True

        def forward(self, times, seen):
            written.append(seen.detach().clone())
            return policy(times, written[-1])

    loss = (plant.rollout(Written()).trajectory["beam"]["x"][:, -1] * weights).sum()
    alone = torch.autograd.grad(loss, list(policy.parameters()))
    detached = gradient(policy, plant, weights)
    through = gradient(policy, swinging(observation=lambda model: StateObservation(model, 3)), weights)
    assert len(written) == plant.intervals
    assert all(torch.equal(a, b) for a, b in zip(alone, detached, strict=True))
    assert max(error(a, b) for a, b in zip(detached, through, strict=True)) > 0.01


def test_a_small_image_is_the_large_one_averaged():
    """Coverage is exact, so that blocks of pixels have the mean of theirs."""
    model = Model(soft_cases.solid())
    states, values = moved(model)
    silhouettes = Silhouettes.of(model.scene)
    small = ImageObservation(silhouettes, (6, 5))(states, values, of(model)).reshape(5, 6)
    surface = model.rollout(frames=4).surface
    whole = silhouettes.union(type(surface)(surface.vertices[:, 3:], surface.parts), values)[0, 0]
    blocks = whole.reshape(5, 4, 6, 4).mean((1, 3))
    assert blocks.max() > 0.3 and error(small, blocks) < 1e-6


def test_a_renderer_is_averaged_over_blocks_of_pixels():
    model = Model(soft_cases.solid())
    states, values = moved(model)
    renderer = Renderer.of(model.scene)
    observation = ImageObservation(renderer, (6, 5))
    seen = observation(states, values, of(model))
    surface = model.rollout(frames=4).surface
    whole = renderer(type(surface)(surface.vertices[:, 3:], surface.parts), values)[0, 0]
    expected = whole.reshape(3, 5, 4, 6, 4).mean((2, 4))
    assert observation.size == 90 and error(seen.reshape(3, 5, 6), expected) < 1e-6


@pytest.mark.parametrize("name", ["beam", "cube", "bob", "arms"])
def test_the_image_of_a_moment_ago_is_that_of_a_body_moved_back(name):
    """x - τ v, and for a rigid body exp(-τ ω) q; of a pendulum θ - τ θ'."""
    camera = {"size": [24, 20], "look_at": {"eye": [0.2, -3.0, 0.5], "target": [0.1, 0, 0.4], "fov": 0.7}}
    content = SCENES[name]().model_dump(exclude_unset=True)
    scene = type(SCENES[name]()).parse({**content, "camera": camera})
    model = Model(scene)
    states, values = moved(model, 2)
    observation = ImageObservation(Silhouettes.of(scene), (12, 10), lag=0.03)
    now, before = observation(states, values, of(model))[0].split(120)
    own = dict(states[name])
    if "angle" in own:
        own["angle"] = own["angle"] - 0.03 * own["rate"]
    else:
        own["x"] = own["x"] - 0.03 * own["v"]
    if name == "cube":
        back = rotation.exponential(-0.03 * model.systems[0].spin(states[name]["q"], states[name]["l"], values))
        own["q"] = rotation.multiply(back, own["q"])
    again = ImageObservation(Silhouettes.of(scene), (12, 10))({name: own}, values, of(model))[0]
    assert error(before, again) < 1e-12 and error(before, now) > 0.05


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda m: StateObservation(m, target={"beem": torch.zeros(3)}), "`target` names `beem`; the bodies are beam"),
        (lambda m: StateObservation(m, target=torch.zeros(2)), "target of `beam` is shape (2,); expected a tensor (3)"),
        (lambda m: StateObservation(m, points=-1), "points: got -1"),
        (lambda m: ImageObservation(Silhouettes.of(m.scene), (0, 3)), "size: got (0, 3)"),
    ],
)
def test_observations_of_nothing_are_refused(make, words):
    with pytest.raises(InputError, match=re.escape(words)):
        make(Model(soft_cases.solid()))
