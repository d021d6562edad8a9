"""Error bars of masks whose outlines are off, on a ball that other code moves and draws."""

import math

import numpy as np
import pytest
import torch
from wavy_ball import ANGLES, DISTANCE, FOCAL, NAMES, centres, masks, scene, waves

import gradsim as gs
from gradsim.errors import InputError, Status
from gradsim.identification import verdict
from gradsim.identification.observation.base import Masks
from gradsim.identification.priors import Prior
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.solvers.de_mcmc import Samples
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.multistart import Outcome
from gradsim.identification.synthetic import float_masks
from gradsim.identification.uncertainty import outline
from gradsim.identification.uncertainty.outline import (
    MEMORY,
    OutlineErrors,
    fit_outline,
    outline_length,
    with_outline_scale,
)
from gradsim.identification.uncertainty.outline_sums import HARMONICS, _Frame, _without_blur, sums_by_frame
from gradsim.identification.unknowns import Space
from gradsim.numerics.memory import Memory
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes

TRUTH = (1.0, 4.0, -9.81)
WAVY, WIDE = 0.3, 0.3  # px


def fitted(seed: int, drag: float = 0.0, truth=TRUTH, frames: int = 24) -> gs.Fit:
    rng = np.random.default_rng([17, seed])
    displacement = WIDE + WAVY * waves(frames, 5.0, 0.5, rng)
    seen = masks(centres(frames, truth, drag), displacement)
    return gs.identify(scene(frames), NAMES, observation=seen, starts=2, seed=seed)


def test_harmonics_of_the_displacement_are_measured():
    """Slope of each against the truth; pixels of an outline that is off by a third of a pixel tell them to some 10 %."""
    rng, frames = np.random.default_rng(1), 12
    displacement = WAVY * waves(frames, 5.0, 0.5, rng)
    space = Space(scene(frames), NAMES)
    problem = Problem(model_for(scene(frames), space), masks(centres(frames, TRUTH), displacement), space)
    measured = sums_by_frame(problem, space.inner(torch.tensor([TRUTH]).double())[0]).modes.numpy()
    angle = 2 * np.pi * np.arange(ANGLES) / ANGLES
    for k in range(1, HARMONICS - 1):
        for column, wave, sign in ((2 * k - 2, np.cos, 1), (2 * k - 1, np.sin, -1)):  # up is negative in the image
            true = 2 * sign * (displacement * wave(k * angle)).mean(1)
            assert measured[:, column] @ true / (true @ true) == pytest.approx(1, abs=0.15)
    mean = displacement.mean(1)
    assert np.abs(measured[:, -1] - mean).max() < 0.15


def test_the_length_of_an_outline_is_that_of_its_circle():
    """Of a mesh whose outline is a little shorter, wherever it is in its pixels."""
    data = masks(centres(3, TRUTH), np.zeros((3, ANGLES)))
    with torch.no_grad():
        trajectory = model_for(scene(3), Space(scene(3), NAMES)).rollout()
    length, radius = outline_length(trajectory, data), math.sqrt(data.masks[0].sum().item() / math.pi)
    assert length.sum((1, 2)).numpy() == pytest.approx(2 * math.pi * radius, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("wide", [0.0, 0.3])
def test_a_fat_mask_and_a_large_ball_cannot_be_told_apart(wide):
    """The outline's profile says nothing: priors share the width, 2 % of the size or 0.25 px, of a radius of 14 px."""
    displacement = wide + 0.15 * waves(14, 5.0, 0.5, np.random.default_rng([17, 2]))
    seen = masks(centres(14, TRUTH), displacement)
    fit = gs.identify(scene(14), NAMES, observation=seen, starts=1, priors="ball.scale=1±0.02", known_numbers=False)
    scale, radius = fit.unknowns["ball.scale"], FOCAL * 0.4 / DISTANCE
    apart = math.hypot(1 / 0.02, radius / 0.25)
    assert scale.std == pytest.approx(1 / apart, rel=0.1)
    assert abs(scale.value - 1) < 2 * scale.std and fit.outline["offset_std"] > 0.15


@pytest.mark.slow
def test_a_wavy_outline_gives_error_bars_that_hold_and_its_width():
    """With the noise of a pixel, 1/255, the same masks are a mismatch, dozens of stated standard deviations off."""
    fit = fitted(0)
    assert fit.status == Status.OK
    for name, true in zip(fit.unknowns, TRUTH, strict=True):
        e = fit.unknowns[name]
        assert abs(e.value - true) < 4 * e.std and e.std < 0.02 * abs(true)
    outline = fit.result()["outline"]
    assert outline["offset"] == pytest.approx(WIDE, abs=0.15) and outline["size"] == pytest.approx(WAVY, abs=0.1)
    assert fit.residual_diagnostics is not None and np.nanmean(fit.residual_diagnostics.chi2_per_n) == pytest.approx(
        1, abs=0.1
    )
    assert outline["explained"] and f"{outline['size']:.2g} px" in outline["words"]
    assert outline["causes"] == []


@pytest.mark.slow
def test_a_shift_that_all_frames_share_is_within_the_error_bars():
    """Of a tenth of a pixel, as by the place of a codec's colors. The start is known, so that the speed absorbs it."""
    waves_of = 0.02 * waves(24, 5.0, 0.5, np.random.default_rng([17, 0]))
    seen = masks(centres(24, TRUTH) + [0.1 * DISTANCE / FOCAL, 0.0], waves_of)
    fit = gs.identify(scene(24), NAMES, observation=seen, starts=2, seed=0)
    assert fit.status == Status.OK
    for name, true in zip(fit.unknowns, TRUTH, strict=True):
        e = fit.unknowns[name]
        assert abs(e.value - true) < 2 * e.std and e.std < 0.02 * abs(true)


@pytest.mark.slow
def test_a_shared_shift_that_shifts_of_frames_rule_out_is_in_no_error_bar():
    """Of outlines off by 0.02 px: one of 0.03 px in all frames would move the speed by 0.002 m/s."""
    errors = 0.02 * waves(24, 5.0, 0.5, np.random.default_rng([17, 1]))
    fit = gs.identify(scene(24), NAMES, observation=masks(centres(24, TRUTH), errors), starts=2, seed=0)
    for e, true in zip(fit.unknowns.values(), TRUTH, strict=True):
        assert abs(e.value - true) < 3 * e.std
    assert fit.unknowns["ball.velocity.x"].std < 0.0007


@pytest.mark.slow
def test_motion_that_the_model_cannot_make_is_no_noise_of_outlines(monkeypatch):
    """Linear drag of 0.8 per second, which the scene lacks, bends the path by some pixels. Which cause that has, others ask."""
    monkeypatch.setattr(verdict, "likely_causes", lambda *_: [])
    fit = fitted(0, drag=0.8)
    assert fit.status == Status.MISMATCH
    assert not fit.outline["explained"] and "does not move like the video" in fit.outline["words"]
    assert fit.residual_diagnostics is not None and fit.residual_diagnostics.words == fit.outline["words"]


@pytest.mark.slow
def test_a_body_of_the_wrong_size_is_no_wide_mask():
    seen = masks(centres(16, TRUTH), np.full((16, ANGLES), 1.6))
    fit = gs.identify(scene(16), NAMES, observation=seen, starts=2)
    assert fit.status == Status.APPROXIMATE and "size, distance" in fit.outline["words"]
    assert fit.outline["causes"][0]["name"] in ("ball.scale", "camera.focal", "camera.translation.z")
    for e, true in zip(fit.unknowns.values(), TRUTH, strict=True):
        assert e.interval95[0] < true < e.interval95[1]


def test_what_outlines_cannot_be_estimated_for_is_refused():
    seen = masks(centres(12, TRUTH), np.zeros((12, ANGLES)))
    with pytest.raises(InputError, match="one shot"):
        gs.identify(scene(12), NAMES, observation=seen, shooting=gs.MultipleShooting(window=6))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_intervals_of_wavy_outlines_hold_the_truth():
    """40 films, three unknowns each: 114 of 120 at 95 %, whose standard deviation is 4 where a film's three go together."""
    held, scores = [], []
    for seed in range(40):
        rng = np.random.default_rng([18, seed])
        truth = rng.uniform(0.8, 1.2), rng.uniform(3.6, 4.2), rng.uniform(-11, -9)
        fit = fitted(seed, truth=truth)
        for e, true in zip(fit.unknowns.values(), truth, strict=True):
            held.append(e.interval95[0] <= true <= e.interval95[1])
            scores.append((e.value - true) / e.std)
    assert 0.88 <= np.mean(held) <= 1 and 0.7 < np.sqrt(np.mean(np.square(scores))) < 1.3


def test_error_bars_do_not_depend_on_the_sigma_of_the_masks():
    """σ is a scale: residuals and derivatives are divided by it, and errors of outlines are in pixels."""
    seen = masks(centres(12, TRUTH), WAVY * waves(12, 5.0, 0.5, np.random.default_rng(2)))
    space = Space(scene(12), NAMES)
    model, covariances = model_for(scene(12), space), []
    for sigma in (0.1, 0.01):
        seen = Masks(seen.masks, sigma, seen.silhouettes)
        seen.outline_noise = True
        covariances.append(
            fit_outline(Problem(model, seen, space), space.inner(torch.tensor([TRUTH]).double())[0])[2].covariance
        )
    assert torch.allclose(covariances[0], covariances[1], rtol=1e-6)


def two_balls(frames: int, right: float) -> gs.Scene:
    """The scene with another ball that is as much to the right [m]."""
    one = scene(frames).model_dump(exclude_unset=True)
    ball = one["bodies"]["ball"]
    other = ball | {"position": [ball["position"][0] + right, 0.0, ball["position"][2]]}
    return gs.Scene.parse(one | {"bodies": {"ball": ball, "other": other}})


def test_each_of_several_bodies_has_an_outline_of_its_own():
    """Two wavy balls that are apart: error bars hold, and those of a speed are about those of its ball alone."""
    frames, right, rng = 14, 1.05, np.random.default_rng([17, 3])
    displacements = [0.1 + 0.2 * waves(frames, 5.0, 0.3, rng) for _ in range(2)]
    places = centres(frames, TRUTH)
    first, other = (masks(places + [x, 0.0], d) for x, d in zip((0.0, right), displacements, strict=True))
    both, std = two_balls(frames, right), []
    for a_scene, observed, names in (
        (both, first.masks + other.masks, [*NAMES, "other.velocity.x:0:2", "other.velocity.z:1:5"]),
        (scene(frames), first.masks, list(NAMES)),
    ):
        truth = [*TRUTH, *TRUTH[:2]][: len(names)]
        space = Space(a_scene, names)
        problem = Problem(model_for(a_scene, space), Masks(observed, 0.1, Silhouettes.of(a_scene)), space)
        _, u, errors = fit_outline(problem, space.inner(torch.tensor([truth]).double())[0])
        off, bars = u - space.inner(torch.tensor([truth]).double())[0], errors.covariance.diagonal().sqrt()
        assert errors.explained and errors.offset == pytest.approx(0.1, abs=0.1) and (off.abs() < 3 * bars).all()
        std.append(bars)
    assert 0.6 < std[0][0] / std[1][0] < 1.5 and std[0][2] < std[1][2]


def rising(radius: float) -> tuple[gs.Scene, Masks]:
    """Two balls that rise, one of them of this radius, before a camera with noise."""
    ball, bodies = {"mass": 1.0, "velocity": [0, 0, 2]}, (("a", -0.4, 0.1), ("b", 0.35, radius))
    content = {
        "bodies": {name: ball | {"shape": {"sphere": {"radius": r}}, "position": [x, 0, 1]} for name, x, r in bodies},
        "camera": {"look_at": {"eye": [0, -4, 1], "target": [0, 0, 1], "fov": "40 deg"}, "size": [64, 48]},
        "timing": {"fps": 30, "frames": 10, "substeps": 2},
    }
    scene = gs.Scene.parse(content)
    with torch.no_grad():
        images = float_masks(scene, Model(scene).rollout())
    noise = 0.01 * torch.randn(images.masks.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    observed = Masks(images.masks + noise, 0.01, images.silhouettes)
    observed.outline_noise = True
    return scene, observed


PLACES = ["a.position.x:-1:1", "b.position.x:-1:1"]


def test_balls_that_may_change_places_are_not_identifiable():
    """Silhouettes are the same if they do."""
    scene, observed = rising(0.1)
    fit = gs.identify(scene, PLACES, observation=observed, starts=4, known_numbers=False)
    assert fit.status == Status.UNIDENTIFIABLE
    for e in fit.unknowns.values():
        assert e.interval95[0] < -0.4 and e.interval95[1] > 0.35 and not e.identifiable


@pytest.mark.parametrize("radius", [0.104, 0.112])
def test_a_lower_minimum_is_the_answer_where_outlines_explain_the_answer_and_where_they_do_not(radius):
    """A search that ended with the balls in one another's places, as far as their sizes allow."""
    scene, observed = rising(radius)
    space = Space(scene, PLACES)
    problem = Problem(model_for(scene, space), observed, space)
    ends, _ = descend(problem, Population.at(torch.tensor([[0.35, -0.4], [-0.4, 0.35]]).double()), 10, "pixels", 30)
    problem = with_outline_scale(problem, ends.u[0])
    cost, truth = problem.cost(ends.u, 10).tolist()
    assert truth < cost
    outcome = Outcome.of(problem, ends.u[:1], ends.u[:1], 1)
    problem.effort.rollouts = 2000
    fit = verdict.make_fit(problem, outcome, None, 0, noise_known=True)
    assert [e.value for e in fit.unknowns.values()] == pytest.approx([-0.4, 0.35], abs=0.01)


def test_bodies_before_one_another_have_no_outline_all_round():
    both = two_balls(10, 0.7)
    space = Space(both, NAMES[:2])
    model, silhouettes = model_for(both, space), Silhouettes.of(both)
    with torch.no_grad():
        trajectory = model.rollout()
        seen = Masks(silhouettes.union(trajectory.surface, trajectory.values)[0], 0.1, silhouettes)
    with pytest.raises(InputError, match="before one another"):
        fit_outline(Problem(model, seen, space), space.inner(torch.tensor([[1.0, 4.0]]).double())[0])


@pytest.mark.parametrize(
    ("size", "binning", "explained"), [(1.0, 1, True), (2.0, 1, False), (2.0, 2, True), (3.9, 5, False)]
)
def test_outlines_that_are_far_off_are_those_of_another_motion(size, binning, explained):
    """Far off, harmonics cannot be told apart, and no shift exceeds them. Fitted pixels may be large, and hide less than their size."""
    errors = OutlineErrors(torch.eye(1), 0.1, 0.01, size, 0.5 * size, 1.1, 5.0, 0.5, binning)
    assert errors.explained == explained and ("does not move like the video" in errors.words) == (not explained)


@pytest.mark.parametrize(
    ("offset", "binning", "explained"),
    [(0.4, 1, True), (0.6, 1, False), (-0.1, 1, True), (-0.3, 1, False), (-0.3, 4, True)],
)
def test_masks_are_wide_by_shadows_and_never_narrow(offset, binning, explained):
    errors = OutlineErrors(torch.eye(1), offset, 0.01, 0.2, 0.1, 1.1, 0.0, 0.0, binning)
    assert errors.explained == explained and ("look at size" in errors.words) == (not explained)


@pytest.mark.parametrize(("bending", "memory", "explained"), [(2.5, 9.0, True), (6.0, 1.0, True), (6.0, 9.0, False)])
def test_outlines_that_bend_from_frame_to_frame_are_those_of_another_motion(bending, memory, explained):
    errors = OutlineErrors(torch.eye(1), 0.1, 0.01, 0.3, 0.1, 1.1, 0.0, 0.0, bending=bending, bending_memory=memory)
    assert errors.explained == explained and ("shifted and bent" in errors.words) == (not explained)


def bent_masks(share: float) -> Masks:
    """Masks of a ball whose outline is an ellipse now long, now wide, and wavy besides."""
    rng, angle = np.random.default_rng(5), 2 * np.pi * np.arange(ANGLES) / ANGLES
    wavy = 0.1 * waves(16, 5.0, 0.3, rng)
    return masks(centres(16, TRUTH), wavy + share * np.outer(np.sin(np.arange(16) / 4), np.cos(2 * angle)))


@pytest.mark.slow
def test_only_bodies_that_deform_are_judged_by_how_they_bend():
    """An ellipse that breathes is a wrong motion of a soft ball, and blur or shading of a rigid one."""
    rigid = gs.identify(scene(16), NAMES, observation=bent_masks(0.8), starts=2)
    assert rigid.outline["bending"] == 0 and rigid.outline["bending_memory"] > MEMORY
    assert rigid.status == Status.OK


@pytest.mark.slow
def test_masks_that_are_narrow_everywhere_are_those_of_a_smaller_ball():
    """Of 5 %, which leaves the motion alone: the answer is approximate, and the size is named."""
    fit = gs.identify(scene(16), NAMES, observation=masks(centres(16, TRUTH), np.full((16, ANGLES), -0.5)), starts=2)
    assert fit.status == Status.APPROXIMATE
    scale = next(cause for cause in fit.outline["causes"] if cause["name"] == "ball.scale")
    assert scale["explained"] and -0.06 < scale["change"] < -0.02
    for e, true in zip(fit.unknowns.values(), TRUTH, strict=True):
        assert e.interval95[0] < true < e.interval95[1]


@pytest.mark.slow
@pytest.mark.parametrize(("agreed", "status"), [(True, Status.OK), (False, Status.UNCONVERGED)])
def test_intervals_hold_the_valleys_that_contact_makes(monkeypatch, agreed, status):
    """Two valleys 0.1 m/s apart to each side of the minimum, dozens of error bars of the outlines: those of samples, and wider."""
    explored = []

    def two_valleys(problem, u, information, rng, coarse):
        valley = 0.1 * torch.tensor([[1.0], [-1.0]]).double().repeat(500, 1) * torch.eye(3).double()[0]
        within = torch.linalg.cholesky(torch.linalg.inv(information)) @ torch.tensor(rng.standard_normal((3, 1000)))
        samples = u + valley + within.T
        explored.append(u)
        return Samples(samples, u, problem.cost(u[None], problem.frames).item(), 0.5, agreed), 1.0

    monkeypatch.setattr(verdict, "posterior", two_valleys)
    grounded = gs.Scene.parse(scene(16).model_dump(exclude_unset=True) | {"ground": {"height": -5.0}})
    errors = 0.1 * waves(16, 5.0, 0.5, np.random.default_rng([17, 5]))
    fit = gs.identify(grounded, NAMES, observation=masks(centres(16, TRUTH), errors), starts=2, seed=0)
    assert len(explored) == 1 and fit.status == status
    speed, up = fit.unknowns["ball.velocity.x"], fit.unknowns["ball.velocity.z"]
    assert speed.interval95[0] < 0.91 and speed.interval95[1] > 1.09 and 0.09 < speed.std < 0.12
    assert 0.001 < up.std < 0.05 and up.interval95[0] < 4.0 < up.interval95[1]


@pytest.mark.slow
def test_where_all_starts_come_to_one_minimum_contact_makes_no_valleys(monkeypatch):
    monkeypatch.setattr(verdict, "posterior", lambda *arguments: pytest.fail("sampled"))
    grounded = gs.Scene.parse(scene(12).model_dump(exclude_unset=True) | {"ground": {"height": -5.0}})
    errors = 0.1 * waves(12, 5.0, 0.5, np.random.default_rng([17, 5]))
    fit = gs.identify(grounded, NAMES[:2], observation=masks(centres(12, TRUTH), errors), starts=8, seed=0)
    assert fit.starts["converged"] == 8


def test_a_camera_that_a_prior_holds_does_not_follow_a_shift_of_all_frames():
    """0.15 px up in all frames, as a shadow makes: taken off for the verdict, whether the camera is exact or known to 0.1 mm (0.003 px)."""
    frames, truth, rng = 20, (1.0, 4.0, -9.81), np.random.default_rng([29, 1])
    up = np.array([0.0, 0.15 * DISTANCE / FOCAL])
    seen = masks(centres(frames, truth) + up, 0.2 + 0.05 * waves(frames, 5.0, 0.0, rng))
    held = [Prior.independent(f"camera.translation.{axis}", mean, 1e-4) for axis, mean in (("x", 0.0), ("y", 0.6))]
    values = dict(zip((name.split(":")[0] for name in NAMES), truth, strict=True))
    values |= {prior.names[0]: prior.mean[0] for prior in held}
    errors = []
    for priors in ([], held):
        space = Space(scene(frames), NAMES, priors=priors)
        problem = Problem(model_for(scene(frames), space), seen, space)
        start = space.inner(torch.tensor([values[name] for name in space.names]).double())
        errors.append(fit_outline(problem, start)[2])
    exact, known = errors
    assert exact.explained and known.explained
    # the minima are those of squares and of generalized least squares, which leave a little more of the shift
    assert known.excess == pytest.approx(exact.excess, rel=0.3) and known.shift == pytest.approx(exact.shift, rel=0.15)


def test_a_prior_weighs_against_outlines_and_not_against_pixels():
    """The minimum (K + P)⁻¹ (K û + P m) and covariance (K + P)⁻¹ of two normal distributions; K⁻¹: that of outlines alone.

    σ of pixels, 0.1, takes part in neither.
    """
    frames, rng = 16, np.random.default_rng([17, 2])
    seen = masks(centres(frames, TRUTH), WAVY * waves(frames, 5.0, 0.5, rng))
    alone, mean, sd = Space(scene(frames), NAMES), -9.65, 0.1
    with_prior = Space(scene(frames), NAMES, priors=[Prior.independent("gravity.z", mean, sd)])
    model = model_for(scene(frames), alone)
    start = alone.inner(torch.tensor([TRUTH]).double())[0]
    _, u, errors = fit_outline(Problem(model, seen, alone), start)
    _, both, weighed = fit_outline(Problem(model, seen, with_prior), start)
    K, P = torch.linalg.inv(errors.covariance), torch.diag(torch.tensor([0.0, 0.0, sd**-2]).double())
    expected = torch.linalg.solve(K + P, K @ u + P @ torch.tensor([0.0, 0.0, mean]).double())
    assert (expected - u).abs()[2] > 0.2 * errors.covariance[2, 2].sqrt()  # it does pull
    std = torch.linalg.inv(K + P).diagonal().sqrt()
    assert ((both - expected) / std).abs().max() < 0.2  # errors of outlines are measured at another place
    assert torch.allclose(weighed.covariance.diagonal().sqrt(), std, rtol=0.15)
    assert torch.allclose(weighed.video, K, rtol=0.2, atol=0.05 * K.diagonal().max().item())


def test_a_blur_of_all_edges_is_not_that_of_the_shutter():
    """Gaussian discs: residuals of a disc with a wider edge, (σ² − σ₀²) ∇²/2, are explained, and those of a shift are not.

    The edge is curved, which no diffusion knows: (σ/R)² and as much by the finite step, some 0.05 of the squares.
    """
    y, x = torch.meshgrid(*(torch.arange(40).double(),) * 2, indexing="ij")

    def disc(place, width):
        return torch.special.ndtr((10 - torch.hypot(x - place, y - 19.5)) / width)

    frames, shifts = [], []
    for k in range(8):
        image, place = disc(18 + k / 4, 1.5), 18 + k / 4
        shift = (disc(place + 0.01, 1.5) - disc(place - 0.01, 1.5)) / 0.02
        residual = disc(place, 1.55) - image
        derivatives = torch.stack([residual, shift], -1)  # by an exposure that does the same, and by a place
        slope = torch.stack([shift, torch.zeros_like(shift)], -1)
        frames.append(_Frame(residual, derivatives, slope, image, torch.ones_like(x), torch.ones(1, 40, 40).bool()))
        shifts.append(shift)
    left, blurs = _without_blur(frames)
    before, after = (sum(frame.r.square().sum() for frame in part) for part in (frames, left))
    assert after < 0.1 * before
    assert sum(frame.J[..., 0].square().sum() for frame in left) < 0.1 * before
    for frame, shift in zip(left, shifts, strict=True):
        assert (frame.J[..., 1] - shift).norm() < 0.05 * shift.norm()
    assert torch.linalg.eigvalsh(blurs).min() > -1e-9


def test_error_bars_know_how_long_outlines_stay_off(monkeypatch):
    """A codec leaves them of a body that moves by less than a pixel in a frame. Were the next frame alone looked at, error bars would be too small."""
    frames, rate, truth = 100, 125, Memory(0.3, math.exp(-1 / 40), 0.6)
    rng = np.random.default_rng(18)
    soon, late = (waves(frames, 5.0, kept, rng) for kept in (truth.fast, truth.slow))
    displacement = 0.2 * (math.sqrt(1 - truth.share) * soon + math.sqrt(truth.share) * late)
    slow = scene(frames)
    slow = slow.model_copy(update={"timing": slow.timing.model_copy(update={"fps": rate})})
    space = Space(slow, NAMES)
    problem = Problem(model_for(slow, space), masks(centres(frames, TRUTH, rate=rate), displacement), space)
    problem, u, errors = fit_outline(problem, space.inner(torch.tensor([TRUTH]).double())[0])
    assert 0.3 < errors.lasting_share < 0.9 and 15 < errors.lasting_frames < 100

    def error_bars(memory: Memory | None) -> torch.Tensor:
        monkeypatch.setattr(outline, "lasting_memory", lambda series: memory)
        return fit_outline(problem, u, iterations=0)[2].covariance.diagonal().sqrt()

    ratio = errors.covariance.diagonal().sqrt() / error_bars(truth)
    assert (ratio > 0.7).all() and (ratio < 1.5).all()
    assert (error_bars(None) < 0.7 * error_bars(truth)).all()


def test_outlines_that_are_soon_off_otherwise_have_one_memory():
    displacement = WAVY * waves(40, 5.0, 0.5, np.random.default_rng(19))
    space = Space(scene(40), NAMES)
    problem = Problem(model_for(scene(40), space), masks(centres(40, TRUTH), displacement), space)
    errors = fit_outline(problem, space.inner(torch.tensor([TRUTH]).double())[0])[2]
    assert errors.lasting_share == errors.lasting_frames == 0
