"""What a renderer, its lights and its camera refuse, and what they take."""

import numpy as np
import pytest
import torch

from gradsim.errors import InputError
from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Surface
from gradsim.render.camera import Camera, look_at
from gradsim.render.renderer import Renderer
from gradsim.render.shading.lights import Ambient, Directional, Harmonics, Point
from gradsim.render.shading.shading import Shading
from gradsim.render.softras.rasterizer import SoftRas

CAMERA = look_at(eye=(0, -3, 1), target=(0, 0, 0), up=(0, 0, 1), fov_y=0.6, width=24, height=16)
BALL = mesh.sphere(0.7, 1)
VERTICES = torch.tensor(BALL.vertices)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rasterizer": "SoftRas"}, "rasterizer is 'SoftRas'; use one of aa, softras, dibr"),
        ({"rasterizer": SoftRas}, r"use one of aa, softras, dibr, or SoftRas\(\)"),
        ({"rasterizer": None}, "rasterizer is None"),
        ({"shading": "gouraud"}, "shading law is 'gouraud'"),
        ({"camera": None}, "camera is None; expected a Camera"),
        ({"samples": 1.5}, "samples is 1.5; it has to be a whole number"),
        ({"samples": 0}, "at least 1"),
        ({"near": 0.0}, "near is 0.0 m; it has to be above 0"),
        ({"background": "white"}, "background is 'white'"),
        ({"background": (255, 255, 255)}, r"in \[0, 1\]"),
        ({"background": torch.zeros(3, 16, 24, dtype=torch.uint8)}, "divide by 255"),
        ({"background": torch.zeros(16, 24, 3)}, r"has shape \(16, 24, 3\); it needs \(3\) or, for this camera, \(3, 16, 24\)"),
    ],
)  # fmt: skip
def test_a_renderer_that_cannot_be_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        Renderer(**{"camera": CAMERA} | options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ambient(1.0), "colour of Ambient is 1.0; expected three"),
        (lambda: Ambient((1.0, -0.1, 0)), "of at least 0"),
        (lambda: Ambient((torch.tensor(1.0), 0, 0)), "or one tensor of them"),  # would lose its gradient
        (lambda: Ambient(torch.zeros(4)), r"colour of Ambient has shape \(4,\)"),
        (lambda: Directional((0, 0, 0)), "direction of a Directional light has length 0"),
        (lambda: Directional((0, float("nan"), 1)), "expected three finite numbers"),
        (lambda: Point((0, 0, 1), falloff="quadratic"), "falloff of a Point light is 'quadratic'"),
        (lambda: Harmonics(torch.zeros(4, 3)), r"have shape \(4, 3\); expected \(9, 3\)"),
        (lambda: Shading("phong", Ambient()), "expected a tuple of lights"),
        (lambda: Camera(CAMERA.K, CAMERA.R, CAMERA.t, 24.0, 16), "it needs whole numbers"),
    ],
)
def test_lights_rasterisers_and_cameras_that_cannot_be_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_what_is_no_surface_and_normals_of_others_are_refused():
    render = Renderer(CAMERA, shading="phong")
    with pytest.raises(InputError, match=r"got a Tensor; expected a Surface, such as Surface.of"):
        render(VERTICES)
    with pytest.raises(InputError, match=r"normals have shape \(1, 1, 5, 3\); expected that of the vertices"):
        render.output(Surface.of(VERTICES, BALL.faces), normals=torch.rand(1, 1, 5, 3))
    with pytest.raises(InputError, match="`values` name `lights.sun.colour`; the parameters of lights are none"):
        render(Surface.of(VERTICES, BALL.faces), {"lights.sun.colour": torch.ones(1, 3)})
    with pytest.raises(InputError, match="scene is 'cube'; expected a Scene"):
        Renderer.of("cube")


def test_numbers_of_numpy_will_do():
    camera = Camera(CAMERA.K, CAMERA.R, CAMERA.t, np.int64(24), np.int64(16))
    lights = Directional(np.array([0, 1, -1]), np.float32([1, 1, 1])), Harmonics(np.ones((9, 3)).tolist())
    surface = Surface.of(BALL.vertices, BALL.faces, Appearance(tuple(np.float32([0.5, 0.2, 0.1]))))
    assert Renderer(camera, "aa", Shading("lambert", lights))(surface).shape == (1, 1, 3, 16, 24)


@pytest.mark.parametrize("rasterizer", ["aa", "softras", "dibr"])
@pytest.mark.parametrize("law", ["colour", "phong"])
def test_a_colour_keeps_its_gradient_in_another_precision(rasterizer, law):
    colour = torch.tensor([0.8, 0.3, 0.2], requires_grad=True)
    surface = Surface.of(VERTICES, BALL.faces, Appearance(colour))
    image = Renderer(CAMERA, rasterizer, law, background=(0, 0, 0))(surface)
    assert image.dtype == torch.float64
    image.sum().backward()
    # a picture over black is linear in the colour of its only body
    assert colour.grad == pytest.approx(image.detach().sum((0, 1, 3, 4)) / colour.detach(), rel=1e-5)


@pytest.mark.parametrize("rasterizer", ["aa", "softras", "dibr"])
def test_no_worlds_or_frames_make_no_images(rasterizer):
    for shape in ((0, 2), (2, 0)):
        image = Renderer(CAMERA, rasterizer, "phong")(Surface.of(VERTICES.expand(*shape, -1, -1), BALL.faces))
        assert image.shape == (*shape, 3, 16, 24)
