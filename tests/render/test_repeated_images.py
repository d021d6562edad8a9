"""Images that repeat an earlier call: the same as those of a renderer that has drawn nothing before."""

import copy
import pickle
import threading

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gradsim.engine.launch import BoundLaunch
from gradsim.errors import InputError
from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Surface
from gradsim.render import Antialiased, Renderer, SoftRas, look_at
from gradsim.render.repeated_images import BoundImage

SIZE = 24
KINDS = ("image", "alpha")
TURN = torch.tensor([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)


class Scene:
    """A ball with colors of its vertices before a camera.

    Args:
        kind: "image" by `Antialiased`, "alpha" by `SoftRas`.
        dtype: That of the vertices.
        images: Worlds and frames.
    """

    def __init__(self, kind: str, dtype: torch.dtype = torch.float64, images: tuple[int, int] = (1, 2)):
        ball, self.kind = mesh.sphere(0.7, 1), kind
        generator = torch.Generator().manual_seed(3)
        points = torch.tensor(ball.vertices).double()
        noise = torch.randn(*images, *points.shape, generator=generator, dtype=torch.float64)
        self.points = (points + 0.01 * noise).to(dtype).requires_grad_()
        self.colors = torch.rand(len(points), 3, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        self.faces = torch.as_tensor(ball.faces).clone()
        self.camera = look_at((0.3, -3.0, 0.4), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.6, SIZE, SIZE)
        channels = (3,) if kind == "image" else ()
        shape = (*images, *channels, SIZE, SIZE)
        self.weight = torch.rand(shape, generator=generator, dtype=torch.float64).to(dtype)
        self.renderer = self.new_renderer()

    def new_renderer(self) -> Renderer:
        return Renderer(self.camera, Antialiased() if self.kind == "image" else SoftRas())

    def surface(self, points: Tensor | None = None, colors: Tensor | None = None) -> Surface:
        look = Appearance(vertex_colors=self.colors if colors is None else colors)
        return Surface.of(self.points if points is None else points, self.faces, look, convex=True)

    def draw(self, renderer: Renderer | None = None, surface: Surface | None = None) -> Tensor:
        renderer, surface = renderer or self.renderer, surface or self.surface()
        return renderer(surface) if self.kind == "image" else renderer.alpha(surface)

    def results(self, renderer: Renderer | None = None) -> list[Tensor]:
        """Image, and gradients by vertices and colors."""
        image = self.draw(renderer)
        leaves = [self.points, self.colors] if self.kind == "image" else [self.points]
        return [image.detach(), *torch.autograd.grad(image, leaves, self.weight)]

    def repeat(self) -> list[Tensor]:
        """Results of the third call."""
        return [self.results() for _ in range(3)][-1]


def check_same(results: list[Tensor], expected: list[Tensor]) -> None:
    assert len(results) == len(expected)
    for x, y in zip(results, expected, strict=True):
        assert torch.equal(x, y)
    assert all(x.abs().max() > 0 for x in results)


def bound_calls(renderer: Renderer) -> list[BoundImage]:
    calls = vars(renderer)["_repeated"]._threads.values()
    return [call for by_key in calls for call in by_key.values() if isinstance(call, BoundImage)]


@pytest.fixture(params=KINDS)
def scene(request) -> Scene:
    return Scene(request.param)


@pytest.mark.parametrize("images", [(1, 1), (2, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_repeated_calls_give_the_same_bits(kind, dtype, images):
    scene = Scene(kind, dtype, images)
    expected = scene.results()
    check_same(scene.repeat(), expected)
    assert len(bound_calls(scene.renderer)) == 1


def test_numbers_of_vertices_and_colors_are_read_at_each_call(scene):
    scene.repeat()
    scene.points.detach().numpy()[..., 0] *= 1.05
    scene.colors.detach().numpy()[:] *= 0.5
    check_same(scene.results(), scene.results(scene.new_renderer()))


@pytest.mark.parametrize("way", ["operation", "numpy", "data"])
def test_changes_of_the_camera_are_noticed(scene, way):
    before, camera = scene.repeat(), scene.camera
    turned = TURN @ camera.R
    if way == "operation":
        camera.K[0, 0] *= 1.3
    elif way == "numpy":
        camera.K.numpy()[0, 0] *= 1.3
    else:
        camera.R.data = turned
    after = scene.results()
    copied = copy.deepcopy(scene.camera)
    renderer = Renderer(copied, scene.renderer.rasterizer)
    check_same(after, scene.results(renderer))
    assert not torch.equal(after[0], before[0])
    check_same(scene.results(scene.new_renderer()), after)  # not by bound calls


@pytest.mark.parametrize("way", ["operation", "numpy"])
def test_changes_of_the_faces_are_noticed(scene, way):
    before, entries = scene.repeat(), bound_calls(scene.renderer)[0].entries
    turned = scene.faces[:, [0, 2, 1]].clone()  # inside out
    if way == "operation":
        scene.faces.copy_(turned)
    else:
        scene.faces.numpy()[:] = turned.numpy()
    after = scene.repeat()
    scene.faces = turned
    expected = scene.results(scene.new_renderer())
    assert torch.equal(after[0], expected[0])
    assert bound_calls(scene.renderer)[0].entries != entries
    if scene.kind == "image":
        assert not torch.equal(after[0], before[0])


def test_gradients_are_those_of_the_numbers_of_the_forward_pass(scene):
    expected = scene.repeat()
    first = scene.draw()
    with torch.no_grad():
        scene.points *= 1.1
        scene.colors *= 0.5
        scene.camera.K[0, 0] *= 1.2
    second = scene.draw()
    leaves = [scene.points, scene.colors] if scene.kind == "image" else [scene.points]
    later = torch.autograd.grad(second, leaves, scene.weight, retain_graph=True)
    check_same([first.detach(), *torch.autograd.grad(first, leaves, scene.weight)], expected)
    fresh = scene.results(scene.new_renderer())
    check_same([second.detach(), *later], fresh)
    check_same([second.detach(), *torch.autograd.grad(second, leaves, scene.weight)], fresh)


def test_a_graph_that_is_retained_has_the_same_gradient_again_and_one_that_is_not_has_none(scene):
    for _ in range(3):
        image = scene.draw(scene.renderer)
        (once,) = torch.autograd.grad(image, scene.points, scene.weight, retain_graph=True)
        other = scene.points.detach().mul(1.01).requires_grad_()
        scene.draw(surface=scene.surface(other)).sum().backward()
        (again,) = torch.autograd.grad(image, scene.points, scene.weight)
        check_same([again], [once])
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            torch.autograd.grad(image, scene.points, scene.weight)
    assert bound_calls(scene.renderer)


def test_faces_out_of_range_are_refused_however_they_are_written(scene):
    scene.repeat()
    scene.faces.numpy()[0, 0] = 10**6
    with pytest.raises(InputError, match=r"faces of `body` name 0 to 1000000"):
        scene.draw()


def test_vertices_that_cannot_be_drawn_are_refused(scene):
    expected = scene.repeat()
    with torch.no_grad():
        number = scene.points[0, 1, 5, 2].clone()
        scene.points[0, 1, 5, 2] = torch.nan
    with pytest.raises(InputError, match="vertex 5 of `body` is"):
        scene.draw()
    with torch.no_grad():
        scene.points[0, 1, 5, 2] = number
    check_same(scene.results(), expected)


def test_bodies_through_the_near_plane_are_drawn(scene):
    scene.repeat()
    with torch.no_grad():
        scene.points[0, 1, :, 1] -= 2.7
    check_same(scene.results(), scene.results(scene.new_renderer()))


@pytest.mark.parametrize("requires", [(True, False), (False, True), (False, False)])
def test_gradients_are_taken_by_what_requires_them(requires):
    scene = Scene("image")
    expected = scene.repeat()
    scene.points.requires_grad_(requires[0])
    scene.colors.requires_grad_(requires[1])
    image = scene.draw()
    assert torch.equal(image.detach(), expected[0]) and image.requires_grad == any(requires)
    leaves = [x for x in (scene.points, scene.colors) if x.requires_grad]
    if leaves:
        by_leaves = [g for g, need in zip(expected[1:], requires, strict=True) if need]
        check_same(list(torch.autograd.grad(image, leaves, scene.weight)), by_leaves)
    with torch.no_grad():
        assert not scene.draw().requires_grad


def test_gradients_by_a_camera_that_requires_them_later(scene):
    scene.repeat()
    scene.camera.t.requires_grad_()
    image = scene.draw()
    (slope,) = torch.autograd.grad(image, scene.camera.t, scene.weight)
    expected = torch.autograd.grad(scene.draw(scene.new_renderer()), scene.camera.t, scene.weight)[0]
    assert torch.equal(slope, expected) and slope.abs().max() > 0


def test_gradients_by_what_vertices_depend_on(scene):
    scene.repeat()
    scale = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    slope = lambda renderer: torch.autograd.grad(
        scene.draw(renderer, scene.surface(scene.points * scale)), scale, scene.weight
    )[0]
    slope(scene.renderer)
    assert torch.equal(slope(scene.renderer), slope(scene.new_renderer()))
    assert slope(scene.renderer) != 0


def test_adjoints_may_be_of_any_layout(scene):
    scene.repeat()
    image = scene.draw()
    transposed = scene.weight.transpose(-1, -2).contiguous().transpose(-1, -2)
    (slope,) = torch.autograd.grad(image, [scene.points], transposed)
    assert torch.equal(slope, scene.results(scene.new_renderer())[1])


def test_calls_within_transforms_are_as_before():
    scene = Scene("alpha")
    expected = scene.repeat()
    by_points = lambda points: (scene.draw(None, scene.surface(points)) * scene.weight).sum()
    slope = torch.func.grad(by_points)(scene.points.detach())
    torch.testing.assert_close(slope, expected[1], rtol=1e-12, atol=1e-14)
    with pytest.raises(NotImplementedError, match="forward-mode"):
        torch.func.jvp(by_points, (scene.points.detach(),), (torch.ones_like(scene.points),))


def test_second_derivatives_raise(scene):
    scene.repeat()
    image = scene.draw()
    (slope,) = torch.autograd.grad(image, [scene.points], scene.weight, create_graph=True)
    with pytest.raises(NotImplementedError, match="differentiable once"):
        slope.sum().backward()
    weight = scene.weight.clone().requires_grad_()
    (slope,) = torch.autograd.grad(scene.draw(), [scene.points], weight, create_graph=True)
    with pytest.raises(NotImplementedError, match="differentiable once"):
        torch.autograd.grad(slope.sum(), weight)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_a_renderer_draw_the_same(scene, way):
    expected = scene.repeat()
    copied = way(scene.renderer)
    for _ in range(3):
        check_same(scene.results(copied), expected)
    copied.camera.K[0, 0] *= 1.3
    changed = scene.results(copied)
    assert not torch.equal(changed[0], expected[0])
    if way is not copy.copy:
        check_same(scene.results(), expected)


def test_threads_draw_at_the_same_time_and_differentiate_for_one_another(scene):
    expected, images, errors = scene.repeat(), {}, []

    def work(k: int) -> None:
        try:
            for _ in range(20):
                check_same(scene.results(), expected)
            images[k] = scene.draw()
        except (AssertionError, RuntimeError) as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for image in images.values():
        assert torch.equal(torch.autograd.grad(image, [scene.points], scene.weight)[0], expected[1])


def test_threads_differentiate_images_of_one_thread_at_the_same_time(scene):
    expected, slopes = scene.repeat()[1], {}
    images = [[scene.draw() for _ in range(40)] for _ in range(3)]

    def work(k: int) -> None:
        slopes[k] = [torch.autograd.grad(image, [scene.points], scene.weight)[0] for image in images[k]]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(images))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(slope, expected) for k in range(len(images)) for slope in slopes[k])


def test_calls_are_recomputed_by_checkpoints(scene):
    image = checkpoint(lambda points: scene.draw(None, scene.surface(points)), scene.points, use_reentrant=False)
    expected = torch.autograd.grad(image, [scene.points], scene.weight)[0]
    for _ in range(3):
        image = checkpoint(lambda points: scene.draw(None, scene.surface(points)), scene.points, use_reentrant=False)
        scene.repeat()  # which binds, between the passes
        assert torch.equal(torch.autograd.grad(image, [scene.points], scene.weight)[0], expected)


def test_dtypes_take_turns(scene):
    other = Scene(scene.kind, torch.float32)
    expected, fresh = scene.repeat(), other.results()
    other.renderer, other.faces = scene.renderer, scene.faces
    for _ in range(3):
        check_same(other.results(), [*fresh])
        check_same(scene.results(), expected)
    assert len(bound_calls(scene.renderer)) == 2


def test_one_color_for_all_vertices():
    scene = Scene("image")
    draw = lambda renderer, color: renderer(Surface.of(scene.points, scene.faces, Appearance(color), convex=True))
    for color in ((1.0, 0.0, 0.5), (0.2, 0.9, 0.1)):
        images = [draw(scene.renderer, color) for _ in range(3)]
        fresh = draw(scene.new_renderer(), color)
        assert all(torch.equal(image, fresh) for image in images)
        slopes = [torch.autograd.grad(x, scene.points, scene.weight)[0] for x in (images[-1], fresh)]
        assert torch.equal(*slopes)
    assert len(bound_calls(scene.renderer)) == 2


def test_images_are_not_written_again():
    scene = Scene("image")
    scene.repeat()
    image = scene.draw()
    numbers = image.detach().clone()
    slope = torch.autograd.grad(image, scene.points, scene.weight, retain_graph=True)[0]
    copied = slope.clone()
    with torch.no_grad():
        scene.points *= 1.05
    scene.repeat()
    assert torch.equal(image.detach(), numbers) and torch.equal(slope, copied)
    assert torch.equal(torch.autograd.grad(image, scene.points, scene.weight)[0], copied)


def test_a_compiled_function_that_draws_has_the_values_and_gradients_of_a_plain_one():
    scene = Scene("alpha")
    other = scene.points.detach().clone().requires_grad_()
    loss = lambda x: scene.new_renderer().alpha(scene.surface(x)).square().sum()
    for function, leaf in ((loss, scene.points), (torch.compile(loss, backend="aot_eager"), other)):
        function(leaf).backward()
    assert scene.points.grad is not None and scene.points.grad.any()
    torch.testing.assert_close(other.grad, scene.points.grad)


def test_gradients_have_the_shape_of_the_call_whatever_becomes_of_the_vertices(scene):
    for _ in range(3):
        image = scene.draw()
    shape = scene.points.shape
    scene.points.data = scene.points.data[:, :, :4].clone()
    (gradient,) = torch.autograd.grad((image * scene.weight).sum(), [scene.points])
    assert gradient.shape == shape and gradient.any()


def test_a_camera_whose_taking_is_interrupted_is_taken_again(scene, monkeypatch):
    for _ in range(3):
        scene.draw()
    before = scene.draw().detach().clone()
    place, fails = BoundLaunch.place, [True]

    def interrupted(launch, **arguments):
        place(launch, **arguments)
        if fails and "matrices" in arguments:
            fails.clear()
            raise KeyboardInterrupt

    monkeypatch.setattr(BoundLaunch, "place", interrupted)
    original = scene.camera.R.clone()
    scene.camera.R.copy_(TURN.to(original) @ original)
    with pytest.raises(KeyboardInterrupt):
        scene.draw()
    scene.camera.R.copy_(original)
    torch.testing.assert_close(scene.draw(), before, rtol=0, atol=1e-12)


def test_faces_that_change_at_each_call_are_no_longer_bound(scene):
    for _ in range(6):
        scene.faces.copy_(scene.faces.roll(1, 0))
        for one, other in zip(scene.results(), scene.results(scene.new_renderer()), strict=True):
            torch.testing.assert_close(one, other)
    assert not bound_calls(scene.renderer)
