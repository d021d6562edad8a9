"""Fits with a camera whose pose in each frame has an error: the covariance of the residuals, at the answer.

The error of a frame's pose moves all that is seen in it: with J the derivative of the frame's residuals by the six numbers of the pose, and Σ
their covariance, residuals have the covariance D + J Σ Jᵀ. That is what six further unknowns in each frame with the prior Σ come to, to first order
(`observation/correlated_noise.py`), without their cost. J depends on where the bodies are, so it is computed before the search, where the
scene is, and again at the answer, until that stays. It is held during a descent: derivatives of the covariance by the unknowns would pull these to
where errors of poses count more, since χ² has no term log det C.
"""

from dataclasses import replace

import torch

from gradsim.identification.problem import Problem
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.multistart import Outcome, history_entry

ROUNDS = 5  # of covariance and descent
ITERATIONS = 20  # of a descent
SETTLED_CHANGE = 0.05  # standard deviations of the last change of an answer


def has_pose_noise(problem: Problem) -> bool:
    """True if poses of a camera have a covariance that enters the residuals."""
    return getattr(problem.observation, "pose_noise", False)  # several clips have none


def at_start(problem: Problem) -> Problem:
    """The problem with the covariance of residuals at the scene's own values."""
    if not has_pose_noise(problem):
        return problem
    return _linearized(problem, problem.model.values())


def at_answer(problem: Problem, outcome: Outcome) -> tuple[Problem, Outcome]:
    """The problem with the covariance of residuals at the answer, and the answer in it."""
    if not has_pose_noise(problem) or not torch.isfinite(outcome.best).all():
        return problem, outcome
    u = outcome.best
    for _ in range(ROUNDS):
        problem = _linearized(problem, problem.model.values(problem.space.values(u[None])))
        iterates, n = descend(problem, Population.at(u[None]), problem.frames, "pixels", ITERATIONS)
        outcome = replace(outcome, iterations=outcome.iterations + n)
        _, A, _ = problem.linearize(iterates.u, problem.frames)
        change, u = iterates.u[0] - u, iterates.u[0]
        if not torch.isfinite(A).all() or change @ A[0] @ change < SETTLED_CHANGE**2:
            break
    ended = torch.isfinite(outcome.final).all(1)
    final, cost = outcome.final.clone(), outcome.cost.clone()
    if ended.any():  # each as it would end in the covariance of the answer
        iterates, n = descend(problem, Population.at(final[ended]), problem.frames, "pixels", ITERATIONS)
        final[ended], cost[ended] = iterates.u, iterates.cost
    best = problem.cost(u[None], problem.frames)
    k = int(cost.argmin())
    if cost[k] < best[0]:
        u, best = final[k], cost[k : k + 1]
    entry = history_entry(problem, "poses", problem.frames, u[None], best, outcome.iterations)
    entry["values"] = dict(zip(problem.space.names, problem.space.numbers(u).tolist(), strict=True))
    history = [*outcome.history, entry]
    return problem, replace(outcome, final=final, cost=cost, best=u, best_cost=best[0].item(), history=history)


def _linearized(problem: Problem, values) -> Problem:
    with torch.no_grad():
        trajectory = problem.model.rollout_unchecked(values, problem.frames)
        finite = all(y.isfinite().all() for state in trajectory.states.values() for y in state.values())
        return problem.with_observation(problem.observation.linearized_at(trajectory)) if finite else problem
