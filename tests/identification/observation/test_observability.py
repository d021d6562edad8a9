"""Unknowns that nothing reads, or that the observation cannot show, are refused before any work."""

import pytest
import torch
from model_cases import cube

import gradsim as gs
from gradsim.errors import InputError
from gradsim.identification.observation.observability import require_observable
from gradsim.identification.problem import Problem
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.render import Renderer
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene


@pytest.fixture
def lit():
    content = cube().model_dump(exclude_unset=True)
    content["lights"] = {"sun": {"kind": "directional", "direction": [0, 1, -1]}}
    content["cameras"] = {"side": content["camera"]}
    return Scene.parse(content)


def masks(scene, camera="camera"):
    seen = Silhouettes.of(scene, camera)
    return gs.Masks(seen.union(Model(scene).rollout().surface)[0].detach(), 1 / 255, seen)


def images(scene, law):
    seen = Renderer.of(scene, law=law)
    return gs.Images(seen(Model(scene).rollout().scene_surface)[0].detach(), 1 / 255, seen)


def states(scene):
    return gs.States("cube", Model(scene).rollout()["cube"]["x"][0].detach(), None, 1e-3)


def test_unknown_that_nothing_reads_is_refused(lit):
    scene = cube(ground=None, friction=0.3)
    with pytest.raises(InputError, match=r"`cube.friction` has no gradient, not even 0: the scene has no ground"):
        gs.identify(scene, ["cube.friction:0.1:0.9"], observation=masks(scene))


def ask(scene, observation, unknown):
    require_observable(Model(scene), observation, Space(scene, [unknown]).values(torch.zeros(1, 3).double()))


def test_a_fit_is_refused_before_any_work(lit):
    with pytest.raises(InputError, match=r"`lights.sun.colour` cannot be found"):
        gs.identify(lit, ["lights.sun.colour:0.1:0.9"], observation=masks(lit))


def test_light_is_refused_where_no_image_is_lit(lit):
    sun = "lights.sun.colour:0.1:0.9"
    for dark in (masks(lit), states(lit), images(lit, "colour")):
        with pytest.raises(InputError, match=r"`lights.sun.colour` cannot be found .* lit by nothing"):
            ask(lit, dark, sun)
    ask(lit, images(lit, "lambert"), sun)
    ask(lit, gs.MultiView({"light": images(lit, "lambert"), "dark": masks(lit)}), sun)


def test_camera_is_refused_where_it_took_no_image(lit):
    with pytest.raises(InputError, match=r"`camera.focal` cannot be found .* no picture of that camera"):
        ask(lit, states(lit), "camera.focal")
    with pytest.raises(InputError, match=r"`cameras.side.focal` cannot be found"):
        ask(lit, masks(lit), "cameras.side.focal")
    ask(lit, masks(lit, "side"), "cameras.side.focal")


def test_mass_in_free_fall_is_left_to_the_verdict():
    """The motion reads it: that the derivative is 0 is what the data say."""
    scene = cube(ground=None, pushes=[], angular_velocity=[0, 0, 0])
    free = Problem(Model(scene), masks(scene), Space(scene, ["cube.mass:1:3"]))
    r, J = next(iter(free.jacobian(torch.tensor([[0.5]]).double(), 4)))
    assert r.shape == J.shape[:2] and not J.any()
