import math

import pytest
import torch
from tolerances import SOLVED, assert_near

from gradsim.identification.fit import Estimate
from gradsim.identification.unknowns import Space
from gradsim.numerics import rotation
from gradsim_reproduction.real import cube
from gradsim_reproduction.real.cube_predictions import SEEN, images, predict, start_of
from gradsim_reproduction.real.cube_recordings import FPS, Toss

G = 9.5
SPACE = Space(cube.scene(16), cube.UNKNOWNS)
TRUTH = SPACE.inner(torch.tensor([0.4, 1e4, 1.0, 20.0, 0.25, -G, -0.001]).double())
START = {
    "cube.position": torch.tensor([0.1, -0.2, 0.2]).double(),
    "cube.rotation_vector": torch.tensor([0.5, 2.0, -1.0]).double(),
    "cube.velocity": torch.tensor([1.0, 0.3, 0.2]).double(),
    "cube.angular_velocity": torch.tensor([3.0, -4.0, 2.0]).double(),
}


@pytest.fixture(scope="module")
def model():
    return cube.model(SPACE, 16)


@pytest.fixture(scope="module")
def tosses(model):
    """Two made-up tosses of different length, from the model that predicts."""
    given = {**SPACE.values(TRUTH[None]), **{key: y[None] for key, y in START.items()}}
    with torch.no_grad():
        states = model.rollout(given, frames=80)["cube"]
    return [Toss(str(n), states["x"][0, :n], states["q"][0, :n]) for n in (80, 50)]


def test_start_of_a_flight_is_its_start():
    times = torch.arange(SEEN).double()[:, None] / FPS
    x = START["cube.position"] + times * START["cube.velocity"]
    x = x - torch.tensor([0, 0, 0.5 * G]).double() * times**2
    q = rotation.exponential(START["cube.rotation_vector"])
    q = rotation.multiply(rotation.exponential(times * START["cube.angular_velocity"]), q)
    found = start_of(Toss("flight", x, q), G)
    for key, value in START.items():
        assert_near(found[key], value, SOLVED, scale=1.0)


def test_start_knows_nothing_of_later_frames(tosses, model):
    ruined = Toss("ruined", tosses[0].x.clone(), tosses[0].q.clone())
    ruined.x[SEEN:] += 1.0
    clean, other = predict(model, SPACE, TRUTH, [tosses[0], ruined])
    assert torch.equal(clean.x, other.x)


def test_true_values_predict_a_made_up_toss_and_flights_without_contact_do_not(tosses, model):
    for p in predict(model, SPACE, TRUTH, tosses):
        # the start is exact but for the parabola, which semi-implicit steps follow to first order: g h t / 2
        assert p.mean("error") < 1e-2 and p.error[:SEEN].max() < 1e-3
        assert min(p.mean("constant_velocity"), p.mean("ballistic")) > 0.05


def test_baselines_are_a_straight_line_and_a_parabola(tosses, model):
    (p,) = predict(model, SPACE, TRUTH, tosses[:1])
    start = start_of(p.toss[:SEEN], G)
    t = 79 / FPS
    straight = start["cube.position"] + t * start["cube.velocity"] - p.toss.x[-1]
    assert p.constant_velocity[-1].item() == pytest.approx(torch.linalg.vector_norm(straight).item())
    straight[2] -= 0.5 * G * t**2
    assert p.ballistic[-1].item() == pytest.approx(torch.linalg.vector_norm(straight).item())


def test_every_image_is_listed_and_there(tosses, model, tmp_path):
    estimates = {
        name: Estimate(value, 0.01, (value - 0.02, value + 0.02), "", -math.inf, math.inf, True)
        for name, value in (("ground.friction", 0.25), ("gravity.z", -G))
    }
    left_out = {"a": {"ground.friction": 0.24, "gravity.z": -9.4}, "b": {"ground.friction": 0.26, "gravity.z": -9.6}}
    listed = images(tmp_path, predict(model, SPACE, TRUTH, tosses), estimates, left_out)
    assert {p["file"] for p in listed} == {p.name for p in tmp_path.iterdir()}
    assert all(p["title"] and p["caption"] for p in listed)
    assert all((tmp_path / p["file"]).read_bytes().startswith(b"\x89PNG") for p in listed)
