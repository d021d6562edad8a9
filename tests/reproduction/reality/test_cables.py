"""Cables of recordings: numbers are recovered from films of the law itself, and figures are what they say."""

import cmath
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from checks import error
from scipy.integrate import solve_bvp

from gradsim.errors import InputError
from gradsim_reproduction.reality import cable_bands as bands
from gradsim_reproduction.reality import cable_model as cables
from gradsim_reproduction.reality import cable_residuals, cable_row, cable_shape
from gradsim_reproduction.reality.cable_recordings import ENDS, FPS, GIVEN, Recording, load, still, straight
from gradsim_reproduction.reality.ensemble import factor_for_another
from gradsim_reproduction.reality.reality import reality

TRUTH = (0.1, 0.05, 0.06)
BRANCH = (0.6, 0.15)  # ratio and time [s]
BY_LAW = {"viscosity": TRUTH, "relaxation": TRUTH + BRANCH}
MARKERS, FRAMES = 8, 60
CURVATURE = np.array([[2.0, -1.5, 0.5, 3.0, -2.0, 1.0], [-1.0, 2.5, 1.0, -2.0, 0.5, 1.5]])
ROLLS = (0.4, -1.0, 2.0, -2.5)  # [rad] of the films in order of their seeds


def _coordinates(numbers) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64).log()


def _run(recording: Recording, seed: int, law: str = "viscosity", frames: int = FRAMES) -> cables.CableRun:
    return cables.CableRun(recording, frames, CURVATURE, ROLLS[seed], law)


def _film(name: str, seed: int, law: str = "viscosity", frames: int = FRAMES) -> Recording:
    """A cable of `BY_LAW` and `CURVATURE` from an arc, while its ends move askew."""
    rng = np.random.default_rng(seed)
    angle = np.linspace(-1.1, 1.1, MARKERS)
    arc = 0.3 * np.stack([np.sin(angle), 0.2 * np.cos(2 * angle), 1 - np.cos(angle)], 1)
    t = np.arange(frames)[:, None, None] / FPS
    first, last = rng.normal(0, 0.3, (2, 3))
    share = np.linspace(0, 1, MARKERS)[:, None]
    x = arc + t * ((1 - share) * first + share * last) + 0.05 * np.sin(15 * t) * share**2
    run = _run(Recording(name, x), seed, law, frames)
    x[GIVEN:, ENDS:-ENDS] = run.predict(_coordinates(BY_LAW[law])).numpy()
    return Recording(name, x)


@pytest.fixture(scope="module")
def films():
    return [_film(f"train_{seed}", seed) for seed in (1, 2)]


@pytest.fixture(scope="module")
def runs(films):
    return [_run(film, seed) for seed, film in zip((1, 2), films, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("law", cables.LAWS)
def test_numbers_are_recovered_from_films_of_their_law(law):
    """From a start that is off by factors of 0.6 to 1.6; residuals vanish at the truth, so steps converge fast."""
    runs = [_run(_film(f"train_{seed}", seed, law), seed, law) for seed in (1, 2)]
    start = (0.06, 0.08, 0.1, 0.4, 0.2)[: len(BY_LAW[law])]
    u, _ = cables.fit(runs, _coordinates(start), 25)
    assert (u - _coordinates(BY_LAW[law])).abs().max() < 1e-6


NATURAL = np.random.default_rng(5).normal(0, 2, (2, 8))  # [1/m] of a cable with ten markers


@pytest.fixture(scope="module")
def swings() -> list[Recording]:
    """A cable of 0.76 m with 3 cm held at each end, swung for 2.6 s from three rolls, as real ones are."""
    s = np.concatenate([[0, 0.03], 0.13 + 0.1 * np.arange(6), [0.73, 0.76]])
    share = (s / s[-1])[:, None]
    angle = 1.35 * (2 * share[:, 0] - 1)
    arc = 0.28 * np.stack([np.sin(angle), 0.18 * np.cos(2 * angle), -np.cos(angle)], 1)
    t, films = np.arange(260)[:, None, None] / FPS, []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rate, phase, size = rng.uniform(3, 7, (2, 3)), rng.uniform(0, 6, (2, 3)), rng.uniform(0.05, 0.1, (2, 3))
        ends = [
            size[k] * (np.sin(rate[k] * t + phase[k]) - np.sin(phase[k])) * np.minimum(2 * t, 1) ** 2 for k in range(2)
        ]
        x = arc + ends[0] * (1 - share) + ends[1] * share
        run = cables.CableRun(Recording("train", x), len(x), NATURAL, ROLLS[seed])
        x[GIVEN:, ENDS:-ENDS] = run.predict(_coordinates((0.07, 0.047, 0.08))).numpy()
        films.append(Recording(f"train_{seed}", x))
    return films


@pytest.mark.slow  # three films of 260 frames
def test_the_balance_of_moments_tells_shape_and_rolls(swings):
    """Up to the roll of the whole, which curvatures and rolls share. Markers 0.1 m apart show a curve coarsely, and so do they its natural shape."""
    shape = cable_shape.natural_shape(swings)
    assert shape.stiffness == pytest.approx(0.07, rel=0.25)
    assert shape.time == pytest.approx(0.08, rel=0.25)
    turn = cmath.phase(np.vdot(shape.curvature[0] + 1j * shape.curvature[1], NATURAL[0] + 1j * NATURAL[1]))
    off = cable_shape.turned(shape.curvature, turn) - NATURAL
    assert np.square(off).mean() < 0.25 * np.square(NATURAL).mean()
    assert np.abs(np.angle(np.exp(1j * (shape.rolls - turn - ROLLS[:3])))).max() < 0.25
    assert shape.unexplained < 0.25


@pytest.mark.slow
def test_two_frames_tell_the_roll_of_a_run(swings):
    swings = [
        Recording(film.name, film.x[60:]) for film in swings
    ]  # no longer let go from a shape that it would not take
    shape = cable_shape.natural_shape(swings)
    for film, wanted in zip(swings, shape.rolls, strict=True):
        x = film.x.copy()
        x[GIVEN:, ENDS:-ENDS] = np.nan  # what comes later is not looked at
        roll, std = shape.roll_of(Recording("eval_1", x))
        assert abs(np.angle(np.exp(1j * (roll - wanted)))) < 0.4
        assert 0 < std < 0.4


def test_a_twist_of_least_energy_is_that_of_its_equation():
    """r θ'' = κ1 κ̄2 - κ2 κ̄1 with θ of the frame in κ, on a fine rod; and none where the natural shape lies in the curve's plane."""
    n, length, curvature, natural = 200, 1.0, np.array([3.0, 1.0]), np.array([0.4, 2.0])
    both = np.full(n, length / n)
    strains = np.broadcast_to(curvature[:, None], (1, 2, n))
    twist = cable_shape.twist_of(strains, np.repeat(natural[:, None], n, 1), both, 0.07)

    def slope(s, y):
        first, second = cable_shape.turned(curvature, -y[0])
        across = first * natural[1] - second * natural[0]
        return [y[1], across / cable_shape.RATIO]

    s = np.linspace(0, length, n + 1)
    exact = solve_bvp(slope, lambda a, b: [a[0], b[0]], s, np.zeros((2, n + 1)), tol=1e-8).sol(s)[0]
    assert np.abs(exact).max() > 0.3, "a twist that is small"
    assert np.abs(twist.angles[0] - exact).max() < 0.02 * np.abs(exact).max()
    flat = cable_shape.twist_of(strains, 0.5 * strains[0], both, 0.07)
    assert np.abs(flat.angles).max() < 1e-12


@pytest.mark.parametrize("law", cables.LAWS)
def test_sensitivities_are_those_of_central_differences(law, runs):
    run, u, step = replace(runs[0], law=law), _coordinates(BY_LAW[law]) + 0.05, 1e-4
    predicted, slopes = run.sensitivity(u)
    assert error(predicted, run.predict(u)) < 1e-9
    for k in range(len(u)):
        e = torch.zeros_like(u)
        e[k] = step
        assert error(slopes[k], (run.predict(u + e) - run.predict(u - e)) / (2 * step)) < 10 * step**2
    ahead, behind = (replace(run, roll=run.roll + h).predict(u) for h in (step, -step))
    assert error(slopes[-1], (ahead - behind) / (2 * step)) < 10 * step**2


def test_scores_of_frames_are_those_of_the_loss(runs):
    """Σ A_t^{1/2} y_t is the descent of the loss by the numbers, and Σ A_t its Gauss–Newton matrix."""
    u = _coordinates(TRUTH) + 0.02
    predicted, slopes = (y.detach() for y in runs[0].sensitivity(u))
    residual, scores = predicted - runs[0].target, bands.scores_of(predicted - runs[0].target, slopes, 1)
    step = 1e-5
    for k in range(len(u)):
        e = torch.zeros_like(u)
        e[k] = step
        ahead, behind = (cables.loss(runs[0].predict(u + sign * e) - runs[0].target) for sign in (1, -1))
        assert scores.score[k] == pytest.approx(-(ahead - behind) / (2 * step), rel=1e-4)
    assert scores.columns.tolist() == [0, 1, 2, 4] and scores.shared.tolist() == [True, True, True, False]
    J, weight = slopes.flatten(1), 1 / (1 + (residual.flatten() / cables.OUTLIER) ** 2)
    assert error(torch.tensor(scores.information), (J * weight) @ J.T) < 1e-9


def test_bands_hold_runs_of_the_law_with_noise(runs):
    """Of the law itself with white noise of 2 mm: the factor over its standard deviation is the quantile of a normal one."""
    rng = np.random.default_rng(7)
    noisy = []
    for run in runs:
        x = run.recording.x.copy()
        x[GIVEN:, ENDS:-ENDS] += rng.normal(0, 2e-3, x[GIVEN:, ENDS:-ENDS].shape)
        noisy.append(replace(run, recording=Recording(run.recording.name, x)))
    shape = cable_shape.Shape(TRUTH[0], TRUTH[2], CURVATURE, np.array(ROLLS[1:3]), 0.0)
    cable = cables.Cable(shape, "viscosity", _coordinates(TRUTH), noisy, 0.0)
    fitted = bands.discrepancy_of(cable)
    slopes = runs[0].sensitivity(cable.u)[1].detach()
    scale = bands.scale_of(cable, fitted, slopes)
    assert (scale > 1.8e-3).all()  # that of the noise or more
    still = slopes.clone()
    still[-1] = 0.0
    by_roll = scale**2 - bands.scale_of(cable, fitted, still) ** 2
    assert error(torch.tensor(by_roll), (slopes[-1] * cable.roll_spread) ** 2) < 1e-9
    off = np.abs(rng.normal(0, scale, (50, *scale.shape)))
    factor = factor_for_another([one / scale for one in off[:25]])
    assert factor == pytest.approx(1.96, rel=0.03)
    assert np.mean(off[25:] <= factor * scale) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize(("relaxing", "law"), [((9.0, 11.0), "viscosity"), ((9.0, 4.0), "relaxation")])
def test_the_law_of_least_mean_error_of_runs_left_out_is_taken(relaxing, law):
    """Each run is one half's alone; relaxation is 1 mm worse on average, or 2.5 mm better."""
    halves = [
        {"errors_mm": {"viscosity": {f"train_{k}": e}, "relaxation": {f"train_{k}": r}}}
        for k, (e, r) in enumerate(zip((8.0, 10.0), relaxing, strict=True))
    ]
    chosen, gain = cable_row.choose(halves)
    assert chosen == law
    assert gain.gain == pytest.approx(1 - sum(relaxing) / 18)


def test_a_cable_from_its_record_predicts_the_same(films):
    shape = cable_shape.Shape(TRUTH[0], TRUTH[2], CURVATURE, np.array(ROLLS[1:3]), 0.1)
    u = _coordinates(BY_LAW["relaxation"])
    cable = cables.Cable(
        shape, "relaxation", u, [_run(film, seed, "relaxation") for seed, film in zip((1, 2), films, strict=True)], 2.0
    )
    again = cables.cable_of(json.loads(json.dumps(cable.record())), films, FRAMES)
    assert again.numbers == cable.numbers and again.loss == cable.loss
    for one, other in zip(cable.runs, again.runs, strict=True):
        assert torch.equal(one.predict(cable.u), other.predict(again.u))


def test_shares_of_residuals_are_those_of_what_they_are_made_of():
    rng = np.random.default_rng(3)
    recorded, slopes = rng.normal(0, 0.1, (80, 6, 3)).cumsum(0) / 10, torch.tensor(rng.normal(0, 1, (4, 80, 6, 3)))
    shares = lambda residual: cable_residuals.shares(residual, slopes, recorded)
    made = {
        "roll": 0.1 * slopes[3].numpy(),
        "numbers": np.einsum("k,ktnc->tnc", [0.2, -0.1, 0.3], slopes[:3].numpy()),
        "offset": np.broadcast_to(rng.normal(0, 1, (6, 3)), recorded.shape),
        "shift": np.broadcast_to(rng.normal(0, 1, (80, 1, 3)), recorded.shape),
        "delay": -0.02 * np.gradient(recorded, 1 / FPS, axis=0),
        "shapes": np.einsum("tk,knc->tnc", rng.normal(0, 1, (80, 2)), rng.normal(0, 1, (2, 6, 3))),
    }
    for cause, residual in made.items():
        assert shares(residual)[cause] == pytest.approx(1.0), cause
    mixed = shares(made["roll"] + rng.normal(0, 0.1, recorded.shape))
    assert mixed["roll"] == pytest.approx(0.5, abs=0.05)
    assert max(mixed[cause] for cause in ("numbers", "offset", "delay")) < 0.05
    assert shares(np.zeros(recorded.shape)) == dict.fromkeys(made, 0.0)


def test_vertices_between_markers_leave_markers_where_they_are():
    x = np.random.default_rng(0).normal(0, 0.02, (MARKERS, 3)) + np.arange(MARKERS)[:, None] * [0.1, 0, 0]
    points, markers = cables.subdivide(x)
    assert np.abs(points[markers] - x).max() < 1e-15
    assert np.diff(markers).tolist() == [1, *[cables.PARTS] * (MARKERS - 3), 1]  # ends have no vertex between


def test_the_loss_is_half_a_square_near_zero_and_a_logarithm_far_away():
    scale = cables.OUTLIER
    near, far = torch.tensor([1e-3 * scale]).double(), torch.tensor([1e3 * scale, float("nan")]).double()
    assert abs(cables.loss(near) / (0.5 * near.square().item()) - 1) < 1e-6
    exact = scale**2 * (np.log(1e3) + 0.5 * np.log1p((cables.FAR / scale) ** 2))
    assert abs(cables.loss(far) / exact - 1) < 1e-6


def test_trivial_predictors_are_exact_for_what_they_assume():
    shares = np.array([0.0, 0.04, 0.2, 0.5, 0.7, 0.95, 1.0])[:, None]
    first, last = np.array([0.0, 0.1, 0.2]), np.array([0.9, -0.2, 0.4])
    x = first + shares * (last - first) + np.arange(20)[:, None, None] * np.array([0.01, -0.02, 0.005])
    recording = Recording("eval_1", x)
    assert np.abs(straight(recording, 20) - recording.free).max() < 1e-15
    quiet = Recording("eval_2", np.repeat(x[:1], 20, 0))
    assert np.abs(still(quiet, 15) - quiet.free[:13]).max() == 0
    assert np.abs(still(recording, 20) - recording.free).max() > 0.1


@pytest.fixture
def folder(tmp_path, monkeypatch, swings):
    """Recordings of three cables of one law."""
    (tmp_path / "cables").mkdir()
    names = ("train_1", "train_2", "eval_3")
    for cable in (1, 2, 3):
        recordings = {name: film.x for name, film in zip(names, swings, strict=True)}
        np.savez(tmp_path / "cables" / f"cable{cable}.npz", **recordings)
    monkeypatch.setenv("GRADSIM_REAL_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.slow  # three fits
def test_figures_are_errors_of_what_was_predicted(folder):
    halves = [cable_row.fit_half((1, half, True)) for half in (0, 1)]
    record = cable_row.fit_cable((1, halves, True))
    law = record["law"]
    crossed = [error for half in halves for error in half["errors_mm"][law].values()]
    assert list(record["crossed_error_mm"].values()) == pytest.approx(crossed)
    assert record["laws"]["crossed_error_mm"][law] == min(record["laws"]["crossed_error_mm"].values())
    assert list(record["numbers"]) == list(cables.LAWS[law])
    assert record["training"] == ["train_1", "train_2"]
    assert record["error_mm"] < 0.2 * record["still_mm"]
    off = [np.abs(p - r.free[:98][::5]) for p, r in zip(record["predictions"], load(1)["eval"], strict=True)]
    assert [1e3 * y.mean() for y in off] == pytest.approx(list(record["run_error_mm"].values()), rel=0.2)  # every fifth
    assert np.mean(np.array(off) <= 1e-3 * record["band_mm"]) == pytest.approx(record["coverage"], abs=0.05)
    assert np.mean(list(record["run_error_mm"].values())) == pytest.approx(record["error_mm"])
    assert np.mean(record["axis_error_mm"]) == pytest.approx(record["error_mm"])


@pytest.mark.slow  # draws three plots
def test_the_league_runs_from_recordings_to_figures(folder, tmp_path):
    result = reality(tmp_path / "out", quick=True)
    figures = result["figures"]
    worst = max(figures[f"cable{k}_error_mm"]["value"] for k in (1, 2, 3))
    assert figures["cable_error_mm"]["value"] == worst == result["rows"][0]["error_mm"]  # all three are one cable
    written = json.loads((tmp_path / "out" / "result.json").read_text())
    assert written["figures"] == figures
    assert all((tmp_path / "out" / image["file"]).is_file() for image in written["images"])


def test_recordings_that_cannot_be_read_are_refused(folder):
    np.savez(folder / "cables" / "cable1.npz", train_1=np.zeros((20, 7, 2)))
    with pytest.raises(InputError, match=r"`train_1` of .*cable1.npz has shape \(20, 7, 2\)"):
        load(1)
    (folder / "cables" / "cable2.npz").unlink()
    with pytest.raises(InputError, match="cable2.npz does not exist; set GRADSIM_REAL_DATA"):
        load(2)
