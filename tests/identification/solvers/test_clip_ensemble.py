from dataclasses import replace

import clip_cases as cases
import numpy as np
import pytest
import torch
from checks import central_difference, directions, error

from gradsim.identification.solvers.clip_ensemble import LOCAL_UNKNOWNS, descend, eliminate, scatter

ALL = tuple(cases.RANGES)


@pytest.fixture(scope="module")
def tossed():
    return cases.problem(cases.cut(*cases.tosses()), *ALL)


@pytest.fixture(scope="module")
def true_shots(tossed):
    """The true unknowns, with the start states that fit them."""
    return descend(tossed, tossed.at(cases.truth(tossed)), 8)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_jacobian_matches_central_differences(tossed, true_shots, seed):
    u, local = true_shots.u + 0.01, true_shots.local + 1e-3  # away from the minimum, where residuals are not zero
    _, J = tossed.jacobian(u, local)
    along = directions([u, local], seed)
    slope = J @ torch.cat([along[0][:, None].expand(-1, J.shape[1], -1), along[1]], -1)[..., None]
    (secant,) = central_difference(lambda *at: [tossed.jacobian(*at)[0]], [u, local], along, 1e-7)
    errors = (slope[..., 0] - secant).abs().amax((0, 2)) / slope.abs().amax((0, 2, 3))
    assert errors.median() < 1e-6
    assert (errors < 1e-4).double().mean() > 0.8  # in a clip now and then, a corner touches between the secant's ends


def test_chi2_is_the_square_of_the_residuals_of_the_jacobian(tossed):
    u = cases.truth(tossed) + torch.linspace(-0.1, 0.1, 4)[:, None].double()
    local = tossed.guess(4).expand(4, -1, -1)
    assert error(tossed.chi2(u, local), tossed.jacobian(u, local)[0].square().sum(2)) < 1e-12


def test_elimination_gives_the_step_of_the_whole_system():
    generator = torch.Generator().manual_seed(1)
    n, clips = 3, 4
    J = torch.randn(1, clips, 40, n + LOCAL_UNKNOWNS, generator=generator).double()
    r = torch.randn(1, clips, 40, 1, generator=generator).double()
    A, g = J.mT @ J, (J.mT @ r)[..., 0]
    schur, gradient, back_A, back_g = eliminate(A, g, n, torch.zeros(1))
    shared = -torch.linalg.solve(schur.sum(1), gradient.sum(1))
    own = -back_g - (back_A @ shared[:, None, :, None])[..., 0]

    size = n + clips * LOCAL_UNKNOWNS
    dense, right = torch.zeros(size, size).double(), torch.zeros(size).double()
    for k in range(clips):
        rows = torch.cat([torch.arange(n), n + k * LOCAL_UNKNOWNS + torch.arange(LOCAL_UNKNOWNS)])
        dense[rows[:, None], rows] += A[0, k]
        right[rows] += g[0, k]
    step = -torch.linalg.solve(dense, right)
    assert error(torch.cat([shared[0], own[0].flatten()]), step) < 1e-9


@pytest.mark.slow
def test_tosses_without_noise_give_the_truth_back_from_starts_all_over_the_ranges():
    names = ("ground.dissipation", "ground.friction", "gravity.z")
    problem = cases.problem(cases.cut(*cases.tosses(2)), *names)
    starts = problem.space.draw(np.random.default_rng(0), 3)
    ends = descend(problem, problem.at(starts), 25)
    best = ends.cost.argmin()
    assert ends.cost[best] < 1e-6
    assert error(problem.space.numbers(ends.u[best]), problem.space.numbers(cases.truth(problem))[0]) < 1e-5


def test_noise_moves_the_answer_by_no_more_than_the_bound_says():
    x, q = cases.tosses()
    noise = cases.SIGMA_X * torch.randn(x.shape, generator=torch.Generator().manual_seed(2)).double()
    problem = cases.problem(cases.cut(x + noise, q), "ground.friction", "gravity.z")
    ends = descend(problem, problem.at(cases.truth(problem)), 12)
    bound = torch.linalg.inv(problem.linearize(ends)[0].sum(1))[0].diagonal().sqrt()
    assert ((ends.u - cases.truth(problem)).abs() < 3 * bound).all()
    assert 0.2 < problem.chi2_per_n(ends) < 0.8  # orientations are exact: about half


def test_flight_shows_gravity_and_nothing_of_the_contact():
    times = torch.arange(cases.FRAMES).double()[:, None] / 100
    x = torch.tensor([0.1, 0.2, 2.0]).double() + times * torch.tensor([1.0, 0.5, 1.0]).double()
    clips = cases.cut(x[None], torch.tensor([0.0, 0, 0, 1]).double().expand(1, cases.FRAMES, 4))
    problem = cases.problem(clips, *ALL)
    schur, _ = problem.linearize(problem.at(cases.truth(problem)))
    others = [k for k, name in enumerate(ALL) if name != "gravity.z"]
    # y = g t²/2 with free height and velocity: the information is that of t²/2 after a straight line is taken out
    bent = times[:, 0] ** 2 / 2
    line = torch.cat([torch.ones_like(times), times], 1)
    left = bent - line @ torch.linalg.lstsq(line, bent[:, None]).solution[:, 0]
    weight = 1 / (1 + problem.at(cases.truth(problem)).chi2[0, 0] / problem.residuals)
    expected = weight * (left / cases.SIGMA_X).square().sum()
    assert schur[0, 0][others].abs().max() == 0
    assert error(schur[0, 0, ALL.index("gravity.z"), ALL.index("gravity.z")], expected) < 1e-3  # first order in time


def test_clip_of_weight_zero_has_no_say():
    clips = cases.cut(*cases.tosses())
    spoilt = [replace(c, x=c.x * 1.5) if c.recording == "toss 1" else c for c in clips]
    problem = cases.problem(spoilt, "ground.friction", "gravity.z")
    weight = torch.tensor([[float(c.recording != "toss 1") for c in clips]]).double()
    ends = descend(problem, problem.at(cases.truth(problem) + 0.2, weight=weight), 12, weight)
    assert error(problem.space.numbers(ends.u), problem.space.numbers(cases.truth(problem))) < 1e-4


def test_descent_never_raises_the_cost_nor_leaves_the_ranges(tossed):
    costs = []
    starts = tossed.at(tossed.space.draw(np.random.default_rng(4), 3))
    ends = descend(tossed, starts, 5, report=lambda _, now: costs.append(now.cost.clone()))
    assert all((after <= before).all() for before, after in zip([starts.cost, *costs], costs, strict=False))
    assert (ends.u >= tossed.space.low).all() and (ends.u <= tossed.space.high).all()


def test_copies_stand_about_the_place_and_keep_it(tossed, true_shots):
    copies = scatter(tossed, true_shots, 3, np.random.default_rng(0))
    assert torch.equal(copies.u[0], true_shots.u[0]) and len(copies.u) == 4
    assert (copies.u[1:] != true_shots.u).any(1).all()


def test_clips_of_unlike_length_are_refused():
    clips = cases.cut(*cases.tosses())
    short = replace(clips[0], x=clips[0].x[:5])
    with pytest.raises(ValueError, match=r"clips have \[5, 12\] frames"):
        cases.problem([short, *clips[1:]], "ground.friction")
