"""A first scene of a ball that other code moves and draws."""

import numpy as np
import pytest
from scipy.spatial import ConvexHull
from wavy_ball import ANGLES, DISTANCE, FOCAL, HEIGHT, RADIUS, START, WIDTH, centres, masks

from gradsim.errors import InputError
from gradsim.identification.first_scene import (
    Regions,
    bounce_unknowns,
    bounces,
    first_scene,
    first_unknowns,
    regions,
    resting_scene,
    slides,
)

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


def test_the_spin_of_a_body_that_is_no_ball_is_an_unknown(found):
    assert not [name for name in first_unknowns(placed(found).scene) if "angular_velocity" in name]
    box = {**BALL, "bodies": {"box": {"shape": {"box": {"size": [0.3, 0.2, 0.1]}}, "mass": 2.0}}}
    first = first_scene(box, found, (WIDTH, HEIGHT), 30.0, FRAMES)
    names = [name.partition(":")[0] for name in first_unknowns(first.scene)]
    assert {f"box.angular_velocity.{axis}" for axis in "xyz"} < set(names) and "GUESS" in first.sources["turn"]


def path_of(height):
    """Where a ball of heights (frames,) [m] is, in pixels of 1 cm."""
    centre = np.stack([np.linspace(20, 80, len(height)), 200 - 100 * height], 1)
    return Regions(np.arange(len(height)), centre, np.full(len(height), 300.0), centre[:, 1] + 10)


def test_a_bounce_is_a_turn_that_gravity_does_not_explain():
    """Constant restitution 0.8 at 30 frames a second; the throw turns the other way, the swing slowly."""
    t = np.arange(30) / 30
    touch = np.sqrt(2 * 0.8 / 9.81)
    fallen = 0.9 - 9.81 / 2 * t**2
    risen = 0.1 + 0.8 * 9.81 * touch * (t - touch) - 9.81 / 2 * (t - touch) ** 2
    assert bounces(path_of(np.where(t < touch, fallen, risen)), 30.0, 0.01)
    assert not bounces(path_of(0.2 + 4 * t - 9.81 / 2 * t**2), 30.0, 0.01)
    assert not bounces(path_of(1 - 0.3 * np.sin(3 * t)), 30.0, 0.01)


@pytest.mark.parametrize("named", ["ground", "grounds"])
def test_a_ball_that_bounces_gets_a_ground_of_constant_restitution(found, named):
    t = np.arange(30) / 30
    touch = np.sqrt(2 * 0.8 / 9.81)
    rising = 0.1 + 0.8 * 9.81 * touch * (t - touch) - 9.81 / 2 * (t - touch) ** 2
    bouncing = path_of(np.where(t < touch, 0.9 - 9.81 / 2 * t**2, rising))
    start = {"bodies": BALL["bodies"], named: BALL["ground"] if named == "ground" else {"ground": BALL["ground"]}}
    first = first_scene(start, bouncing, (100, 220), 30.0, 30, body_size=0.2, focal=100.0, distance=1.0)
    ground = first.scene.grounds["ground"]
    hanging = first_scene(start, bouncing, (100, 220), 30.0, 30, body_size=0.2, focal=100.0, grounded=False)
    assert not hanging.scene.grounds
    assert (ground.law, ground.friction) == ("constant-restitution", 0.2) and "GUESS" in first.sources["bounce"]
    low, high = (float(x) for x in bounce_unknowns(first.scene)[0].split(":")[1:])
    assert low < ground.damping < high
    assert bounce_unknowns(placed(found, body_size=0.2, focal=FOCAL, distance=DISTANCE).scene) == []


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


def test_a_box_that_stays_on_a_level_slides_and_its_friction_is_an_unknown():
    centre = np.stack([np.linspace(20, 80, 12), np.full(12, 60.0)], 1)
    level = Regions(np.arange(12), centre, np.full(12, 400.0), centre[:, 1] + 6)
    assert slides(level) and not slides(path_of(np.linspace(1, 0.5, 12)))
    box = {"bodies": {"box": {"shape": {"box": {"size": [0.3, 0.2, 0.12]}}, "mass": 2.0}}}
    first = first_scene(box, level, (WIDTH, HEIGHT), 30.0, 12, focal=FOCAL, distance=DISTANCE)
    names = [name.partition(":")[0] for name in first_unknowns(first.scene)]
    assert names == ["box.position.x", "box.velocity.x", "ground.friction"]
    lowest = first.scene.bodies["box"].shape.mesh().vertices[:, 2].min() + first.scene.bodies["box"].position[2]
    assert 0 <= lowest < 1e-5 and "friction" in first.sources["slide"]
    assert "spin" not in first.sources["turn"]


def test_the_outline_of_a_flat_body_says_less_of_its_size_than_that_of_a_ball(found):
    box = {"bodies": {"box": {"shape": {"box": {"size": [0.3, 0.2, 0.02]}}, "mass": 2.0}}}
    words = [
        first_scene(start, found, (WIDTH, HEIGHT), 30.0, FRAMES, distance=DISTANCE).sources["focal length"]
        for start in (BALL, box)
    ]
    assert "half a pixel" in words[0] and "by the side that it shows" in words[1]


def test_a_box_that_is_not_found_is_not_taken_to_slide():
    box = {"bodies": {"box": {"shape": {"box": {"size": [0.3, 0.2, 0.12]}}, "mass": 2.0}}, "ground": {}}
    first = resting_scene(box, (WIDTH, HEIGHT), 30.0, 12)
    assert "box.velocity.z" in " ".join(first_unknowns(first.scene))


@pytest.mark.parametrize("radius", [9.0, 40.0, 90.0])
def test_the_mesh_of_a_ball_is_as_round_as_its_outline_is_seen(radius):
    """By the area of its convex hull; coarse ones are as quick to fit where a tenth of a pixel is not seen."""
    across = np.linspace(200, 400, 6)
    regular = Regions(
        np.arange(6),
        np.stack([across, np.full(6, 240.0)], 1),
        np.full(6, np.pi * radius**2),
        np.full(6, 240 + radius),
    )
    coarse = {"bodies": {"ball": {"shape": {"sphere": {"radius": 0.1, "subdivisions": 2}}, "mass": 2.0}}}
    scene = first_scene(coarse, regular, (640, 480), 30.0, 6, body_size=0.2, focal=800.0).scene
    mesh = scene.bodies["ball"].shape.mesh()
    inset = 1 - np.sqrt(ConvexHull(mesh.vertices).area / (4 * np.pi)) / 0.1
    assert inset * radius < 0.16
    assert len(mesh.faces) == {9.0: 320, 40.0: 1280, 90.0: 5120}[radius]
