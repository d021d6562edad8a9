import numpy as np
import pytest
import torch

from gradsim.errors import InputError
from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Part, Surface

BOX = mesh.box((1, 2, 3))
N, M = len(BOX.vertices), len(BOX.faces)
FACES = torch.tensor(BOX.faces)


def test_vertices_and_faces_make_a_surface_of_one_world_and_frame():
    vertices = torch.tensor(BOX.vertices, dtype=torch.float32).requires_grad_()
    one = Surface.of(vertices, BOX.faces, name="box", convex=True)
    assert one.vertices.shape == (1, 1, N, 3)
    assert one.convex
    assert torch.equal(one.faces, FACES)
    one.vertices.sum().backward()
    assert torch.equal(vertices.grad, torch.ones(N, 3))
    assert Surface.of(BOX.vertices, BOX.faces).vertices.dtype == torch.float64
    assert Surface.of(vertices.expand(5, -1, -1), FACES).vertices.shape == (1, 5, N, 3)
    assert Surface.of(vertices.expand(2, 5, -1, -1), FACES).vertices.shape == (2, 5, N, 3)


def test_surfaces_add_up_and_what_stands_still_is_there_in_all_frames():
    ball = mesh.sphere(1.0, 1)
    moving = torch.tensor(ball.vertices) + torch.arange(3.0, dtype=torch.float64)[:, None, None]
    both = Surface.of(moving, ball.faces, name="ball") + Surface.of(
        BOX.vertices.astype(np.float32), BOX.faces, name="box"
    )
    n = len(ball.vertices)
    assert both.vertices.shape == (1, 3, n + N, 3)
    assert both.vertices.dtype == torch.float64
    assert [p.name for p in both.parts] == ["ball", "box"]
    assert torch.equal(both.faces, torch.cat([torch.tensor(ball.faces), FACES + n]))
    assert torch.equal(both.vertices[0, 2, :n], moving[2])
    assert torch.equal(both.vertices[0, 2, n:], torch.tensor(BOX.vertices))
    with pytest.raises(InputError, match=r"\(1, 3\) and \(1, 2\) worlds and frames"):
        both + Surface.of(moving[:2], ball.faces)


def test_without_uv_faces_each_vertex_has_one_place_on_the_texture():
    look = Appearance(uv=torch.rand(N, 2), texture=torch.rand(3, 4, 4))
    assert torch.equal(Surface.of(BOX.vertices, BOX.faces, look).parts[0].appearance.uv_faces, FACES)
    with pytest.raises(InputError, match="8 vertices, and 7 uv"):
        Surface.of(BOX.vertices, BOX.faces, Appearance(uv=torch.rand(N - 1, 2)))


@pytest.mark.parametrize(
    ("look", "message"),
    [
        ({"color": (255, 0, 0)}, r"appearance.color is \(255, 0, 0\); expected red, green and blue in \[0, 1\]"),
        ({"color": (torch.tensor(0.5), 0, 0)}, "or a tensor of them"),
        ({"color": torch.rand(4)}, r"appearance.color: got shape \(4,\); expected \(3\)"),
        ({"vertex_colors": torch.rand(N, 4)}, r"got shape \(8, 4\); expected \(n, 3\)"),
        ({"vertex_colors": torch.rand(N - 1, 3)}, "8 vertices, and 7 vertex colors"),
        ({"vertex_colors": torch.zeros(N, 3, dtype=torch.uint8)}, "torch.uint8; .* divide by 255"),
        ({"vertex_colors": np.zeros((N, 3))}, "got ndarray; expected a tensor"),
        ({"texture": torch.rand(3, 4, 4)}, "texture has no `uv`"),
        ({"texture": torch.rand(4, 4, 3), "uv": torch.rand(N, 2)}, r"got shape \(4, 4, 3\); expected \(3, h, w\)"),
        ({"texture": torch.rand(3, 0, 4), "uv": torch.rand(N, 2)}, r"got shape \(3, 0, 4\)"),
        ({"uv_faces": FACES}, "no `uv` to count in"),
        ({"uv": torch.rand(3, 2), "uv_faces": FACES}, "appearance.uv_faces name 0 to 7; there are 3 places"),
        ({"uv": torch.rand(N, 2), "uv_faces": FACES[1:]}, "12 faces, and 11 uv_faces"),
        ({"shininess": -1.0}, "appearance.shininess is -1.0"),
    ],
)
def test_a_look_that_does_not_fit_is_refused(look, message):
    with pytest.raises(InputError, match=message):
        Surface.of(BOX.vertices, BOX.faces, Appearance(**look))


@pytest.mark.parametrize(
    ("vertices", "faces", "message"),
    [
        (BOX.vertices[:, :2], FACES, r"got shape \(1, 1, 8, 2\)"),
        (BOX.vertices[0], FACES, r"vertices have shape \(3,\)"),
        (torch.zeros(N, 3, dtype=torch.float16), FACES, "got torch.float16; expected torch.float32 or torch.float64"),
        (BOX.vertices, FACES + 1, "faces of `body` name 1 to 8; there are 8 vertices"),
        (BOX.vertices, FACES - 1, "faces of `body` name -1 to 6"),
        (BOX.vertices, FACES.double(), "expected whole numbers"),
        (BOX.vertices, FACES.T, r"got shape \(3, 12\); expected \(m, 3\)"),
    ],
)
def test_vertices_and_faces_that_do_not_fit_are_refused(vertices, faces, message):
    with pytest.raises(InputError, match=message):
        Surface.of(vertices, faces)


def test_parts_follow_one_another_up_to_the_last_vertex():
    part = Part("box", slice(0, N), FACES, True, Appearance())
    with pytest.raises(InputError, match="has 9 vertices; its parts have 8"):
        Surface(torch.zeros(1, 1, N + 1, 3), (part,))
    with pytest.raises(InputError, match="`box` begins at vertex 0; the one before it ends at 8"):
        Surface(torch.zeros(1, 1, 2 * N, 3), (part, part))
    with pytest.raises(InputError, match=r"expected slice\(first, beyond the last\)"):
        Part("box", slice(None), FACES, True, Appearance())
    with pytest.raises(InputError, match=r"got shape \(8, 3\); .* as `Surface.of\(vertices, faces\)`"):
        Surface(torch.zeros(N, 3), (part,))
