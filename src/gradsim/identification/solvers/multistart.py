"""Multi-start search over a growing clip.

A long clip of a tumbling body has a jagged cost; its first frames do not. So the clip grows by a few frames a stage,
and every start follows: on pixels where it can, on CDF residuals (wide basin) where it must. A start whose cost is
above what the noise explains, or well above the best, is not solved. It is resampled around the solved ones, or, when
too few are solved, around the better ones and itself, along the directions that the clip so far leaves most open
(the weak eigenvectors of the Fisher information). Once half of the clip is explained, half of the places suffice.

Frames without noise need less: what explains a few frames exactly may explain all. So now and then the solved starts go
on to the end of the clip in strides, and where one of them explains all of it, the search is over. With noise they go there at once where
all are at one place, and stay where χ² is smooth (`_at_the_end`). A chaotic clip is
explained as well as numbers allow where the next one in double precision changes the image by as much as the residual.

The truth is never used: starts come from the ranges, and "solved" is judged against the noise.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.identification.solvers.de_mcmc import sample
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.uncertainty.fisher import is_quadratic, secant_fisher
from gradsim.runtime.progress import CheckpointStore, NoCheckpoint

HOPELESS_CHI2_GAP = 30.0  # χ² above the best at which a start is surely elsewhere: odds of e^15
CHAINS, GENERATIONS = 16, 40  # of the samples that look for better valleys after a stage, from five unknowns on
# Rounds of resampling that lower the best cost by less than a tenth, after which no more follow
MAX_IDLE_ROUNDS, GAIN = 3, 0.9
MODEL = 1.3  # times the best cost: what counts as explained where the model cannot reach the noise
NEARLY = 1.15  # times the cost that noise makes on average, of a start that is solved
MIN_SOLVED_STARTS = 3  # solved starts that make resampling needless
ROUNDING = 1e-16  # χ²/N below which frames without noise are explained to all digits that matter
CLIP_GROWTH = 1.5  # times the frames so far: growth of the clip for solved starts
SAME_COST = 0.01  # χ² within which starts ended in one place
MERGE_DISTANCE = 1e-6  # of a logarithm or range: a start that comes so near to the answer of another is there
UNITED_DISTANCE = 0.02  # of a logarithm or range: starts so near to one another, and alike in cost, are one
# Times the χ² of the difference that half the step makes: a method of first order is off by 4 of them
STEP_CHI2_FACTOR = 16.0
FIRST_SHARE = 16  # of the frames of data that allow long stages, those over the first stage
RTOL_OF_NOISE = 1e-6  # relative decrease of the cost that matters in data with noise
LEAP_ITERATIONS = 12  # linearisations in which starts that are one are to explain the whole clip
EXACT = 1e-6  # χ²/N of the noise, in units of σ², below which frames count as free of it


@dataclass
class MultistartConfig:
    """Settings of the multi-start search.

    Args:
        starts: Number drawn from the ranges.
        first: Frames of the first stage.
        grow: Frames added at each stage,
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
    """

    initial: Tensor
    final: Tensor
    cost: Tensor
    best: Tensor
    best_cost: float
    iterations: int
    history: list[dict]

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
    checkpoint = checkpoint or NoCheckpoint()
    if problem.observation.growth > 1:
        growth, first = problem.observation.growth, max(plan.first, problem.frames // FIRST_SHARE)
        plan = replace(plan, first=first, ratio=max(plan.ratio, growth), rtol=max(plan.rtol, RTOL_OF_NOISE))
    initial = problem.space.draw(rng, plan.starts)
    iterates, who = Population.at(initial), torch.arange(plan.starts)  # who: which start each is, -1 once resampled
    speaker = who.clone()  # the start that goes on for each
    history, iterations, done = [], 0, 0
    clean = problem.observation.noise_floor(problem.frames).level < EXACT
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
        history.append(entry | {"chi2_per_n": _chi2_per_n(problem, frames, entry["cost"])} | more)
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

    stages = _with_news(problem, _stages(plan, problem.frames))
    exploring = _milestones(stages) if problem.is_external else set(stages)
    leapt = any(entry.get("leapt", False) for entry in history)
    for frames in [] if leapt else stages[done:]:
        informative = problem.observation.noise_floor(frames).informative
        least = solved_cost(problem, frames)
        target_cost = least + unmodelled * informative
        iterates, n = _attempt(problem, iterates, frames, target_cost, least, plan.rtol)
        iterations += n
        if unmodelled and iterates.cost.min() < least:
            # what was left before was the start of another valley: this explains more frames, and all of them
            target_cost, exact, unmodelled = least, clean, 0.0
        if exact and (steps := cost_of_steps(problem, iterates, frames, target_cost)):
            unmodelled = max(unmodelled, steps / informative)
            target_cost = least + unmodelled * informative
        if len(who) < MIN_SOLVED_STARTS and not _solved(iterates, target_cost).any():  # more places to resample
            iterates, who = _copied(iterates, who, plan.starts)
        solved, rounds, idle = _solved(iterates, target_cost), 0, 0
        while solved.sum() < min(MIN_SOLVED_STARTS, len(who)) and rounds < plan.rounds and idle < MAX_IDLE_ROUNDS:
            if problem.effort.rollouts > plan.rollouts:
                break
            rounds, best = rounds + 1, iterates.cost.min().item()
            fresh = _resample(problem, iterates, (~solved).nonzero()[:, 0], frames, rng)
            fresh, n = _attempt(problem, fresh, frames, target_cost, least, plan.rtol)
            iterations += n
            places = (~solved).nonzero()[:, 0]
            better = fresh.cost < iterates.cost[places]
            iterates.put(places[better], fresh[better])
            who[places[better]] = -1
            solved = _solved(iterates, target_cost)
            idle = 0 if iterates.cost.min() < GAIN * best else idle + 1
        if not solved.any() and math.isfinite(target_cost):
            # what is left is not noise, so later stages do not ask for less either
            exact, unmodelled = False, MODEL * iterates.cost.min().item() / max(1.0, informative)
            solved = _solved(iterates, least + unmodelled * informative)
        if exact and frames in _milestones(stages):
            n, extended = _extend_to_full_clip(problem, iterates, solved, frames)
            iterations, leapt = iterations + n, bool(extended.any())
            if leapt:
                iterates, who = iterates[extended], who[extended]
                note("curriculum", frames, leapt=True)
                break
        elif not (exact or _may_unite(problem)) and math.isfinite(target_cost) and frames in _milestones(stages):
            n, ended = _at_the_end(problem, iterates, solved, plan, rng)
            iterations, leapt = iterations + n, ended is not None
            if ended is not None:
                iterates = ended
                note("curriculum", problem.frames, leapt=True)
                break
        if not exact and math.isfinite(target_cost) and plan.explore and frames in exploring:
            iterates, who, n = _explore(problem, iterates, who, frames, rng)
            iterations += n
            solved = _solved(iterates, target_cost)
        halved = exact or frames > problem.frames // 2
        keep = min(
            plan.starts, plan.followers or (max(2 * MIN_SOLVED_STARTS, plan.starts // 2) if halved else plan.starts)
        )
        keep = min(keep, len(who)) if _may_unite(problem) else keep
        iterates, who = _replace_unsolved(problem, iterates, who, solved, frames, keep, rng)
        if _may_unite(problem) and _are_one(problem, iterates):
            iterates, who, speaker = _united(iterates, who, speaker)
        note("curriculum", frames)

    if not history or history[-1]["stage"] == "curriculum":
        if not plan.curriculum:
            iterates, n = descend(problem, iterates, problem.frames, "cdf", 30, rtol=plan.rtol)
            iterations += n
        rest = _rest(problem, iterates.u[int(iterates.cost.argmin())]) if exact else 0.0
        iterates, n = descend(
            problem, iterates, problem.frames, "pixels", 60, rest, _least_decrease(problem), plan.rtol
        )
        iterations += n
        note("pixels", problem.frames)
    is_smooth = leapt and not exact  # samples about the answer found nothing better
    is_smooth |= problem.observation.growth > 1 and _agree(iterates, who, speaker)
    if history[-1]["stage"] == "pixels" and not is_smooth:
        iterates, n = restart_around_best(problem, iterates, rng, plan.polish)
        iterations += n
        note("polish", problem.frames)

    k = int(iterates.cost.argmin())
    final, cost = torch.full_like(initial, torch.nan), torch.full((plan.starts,), torch.inf).double()
    for row in (who >= 0).nonzero()[:, 0]:
        final[speaker == who[row]], cost[speaker == who[row]] = iterates.u[row], iterates.cost[row]
    return Outcome(initial, final, cost, iterates.u[k], iterates.cost[k].item(), iterations, history)


def _agree(iterates: Population, who: Tensor, speaker: Tensor) -> bool:
    """True if enough starts were followed, alone or by the one that goes on for them, and all ended at one cost: the data make no small valleys."""
    finite = iterates.cost.isfinite()
    followed = max(int(finite.sum()), int(torch.isin(speaker, who).sum()))
    return (
        bool(finite.any())
        and followed >= MIN_SOLVED_STARTS
        and float(iterates.cost[finite].max() - iterates.cost.min()) < SAME_COST
    )


def _may_unite(problem: Problem) -> bool:
    """True if one start may go on for all that came to its place.

    Logs have no small valleys by which they would part again, and in another engine each world takes as long as the one before it.
    """
    return problem.observation.growth > 1 or problem.is_external


def _least_decrease(problem: Problem) -> float:
    """Decrease of χ² on the whole clip at or below which a start rests: a tenth of an error bar is enough where noise is left, and where worlds
    take long.
    """
    level = problem.observation.noise_floor(problem.frames).level
    noisy = EXACT <= level < math.inf and not problem.observation.outline_noise
    return 0.01 * min(1.0, solved_cost(problem, problem.frames)) if noisy or _may_unite(problem) else 0.0


def _are_one(problem: Problem, iterates: Population) -> bool:
    """True if several starts are at one place and alike in cost."""
    k = int(iterates.cost.argmin())
    off = ((iterates.u - iterates.u[k]) / problem.space.unit).abs()
    alike = iterates.cost - iterates.cost[k] < SAME_COST
    return len(alike) > 1 and bool((off < UNITED_DISTANCE).all() and alike.all())


def _united(iterates: Population, who: Tensor, speaker: Tensor) -> tuple[Population, Tensor, Tensor]:
    """The best of starts that are one, which start it is, and the start that goes on for each."""
    best = [int(iterates.cost.argmin())]
    starts = who[who >= 0]
    if not len(starts):
        return iterates[best], who[best], speaker
    return iterates[best], starts[:1], torch.where(torch.isin(speaker, starts), starts[0], speaker)


def _copied(iterates: Population, who: Tensor, count: int) -> tuple[Population, Tensor]:
    """Starts with copies of the best, which are no start, up to a number of them; where they are as many, themselves."""
    k, copies = int(iterates.cost.argmin()), max(0, count - len(who))
    rows = torch.cat([torch.arange(len(who)), torch.full((copies,), k)])
    return iterates[rows], torch.cat([who, torch.full((copies,), -1)])


def _chi2_per_n(problem: Problem, frames: int, cost: float) -> float | None:
    """Mean square of the informative residuals; None where the noise is not known."""
    floor = problem.observation.noise_floor(frames)
    if problem.observation.outline_noise or not math.isfinite(floor.level) or not floor.informative:
        return None
    return max(0.0, cost - floor.cost) / floor.informative


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


def solved_cost(problem: Problem, frames: int, share: float = NEARLY) -> float:
    """Cost below which a start is solved: noise explains the residuals. Infinite where the noise is unknown.

    Args:
        problem: The problem.
        frames: First frames that count.
        share: Of the cost that noise makes on average, beyond which only five of its standard deviations are chance.
    """
    floor, informative, level = problem.observation.noise_floor(frames)
    return floor + max(level, 1e-10) * (share * informative + 5 * math.sqrt(2 * informative))


def cost_of_steps(problem: Problem, iterates: Population, frames: int, target_cost: float) -> float:
    """Cost that time steps leave at most in frames without noise, where they may be all that is left; otherwise 0.

    A video that was not made with these steps is not explained by them exactly. A search of other valleys would not
    help, finer steps do (`uncertainty/discretization.py`).
    """
    cost, k = iterates.cost.min().item(), int(iterates.cost.argmin())
    if cost < target_cost or not hasattr(problem, "with_finer_steps"):
        return 0.0
    if all(scene.timing.tolerance == math.inf for scene in problem.scenes):  # videos of these very steps
        return 0.0
    u = iterates.u[k][None]
    finer = problem.with_finer_steps(2).residuals(u, frames) - problem.residuals(u, frames)
    steps = STEP_CHI2_FACTOR * finer.square().sum().item()
    return steps if cost < steps else 0.0


def _attempt(
    problem: Problem, iterates: Population, frames: int, target_cost: float, least: float, rtol: float
) -> tuple[Population, int]:
    """Pixels first; where that does not bring a start below `target_cost`, CDF and then pixels, keeping the better.

    A start continues to its own minimum, also below what noise explains (`least`): the next frames need it.
    """
    rest = 1e-6 * least if math.isfinite(least) else 0.0  # noise unknown: only a minimum stops
    min_decrease = 0.01 * min(1.0, least)
    iterates, count = descend(problem, iterates, frames, "pixels", 10, rest, min_decrease, rtol)
    stuck = (~_solved(iterates, target_cost)).nonzero()[:, 0]
    if len(stuck) and math.isfinite(target_cost):
        far, n = descend(problem, iterates[stuck], frames, "cdf", 10, rtol=rtol)
        near, m = descend(problem, far, frames, "pixels", 10, rest, min_decrease, rtol)
        better = near.cost < iterates.cost[stuck]
        iterates.put(stuck[better], near[better])
        count += n + m
    return iterates, count


def _solved(iterates: Population, target_cost: float) -> Tensor:
    """True where the noise explains the cost, and it is not clearly above the best."""
    best = iterates.cost.min()
    return (
        iterates.cost < min(target_cost, best.item() + HOPELESS_CHI2_GAP + 1e-3 * target_cost)
        if math.isfinite(target_cost)
        else iterates.cost < math.inf
    )


def _explore(
    problem: Problem, iterates: Population, who: Tensor, frames: int, rng: np.random.Generator
) -> tuple[Population, Tensor, int]:
    """Look for a better valley within the error bars of the clip so far, and put it in place of the worst start. One start alone stays.

    Contact cuts the cost into valleys narrower than the error bars of a few frames. One that is a little worse than
    another now is far worse when more frames have come, and far from where the other went. Chains that follow the
    posterior cross the ridges between them, which descents do not.

    Returns the population, which start each is, and the number of linearisations.
    """
    k = int(iterates.cost.argmin())
    _, A, _ = problem.linearize(iterates.u[[k]], frames)
    eigenvalues, axes = torch.linalg.eigh(A[0].nan_to_num(0.0))
    scale = axes * eigenvalues.clamp(min=2.0).rsqrt()
    few = min(1.0, (1 + len(scale)) / 6)  # fewer unknowns have fewer places to look
    samples = sample(problem, iterates.u[k], scale, rng, round(few * CHAINS), round(few * GENERATIONS), frames=frames)
    if samples.best_cost > iterates.cost[k] - 1e-3:
        return iterates, who, 1
    refined, n = descend(problem, Population.at(samples.best[None]), frames, "pixels", 8)
    last = int(iterates.cost.argmax())
    if len(who) == 1:
        (iterates, who), last = _copied(iterates, who, 2), 1
    iterates.put([last], refined)
    who[last] = -1
    return iterates, who, n + 1


def _milestones(stages: list[int]) -> set[int]:
    """Stages after which solved starts are tried on the rest of the clip: each with `CLIP_GROWTH` times the frames of the last."""
    milestones = [0]
    for frames in stages:
        if frames >= CLIP_GROWTH * milestones[-1]:
            milestones.append(frames)
    return set(milestones)


def _at_the_end(
    problem: Problem, iterates: Population, solved: Tensor, plan: MultistartConfig, rng: np.random.Generator
) -> tuple[int, Population | None]:
    """The starts at the end of a clip with noise, where all of them are one; None where the frames between are needed.

    They have to explain the whole clip from one place, as well as noise does by chance; χ² has to be smooth there, and samples about it to
    find no better valley. Where contact has cut small ones, starts that go together end in the same wrong one.

    Args:
        problem: The problem.
        iterates: Starts that follow the clip so far.
        solved: True where the noise explains these frames (starts,).
        plan: Settings.
        rng: Draws the samples.

    Returns:
        The number of linearisations, and the starts.
    """
    if not (solved.all() and _are_one(problem, iterates)):
        return 0, None
    target_cost = solved_cost(problem, problem.frames, 1.0)
    rest, least = 1e-6 * target_cost, 0.01 * min(1.0, target_cost)
    ended, count = descend(problem, iterates, problem.frames, "pixels", LEAP_ITERATIONS, rest, least, plan.rtol)
    if not (_solved(ended, target_cost).all() and _are_one(problem, ended)):
        return count, None
    best = ended.u[int(ended.cost.argmin())]
    _, fisher, _ = problem.linearize(best[None], problem.frames)
    if secant_fisher(problem, best, fisher[0])[1] or not is_quadratic(problem, best, fisher[0]):
        return count + 1, None
    if plan.explore:
        starts = torch.arange(len(ended.cost))
        _, who, n = _explore(problem, ended, starts, problem.frames, rng)
        count += n
        if (who < 0).any():
            return count, None
    return count, ended


def _extend_to_full_clip(problem: Problem, iterates: Population, solved: Tensor, frames: int) -> tuple[int, Tensor]:
    """Take the best of the solved starts to the end of the clip in strides; if one explains it, all that come to it.

    Returns the number of linearisations, and which starts are there.
    """
    order = iterates.cost.argsort()
    order, extended = order[solved[order]], torch.zeros_like(solved)
    best, _, count = _extend(problem, iterates[order[:MIN_SOLVED_STARTS]], frames)
    if not len(best.cost):
        return count, extended
    best = best[[int(best.cost.argmin())]]
    best, n = descend(problem, best, problem.frames, "pixels", 60, _rest(problem, best.u[0]))
    near = lambda u: ((u - best.u) / problem.space.unit).abs().amax(1) < MERGE_DISTANCE
    extended[order[near(iterates.u[order])]] = True
    rest = order[~extended[order]]
    came, which, m = _extend(problem, iterates[rest], frames, near)
    extended[rest[which[near(came.u)]]] = True
    iterates.put(extended, best[torch.zeros(int(extended.sum()), dtype=torch.int64)])
    return count + n + m, extended


def _extend(
    problem: Problem,
    near: Population,
    frames: int,
    there: Callable[[Tensor], Tensor] = lambda u: torch.zeros(len(u), dtype=torch.bool),
) -> tuple[Population, Tensor, int]:
    """Starts that explain the clip so far, and more and more of it; those that are `there` rest.

    Returns those that explain all of it or are there, which they are, and the number of linearisations.
    """
    count, arrived = 0, []
    which = torch.arange(len(near.cost))
    while len(which):
        rests = there(near.u) if frames < problem.frames else torch.ones_like(which, dtype=torch.bool)
        arrived.append((near[rests], which[rests]))
        near, which = near[~rests], which[~rests]
        if not len(which):
            break
        frames = min(problem.frames, math.ceil(CLIP_GROWTH * frames))
        target_cost = solved_cost(problem, frames)
        near, n = descend(problem, near, frames, "pixels", 8, 1e-6 * target_cost)
        count += n
        good = near.cost < target_cost
        if not good.any():
            good = near.cost < _rounding(problem, near.u[int(near.cost.argmin())], frames)
        near, which = near[good], which[good]
    arrived.append((near, which))
    iterates = Population(*(torch.cat([getattr(p, k) for p, _ in arrived]) for k in ("u", "cost", "damping")))
    return iterates, torch.cat([k for _, k in arrived]), count


def _rest(problem: Problem, u: Tensor) -> float:
    """Cost of frames without noise below which residuals are rounding."""
    return max(
        ROUNDING * problem.observation.noise_floor(problem.frames).informative, _rounding(problem, u, problem.frames)
    )


def _rounding(problem: Problem, u: Tensor, frames: int) -> float:
    """Cost of a perfect fit with the unknowns off by one or two units in the last place.

    Where it is larger than a cost, rounding is all that the cost is made of.
    """
    up = torch.full_like(u, torch.inf)
    near = torch.nextafter(u, up)
    r = problem.residuals(torch.stack([u, near, torch.nextafter(near, up)]), frames)
    return (r[1:] - r[0]).square().sum(1).nan_to_num(0.0).max().item()


def _replace_unsolved(
    problem, iterates: Population, who: Tensor, solved: Tensor, frames: int, keep: int, rng: np.random.Generator
):
    """Unsolved starts give their places to neighbours of solved ones; places that are not needed go."""
    sources = solved.nonzero()[:, 0]
    missing = max(0, keep - len(sources))
    if not len(sources) or not missing:
        chosen = solved if len(sources) else torch.ones_like(solved)
        return iterates[chosen], who[chosen]
    parents = iterates.u[sources[torch.tensor(rng.integers(len(sources), size=missing))]]
    _, A, _ = problem.linearize(parents, _fewer(frames, rng))
    fresh = Population.at(_along_weak(problem, parents, A, rng.uniform(0.3, 3.0, missing), rng))
    fresh.cost = problem.cost(fresh.u, frames)
    old = iterates[sources]
    joined = Population(*(torch.cat([getattr(old, k), getattr(fresh, k)]) for k in ("u", "cost", "damping")))
    return joined, torch.cat([who[sources], torch.full((missing,), -1)])


def _fewer(frames: int, rng: np.random.Generator) -> int:
    """Frames whose Fisher information shapes a new start: fewer leave more open, and know less of late contacts."""
    return max(2, round(frames * rng.choice([0.5, 0.75, 1.0])))


def _resample(
    problem: Problem, iterates: Population, places: Tensor, frames: int, rng: np.random.Generator
) -> Population:
    """New starts in place of those at `places`, from the best four or from themselves, along weak directions."""
    order = iterates.cost.argsort()[:4]
    sources = [int(order[rng.integers(len(order))]) if rng.random() < 0.8 else int(p) for p in places]
    _, A, _ = problem.linearize(iterates.u[sources], _fewer(frames, rng))
    return Population.at(_along_weak(problem, iterates.u[sources], A, 10 ** rng.uniform(-2, 2, len(places)), rng))


def _along_weak(problem: Problem, u: Tensor, A: Tensor, size: np.ndarray, rng: np.random.Generator) -> Tensor:
    """u moved by `size` standard deviations of the Fisher information, by at most 0.7 in any one of its axes."""
    eigenvalues, axes = torch.linalg.eigh(A.nan_to_num(0.0))
    spread = (torch.tensor(size)[:, None] * eigenvalues.clamp(min=1e-12).rsqrt()).clamp(max=0.7)
    noise = torch.tensor(rng.standard_normal(u.shape))
    return (u + (axes @ (spread * noise)[..., None])[..., 0]).clamp(problem.space.low, problem.space.high)


def restart_around_best(
    problem: Problem, iterates: Population, rng: np.random.Generator, rounds: int
) -> tuple[Population, int]:
    """Escape the small valleys that contact makes at the scale of the noise: restarts around the best.

    It ends after two rounds in a row without a gain.

    Args:
        problem: The problem.
        iterates: With their costs; the best is overwritten where a restart is better.
        rng: Draws the restarts.
        rounds: Most rounds.

    Returns:
        The population, and the number of linearizations.
    """
    count = failures = 0
    least = max(1e-9, _rounding(problem, iterates.u[int(iterates.cost.argmin())], problem.frames))
    for _ in range(rounds):
        k = int(iterates.cost.argmin())
        if iterates.cost[k] < least or failures == 2:
            break
        tries = 8
        parents = iterates.u[k].expand(tries, -1)
        _, A, _ = problem.linearize(parents[:1], _fewer(problem.frames, rng))
        u = _along_weak(problem, parents, A.expand(tries, -1, -1), 10 ** rng.uniform(-1, 1, tries), rng)
        near, n = descend(
            problem, Population.at(u), problem.frames, "pixels", 12, min_decrease=_least_decrease(problem)
        )
        count += n
        best = int(near.cost.argmin())
        failures = 0 if near.cost[best] < iterates.cost[k] - 0.01 else failures + 1
        if near.cost[best] < iterates.cost[k]:
            iterates.put([k], near[[best]])
    return iterates, count
