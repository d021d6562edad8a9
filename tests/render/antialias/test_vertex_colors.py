"""Pictures with colors of vertices: one pass, or one launch, as fragments, interpolation and compositing."""

import pytest
import torch

from gradsim.engine.kernel_program import KernelProgram
from gradsim.geometry.surface import Appearance, Surface
from gradsim.render import Renderer, look_at
from gradsim.render.antialias import convex
from gradsim.render.antialias.passes import add_touched
from gradsim.render.coverage.coverage import coverage
from gradsim.render.coverage.edges import edges_of, mesh_of
from gradsim.render.raster.composite import composite
from gradsim.render.raster.fragments import Fragments
from gradsim.render.raster.vertex_colors import paint
from gradsim.render.raster.zbuffer import nearest
from gradsim.render.silhouettes import Silhouettes
from gradsim.render.view import View

HEIGHT, WIDTH, IMAGES = 20, 24, 2
CAMERA = look_at((0.3, -5.0, 0.4), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.5, WIDTH, HEIGHT)
OCTAHEDRON = torch.tensor([[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]])


def random(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.rand(*shape, dtype=torch.float64, generator=generator)


def parts(size: tuple[int, int]):
    """View of two images of an octahedron, its colors, coverage, background and table of visible triangles."""
    axes = torch.eye(3, dtype=torch.float64)
    corners = torch.stack([axes, -axes], 1).flatten(0, 1) + 0.2 * random(IMAGES, 6, 3)
    corners = corners[None].requires_grad_()
    view = View.of(Surface.of(corners, OCTAHEDRON, Appearance(), convex=True), Silhouettes(CAMERA))
    alpha, key = coverage(view.pixels[None], view.faces, HEIGHT, WIDTH)[0], nearest(view)
    add_touched(view, key, alpha)
    background = random(1, 3, *size).requires_grad_()
    return corners, view, random(1, 6, 3).requires_grad_(), alpha, background, key


@pytest.mark.parametrize("size", [(1, 1), (HEIGHT, WIDTH)])
def test_one_pass_is_fragments_interpolated_and_composited(size):
    corners, view, colors, alpha, background, key = parts(size)
    fragments = Fragments.of(view, key)
    separate = composite(fragments, fragments.interpolate(colors), alpha, background)
    image = paint(view, key, colors, alpha, background)
    touched = int((fragments.side != 3).sum())
    assert 10 < touched < 0.5 * len(fragments.side)
    assert torch.allclose(image, separate, rtol=0, atol=1e-13)
    weight = random(*image.shape)
    inputs = [corners, colors, background]
    pairs = zip(*(torch.autograd.grad(x, inputs, weight, retain_graph=True) for x in (image, separate)), strict=True)
    for a, b in pairs:
        assert b.abs().max() > 1e-2
        assert torch.allclose(a, b, rtol=0, atol=1e-11 * float(b.abs().max()))


def test_table_of_faces_changed_in_place_is_another_mesh():
    faces = OCTAHEDRON.clone()
    whole = mesh_of(faces)[1].numpy()
    faces[0] = faces[1]
    changed = mesh_of(faces)[1].numpy()
    assert whole.tolist() != changed.tolist()
    assert changed.tolist() == [list(row) for row in edges_of(faces.numpy())]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("size", [None, (1, 1), (HEIGHT, WIDTH)], ids=["tuple", "color", "image"])
def test_one_launch_is_coverage_visibility_and_colors_one_after_another(dtype, size, monkeypatch):
    corners, _, colors, *_ = parts((1, 1))
    background = (0.9, 0.2, 0.4) if size is None else random(1, 3, *size).to(dtype)[0].requires_grad_()
    leaves = [x.detach().to(dtype).requires_grad_() for x in (corners, colors[0])]
    leaves += [] if size is None else [background]
    if size == (1, 1):
        background = background[:, 0, 0]
    results = []
    for separate in (False, True):
        if separate:
            monkeypatch.setattr(convex, "draw", lambda *_: None)
        surface = Surface.of(leaves[0], OCTAHEDRON, Appearance(vertex_colors=leaves[1]), convex=True)
        output = Renderer(CAMERA, background=background).output(surface)
        assert isinstance(program_of(output.rgb), KernelProgram) == separate
        loss = (output.rgb * random(*output.rgb.shape)).sum() + (output.alpha * random(*output.alpha.shape)).sum()
        results.append([output.rgb, output.alpha, *torch.autograd.grad(loss, leaves)])
    for one, other in zip(*results, strict=True):
        assert other.abs().max() > 0.1
        assert (one - other).abs().max() < 200 * torch.finfo(dtype).eps * other.abs().max()


def program_of(image: torch.Tensor):
    """The program that drew an image, from its graph in PyTorch."""
    node = image.grad_fn
    while not hasattr(node, "program"):
        node = next(parent for parent, _ in node.next_functions if parent is not None)
    return node.program


def test_one_launch_is_left_out_where_a_vertex_is_not_before_the_near_plane():
    corners, view, colors, _, background, _ = parts((1, 1))
    assert convex.draw(view, colors, background, "none") is not None
    behind = View.of(
        Surface.of(corners.detach() - torch.tensor([0.0, 5.0, 0.0]), OCTAHEDRON, convex=True), Silhouettes(CAMERA)
    )
    assert convex.draw(behind, colors, background, "none") is None


def test_colors_of_another_dtype_are_those_colors():
    """Launches are bound for one dtype, and exchange addresses alone."""
    _, view, colors, _, background, _ = parts((1, 1))
    expected = convex.draw(view, colors.float().double(), background.float().double(), "none")
    image = convex.draw(view, colors.float(), background.float(), "none")
    assert expected is not None and image is not None
    assert torch.equal(image[0], expected[0])
