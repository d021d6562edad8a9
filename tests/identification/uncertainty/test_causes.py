"""Causes of a mismatch, planted in scenes of a ball that other code moves and draws."""

import math
import re

import numpy as np
import pytest
import torch
from wavy_ball import DISTANCE, FOCAL, HEIGHT, NAMES, RADIUS, centres, masks, scene, waves

import gradsim as gs
from gradsim.errors import Status
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.camera_effects import EFFECTS, LATE_EXPOSURE, AffectedMasks
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.uncertainty.causes import Cause, _advice, _braked, _ranked, _turning
from gradsim.identification.unknowns import Space
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim.video.mask_faults import mask_faults

TRUTH = (1.0, 4.0, -9.81)
FRAMES = 24
SPEEDS = NAMES[:2]
BANDS = 12  # of rows that are read together


def displacement() -> np.ndarray:
    return 0.3 + 0.2 * waves(FRAMES, 5.0, 0.5, np.random.default_rng([17, 3]))


def fitted(edit=lambda content: None, observed: Masks | None = None) -> gs.Fit:
    """Fit of the right video, or other masks, by a scene with an edit."""
    observed = observed or masks(centres(FRAMES, TRUTH), displacement())
    content = scene(FRAMES).model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    edit(content)
    wrong = Scene.parse(content)
    observed.silhouettes = Silhouettes.of(wrong)
    return gs.identify(wrong, SPEEDS, observation=observed, starts=2, seed=0)


def at_instants(delays: list[float]) -> list[Masks]:
    return [masks(centres(FRAMES, TRUTH, late=delay), displacement()) for delay in delays]


def rolled(readout: float) -> Masks:
    parts = at_instants([readout * (k + 0.5) / BANDS for k in range(BANDS)])
    rows = HEIGHT // BANDS
    images = torch.cat([part.masks[:, k * rows : (k + 1) * rows] for k, part in enumerate(parts)], 1)
    return parts[0].replaced(images)


def exposed(duration: float) -> Masks:
    parts = at_instants([duration * (k + 0.5) / BANDS for k in range(BANDS)])
    return parts[0].replaced(torch.stack([part.masks for part in parts]).mean(0))


def enlarged(content: dict) -> None:
    content["bodies"]["ball"]["shape"]["sphere"]["radius"] *= 1.12


@pytest.mark.parametrize(
    ("edit", "observed", "name", "change"),
    [
        # frames are taken to be closer than they are
        pytest.param(
            *(lambda c: c["timing"].update(fps=30 * 1.03), lambda: None, "timing.rate", 0.03), marks=pytest.mark.slow
        ),
        pytest.param(  # and masks 0.3 px wide
            *(enlarged, lambda: None, "ball.scale", (1 + 0.3 * DISTANCE / FOCAL / RADIUS) / 1.12 - 1),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *(lambda c: None, lambda: masks(centres(FRAMES, TRUTH, 0.8), displacement()), "air drag", 0.8),
            marks=pytest.mark.slow,
        ),
        pytest.param(lambda c: None, lambda: rolled(0.03), "rolling shutter", 0.03, marks=pytest.mark.slow),
        pytest.param(lambda c: None, lambda: exposed(0.025), "late exposure", 0.025, marks=pytest.mark.slow),
    ],
    ids=["rate", "size", "drag", "rolling", "exposure"],
)
def test_a_planted_fault_is_the_first_cause_with_its_size(edit, observed, name, change):
    """The number is fitted together with the unknowns: it is off by the errors of outlines, and by the approximation of effects.

    `test_outline.py` asserts the first cause of a wrong size in less time.
    """
    fit = fitted(edit, observed())
    first = fit.outline["causes"][0]
    assert first["name"] == name and first["explained"]
    if fit.status == Status.APPROXIMATE:
        share = float(re.search(r"the same within ([\d.]+) %", fit.outline["words"])[1]) / 100
        for unknown, truth in zip((name.split(":")[0] for name in SPEEDS), TRUTH, strict=False):
            low, high = fit.unknowns[unknown].interval95
            assert low < truth < high and high - low <= 2.05 * share * truth * 1.05
            assert fit.result()["unknowns"][unknown]["identifiable"]
    else:
        assert fit.status == Status.MISMATCH
    assert first["change"] == pytest.approx(change, rel=0.12)
    assert first["size"] < 0.7 * math.hypot(fit.outline["size"], fit.outline["offset"])
    assert fit.residual_diagnostics.words == fit.outline["words"] and "there would be left" in fit.outline["words"]


@pytest.mark.slow
def test_masks_of_which_many_cannot_be_right_are_the_only_cause():
    observed = masks(centres(FRAMES, TRUTH), displacement())
    observed.masks[:, -16:, -16:] = 1.0
    observed.mask_faults = mask_faults(observed.masks.numpy())
    observed.notes = {"mask_faults": observed.mask_faults.words, "mask_advice": observed.mask_faults.advice}
    fit = fitted(observed=observed)
    assert fit.status == Status.MISMATCH and [cause["name"] for cause in fit.outline["causes"]] == ["masks"]
    assert "--background mog2" in fit.outline["words"]


def test_the_lines_that_a_late_exposure_names_are_that_exposure():
    """An exposure from the stamp on is one about the stamp, half of it later; both have the same five instants, of a parabola."""
    amount, right = 0.024, scene(FRAMES)
    data = masks(centres(FRAMES, TRUTH), np.zeros((FRAMES, 256)))
    (effect,) = (effect for effect in EFFECTS if effect.name == LATE_EXPOSURE)
    problem = Problem(model_for(right, Space(right, SPEEDS)), data, Space(right, SPEEDS))
    lines = dict(re.findall(r"`(\w+: [\d.]+)` under `(\w+):`", _advice(Cause(effect.name, amount, "s", 0.1), problem)))
    assert lines == {"exposure: 0.024": "camera", "offset: 0.0120": "timing"}
    content = right.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    for line, owner in lines.items():
        key, value = line.split(": ")
        content[owner][key] = float(value)
    advised = Scene.parse(content)
    trajectories = [gs.Model(one).rollout({}) for one in (right, advised)]
    affected = AffectedMasks(data, effect, amount, right.timing.fps)
    plain = Masks(data.masks, data.sigma, Silhouettes.of(advised))
    images = [
        torch.cat(list(one.residuals(trajectory, FRAMES, "pixels")), 1)
        for one, trajectory in zip((affected, plain), trajectories, strict=True)
    ]
    still = torch.cat(list(data.residuals(trajectories[0], FRAMES, "pixels")), 1)
    assert (images[0] - images[1]).abs().max() < 1e-3 * (still - images[1]).abs().max()


def test_of_causes_that_leave_the_same_the_least_unusual_is_first():
    """A clock that is 3 % off, and a gravity that is 6 % off, are one to a flight from a known place."""
    strong = Cause("gravity.z", 0.6, "m/s^2", 0.20, unusual=20.0)
    clock = Cause("timing.rate", 0.03, "", 0.21, unusual=1.0)
    worse = Cause("ball.scale", 0.01, "", 0.5, unusual=0.1)
    assert [cause.name for cause in _ranked([strong, worse, clock])] == ["timing.rate", "gravity.z", "ball.scale"]


@pytest.mark.slow  # `test_outline.py` asserts it of a right scene with three unknowns
def test_a_right_scene_has_no_causes():
    fit = fitted()
    assert fit.status == Status.OK and fit.outline["causes"] == []


def test_air_that_brakes_names_the_lines_of_a_lone_body_and_of_a_ball_that_may_roll():
    ball = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1}
    words = lambda bodies, **more: _braked(Scene.parse({"bodies": bodies, **more}))
    assert words({"ball": ball}) == " (write `drag: 0.01` under `ball:` and make `ball.drag` an unknown)"
    assert "if it rolls, `rolling_friction: 0.001` under `ground:`" in words({"ball": ball}, ground={})
    assert "rolls" not in words({"ball": ball}, ground={"rolling_friction": 0.01})
    assert words({"ball": ball | {"drag": 0.1}}) == words({"ball": ball, "other": ball}) == ""


def test_a_spin_that_is_taken_as_known_is_told_of_bodies_whose_turn_is_in_the_outline():
    ball, box = ({"shape": shape, "mass": 1} for shape in ({"sphere": {"radius": 0.1}}, {"box": {"size": [0.1] * 3}}))
    turned = box | {"position": [2, 0, 0], "angular_velocity": [0, 2, 0]}
    scene = Scene.parse({"bodies": {"ball": ball, "box": turned}})
    told = _turning(scene, ["box.velocity.x"])
    assert "The spin of `box` is taken as known (0, 2, 0 rad/s)" in told and "`box.angular_velocity.x`" in told
    assert _turning(scene, ["box.angular_velocity.z"]) == ""  # the user knows
    hinge = {"kind": "revolute", "between": ["world", "box"], "axis": [0, 1, 0]}
    scene = Scene.parse({"bodies": {"ball": ball, "box": box}, "joints": {"hinge": hinge}})
    assert _turning(scene, ["box.velocity.x"]) == ""
