"""What stands on the stage: poses of what is rigid, and a first view of all of it."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fit_cases import throw

from gradsim.geometry.surface import Appearance, Part
from gradsim.physics.model import Model
from gradsim.visualization import viser_scene


def turned(vertices: np.ndarray, wxyz: np.ndarray) -> np.ndarray:
    """Vertices (n, 3) turned by one quaternion."""
    w, axis = wxyz[0], wxyz[1:]
    return vertices + 2 * np.cross(axis, np.cross(axis, vertices) + w * vertices)


@pytest.fixture(scope="module")
def motion():
    scene = throw()
    with torch.no_grad():
        return scene, Model(scene).rollout()


def test_poses_bring_the_first_frame_to_every_other(motion):
    vertices = motion[1].surface.vertices[0].detach().numpy()
    poses = viser_scene.poses(vertices)
    assert poses is not None
    rest = vertices[0] - vertices[0].mean(0)
    for here, wxyz in zip(vertices, poses, strict=True):
        assert np.abs(turned(rest, wxyz) + here.mean(0) - here).max() < 1e-9
    assert np.abs(poses[-1] - poses[0]).max() > 0.1  # it turns


def test_what_deforms_has_no_pose(motion):
    vertices = motion[1].surface.vertices[0].detach().numpy().copy()
    vertices[3, 0] += 0.01
    assert viser_scene.poses(vertices) is None


@pytest.mark.parametrize("seed", range(5))
def test_the_first_view_has_the_motion_and_every_camera_in_it(seed):
    rng = np.random.default_rng(seed)
    low, turn = rng.standard_normal(3), rng.uniform(0, 2 * math.pi)
    whole = viser_scene.Stage(low, low + rng.uniform(0.1, 2, 3), np.array([math.cos(turn), math.sin(turn), 0]))
    cameras = [SimpleNamespace(corners=whole.centre + 3 * rng.standard_normal((5, 3))) for _ in range(2)]
    view = SimpleNamespace(fov=0.9)
    viser_scene.stand_back(view, whole, cameras)  # pyright: ignore[reportArgumentType] -- corners are all it asks for
    forward = view.look_at - view.position
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    seen = np.concatenate([whole.corners, *(c.corners for c in cameras)]) - view.position
    x, y, z = seen @ right, seen @ np.cross(right, forward), seen @ forward
    steep = math.tan(view.fov / 2)
    assert (z > 0).all() and (np.abs(y) < steep * z).all() and (np.abs(x) < viser_scene.MIN_ASPECT * steep * z).all()
    assert forward[2] < 0  # from above


def test_a_textured_part_is_sent_with_its_image_and_a_deforming_one_plain():
    sent = {}

    def keep(kind):
        return lambda name, *given, **named: sent.setdefault(name, (kind, *given)) and SimpleNamespace()

    nodes = {"add_mesh_trimesh": keep("painted"), "add_mesh_simple": keep("plain")}
    scene = SimpleNamespace(**nodes, add_line_segments=lambda *given, **named: None)
    uv, faces = torch.tensor([[0.0, 0], [1, 0], [0, 1]]), torch.tensor([[0, 1, 2]])
    texture = torch.linspace(0, 1, 12).reshape(3, 2, 2)
    part = Part(
        "sheet", slice(0, 3), faces, True, Appearance(uv=uv, uv_faces=torch.tensor([[2, 0, 1]]), texture=texture)
    )
    still = np.array([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]]).repeat(2, 0)
    viser_scene.Actor(scene, "/still", still, part)
    viser_scene.Actor(scene, "/twin", still, part, color=(1, 2, 3))
    bent = still * np.array([1.0, 2.0])[:, None, None]
    bent[1, 0, 0] = bent[1, 1, 0] = bent[1, 2, 0] = 0.0
    viser_scene.Actor(scene, "/bent", bent, part)
    assert [kind for kind, *_ in sent.values()] == ["painted", "plain", "plain"]
    mesh = sent["/still"][1]
    assert np.array_equal(mesh.visual.uv, uv.numpy()[[2, 0, 1]])
    image = np.asarray(mesh.visual.material.baseColorTexture)
    assert np.array_equal(image, (texture.numpy().transpose(1, 2, 0) * 255).round().astype(np.uint8))
    assert np.abs(mesh.vertices - (still[0] - still[0].mean(0))).max() < 1e-12


def test_both_sides_of_a_sheet_are_shown_and_one_of_what_is_closed_or_stands_still():
    sides = {}
    scene = SimpleNamespace(
        add_mesh_simple=lambda name, *given, side, **named: sides.setdefault(name, side) and SimpleNamespace(),
        add_line_segments=lambda *given, **named: None,
    )
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    closed = torch.tensor([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])
    falling = corners - np.array([0.0, 0.5])[:, None, None] * [0, 0, 1]
    part = lambda faces: Part("it", slice(0, 4), faces, False, Appearance())
    viser_scene.Actor(scene, "/sheet", falling, part(closed[:3]))
    viser_scene.Actor(scene, "/solid", falling, part(closed))
    viser_scene.Actor(scene, "/floor", falling[:1].repeat(2, 0), part(closed[:3]))
    assert sides == {"/sheet": "double", "/solid": "front", "/floor": "front"}
