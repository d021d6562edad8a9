"""A known length gives focal length or distance; both at once are judged by the Fisher information."""

import math

import numpy as np
import pytest
import torch
from fit_cases import throw

from gradsim.app.commands.camera import calibrate_camera
from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.identification.camera_calibration import camera_from_length
from gradsim.identification.problem import Problem
from gradsim.identification.uncertainty.fisher import analyze
from gradsim.identification.unknowns import Space
from gradsim.render.camera import from_scene
from gradsim.scene import Scene
from gradsim.scene.camera import CameraSpec

EYE, TARGET = np.array([0.4, -4.0, 1.3]), np.array([0.1, 0.2, 0.7])


def camera(eye=EYE, **lens) -> CameraSpec:
    view = {"eye": eye.tolist(), "target": TARGET.tolist()}
    return CameraSpec.model_validate({"size": [80, 60], "look_at": view, **(lens or {"focal": 90.0})})


def ends(camera: CameraSpec, tilt=0.0, length=0.6, off=(0.3, 0.2)) -> list:
    """Pixels of a rod at the target's depth, beside the middle of the picture."""
    _, R, t = camera.matrices()
    depth = (R @ TARGET + t)[2]
    along = length / 2 * np.array([0.8 * math.cos(tilt), 0.6 * math.cos(tilt), math.sin(tilt)])
    seen = [np.array([*off, depth]) + sign * along for sign in (-1, 1)]
    world = torch.tensor(np.array([R.T @ (p - t) for p in seen]))
    return from_scene(camera).project(world)[0].tolist()


def test_focal_length_of_a_rod_parallel_to_the_image_is_exact():
    found = camera_from_length(camera(focal=50.0), ends(camera()), 0.6)
    assert found.value == pytest.approx(90, rel=1e-12)
    K, R, t = found.camera.matrices()
    assert K[0, 0] == K[1, 1] == found.value
    assert np.allclose(t, camera().matrices()[2]) and np.allclose(R, camera().matrices()[1])


def test_distance_of_a_rod_parallel_to_the_image_is_exact():
    near = camera(eye=TARGET + 0.4 * (EYE - TARGET))
    found = camera_from_length(near, ends(camera()), 0.6, solve="distance")
    assert found.value == pytest.approx(np.linalg.norm(EYE - TARGET), rel=1e-12)
    assert np.allclose(found.camera.matrices()[2], camera().matrices()[2]) and found.camera.focal == 90


def test_a_tilt_that_is_known_is_allowed_for():
    """To second order in the rod's depth over its distance."""
    tilt = math.radians(25)
    pixels = ends(camera(), tilt, off=(0, 0))
    assert camera_from_length(camera(), pixels, 0.6, tilt=tilt).value == pytest.approx(90, rel=1e-3)
    assert abs(camera_from_length(camera(), pixels, 0.6).value / 90 - 1) > 0.05


def test_error_bar_is_the_scatter_of_clicks():
    rng, exact = np.random.default_rng(0), np.array(ends(camera()))
    found = [
        camera_from_length(camera(), (exact + 0.7 * rng.standard_normal((2, 2))).tolist(), 0.6, click=0.7)
        for _ in range(800)
    ]
    values = np.array([f.value for f in found])
    assert values.std() == pytest.approx(found[0].std, rel=0.12)  # 2.5 % from 800, second order in 0.7/13 px
    assert values.mean() == pytest.approx(90, rel=0.02)


@pytest.mark.parametrize("lens", [{"focal": 90.0}, {"K": [[90, 0, 41], [0, 90, 29], [0, 0, 1]]}])
def test_a_camera_by_matrix_needs_to_know_where_the_reference_is(lens):
    _, R, t = camera().matrices()
    matrix = CameraSpec.model_validate({"size": [80, 60], "R": R.tolist(), "t": t.tolist(), **lens})
    with pytest.raises(InputError, match="`at`"):
        camera_from_length(matrix, ends(camera()), 0.6)
    found = camera_from_length(matrix, ends(matrix), 0.6, at=TARGET.tolist())
    assert found.value == pytest.approx(90, rel=1e-9)
    assert np.allclose(found.camera.matrices()[0], matrix.matrices()[0])
    moved = camera_from_length(matrix, ends(matrix), 1.2, solve="distance", at=TARGET.tolist())
    assert moved.value == pytest.approx(2 * np.linalg.norm(EYE - TARGET), rel=1e-9)


@pytest.mark.parametrize(
    "change, told",
    [
        ({"points": [[10, 10], [10, 10]]}, "0 px apart"),
        ({"points": [[10, 10], [90, 10]]}, "80 × 60"),
        ({"points": [[10, 10]]}, "x1,y1,x2,y2"),
        ({"length": 0}, "above 0"),
        ({"length": math.nan}, "above 0"),
        ({"tilt": 2.0}, "right angle"),
        ({"solve": "both"}, "focal or distance"),
        ({"at": [0.4, -9.0, 1.3]}, "behind the camera"),
    ],
)
def test_mistakes_are_named(change, told):
    with pytest.raises(InputError, match=told):
        camera_from_length(**{"camera": camera(), "points": [[10, 10], [40, 30]], "length": 0.6, **change})


def test_the_command_writes_a_whole_scene_with_its_assumptions(tmp_path):
    scene = throw()
    scene.save(tmp_path / "a.yaml")
    given = {"length": 0.5, "at": None, "tilt": 0.0, "click": 0.5}
    text = calibrate_camera(tmp_path / "a.yaml", tmp_path / "b.yaml", points="4,8,12,14", solve="focal", **given)
    focal = 10 * np.linalg.norm(np.subtract([0.2, 0, 0.8], [0.2, -4, 0.8])) / 0.5
    written = Scene.load(tmp_path / "b.yaml").camera
    assert written is not None and written.focal == pytest.approx(focal)
    assert "Assumes that the camera's place is right" in text and "80.0 ± 5.7 px" in text
    with pytest.raises(InputError, match="--points"):
        calibrate_camera(tmp_path / "a.yaml", tmp_path / "c.yaml", points="4,8,12", solve="focal", **given)


@pytest.mark.parametrize("towards, known", [(0.0, False), (-2.5, True)])
def test_focal_length_and_distance_together_show_where_the_body_comes_near(towards, known):
    """A flat plate that flies across, parallel to the image, tells f/Z only; if it flies at the camera it tells both."""
    plate = {"box": {"size": [0.5, 0.001, 0.3]}}
    scene = throw(8, 24, shape=plate, velocity=[0.6, towards, 0], pushes=[])
    names = ["camera.focal:20:60", "camera.translation.z:3:6"]
    assert scene.camera is not None
    K, _, t = scene.camera.matrices()
    truth = {"camera.focal": float(K[0, 0]), "camera.translation.z": float(t[2])}
    model, trajectory = synthetic.simulate(scene, names, truth)
    seen = synthetic.float_masks(scene, trajectory)
    space = Space(scene, names)
    problem = Problem(model, seen, space)
    u = space.inner(torch.tensor([list(truth.values())], dtype=torch.float64))
    _, (A,), _ = problem.linearize(u, 8)
    found = analyze(space, A, False)
    assert (found.rank == 2) == known
    assert known or {"camera.focal", "camera.translation.z"} <= set(found.null[0].combination)
