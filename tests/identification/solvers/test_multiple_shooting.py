"""A box that tumbles and bounces for long, cut into windows: derivatives, pushes, and what one shot cannot find."""

from functools import cache

import numpy as np
import pytest
import torch
from checks import error

from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.identification.api import identify
from gradsim.identification.long_clip import MultipleShooting, shoot
from gradsim.identification.observation.base import States
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import parameter_values
from gradsim.identification.solvers.levenberg_marquardt import Population
from gradsim.identification.solvers.levenberg_marquardt import descend as descend_in_one
from gradsim.identification.solvers.multiple_shooting import ShootingProblem, descend, measured_starts
from gradsim.identification.unknowns import Space
from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.scene import Scene

NAMES = ("ground.friction:0.1:1", "ground.dissipation:0.02:0.5")
TRUTH = {"ground.friction": 0.33, "ground.dissipation": 0.06}
SIGMA_X, SIGMA_ANGLE = 1e-3, 1e-2
PUSHES = [
    {"impulse": [0.3, 0.1, 0.5], "point": [0.05, 0.05, 0.02], "at": 0.43},
    {"impulse": [0.1, -0.2, 0.1], "point": [0.0, 0.05, 0.02], "window": [0.1, 0.52]},
    {"force": [0.5, 0.2, 1.0], "window": [0.3, 0.35]},
]


def tumbling(frames: int = 61, pushes=()) -> Scene:
    """A box dropped from 1 m, spinning."""
    box = {
        "shape": {"box": {"size": [0.3, 0.24, 0.18]}},
        "mass": 2.0,
        "position": [0, 0, 1.0],
        "rotation_vector": [0.3, 0.2, 0.1],
        "velocity": [0.5, 0.1, -1.0],
        "angular_velocity": [3, 5, 2],
        "pushes": list(pushes),
    }
    ground = {"stiffness": 1e4, "dissipation": 0.1, "friction_stiffness": 40, "friction": 0.4}
    look = {"eye": [0.4, -3.5, 0.8], "target": [0.4, 0, 0.5], "fov": 0.8}
    timing = {"fps": 50, "frames": frames, "substeps": 20}
    camera = {"size": [24, 24], "look_at": look}
    return Scene.parse({"timing": timing, "bodies": {"box": box}, "ground": ground, "camera": camera})


@cache
def recorded(frames: int = 61, pushes: bool = False):
    """Its problem with noisy states, and the true motion."""
    model = Model(tumbling(frames, PUSHES if pushes else ()))
    with torch.no_grad():
        motion = model.rollout(parameter_values(model.scene, TRUTH))
    x, q = motion["box"]["x"][0], motion["box"]["q"][0]
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(2, frames, 3, generator=generator).double()
    turned = rotation.multiply(rotation.exponential(SIGMA_ANGLE * noise[1]), q)
    seen = States("box", x + SIGMA_X * noise[0], turned, SIGMA_X, SIGMA_ANGLE)
    return Problem(model, seen, Space(model.scene, NAMES)), motion


def truth(problem) -> torch.Tensor:
    return problem.space.inner(torch.tensor([[TRUTH[n] for n in problem.space.names]]).double())


def true_nodes(cut: ShootingProblem, motion) -> torch.Tensor:
    """The states where windows begin (1, windows − 1, 12)."""
    firsts = [first for first, _ in cut.windows.spans(cut.problem.frames)][1:]
    return torch.stack([cut.windows.end(motion, first) for first in firsts], 1)


@pytest.mark.parametrize("pushes", [False, True])
@pytest.mark.parametrize("window", [12, 20, 23])
def test_windows_that_begin_on_the_motion_are_the_motion(window, pushes):
    """Pushes too: each falls into the windows that feel it, at its time. Rounding grows through the contacts."""
    problem, motion = recorded(61, pushes)
    cut = ShootingProblem(problem, window)
    segments = cut.at(truth(problem), true_nodes(cut, motion), 1.0, 61)
    assert segments.gaps.abs().max() < 1e-5
    assert error(segments.data, problem.cost(truth(problem), 61)) < 1e-5


@pytest.mark.parametrize("frames", [20, 41, 61])
def test_derivatives_are_those_of_the_cost(frames):
    problem, motion = recorded(61, True)
    cut, generator = ShootingProblem(problem, 12), torch.Generator().manual_seed(1)
    inner = cut.windows.count(frames) - 1
    nodes = true_nodes(cut, motion)[:, :inner].expand(2, -1, -1)
    normal = lambda like: torch.randn(like.shape, generator=generator).double()
    u = truth(problem).expand(2, -1) + 0.1 * torch.randn(2, 2, generator=generator).double()
    nodes = nodes + 3e-3 * normal(nodes) * cut.windows.scale
    along = 0.1 * normal(u), 1e-2 * normal(nodes) * cut.windows.scale
    _, g = cut.normal(cut.at(u, nodes, 50.0, frames), 50.0, frames)
    slope = 2 * (g * torch.cat([along[0], along[1].flatten(1)], 1)).sum(1)
    h = 1e-6
    ends = [cut.at(u + s * h * along[0], nodes + s * h * along[1], 50.0, frames).cost for s in (1, -1)]
    assert error(slope, (ends[0] - ends[1]) / (2 * h)) < 1e-5


def test_the_matrix_of_the_windows_is_that_of_their_gradient_where_nothing_is_left():
    """Without noise J^T J is half of the second derivative at the truth, so it is the slope of the gradient."""
    problem, motion = recorded()
    clean = Problem(
        problem.model, States("box", motion["box"]["x"][0], motion["box"]["q"][0], 1e-3, 1e-2), problem.space
    )
    cut, generator = ShootingProblem(clean, 20), torch.Generator().manual_seed(2)
    u, nodes = truth(clean), true_nodes(cut, motion)
    A, _ = cut.normal(cut.at(u, nodes, 50.0, 61), 50.0, 61)
    du, dn = torch.randn(1, 2, generator=generator).double(), torch.randn(nodes.shape, generator=generator).double()
    h, dn = 1e-6, 0.1 * dn * cut.windows.scale
    ends = [cut.normal(cut.at(u + s * h * du, nodes + s * h * dn, 50.0, 61), 50.0, 61)[1] for s in (1, -1)]
    assert error((A @ torch.cat([du, dn.flatten(1)], 1)[..., None])[..., 0], (ends[0] - ends[1]) / (2 * h)) < 1e-3


def test_measured_states_begin_windows_near_the_motion():
    """Places as good as the data; speeds from straight lines through three frames, off where a contact falls in."""
    problem, motion = recorded()
    cut = ShootingProblem(problem, 20)
    off = (
        (measured_starts(cut, [problem.observation]) - true_nodes(cut, motion)[0])
        .unflatten(1, (4, 3))
        .abs()
        .amax((0, 2))
    )
    assert off[0] < 5 * SIGMA_X and off[1] < 5 * SIGMA_ANGLE and off[2] < 1 and off[3] < 5


@pytest.mark.slow
def test_windows_find_what_one_shot_from_the_same_starts_does_not():
    problem, _ = recorded()
    rng = np.random.default_rng(0)
    outcome, segments, _ = shoot(problem, MultipleShooting(window=12), 6, rng)
    alone, _ = descend_in_one(problem, Population.at(outcome.initial), 61, "pixels", 60)
    noise = 6 * 61 + 5 * (2 * 6 * 61) ** 0.5  # χ² of the noise, and five of its standard deviations
    assert (outcome.cost < noise).sum() >= 5
    assert (alone.cost < noise).sum() <= 2
    assert error(outcome.best, truth(problem)[0]) < 0.02  # of the logarithms
    assert error(segments.u, truth(problem)) < 0.05 and segments.gaps.abs().max() < 0.1  # before one shot polishes it


@pytest.mark.slow
def test_windows_grow_where_only_silhouettes_are_seen():
    problem, motion = recorded(41)
    seen = synthetic.float_masks(problem.model.scene, motion)
    fit = identify(problem.model.scene, NAMES, observation=seen, starts=4, shooting=MultipleShooting(window=16, grow=6))
    assert fit.status == "ok" and fit.shooting["answer"] == "one shot"
    assert fit.values == pytest.approx(TRUTH, rel=1e-6)
    assert [jump["frame"] for jump in fit.result()["shooting"]["jumps"]] == [16, 32]


def test_a_motion_that_the_model_does_not_make_is_told_by_its_jumps():
    """A blow that the scene does not know changes the speed by 0.4 m/s at frame 30, between two windows' starts."""
    problem, _ = recorded()
    model = Model(tumbling(61, [{"impulse": [0.0, 0.8, 0.0], "at": 0.6}]))
    with torch.no_grad():
        motion = model.rollout(parameter_values(model.scene, TRUTH))
    y = motion["box"]
    struck = Problem(problem.model, States("box", y["x"][0], y["q"][0], SIGMA_X, SIGMA_ANGLE), problem.space)
    cut = ShootingProblem(struck, 10)
    segments = descend(cut, cut.at(truth(struck), true_nodes(cut, motion), 1.0, 61), 1.0, 61, 4)
    sizes = (segments.gaps[0].detach() * cut.windows.scale).unflatten(1, (4, 3)).norm(dim=-1)[:, 2]
    assert sizes.argmax() == 2 and sizes[2] == pytest.approx(0.4, rel=0.2)


@pytest.mark.parametrize("window", [3, 61])
def test_a_window_of_no_use_is_refused(window):
    with pytest.raises(InputError, match=f"window is {window}; it has to be from 4 to 60"):
        ShootingProblem(recorded()[0], window)


def test_a_rope_has_no_windows():
    rope = {"kind": "springs", "shape": {"rope": {"length": 1}}, "mass": 1, "stiffness": 100, "radius": 0.1}
    scene = Scene.parse({"timing": {"frames": 30, "substeps": 80}, "bodies": {"rope": rope}})
    seen = States("rope", torch.zeros(30, 3), None, 1.0)
    with pytest.raises(InputError, match="`rope` is not a rigid body or pendulum"):
        ShootingProblem(Problem(Model(scene), seen, Space(scene, ["rope.mass:0.1:1"])), 10)
