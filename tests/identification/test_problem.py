"""Cost, gradient and Jacobian of a fit, against finite differences and each other."""

import pytest
import torch
from checks import central_difference
from fit_cases import SWING_TRUTH, THROW, THROW_TRUTH, recorded, swinging, throw, thrown, tossed, true_inner

from gradsim.identification.observation.base import States
from gradsim.identification.problem import Problem
from gradsim.identification.uncertainty.fisher import secant_fisher
from gradsim.identification.unknowns import Space, Unknown

CASES = {"ball": swinging, "box": thrown}


def near_truth(problem: Problem, worlds: int = 2) -> torch.Tensor:
    """Generic places in the middle half of the ranges."""
    generator = torch.Generator().manual_seed(0)
    share = 0.25 + 0.5 * torch.rand(worlds, len(problem.space), generator=generator, dtype=torch.float64)
    return problem.space.low + share * (problem.space.high - problem.space.low)


@pytest.mark.parametrize("residual", ["pixels", "cdf"])
@pytest.mark.parametrize("case", CASES)
def test_jacobian_matches_central_differences(case, residual):
    """Silhouettes bend where a vertex crosses the edge of a pixel, so a step of 1e-6 and not the 1e-7 of a rollout."""
    problem = CASES[case]()
    u = near_truth(problem)
    frames = problem.frames

    def residuals(u):
        trajectory = problem.model.rollout_unchecked(problem.model.values(problem.space.values(u)), frames)
        return [torch.cat(list(problem.observation.residuals(trajectory, frames, residual)), 1)]

    (r, J) = (torch.cat(part, 1) for part in zip(*problem.jacobian(u, frames, residual), strict=True))
    assert torch.allclose(r, residuals(u)[0], rtol=1e-10, atol=1e-9)
    for k in range(len(problem.space)):
        along = torch.zeros_like(u)
        along[:, k] = 1
        (secant,) = central_difference(residuals, [u], [along], 1e-6)
        assert (J[..., k] - secant).abs().max() < 1e-5 * J[..., k].abs().max()


@pytest.mark.parametrize("residual", ["pixels", "cdf"])
@pytest.mark.parametrize("case", CASES)
def test_normal_equations_are_those_of_the_jacobian(case, residual):
    problem = CASES[case]()
    u = near_truth(problem)
    cost, A, g = problem.linearize(u, problem.frames, residual)
    (r, J) = (torch.cat(part, 1) for part in zip(*problem.jacobian(u, problem.frames, residual), strict=True))
    assert torch.allclose(cost, r.square().sum(1), rtol=1e-10)
    assert torch.allclose(A, J.mT @ J, rtol=1e-9, atol=1e-9 * A.abs().max().item())
    assert torch.allclose(g, (J.mT @ r[..., None])[..., 0], rtol=1e-9, atol=1e-9 * g.abs().max().item())
    assert torch.allclose(cost, problem.cost(u, problem.frames, residual), rtol=1e-10)


def test_cost_is_zero_at_the_truth():
    """Up to the rounding of exp(log truth): 255² times the square of some 1e-15, for every pixel."""
    for problem, truth in ((swinging(), SWING_TRUTH), (thrown(), THROW_TRUTH)):
        assert problem.cost(true_inner(problem, truth), problem.frames).item() < 1e-18


def test_a_prior_adds_its_square():
    scene = throw()
    problem = recorded(scene, THROW, THROW_TRUTH)
    prior = Problem(problem.model, problem.observation, Space(scene, [Unknown("cube.mass", 1, 8, (1.0, 0.1))]))
    plain = Problem(problem.model, problem.observation, Space(scene, ["cube.mass:1:8"]))
    u = torch.tensor([[1.3]]).double()
    for own, bare, added in zip(prior.linearize(u, 4), plain.linearize(u, 4), (9.0, 100.0, 30.0), strict=True):
        assert (own - bare).item() == pytest.approx(added, rel=1e-4)


def test_a_rollout_that_diverges_costs_infinity_and_no_error():
    model = tossed()
    states = model.rollout()["cube"]
    observation = States("cube", states["x"][0].detach(), states["q"][0].detach(), 1e-3)
    problem = Problem(model, observation, Space(model.scene, ["ground.stiffness:1e3:1e308"]))
    cost = problem.cost(torch.tensor([[8.3], [700.0]]).double(), 12)
    assert torch.isfinite(cost[0]) and torch.isinf(cost[1])


def test_rollouts_are_counted():
    problem = thrown()
    u = near_truth(problem, 3)
    problem.cost(u, 4)
    problem.linearize(u, 4)
    assert problem.effort.rollouts == 3 + 3 * 2


def test_an_evaluation_at_one_point_is_made_once():
    problem = thrown()
    u = true_inner(problem, THROW_TRUTH)
    first, rollouts = problem.linearize(u, problem.frames), problem.effort.rollouts
    again = problem.linearize(u.clone(), problem.frames)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    list(problem.jacobian(u, problem.frames))
    assert problem.cost(u, problem.frames) == first[0] and problem.effort.rollouts == rollouts
    again[1].zero_()  # what a caller gets is its own
    assert torch.equal(problem.linearize(u, problem.frames)[1], first[1])


def test_secants_at_one_point_are_taken_once():
    problem = thrown()
    u = near_truth(problem, 1)
    _, A, _ = problem.linearize(u, problem.frames)
    first, rollouts = secant_fisher(problem, u[0], A[0]), problem.effort.rollouts
    again = secant_fisher(problem, u[0], A[0] * (1 + 1e-12))
    assert problem.effort.rollouts == rollouts and torch.equal(first[0], again[0]) and first[1] == again[1]
    secant_fisher(problem, u[0], 1.1 * A[0])
    assert problem.effort.rollouts > rollouts
    rollouts = problem.effort.rollouts
    secant_fisher(problem, u[0] + 1e-6, A[0])
    assert problem.effort.rollouts > rollouts


def test_an_evaluation_of_another_problem_is_not_taken_for_it():
    """Of other frames, places, residuals, data, steps, unknowns, or numbers of the model."""
    problem = thrown()
    u = true_inner(problem, THROW_TRUTH) + 0.01
    cost = problem.linearize(u, problem.frames)[0]

    def is_made(other: Problem, u=u, frames=problem.frames, residual="pixels") -> bool:
        before = problem.effort.rollouts
        assert torch.isfinite(other.linearize(u, frames, residual)[0])
        return problem.effort.rollouts > before

    assert is_made(problem, u + 1e-12) and is_made(problem, frames=4)
    assert problem.linearize(u, problem.frames, "cdf")[0] != cost  # of the same rollout
    assert is_made(problem.with_finer_steps(2)) and is_made(problem.first_frames(6), frames=6)
    assert is_made(
        problem.with_unknowns([Unknown("gravity.z", at=-9.81, logarithmic=False)]),
        torch.cat([u, -9.81 * torch.ones(1, 1).double()], 1),
    )
    assert not is_made(problem)
    with torch.no_grad():
        problem.model.get_parameter("gravity")[2] += 0.1
    assert is_made(problem) and problem.linearize(u, problem.frames)[0] != cost
    problem.effort.evaluations.clear()
    assert is_made(problem)


def test_a_trajectory_at_one_point_is_that_of_a_rollout():
    problem = thrown()
    u = true_inner(problem, THROW_TRUTH)
    plain = problem.model.rollout_unchecked(problem.model.values(problem.space.values(u)), problem.frames)
    trajectory = problem.trajectory(u[0])
    assert torch.equal(trajectory.times, plain.times)
    for key, y in plain["cube"].items():
        assert torch.allclose(trajectory["cube"][key], y, rtol=0, atol=1e-13)
