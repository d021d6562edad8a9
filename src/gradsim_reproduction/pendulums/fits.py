"""One video of a task, and how it is solved.

Float frames: many starts through a growing clip (`identify.multistart`), which leap to the whole clip as soon as they
explain its beginning exactly. Videos with noise: the same on the first frames, then the best few on a clip that grows, for
a chaotic motion is not to be guessed from a few noisy frames.
"""

import time

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.multistart import MultistartConfig, search
from gradsim.identification.synthetic import TRUTH_STREAM
from gradsim.identification.uncertainty.fisher import analyze
from gradsim_reproduction.pendulums.tasks import VideoTask, observe_video, rollout_of

CLOSE = 1e-6  # largest error of what counts as solved
LEAD, EXPLAINED = 6, 1e-6  # frames that a lone start has to explain first, and its χ² then
LONE_STREAM = 3000  # added to the seed for starts that go alone
BEGIN, GROW, FEW = 16, 12, 3  # frames of the first search of a noisy video, frames added, and starts that go on


def truth_of(task: VideoTask, number: int, seed: int) -> Tensor:
    """The truth (unknowns,) of a video, in what the solver moves."""
    return task.space().draw(np.random.default_rng([TRUTH_STREAM + seed, number]), 1)[0]


def float_fit(task: VideoTask, number: int, seed: int, starts: int, lone: int) -> dict:
    """Solve a video of float frames with all starts, and with a few starts each alone.

    Args:
        task: The task.
        number: Number of the video.
        seed: Of truth and starts.
        starts: That go together.
        lone: How many go alone.
    """
    space, truth, begun = task.space(), truth_of(task, number, seed), time.process_time()
    model = model_for(task.scene, space)
    frames = task.scene.timing.frames
    observation = observe_video(task.scene, rollout_of(model, space, truth, frames))
    exact = space.numbers(truth).tolist()

    problem = Problem(model, observation, space)
    outcome = search(problem, MultistartConfig(starts=starts), np.random.default_rng([seed, number]))
    errors = task.errors(space.numbers(outcome.best).tolist(), exact)
    streams = ([LONE_STREAM + seed, number, k] for k in range(lone))
    ends = [_alone(problem, np.random.default_rng(stream)) for stream in streams]
    alone = [end is not None and max(task.errors(space.numbers(end).tolist(), exact).values()) < CLOSE for end in ends]
    record = {"task": task.name, "number": number, "truth": exact, "errors": errors, "cost": outcome.best_cost}
    return record | {"alone": alone, "cpu_s": time.process_time() - begun}


def _alone(problem: Problem, rng: np.random.Generator) -> Tensor | None:
    """Fit from one start: the first frames, resampled only around itself, and if it explains these, all frames."""
    first = Problem(problem.model, problem.observation.slice_frames(0, LEAD), problem.space)
    outcome = search(first, MultistartConfig(starts=1), rng)
    if outcome.best_cost > EXPLAINED:
        return None
    return descend(problem, Population.at(outcome.best[None]), problem.frames, "pixels", 30)[0].u[0]


def noisy_fit(task: VideoTask, number: int, seed: int, starts: int) -> dict:
    """Solve an 8-bit video with noise; errors over the Cramér–Rao bound."""
    space, truth, begun = task.space(), truth_of(task, number, seed), time.process_time()
    model = model_for(task.scene, space)
    frames = task.scene.timing.frames
    observation = observe_video(task.scene, rollout_of(model, space, truth, frames), noise=100 * seed + number)
    problem = Problem(model, observation, space)
    first = Problem(model, observation.slice_frames(0, BEGIN), space)
    outcome = search(first, MultistartConfig(starts=starts, grow=4), np.random.default_rng([seed, number]))
    order = outcome.cost.argsort()[: FEW - 1]
    near = order[torch.isfinite(outcome.cost[order])]
    iterates = Population.at(torch.cat([outcome.best[None], outcome.final[near]]))
    for count in [*range(BEGIN + GROW, frames, GROW), frames]:
        iterates, _ = descend(problem, iterates, count, "pixels", 6 if count < frames else 30)
    best = iterates.u[int(iterates.cost.argmin())]
    _, fisher, _ = problem.linearize(truth[None], frames)  # the bound at the truth, as the acceptance defines it
    bound = torch.linalg.inv(fisher[0]).diagonal().sqrt()
    numbers, exact = space.numbers(best).tolist(), space.numbers(truth).tolist()
    record = {"task": task.name, "number": number, "truth": exact, "errors": task.errors(numbers, exact)}
    record |= {"z": dict(zip(space.names, ((best - truth) / bound).tolist(), strict=True))}
    return record | {"bound": dict(zip(space.names, bound.tolist(), strict=True)), "cpu_s": time.process_time() - begun}


def mass_scale(task: VideoTask, seed: int) -> dict:
    """Null direction reported by a fit of both masses and the damping."""
    names = ("arms.first_mass:0.5:2", "arms.second_mass:0.3:1.5", "arms.damping:0.002:0.05")
    masses = VideoTask("masses", task.scene, names, "Both masses and damping")
    space, truth = masses.space(), truth_of(masses, 0, seed)
    model = model_for(masses.scene, space)
    observation = observe_video(masses.scene, rollout_of(model, space, truth, masses.scene.timing.frames))
    problem = Problem(model, observation, space)
    best = search(problem, MultistartConfig(starts=4), np.random.default_rng(seed)).best
    uncertainty = analyze(space, problem.linearize(best[None], problem.frames)[1][0], False)
    ratios = space.numbers(best) / space.numbers(truth)
    return {
        "rank": uncertainty.rank,
        "null": [{"combination": d.combination, "explanation": d.explanation} for d in uncertainty.null],
        "ratio_error": (ratios / ratios[0] - 1).abs().max().item(),
    }
