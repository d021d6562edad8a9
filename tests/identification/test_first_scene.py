"""A first scene of a ball that other code moves and draws."""

import numpy as np
import pytest
from wavy_ball import ANGLES, DISTANCE, FOCAL, HEIGHT, RADIUS, START, WIDTH, centres, masks

from gradsim.errors import InputError
from gradsim.identification.first_scene import first_scene, regions

TRUTH = (1.0, 3.2, -9.81)
FRAMES = 16
BALL = {
    "bodies": {"ball": {"shape": {"sphere": {"radius": 0.1}}, "mass": 2.0, "position": [0, 0, 0]}},
    "ground": {"stiffness": 1e4, "friction": 0.2},
}


@pytest.fixture(scope="module")
def found():
    return regions(masks(centres(FRAMES, TRUTH), np.zeros((FRAMES, ANGLES))).masks.numpy())


def placed(found, **given):
    return first_scene(BALL, found, (WIDTH, HEIGHT), 30.0, FRAMES, **given)


def test_regions_are_where_the_ball_is(found):
    first = found.centre[0]
    assert first[0] == pytest.approx(WIDTH / 2 + FOCAL * START[0] / DISTANCE, abs=0.5)
    assert first[1] == pytest.approx(HEIGHT / 2 - FOCAL * (START[1] - 0.6) / DISTANCE, abs=0.5)
    assert np.median(found.area) == pytest.approx(np.pi * (FOCAL * RADIUS / DISTANCE) ** 2, rel=0.1)


@pytest.mark.parametrize("missing", ["distance", "focal", "body_size"])
def test_two_lengths_give_the_third(found, missing):
    given = {"body_size": 2 * RADIUS, "focal": FOCAL, "distance": DISTANCE}
    first = placed(found, **{name: value for name, value in given.items() if name != missing})
    camera, body = first.scene.camera, first.scene.bodies["ball"]
    assert camera.focal == pytest.approx(FOCAL, rel=0.03) and -camera.look_at.eye[1] == pytest.approx(
        DISTANCE, rel=0.03
    )
    assert body.shape.sphere.radius == pytest.approx(RADIUS, rel=0.03)
    assert "half a pixel" in " ".join(first.sources.values()) and "GUESS" not in " ".join(first.sources.values())


def test_place_and_velocity_are_those_of_the_first_frame(found):
    """The ground is the ball's lowest point, which is where it starts: 0.4 m below its centre."""
    first = placed(found, body_size=2 * RADIUS, focal=FOCAL, distance=DISTANCE)
    body = first.scene.bodies["ball"]
    low = centres(FRAMES, TRUTH)[:, 1].min() - RADIUS
    assert body.position[0] == pytest.approx(START[0], abs=0.02) and body.position[2] == pytest.approx(
        START[1] - low, abs=0.04
    )
    assert body.velocity[0] == pytest.approx(TRUTH[0], abs=0.05) and body.velocity[2] == pytest.approx(
        TRUTH[1], abs=0.15
    )
    assert body.mass == 2.0 and first.scene.timing.frames == FRAMES and first.scene.grounds["ground"].friction == 0.2
    hanging = placed(found, body_size=2 * RADIUS, focal=FOCAL, grounded=False)
    assert not hanging.scene.grounds and "lower edge" in hanging.sources["ground"]


def test_what_is_not_given_is_said_to_be_guessed(found):
    sources = placed(found).sources
    assert "GUESS" in sources["size"] and "GUESS" in sources["focal length"]


@pytest.mark.parametrize("given", [{"focal": 0.0}, {"distance": -1.0}, {"body_size": float("nan")}])
def test_lengths_have_to_be_above_0(found, given):
    with pytest.raises(InputError, match="must be above 0"):
        placed(found, **given)


def test_a_scene_of_several_bodies_is_refused(found):
    two = {"bodies": {"a": BALL["bodies"]["ball"], "b": BALL["bodies"]["ball"]}}
    with pytest.raises(InputError, match="expected one rigid body"):
        first_scene(two, found, (WIDTH, HEIGHT), 30.0, FRAMES)


def test_a_clip_in_which_nothing_is_whole_is_refused():
    image = np.zeros((5, 20, 20))
    image[:, :4, :4] = 1  # in a corner
    with pytest.raises(InputError, match="off the border in 0 of 5 frames"):
        regions(image)
