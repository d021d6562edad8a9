"""Inertia of a body that tumbles, from films whose motion and coverage nothing of gradsim makes."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import gradsim as gs
from gradsim.errors import Status
from gradsim.identification.observation.base import Masks
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim.scene.exporters.build import twin_of
from gradsim.scene.exporters.substitution import with_values
from gradsim_reproduction.foreign.area_coverage import coverage, project

SIDES, SIZE, FPS, FRAMES = np.array([0.2, 0.3, 0.45]), (96, 96), 30, 40
EYE, TARGET, FOV = (1.2, 0.5, 0.4), (0.0, 0.0, 0.0), 35.0
NUMBERS = {"d1": 0.25, "d2": -0.2, "s12": 0.3, "s23": -0.25, "s13": 0.15}  # and d3 = 0
SPIN = np.array([2.5, 4.0, -3.0])


def uneven() -> np.ndarray:
    """Inertia per mass (3, 3) [m²] of a box with the `NUMBERS`."""
    d1, d2, s12, s23, s13 = NUMBERS.values()
    root = np.diag(SIDES / np.sqrt(12)) @ [[np.exp(d1), s12, s13], [0, np.exp(d2), s23], [0, 0, 1]]
    return np.trace(root @ root.T) * np.eye(3) - root @ root.T


def masks(inertia: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Exact coverage (FRAMES, 96, 96) of a box in free fall about a center of mass in its shape, by Euler's equations and DOP853."""
    inverse = np.linalg.inv(inertia)

    def slope(t, y):
        q, w = y[:4], y[4:]
        dq = 0.5 * np.array([q[3] * w[0] + q[1] * w[2] - q[2] * w[1], q[3] * w[1] + q[2] * w[0] - q[0] * w[2],
                             q[3] * w[2] + q[0] * w[1] - q[1] * w[0], -q[0] * w[0] - q[1] * w[1] - q[2] * w[2]])  # fmt: skip
        return np.concatenate([dq, inverse @ np.cross(inertia @ w, w)])

    times = np.arange(FRAMES) / FPS
    y = solve_ivp(slope, (0, times[-1]), [0, 0, 0, 1, *SPIN], "DOP853", times, rtol=1e-11, atol=1e-11).y.T
    corners = np.array([[i, j, k] for i in (-0.5, 0.5) for j in (-0.5, 0.5) for k in (-0.5, 0.5)]) * SIDES
    faces = np.array([[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1],
                      [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]])  # fmt: skip
    turned = np.stack([Rotation.from_quat(q).apply(corners - center) for q in y[:, :4]])
    points = project(turned, EYE, TARGET, scene().camera.look_at.fov, SIZE)
    return np.stack([coverage(frame, faces, SIZE) for frame in points])


def scene(**further) -> Scene:
    box = {"kind": "rigid", "shape": {"box": {"size": SIDES.tolist()}}, "mass": 1.0, "inertia_log_cholesky": [0.0] * 6}
    return Scene.parse(
        {
            "gravity": [0, 0, 0],
            "timing": {"fps": FPS, "frames": FRAMES},
            "camera": {"size": list(SIZE), "look_at": {"eye": EYE, "target": TARGET, "fov": f"{FOV} deg"}},
            "bodies": {"box": box | further},
        }
    )


@pytest.mark.slow
def test_inertia_of_a_tumbling_box_comes_from_its_outlines():
    names = [f"box.inertia_log_cholesky.{name}:-1:1" for name in NUMBERS]
    names += [f"box.angular_velocity.{axis}:{w - 1.5}:{w + 2}" for axis, w in zip("xyz", SPIN, strict=True)]
    film = torch.tensor(np.rint(255 * masks(uneven(), np.zeros(3))) / 255)
    observation = Masks(film, 1 / 255 / np.sqrt(12), Silhouettes.of(scene()))
    fit = gs.identify(scene(), names, observation=observation, seed=0, starts=16, known_numbers=False)
    assert fit.status == Status.OK
    for name, true in NUMBERS.items():
        estimate = fit.unknowns[f"box.inertia_log_cholesky.{name}"]
        assert abs(estimate.value - true) < 4 * estimate.std and estimate.std < 0.01


LUMP, PLACE = (
    0.5,
    np.array([0.05, -0.08, 0.12]),
)  # mass of a weight inside, over that of the box, and its place in the shape [m]


def loaded() -> tuple[np.ndarray, np.ndarray]:
    """Center of mass in the shape (3,) [m], and inertia per mass about it (3, 3) [m²], of a uniform box with a weight inside."""
    center = LUMP * PLACE / (1 + LUMP)
    point = lambda r: r @ r * np.eye(3) - np.outer(r, r)
    box = np.diag((SIDES @ SIDES - SIDES**2) / 12)
    return center, (box + point(center) + LUMP * point(PLACE - center)) / (1 + LUMP)


@pytest.mark.slow
def test_a_weight_hidden_in_a_box_is_found_by_how_the_box_tumbles():
    center, inertia = loaded()
    film = torch.tensor(np.rint(255 * masks(inertia, center)) / 255)
    start = scene(centre_of_mass=[0.0, 0.0, 0.0])
    names = [f"box.centre_of_mass.{axis}:-0.1:0.1" for axis in "xyz"]
    names += [f"box.position.{axis}:-0.15:0.15" for axis in "xyz"]
    names += [f"box.inertia_log_cholesky.{name}:-1:1" for name in NUMBERS]
    names += [f"box.angular_velocity.{axis}:{w - 1.5}:{w + 2}" for axis, w in zip("xyz", SPIN, strict=True)]
    observation = Masks(film, 1 / 255 / np.sqrt(12), Silhouettes.of(start))
    fit = gs.identify(start, names, observation=observation, seed=0, starts=16, known_numbers=False)
    assert fit.status == Status.OK
    for axis, true in zip("xyz", center, strict=True):
        estimate = fit.unknowns[f"box.centre_of_mass.{axis}"]
        assert abs(estimate.value - true) < 4 * estimate.std and estimate.std < 1e-3
    link = twin_of(with_values(start, fit.values)).links["box"]
    # free flight shows ratios of moments only
    np.testing.assert_allclose(link.inertia / np.trace(link.inertia), inertia / np.trace(inertia), atol=2e-3)
