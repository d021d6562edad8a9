"""From made-up frames to values with error bars, from starts over the whole range."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from fit_cases import SWING, SWING_TRUTH, THROW, THROW_TRUTH, recorded, swing, throw, tossed

from gradsim.errors import InputError
from gradsim.identification import MultistartConfig, States, Unknown, identify, least_squares, synthetic
from gradsim.identification.observation.base import Masks
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.unknowns import Space
from gradsim.scene import Scene

CUBE = ("cube.mass:2:12", "ground.friction:0.2:1")
RARE = (
    "scipy.sparse",
    "trimesh",
    "networkx",
    "gradsim.control",
    "gradsim.identification.fields",
    "scipy.stats",
    "scipy.interpolate",
    "scipy.optimize",
    "scipy.spatial",
    "scipy.ndimage",
    "torch._dynamo",
    "matplotlib",
)
TOSS = ("ground.friction:0.1:0.9", "ground.stiffness:2e3:2e4", "cube.velocity.x:0.5:2.5")


def fitted(scene, unknowns, truth, starts=4, **options):
    problem = recorded(scene, unknowns, truth)
    plan = MultistartConfig(starts=starts)
    return least_squares(scene, problem.observation, unknowns, plan, model=problem.model, **options).against(truth)


def test_string_and_angle_of_a_pendulum_are_found_from_float_frames():
    fit = fitted(swing(), SWING, SWING_TRUTH)
    assert fit.status == "ok" and fit.rank == 2 and fit.starts["converged"] >= 1
    assert synthetic.worst_relative_error(fit) < 1e-6


def test_mass_and_friction_of_the_cube_of_the_library_are_found_from_float_frames():
    scene = Scene.library("cube")
    truth = synthetic.draw_truth(scene, CUBE, seed=1)
    fit = fitted(scene, CUBE, truth)
    assert fit.status == "ok"
    assert synthetic.worst_relative_error(fit) < 1e-6


def test_the_truth_of_the_scene_is_not_used():
    """The scene's own values of the unknowns do not matter: only their ranges do."""
    values = []
    for mass in (1.5, 6.0):
        scene = throw(mass=mass)
        observation = recorded(throw(), THROW, THROW_TRUTH).observation
        values.append(least_squares(scene, observation, THROW, MultistartConfig(starts=2)).values)
    assert values[0] == values[1]


def test_the_same_seed_gives_the_same_fit():
    one, two = (fitted(throw(), THROW, THROW_TRUTH, starts=2, seed=5) for _ in range(2))
    assert one.values == two.values and one.rollouts == two.rollouts


def test_states_give_friction_stiffness_and_speed():
    """A box slides: positions and orientations with the nominal noise of motion capture."""
    model = tossed()
    states = model.rollout()["cube"]
    observation = States("cube", states["x"][0].detach(), states["q"][0].detach(), 1e-4, 1e-3)
    fit = least_squares(model.scene, observation, TOSS, MultistartConfig(starts=4), model=model)
    assert fit.status == "ok"
    found, truth = fit.values, {"ground.friction": 0.3, "ground.stiffness": 4000, "cube.velocity.x": 1.5}
    assert all(found[name] == pytest.approx(truth[name], rel=1e-6) for name in truth)


def noisy(seed: int, sigma: float = 0.02) -> tuple[Scene, Masks]:
    problem = recorded(throw(), THROW, THROW_TRUTH)
    assert isinstance(problem.observation, Masks)
    clean = problem.observation
    generator = torch.Generator().manual_seed(seed)
    noise = sigma * torch.randn(clean.masks.shape, generator=generator, dtype=torch.float64)
    return throw(), Masks(clean.masks + noise, sigma, clean.silhouettes)


def test_errors_are_of_the_size_of_their_bars():
    """z = error/bar over 4 draws and 2 unknowns: its mean square is χ²/8, within 0.1 and 3.3 in 99.8 % of cases."""
    squares, chi2 = [], []
    for seed in range(4):
        scene, observation = noisy(seed)
        fit = least_squares(scene, observation, THROW, MultistartConfig(starts=2), seed).against(THROW_TRUTH)
        assert fit.status == "ok"
        squares += [e.z**2 for e in fit.unknowns.values() if e.z is not None]
        chi2.append(fit.chi2_per_n)
    assert 0.1 < np.mean(squares) < 3.3
    assert np.mean(chi2) == pytest.approx(1, abs=0.1)


def test_noise_that_is_not_known_is_taken_from_the_residuals():
    scene, observation = noisy(0)
    known = least_squares(scene, observation, THROW, MultistartConfig(starts=2))
    observation = Masks(observation.masks, 0.1, observation.silhouettes)  # the bars must not depend on this
    free = least_squares(scene, observation, THROW, MultistartConfig(starts=2), noise_known=False)
    assert free.sigma_reference == pytest.approx(0.02, rel=0.2)
    for name, e in known.unknowns.items():
        assert free.unknowns[name].std == pytest.approx(e.std, rel=0.2)


def test_a_model_that_does_not_explain_the_frames_is_a_mismatch():
    observation = recorded(throw(), THROW, THROW_TRUTH).observation
    assert isinstance(observation, Masks)
    wrong = Masks(observation.masks.flip(-1).flip(0), 1 / 255, observation.silhouettes)
    fit = least_squares(throw(), wrong, THROW, MultistartConfig(starts=2, curriculum=False))
    assert fit.status == "mismatch" and fit.chi2_per_n > 1.2


def test_mass_without_a_known_force_is_declared_unidentifiable():
    names = ("cube.mass:1:8", "cube.velocity.x:-1:3")
    fit = fitted(throw(pushes=[]), names, THROW_TRUTH)
    assert fit.status == "unidentifiable" and fit.rank == 1
    assert not fit.unknowns["cube.mass"].identifiable and fit.unknowns["cube.velocity.x"].identifiable
    (direction,) = fit.null_directions
    assert abs(direction.combination["cube.mass"]) == pytest.approx(1)
    assert "known impulse" in direction.explanation
    assert fit.unknowns["cube.velocity.x"].value == pytest.approx(0.9, rel=1e-6)


def test_a_prior_fixes_what_the_frames_leave_open():
    names = [Unknown("cube.mass", 1, 8, prior=(math.log(3.0), 0.02)), "cube.velocity.x:-1:3"]
    problem = recorded(throw(pushes=[]), THROW, THROW_TRUTH)
    fit = least_squares(throw(pushes=[]), problem.observation, names, MultistartConfig(starts=2))
    assert fit.unknowns["cube.mass"].value == pytest.approx(3.0, rel=1e-5)
    assert fit.unknowns["cube.mass"].std == pytest.approx(0.06, rel=1e-3)


def test_the_model_suits_every_corner_of_the_ranges():
    scene = Scene.library("cube")
    space = Space(scene, ["cube.mass:0.5:12", "ground.stiffness:2e4:2e6"])
    stiff = {"cube.mass": torch.tensor([0.5]).double(), "ground.stiffness": torch.tensor([2e6]).double()}
    model = model_for(scene, space)
    model.check(model.values(stiff))
    assert model.substeps > model_for(scene, Space(scene, ["cube.mass:2:12"])).substeps


def test_a_video_or_an_observation_has_to_be_given_and_not_both(tmp_path):
    with pytest.raises(InputError, match="exactly one"):
        identify(throw(), THROW)
    with pytest.raises(InputError, match="exactly one"):
        identify(throw(), THROW, tmp_path / "x.webm", observation=noisy(0)[1])


def test_components_are_placed_in_their_vector():
    values = parameter_values(throw(velocity=[1.0, 2.0, 3.0]), {"cube.velocity.y": 7.0, "cube.mass": 2.5})
    assert values["cube.velocity"].tolist() == [[1.0, 7.0, 3.0]] and values["cube.mass"].tolist() == [2.5]


def test_a_fit_has_one_thread_of_pytorch_and_leaves_their_number_as_it_was():
    before = torch.get_num_threads()
    threads = []
    torch.set_num_threads(2)
    try:
        scene = Scene.library("pendulum")
        report = lambda entry: threads.append(torch.get_num_threads())
        fitted(scene, ["bob.string_length:0.4:0.8"], {"bob.string_length": 0.55}, starts=2, report=report)
        after = torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
    assert set(threads) == {1}
    assert after == 2


def test_fits_do_not_wait_for_packages_that_few_of_them_need():
    """They are read where they are used; together they take as long as PyTorch."""
    code = f"""
import sys
from gradsim.identification import least_squares
print([m for m in {RARE} if m in sys.modules])
import gradsim.app.commands.demo, gradsim.app.report.report
from gradsim.render.optics import undistort
import torch
undistort(torch.ones(1, 2), torch.zeros(5))
print([m for m in {RARE} if m in sys.modules])
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n['matplotlib']\n"
