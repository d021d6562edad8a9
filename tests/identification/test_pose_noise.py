"""Cameras that move: a body in closed form, seen by a pinhole that is not ours and shakes; poses with errors and their covariance."""

import json

import cv2
import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from tracks_cases import CORNERS, FOCAL, FPS, FRAMES, SIZE, TRUTH, UNKNOWNS, scene, thrown

import gradsim as gs
from gradsim.errors import InputError
from gradsim.geometry.camera_poses import CameraPoses, read_poses
from gradsim.identification.observation.base import Masks
from gradsim.identification.problem import Problem
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene

K = np.array([[FOCAL, 0, SIZE[0] / 2], [0, FOCAL, SIZE[1] / 2], [0, 0, 1]])
SD = np.array([2e-3, 2e-3, 2e-3, 4e-3, 4e-3, 4e-3])  # of a pose, rad and m


def shaking(frames=FRAMES, seed=0, size=1.0):
    """R (frames, 3, 3) and t (frames, 3) of a camera that a hand holds, 3 m from the body, and turns by some degrees."""
    t = np.arange(frames) / FPS
    rng = np.random.default_rng(100 + seed)
    phase, rate = rng.uniform(0, 6, 6), rng.uniform(3, 9, 6)
    wave = size * np.sin(rate * t[:, None] + phase) * np.array([0.03, 0.03, 0.05, 0.05, 0.05, 0.05])
    forward = np.array([-0.3, 3.0, -0.2]) / np.linalg.norm([-0.3, 3.0, -0.2])
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    R0 = np.stack([right, np.cross(forward, right), forward])
    R = Rotation.from_rotvec(wave[:, :3]).as_matrix() @ R0
    center = np.array([0.3, -3.0, 1.2]) + wave[:, 3:]
    return R, -np.einsum("nij,nj->ni", R, center)


def seen(points, R, t):
    """Pixels (frames, n, 2) by OpenCV's projection."""
    project = lambda x, r, s: cv2.projectPoints(x, cv2.Rodrigues(r)[0], s, K, None)[0].reshape(-1, 2)
    return np.stack([project(x, r, s) for x, r, s in zip(points, R, t, strict=True)])


def poses_file(path, R, t, sd=SD, seed=None):
    """File of these poses, with errors of this standard deviation if there is a seed."""
    if seed is not None:
        error = SD * np.random.default_rng(seed).standard_normal((len(R), 6))
        R, t = Rotation.from_rotvec(error[:, :3]).as_matrix() @ R, t + error[:, 3:]
    CameraPoses(np.arange(len(R)) / FPS, R, t, np.tile(np.diag(sd**2), (len(R), 1, 1))).save(path)
    return path


def moving_scene(path, frames=FRAMES, size=SIZE, focal=FOCAL, **camera):
    look = {"size": list(size), "focal": focal, "motion": str(path), **camera}
    return scene(camera=look, timing={"fps": FPS, "frames": frames})


def points(world, pixels, sigma=0.4):
    return gs.Points(world.markers, torch.tensor(pixels), sigma, Silhouettes.of(world))


def test_a_moving_camera_sees_what_opencv_projects(tmp_path):
    R, t = shaking()
    world = moving_scene(poses_file(tmp_path / "poses.json", R, t))
    expected = seen(thrown(), R, t)
    trajectory = Model(world).rollout()
    predicted = points(world, expected).predict(trajectory)[0].detach().numpy()
    assert np.abs(predicted - expected).max() < 1e-6
    screen = Silhouettes.of(world).screen(trajectory.surface)[0].detach().numpy()
    vertices = trajectory.surface.vertices[0].detach().numpy()
    assert np.abs(screen - seen(vertices, R, t)).max() < 1e-6


@pytest.mark.parametrize("lens", [{}, {"readout": 0.01}])
def test_masks_of_a_moving_camera_have_the_derivatives_of_differences(tmp_path, lens):
    R, t = shaking(4)
    world = moving_scene(poses_file(tmp_path / "poses.json", R, t, 0 * SD), 4, (160, 120), 300.0, **lens)
    names = ["cube.velocity.x:-3:3", "cube.angular_velocity.y:-8:8", "camera.translation.z:0:9", "camera.focal:200:400"]
    space = Space(world, names)
    masks = 0.1 * torch.rand(4, 120, 160, generator=torch.Generator().manual_seed(0)).double()
    problem = Problem(Model(world), Masks(masks, 0.1, Silhouettes.of(world)), space)
    u = space.inner(torch.tensor([[1.1, 4.0, 2.9, 310.0]], dtype=torch.float64))
    _, _, gradient = problem.linearize(u, 4)
    for k in range(4):
        step = 1e-5 * torch.eye(4, dtype=torch.float64)[k]
        costs = [problem.cost(u + c * step, 4).item() for c in (-2, -1, 1, 2)]
        expected = (costs[0] - 8 * costs[1] + 8 * costs[2] - costs[3]) / 12e-5
        assert abs(2 * gradient[0, k].item() - expected) < 1e-6 * max(abs(expected), 1)
    u = u.requires_grad_()
    (adjoint,) = torch.autograd.grad(problem.sum_of_squares(u)[0].sum(), u)
    assert (adjoint - 2 * gradient).abs().max() < 1e-9 * adjoint.abs().max()


@pytest.mark.parametrize("memory", [0.0, 0.3])
def test_the_noise_of_poses_is_that_of_many_draws(tmp_path, memory):
    """Whitened residuals of 400 draws of pose errors and noise, without a fit: covariance 1 within 6 sd of its entries, 6/√400.

    With a memory, errors of poses are an Ornstein–Uhlenbeck process of this correlation time [s].
    """
    R, t = shaking(3)
    sd = 4 * SD if memory else SD
    covariance = np.tile(np.diag(sd**2), (3, 1, 1))
    CameraPoses(np.arange(3) / FPS, R[:3], t[:3], covariance, memory).save(tmp_path / "poses.json")
    share = np.exp(-1 / FPS / memory) if memory else 0.0
    world = moving_scene(tmp_path / "poses.json", 3)
    clean, rng = seen(thrown(3), R, t), np.random.default_rng(0)
    observation = points(world, clean).linearized_at(Model(world).rollout())
    rows = []
    for _ in range(400):
        error = sd * rng.standard_normal((3, 6))
        for k in (1, 2):
            error[k] = share * error[k - 1] + np.sqrt(1 - share**2) * error[k]
        turned = Rotation.from_rotvec(error[:, :3]).as_matrix() @ R[:3]
        pixels = seen(thrown(3), turned, t[:3] + error[:, 3:]) + 0.4 * rng.standard_normal(clean.shape)
        rows.append((pixels - clean).ravel() / 0.4)
    whitened = observation._correlated.whiten(torch.tensor(np.array(rows)), 3).numpy()  # pyright: ignore[reportOptionalMemberAccess]
    covariance = whitened.T @ whitened / len(rows)
    assert np.abs(covariance - np.eye(len(covariance))).max() < 0.3


def test_errors_of_poses_that_are_alike_over_time_have_the_covariance_of_a_process(tmp_path):
    """Block (k, l) of the covariance is exp(-|t_k - t_l|/τ) J_k L_k L_lᵀ J_lᵀ, with J_k L_k of independent errors."""
    R, t = shaking(3)
    covariance = np.tile(np.diag(SD**2), (3, 1, 1))
    blocks = []
    for memory in (0.0, 0.1):
        CameraPoses(np.arange(3) / FPS, R, t, covariance, memory).save(tmp_path / f"{memory}.json")
        world = moving_scene(tmp_path / f"{memory}.json", 3)
        noise = points(world, seen(thrown(3), R, t)).linearized_at(Model(world).rollout())._correlated
        assert noise is not None
        blocks.append(noise.modes.flatten(1, 2).numpy())
    independent, alike = blocks
    for k in range(3):
        for j in range(3):
            local = [independent[i][:, 6 * i : 6 * i + 6] for i in (k, j)]
            expected = np.exp(-abs(k - j) / FPS / 0.1) * local[0] @ local[1].T
            assert np.abs(alike[k] @ alike[j].T - expected).max() < 1e-9 * np.abs(expected).max()


def shaken_fit(tmp_path, seed, sd=SD, still=False):
    """Fit of noisy tracks of a camera whose poses have errors of `SD`, and are stated with `sd`, or that is taken to stand still."""
    R, t = shaking(seed=seed)
    pixels = seen(thrown(), R, t) + 0.4 * np.random.default_rng(seed).standard_normal((FRAMES, 4, 2))
    world = moving_scene(poses_file(tmp_path / f"{seed}.json", R, t, sd, seed=seed))
    if still:
        world = scene(camera={"size": list(SIZE), "focal": FOCAL, "R": R[0].tolist(), "t": t[0].tolist()})
    return gs.identify(world, list(UNKNOWNS), observation=points(world, pixels), starts=1, known_numbers=False)


def scores(fit):
    return [(fit.unknowns[name].value - truth) / fit.unknowns[name].std for name, truth in TRUTH.items()]


def test_the_covariance_of_poses_is_in_the_error_bars(tmp_path):
    fit = shaken_fit(tmp_path, 0)
    assert fit.status == "ok" and np.abs(scores(fit)).max() < 4
    assert all(set(entry["values"]) == set(fit.unknowns) for entry in fit.history)  # which the report draws


@pytest.mark.parametrize("wrong", [{"sd": 0 * SD}, {"still": True}])
def test_poses_taken_as_exact_and_a_camera_taken_to_stand_still_are_a_mismatch(tmp_path, wrong):
    assert shaken_fit(tmp_path, 0, **wrong).status == "mismatch"


@pytest.mark.slow
def test_intervals_hold_the_truth_with_errors_of_poses(tmp_path):
    """Of 24 errors the mean square in standard deviations is 1 ± 0.29."""
    fits = [shaken_fit(tmp_path, seed) for seed in range(6)]
    z = np.concatenate([scores(fit) for fit in fits])
    assert all(fit.status == "ok" for fit in fits) and 0.4 < np.mean(z**2) < 1.9 and np.abs(z).max() < 4


def test_poses_between_frames_turn_at_a_constant_rate_and_move_straight():
    times, axis, center = (
        np.array([0.0, 0.1, 0.3]),
        np.array([0.1, 0.2, -0.3]),
        np.array([[0, 0, 1], [0.1, 0, 1], [0.1, 0.4, 1]]),
    )
    R = Rotation.from_rotvec(times[:, None] * axis).as_matrix()
    poses = CameraPoses(times, R, -np.einsum("nij,nj->ni", R, center), np.zeros((3, 6, 6)))
    at, shift = poses.at(np.array([-1.0, 0.05, 0.2, 9.0]))
    assert np.allclose(Rotation.from_matrix(at).as_rotvec(), np.array([[0], [0.05], [0.2], [0.3]]) * axis, atol=1e-12)
    middle = -np.einsum("nji,nj->ni", at, shift)
    assert np.allclose(middle, [[0, 0, 1], [0.05, 0, 1], [0.1, 0.2, 1], [0.1, 0.4, 1]], atol=1e-12)
    assert poses.covers(np.array([0.0, 0.0501, 0.1005, 0.3])).tolist() == [True, False, True, True]


def test_tracks_in_frames_without_a_pose_do_not_count(tmp_path):
    R, t = shaking(6)
    keep = [0, 1, 2, 4, 5]
    CameraPoses(np.array(keep) / FPS, R[keep], t[keep], np.zeros((5, 6, 6))).save(tmp_path / "poses.json")
    (tmp_path / "tracks.csv").write_text("frame,name,u,v,sd\n" + "\n".join(f"{k},a,{100 + k},50,1" for k in range(6)))
    tracks = gs.read_tracks(moving_scene(tmp_path / "poses.json", 6), tmp_path / "tracks.csv")
    assert tracks.tracked[:, 0].tolist() == [True, True, True, False, True, True]


@pytest.mark.parametrize(
    "change, words",
    [
        ({"schema": "other"}, "has the schema 'other'; expected gradsim.poses/1"),
        ({"times": [0.0, 0.0]}, "`times` that increase"),
        ({"R": [[[1, 0, 0], [0, 1, 0], [0, 0, 2]]] * 2}, "is not a rotation"),
        ({"t": [[0, 0, 1]]}, "has shape"),
        ({"covariance": [(-np.eye(6)).tolist()] * 2}, "positive semidefinite"),
        ({"correlation_time": -0.1}, "expected seconds, 0 or more"),
    ],
)
def test_a_wrong_file_of_poses_is_refused(tmp_path, change, words):
    path = poses_file(tmp_path / "poses.json", *shaking(2))
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=words):
        read_poses(path)
    with pytest.raises(InputError, match=words):
        moving_scene(path)


def test_a_camera_with_two_poses_and_rasterizers_of_a_moving_one_are_refused(tmp_path):
    path = poses_file(tmp_path / "poses.json", *shaking(2))
    with pytest.raises(InputError, match="or `motion` of a camera that moves"):
        Scene.parse(
            {
                "bodies": {"cube": {"shape": {"box": {"size": [0.1, 0.1, 0.1]}}, "mass": 1}},
                "camera": {"size": [64, 48], "focal": 50, "motion": str(path), "R": np.eye(3).tolist(), "t": [0, 0, 1]},
            }
        )
    with pytest.raises(InputError, match="the camera moves"):
        gs.Renderer.of(moving_scene(path))
    assert len(CORNERS) == 4
