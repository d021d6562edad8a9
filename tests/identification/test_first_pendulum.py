"""A first scene of a pendulum: SciPy's swing, drawn as the centers of a ball."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from gradsim.errors import InputError
from gradsim.identification.first_pendulum import meters_per_pixel, swing
from gradsim.identification.first_scene import Regions, first_scene, first_unknowns, resting_scene
from gradsim.identification.unknowns import Space, Unknown
from gradsim.scene import Scene

FPS, SIZE, PIXEL = 12.0, (640, 360), 0.002  # [1/s], [px], [m]
STRING, RADIUS = 0.5, 0.035  # [m]
PIVOT, ANGLE, RATE, DRAG = np.array([330.0, 25.0]), -1.1, 0.4, 0.06
START = Scene.library("pendulum").model_dump(by_alias=True, exclude_none=True, exclude_unset=True)


def tracked(drag):
    """Frames (n,) and centers (n, 2) [px] of a ball that is in view from frame 4 on."""
    reach = STRING + RADIUS
    w2 = 9.81 * reach / (reach**2 + 0.4 * RADIUS**2)
    slope = lambda _, y: [y[1], -w2 * math.sin(y[0]) - drag * abs(y[1]) * y[1]]
    t = np.arange(40) / FPS
    angle = solve_ivp(slope, (0, t[-1]), [ANGLE, RATE], t_eval=t, rtol=1e-10, atol=1e-10).y[0]
    centre = PIVOT + reach / PIXEL * np.stack([np.sin(angle), np.cos(angle)], 1)
    return np.arange(4, 40), centre[4:]


@pytest.fixture(scope="module")
def track():
    return tracked(DRAG)


@pytest.fixture(scope="module")
def regions(track):
    frames, centre = track
    return Regions(frames, centre, np.full(len(frames), math.pi * (RADIUS / PIXEL) ** 2), centre[:, 1] + RADIUS / PIXEL)


def test_the_swing_is_known_at_frame_0_which_is_before_the_first_in_view(track):
    motion = swing(*track, FPS)
    assert motion.pivot == pytest.approx(PIVOT, abs=1e-3)
    assert (motion.angle, motion.rate, motion.drag) == pytest.approx((ANGLE, RATE, DRAG), abs=2e-3)
    assert motion.error < 0.05


@pytest.mark.parametrize(("drag", "shown"), [(0.06, True), (0.0, False), (2e-5, False)])
def test_a_drag_that_the_swing_does_not_show_is_no_unknown(drag, shown):
    frames, centre = tracked(drag)
    centre = centre + np.random.default_rng(0).normal(scale=0.1, size=centre.shape)
    regions = Regions(frames, centre, np.full(len(frames), math.pi * (RADIUS / PIXEL) ** 2), centre[:, 1])
    first = first_scene(START, regions, SIZE, FPS, 40)
    assert (first.scene.bodies["bob"].drag > 0) is shown
    assert any(text.startswith("bob.drag:") for text in first_unknowns(first.scene)) is shown
    assert ("shows none" in first.sources["drag"]) is not shown


def test_gravity_and_the_clock_give_the_scale(track):
    assert meters_per_pixel(swing(*track, FPS), RADIUS / PIXEL) == pytest.approx(PIXEL, rel=1e-3)


def test_the_string_is_as_long_as_it_is_without_any_length(regions):
    first = first_scene(START, regions, SIZE, FPS, 40)
    body = first.scene.bodies["bob"]
    assert (body.string_length, body.radius) == pytest.approx((STRING, RADIUS), rel=2e-3)
    assert (body.angle, body.rate) == pytest.approx((ANGLE, RATE), abs=3e-3) and not first.scene.grounds
    assert "the period and gravity" in first.sources["scale"] and "GUESS" in first.sources["focal length"]


def test_a_string_that_is_slack_at_first_is_pointed_at(regions):
    """The ball is up to 12 px nearer to its pivot in the first quarter of the clip."""
    off = regions.centre - PIVOT
    nearer = np.where(np.arange(len(off)) < 9, 1 - 0.045 * np.abs(np.sin(np.arange(len(off)))), 1.0)[:, None]
    slack = Regions(regions.frames, PIVOT + nearer * off, regions.area, regions.lowest)
    assert "--frames 22:" in first_scene(START, slack, SIZE, FPS, 40).sources["taut"]
    assert "taut" not in first_scene(START, regions, SIZE, FPS, 40).sources


@pytest.mark.parametrize("given", [{"body_size": 2 * RADIUS}, {"focal": 500.0, "distance": 500 * PIXEL}])
def test_a_ruler_gives_the_scale_where_there_is_one(regions, given):
    body = first_scene(START, regions, SIZE, FPS, 40, **given).scene.bodies["bob"]
    assert (body.string_length, body.radius) == pytest.approx((STRING, RADIUS), rel=1e-3)


@pytest.mark.parametrize(
    ("known", "unknown", "not_unknown"),
    [
        ((), {"camera.focal", "bob.radius"}, {"gravity.z"}),
        (("size",), {"camera.focal", "gravity.z"}, {"bob.radius"}),
        (("focal", "distance"), {"bob.radius", "gravity.z"}, {"camera.focal"}),
    ],
)
def test_unknowns_of_the_first_fit_are_those_that_no_ruler_gives(regions, known, unknown, not_unknown):
    scene = first_scene(START, regions, SIZE, FPS, 40).scene
    named = [Unknown.parse(text) for text in first_unknowns(scene, known)]
    assert len(Space(scene, named)) == len(named)
    names = {u.name for u in named}
    assert unknown <= names and not names & not_unknown and {"bob.string_length", "bob.angle"} <= names


def test_centers_that_cover_no_arc_are_refused(track):
    frames, centre = track
    small = 0.1 * np.sin(frames)
    with pytest.raises(InputError, match="cover 0.2 rad of a circle"):
        swing(frames, PIVOT + 260 * np.stack([np.sin(small), np.cos(small)], 1), FPS)
    with pytest.raises(InputError, match="5 or more"):
        swing(frames[:4], centre[:4], FPS)


@pytest.mark.parametrize("name", ["ball", "pendulum"])
def test_a_body_that_is_not_found_is_in_the_middle_of_the_image(name):
    content = Scene.library(name).model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    first = resting_scene(content, SIZE, FPS, 40)
    (body,) = first.scene.bodies.values()
    K, R, t = first.scene.camera.matrices()
    middle = (
        body.position if name == "ball" else np.subtract(body.pivot, [0, 0, (body.string_length + body.radius) / 2])
    )
    x = K @ (R @ middle + t)
    assert x[:2] / x[2] == pytest.approx([320, 180], abs=2) and "GUESS" in first.sources["place"]
