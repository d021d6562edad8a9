"""Projections computed by hand, the conventions of other programs restated from their documents, and Jacobians."""

import json
import math

import pytest
import torch
from PIL import Image
from scipy.spatial.transform import Rotation
from tolerances import ROUNDING, assert_near

from gradsim.errors import InputError
from gradsim.render import camera
from gradsim.render.camera import Camera, project
from gradsim.scene.camera import CameraSpec


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


def rotation(seed):
    return torch.as_tensor(Rotation.random(rng=seed).as_matrix())


def generator(seed):
    return torch.Generator().manual_seed(seed)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


@pytest.fixture
def view():
    """A generic camera: turned, moved, with skew and two focal lengths, on a picture that is not square."""
    K = double([410.0, 1.5, 170.2], [0, 395.0, 118.9], [0, 0, 1])
    return Camera(K, rotation(3), double(0.3, -0.2, 4.0), 320, 240)


@pytest.fixture
def points(view):
    """Points in front of it."""
    seen = torch.cat([random(50, 2), 2 + torch.rand(50, 1, generator=generator(1), dtype=torch.float64)], dim=-1)
    return (seen - view.t) @ view.R


def same(a, b, tolerance=1e-12):
    assert (a.width, a.height) == (b.width, b.height)
    for name in "KRt":
        torch.testing.assert_close(getattr(a, name), getattr(b, name), rtol=tolerance, atol=tolerance)


def test_projection_computed_by_hand():
    K = double([100, 2, 32], [0, 80, 24], [0, 0, 1])
    R = double([0, 1, 0], [-1, 0, 0], [0, 0, 1])  # a quarter turn about the optical axis
    # x_c = (3, −1, 2) + (1, 2, 3) = (4, 1, 5)
    pixels, depth = project(double(1, 3, 2), K, R, double(1, 2, 3))
    torch.testing.assert_close(pixels, double(100 * 0.8 + 2 * 0.2 + 32, 80 * 0.2 + 24), rtol=0, atol=1e-13)
    assert depth == 5


def test_look_at_computed_by_hand():
    seen = camera.look_at((0, -4, 1), (0, 0, 1), (0, 0, 1), math.pi / 2, 60, 40)
    # f = 20 px / tan 45°; the image covers 2 × tan 45° × 4 m = 8 m in height and 12 m in width at the target
    spots = double([0, 0, 1], [6, 0, 5], [-6, 0, -3], [0, 4, 3])
    pixels, depth = seen.project(spots)
    assert_near(pixels, double([30, 20], [60, 0], [0, 40], [30, 15]), ROUNDING, scale=1.0)
    assert_near(depth, double(4, 4, 4, 8), ROUNDING, scale=1.0)
    torch.testing.assert_close(seen.centre, double(0, -4, 1), rtol=0, atol=1e-13)


def test_look_at_needs_no_up_at_right_angles():
    steep = camera.look_at((1, -4, 3), (0.2, 0.3, 0.6), (0.1, 0, 2), 0.8, 64, 48)
    pixels, _ = steep.project(double([0.2, 0.3, 0.6], [0.2 + 0.01, 0.3, 0.6 + 0.2]))
    torch.testing.assert_close(pixels[0], double(32, 24), rtol=0, atol=1e-10)
    assert pixels[1, 0] == pytest.approx(32) and pixels[1, 1] < 24  # `up` from the target goes straight up


def test_opengl_axes_are_right_up_backward():
    pose = torch.eye(4, dtype=torch.float64)
    pose[:3, 3] = double(0, 0, 10)  # looks down from z = 10, up in the picture is +y
    seen = camera.from_opengl(pose, double([50, 0, 32], [0, 50, 24], [0, 0, 1]), 64, 48)
    pixels, depth = seen.project(double([1, 0, 0], [0, 1, 0]))
    assert_near(pixels, double([37, 24], [32, 19]), ROUNDING, scale=1.0)
    assert depth.tolist() == [10, 10]


def test_pytorch3d_cameras_project_as_its_documents_say(points):
    """x_v = x R + T; NDC = f_ndc x_v / z_v + p_ndc with +x left, +y up and the short side [−1, 1]
    (pytorch3d.org/docs/cameras: f_ndc = f 2/s, p_ndc = −(p − size/2) 2/s)."""
    width, height = 320, 240
    focal, principal, R = double(410, 395), double(170.2, 118.9), rotation(5)
    T = double(0.2, 0.1, 6)
    short, size = min(width, height), double(width, height)
    x = points @ R + T
    ndc = 2 / short * (focal * x[:, :2] / x[:, 2:] - (principal - size / 2))
    expected = size / 2 - ndc * short / 2
    pixels, depth = camera.from_pytorch3d(R, T, focal, principal, width, height).project(points)
    assert_near(pixels, expected, ROUNDING)
    assert_near(depth, x[:, 2], ROUNDING)


def test_one_focal_length_serves_both_axes():
    one = camera.from_pytorch3d(rotation(1), double(0, 0, 1), double(300), double(16, 12), 32, 24)
    assert one.K.diagonal().tolist() == [300, 300, 1]


def test_round_trips_through_other_conventions_change_nothing(view):
    same(camera.from_opengl(view.to_opengl(), view.K, 320, 240), view)
    same(camera.from_opengl(view.to_opengl()[:3], view.K, 320, 240), view)
    straight = Camera(view.K - torch.diag(double(1.5, 0), 1), view.R, view.t, 320, 240)  # no skew there
    same(camera.from_pytorch3d(*straight.to_pytorch3d(), 320, 240), straight)


def test_opengl_and_pytorch3d_poses_of_one_camera_agree(view):
    pose = view.to_opengl()
    R, T, _, _ = view.to_pytorch3d()
    torch.testing.assert_close(pose[:3, 3], -T @ R.T)  # both have the same centre
    torch.testing.assert_close(pose[:3, :3] * double(-1, 1, -1), R)  # left, up, forward


@pytest.fixture
def transforms(tmp_path, view):
    """Write `transforms.json` with the pose of `view` as its second frame and the given entries; return its path."""

    def make(frame=None, **top):
        poses = [torch.eye(4).tolist(), view.to_opengl().tolist()]
        frames = [{"file_path": f"./train/r_{k}", "transform_matrix": pose} for k, pose in enumerate(poses)]
        frames[1].update(frame or {})
        path = tmp_path / "transforms.json"
        path.write_text(json.dumps({**top, "frames": frames}))
        return path

    return make


def test_transforms_json_of_nerf_takes_the_size_of_the_image(tmp_path, transforms, view):
    (tmp_path / "train").mkdir()
    Image.new("RGB", (80, 60)).save(tmp_path / "train" / "r_1.png")
    seen = camera.from_transforms_json(transforms(camera_angle_x=2 * math.atan(0.5)), 1)
    same(seen, Camera(double([80, 0, 40], [0, 80, 30], [0, 0, 1]), view.R, view.t, 80, 60))


def test_transforms_json_of_nerfstudio_has_its_own_intrinsics(transforms, view):
    path = transforms(fl_x=410, fl_y=395, cx=170.2, cy=118.9, w=320, h=240, k1=0.0)
    straight = view.K.clone()
    straight[0, 1] = 0
    same(camera.from_transforms_json(path, 1), Camera(straight, view.R, view.t, 320, 240))
    own = camera.from_transforms_json(transforms({"fl_x": 500}, fl_x=410, w=320, h=240), 1)
    assert own.K.tolist() == [[500, 0, 160], [0, 500, 120], [0, 0, 1]]
    wide = camera.from_transforms_json(transforms(camera_angle_x=1.0, camera_angle_y=math.pi / 2, w=320, h=240), 1)
    assert wide.K[1, 1] == pytest.approx(120)


def test_transforms_json_has_the_lens_of_its_camera_model(transforms):
    full = {"fl_x": 400, "w": 320, "h": 240, "k1": 0.1, "k2": 0.02, "k3": 0.003}
    brown = camera.from_transforms_json(transforms(**full, p1=1e-3, camera_model="OPENCV"), 1).optics
    assert brown.distortion.tolist() == [0.1, 0.02, 1e-3, 0.0, 0.003] and brown.fisheye is None
    wide = camera.from_transforms_json(transforms(**full, k4=4e-4, camera_model="OPENCV_FISHEYE"), 1).optics
    assert wide.fisheye.tolist() == [0.1, 0.02, 0.003, 4e-4] and wide.distortion is None


def test_transforms_json_that_cannot_work_is_refused(tmp_path, transforms):
    full = {"fl_x": 400, "w": 320, "h": 240}
    with pytest.raises(InputError, match="2 frames; frame 2 does not exist"):
        camera.from_transforms_json(transforms(**full), 2)
    with pytest.raises(InputError, match=r"k4 = 0.1, not one of OpenCV's"):
        camera.from_transforms_json(transforms(**full, k1=0, k4=0.1), 1)
    with pytest.raises(InputError, match="no focal length"):
        camera.from_transforms_json(transforms(w=320, h=240), 1)
    with pytest.raises(InputError, match="no image size"):
        camera.from_transforms_json(transforms(fl_x=400), 1)
    with pytest.raises(InputError, match="not a rotation"):
        camera.from_transforms_json(
            transforms({"transform_matrix": torch.diag(torch.full((4,), 2.0)).tolist()}, **full), 1
        )
    with pytest.raises(InputError, match="shape"):
        camera.from_transforms_json(transforms({"transform_matrix": [[1.0]]}, **full), 1)
    with pytest.raises(InputError, match=r"not a transforms\.json"):
        camera.from_transforms_json(tmp_path / "none.json")
    for text in ("{", "[]", '{"frames": [{}]}', '{"frames": 3}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(InputError, match=r"bad\.json is not a transforms\.json"):
            camera.from_transforms_json(tmp_path / "bad.json", 0)


def test_moving_world_and_camera_together_changes_nothing(view, points):
    turn, shift = rotation(9), double(0.4, -2, 1)
    moved = Camera(view.K, view.R @ turn.T, view.t - view.R @ turn.T @ shift, 320, 240)
    for before, after in zip(view.project(points), moved.project(points @ turn.T + shift), strict=True):
        torch.testing.assert_close(after, before, rtol=1e-12, atol=1e-10)


def test_worlds_pair_with_the_first_dimension_of_points():
    K = torch.eye(3, dtype=torch.float64).repeat(4, 1, 1)
    K[:, 0, 0], K[:, 0, 2] = double(100, 110, 120, 130), double(1, 2, 3, 4)
    R, t = torch.stack([rotation(k) for k in range(4)]), random(4, 3) + double(0, 0, 9)
    points = random(4, 5, 6, 3, seed=7)
    pixels, depth = project(points, K, R, t)
    assert pixels.shape == (4, 5, 6, 2) and depth.shape == (4, 5, 6)
    for world in range(4):
        alone = project(points[world], K[world], R[world], t[world])
        torch.testing.assert_close((pixels[world], depth[world]), alone, rtol=0, atol=0)
    # each camera array on its own, and one motion seen by all cameras
    torch.testing.assert_close(project(points, K, R[0], t)[0][2], project(points[2], K[2], R[0], t[2])[0])
    torch.testing.assert_close(project(points[:1], K, R, t)[0][3], project(points[0], K[3], R[3], t[3])[0])
    # one moving camera: its matrices have (worlds, frames)
    torch.testing.assert_close(
        project(points, K, R.unsqueeze(1).expand(4, 5, 3, 3), t)[0], project(points, K, R, t)[0], rtol=0, atol=0
    )
    with pytest.raises(ValueError, match="same leading worlds"):
        project(points[0, 0, 0], K, R, t)


def test_jacobians_match_the_complex_step(view, points):
    """Im f(x + ih) / h at h = 1e-30 is exact to rounding."""
    arguments = (points, view.K, view.R, view.t)

    def screen(*arguments):
        pixels, depth = project(*arguments)
        return torch.cat([pixels, depth.unsqueeze(-1)], dim=-1)

    for place, x in enumerate(arguments):
        others = [a for k, a in enumerate(arguments) if k != place]

        def function(x, place=place, others=others):
            return screen(*others[:place], x, *others[place:])

        step = random(*x.shape, seed=place)
        _, tangent = torch.autograd.functional.jvp(function, x, step)
        exact = function(torch.complex(x, 1e-30 * step)).imag / 1e-30
        torch.testing.assert_close(tangent, exact, rtol=1e-10, atol=1e-10 * float(exact.abs().max()))


def test_jacobian_matches_its_closed_form(view, points):
    """∂(u, v)/∂x = K₂ₓ₃ (1 − x̂ e_zᵀ) R / z_c with x̂ = x_c / z_c."""
    seen = points[0] @ view.R.T + view.t
    ray = seen / seen[2]
    closed = view.K[:2] @ (torch.eye(3, dtype=torch.float64) - torch.outer(ray, double(0, 0, 1))) @ view.R / seen[2]
    auto = torch.autograd.functional.jacobian(lambda x: view.project(x)[0], points[0])
    torch.testing.assert_close(auto, closed, rtol=1e-10, atol=1e-10)


def test_projection_passes_through_torch_compile(view, points):
    compiled = torch.compile(project, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(points, view.K, view.R, view.t), view.project(points), rtol=0, atol=0)


def test_a_camera_works_in_the_precision_of_the_points(view, points):
    pixels, depth = view.project(points.float())
    assert pixels.dtype == depth.dtype == torch.float32
    torch.testing.assert_close(pixels.double(), view.project(points)[0], rtol=1e-5, atol=1e-3)


R_LEVEL, T_LEVEL = [[1, 0, 0], [0, 0, -1], [0, 1, 0]], [0, 1, 4]  # at (0, −4, 1), level, along +y


@pytest.mark.parametrize(
    "spec",
    [
        {"look_at": {"eye": [0, -4, 1], "target": [0, 0, 1], "fov": "90 deg"}},
        {"look_at": {"eye": [0, -4, 1], "target": [0, 0, 1]}, "focal": 20, "centre": [30, 20]},
        {"K": [[20, 0, 30], [0, 20, 20], [0, 0, 1]], "R": R_LEVEL, "t": T_LEVEL},
        {"focal": 20, "R": R_LEVEL, "t": T_LEVEL},
    ],
)
def test_a_camera_written_in_several_ways_in_a_scene_is_the_same(spec):
    K = double([20, 0, 30], [0, 20, 20], [0, 0, 1])
    expected = Camera(K, torch.tensor(R_LEVEL), torch.tensor(T_LEVEL), 60, 40)
    same(camera.from_scene(CameraSpec.model_validate({"size": [60, 40], **spec})), expected)


def test_scene_and_camera_look_at_alike():
    view = {"eye": (1, -4, 3), "target": (0.2, 0.3, 0.6), "up": (0.1, 0, 2)}
    spec = CameraSpec.model_validate({"size": (64, 48), "look_at": {**view, "fov": 0.8}})
    same(camera.from_scene(spec), camera.look_at(**view, fov_y=0.8, width=64, height=48))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"K": torch.eye(4)}, r"`K` .* shape \(3, 3\)"),
        ({"t": double(0, 0, math.nan)}, "`t` .* finite"),
        ({"K": torch.diag(double(-1, 1, 1))}, "positive focal lengths"),
        ({"K": double([1, 0, 0], [0, 1, 0], [0, 1, 1])}, "form"),
        ({"R": 1.01 * torch.eye(3)}, "not a rotation"),
        ({"R": torch.diag(double(1, 1, -1))}, "not a rotation"),
        ({"width": 0}, "0 × 8"),
    ],
)
def test_arrays_that_make_no_camera_are_refused(change, message):
    good = {"K": torch.eye(3), "R": torch.eye(3), "t": torch.zeros(3), "width": 8, "height": 8}
    with pytest.raises(InputError, match=message):
        Camera(**{**good, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": (0, -4, 1)}, "`eye` and `target` are both"),
        ({"up": (0, 2, 0)}, "along the view"),
        ({"up": (0, 0, 0)}, "zero"),
        ({"fov_y": 45.0}, "between 0 and π"),
    ],
)
def test_views_that_make_no_camera_are_refused(change, message):
    good = {"eye": (0, -4, 1), "target": (0, 0, 1), "up": (0, 0, 1), "fov_y": 0.8, "width": 8, "height": 8}
    with pytest.raises(InputError, match=message):
        camera.look_at(**{**good, **change})


@pytest.mark.parametrize("size", [(64, 48), (20, 90), (200, 30)])
def test_a_resized_camera_has_all_of_the_view_in_the_middle(size):
    torch.manual_seed(0)
    seen = camera.look_at((1, -5, 2), (0, 0, 0.4), (0, 0, 1), 0.7, 32, 24)
    seen = Camera(seen.K + torch.tensor([[0, 0, 3.0], [0, 0, -2.0], [0, 0, 0]]), seen.R, seen.t, 32, 24)
    other, points = seen.resized(*size), torch.randn(9, 3, dtype=torch.float64)
    factor = min(size[0] / 32, size[1] / 24)
    middles = torch.tensor([16.0, 12.0]), torch.tensor(size) / 2
    expected = (seen.project(points)[0] - middles[0]) * factor + middles[1]
    assert (other.project(points)[0] - expected).abs().max() < 1e-9
    assert (other.width, other.height) == size
