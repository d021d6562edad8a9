"""The walker of Fig. 6's task family: iterations until it is where one image of a goal shows it.

Ten goals, one to two body lengths away, times three policies to begin with; the search sees the silhouette of the goal
and nothing else, and runs all its iterations in any case. Reached, for the figures alone: the centre
of mass is within 5 % of the way between where it starts and the goal's.
"""

import math
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch

from gradsim.app.figures import figure
from gradsim.control.plant import centre
from gradsim.control.task.setup import Setup
from gradsim.control.task.task import Task
from gradsim.control.training.history import History
from gradsim.control.training.train import train
from gradsim.runtime.checkpoint import Ledger
from gradsim.runtime.progress import NullProgress, Progress
from gradsim_reproduction.control.methods import IMAGE, save_policies, task_digest

GOALS, POLICIES, ITERATIONS = 10, 3, 15
QUICK = (2, 1)  # goals and policies
WITHIN = 0.05  # of the way
FIRST = 100  # the least seed of a goal: the task was tuned on those below
PAPER = 3  # iterations, for its one goal


def walker(
    out: Path, quick: bool = False, seed: int = 0, progress: Progress | None = None
) -> tuple[dict, list[History]]:
    """Train the walker on all goals.

    Args:
        out: Gets walker.jsonl, from which an interrupted run resumes, and policies of the first policy's runs.
        quick: Two goals in place of 30 runs.
        seed: Seed of goals and policies.
        progress: Receives stages and shares.

    Returns:
        Figures, and the history of each run, with goal, policy, way and seconds among its names.
    """
    progress, task = progress or NullProgress(), Task.load("walker")
    goals, policies = QUICK if quick else (GOALS, POLICIES)
    settings = {"seed": seed, "quick": quick, "iterations": ITERATIONS, "task": task_digest(task)}
    done = Ledger(Path(out) / "walker.jsonl", settings)
    runs = []
    for k in range(goals * policies):
        goal, policy = FIRST + 1000 * seed + k // policies, k % policies
        progress.stage(f"walker: goal {k // policies + 1} of {goals}, policy {policy + 1} of {policies}")
        item = done.once(f"goal {goal}, policy {policy}", lambda g=goal, p=policy: _run(task, g, p, progress, out))
        runs.append(History.parse(item))
    return figures(runs), runs


def figures(runs: list[History]) -> dict[str, dict]:
    """Figures of the runs."""
    ways = [float(run.names["way"]) for run in runs]
    shares = [[distance / way for distance in run.raw("distance")] for run, way in zip(runs, ways, strict=True)]
    reached = [next((k for k, share in enumerate(run_shares) if share <= WITHIN), None) for run_shares in shares]
    first = [math.inf if k is None else k for k in reached]
    rollouts = [
        math.inf if k is None else sum(run.raw("rollouts")[: k + 1]) for run, k in zip(runs, reached, strict=True)
    ]
    chosen = [run_shares[run.best] for run, run_shares in zip(runs, shares, strict=True)]
    seconds = [s for run in runs[1:] or runs for s in run.raw("seconds")]  # without what is compiled first
    return {
        "walker_iterations": figure(median(first), paper=PAPER, goal=PAPER),
        "walker_iterations_worst": figure(max(first)),
        "walker_rollouts": figure(median(rollouts)),
        "walker_reached_share": figure(sum(k < math.inf for k in first) / len(first), ok=max(first) < math.inf),
        "walker_share_at_least_loss": figure(median(chosen), goal=WITHIN),  # of the policy that a search would keep
        "walker_cpu_seconds_per_iteration": figure(median(seconds)),
        "walker_steps": figure(runs[0].raw("steps")[0]),
    }


def _run(task: Task, goal: int, policy: int, progress: Progress, out: Path) -> dict:
    setup = Setup.of(task, goal, policy_seed=policy)
    search = replace(setup.config, iterations=ITERATIONS + 1)  # entry k is what k steps led to
    history = train(setup.plant, setup.policy, setup.goal, search, progress)
    assert setup.at_goal is not None and setup.goal.truth is not None, "goals of the task family are known"
    at_start = centre(setup.plant.begin(), setup.at_goal)[0]
    way = torch.linalg.vector_norm(at_start - setup.goal.truth.centre.to(at_start)).item()
    history.names = {"method": IMAGE, "goal": goal, "policy": policy, "way": way}
    if policy == 0:
        save_policies(out, "walker", goal, history.policies)
    return history.json()
