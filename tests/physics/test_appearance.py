"""What the parts of a surface look like, from scene and mesh."""

import numpy as np
import pytest
import torch
import trimesh
from PIL import Image

from gradsim.errors import InputError
from gradsim.geometry import mesh as meshes
from gradsim.physics import Model
from gradsim.scene import Scene

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
BALL = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1, "position": [0, 0, 1]}


@pytest.fixture
def drawn(tmp_path):
    """The parts that pictures of such a scene show, by name, and the surface."""
    Image.fromarray(PIXELS).save(tmp_path / "a.png")

    def draw(content: dict, dtype=torch.float64):
        model = Model(Scene.parse({"bodies": {"ball": BALL}, **content}, folder=tmp_path), dtype=dtype)
        with torch.no_grad():
            surface = model.rollout(frames=2).scene_surface
        return {part.name: part for part in surface.parts}, surface

    return draw


def test_a_material_and_a_texture_reach_the_part(drawn):
    look = drawn({"bodies": {"ball": {**BALL, "material": {"texture": "a.png", "specular": 0.4}}}}, torch.float32)[0]
    look = look["ball"].appearance
    np.testing.assert_array_equal(look.texture * 255, np.moveaxis(PIXELS, -1, 0))
    assert (look.specular, look.shininess, look.smooth) == (0.4, 32.0, True)
    assert look.uv.dtype == look.texture.dtype == torch.float32
    assert look.uv_faces.shape == (1280, 3)


@pytest.mark.parametrize(
    ("shape", "smooth"),
    [
        ({"box": {"size": [1, 1, 1]}}, False),
        ({"sphere": {"radius": 0.5, "subdivisions": 1}}, True),
        ({"sphere": {"radius": 0.5, "subdivisions": 0}}, False),
        ({"cylinder": {"radius": 0.5, "height": 1}}, False),
        ({"capsule": {"radius": 0.2, "height": 0.5}}, True),
        ({"torus": {"radius": 0.5, "tube_radius": 0.2}}, True),
    ],
)
def test_bodies_without_sharp_edges_look_round(drawn, shape, smooth):
    for stated in (None, not smooth):
        body = {"shape": shape, "mass": 1, "material": {"smooth": stated}}
        assert drawn({"bodies": {"it": body}})[0]["it"].appearance.smooth == (smooth if stated is None else stated)


def test_bob_and_rod_of_a_pendulum_have_places_in_a_texture(drawn):
    bob = {"kind": "pendulum", "string_length": 0.5, "radius": 0.1, "rod_radius": 0.01}
    part = drawn({"bodies": {"bob": bob}})[0]["bob"]
    assert part.appearance.uv_faces.shape == part.faces.shape
    assert part.appearance.uv_faces.max() == len(part.appearance.uv) - 1
    assert part.appearance.smooth


def test_mesh_files_bring_their_uv_and_image(drawn, tmp_path):
    """Vertices that the file splits at a seam become one, with their places in the picture apart."""
    solid = meshes.box([1, 1, 1])
    corners, uv = solid.vertices[solid.faces].reshape(-1, 3), solid.uv[solid.uv_faces].reshape(-1, 2)
    visual = trimesh.visual.TextureVisuals(uv, image=Image.fromarray(PIXELS))
    split = trimesh.Trimesh(corners, np.arange(36).reshape(-1, 3), visual=visual, process=False)
    split.export(tmp_path / "box.obj")
    for suffix in ("obj", "glb"):
        split.export(tmp_path / f"box.{suffix}")
        body = {"shape": {"mesh": {"file": f"box.{suffix}"}}, "mass": 1}
        parts, surface = drawn({"bodies": {"box": body}})
        look, faces = parts["box"].appearance, parts["box"].faces
        np.testing.assert_array_equal((look.texture * 255).round(), np.moveaxis(PIXELS, -1, 0))
        assert surface.vertices.shape[2] == 8
        # the same place in the picture at the same place of the box, whatever the order of the file's vertices
        same = lambda x, u: {tuple(row) for row in torch.cat([x, u], -1).reshape(-1, 5).numpy().round(5).tolist()}
        found = same(surface.vertices[0, 0][faces], look.uv[look.uv_faces])
        assert found == same(*(torch.tensor(a) for a in (corners, uv)))


def test_mesh_files_bring_the_colors_of_their_vertices(drawn, tmp_path):
    solid = meshes.sphere(1, 1)
    colors = np.random.default_rng(1).integers(0, 256, (len(solid.vertices), 4), np.uint8)
    trimesh.Trimesh(solid.vertices, solid.faces, vertex_colors=colors, process=False).export(tmp_path / "a.ply")
    parts, surface = drawn({"bodies": {"it": {"shape": {"mesh": {"file": "a.ply"}}, "mass": 1}}})
    at = surface.vertices[0, 0]
    order = torch.cdist(at, torch.tensor(solid.vertices)).argmin(1)
    torch.testing.assert_close(parts["it"].appearance.vertex_colors, torch.tensor(colors[:, :3] / 255)[order])


def test_a_texture_without_places_is_refused(drawn, tmp_path):
    solid = meshes.box([1, 1, 1])
    trimesh.Trimesh(solid.vertices, solid.faces).export(tmp_path / "box.stl")
    body = {"shape": {"mesh": {"file": "box.stl"}}, "mass": 1, "material": {"texture": "a.png"}}
    with pytest.raises(
        InputError, match=r"bodies\.box\.material\.texture: the mesh file has no uv .*leave the texture"
    ):
        drawn({"bodies": {"box": body}})


@pytest.mark.parametrize(
    ("ground", "right", "up"),
    [
        ({"height": 0.3}, [1, 0, 0], [0, 1, 0]),
        ({"normal": [0, -1, 0], "height": -2}, [1, 0, 0], [0, 0, 1]),
        ({"normal": [0.3, -0.2, 0.9]}, None, None),
    ],
)
def test_a_visible_ground_is_a_square_of_its_plane(drawn, ground, right, up):
    parts, surface = drawn({"ground": {**ground, "visible": {"size": 2, "centre": [0.1, 0, -1], "repeat": 3}}})
    square = surface.vertices[0, 1, parts["ground"].vertices]
    normal = torch.nn.functional.normalize(torch.tensor(ground.get("normal", [0, 0, 1]), dtype=torch.float64), dim=0)
    a, b, c, d = square
    torch.testing.assert_close(square @ normal, torch.full((4,), float(ground.get("height", 0))).double())
    torch.testing.assert_close(torch.linalg.cross(b - a, d - a), 4 * normal)
    torch.testing.assert_close(c - b, d - a)
    centre = torch.tensor([0.1, 0, -1]).double()
    torch.testing.assert_close(torch.linalg.cross(square.mean(0) - centre, normal), torch.zeros(3).double())
    if right:
        torch.testing.assert_close((b - a) / 2, torch.tensor(right).double())
        torch.testing.assert_close((d - a) / 2, torch.tensor(up).double())
    look = parts["ground"].appearance
    assert look.uv[look.uv_faces].max() == 3


def test_only_visible_grounds_are_drawn_and_none_are_in_the_surface(drawn):
    parts, surface = drawn(
        {"grounds": {"floor": {}, "wall": {"normal": [1, 0, 0], "height": -1, "visible": {"size": 1}}}}
    )
    assert list(parts) == ["ball", "wall"]
    assert surface.vertices.shape[2] == 646
