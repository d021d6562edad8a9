"""Angular velocities that show a symmetric body alike in every frame."""

import itertools
import math

import numpy as np
import pytest
import torch
from fit_cases import recorded, throw, true_inner
from PIL import Image, ImageDraw
from scipy.spatial import ConvexHull

import gradsim as gs
from gradsim import video
from gradsim.errors import Status
from gradsim.identification import verdict
from gradsim.identification.solvers.aliases import spin_aliases, symmetries
from gradsim.identification.solvers.multistart import Outcome
from gradsim.numerics import rotation

FPS = 20
QUARTER = math.pi / 2 * FPS  # [rad/s] of a quarter of a turn a frame
CUBE = {"shape": {"box": {"size": [0.4, 0.4, 0.4]}}, "pushes": [], "velocity": [0.5, 0, 1.5]}


def corners(*size) -> np.ndarray:
    return np.array(list(itertools.product((-0.5, 0.5), repeat=3))) * size


@pytest.mark.parametrize(
    ("points", "count"),
    [
        (corners(0.4, 0.4, 0.4), 24),
        (corners(0.4, 0.3, 0.3), 8),
        (corners(0.4, 0.3, 0.2), 4),
        (np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1.0]]), 12),  # a tetrahedron
        (np.array([[0, 0, 2.0], [0, 0, -2], [1, 0, 0], [0, 1, 0], [-1, -1, 0]]), 2),  # half a turn about (-1, -1, 0)
        (np.array([[0, 0, 1.0], [0, 0, -1]]), 1),  # round about an axis
        (np.random.default_rng(0).standard_normal((12, 3)), 1),
        (gs.Scene.library("cube").bodies["cube"].shape.mesh().vertices * [1, 1.1, 1.2], 4),
    ],
)
def test_rotations_map_a_shape_to_itself(points, count):
    turn = rotation.to_matrix(rotation.exponential(torch.tensor([0.3, -0.7, 1.1]).double())).numpy()
    points = np.asarray(points, float) @ turn.T
    group = symmetries(points)
    assert len(group) == count
    for R in rotation.to_matrix(group).numpy():
        distance = np.linalg.norm((points @ R.T)[:, None] - points, axis=2)
        assert np.linalg.det(R) == pytest.approx(1) and distance.min(1).max() < 1e-9


def test_places_of_a_spin_by_a_quarter_more_or_less_a_frame_show_the_same():
    scene = throw(**CUBE)
    name, truth = "cube.angular_velocity.z", {"cube.velocity.x": 0.5, "cube.angular_velocity.z": 3.0}
    problem = recorded(scene, ["cube.velocity.x:0:1", f"{name}:-70:70"], truth)
    u = true_inner(problem, truth)
    places = spin_aliases(problem, u[0])
    spins = sorted(places[:, 1].tolist())
    assert spins == pytest.approx([3 + k * QUARTER for k in (-2, -1, 1, 2)], abs=1e-9)
    assert (places[:, 0] == 0.5).all()
    # what is left is of the time steps, which turn by another angle
    assert (problem.cost(places, problem.frames) < 1e-6 * problem.cost(u + 0.05, problem.frames)).all()


@pytest.mark.parametrize(
    ("shape", "ranges"),
    [
        ({"box": {"size": [0.4, 0.4, 0.4]}}, "-10:10"),  # no alias is in the range
        ({"box": {"size": [0.4, 0.35, 0.3]}}, "-40:40"),  # half a turn a frame is beyond it
        ({"sphere": {"radius": 0.2}}, "-40:40"),
    ],
)
def test_a_body_without_aliases_in_the_range_costs_no_rollout(shape, ranges):
    scene = throw(**CUBE | {"shape": shape})
    truth = {"cube.angular_velocity.z": 3.0}
    problem = recorded(scene, [f"cube.angular_velocity.z:{ranges}"], truth)
    before = problem.effort.rollouts
    assert len(spin_aliases(problem, true_inner(problem, truth)[0])) == 0
    assert problem.effort.rollouts == before


def film(path, spin: float, frames: int, size: int, focal: float, eye, target) -> None:
    """A blue cube that flies and spins about the vertical, drawn by Pillow from corners in closed form."""
    rng, many = np.random.default_rng(0), 8
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, [0, 0, 1]) / np.linalg.norm(np.cross(forward, [0, 0, 1]))
    axes, images = np.stack([right, np.cross(forward, right), forward], 1), []
    for t in np.arange(frames) / FPS:
        c, s = math.cos(spin * t), math.sin(spin * t)
        at = np.array([-0.3 + t, 0, 0.6 + 2.5 * t - 0.5 * 9.81 * t**2])
        x = (corners(0.4, 0.4, 0.4) @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]).T + at - eye) @ axes
        pixels = x[:, :2] / x[:, 2:] * focal + size / 2
        outline = [tuple(p) for p in pixels[ConvexHull(pixels).vertices] * many - 0.5]
        image = Image.new("L", (size * many, size * many))
        ImageDraw.Draw(image).polygon(outline, fill=255)
        alpha = np.asarray(image, float).reshape(size, many, size, many).mean((1, 3))[..., None] / 255
        images.append(255 - alpha * (255 - np.array([30, 60, 180])) + rng.normal(0, 2, (size, size, 3)))
    video.write(path, np.stack(images).round().clip(0, 255).astype(np.uint8), FPS)


def test_one_start_that_comes_to_an_alias_is_not_ok(tmp_path):
    """27 rad/s at 20 frames a second: a quarter less is −4.4, and two less −35.8. Such fits were `ok` at any of the three."""
    eye, target, focal, size, frames = np.array([0.2, -4, 1.6]), np.array([0, 0, 0.8]), 85.0, 48, 8
    film(tmp_path / "cube.webm", 27.0, frames, size, focal, eye, target)
    scene = gs.Scene.parse(
        {
            "timing": {"fps": FPS, "frames": frames},
            "bodies": {
                "cube": {
                    **CUBE,
                    "mass": 1,
                    "position": [-0.3, 0, 0.6],
                    "velocity": [1, 0, 2.5],
                    "colour": [30 / 255, 60 / 255, 180 / 255],
                }
            },
            "camera": {
                "size": [size, size],
                "look_at": {"eye": eye.tolist(), "target": target.tolist()},
                "focal": f"{focal} px",
            },
            "background": [1, 1, 1],
        }
    )
    clip = gs.Clip(str(tmp_path / "cube.webm"), noise="auto")
    name = "cube.angular_velocity.z"
    fit = gs.identify(scene, [f"{name}:-40:40"], clip, starts=1, seed=0, known_numbers=False)
    assert fit.status == Status.UNIDENTIFIABLE
    spins = [fit.unknowns[name].value] + [other["values"][name] for other in fit.evidence["other_minima"]]
    assert sorted(spins) == pytest.approx([27 - 2 * QUARTER, 27 - QUARTER, 27], abs=0.1)
    low, high = fit.unknowns[name].interval95
    assert low < 27 < high
    narrow = gs.identify(scene, [f"{name}:10:40"], clip, starts=1, seed=0, known_numbers=False)
    assert narrow.status == Status.OK and narrow.unknowns[name].value == pytest.approx(27, abs=0.1)


def test_an_alias_that_is_better_leaves_starts_where_they_ended():
    """Where contact kinks χ², only aliases are compared: none of the starts came to one."""
    scene, name = throw(**CUBE), "cube.angular_velocity.z"
    truth = {"cube.velocity.x": 0.5, name: 3.0}
    problem = recorded(scene, ["cube.velocity.x:0:1", f"{name}:-70:70"], truth)
    best = true_inner(problem, truth)[0] + torch.tensor([0.0, -0.05])
    final = torch.stack([torch.linspace(0, 1, 16).double(), torch.linspace(-70, 70, 16).double()], 1)
    cost = problem.cost(torch.cat([best[None], final]), problem.frames)
    outcome = Outcome(final.clone(), final, cost[1:], best, cost[0].item(), 1, [])
    information = problem.linearize(best[None], problem.frames)[1][0]
    _, better = verdict._others(problem, outcome, information, 1.0, None, 0, looks=False, kinked=True)
    assert better is not None and better.best_cost < outcome.best_cost
    assert (better.cost == outcome.cost).all() and not better.converged()
