import math
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from tolerances import SOLVED, ULPS, assert_near, near

from gradsim.physics.model import Model
from gradsim.scene import Scene
from gradsim_reproduction.foreign.rigid_trajectory import NOWHERE, Body, Ground, rotation_of, struck, trajectory

BOX = np.array([[x, y, z] for x in (-0.3, 0.3) for y in (-0.24, 0.24) for z in (-0.18, 0.18)])
TIMES = np.arange(10) / 30


def test_mass_properties_of_a_box_with_one_vertex_more():
    """m/12 (b² + c²) about the centre of volume, which is not the mean of the vertices."""
    vertices = np.concatenate([BOX, [[0.3, 0.1, 0.0]]])
    body = Body.of_hull(vertices + [1.0, 2.0, 3.0], 5.0)
    moments = 5 / 12 * np.array([0.48**2 + 0.36**2, 0.6**2 + 0.36**2, 0.6**2 + 0.48**2])
    assert np.allclose(body.inertia, np.diag(moments), atol=1e-13)
    assert np.allclose(body.points, vertices, atol=1e-13)


def test_free_flight_is_a_parabola_and_keeps_energy_and_angular_momentum():
    body = Body.of_hull(BOX, 2.0)
    spin = np.array([3.0, -2.0, 5.0])
    start = np.zeros(3), rotation_of([0.3, -0.2, 0.5]), np.array([1.0, 2.0, 3.0]), spin
    x, R = trajectory(body, NOWHERE, start, TIMES)
    parabola = TIMES[:, None] * start[2] + 0.5 * TIMES[:, None] ** 2 * [0, 0, -9.81]
    assert np.abs(x - parabola).max() < 1e-12
    momentum = start[1] @ body.inertia @ start[1].T @ spin
    inverse = np.linalg.inv(body.inertia)
    energy = [momentum @ turn @ inverse @ turn.T @ momentum for turn in R]
    assert np.ptp(energy) < 1e-10 * energy[0]


def test_a_blow_off_the_centre_turns_the_body():
    """I ω = p × J about the centre, in the world's axes."""
    body, R = Body.of_hull(BOX, 2.0), rotation_of([0.3, -0.2, 0.5])
    point, impulse = np.array([0.1, 0.0, 0.1]), np.array([1.0, 2.0, 3.0])
    _, _, v, spin = struck(body, (np.zeros(3), R, np.zeros(3), np.zeros(3)), impulse, point)
    assert np.allclose(v, impulse / 2)
    assert_near(R @ body.inertia @ R.T @ spin, np.cross(R @ point, impulse), ULPS, scale=1.0)


def test_a_bounce_loses_what_hunt_and_crossley_say():
    """a (v + e v) = ln((1 + a v) / (1 − a e v)) without gravity, whatever stiffness and mass are."""
    a, v = 0.4, 2.0
    e: Any = brentq(lambda e: a * v * (1 + e) - math.log((1 + a * v) / (1 - a * e * v)), 0.1, 0.9, xtol=1e-14)
    start = np.array([0, 0, 0.3]), np.eye(3), np.array([0, 0, -v]), np.zeros(3)
    x, _ = trajectory(Body.of_hull(BOX, 3.0), Ground(1e5, a, 100, 0.5), start, np.array([0, 0.2, 0.3]), gravity=0.0)
    assert (x[2, 2] - x[1, 2]) / 0.1 == near(e * v, SOLVED)


def test_the_product_converges_to_it_through_impacts_and_slides():
    """A step of rk4 over a kink of the slope is off by h²: the slope of errors is 2 or more, and they go to 0."""
    scene = Scene.library("cube").model_dump(exclude_unset=True)
    scene["timing"] |= {"integrator": "rk4", "frames": len(TIMES)}
    body = Body.of_hull(BOX, 5.0)
    start = np.array([-0.7, 0, 0.34]), rotation_of([0.06, 0.15, 0]), np.zeros(3), np.zeros(3)
    start = struck(body, start, [5.0, 1.0, 0.0], [-0.3, -0.03, 0.0])
    x, _ = trajectory(body, Ground(1e5, 1.0, 100, 0.5), start, TIMES)
    off = []
    for substeps in (50, 3200):
        with torch.no_grad():
            theirs = Model(Scene.parse(scene), substeps=substeps).rollout()["cube"]["x"][0].numpy()
        off.append(np.abs(theirs - x).max())
    assert math.log(off[0] / off[1], 3200 / 50) > 1.9 and off[1] < 2e-8


def test_it_does_not_depend_on_where_its_steps_end():
    body = Body.of_hull(BOX, 5.0)
    start = np.array([0, 0, 0.3]), rotation_of([0.2, 0.3, 0.1]), np.array([1.0, 0, -1]), np.array([0, 2.0, 0])
    by = [trajectory(body, Ground(1e5, 0.5, 50, 0.4), start, TIMES, longest=h)[0] for h in (1 / 240, 1 / 700)]
    assert np.abs(by[0] - by[1]).max() < 1e-9
