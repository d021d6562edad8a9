"""A trajectory whose step is fine enough is one that half the step does not move."""

import torch
from tolerances import SOLVED, near

import gradsim as gs
from gradsim.physics.convergence import HALVINGS, TOLERANCE, converged
from gradsim.physics.model import Model


def ball(integrator: str, substeps: int | str = "auto") -> Model:
    """A ball that falls freely for half a second."""
    content = {
        "gravity": 10.0,
        "timing": {"fps": 20, "frames": 11, "integrator": integrator, "substeps": substeps},
        "bodies": {"ball": {"shape": {"sphere": {"radius": 0.2}}, "mass": 1, "position": [0, 0, 5]}},
    }
    return Model(gs.Scene.parse(content))


def test_shift_of_a_free_fall_is_that_of_euler():
    """Euler falls g h t / 2 too far, half the step half of that: at t = 0.5 s they differ by g h t / 4."""
    model = ball("semi-implicit", 16)
    judged = converged(model)
    assert judged.model is model
    assert judged.shift == near(10 * model.dt * 0.5 / 4, SOLVED)
    assert judged.relative == near(judged.shift / 0.2, SOLVED)
    assert not judged.converged


def test_automatic_steps_are_halved_as_often_as_allowed():
    model = ball("semi-implicit")
    judged = converged(model)
    assert judged.model.substeps == model.substeps * 2**HALVINGS
    assert torch.equal(judged.trajectory["ball"]["x"], judged.model.rollout()["ball"]["x"])


def test_steps_that_make_no_error_stay():
    model = ball("rk4")
    judged = converged(model)
    assert judged.model is model
    assert judged.relative < TOLERANCE
