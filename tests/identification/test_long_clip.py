"""Windows on a clip that our time steps did not make: a box that tumbles and bounces, by DOP853 between kinks of contact."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

import gradsim as gs
from gradsim.errors import Status
from gradsim.identification.long_clip import WindowsAnswer, verdict
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import parameter_values
from gradsim.identification.solvers.multiple_shooting import ShootingProblem, measured_starts
from gradsim.identification.solvers.multistart import Outcome
from gradsim.identification.solvers.shooting_windows import Windows
from gradsim.identification.synthetic import own_steps
from gradsim.identification.uncertainty.discretization import converge
from gradsim.identification.uncertainty.residual_diagnostics import first_contact
from gradsim.identification.unknowns import Space
from gradsim.numerics import rotation
from gradsim_reproduction.foreign.rigid_trajectory import Body, Ground, trajectory

NAMES = ("ground.friction:0.1:1", "ground.dissipation:0.02:0.5")
TRUTH = {"ground.friction": 0.33, "ground.dissipation": 0.06}
SIZE, TURN = [0.3, 0.24, 0.18], [0.3, 0.2, 0.1]
FRAMES, FPS, WINDOW = 61, 50, 12
SIGMA_X, SIGMA_ANGLE = 5e-4, 5e-3
KAPPA = 1e4


def tumbling(integrator: str, substeps: int | str = "auto") -> gs.Scene:
    """A box dropped from 1 m, spinning."""
    box = {
        "shape": {"box": {"size": SIZE}},
        "mass": 2.0,
        "position": [0, 0, 1.0],
        "rotation_vector": TURN,
        "velocity": [0.5, 0.1, -1.0],
        "angular_velocity": [3, 5, 2],
    }
    ground = {"stiffness": 1e4, "dissipation": 0.1, "friction_stiffness": 40, "friction": 0.4}
    timing = {"fps": FPS, "frames": FRAMES, "integrator": integrator, "substeps": substeps}
    return gs.Scene.parse({"timing": timing, "bodies": {"box": box}, "ground": ground})


@cache
def reference() -> tuple[np.ndarray, np.ndarray]:
    """Places and orientations (x, y, z, w) of the true motion."""
    corners = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T * np.array(SIZE) / 2
    law = Ground(1e4, TRUTH["ground.dissipation"], 40, TRUTH["ground.friction"])
    start = [0, 0, 1.0], Rotation.from_rotvec(TURN).as_matrix(), [0.5, 0.1, -1.0], [3, 5, 2]
    x, R = trajectory(Body.of_hull(corners, 2.0), law, start, np.arange(FRAMES) / FPS)
    return x, Rotation.from_matrix(R).as_quat()


@cache
def recorded() -> gs.States:
    """The true motion with noise."""
    x, q = map(torch.tensor, reference())
    noise = torch.randn(2, FRAMES, 3, generator=torch.Generator().manual_seed(0)).double()
    turned = rotation.multiply(rotation.exponential(SIGMA_ANGLE * noise[1]), q)
    return gs.States("box", x + SIGMA_X * noise[0], turned, SIGMA_X, SIGMA_ANGLE)


@cache
def fitted(integrator: str, substeps: int | str = "auto", examined: bool = True) -> gs.Fit:
    scene = tumbling(integrator, substeps)
    plan = gs.MultipleShooting(window=WINDOW)
    return gs.identify(scene if examined else own_steps(scene), NAMES, observation=recorded(), starts=2, shooting=plan)


def score(fit: gs.Fit) -> list[float]:
    return [(e.value - TRUTH[name]) / e.std for name, e in fit.unknowns.items()]


def true_answer(problem: Problem, motion) -> WindowsAnswer:
    """The windows on a motion of the model with the true numbers."""
    cut = ShootingProblem(problem, WINDOW)
    firsts = [first for first, _ in cut.windows.spans(FRAMES)][1:]
    nodes = torch.stack([cut.windows.end(motion, first) for first in firsts], 1)
    u = problem.space.inner(torch.tensor([list(TRUTH.values())]).double())
    return WindowsAnswer(cut, cut.at(u, nodes, KAPPA, FRAMES), KAPPA)


@pytest.mark.slow
def test_windows_that_are_ok_have_errors_of_the_size_of_their_error_bars():
    """By Euler's steps and without the check they are `ok`, and friction is 3.6 standard deviations off."""
    blind, fit = fitted("semi-implicit", examined=False), fitted("semi-implicit")
    assert blind.status == Status.OK and blind.shooting["answer"] == "windows"
    assert max(map(abs, score(blind))) > 3
    assert blind.discretization is None
    assert fit.status == Status.OK and fit.shooting["answer"] == "windows"
    assert max(map(abs, score(fit))) < 2
    assert fit.discretization.substeps[0] >= 4 * fit.discretization.searched[0]
    assert fit.history[-1]["stage"] == "finer steps"
    assert fit.chi2_per_n < blind.chi2_per_n
    assert fit.shooting["largest_jump"]["velocity"] < 0.5 * blind.shooting["largest_jump"]["velocity"]
    assert fit.result()["discretization"]["words"] == fit.discretization.words


@pytest.mark.slow
def test_stated_steps_stay_and_are_part_of_the_error_bars():
    fit = fitted("semi-implicit", 20)
    steps = fit.discretization
    assert steps.substeps == steps.searched == [20] and not steps.converged
    blind = fitted("semi-implicit", 20, examined=False)
    for name, e in fit.unknowns.items():
        assert abs(steps.shift[name]) > 0.5
        wider = np.hypot(1, steps.shift[name])
        assert e.std == pytest.approx(
            wider * blind.unknowns[name].std, rel=0.1
        )  # of windows that have not quite arrived
    assert "holds at this step" in steps.words


@pytest.mark.slow
def test_default_integrator_needs_no_finer_steps():
    fit = fitted("auto")
    assert fit.status == Status.OK and fit.discretization.converged
    assert fit.discretization.substeps == fit.discretization.searched
    assert max(map(abs, score(fit))) < 2


def test_video_of_the_models_own_steps_keeps_them():
    scene = tumbling("semi-implicit", 20)
    model = gs.Model(scene)
    with torch.no_grad():
        motion = model.rollout(parameter_values(scene, TRUTH))
    own = gs.States("box", motion["box"]["x"][0], motion["box"]["q"][0], SIGMA_X, SIGMA_ANGLE)
    answer, steps = converge(true_answer(Problem(model, own, Space(scene, NAMES)), motion))
    assert steps.video_follows and answer.factor == 1
    assert steps.remainder is None


def test_what_windows_leave_is_examined_frame_by_frame():
    """The model's own motion with noise is white; a swing of three standard deviations within 8 frames is not."""
    scene = tumbling("rk4", 16)
    model = gs.Model(scene)
    with torch.no_grad():
        motion = model.rollout(parameter_values(scene, TRUTH))
    noise = SIGMA_X * torch.randn(FRAMES, 3, generator=torch.Generator().manual_seed(1)).double()
    swing = 3 * SIGMA_X * torch.sin(2 * torch.pi * torch.arange(FRAMES) / 8)[:, None].double()
    found = []
    for x in (noise, noise + swing):
        seen = gs.States("box", motion["box"]["x"][0] + x, motion["box"]["q"][0], SIGMA_X, SIGMA_ANGLE)
        answer = true_answer(Problem(model, seen, Space(scene, NAMES)), motion)
        start = answer.segments.u
        outcome = Outcome(start, start, torch.zeros(1), start[0], 0.0, 1, [])
        found.append(verdict(answer, None, outcome, 0, noise_known=True))
    right, wrong = found
    assert right.status == Status.OK and right.residual_diagnostics.white
    assert right.residual_diagnostics.contact == first_contact(motion)
    assert right.residual_diagnostics.counts[WINDOW:] == [6] * (FRAMES - WINDOW)
    assert wrong.status == Status.MISMATCH and not wrong.residual_diagnostics.white
    assert wrong.residual_diagnostics.scores["time"] > 5 and "Over all frames" in wrong.residual_diagnostics.words


@pytest.mark.slow
def test_the_estimate_of_the_shift_is_that_of_the_minimum_on_half_the_step():
    """To first order: its square is left out, and so is that contact kinks the cost."""
    scene = tumbling("rk4", 16)
    problem = Problem(gs.Model(scene), recorded(), Space(scene, NAMES))
    cut = ShootingProblem(problem, WINDOW)
    u = problem.space.inner(torch.tensor([list(TRUTH.values())]).double())
    nodes = measured_starts(cut, [recorded()])[None]
    here = WindowsAnswer(cut, cut.at(u, nodes, KAPPA, FRAMES), KAPPA).descend().descend()
    same, steps = converge(here)
    moved = here.doubled().descend().u - here.u
    assert same is here and steps.converged
    assert (steps.displacement - moved).norm() < 0.3 * moved.norm()


@pytest.mark.slow
def test_steps_whose_half_cannot_be_simulated_are_no_ok(monkeypatch):
    given = Windows.tangent

    def overflowing(self, u, nodes, frames):
        trajectory, tangent, along = given(self, u, nodes, frames)
        if self.model.substeps > 20:
            states = {body: {key: y * torch.nan for key, y in state.items()} for body, state in tangent.states.items()}
            tangent = replace(tangent, states=states)
        return trajectory, tangent, along

    monkeypatch.setattr(Windows, "tangent", overflowing)
    fit = fitted.__wrapped__("semi-implicit", 20)
    assert fit.shooting["answer"] == "windows"
    assert fit.status == Status.UNIDENTIFIABLE
    assert fit.discretization.diverged and "leave the finite numbers" in fit.discretization.words
