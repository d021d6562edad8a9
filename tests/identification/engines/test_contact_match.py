"""Contact numbers of MuJoCo are fitted to a drop and a slide of a body by the scene's own law."""

import numpy as np
import pytest

from gradsim import InputError
from gradsim.scene import Scene, exporters

pytest.importorskip("mujoco", reason='MuJoCo is not installed: pip install "gradsim[engines]"')

from gradsim.identification.engines import contact_match
from gradsim.identification.engines.contact_match import FPS, Landing, _Trials, landing_of, match_contacts

BOX = {
    "shape": {"box": {"size": [0.2, 0.3, 0.1]}},
    "mass": 2,
    "position": [0, 0, 0.5],
    "rotation_vector": [0.3, 0.2, 0],
}
TILTED = {"point": [0, 0, 0], "normal": [0.2, 0, 1], "dissipation": 0.3, "stiffness": 2e4, "friction": 0.6}
SECONDS = 1.25  # of a trial, half as long as of the product


def landing_errors(one: Landing, other: Landing) -> dict[str, float]:
    """Relative differences of what both trials measure."""
    return {key: getattr(one, key) / getattr(other, key) - 1 for key in ("bounce", "travel", "depth", "slide")}


def scene_of(ground: dict, **further) -> Scene:
    return Scene.parse({"bodies": {"box": BOX, **further.pop("bodies", {})}, "ground": ground, **further})


@pytest.fixture(scope="module")
def matched():
    scene = scene_of(TILTED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contact_match, "TRIES_PER_SPREAD", 8)
        patch.setattr(contact_match, "SECONDS", SECONDS)
        return scene, match_contacts(scene, 2e-3)


def test_a_matched_contact_bounces_sinks_and_slides_as_the_law_does(matched):
    _, ((match,), notes) = matched
    assert notes == [] and match.pair == ("ground", "box")
    before, after = (landing_errors(one, match.ours) for one in (match.formula, match.matched))
    assert abs(before["bounce"]) > 0.1  # the law has no counterpart in MuJoCo, so the formula is off
    assert abs(after["bounce"]) < min(0.1, 0.3 * abs(before["bounce"])) and abs(after["slide"]) < 0.1
    assert abs(after["travel"]) < min(0.1, 0.3 * abs(before["travel"]))
    assert abs(match.matched.depth - match.ours.depth) < 1e-3  # [m]: it counts beside the bounce
    assert 0.3 < match.factors["stiffness"] < 3 and 0.3 < match.factors["friction"] < 3


def test_a_drop_begins_as_the_body_does_but_a_long_fall_is_left_out(matched):
    _, ((match,), _) = matched
    (ground, body), drop = match.pair, match.scenes["drop"]
    assert list(drop.bodies[body].position) == BOX["position"] and drop.timing.frames > FPS * SECONDS
    high = scene_of(TILTED, bodies={"box": BOX | {"position": [0, 0, 50.0]}})
    drop = _Trials(high, (ground, body), 1e-3, speed=30.0).drop
    normal = np.array(TILTED["normal"]) / np.linalg.norm(TILTED["normal"])
    assert np.dot(drop.bodies[body].velocity, normal) == pytest.approx(-30.0)  # of the impact, just above the ground
    assert np.dot(drop.bodies[body].position, normal) < 0.3


def test_a_landing_is_read_off_its_path():
    heights, along = np.array([4, 2, 1, 2, 2.5, 1, 1, 1, 1]), np.array([0, 1, 2, 3, 2, 2, 2, 2, 2.0])
    x = np.stack([along, 0 * along, heights], 1)
    landing = landing_of(x, np.array([0.0, 0, 1]), fps=10.0, still=0.05)
    assert landing == {
        "bounce": 1.5,
        "travel": 4.0,
        "settling": 0.5,
    }  # up and back along the ground; at rest from frame 5 on


def test_factors_are_in_the_model_and_of_its_own_pair(matched, tmp_path):
    scene, ((match,), _) = matched
    twice = {match.pair: {"stiffness": 2.0, "friction": 0.5}}
    texts = [
        exporters.export(scene, "mjcf", tmp_path / str(k), contact_factors=factors).files[0].read_text()
        for k, factors in enumerate([None, twice])
    ]
    pairs = [next(line for line in text.splitlines() if "<pair" in line) for text in texts]
    numbers = [
        [float(pair.split(f'{key}="')[1].split()[0].strip('"')) for key in ("solref", "friction")] for pair in pairs
    ]
    assert np.allclose(np.array(numbers[1]) / numbers[0], [2.0, 0.5], rtol=1e-12)


def test_what_is_not_matched_is_said_and_a_scene_without_contact_refused():
    wall = {"position": [3, 0, 0], "size": [0.1, 1, 1], "stiffness": 2e4, "dissipation": 0.3, "friction": 0.3}
    upside_down = scene_of({"normal": [0, 0, -1], "height": -5}, obstacles={"wall": wall})
    matches, notes = match_contacts(upside_down, 1e-3)
    assert matches == []
    assert ["gravity does not pull" in note or "plane grounds" in note for note in notes] == [True, True]
    with pytest.raises(InputError, match="no contact can be matched"):
        match_contacts(Scene.parse({"bodies": {"box": BOX}}), 1e-3)
