"""Pictures by the name of a renderer: the same as those of the renderer itself, in blocks of any size."""

import pytest
import torch
from fit_cases import throw

from gradsim.errors import InputError
from gradsim.physics.model import Model
from gradsim.render.camera import from_scene
from gradsim.render.renderer import Renderer
from gradsim.render.shading.shading import Shading
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim.visualization import frames
from gradsim.visualization.frames import FrameRenderer, default_renderer


@pytest.fixture(scope="module")
def scene():
    """A box that flies behind a ball."""
    content = throw(5).model_dump(exclude_none=True)
    content["timing"]["substeps"] = 64  # obstacles are stiff
    return Scene.parse({**content, "obstacles": {"post": {"radius": 0.2, "position": [-0.2, -1.0, 0.8]}}})


@pytest.fixture(scope="module")
def surface(scene):
    with torch.no_grad():
        return Model(scene).rollout().scene_surface


def drawn(artist: FrameRenderer, surface) -> torch.Tensor:
    return torch.stack(list(artist.draw(surface))).permute(0, 3, 1, 2)


@pytest.mark.parametrize("block", [1, 24 * 24 * 2, 10**9], ids=["one", "two", "all"])
def test_frames_are_those_of_the_renderer_however_many_are_drawn_at_once(scene, surface, monkeypatch, block):
    monkeypatch.setattr(frames, "BLOCK", block)
    camera, light = from_scene(scene.camera), Shading("phong")
    own = Renderer(camera, "aa", light, (0.2, 0.4, 0.6))(surface)[0]
    assert torch.equal(drawn(FrameRenderer("aa", camera, light, (0.2, 0.4, 0.6)), surface), own.clamp(0, 1))
    flat = Silhouettes(camera, (0.2, 0.4, 0.6)).image(surface)[0]
    assert torch.equal(drawn(FrameRenderer("coverage", camera, Shading(), (0.2, 0.4, 0.6)), surface), flat)


@pytest.mark.parametrize("name", ["coverage", "aa"])
def test_the_share_of_a_body_lacks_what_others_hide(scene, surface, name):
    camera = from_scene(scene.camera)
    artist = FrameRenderer(name, camera, Shading(), scene.background)
    cube, post, both = (torch.stack(list(artist.share(surface, n))) for n in (["cube"], ["post"], ["cube", "post"]))
    alone = Silhouettes(camera).masks(surface)[0, :, 0]
    inside = Silhouettes(camera).masks(surface)[0, :, 1] > 1 - 1e-9
    assert (cube[inside] < 1e-9).all() and (alone[inside] > 0.5).any()
    assert (cube + post - both).abs().max() < 1e-9


def test_the_renderer_is_the_simplest_that_shows_the_looks(scene, surface):
    looks = [part.appearance for part in surface.parts]
    assert default_renderer(scene, looks) == "coverage"
    content = scene.model_dump(exclude_none=True)
    assert default_renderer(Scene.parse({**content, "shading": "phong"}), looks) == "aa"
    assert default_renderer(Scene.parse({**content, "grounds": {"floor": {"visible": {"size": 2}}}}), looks) == "aa"


def test_a_renderer_that_cannot_is_refused(scene):
    camera = from_scene(scene.camera)
    with pytest.raises(InputError, match="use one of coverage, aa"):
        FrameRenderer("blender", camera, Shading(), (1, 1, 1))
    with pytest.raises(InputError, match="draws flat colors"):
        FrameRenderer("coverage", camera, Shading("phong"), (1, 1, 1))
