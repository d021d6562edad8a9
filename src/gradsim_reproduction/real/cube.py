"""Friction and gravity from tosses of a real cube, and what they say of tosses that the fit never saw.

No force of known size acts, so the motion depends on stiffness and friction stiffness over mass alone, and the fit has
to say that the mass is open. Eight tosses are fitted in short clips; the others are predicted open loop from their
first frames, and compared with flights that know no contact.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.errors import Status
from gradsim.identification.clip_jackknife import jackknife_estimates, leave_one_out
from gradsim.identification.fit import Estimate, Fit
from gradsim.identification.solvers.clip_ensemble import ClipIterates, ClipsProblem, descend, scatter
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.runtime.progress import Progress
from gradsim.scene import Scene
from gradsim_reproduction.real.cube_predictions import SEEN, Prediction, images, predict
from gradsim_reproduction.real.cube_recordings import FPS, SIDE, Noise, Toss, clips, load, noise
from gradsim_reproduction.runner import Outcome, Run, experiment

UNKNOWNS = (
    "cube.mass:0.1:2",
    "ground.stiffness:1e3:1e5",
    "ground.dissipation:0.1:10",
    "ground.friction_stiffness:1:100",
    "ground.friction:0.05:1",
    "gravity.z:-15:-5",
    "ground.height:-0.005:0.005",
)
SCALE = ("cube.mass", "ground.stiffness", "ground.friction_stiffness")  # only their ratios can show
FITTED = 8  # tosses that are fitted; the others are predicted
CLIP = 16  # frames in a clip, 0.1 s; longer ones are explained worse (χ²/N: 16 frames 1.1, 20 frames 1.4, 25 frames 5)
OTHER_CLIP = 20  # frames in the clips of a second fit, which shows how much the cut matters
STABLE = 0.5  # time step over the largest stable one anywhere in the ranges
COPIES = 2  # further places about the answer from which the fits without a toss start
FINER = 4  # times more steps in a fit that shows how much the time step matters


@dataclass(frozen=True)
class SearchBudget:
    """Budget of the fit.

    Args:
        fitted: Number of tosses.
        starts: Number drawn.
        stages: Stages of the search: stride of the clips, copies scattered about each start, iterations, and how
            many go on.
        refit: Iterations of a fit that starts from the answer.
    """

    fitted: int
    starts: int
    stages: tuple[tuple[int, int, int, int], ...]
    refit: int


FULL = SearchBudget(FITTED, 24, ((3, 0, 8, 6), (1, 0, 12, 2), (1, 3, 12, 2)), 8)
QUICK = SearchBudget(4, 6, ((3, 0, 6, 2), (1, 0, 10, 1)), 2)


@experiment("real-cube", "Friction and gravity from tosses of a real cube")
def real_cube(run: Run) -> Outcome:
    """Fit 8 tosses, predict the other 4; writes history.json, scene.yaml and plots.

    The seed chooses the tosses and the starts. Quick: fits 4 of the 8, with fewer starts and iterations.

    Raises:
        InputError: If the recordings are not there.
    """
    out, seed, progress, effort = run.out, run.seed, run.progress, QUICK if run.quick else FULL
    fitted, others = split(load(), seed)
    fitted = fitted[: effort.fitted]
    sigma, space = noise(fitted), Space(scene(CLIP), UNKNOWNS)
    problem = problem_of(fitted, sigma, space)
    rng = np.random.default_rng(seed)
    initial = space.draw(rng, effort.starts)
    ends, who, history = search(problem, initial, effort.stages, rng, progress)

    progress.stage("again without each toss in turn")
    names, left_out = leave_one_out(problem, scatter(problem, ends[[0]], COPIES, rng), effort.refit)
    progress.stage(f"again with clips of {OTHER_CLIP} frames")
    recut = refit(problem_of(fitted, sigma, space, OTHER_CLIP), ends.u, effort.refit)
    progress.stage("again with finer steps")
    fine = refit(problem_of(fitted, sigma, space, finer=FINER), ends.u[:1], effort.refit)
    estimates, verdict, bars = jackknife_estimates(problem, ends[[0]], left_out, recut[None])
    progress.stage(f"predicting {len(others)} tosses")
    predictions = predict(model(space, CLIP), space, ends.u[0], others)

    without = {name: _numbers(space, u) for name, u in zip(names, left_out, strict=True)}
    known = all(e.identifiable for e in estimates.values())
    fit = Fit.of(
        problem,
        status=Status.OK if known else Status.UNIDENTIFIABLE,
        unknowns=estimates,
        uncertainty=verdict,
        sigma_reference=sigma.flight,
        chi2_per_n=problem.chi2_per_n(ends)[0].item(),
        informative=problem.residuals * len(problem.clips),
        seed=seed,
        starts={"count": effort.starts, "converged": int(_agree(space, ends.u, estimates).sum())},
        iterations=history[-1]["iteration"],
        history=history,
        population=_population(space, initial, ends, who),
    )
    fit.save(out)
    scene(CLIP).save(out / "scene.yaml")
    result = {
        **fit.result(),
        "tosses": {"fitted": [t.name for t in fitted], "predicted": [t.name for t in others]},
        "start_frames": SEEN,
        "clip_frames": CLIP,
        "noise": asdict(sigma),
        "error_bars": bars,
        "without_toss": without,
        f"clips_of_{OTHER_CLIP}_frames": _numbers(space, recut),
        "finer_steps": _numbers(space, fine),
        "time_step": problem.model.dt,
        "images": images(out, predictions, estimates, without),
    }
    return result, _figures(fit, predictions, recut, fine, space)


def split(tosses: Sequence[Toss], seed: int) -> tuple[list[Toss], list[Toss]]:
    """Tosses to fit and tosses to predict: the first 8 of a permutation that the seed draws, and the others."""
    order = np.random.default_rng(seed).permutation(len(tosses))
    return [tosses[k] for k in order[:FITTED]], [tosses[k] for k in order[FITTED:]]


def scene(frames: int) -> Scene:
    """A cube above a table, in the default contact law. What is unknown has any value here."""
    cube = {"shape": {"box": {"size": [SIDE] * 3}}, "mass": 1.0, "position": [0, 0, 1]}
    content = {
        "timing": {"fps": FPS, "frames": frames, "integrator": "semi-implicit"},
        "bodies": {"cube": cube},
        "ground": {},
    }
    return Scene.parse({"name": "tosses of a real cube", **content})


def model(space: Space, frames: int, finer: int = 1) -> Model:
    """A model whose step is stable anywhere in the ranges; `finer` divides it further."""
    draft = Model(scene(frames), substeps=1000)
    ends = torch.cartesian_prod(*torch.stack([space.low, space.high], 1))
    limit = min(system.stable_step(draft.values(space.values(ends))) for system in draft.systems)
    return Model(scene(frames), substeps=finer * math.ceil(1 / (FPS * STABLE * limit)))


def problem_of(tosses: Sequence[Toss], sigma: Noise, space: Space, frames: int = CLIP, finer: int = 1) -> ClipsProblem:
    """The fit of these tosses in clips of this number of frames."""
    return ClipsProblem(model(space, frames, finer), "cube", clips(tosses, sigma, frames), space)


def search(
    problem: ClipsProblem,
    initial: Tensor,
    stages: Sequence[tuple[int, int, int, int]],
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[ClipIterates, Tensor, list[dict]]:
    """Lead starts (starts, unknowns) down, first on a part of the clips, and fewer from stage to stage.

    Returns:
        The last ones, best first; which of the starts they come from; and an entry for each iteration.
    """
    who, iterates = torch.arange(len(initial)), problem.at(initial)
    history: list[dict] = []
    for stride, copies, iterations, keep in stages:
        part = problem.part(range(0, len(problem.clips), stride))
        if iterates.local.shape[1] != len(part.clips):
            iterates = part.at(iterates.u)
        iterates, who = scatter(part, iterates, copies, rng), who.repeat(copies + 1)
        name = f"{len(who)} starts on {len(part.clips)} clips"
        progress.stage(f"{name} of {part.frames} frames")

        iterates = descend(part, iterates, iterations, report=_reporter(part, name, history, progress))
        best = iterates.cost.argsort()[:keep]
        iterates, who = iterates[best], who[best]
    return iterates, who, history


def refit(problem: ClipsProblem, u: Tensor, iterations: int) -> Tensor:
    """The answer (unknowns,) of another problem, from the answers of this one (starts, unknowns)."""
    iterates = descend(problem, problem.at(u), iterations)
    return iterates.u[iterates.cost.argmin()]


def _reporter(
    problem: ClipsProblem, stage: str, history: list[dict], progress: Progress
) -> Callable[[int, ClipIterates], None]:
    """Callback for `descend` that extends the history and reports progress."""

    def report(_: int, now: ClipIterates) -> None:
        k, step = int(now.cost.argmin()), len(history) + 1
        values, cost = _numbers(problem.space, now.u[k]), now.cost[k].item()
        progress.update(step, cost, {key: (value, math.nan) for key, value in values.items()})
        size = {"frames": problem.frames * len(problem.clips), "population": len(now.cost)}
        count = {"iteration": step, "rollouts": problem.effort.rollouts}
        history.append({"stage": stage, "cost": cost, "values": values, **size, **count})

    return report


def _numbers(space: Space, u: Tensor) -> dict[str, float]:
    return dict(zip(space.names, space.numbers(u).tolist(), strict=True))


def _agree(space: Space, u: Tensor, estimates: Mapping[str, Estimate]) -> Tensor:
    """Which starts (starts, unknowns) ended within one standard deviation of every estimate that has one."""
    known = [k for k, e in enumerate(estimates.values()) if e.identifiable]
    values = list(estimates.values())
    value, std = (torch.tensor([getattr(values[k], key) for k in known]).double() for key in ("value", "std"))
    return ((space.numbers(u)[:, known] - value).abs() <= std).all(1)


def _population(space: Space, initial: Tensor, ends: ClipIterates, who: Tensor) -> dict:
    """Starts for history.json; NaN where a start was dropped."""
    final, cost = torch.full_like(initial, torch.nan), torch.full_like(initial[:, 0], torch.nan)
    best_first = torch.arange(len(who)).flip(0)  # where two come from one start, the better one stays
    final[who[best_first]], cost[who[best_first]] = ends.u[best_first], ends.cost[best_first]
    numbers = {"initial": space.numbers(initial).tolist(), "final": space.numbers(final).tolist()}
    return {"names": space.names, **numbers, "cost": cost.tolist()}


def _figures(fit: Fit, predictions: Sequence[Prediction], recut: Tensor, fine: Tensor, space: Space) -> dict:
    friction, g = fit.unknowns["ground.friction"], fit.unknowns["gravity.z"]
    mean = lambda quantity: sum(p.mean(quantity) for p in predictions) / len(predictions)
    error, steady = mean("error"), mean("constant_velocity")
    flagged = _scale_is_open(fit)
    return {
        "friction": figure(friction.value, goal=0.22, ok=0.19 <= friction.value <= 0.25),
        "friction_std": figure(friction.std),
        f"friction_clips_of_{OTHER_CLIP}": figure(_numbers(space, recut)["ground.friction"]),
        "friction_finer_steps": figure(_numbers(space, fine)["ground.friction"]),
        "gravity": figure(-g.value, goal=9.61, ok=abs(-g.value - 9.61) <= 0.1),
        "gravity_std": figure(g.std),
        "mass_flagged": figure(float(flagged), goal=1, ok=flagged),
        "heldout_position_error_m": figure(error, goal=steady),
        "constant_velocity_error_m": figure(steady),
        "ballistic_error_m": figure(mean("ballistic")),
        "heldout_over_constant_velocity": figure(error / steady, goal=1),
        "heldout_rotation_error_rad": figure(mean("turn_error")),
        "chi2_per_n": figure(fit.chi2_per_n),
    }


def _scale_is_open(fit: Fit) -> bool:
    """True if the fit reports that mass, stiffness and friction stiffness can only grow together."""
    if fit.unknowns["cube.mass"].identifiable or not fit.null_directions:
        return False
    weakest = fit.null_directions[0].combination
    expected = {name: (1 / math.sqrt(3) if name in SCALE else 0.0) for name in weakest}
    return all(abs(abs(weakest[name]) - expected[name]) < 0.01 for name in weakest)
