"""Multi-start search over a growing clip.

A long clip of a tumbling body has a jagged cost; its first frames do not. So the clip grows by a few frames a stage,
and every start follows: on pixels where it can, on CDF residuals (wide basin) where it must. A start whose cost is
above what the noise explains, or well above the best, is not solved. It is resampled around the solved ones, or, when
too few are solved, around the better ones and itself, along the directions that the clip so far leaves most open
(the weak eigenvectors of the Fisher information). Once half of the clip is explained, half of the places suffice, and where
all starts are at one place about which χ² is smooth, `REPRESENTATIVES` of them.

Frames without noise need less: what explains a few frames exactly may explain all. So now and then the solved starts go
on to the end of the clip in strides, and where one of them explains all of it, the search is over. They do so early where the first frames leave a
direction open, along which starts would slide for long (`leap_early`). With noise they go there at once where
all are at one place, and stay where χ² is smooth (`leap_with_noise`). A chaotic clip is
explained as well as numbers allow where the next one in double precision changes the image by as much as the residual.

The truth is never used: starts come from the ranges, and "solved" is judged against the noise.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.thinned import EveryNth
from gradsim.identification.problem import Problem
from gradsim.identification.sensitivity.directions import size_of, time_of
from gradsim.identification.solvers.leaps import (
    CLIP_GROWTH,
    MIN_SOLVED_STARTS,
    Descent,
    leap_early,
    leap_with_noise,
    leap_without_noise,
    slide,
)
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.restarts import copied, explore, replace_unsolved, resample, restart_around_best
from gradsim.identification.solvers.thresholds import (
    NOISELESS_LEVEL,
    SAME_COST,
    are_one,
    are_solved,
    chi2_per_n,
    cost_of_steps,
    least_decrease,
    may_unite,
    rest_cost,
    solved_cost,
)
from gradsim.identification.uncertainty.fisher import is_quadratic
from gradsim.runtime.progress import CheckpointStore, NoCheckpoint

# Rounds of resampling that lower the best cost by less than a tenth, after which no more follow
MAX_IDLE_ROUNDS, GAIN = 3, 0.9
MODEL = 1.3  # times the best cost: what counts as explained where the model cannot reach the noise
FIRST_SHARE = 16  # of the frames of data that allow long stages, those over the first stage
RTOL_OF_NOISE = 1e-6  # relative decrease of the cost that matters in data with noise
IN_BASIN = 1.0  # χ² of frames without noise below which a start is where it descends to, however slowly
REPRESENTATIVES = 8  # places that go on for starts that are one, which small valleys of more frames may part
STAGE_ITERATIONS = 10  # linearizations by pixels on the frames of a stage
FRAMES_OF_STAGE = 3  # that a search compares at least of those that a stage adds
FIRST_PACE, PACE = (
    0.3,
    0.2,
)  # of the time in which a body falls by its radius, that the first stage lasts at least, and each later one adds


@dataclass
class MultistartConfig:
    """Settings of the multi-start search.

    Args:
        starts: Number drawn from the ranges.
        first: Frames of the first stage, and
        grow: frames added at each stage; more where frames are so close in time that bodies hardly move,
        ratio: or frames of a stage over those of the one before, where these are more.
        followers: Starts that follow the clip where enough are solved; None: all, and half of them from its middle on.
        rounds: Most rounds of resampling in one stage.
        rollouts: Number after which no further rounds are made; a count, not a time, so that results depend on the seed alone.
        curriculum: False goes to all frames at once.
        explore: True: samples look for better valleys after every stage, which takes hundreds of rollouts.
        polish: Most rounds of restarts around the best at the end.
        rtol: Relative decrease of the cost at which a start rests. A millionth is enough for frames with noise.
    """

    starts: int = 16
    first: int = 4
    grow: int = 2
    ratio: float = 1.0
    followers: int | None = None
    rounds: int = 12
    rollouts: int = 1_000_000
    curriculum: bool = True
    explore: bool = True
    polish: int = 8
    rtol: float = 1e-9


@dataclass
class Outcome:
    """Result of a search.

    Args:
        initial: All starts drawn (starts, unknowns).
        final: Where each ended, in the same order; NaN for those dropped or resampled.
        cost: Their costs; infinite for those.
        best: The answer (unknowns,).
        best_cost: Its cost.
        iterations: Linearisations of the whole population.
        history: One entry a stage and a polish: frames, kind, cost, and the best u.
        resampled: Where those ended that were drawn later, near others (resampled, unknowns).
        looked_over: Whether these hold the ends of a second look.
    """

    initial: Tensor
    final: Tensor
    cost: Tensor
    best: Tensor
    best_cost: float
    iterations: int
    history: list[dict]
    resampled: Tensor | None = None
    looked_over: bool = False

    @property
    def ends(self) -> Tensor:
        """Ends of all that are left, the resampled ones too (ends, unknowns)."""
        ended = self.final[self.cost.isfinite()]
        return ended if self.resampled is None else torch.cat([ended, self.resampled])

    @classmethod
    def of(
        cls, problem: Problem, initial: Tensor, final: Tensor, iterations: int, history: Sequence[dict] = ()
    ) -> "Outcome":
        """Outcome of starts that stayed apart.

        Args:
            problem: The problem; the costs are those of all its frames.
            initial: All starts drawn (starts, unknowns).
            final: Where each ended, in the same order.
            iterations: Iterations of the whole population.
            history: Entries made by `history_entry`; by default one, of the end.
        """
        cost = problem.cost(final, problem.frames)
        k = int(cost.argmin())
        history = list(history) or [history_entry(problem, "end", problem.frames, final, cost, iterations)]
        return cls(initial, final, cost, final[k], cost[k].item(), iterations, history)

    def converged(self) -> int:
        """Starts that came to the answer's cost on their own, to half a unit of χ²."""
        return int((self.cost < self.best_cost + 1.0 + 1e-9 * self.best_cost).sum())


def history_entry(problem: Problem, stage: str, frames: int, u: Tensor, cost: Tensor, iteration: int) -> dict:
    """Entry of `Outcome.history`: the best of u (starts, unknowns) by cost (starts,) after a stage of a search."""
    k = int(cost.argmin())
    return {
        "stage": stage,
        "frames": frames,
        "of_frames": problem.frames,
        "cost": cost[k].item(),
        "u": u[k].tolist(),
        "iteration": iteration,
        "rollouts": problem.effort.rollouts,
        "population": len(cost),
    }


def search(
    problem: Problem,
    plan: MultistartConfig,
    rng: np.random.Generator,
    report: Callable[[dict], None] = lambda entry: None,
    checkpoint: CheckpointStore | None = None,
) -> Outcome:
    """Search for the lowest cost from many starts.

    Args:
        problem: The problem.
        plan: Settings.
        rng: Random generator of starts and resampling.
        report: Called after each stage with its entry of the history.
        checkpoint: Store of the population after each stage, under "search".
    """
    checkpoint, plan = checkpoint or NoCheckpoint(), _paced(problem, plan)
    if problem.observation.growth > 1:
        growth, first = problem.observation.growth, max(plan.first, problem.frames // FIRST_SHARE)
        plan = replace(plan, first=first, ratio=max(plan.ratio, growth), rtol=max(plan.rtol, RTOL_OF_NOISE))
    whole = problem
    if plan.curriculum and not problem.observation.outline_noise:
        problem = thinned(problem)
    initial = problem.space.draw(rng, plan.starts)
    iterates, who = Population.at(initial), torch.arange(plan.starts)  # who: which start each is, -1 once resampled
    speaker = who.clone()  # the start that goes on for each
    history, iterations, done = [], 0, 0
    clean = problem.observation.noise_floor(problem.frames).level < NOISELESS_LEVEL
    exact, unmodelled = clean, 0.0  # whether noise explains all so far; χ²/N that the model has left unexplained
    if saved := checkpoint.load("search"):
        iterates, who, initial = Population(*saved["people"]), saved["who"], saved["initial"]
        speaker = saved["speaker"]
        history, iterations, done = list(saved["history"]), saved["iterations"], saved["done"]
        exact, unmodelled = saved["exact"], saved["unmodelled"]
        rng.bit_generator.state = saved["rng"]
        problem.effort.resume(saved["effort"])

    def note(stage: str, frames: int, **more) -> None:
        entry = history_entry(problem, stage, frames, iterates.u, iterates.cost, iterations)
        if problem is not whole:
            best = iterates.u[iterates.cost.argmin()]
            entry["cost"] = whole.cost(best[None], frames).item()
        history.append(entry | {"chi2_per_n": chi2_per_n(whole, frames, entry["cost"])} | more)
        report(history[-1])
        state = {
            "people": [iterates.u, iterates.cost, iterates.damping],
            "who": who,
            "speaker": speaker,
            "initial": initial,
            "history": history,
        }
        state |= {"iterations": iterations, "done": len(history), "rng": rng.bit_generator.state}
        state |= {"exact": exact, "unmodelled": unmodelled}
        checkpoint.save("search", state | {"effort": problem.effort.state()})
        problem.effort.evaluations.clear()  # so that a search which is resumed goes the same way

    stages = _with_news(problem, _stages(plan, problem.frames))
    exploring = _milestones(stages) if problem.is_external else set(stages)
    leapt = any(entry.get("leapt", False) for entry in history)
    for frames in [] if leapt else stages[done:]:
        informative = problem.observation.noise_floor(frames).informative
        least = solved_cost(problem, frames)
        target_cost, descent = least + unmodelled * informative, _descent(frames, least, plan.rtol)
        slides = slide(problem, frames)
        may_leap = exact and not may_unite(problem) and frames in _milestones(stages)
        iterates, n = descent.lower(problem, iterates, slides if may_leap else lambda now: False)
        iterations += n
        if may_leap and slides(iterates):
            places = max(2 * MIN_SOLVED_STARTS, plan.starts // 2 + 1)  # most of the starts
            n, iterates, extended = leap_early(problem, iterates, descent, places)
            iterations, leapt = iterations + n, bool(extended.any())
            if leapt:
                iterates, who = iterates[extended], who[extended]
                note("curriculum", frames, leapt=True)
                break
            iterates, n = descent.lower(problem, iterates)
            iterations += n
        iterates, n = _unstuck(problem, iterates, descent, target_cost)
        iterations += n
        if unmodelled and iterates.cost.min() < least:
            # what was left before was the start of another valley: this explains more frames, and all of them
            target_cost, exact, unmodelled = least, clean, 0.0
        if exact and (steps := cost_of_steps(problem, iterates, frames, target_cost)):
            unmodelled = max(unmodelled, steps / informative)
            target_cost = least + unmodelled * informative
        if len(who) < MIN_SOLVED_STARTS and not are_solved(iterates, target_cost).any():  # more places to resample
            iterates, who = copied(iterates, who, plan.starts)
        solved, rounds, idle = are_solved(iterates, target_cost), 0, 0
        while solved.sum() < min(MIN_SOLVED_STARTS, len(who)) and rounds < plan.rounds and idle < MAX_IDLE_ROUNDS:
            if problem.effort.rollouts > plan.rollouts:
                break
            rounds, best = rounds + 1, iterates.cost.min().item()
            fresh = resample(problem, iterates, (~solved).nonzero()[:, 0], frames, rng)
            fresh, n = _attempt(problem, fresh, descent, target_cost)
            iterations += n
            places = (~solved).nonzero()[:, 0]
            better = fresh.cost < iterates.cost[places]
            iterates.put(places[better], fresh[better])
            who[places[better]] = -1
            solved = are_solved(iterates, target_cost)
            idle = 0 if iterates.cost.min() < GAIN * best else idle + 1
        if not solved.any() and math.isfinite(target_cost):
            # what is left is not noise, so later stages do not ask for less either
            exact, unmodelled = False, MODEL * iterates.cost.min().item() / max(1.0, informative)
            solved = are_solved(iterates, least + unmodelled * informative)
        if exact and frames in _milestones(stages):
            n, extended = leap_without_noise(problem, iterates, solved, frames, plan.rtol)
            iterations, leapt = iterations + n, bool(extended.any())
            if leapt:
                iterates, who = iterates[extended], who[extended]
                note("curriculum", frames, leapt=True)
                break
        elif not (exact or may_unite(problem)) and math.isfinite(target_cost) and frames in _milestones(stages):
            n, ended = leap_with_noise(problem, iterates, solved, frames, plan.rtol, plan.explore, rng)
            iterations, leapt = iterations + n, ended is not None
            if ended is not None:
                iterates = ended
                note("curriculum", problem.frames, leapt=True)
                break
        noisy = not exact and math.isfinite(target_cost)
        agree = noisy and not problem.is_external and solved.all() and _are_one_and_smooth(problem, iterates, frames)
        if noisy and plan.explore and frames in exploring and not agree:
            iterates, who, n = explore(problem, iterates, who, frames, rng)
            iterations += n
            solved = are_solved(iterates, target_cost)
        halved = exact or frames > problem.frames // 2
        keep = min(
            plan.starts, plan.followers or (max(2 * MIN_SOLVED_STARTS, plan.starts // 2) if halved else plan.starts)
        )
        keep = min(keep, len(who)) if may_unite(problem) else keep
        if agree:
            iterates, who, speaker = _represented(iterates, who, speaker)
        else:
            iterates, who = replace_unsolved(problem, iterates, who, solved, frames, keep, rng)
        if may_unite(problem) and are_one(problem, iterates):
            iterates, who, speaker = _united(iterates, who, speaker)
        note("curriculum", frames)

    was_thinned, problem = problem is not whole, whole
    if not history or history[-1]["stage"] == "curriculum":
        if leapt and was_thinned:  # all of them are at one place
            one, n = descend(
                problem, iterates[[0]], problem.frames, "pixels", 60, 0.0, least_decrease(problem), plan.rtol
            )
            iterates, iterations = one[[0] * len(iterates.cost)], iterations + n
        if not plan.curriculum:
            iterates, n = descend(problem, iterates, problem.frames, "cdf", 30, rtol=plan.rtol)
            iterations += n
        if not leapt:  # starts that leapt have been descended with all frames
            rest = rest_cost(problem, iterates.u[int(iterates.cost.argmin())]) if exact else 0.0
            iterates, n = descend(
                problem, iterates, problem.frames, "pixels", 60, rest, least_decrease(problem), plan.rtol
            )
            iterations += n
        note("pixels", problem.frames)
    # samples about the answer found nothing better; of some frames they may have been too coarse to
    is_smooth = leapt and not exact and (not was_thinned or _is_smooth(problem, iterates))
    is_smooth |= problem.observation.growth > 1 and _agree(iterates, who, speaker)
    if history[-1]["stage"] == "pixels" and not is_smooth:
        iterates, n = restart_around_best(problem, iterates, rng, plan.polish)
        iterations += n
        note("polish", problem.frames)

    k = int(iterates.cost.argmin())
    final, cost = torch.full_like(initial, torch.nan), torch.full((plan.starts,), torch.inf).double()
    for row in (who >= 0).nonzero()[:, 0]:
        final[speaker == who[row]], cost[speaker == who[row]] = iterates.u[row], iterates.cost[row]
    resampled = iterates.u[(who < 0) & iterates.cost.isfinite()]
    return Outcome(initial, final, cost, iterates.u[k], iterates.cost[k].item(), iterations, history, resampled)


def _agree(iterates: Population, who: Tensor, speaker: Tensor) -> bool:
    """True if enough starts were followed, alone or by the one that goes on for them, and all ended at one cost: the data make no small valleys."""
    finite = iterates.cost.isfinite()
    followed = max(int(finite.sum()), int(torch.isin(speaker, who).sum()))
    return (
        bool(finite.any())
        and followed >= MIN_SOLVED_STARTS
        and float(iterates.cost[finite].max() - iterates.cost.min()) < SAME_COST
    )


def _united(iterates: Population, who: Tensor, speaker: Tensor) -> tuple[Population, Tensor, Tensor]:
    """The best of starts that are one, which start it is, and the start that goes on for each."""
    best = [int(iterates.cost.argmin())]
    starts = who[who >= 0]
    if not len(starts):
        return iterates[best], who[best], speaker
    return iterates[best], starts[:1], torch.where(torch.isin(speaker, starts), starts[0], speaker)


def _represented(iterates: Population, who: Tensor, speaker: Tensor) -> tuple[Population, Tensor, Tensor]:
    """The best `REPRESENTATIVES` of starts that are one, which start each is, and the start that goes on for each."""
    order = iterates.cost.argsort()
    order = torch.cat([order[who[order] >= 0], order[who[order] < 0]])
    places, others = order[:REPRESENTATIVES], who[order[REPRESENTATIVES:]]
    starts, speaker = who[places][who[places] >= 0], speaker.clone()
    for k, other in enumerate(others[others >= 0]):
        speaker[speaker == other] = starts[k % len(starts)]
    return iterates[places], who[places], speaker


def _are_one_and_smooth(problem: Problem, iterates: Population, frames: int) -> bool:
    """True if all starts are at one place, about which χ² of the first frames rises as its curvature says: no small valleys part them, and samples
    within its error bars find no other.
    """
    best = iterates.u[int(iterates.cost.argmin())]
    if len(iterates.cost) > 1 and not are_one(problem, iterates):
        return False
    return is_quadratic(problem, best, problem.linearize(best[None], frames)[1][0], frames)


def _paced(problem: Problem, plan: MultistartConfig) -> MultistartConfig:
    """The plan with stages as long as bodies need to move: frames that are close in time tell little of what is new."""
    if not hasattr(problem, "model") or problem.is_external:
        return plan
    time = _frames_of_fall(problem)
    return replace(plan, first=max(plan.first, 1 + int(FIRST_PACE * time)), grow=max(plan.grow, int(PACE * time)))


def _frames_of_fall(problem: Problem) -> float:
    """Frames in which a body falls by its radius."""
    model = problem.model
    return time_of(model, size_of(model, model.values())) * model.scene.timing.fps


def thinned(problem: Problem) -> Problem:
    """The problem of a part of the frames, where noisy masks are so close in time that stages are of many; otherwise itself."""
    if type(problem) is not Problem or problem.is_external or type(problem.observation) is not Masks:
        return problem
    stride = int(PACE * _frames_of_fall(problem)) // FRAMES_OF_STAGE  # of bodies, whatever the stages of a plan are
    if stride < 2 or not NOISELESS_LEVEL <= problem.observation.noise_floor(problem.frames).level < math.inf:
        return problem
    if not problem.observation.all_frames_count:  # those that are left may be the ones that do not
        return problem
    return problem.with_observation(EveryNth(problem.observation, stride))


def _is_smooth(problem: Problem, iterates: Population) -> bool:
    """True if χ² of all frames rises from the best start as its curvature says."""
    best = iterates.u[int(iterates.cost.argmin())]
    return is_quadratic(problem, best, problem.linearize(best[None], problem.frames)[1][0])


def _stages(plan: MultistartConfig, last: int) -> list[int]:
    """Frames of each stage of the growing clip."""
    stages, frames = [], min(plan.first, last)
    while plan.curriculum and frames < last:
        stages.append(frames)
        frames = max(frames + plan.grow, math.ceil(plan.ratio * frames))
    return stages


def _with_news(problem: Problem, stages: list[int]) -> list[int]:
    """Stages whose frames carry more information than those of the one before: excluded frames carry none."""
    informative = [problem.observation.noise_floor(frames).informative for frames in stages]
    return [frames for k, frames in enumerate(stages) if not k or informative[k] > informative[k - 1]]


def _attempt(problem: Problem, iterates: Population, descent: Descent, target_cost: float) -> tuple[Population, int]:
    """Pixels first; where that does not bring a start below `target_cost`, CDF and then pixels, keeping the better.

    A start continues to its own minimum, also below what noise explains: the next frames need it.
    """
    iterates, count = descent.lower(problem, iterates)
    iterates, n = _unstuck(problem, iterates, descent, target_cost)
    return iterates, count + n


def _unstuck(problem: Problem, iterates: Population, descent: Descent, target_cost: float) -> tuple[Population, int]:
    """CDF and then pixels for starts that are above `target_cost`, keeping the better; and the number of linearizations."""
    stuck = (~are_solved(iterates, target_cost) & (iterates.cost > IN_BASIN)).nonzero()[:, 0]
    if not len(stuck) or not math.isfinite(target_cost):
        return iterates, 0
    far, n = descend(problem, iterates[stuck], descent.frames, "cdf", STAGE_ITERATIONS, rtol=descent.rtol)
    near, m = descent.lower(problem, far)
    better = near.cost < iterates.cost[stuck]
    iterates.put(stuck[better], near[better])
    return iterates, n + m


def _descent(frames: int, least: float, rtol: float) -> Descent:
    """Descent in the first frames, of which noise explains `least`."""
    rest = 1e-6 * least if math.isfinite(least) else 0.0  # noise unknown: only a minimum stops
    return Descent(frames, rest, 0.01 * min(1.0, least), rtol, STAGE_ITERATIONS)


def _milestones(stages: list[int]) -> set[int]:
    """Stages after which solved starts are tried on the rest of the clip: each with `CLIP_GROWTH` times the frames of the last."""
    milestones = [0]
    for frames in stages:
        if frames >= CLIP_GROWTH * milestones[-1]:
            milestones.append(frames)
    return set(milestones)
