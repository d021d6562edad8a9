"""What a fit leaves: noise passes, however large, and a small misfit among many pixels does not."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy
import torch
from fit_cases import THROW, THROW_TRUTH, recorded, throw, tossed, true_inner

from gradsim.identification.observation.base import Masks, States
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import parameter_values
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.uncertainty import residual_diagnostics as diagnostics
from gradsim.identification.uncertainty.residual_diagnostics import (
    CHANCE_SIGMA,
    MAX_CHI2_PER_N,
    _words,
    chi2_limit,
    first_contact,
    residual_diagnostics,
)
from gradsim.identification.unknowns import Space
from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.scene import Scene

SIGMA = 0.004


@functools.cache
def clean(speed: float, size: int) -> Problem:
    return recorded(throw(size=size), THROW, THROW_TRUTH | {"cube.velocity.x": speed})


def seen(seed: int = 0, noise: float = SIGMA, speed: float = 0.9, size: int = 24) -> tuple[Problem, torch.Tensor]:
    """The thrown box in frames with noise, and the truth that the model would have."""
    model, data = clean(0.9, size), clean(speed, size).observation
    assert isinstance(data, Masks)
    grain = torch.randn(data.masks.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    problem = Problem(model.model, Masks(data.masks + noise * grain, SIGMA, data.silhouettes), model.space)
    return problem, true_inner(problem, THROW_TRUTH)[0]


def stage(frames: int, cost: float) -> dict:
    return {"stage": "curriculum", "frames": frames, "cost": cost}


@pytest.mark.parametrize(("n", "p"), [(1, 5e-3), (40, 5e-5), (1000, 2e-6), (100_000, 1e-300)])
def test_noise_exceeds_the_limit_of_chi2_by_rare_chance(n, p):
    """Σ r² of n standard normal numbers is χ² distributed; its upper tail is the wider, the smaller n."""
    assert scipy.stats.chi2.sf(n * chi2_limit(n), n) < p


def test_residuals_of_any_number_may_be_a_tenth_above_the_noise():
    """1 + 5 √(2/n) is above 1.2 up to n = 2 (5/0.2)² = 1250."""
    assert chi2_limit(1249) > MAX_CHI2_PER_N == chi2_limit(1251) == chi2_limit(math.inf)


def test_scores_of_noise_are_standard_normal():
    """Of 3 scores and 30 draws, all within chance; the mean square of two is 1 ± 4 √(2/30), shift is one-sided."""
    scores = [residual_diagnostics(*seen(seed), []).scores for seed in range(30)]
    assert all(abs(z) < CHANCE_SIGMA for one in scores for z in one.values())
    for name in ("neighbours", "time"):
        square = np.mean([one[name] ** 2 for one in scores])
        assert square == pytest.approx(1, abs=4 * math.sqrt(2 / 30))


def test_noise_that_was_stated_too_low_is_still_white():
    """χ²/N = 9, and the verdict does not blame the model."""
    found = residual_diagnostics(*seen(noise=3 * SIGMA), [])
    times = float(found.words.split("about ")[1].split()[0])
    assert (
        found.white and times == pytest.approx(3, rel=0.1) and "noise" in found.words
    )  # as χ²/N, to its sampling error
    assert np.nanmean(found.chi2_per_n) == pytest.approx(9, rel=0.2)


def test_a_misfit_that_does_not_raise_chi2_is_seen():
    """The speed is off by 0.04 %, 0.004 px at the end of the clip: as much as the noise of a single pixel hides."""
    found = residual_diagnostics(*seen(speed=0.9 * 1.0004, size=96), [])
    chi2 = np.nansum(np.multiply(found.chi2_per_n, found.counts)) / sum(found.counts)
    assert chi2 < 1.2 and not found.white
    assert "not white" in found.words


@pytest.mark.parametrize(("off", "blamed"), [(1.003, "timing.substeps"), (1.03, "look at camera")])
def test_a_misfit_of_a_few_hundredths_of_a_pixel_may_be_the_time_step(off, blamed):
    """The speed is off by 0.3 %, 0.03 px at the end: a wrong camera or scale is seldom so nearly right. Then by 3 %."""
    words = residual_diagnostics(*seen(speed=0.9 * off, size=96), [stage(2, 1e9)]).words
    assert [part for part in ("timing.substeps", "look at camera") if part in words] == [blamed], words


def test_shift_of_the_outline_is_that_of_the_data():
    """Data drawn by a camera whose principal point lies (0.05, −0.03) px off."""
    problem, u = seen(noise=0.0)
    data = problem.observation
    assert isinstance(data, Masks)
    camera = data.silhouettes.camera
    with torch.no_grad():
        trajectory = problem.model.rollout(problem.space.values(u[None]))
        values = dict(trajectory.values) | {"camera.centre": camera.K[:2, 2][None] + torch.tensor([[0.05, -0.03]])}
        moved = data.silhouettes.masks(trajectory.surface, values)[0, :, 0]
    problem.observation = Masks(moved, SIGMA, data.silhouettes)
    found = residual_diagnostics(problem, u, [])
    assert np.allclose(np.nanmean(found.shift, 0), [0.05, -0.03], atol=0.005)  # slopes are central differences


def test_last_explained_stage_of_the_search_is_named():
    problem, u = seen(speed=1.2)
    floor, informative, _ = problem.observation.noise_floor(4)
    history = [stage(4, floor + informative), stage(6, floor + 50 * informative), stage(8, floor + 90 * informative)]
    found = residual_diagnostics(problem, u, history)
    assert found.explained == 4 and found.contact is None
    assert "first 4 frames alone are explained" in found.words and "before anything touches" in found.words


def test_a_push_is_not_a_contact():
    problem, u = seen()
    assert residual_diagnostics(problem, u, []).contact is None


def test_contact_is_found_in_the_velocity():
    """A box that slides on the ground from 1 cm above it: it is there within √(2 · 0.01/9.81) s, in frame 3 at 50 fps."""
    assert first_contact(tossed().rollout()) == 3


def test_what_a_joint_does_is_no_contact():
    """A link that swings from the world, alone and beside a box that lands in frame 3."""
    bar = {"shape": {"box": {"size": [0.1, 0.08, 0.5]}}, "mass": 1.0}
    scene, link = tossed().scene, {**bar, "collision": "none"}
    hinge = {"kind": "revolute", "between": ["world", "link"], "axis": [0, 1, 0], "parent_point": [5.0, 0.0, 2.0]}
    joints = {"hinge": {**hinge, "child_point": [0.0, 0.0, 0.25], "angle": 1.0}}
    content = {"timing": {"fps": 50, "frames": 6, "substeps": 4}, "bodies": {"link": link}, "joints": joints}
    assert first_contact(Model(Scene.parse(content)).rollout()) is None
    content |= {"ground": {"stiffness": 4000}, "timing": {"fps": 50, "frames": 6, "substeps": 20}}
    content["bodies"] = {"link": link, "cube": scene.bodies["cube"].model_dump(exclude_unset=True)}
    assert first_contact(Model(Scene.parse(content)).rollout()) == 3


def test_states_are_tested_in_time():
    model = tossed()
    states = model.rollout()["cube"]
    noise = 1e-3 * torch.randn(states["x"][0].shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    data = States("cube", states["x"][0].detach() + noise, states["q"][0].detach(), 1e-3, 1e-3)
    space = Space(model.scene, ("ground.friction:0.1:0.9",))
    found = residual_diagnostics(Problem(model, data, space), torch.tensor([0.3]).double().log(), [])
    assert set(found.scores) == {"time"} and found.white and found.shift == []
    found = residual_diagnostics(Problem(model, data, space), torch.tensor([0.5]).double().log(), [])
    assert not found.white


def landed(law: str, push: float = 0.0) -> tuple[Problem, torch.Tensor]:
    """Poses with noise of a box that lands in frame 3 on a ground of some law, with a start speed off by `push` [m/s].

    The problem has our default law, the unknown is its friction.
    """
    content = tossed().scene.model_dump(exclude_unset=True)
    ours = Model(Scene.parse(content))
    content["bodies"]["cube"]["velocity"] = [1.5 + push, 0, 0]
    if law == "paper":
        content["grounds"] = {
            "ground": {"law": law, "stiffness": 4000, "damping": 20, "friction_stiffness": 40, "friction": 0.3}
        }
    states = Model(Scene.parse(content)).rollout()["cube"]
    noise = 1e-4 * torch.randn(2, 12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    turned = rotation.multiply(rotation.exponential(noise[1]), states["q"][0].detach())
    data = States("cube", states["x"][0].detach() + noise[0], turned, 1e-4, 1e-4)
    problem = Problem(ours, data, Space(ours.scene, ("ground.friction:0.1:0.9",)))
    people, _ = descend(problem, Population.at(torch.tensor([[0.3]]).double().log()), 12, "pixels", 20)
    return problem, people.u[0]


def test_a_toss_that_is_explained_until_it_lands_may_have_another_contact_law():
    found = residual_diagnostics(*landed("paper"), [])
    assert found.contact == 3
    assert "contact of another law" in found.words and "frames before 3" in found.words
    assert "Up to the first contact, just before frame 3, χ²/N is" in found.words


def test_louder_noise_is_not_another_contact_law():
    problem, u = landed("continuous")
    data = problem.observation
    problem.observation = States("cube", data.x, data.q, data.sigma_x / 3, data.sigma_angle / 3)
    words = residual_diagnostics(problem, u, []).words
    assert "noise is probably" in words and "another law" not in words


@pytest.mark.parametrize(("law", "push"), [("continuous", 0.0), ("continuous", 0.05), ("paper", 0.05)])
def test_a_flight_that_is_not_explained_does_not_blame_the_contact(law, push):
    """Nor does a landing that is."""
    assert "another law" not in residual_diagnostics(*landed(law, push), []).words


def test_a_stage_of_the_search_that_ends_with_the_flight_shows_it_too():
    """A fit of all frames leaves residuals in the flight as well: here its speed is off by as much as the noise and more."""
    left = residual_diagnostics(*landed("paper", 0.05), [])
    found = _words(replace(left, explained=3, white=False), 100.0, (100.0, 18))
    assert "first 3 frames alone are explained" in found and "contact of another law" in found


@pytest.mark.parametrize("frames, size", [(12, 0.005), (30, 0.03)])
def test_few_or_wild_residuals_do_not_tell_loud_noise_from_a_wrong_model(frames, size):
    """A centre in flight wags by 5 or 30 σ, which the model lacks, and so fast that frames do not resemble the next."""
    scene = throw(frames=30)
    with torch.no_grad():
        x = Model(scene).rollout(parameter_values(scene, THROW_TRUTH))["cube"]["x"][0][:frames]
    wag = size * torch.sin(torch.pi / 2 * torch.arange(frames).double() + 0.6)[:, None]
    problem = Problem(Model(scene), States("cube", x + wag, None, 1e-3), Space(scene, THROW))
    found = residual_diagnostics(problem, true_inner(problem, THROW_TRUTH)[0], [])
    assert found.white and "or the model is wrong" in found.words and "model right" not in found.words


@pytest.mark.parametrize("numbers", [1, 2**20])
def test_correlations_are_the_same_however_many_frames_are_looked_at_together(monkeypatch, numbers):
    monkeypatch.setattr(diagnostics, "FEW_NUMBERS", numbers)
    r = torch.randn(5, 6, 7, generator=torch.Generator().manual_seed(0)).double()
    valid = r.abs() < 1.2
    total = pairs = 0.0
    for k, row, column in np.ndindex(5, 6, 7):
        for down, right in ((0, 1), (1, 0), (1, -1)):
            i, j = row + down, column + right
            if i < 6 and 0 <= j < 7 and valid[k, row, column] and valid[k, i, j]:
                total, pairs = total + (r[k, row, column] * r[k, i, j]).item(), pairs + 1
    steps = [(0, 0, 1), (0, 1, 0), (0, 1, -1)]
    score = diagnostics._correlation(r, valid, steps)
    assert score == pytest.approx(total / math.sqrt(pairs), rel=1e-12)


@pytest.mark.parametrize("shutter", [{"readout": 0.02}, {"exposure": 0.02}])
def test_residuals_of_a_camera_with_a_shutter_are_examined(shutter):
    """Its images are those of instants between frames, too, of one world as the frames."""
    content = throw().model_dump(exclude_unset=True)
    problem = recorded(Scene.parse(content | {"camera": content["camera"] | shutter}), THROW, THROW_TRUTH)
    left = residual_diagnostics(problem, true_inner(problem, THROW_TRUTH)[0], [])
    assert left is not None and torch.tensor(left.chi2_per_n).nan_to_num(0).max() < 1e-6
