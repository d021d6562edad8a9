"""Designs of a film, against closed forms."""

import math

import numpy as np
import pytest
import torch
from plan_cases import LENGTH, SPEED, flight, judge, pendulum

from gradsim.errors import InputError
from gradsim.planning import Marking, VideoNoise, Weighing, plan
from gradsim.planning.information import posterior_covariance, shared_information
from gradsim.planning.search import Design


def test_standard_deviation_is_that_of_a_shifted_disc():
    """σ⁻² = Σ_t t² Σ (∂coverage/∂x)²/σ_pixel², and a straight edge of length L across x has Σ (∂c/∂x)² ≈ (2/3) L by the box filter of a pixel.

    Of a disc of radius r px, ∮ |cos θ|² (its share ∫(∂c)² across an edge at θ, between 1 and 2/3) r dθ lies between (2/3) π r and π r.
    """
    scene = flight()
    film = judge(scene, [], [SPEED], "ball.velocity.x")
    sd = film.design({}).by_sample[:, 0]
    scale = 32 / math.tan(0.3) / 4.0  # [px/m]
    radius = 0.3 * scale
    sigma = math.hypot(1 / 255, 1 / 255 / math.sqrt(12)) / math.sqrt(3)  # black on white
    times = np.arange(8) / 10
    widest, narrowest = (sigma / math.sqrt((times**2).sum() * share * math.pi * radius) / scale for share in (2 / 3, 1))
    speed = film.question.space.numbers(film.question.places)[:, 0]
    assert (sd * speed > 0.98 * narrowest).all() and (sd * speed < 1.02 * widest).all()


def test_standard_deviation_grows_with_the_distance_to_the_power_of_three_halves():
    """Edges are 1/d as long and move by 1/d: d ln sd / d d = 3/2 / d."""
    film = judge(flight(), ["camera.distance=2:8"], [SPEED], "ball.velocity.x")
    slope = film.gradient(film.design({}), difference=0.1)["camera.distance"]
    assert slope == pytest.approx(1.5 / 4.0, rel=0.1)  # edges across pixels: a few percent


def test_gradients_match_lines_through_designs_nearby():
    """The line through 15 designs of the same window: the grid of pixels ripples the criterion by about a tenth of its slope there."""
    film = judge(pendulum(), ["bob.angle=0.2:1.2", "camera.distance=2:4"], [LENGTH], "bob.string_length")
    at, share = {"bob.angle": 0.8, "camera.distance": 2.6}, 0.04
    gradient = film.gradient(film.design(at), share)
    for name, width in (("bob.angle", 1.0), ("camera.distance", 2.0)):
        steps = np.linspace(-share * width, share * width, 15)
        values = [film.design(at | {name: at[name] + step}).criterion for step in steps]
        assert gradient[name] == pytest.approx(np.polyfit(steps, values, 1)[0], rel=0.12)


def test_half_the_noise_is_half_the_standard_deviation():
    sd = [judge(flight(), [], [SPEED], "ball.velocity.x", noise=VideoNoise(mask=s)).design({}).sd for s in (0.01, 0.02)]
    assert sd[1]["ball.velocity.x"] == pytest.approx(
        2 * sd[0]["ball.velocity.x"], rel=1e-3
    )  # the range is a weak prior


def test_a_mirrored_second_camera_doubles_the_information():
    film = judge(flight(), ["camera.second=none,behind"], [SPEED], "ball.velocity.x")
    one, two = (film.design({"camera.second": second}).sd["ball.velocity.x"] for second in ("none", "behind"))
    assert two == pytest.approx(one / math.sqrt(2), rel=1e-3)


def test_a_measurement_adds_its_precision():
    """1/s² = 1/s₀² + 1/w², with s and w of the logarithm."""
    weighing = Weighing("bob.string_length", 0.02, relative=True)
    film = judge(pendulum(), [], [LENGTH], "bob.string_length", [weighing], VideoNoise(mask=2.0))
    alone, both = (film.design({}, names).by_sample[:, 0] for names in ((), ("bob.string_length",)))
    torch.testing.assert_close(both**-2, alone**-2 + 0.02**-2)


def test_what_is_wanted_has_all_else_integrated_out():
    """By NumPy's inverse of the whole matrix, and by the Schur complement."""
    film = judge(pendulum(), [], [LENGTH, "bob.angle:0.5:1.2", "gravity.z:-12:-8"], "gravity.z")
    total = (film.fisher(film.design({})) + film.question.precision).numpy()
    size = film.question.places[:, 2].abs().numpy()
    inverse = np.array([np.linalg.inv(A)[2, 2] ** 0.5 for A in total]) / size
    schur = np.array([(A[2, 2] - A[2, :2] @ np.linalg.solve(A[:2, :2], A[:2, 2])) ** -0.5 for A in total]) / size
    np.testing.assert_allclose(film.design({}).by_sample[:, 0].numpy(), inverse, rtol=1e-6)
    np.testing.assert_allclose(schur, inverse, rtol=1e-5)


def test_films_share_what_is_not_of_one_film():
    """The angle at the start is of one film: its row is empty, and the length has lost what the angle takes."""
    film = judge(pendulum(), [], [LENGTH, "bob.angle:0.5:1.2"], "bob.string_length")
    fisher = film.fisher(Design({}))
    shared = shared_information(film.question, fisher)
    own = film.question.precision[1, 1]
    expected = fisher[:, 0, 0] - fisher[:, 0, 1] ** 2 / (fisher[:, 1, 1] + own)
    torch.testing.assert_close(shared[:, 0, 0], expected)
    assert not shared[:, 1].any()


def test_a_plan_finds_the_nearest_camera_and_says_so():
    made = plan(flight(), "ball.velocity.x", {"camera.distance": (2.5, 6.0)}, unknowns=[SPEED], samples=2, spread=4)
    assert made.best.settings["camera.distance"] == pytest.approx(2.5, abs=0.4)
    assert "film from 2.5 m in place of 4 m" in made.words[0] and "±" in made.words[0]
    assert made.gain() == pytest.approx((4 / 2.5) ** 1.5, rel=0.15)


def test_the_next_film_counts_what_the_last_one_tells():
    """1/s² = 1/s₀² + 1/s_run² of an unknown that is alone."""
    run = {"unknowns": {"bob.string_length": {"value": 0.5, "std": 0.5e-3, "low": 0.4, "high": 0.6}}, "status": "ok"}
    options = {
        "want": "bob.string_length",
        "choose": ["bob.angle=0.2:1"],
        "noise": VideoNoise(mask=0.5),
        "samples": 2,
        "spread": 1,
    }
    alone, later = (plan(pendulum(), **options, **more) for more in ({"about": run}, {"after": run}))
    values = {"bob.string_length": 0.5}
    s0, s = (made.predict(values, made.present)["bob.string_length"] for made in (alone, later))
    assert s**-2 == pytest.approx(s0**-2 + 1e-3**-2 - 12 / math.log(1.5) ** 2, rel=1e-3)


def test_a_plan_on_a_mismatch_says_that_first():
    run = {
        "unknowns": {"bob.string_length": {"value": 0.5, "std": 1e-3, "low": 0.4, "high": 0.6}},
        "status": "mismatch",
    }
    made = plan(pendulum(), "bob.string_length", ["bob.angle=0.2:1"], about=run, samples=2, spread=1)
    assert "mismatch" in made.words[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"want": "bob.lenth"}, "no parameter"),
        ({"want": "bob.string_length:-5%"}, "ACCURACY"),
        ({"choose": ["bob.angle=1:0"]}, "LOW below HIGH"),
        ({"choose": ["bob.angle=a:b"]}, "cannot be read"),
        ({"choose": ["camera.second=left"]}, "expected one of"),
        ({"choose": ["timing.frames=1:20"]}, "at least 2"),
        ({"choose": []}, "nothing can be chosen"),
        ({"weigh": ["bob.radius±1%"]}, "taken as known already"),
        ({"weigh": ["bob.string_length"]}, "NAME±SD"),
        ({"noise": "auto:x"}, "noise is"),
        ({"mark": ["bob:0,0,0±0.1"]}, "expected a rigid body"),
        ({"mark": ["bob:0,0±0.1"]}, "BODY:X,Y,Z"),
        ({"choose": ["camera.azimth=0:1"]}, "did you mean `camera.azimuth`"),
        ({"choose": ["camera.azimuth=0:1", "camera.position.x=0:1"]}, "one of the two"),
        ({"criterion": "E"}, "criterion"),
    ],
)
def test_wrong_arguments_are_refused(arguments, words):
    defaults = {"want": "bob.string_length", "choose": ["bob.angle=0.2:1"], "samples": 2}
    with pytest.raises(InputError, match=words):
        plan(pendulum(), **(defaults | arguments))


def test_a_design_over_its_budget_is_left_out():
    made = plan(flight(), "ball.velocity.x", ["camera.distance=2.5,4,6@3"], unknowns=[SPEED], samples=2, budget=2)
    assert made.best.settings == {}
    assert made.present.cost == 0


def test_what_a_video_does_not_tell_is_known_as_before():
    """F = 1e13 v vᵀ with rounding, P = 1: along v the variance is 1e-13, across it 1."""
    v = torch.tensor([3.0, 4.0]).double() / 5
    fisher = 1e13 * torch.outer(v, v) + torch.tensor([[0.3, -0.2], [-0.2, 0.4]])
    C = posterior_covariance(fisher, torch.eye(2).double())
    across = torch.tensor([-4.0, 3.0]).double() / 5
    assert (across @ C @ across).item() == pytest.approx(1.0, rel=1e-9)


def test_a_tracked_marker_adds_the_information_of_its_positions():
    """A point at the center of a ball that flies at v: x = x₀ + v t in front of the camera, so F of ln v is v² Σ t² (f/d)²/σ²."""
    marking = Marking("ball", (0.0, 0.0, 0.0), 0.1)
    film = judge(flight(), [], [SPEED], "ball.velocity.x", [marking])
    speed = film.question.space.numbers(film.question.places)[:, 0]
    times = torch.arange(8).double() / 10
    scale = 32 / math.tan(0.3) / 4.013  # [px/m]; the depth is constant
    added = film.marked(Design({}, (marking.name,)))[:, 0, 0]
    index = film.question.space.logarithmic[0]
    expected = times.square().sum() * (scale / 0.1) ** 2 * (speed**2 if index else torch.ones_like(speed))
    torch.testing.assert_close(added, expected, rtol=1e-6, atol=0.0)


def test_the_cheapest_design_that_is_enough_is_named():
    """sd falls with the distance: 4 m leaves too much, 3 m is enough for less than 2.5 m costs."""
    options = {"unknowns": [SPEED], "samples": 2, "spread": 2, "noise": VideoNoise(mask=0.05)}
    alone = plan(flight(), "ball.velocity.x", ["camera.distance=2.5,3,4"], **options)
    sd = {v: alone.judge.design({"camera.distance": v}).sd["ball.velocity.x"] for v in (3.0, 4.0)}
    wanted = f"ball.velocity.x:{100 * math.sqrt(sd[3.0] * sd[4.0])}%"
    made = plan(flight(), wanted, ["camera.distance=2.5,3,4"], **options)
    assert made.enough is not None and made.enough.settings["camera.distance"] in (2.5, 3.0)
    assert made.enough.sd["ball.velocity.x"] < math.sqrt(sd[3.0] * sd[4.0])
    easy = plan(flight(), "ball.velocity.x:50%", ["camera.distance=2.5,3,4"], **options)
    assert easy.enough.settings == {} and "The present film is enough" in " ".join(easy.words)


def test_the_best_design_is_judged_by_the_errors_of_outlines():
    """White noise of pixels only screens: no design that it alone has judged comes first."""
    options = {"unknowns": [LENGTH, "bob.angle:0.5:1.2"], "noise": "auto", "samples": 2, "spread": 4}
    made = plan(pendulum(), "bob.string_length", {"bob.angle": (0.2, 1.2)}, **options)
    assert {d.judged_by for d in [made.present, made.best, *made.singles]} == {"outlines"}
    assert made.best.criterion == min(d.criterion for d in made.designs)
