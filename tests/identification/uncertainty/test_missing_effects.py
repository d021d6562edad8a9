"""Effects of the camera that a model lacks, though errors of outlines explain what is left; on a ball that other code moves and draws."""

import numpy as np
import pytest
import torch
from wavy_ball import HEIGHT, NAMES, centres, masks, scene, waves

from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.camera_effects import EFFECTS, WithEffect
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.uncertainty.missing_effects import (
    MissingEffects,
    _Test,
    _testable,
    _WithEffects,
    chance_of,
    missing_effects,
)
from gradsim.identification.uncertainty.outline import OutlineErrors, fit_outline
from gradsim.identification.unknowns import Space
from gradsim.scene import Scene

TRUTH = (1.0, 4.0, -9.81)
FRAMES, BANDS = 24, 12
WIDE, WAVY = 0.3, 0.1  # [px]


def at_instants(delays: list[float], seed: int) -> list[Masks]:
    """Masks of the ball some time [s] after each stamp, with the same errors of outlines."""
    displacement = WIDE + WAVY * waves(FRAMES, 5.0, 0.5, np.random.default_rng([23, seed]))
    return [masks(centres(FRAMES, TRUTH, late=delay), displacement) for delay in delays]


def rolled(readout: float, seed: int) -> Masks:
    parts, rows = at_instants([readout * (k + 0.5) / BANDS for k in range(BANDS)], seed), HEIGHT // BANDS
    return parts[0].replaced(torch.cat([part.masks[:, k * rows : (k + 1) * rows] for k, part in enumerate(parts)], 1))


def exposed(duration: float, seed: int) -> Masks:
    parts = at_instants([duration * ((k + 0.5) / BANDS - 0.5) for k in range(BANDS)], seed)
    return parts[0].replaced(torch.stack([part.masks for part in parts]).mean(0))


def problem_of(data: Masks) -> Problem:
    space = Space(scene(FRAMES), NAMES)
    return Problem(model_for(scene(FRAMES), space), data, space)


def judged(data: Masks) -> tuple[OutlineErrors, MissingEffects | None]:
    problem = problem_of(data)
    problem, u, errors = fit_outline(problem, problem.space.inner(torch.tensor([TRUTH]).double())[0])
    return errors, missing_effects(problem, u, errors)


@pytest.mark.parametrize(("data", "name", "change"), [(rolled, "rolling shutter", 0.006), (exposed, "exposure", 0.033)])
def test_an_effect_that_errors_of_outlines_would_explain_is_named(data, name, change):
    """The verdict about shifts alone is that nothing is missing."""
    errors, missing = judged(data(change, 1))
    assert errors.explained and missing
    assert missing.causes[0].name == name and missing.causes[0].change == pytest.approx(change, rel=0.2)
    assert f"{1000 * missing.causes[0].change:.2g} ms" in missing.words and missing.chance < 1e-3


def test_the_right_model_lacks_nothing(monkeypatch):
    """W of k effects has the mean k n/(n − 2) of k F(k, n), or less: errors of outlines are estimated with care."""
    values, tests = [], []
    remembered = lambda *arguments: tests.append(_Test(*arguments)) or tests[-1]
    monkeypatch.setattr("gradsim.identification.uncertainty.missing_effects._Test", remembered)
    for seed in range(6):
        problem = problem_of(at_instants([0.0], seed)[0])
        problem, u, errors = fit_outline(problem, problem.space.inner(torch.tensor([TRUTH]).double())[0])
        assert missing_effects(problem, u, errors) is None
        values.append(statistic_of(tests[-1]))
    assert len(tests) == len(values) and 0.3 < np.mean(values) / len(tests[-1].effects) < 2.0


def statistic_of(test: _Test) -> float:
    indices = range(len(test.effects))
    return test.statistic(*test.step(indices), indices)


def test_chance_is_that_of_fishers_distribution():
    """Of 6 and 17 degrees of freedom, by 200 000 draws."""
    rng = np.random.default_rng(3)
    ratio = (rng.chisquare(6, 200_000) / 6) / (rng.chisquare(17, 200_000) / 17)
    assert chance_of(18.0, 6, 17) == pytest.approx((ratio > 3).mean(), rel=0.05)


def test_an_effect_that_is_unknown_is_not_tested():
    content = scene(FRAMES).model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    content["camera"]["readout"] = 0.0
    rolling = Scene.parse(content)
    data = at_instants([0.0], 0)[0]
    space = Space(rolling, [*NAMES, "camera.readout:-0.03:0.03"])
    names = [effect.name for effect in _testable(Problem(model_for(rolling, space), data, space))]
    assert "rolling shutter" not in names and {"lens distortion", "exposure"} < set(names)


def test_columns_of_effects_are_derivatives_of_residuals():
    """Against a step of a fortieth of the typical size, forward and back; pixels bend where an outline crosses one."""
    problem = problem_of(at_instants([0.0], 0)[0])
    u = problem.space.inner(torch.tensor([TRUTH]).double())[0]
    for effect in EFFECTS:
        (*_, column) = torch.cat([J for _, J in _WithEffects(problem, [effect], False).jacobian(u[None], FRAMES)], 1)[
            0
        ].T
        one, amount = WithEffect(problem, effect), effect.typical / 40
        ends = [
            one._residuals(torch.cat([u, u.new_tensor([sign * amount])])[None], FRAMES, "pixels")[0] for sign in (1, -1)
        ]
        secant = (ends[0] - ends[1]) / (2 * amount)
        assert (column - secant).norm() < 0.1 * secant.norm()


def test_nothing_is_missing_where_a_body_rests_and_its_outline_is_off_alike_in_all_frames():
    """A lens explained the error of one outline 24 times. What a codec may blur, over a speed of 0, was an OverflowError."""
    content = scene(FRAMES).model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    content["bodies"]["ball"]["velocity"] = [0, 0, 0]
    still = Scene.parse(content | {"gravity": [0, 0, 0]})
    places = centres(FRAMES, (0.0, 0.0, 0.0))
    wave = waves(1, 5.0, 0.5, np.random.default_rng([24, 0]))
    data = masks(places, np.repeat(WIDE + WAVY * wave, FRAMES, 0))
    space = Space(still, ("ball.position.x:-1:0", "ball.position.z:0:1"))
    problem = Problem(model_for(still, space), data, space)
    problem, u, errors = fit_outline(problem, space.inner(torch.tensor([[-0.6, 0.3]]).double())[0])
    assert missing_effects(problem, u, errors) is None
    step, _ = _Test(problem, u, errors, _testable(problem)).step(range(len(_testable(problem))))
    assert step.isfinite().all()
