import numpy as np
import pytest
import torch
from tolerances import SOLVED, near

from gradsim.identification.scene_models import parameter_values
from gradsim.physics.model import Model
from gradsim_reproduction.clips import motion
from gradsim_reproduction.clips.scenes import KINDS, recording

CLOSED = (
    "ball",
    "pair",
    "toss",
    "bounce",
    "pendulum",
    "arm",
)  # to the error of the product's steps; soft beams are in `foreign`


@pytest.mark.parametrize("kind", CLOSED)
def test_motion_is_the_limit_of_the_products_own(kind):
    one = recording(kind, 0, 0)
    timing = one.scene.timing.model_copy(update={"integrator": "rk4"})
    scene = one.scene.model_copy(update={"timing": timing})
    with torch.no_grad():
        trajectory = Model(scene, substeps=8 * Model(scene).substeps).rollout(parameter_values(scene, one.truth))
    vertices, _ = motion.surface(one, one.truth)
    ours = trajectory.surface.vertices[0].detach().numpy()
    kinks = kind == "bounce"  # of the contact law, at which steps of fixed length are of first order
    assert ours.shape == vertices.shape and np.abs(ours - vertices).max() < (1e-4 if kinks else 1e-5)


def test_drag_slows_a_flight_down_as_its_differential_equation_says():
    """v' = g − c v, by differences of second order."""
    t, v, g, c, h = (
        np.array([0.3, 0.3 - 1e-3, 0.3 + 1e-3]),
        np.array([2.0, 0.0, 4.0]),
        np.array([0, 0, -9.81]),
        0.6,
        1e-3,
    )
    at, before, after = motion.path(t, v, g, c)
    assert (after - 2 * at + before) / h**2 == pytest.approx(g - c * (after - before) / (2 * h), abs=1e-4)
    assert motion.path(t, v, g, 1e-4) == pytest.approx(motion.path(t, v, g, 0.0), abs=1e-4)


def test_a_box_slides_with_coulombs_acceleration():
    one = recording("incline", 0, 0)
    tilt, mu = one.scene.bodies["box"].rotation_vector[1], 0.1
    vertices, _ = motion.surface(one, {"ground.friction": mu})
    way = np.linalg.norm(vertices.mean(1) - vertices[0].mean(0), axis=1)
    assert way == pytest.approx(9.81 * (np.sin(tilt) - mu * np.cos(tilt)) * one.times**2 / 2)


SOFT = ("beam", "cloth")  # whose motion alone takes four seconds


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in SOFT)) for kind in KINDS])
def test_bodies_are_closed_and_within_the_image(kind):
    from gradsim_reproduction.clips.videos import coverage_of

    one = recording(kind, 0, 0)
    alpha = coverage_of(one, one.truth)
    assert alpha.max() == pytest.approx(1) and alpha.min() > -1e-9
    assert (alpha.sum((1, 2)) > 100).mean() > 0.8


def test_a_ball_keeps_its_share_of_the_speed_at_every_impact():
    """Between impacts it flies freely: its height above the touch is v t − g t²/2 with v = e, e², … times that of the first impact."""
    from gradsim.scene.restitution import of_damping

    one = recording("rebound", 0, 0)
    truth = one.truth | {"gravity.z": -9.81, "ball.velocity.z": 0.0, "ground.damping": 200.0}
    centre = motion.surface(one, truth)[0].mean(1)
    node = one.scene.bodies["ball"]
    e, fallen = of_damping(200.0, 4e6, 1.0, "constant-restitution"), node.position[2] - node.shape.sphere.radius
    touch = np.sqrt(2 * fallen / 9.81)
    v = e * 9.81 * touch
    first, second = one.times < touch, (one.times > touch) & (one.times < touch + 2 * v / 9.81)
    t = one.times[second] - touch
    assert centre[first, 2] == pytest.approx(node.position[2] - 9.81 * one.times[first] ** 2 / 2)
    assert centre[second, 2] - node.shape.sphere.radius == near(v * t - 9.81 * t**2 / 2, SOLVED, scale=1.0)
    assert np.diff(centre[:, 0]) == pytest.approx(truth["ball.velocity.x"] / 30)
    slower = motion.surface(one, truth, drag=0.6)[0].mean(1)
    assert slower[-1, 0] < centre[-1, 0] and slower[:, 2].min() >= node.shape.sphere.radius - 1e-9
