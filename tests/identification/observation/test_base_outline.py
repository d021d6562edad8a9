import pytest
import torch
from fit_cases import recorded, throw, true_inner

from gradsim.identification.observation import projection
from gradsim.identification.observation.projection import project
from gradsim.scene import Scene

UNKNOWNS = ("cube.mass:1:8", "cube.scale:0.5:2", "cube.position:-2:2", "camera.focal:20:60", "camera.translation:-9:9")


def two_boxes() -> Scene:
    content = throw().model_dump(exclude_unset=True)
    content["bodies"]["other"] = {**content["bodies"]["cube"], "position": [0.3, 0.2, 0.7], "velocity": [-1.0, 0, 2.0]}
    return Scene.model_validate(content)


def problem(scene: Scene):
    """A fit of shape, place and camera, and the truth."""
    truth = {"cube.mass": 3.0, "cube.scale": 1.1, "camera.focal": 33.0}
    place = dict(zip("xyz", scene.bodies["cube"].position, strict=True))
    truth |= {f"cube.position.{a}": v for a, v in place.items()}
    eye = dict(zip("xyz", scene.camera.matrices()[2], strict=True))
    truth |= {f"camera.translation.{a}": v for a, v in eye.items()}
    return recorded(scene, UNKNOWNS, truth), truth


@pytest.mark.parametrize("scene", [throw(), two_boxes()], ids=["one", "two"])
def test_rigid_bodies_go_to_the_screen_as_their_surface_does(scene):
    """The short way, states → screen, against the long one, states → surface → projection, with all derivatives."""
    own, truth = problem(scene)
    u = true_inner(own, truth)
    with torch.no_grad():
        s = own.sensitivity(u.repeat(2, 1) + torch.tensor([[0.0], [0.02]]), 5)
        short = project(own.observation.silhouettes, s)
        long = projection._projected(own.observation.silhouettes, s)
    for one, other in zip(short, long, strict=True):
        assert one.shape == other.shape
        assert (one - other).abs().max() < 1e-12 * other.abs().max()
    assert all(short[1][:, k].abs().max() > 1e-3 for k in range(len(own.space)))


def test_body_behind_the_camera_is_off_the_image_and_still():
    own, _ = problem(throw())
    u = own.space.inner(torch.tensor([[3.0, 1.0, 0.0, -5.0, 0.6, 33.0, 0.0, 0.0, 1.0]]).double())
    with torch.no_grad():
        screen, slope = project(own.observation.silhouettes, own.sensitivity(u, 4))
    assert (screen == -1e6).all() and (slope == 0).all()
