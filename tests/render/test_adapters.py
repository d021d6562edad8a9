"""The same points through each package's documented projection, written out here, and through Mitsuba itself."""

import math

import numpy as np
import pytest
import torch
from tolerances import ROUNDING, near

from gradsim import InputError
from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Part, Surface
from gradsim.render import adapters
from gradsim.render import adapters as mesh_adapters
from gradsim.render.camera import Camera, look_at
from gradsim.render.silhouettes import Silhouettes

WIDTH, HEIGHT = 64, 48


def camera(focal=(60.0, 60.0), centre=(30.0, 27.0), skew=0.0):
    """A camera with its principal point off the middle, tilted about all axes."""
    pose = look_at((1.5, -3.0, 2.0), (0.1, 0.2, 0.4), (0.2, 0.1, 1.0), 0.8, WIDTH, HEIGHT)
    K = torch.tensor([[focal[0], skew, centre[0]], [0, focal[1], centre[1]], [0, 0, 1]])
    return Camera(K, pose.R, pose.t, WIDTH, HEIGHT)


POINTS = torch.tensor(np.random.default_rng(0).uniform(-0.5, 0.9, (20, 3)))


def same(a, b):
    """Largest difference of two cameras' arrays."""
    return max((getattr(a, n) - getattr(b, n)).abs().max().item() for n in ("K", "R", "t"))


def surface(worlds=2, frames=3):
    """Two parts that move: a box and a pyramid."""
    parts, vertices = [], []
    for k, body in enumerate((mesh.box((0.5, 0.4, 0.3)), mesh.cone(0.3, 0.5, segments=5))):
        first = sum(len(v) for v in vertices)
        vertices.append(torch.tensor(body.vertices) + 0.8 * k)
        parts.append(
            Part(
                f"p{k}", slice(first, first + len(body.vertices)), torch.tensor(body.faces), True, Appearance((1, 0, 0))
            )
        )
    rest = torch.cat(vertices)
    shift = torch.arange(worlds * frames, dtype=torch.float64).reshape(worlds, frames, 1, 1) * 0.05
    return Surface(rest + shift, tuple(parts))


def test_pytorch3d_projects_to_the_same_pixels():
    ours = camera((60.0, 80.0))
    given = adapters.to_pytorch3d([ours, ours])
    assert given["in_ndc"] is False and given["image_size"].tolist() == [[HEIGHT, WIDTH]] * 2
    seen = POINTS @ given["R"][1].double() + given["T"][1].double()  # rows; x to the left, y up
    pixels = given["principal_point"][1] - given["focal_length"][1] * seen[:, :2] / seen[:, 2:]
    assert (pixels - ours.project(POINTS)[0]).abs().max() < 1e-4  # float32


def test_kaolin_projects_to_the_same_pixels():
    ours = camera((60.0, 80.0))
    given = adapters.to_kaolin(ours)
    x, y, z, _ = (given["view_matrix"] @ torch.nn.functional.pad(POINTS, (0, 1), value=1.0).T).unbind()
    # its perspective and NDC matrices, for the frustum l, r = ∓W/2 and b, t = ∓H/2; w = −z
    ndc_x = 2 / WIDTH * (given["focal_x"] * x - given["x0"] * z) / -z
    ndc_y = 2 / HEIGHT * (given["focal_y"] * y - given["y0"] * z) / -z
    pixels = torch.stack([WIDTH / 2 * (1 + ndc_x), HEIGHT / 2 * (1 - ndc_y)], 1)
    assert (pixels - ours.project(POINTS)[0]).abs().max() < 1e-10
    assert same(adapters.from_kaolin(**given), ours) < 1e-12


def test_nvdiffrast_clip_space_maps_to_the_same_pixels_and_depths():
    ours = camera((60.0, 80.0), skew=3.0)
    clip = torch.nn.functional.pad(POINTS, (0, 1), value=1.0) @ adapters.to_nvdiffrast(ours, 0.5, 20.0).T
    ndc = clip[:, :3] / clip[:, 3:]
    pixels = torch.stack([(ndc[:, 0] + 1) * WIDTH / 2, HEIGHT - (ndc[:, 1] + 1) * HEIGHT / 2], 1)
    expected, depth = ours.project(POINTS)
    assert (pixels - expected).abs().max() < 1e-10
    assert (ndc[:, 2] - (20.5 - 2 * 20 * 0.5 / depth) / 19.5).abs().max() < 1e-12  # OpenGL: near −1, far 1


@pytest.mark.parametrize("factor", [1.0, 0.3])
def test_a_clip_matrix_gives_its_camera_back_whatever_its_scale(factor):
    ours = camera((60.0, 80.0), skew=3.0)
    assert same(adapters.from_nvdiffrast(factor * adapters.to_nvdiffrast(ours), WIDTH, HEIGHT), ours) < 1e-9


def test_mitsuba_parameters_give_the_camera_back_and_have_its_field_of_view():
    ours = camera()
    given = adapters.to_mitsuba(ours)
    assert given.pop("type") == "perspective"
    assert given["fov"] == near(math.degrees(2 * math.atan(32 / 60)), ROUNDING)
    assert same(adapters.from_mitsuba(**given, width=WIDTH, height=HEIGHT), ours) < 1e-12
    tall = adapters.from_mitsuba(given["to_world"], 50.0, WIDTH, HEIGHT, fov_axis="smaller")
    assert tall.K[1, 1].item() == near(HEIGHT / 2 / math.tan(math.radians(25)), ROUNDING)


def test_mitsuba_draws_the_silhouette_that_we_draw():
    """Its film averages samples in a pixel; √(¼/n) bounds their error, and 5 of these pass in every pixel."""
    mi = pytest.importorskip("mitsuba", reason='Mitsuba is not installed: pip install "gradsim[mitsuba]"')
    mi.set_variant("scalar_rgb")
    ours, world, samples = camera(), surface(1, 1), 256
    sensor = adapters.to_mitsuba(ours)
    sensor["to_world"] = mi.ScalarTransform4f(sensor["to_world"])
    sensor["film"] = {"type": "hdrfilm", "width": WIDTH, "height": HEIGHT, "rfilter": {"type": "box"}}
    sensor["film"] |= {"pixel_format": "luminance"}
    sensor["sampler"] = {"type": "multijitter", "sample_count": samples}
    scene = {"type": "scene", "integrator": {"type": "direct"}, "sensor": sensor, "sky": {"type": "constant"}}
    for part in world.parts:
        given = mesh_adapters.flat(world, part)
        shape = mi.Mesh(part.name, given["vertex_count"], given["face_count"])
        buffers = mi.traverse(shape)
        for name in ("vertex_positions", "faces"):
            buffers[name] = given[name].numpy()
        buffers.update()
        shape.set_bsdf(mi.load_dict({"type": "diffuse", "reflectance": 0.0}))  # black before a white sky
        scene[part.name] = shape
    image = 1 - np.array(mi.render(mi.load_dict(scene)))[..., 0]
    masks = Silhouettes(ours).masks(world)[0, 0]
    mask = (1 - (1 - masks).prod(0)).numpy()
    assert 100 < mask.sum() < WIDTH * HEIGHT / 2
    assert np.abs(image - mask).max() < 5 * math.sqrt(0.25 / samples)
    assert abs(image.sum() / mask.sum() - 1) < 5e-3


def test_lenses_that_a_package_does_not_know_are_refused():
    for convert in (adapters.to_pytorch3d, adapters.to_kaolin, adapters.to_mitsuba):
        with pytest.raises(InputError, match="skew 3 px"):
            convert(camera(skew=3.0))
    with pytest.raises(InputError, match="focal lengths 60 and 80 px"):
        adapters.to_mitsuba(camera((60.0, 80.0)))
    with pytest.raises(InputError, match="0 < near < far"):
        adapters.to_nvdiffrast(camera(), 1.0, 0.5)
    with pytest.raises(InputError, match="fov_axis is 'z'"):
        adapters.from_mitsuba(torch.eye(4), 40.0, 8, 8, fov_axis="z")
    with pytest.raises(InputError, match="one camera at a time"):
        adapters.from_kaolin(torch.eye(4).expand(2, 4, 4), 50.0, 8, 8)
    with pytest.raises(InputError, match="mirrors the world"):
        adapters.from_nvdiffrast(
            adapters.to_nvdiffrast(camera()) @ torch.diag(torch.tensor([-1.0, 1, 1, 1]).double()), 8, 8
        )


def corners(vertices, faces):
    """Positions of the corners of all triangles, (..., m, 3, 3)."""
    return vertices[..., faces, :]


def test_batches_hold_the_same_triangles():
    world = surface()
    expected = torch.cat([corners(world.vertices[:, :, p.vertices], p.faces) for p in world.parts], 2).flatten(0, 1)
    batch = mesh_adapters.padded(world)
    assert batch["faces"].shape == (6, 12 + 8, 3) and batch["faces"].dtype == torch.int64
    for item in range(6):
        assert torch.equal(corners(batch["verts"][item], batch["faces"][item]), expected[item])
    long = mesh_adapters.packed(world)
    assert torch.equal(corners(long["vertices"], long["faces"]), expected.flatten(0, 1))
    assert long["first_vertex"].tolist()[-1] == len(long["vertices"])
    assert long["first_face"].tolist() == [20 * k for k in range(7)]


def test_clipped_vertices_project_to_the_same_pixels_and_carry_gradients():
    world, ours = surface(), camera()
    moving = Surface(world.vertices.clone().requires_grad_(), world.parts)
    given = mesh_adapters.clipped(moving, ours)
    assert given["tri"].dtype == torch.int32 and given["pos"].dtype == torch.float32
    u = (given["pos"][..., 0] / given["pos"][..., 3] + 1) * WIDTH / 2
    expected = ours.project(world.vertices.flatten(0, 1))[0][..., 0]
    assert (u - expected).abs().max() < 1e-3  # float32
    (gradient,) = torch.autograd.grad(u.sum(), moving.vertices)
    assert torch.isfinite(gradient).all() and gradient.abs().max() > 1
