import numpy as np
import pytest

from gradsim_reproduction.foreign import engines
from gradsim_reproduction.foreign.rigid_trajectory import NOWHERE, Body, rotation_of, trajectory


@pytest.fixture(params=list(engines.ENGINES))
def engine(request):
    pytest.importorskip(request.param)
    return request.param


def test_a_toss_in_the_air_is_ours(engine):
    """MuJoCo's rk4 to 1e-12; PyBullet's rotation is of first order in steps of 1/9600 s."""
    one = engines.toss(engine, engines.FLIGHT - 1, 0)
    x, R = engines.ENGINES[engine](one)
    node = one.scene.bodies["box"]
    half = np.array(node.shape.box.size) / 2
    corners = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)]) * half
    velocity = [one.truth["box.velocity.x"], 0, one.truth["box.velocity.z"]]
    start = np.array(node.position), rotation_of(node.rotation_vector), velocity, np.array(node.angular_velocity)
    times = np.arange(engines.FRAMES) / engines.FPS
    ours = trajectory(Body.of_hull(corners, node.mass), NOWHERE, start, times, -one.truth["gravity.z"])
    assert np.abs(x - ours[0]).max() < 1e-11
    assert np.abs(R - ours[1]).max() < (1e-11 if engine == "mujoco" else 1e-4)


def test_a_toss_that_lands_touches_the_ground_and_stays_above(engine):
    one = engines.toss(engine, 0, 0)
    x, R = engines.ENGINES[engine](one)
    lowest = (x[:, None] + one.scene.bodies["box"].shape.mesh().vertices @ R.transpose(0, 2, 1))[..., 2].min(1)
    assert lowest.min() > -0.03 and lowest[-5:].min() < 0.03


@pytest.mark.parametrize("name", engines.ENGINES)
def test_tosses_hold_no_truth(name):
    one, other = engines.toss(name, 0, 0), engines.toss(name, 3, 0)
    assert not any(one.scene.bodies["box"].velocity) and one.scene.gravity == other.scene.gravity == (0, 0, -9.81)
    assert one.truth != other.truth and set(one.truth) < {text.partition(":")[0] for text in one.unknowns}
