"""K-fold prediction: a hinge that SciPy's DOP853 moves, with damping and dry friction, by models with and without either."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from gradsim.errors import InputError
from gradsim.identification.comparison.folds import GIVEN_MODEL, Law, Recordings, predict_folds
from gradsim.identification.model_selection import Comparison, compare
from gradsim.identification.observation.base import States
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Unknown
from gradsim.scene import Scene

ARM, MASS, INERTIA, G = 0.3, 0.5, (0.02, 0.03, 0.025), 9.81  # [m], [kg], [kg m²], [m/s²]
DAMPING, FRICTION, SLIP = 0.01, 0.06, 0.05  # [N m s/rad], [N m], [rad/s]
SIGMA, FPS, FRAMES = 1e-3, 20, 24
RELEASES = (0.5, 0.7, 0.9, 1.1, 1.3, 1.5)  # [rad]
DRY = {"unknowns": ["joints.hinge.friction:0.001:0.5"]}
PLAN = MultistartConfig(starts=2, rounds=0, explore=False, polish=0, rtol=1e-7, curriculum=False)
DAMPED = "joints.hinge.damping:0.001:0.2"


def scene(angle: float) -> Scene:
    """A body on a hinge of the world that is let go from an angle, without friction."""
    bob = {"shape": {"box": {"size": [0.1, 0.1, 0.1]}}, "mass": MASS, "inertia": list(INERTIA)}
    hinge = {"kind": "revolute", "between": ["world", "bob"], "axis": [0, 1, 0], "child_point": [0, 0, ARM]}
    hinge |= {"angle": angle, "damping": 0.02, "friction": 0.0, "friction_rate": SLIP}
    timing = {"fps": FPS, "frames": FRAMES, "substeps": 8, "integrator": "rk4"}
    return Scene.parse({"gravity": G, "timing": timing, "bodies": {"bob": bob}, "joints": {"hinge": hinge}})


def swung(angle: float, friction: float, seed: int) -> States:
    """Positions of its center with noise: (I + m l²) θ″ = −m g l sin θ − c θ′ − F θ′/√(θ′² + s²)."""

    def slope(_, y):
        rubbing = DAMPING * y[1] + friction * y[1] / math.hypot(y[1], SLIP)
        return y[1], -(MASS * G * ARM * math.sin(y[0]) + rubbing) / (INERTIA[1] + MASS * ARM**2)

    times = np.arange(FRAMES) / FPS
    theta = solve_ivp(slope, (0, times[-1]), (angle, 0.0), "DOP853", times, rtol=1e-10, atol=1e-12).y[0]
    x = np.stack([-ARM * np.sin(theta), 0 * theta, -ARM * np.cos(theta)], 1)
    noise = np.random.default_rng(seed).normal(0, SIGMA, x.shape)
    return States("bob", torch.tensor(x + noise), None, SIGMA)


def recorded(friction: float) -> list[States]:
    return [swung(angle, friction, k) for k, angle in enumerate(RELEASES)]


def compared(friction: float, **options) -> Comparison:
    scenes = [scene(angle) for angle in RELEASES]
    options = {"candidates": {"with dry friction": DRY}, "folds": 3, **options}
    data = recorded(friction)
    return compare(scenes, [DAMPED], observations=data, plan=PLAN, sampled=False, **options)


@pytest.fixture(scope="module")
def rubbing() -> Comparison:
    """Hinge with dry friction."""
    return compared(FRICTION)


@pytest.mark.slow
def test_the_law_that_moved_the_hinge_predicts_what_was_not_fitted_to_the_noise(rubbing):
    """RMS of 6 recordings of 72 coordinates, of which a third, along y, no model changes and those of the start neither: 1 σ ± 1/√(2 · 276) = 4 %."""
    prediction = rubbing.prediction
    assert prediction.best == rubbing.chosen == "with dry friction"
    assert prediction.error("with dry friction") == pytest.approx(1.0, abs=3 * 0.042)
    assert prediction.error(GIVEN_MODEL) > 4
    (law,) = prediction.laws
    assert (
        law.counts
        and law.standard_errors > 3
        and law.gain == pytest.approx(1 - prediction.error("with dry friction") / prediction.error(GIVEN_MODEL))
    )
    assert law.words.startswith("dry friction: prediction of recordings not fitted") and "better" in law.words
    assert law.words[1:] in rubbing.words and "BIC chooses the same model" in rubbing.words


@pytest.mark.slow
def test_fits_of_folds_know_the_law_from_the_others(rubbing):
    """Friction and damping of each fold, within five standard deviations of the whole fit's and of the truth."""
    values, bars = rubbing.prediction.values["with dry friction"], rubbing.best.fit.unknowns
    for name, truth in (("joints.hinge.friction", FRICTION), ("joints.hinge.damping", DAMPING)):
        assert len({fold[name] for fold in values}) == 3  # each left other recordings out
        for fold in values:
            assert fold[name] == pytest.approx(truth, abs=5 * math.sqrt(1.5) * bars[name].std)


@pytest.mark.slow
def test_bands_of_a_wrong_model_cover_what_was_not_fitted(rubbing):
    """Without dry friction predictions are 4 σ off; bands of the discrepancy hold 95 % ± 5 % of 288 correlated coordinates that move.

    Bands of the noise alone would hold less than 60 %.
    """
    coverage = rubbing.prediction.coverage
    assert 0.90 <= coverage["with dry friction"] <= 0.99
    assert 0.90 <= coverage[GIVEN_MODEL] <= 1.0


@pytest.mark.slow
def test_folds_are_disjoint_and_hold_all_recordings(rubbing):
    folds = rubbing.prediction.folds
    assert sorted(k for fold in folds for k in fold) == [1, 2, 3, 4, 5, 6] and [len(f) for f in folds] == [2, 2, 2]


@pytest.mark.slow
def test_a_law_that_is_not_there_gains_nothing():
    prediction = compared(0.0).prediction
    assert prediction is not None
    assert not prediction.laws[0].counts and "which may be chance" in prediction.laws[0].words
    assert abs(prediction.laws[0].gain) < 0.02


@pytest.mark.slow
def test_numbers_of_single_recordings_come_from_the_first_frames_alone():
    """Release angles are unknown, so each predicted recording gives its first frames for its own; later frames change nothing."""
    scenes, unknowns = [scene(1.0)] * 6, [DAMPED, "joints.hinge.angle@each:0.2:2"]
    data = recorded(FRICTION)
    found = compare(
        scenes,
        unknowns,
        observations=data,
        candidates={"dry friction": DRY},
        plan=PLAN,
        sampled=False,
        folds=2,
        first_frames=8,
    ).prediction
    assert found is not None and found.best == "dry friction" and found.error("dry friction") < 2
    assert all(set(fold) == {"joints.hinge.damping"} for fold in found.values[GIVEN_MODEL])


def test_a_recording_does_not_help_to_predict_itself():
    """A fold's fit is that of the other recordings: spoiling one leaves the fit that left it out as it is, and changes the other."""
    scenes, data = [scene(angle) for angle in RELEASES[:2]], [d.slice_frames(0, 10) for d in recorded(FRICTION)[:2]]
    plan = replace(PLAN, starts=1)
    predict = lambda observations: predict_folds(
        {GIVEN_MODEL: Recordings(scenes, observations, [Unknown.parse(DAMPED)], ())}, 2, 0, plan, 0
    )
    clean = predict(data)
    bad = clean.folds[0][0] - 1
    spoiled = predict([States("bob", d.x + 0.1 * (k == bad), None, SIGMA) for k, d in enumerate(data)])
    assert (
        spoiled.values[GIVEN_MODEL][0] == clean.values[GIVEN_MODEL][0]
        and spoiled.values[GIVEN_MODEL][1] != clean.values[GIVEN_MODEL][1]
    )
    assert spoiled.errors[GIVEN_MODEL][bad] > 50 + clean.errors[GIVEN_MODEL][bad]


@pytest.mark.parametrize(
    ("with_it", "without_it", "gain", "z"),
    [
        ([1.0, 2.0, 3.0], [2.0, 3.0, 5.0], 0.4, 4.0),  # differences 1, 1, 2: mean 4/3, s 0.577, error 1/3
        ([1.0, 2.0, 3.0], [2.0, 3.0, 4.1], 3.1 / 9.1, 31.0),
        ([2.0, 2.0], [1.0, 1.0], -1.0, -math.inf),
        ([1.0, math.inf], [1.0, 1.0], math.nan, math.nan),
    ],
)
def test_gain_and_standard_errors(with_it, without_it, gain, z):
    law = Law.of("drag", with_it, without_it)
    assert (law.gain, law.standard_errors) == pytest.approx((gain, z), nan_ok=True)
    assert law.counts == (abs(z) > 4.3)  # t of 2 degrees of freedom is 4.30 at 97.5 %


@pytest.mark.parametrize(
    ("folds", "unknowns", "first", "words"),
    [
        (1, [DAMPED], 0, "folds is 1; expected at least 2"),
        (7, [DAMPED], 0, "there are 6 recordings and 7 folds"),
        (2, [DAMPED, "joints.hinge.angle@each:0.2:2"], 0, "state their number: --first-frames"),
        (2, [DAMPED], FRAMES, f"first_frames is {FRAMES}; expected 0 to {FRAMES - 1}"),
    ],
)
def test_folds_that_cannot_be_are_refused_before_work(folds, unknowns, first, words):
    scenes, data = [scene(angle) for angle in RELEASES], recorded(FRICTION)
    with pytest.raises(InputError, match=words):
        compare(scenes, unknowns, observations=data, candidates={"dry": DRY}, folds=folds, first_frames=first)


def test_as_many_scenes_as_recordings():
    with pytest.raises(InputError, match="there are 2 scenes and 6 recordings"):
        compare([scene(1.0)] * 2, [DAMPED], observations=recorded(0.0), candidates={"dry": DRY})
