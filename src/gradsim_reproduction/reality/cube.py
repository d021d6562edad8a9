"""Row `cube` of the league: nine tosses are fitted over their whole length, the three others predicted, four times.

    loss(θ) = mean over fitted tosses and frames of |x(θ) - x_measured|          open loop, from the first 8 frames, in flight

What a bounce does to a tumbling cube is not smooth in θ, so the loss is led down by the cross-entropy method (Rubinstein 1999) from the full ranges. Of
two laws of contact with equally many numbers, each fold takes the one of the smaller loss. The prediction is the median of an ensemble: numbers of
the last elite, and starts drawn by the noise of the first frames, since either moves every later bounce. Its bands are the quantiles of
the ensemble about the median, times the factor that covers 95 % of the coordinates of fitted tosses by folds that left them out (cross-conformal: Vovk 2015).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.scene import Scene
from gradsim_reproduction.plotting import DATA, FIT, GREY, WIDTH, new_figure, write_figures
from gradsim_reproduction.real.cube_predictions import SEEN, start_of
from gradsim_reproduction.real.cube_recordings import FPS, SIDE, Toss, load, noise
from gradsim_reproduction.reality.cube_halves import SPLITS, chi2_by_number, fit_half
from gradsim_reproduction.reality.ensemble import band, cross_entropy, scores, widening
from gradsim_reproduction.reality.films import Clip, box_edges, write_film
from gradsim_reproduction.reality.goals import coverage_figure, halves_figure
from gradsim_reproduction.runner import Run

MASS = 0.37  # [kg]; only stiffness and friction stiffness over it show
LAWS = {"continuous": ("dissipation", 0.03, 10.0), "constant-restitution": ("damping", 1.0, 300.0)}  # [s/m], [N s/m]
RANGES = {  # of the numbers that all laws have
    "ground.stiffness": (300.0, 3e4),
    "ground.friction_stiffness": (1.0, 100.0),
    "ground.friction": (0.05, 1.0),
    "gravity": (9.2, 10.2),
    "height": (-0.004, 0.004),
}
LINEAR = ("gravity", "height")  # the others are drawn by their logarithms
SUBSTEPS = 24
FOLDS, QUICK_FOLDS = 4, 4
INNER = 3  # folds of the fitted tosses, whose predictions of what they left out set how wide bands are
POPULATION, ELITE, GENERATIONS, QUICK_GENERATIONS = 192, 24, 30, 4
DRAWS = 16  # starts of each member of the ensemble
FILMED, SLOW, FILMS = 2, 5, 6  # every second frame of a film, slowed down, of so few tosses
GOAL = 20.0  # [mm]
MM = 1e3


def cube_row(run: Run) -> dict:
    """Rows, images and figures of the cube; writes cubes.jsonl.

    Raises:
        InputError: If the recordings are not there.
    """
    tosses = load()
    jobs = {f"fold {k}": (k, run.seed, run.quick) for k in range(QUICK_FOLDS if run.quick else FOLDS)}
    run.progress.stage("fitting tosses of the cube")
    folds = run.records(run.ledger("cubes.jsonl", quick=run.quick), jobs, fit_fold, "folds")
    pairs = {f"split {k}, half {side}": (k, side, run.seed, run.quick) for k in range(SPLITS) for side in (0, 1)}
    halves = run.records(run.ledger("cube_halves.jsonl", quick=run.quick), pairs, fit_half, "halves")
    chi2 = chi2_by_number(list(zip(halves[::2], halves[1::2], strict=True)))
    by_toss = {name: toss for fold in folds for name, toss in fold["predicted"].items()}
    mean = lambda key: float(np.mean([toss[key] for toss in by_toss.values()]))
    record = {
        "row": "cube",
        "position_mm": mean("error_mm"),
        "worst_toss_mm": max(toss["error_mm"] for toss in by_toss.values()),
        "nominal_mm": mean("nominal_mm"),
        "constant_velocity_mm": mean("constant_velocity_mm"),
        "still_mm": mean("still_mm"),
        "fitted_mm": float(np.mean([fold["loss_mm"] for fold in folds])),
        "coverage": float(
            np.average([t["coverage"] for t in by_toss.values()], weights=[len(t["x"]) for t in by_toss.values()])
        ),
        "quarters_mm": np.mean([toss["quarters_mm"] for toss in by_toss.values()], 0).tolist(),
        "tosses": {name: {k: y for k, y in toss.items() if k not in ("x", "film")} for name, toss in by_toss.items()},
        "folds": [
            {"law": f["law"], "numbers": f["numbers"], "loss_mm": f["losses_mm"], "fitted": f["fitted"]} for f in folds
        ],
        "halves": halves,
        "chi2_of_halves": chi2,
    }
    figures = {
        "cube_position_mm": figure(record["position_mm"], goal=GOAL),
        "cube_constant_velocity_mm": figure(record["constant_velocity_mm"]),
        "cube_band_coverage": coverage_figure(record["coverage"]),
        "cube_halves": halves_figure(float(np.mean(list(chi2.values())))),
    }
    return {"rows": [record], "images": draw(run.out, by_toss, tosses), "figures": figures}


@cache
def model(law: str, frames: int) -> Model:
    """A cube above a table, in a law of contact."""
    key, low, _ = LAWS[law]
    cube = {"shape": {"box": {"size": [SIDE] * 3}}, "mass": MASS, "position": [0, 0, 1]}
    ground = {"law": law, key: low, "stiffness": RANGES["ground.stiffness"][0]}
    timing = {"fps": FPS, "frames": frames, "integrator": "semi-implicit", "substeps": SUBSTEPS}
    return Model(Scene.parse({"timing": timing, "bodies": {"cube": cube}, "ground": ground}))


@dataclass(frozen=True, eq=False)
class Contact:
    """Numbers of a law of contact, drawn within their ranges.

    Args:
        law: Name in `LAWS`.
    """

    law: str

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        key, low, high = LAWS[self.law]
        return {**RANGES, f"ground.{key}": (low, high)}

    def numbers(self, u: np.ndarray) -> dict[str, np.ndarray]:
        """Numbers of coordinates u (k, n) in [0, 1]."""
        columns = {}
        for (name, (low, high)), y in zip(self.ranges.items(), np.clip(u, 0, 1).T, strict=True):
            columns[name] = low + y * (high - low) if name in LINEAR else low * (high / low) ** y
        return columns

    def predict(self, u: np.ndarray, starts: Sequence[Mapping[str, Tensor]], frames: int) -> Tensor:
        """Positions (k, starts, frames, 3) [m] for each of u (k, n) and each start; arguments as of `poses`."""
        return self.poses(u, starts, frames)[0]

    def worlds(self, u: np.ndarray, starts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Parameters of k · starts worlds, for each of u (k, n) one from each start; arguments as of `poses`."""
        numbers = {name: torch.tensor(y) for name, y in self.numbers(u).items()}
        k, n = len(u), len(starts)
        spread = lambda y: y[:, None].expand(k, n).reshape(-1)
        g, height = spread(numbers.pop("gravity")), spread(numbers.pop("height"))
        values = {name: spread(y) for name, y in numbers.items()}
        values["gravity"] = torch.stack([0 * g, 0 * g, -g], 1)
        values["ground.height"] = height
        for key in starts[0]:
            base = torch.stack([start[key] for start in starts])[None].expand(k, n, *starts[0][key].shape)
            values[key] = base.flatten(0, 1).contiguous()
        # a parabola through the first frames, whose start depends on gravity in proportion
        values["cube.position"] = values["cube.position"] + g[:, None] * values.pop("position_by_gravity")
        values["cube.velocity"] = values["cube.velocity"] + g[:, None] * values.pop("velocity_by_gravity")
        return values

    def poses(self, u: np.ndarray, starts: Sequence[Mapping[str, Tensor]], frames: int) -> tuple[Tensor, Tensor]:
        """Positions (k, starts, frames, 3) [m] and orientations (k, starts, frames, 4) for each of u (k, n) and each start.

        Args:
            u: Coordinates of numbers.
            starts: Starts by gravity 1 and 0: see `flights`.
            frames: Number of frames.
        """
        values = self.worlds(u, starts)
        with torch.no_grad():
            cube = model(self.law, frames)
            states = cube.rollout_unchecked(cube.values(values), frames)["cube"]
        shape = len(u), len(starts)
        return states["x"].unflatten(0, shape), states["q"].unflatten(0, shape)


def flights(
    tosses: Sequence[Toss], draws: int, sigma: tuple[float, float], rng: np.random.Generator
) -> list[dict[str, Tensor]]:
    """Starts of tosses from their first `SEEN` frames: first those of the frames, then with noise drawn on each.

    Args:
        tosses: Tosses; the starts of one toss follow one another.
        draws: Starts of each toss.
        sigma: Noise of positions [m] and orientations [rad] in flight.
        rng: Source of the noise.
    """
    starts = []
    for toss in tosses:
        first = toss[:SEEN]
        for k in range(draws):
            shift, turn = (torch.tensor(rng.normal(0, s * (k > 0), (SEEN, 3))) for s in sigma)
            noisy = Toss(toss.name, first.x + shift, rotation.multiply(rotation.exponential(turn), first.q))
            at, along = start_of(noisy, 0.0), start_of(noisy, 1.0)
            starts.append(
                at | {f"{key}_by_gravity": along[f"cube.{key}"] - at[f"cube.{key}"] for key in ("position", "velocity")}
            )
    return starts


def distances(x: Tensor, tosses: Sequence[Toss]) -> np.ndarray:
    """Mean distance (k, tosses) [m] of predictions (k, tosses, frames, 3) over the frames that were not seen."""
    off = [
        torch.linalg.vector_norm(x[:, j, SEEN : len(toss)] - toss.x[SEEN:], dim=-1).mean(1)
        for j, toss in enumerate(tosses)
    ]
    return torch.stack(off, 1).nan_to_num(1.0).numpy()


def search(
    contact: Contact, tosses: Sequence[Toss], generations: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """The last elite (members, numbers), best first, and the loss [m] of the best of all."""
    starts = flights(tosses, 1, (0.0, 0.0), rng)
    frames, n = max(map(len, tosses)), len(contact.ranges)
    loss = lambda u: distances(contact.predict(u, starts, frames), tosses).mean(1)
    return cross_entropy(loss, n, POPULATION, ELITE, generations, rng)


def split_fold(fold: int, seed: int) -> tuple[list[Toss], list[Toss]]:
    """Tosses that a fold fits, and every fourth of a permutation, which it predicts."""
    tosses = load()
    order = np.random.default_rng(seed).permutation(len(tosses))
    others = [tosses[k] for k in order[fold::FOLDS]]
    return [toss for toss in tosses if toss.name not in {t.name for t in others}], others


def fit_fold(job: tuple[int, int, bool]) -> Mapping:
    """Fit the tosses of a fold, and predict the others."""
    fold, seed, quick = job
    fitted, others = split_fold(fold, seed)
    rng = np.random.default_rng([seed, fold])
    sigma = noise(fitted)
    ends = {law: search(Contact(law), fitted, QUICK_GENERATIONS if quick else GENERATIONS, rng) for law in LAWS}
    law = min(ends, key=lambda name: ends[name][1])
    contact, (members, loss) = Contact(law), ends[law]
    ensemble = lambda part: predict_ensemble(contact, members, part, (sigma.flight, sigma.spin), rng)
    inner = []
    for k in range(INNER):
        part = [toss for j, toss in enumerate(fitted) if j % INNER != k]
        rest = [toss for j, toss in enumerate(fitted) if j % INNER == k]
        elite, _ = search(contact, part, QUICK_GENERATIONS if quick else GENERATIONS, rng)
        inner += zip(rest, predict_ensemble(contact, elite, rest, (sigma.flight, sigma.spin), rng), strict=True)
    factor = widening([x[:, SEEN:] for _, x in inner], [toss.x[SEEN:] for toss, _ in inner])
    record = {
        "law": law,
        "numbers": {key: float(y[0]) for key, y in contact.numbers(members[:1]).items()},
        "losses_mm": {name: MM * end[1] for name, end in ends.items()},
        "loss_mm": MM * loss,
        "fitted": [toss.name for toss in fitted],
        "widening": factor,
        "predicted": {},
    }
    one = contact.poses(members[:1], flights(others, 1, (0.0, 0.0), rng), max(map(len, others)))
    for k, (toss, x) in enumerate(zip(others, ensemble(others), strict=True)):
        film = {"film": [y[0, k, : len(toss) : FILMED].tolist() for y in one]}
        record["predicted"][toss.name] = _prediction(toss, x, factor) | film
    return record


def predict_ensemble(
    contact: Contact, members: np.ndarray, tosses: Sequence[Toss], sigma: tuple[float, float], rng: np.random.Generator
) -> list[Tensor]:
    """Positions (members · draws, frames, 3) of each toss, the best member from the frames themselves first."""
    frames = max(map(len, tosses))
    x = contact.predict(members, flights(tosses, DRAWS, sigma, rng), frames).unflatten(1, (len(tosses), DRAWS))
    return [x[:, j, :, : len(toss)].flatten(0, 1).nan_to_num(0.0) for j, toss in enumerate(tosses)]


def _prediction(toss: Toss, x: Tensor, factor: float) -> dict:
    """Errors of a toss that was not fitted, with trivial predictors."""
    middle = band(x)[0]
    distance = lambda y: torch.linalg.vector_norm(y - toss.x, dim=-1)[SEEN:].numpy()
    start = start_of(toss[:SEEN], 9.8)
    times = torch.arange(len(toss)).double()[:, None] / FPS
    off = distance(middle)
    return {
        "error_mm": MM * float(off.mean()),
        "nominal_mm": MM * float(distance(x[0]).mean()),
        "constant_velocity_mm": MM * float(distance(start["cube.position"] + times * start["cube.velocity"]).mean()),
        "still_mm": MM * float(distance(toss.x[SEEN - 1].expand(len(toss), 3)).mean()),
        "quarters_mm": [MM * float(part.mean()) for part in np.array_split(off, 4)],
        "coverage": float((scores(x[:, SEEN:], toss.x[SEEN:]) <= factor).double().mean()),
        "x": middle.tolist(),
    }


def draw(out: Path, predicted: Mapping[str, Mapping], tosses: Sequence[Toss]) -> list[dict[str, str]]:
    """Write plots into a folder.

    Args:
        out: The folder.
        predicted: Prediction of each toss by name.
        tosses: The recordings.

    Returns:
        File, title and caption of each image.
    """

    def paths():
        chosen = [toss for toss in tosses if toss.name in predicted]
        figure = new_figure(WIDTH, 1.5 * len(chosen))
        for row, toss in zip(figure.subplots(len(chosen), 2, squeeze=False), chosen, strict=True):
            x, times = np.array(predicted[toss.name]["x"]), np.arange(len(toss)) / FPS
            for ax, part, words in zip(row, (slice(2, 3), slice(0, 2)), ("height [cm]", "x, y [cm]"), strict=True):
                ax.plot(times, 100 * toss.x[:, part].numpy(), color=DATA, lw=2)
                ax.plot(times, 100 * x[:, part], color=FIT, lw=1)
                ax.axvspan(0, SEEN / FPS, color=GREY, alpha=0.3, lw=0)
                ax.set_ylabel(words, fontsize=7)
                ax.tick_params(labelsize=6)
            row[0].set_title(f"toss {toss.name}: {predicted[toss.name]['error_mm']:.0f} mm", fontsize=7)
        return figure

    caption = "Recorded (orange) and predicted (blue) positions of each toss, by the fold that did not fit it; gray: frames of the start."
    film = write_film(
        out / "cube_film.gif",
        [_clip(toss, predicted[toss.name]) for toss in tosses if toss.name in predicted][:FILMS],
        FPS / FILMED / SLOW,
        "Cube: film",
        f"Recorded (orange) and predicted (blue) cubes, {SLOW} times slower, by the numbers of least loss; of tosses by the fold that did not fit them.",
    )
    return [*write_figures(out, {"cube": (paths, "Cube: tosses not fitted", caption)}), film]


def _clip(toss: Toss, predicted: Mapping) -> Clip:
    """A toss with its prediction."""
    x, q = (torch.tensor(y).double() for y in predicted["film"])
    recorded = box_edges(toss.x[::FILMED].numpy(), rotation.to_matrix(toss.q[::FILMED]).numpy(), [SIDE] * 3)
    title = f"toss {toss.name}: {predicted['error_mm']:.0f} mm"
    return Clip(title, recorded, box_edges(x.numpy(), rotation.to_matrix(q).numpy(), [SIDE] * 3), floor=0.0)
