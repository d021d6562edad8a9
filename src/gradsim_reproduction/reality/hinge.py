"""Row `hinge` of the league: ten tosses of two links on a hinge are fitted over their whole length, the 38 others predicted.

Two boxes of 10 × 5 × 5 cm, whose masses are equal, with a hinge that moves on its own (`ebianchi/dair_pll`, BSD-3; 48 tosses at 147 Hz of link 1's pose and the
angle of the hinge). Nine numbers: friction, loss of a bounce, stiffness and friction stiffness of the contact, dry friction and damping of the hinge, the inertia of the
links over that of the authors' file, gravity, and the height of the table. The start of a toss comes from its first 8 frames, in flight, by the same model without
friction in the hinge; fits and bands are those of the cube (`ensemble.py`). The laws with and without friction in the hinge are compared by folds of the ten tosses,
whose predictions of what they left out also set how wide bands are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.errors import InputError
from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.scene import Scene
from gradsim_reproduction.plotting import DATA, FIT, GREY, WIDTH, new_figure, write_figures
from gradsim_reproduction.real.cube_recordings import recordings
from gradsim_reproduction.reality.ensemble import band, cross_entropy, scores, widening
from gradsim_reproduction.reality.films import Clip, box_edges, write_film
from gradsim_reproduction.reality.goals import coverage_figure
from gradsim_reproduction.runner import Run

FPS = 1 / 0.0068  # [Hz]
SEEN = 8  # first frames, from which the start comes
SIZE, MASS, MOMENT = (0.1, 0.05, 0.05), 0.37, 6.167e-4  # [m], [kg], [kg m²], of each link
PIVOT_1, PIVOT_2 = (-0.035, 0.06, 0.0), (-0.035, 0.0, 0.0)  # of the hinge from the center of each link [m]
RANGES = {
    "ground.stiffness": (300.0, 3e4),
    "ground.dissipation": (0.03, 10.0),
    "ground.friction_stiffness": (1.0, 100.0),
    "ground.friction": (0.05, 1.0),
    "inertia": (0.3, 1.5),
    "gravity": (9.2, 10.2),
    "height": (-0.004, 0.004),
    "joints.hinge.damping": (1e-6, 0.03),
    "joints.hinge.friction": (1e-4, 0.03),
}
LINEAR = ("gravity", "height")
LAWS = {"free": 7, "damped": 8, "damped and dry": 9}  # how many of the numbers each law of the hinge has
SLIP = 0.5  # [rad/s] below which friction of the hinge is that of a damper
SUBSTEPS = 16
FITTED, FOLDS = 10, 2
POPULATION, ELITE, GENERATIONS, QUICK_GENERATIONS = 96, 16, 24, 2
DRAWS = 4
POSITION, ANGLE = 5e-4, 5e-3  # [m], [rad] noise of the first frames
STEPS = 3  # of Gauss and Newton's method for a start
FILMED, SLOW, FILMS = 2, 5, 6  # every second frame of a film, slowed down, of so few tosses
GAIN = 5.0  # goal: errors of constant velocity over ours
FAR = 1.0  # [m] error in place of a motion that is not finite
MM = 1e3


@dataclass(frozen=True, eq=False)
class HingeToss:
    """One toss.

    Args:
        name: Its name in the file.
        x: Center of link 1 (frames, 3) [m].
        q: Orientation of link 1 (frames, 4), x, y, z, w.
        angle: Angle of the hinge (frames,) [rad].
    """

    name: str
    x: Tensor
    q: Tensor
    angle: Tensor

    def __len__(self) -> int:
        return len(self.x)

    @cached_property
    def centers(self) -> Tensor:
        """Centers of both links (frames, 6) [m]."""
        return torch.cat([self.x, second_center(self.x, self.q, self.angle)], -1)


def second_center(x: Tensor, q: Tensor, angle: Tensor) -> Tensor:
    """Center of link 2 (..., 3) [m] from pose of link 1 and angle of the hinge, about y."""
    arm = -torch.tensor(PIVOT_2).to(x)
    zero = torch.zeros_like(angle)
    turn = rotation.exponential(torch.stack([zero, angle, zero], -1))
    return x + rotation.rotate(q, torch.tensor(PIVOT_1).to(x) + rotation.rotate(turn, arm.expand(*angle.shape, 3)))


def load() -> list[HingeToss]:
    """All tosses in order of their names.

    Raises:
        InputError: If the file is missing or its arrays are not (frames, 15).
    """
    path = recordings() / "elbow_tosses" / "tosses.npz"
    if not path.is_file():
        raise InputError(f"{path} does not exist; set GRADSIM_REAL_DATA to the folder that holds elbow_tosses/.")
    tosses = []
    with np.load(path, allow_pickle=False) as content:
        for name in sorted(content.files):
            y = torch.tensor(np.asarray(content[name], np.float64))
            if y.ndim != 2 or y.shape[1] != 15 or len(y) < 2 * SEEN or not torch.isfinite(y).all():
                raise InputError(f"`{name}` of {path} has shape {tuple(y.shape)}; expected (frames, 15).")
            q = torch.nn.functional.normalize(y[:, [1, 2, 3, 0]], dim=1)
            tosses.append(HingeToss(name, y[:, 4:7], q, torch.tensor(np.unwrap(y[:, 7].numpy()))))
    return tosses


@cache
def model(frames: int, table: bool = True) -> Model:
    """Two links on a hinge, above a table or without one."""
    link = {"shape": {"box": {"size": list(SIZE)}}, "mass": MASS, "inertia": [MOMENT] * 3}
    hinge = {
        "kind": "revolute",
        "between": ["one", "two"],
        "axis": [0, 1, 0],
        "parent_point": list(PIVOT_1),
        "child_point": list(PIVOT_2),
        "friction": RANGES["joints.hinge.friction"][0],
        "friction_rate": SLIP,
    }
    timing = {"fps": FPS, "frames": frames, "integrator": "semi-implicit", "substeps": SUBSTEPS}
    content: dict[str, dict] = {
        "bodies": {"one": {**link, "position": [0, 0, 1]}, "two": link},
        "joints": {"hinge": hinge},
    }
    if table:
        content["ground"] = {"stiffness": RANGES["ground.stiffness"][0], "dissipation": RANGES["ground.dissipation"][0]}
    return Model(Scene.parse({**content, "timing": timing}))


KEYS = ("one.position", "one.rotation_vector", "one.velocity", "one.angular_velocity")
STATE = 14  # coordinates of a start: those of `KEYS`, then angle and rate of the hinge


def rollout(
    values: Mapping[str, Tensor], starts: Tensor, frames: int, table: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """x (worlds, frames, 3), q (worlds, frames, 4) of link 1 and the angle (worlds, frames), from starts (worlds, 14)."""
    values = dict(values)
    parts = starts.split([3, 3, 3, 3, 1, 1], 1)
    values |= dict(zip(KEYS, parts, strict=False))
    values |= {"joints.hinge.angle": parts[4][:, 0], "joints.hinge.rate": parts[5][:, 0]}
    links = model(frames, table)
    with torch.no_grad():
        full = links.values(values)
        trajectory = links.rollout_unchecked(full, frames)
        one, two = trajectory["one"], trajectory["two"]
        relative = rotation.multiply(rotation.conjugate(one["q"]), two["q"])
        angle = 2 * torch.atan2(relative[..., 1], relative[..., 3])
    return one["x"], one["q"], angle


def start_of(tosses: Sequence[HingeToss]) -> Tensor:
    """Starts (tosses, 14) whose flight is nearest to the first frames, by Gauss and Newton's method with differences."""
    times = torch.arange(SEEN).double() / FPS
    guesses = []
    for toss in tosses:
        middle = toss.q[SEEN // 2]
        turned = rotation.logarithm(rotation.multiply(toss.q[:SEEN], rotation.conjugate(middle)))
        line = torch.linalg.pinv(torch.stack([torch.ones_like(times), times], 1))
        turn, spin = line @ turned
        place, velocity = line @ toss.x[:SEEN]
        angle, rate = line @ toss.angle[:SEEN]
        first = rotation.logarithm(rotation.multiply(rotation.exponential(turn), middle))
        guesses.append(torch.cat([place, first, velocity, spin, angle[None], rate[None]]))
    starts, probe = torch.stack(guesses), 1e-5
    for _ in range(STEPS):
        ways = torch.cat([starts[:, None], starts[:, None] + probe * torch.eye(STATE).double()], 1)
        residual = _flight_errors(ways, tosses)
        slopes = (residual[:, 1:] - residual[:, :1]) / probe
        moves = [
            torch.linalg.lstsq(J.T, r[:, None]).solution[:, 0] for J, r in zip(slopes, residual[:, 0], strict=True)
        ]
        starts = starts - torch.stack(moves)
    return starts


def _flight_errors(starts: Tensor, tosses: Sequence[HingeToss]) -> Tensor:
    """Residuals (tosses, ways, ·) of the first frames, over their noise, of flights from starts (tosses, ways, 14)."""
    x, q, angle = rollout({}, starts.flatten(0, 1), SEEN, table=False)
    ways = starts.shape[1]
    parts = []
    for k, toss in enumerate(tosses):
        mine = slice(k * ways, (k + 1) * ways)
        turned = rotation.logarithm(rotation.multiply(q[mine], rotation.conjugate(toss.q[:SEEN])))
        off = (angle[mine] - toss.angle[:SEEN] + np.pi) % (2 * np.pi) - np.pi
        pieces = ((x[mine] - toss.x[:SEEN]) / POSITION, turned / ANGLE, off[..., None] / ANGLE)
        parts.append(torch.cat(pieces, -1).flatten(1))
    return torch.stack(parts)


def numbers(u: np.ndarray, law: str) -> dict[str, np.ndarray]:
    """Numbers of a law at coordinates u (k, n) in [0, 1]; those that it has not are 0."""
    columns = {}
    for k, (name, (low, high)) in enumerate(RANGES.items()):
        if k >= LAWS[law]:
            columns[name] = np.zeros(len(u))
            continue
        y = np.clip(u[:, k], 0, 1)
        columns[name] = low + y * (high - low) if name in LINEAR else low * (high / low) ** y
    return columns


def predict(u: np.ndarray, law: str, starts: Tensor, frames: int) -> tuple[Tensor, Tensor]:
    """Centers of both links (k, starts, frames, 6) [m], and orientations of link 1 (k, starts, frames, 4)."""
    columns = {name: torch.tensor(y) for name, y in numbers(u, law).items()}
    k, n = len(u), len(starts)
    spread = lambda y: y[:, None].expand(k, n).reshape(-1)
    g, inertia = spread(columns.pop("gravity")), spread(columns.pop("inertia"))
    height = spread(columns.pop("height"))
    values = {name: spread(y) for name, y in columns.items()}
    values["ground.height"] = height
    values["gravity"] = torch.stack([0 * g, 0 * g, -g], 1)
    values |= {f"{name}.inertia": MOMENT * inertia[:, None].expand(-1, 3).contiguous() for name in ("one", "two")}
    x, q, angle = rollout(values, starts[None].expand(k, n, STATE).reshape(-1, STATE), frames)
    centers = torch.cat([x, second_center(x, q, angle)], -1)
    return centers.unflatten(0, (k, n)), q.unflatten(0, (k, n))


def distance(x: Tensor, truth: Tensor) -> Tensor:
    """Mean distance of both links (..., frames) [m]; `FAR` where it is not finite."""
    off = (x - truth).unflatten(-1, (2, 3)).norm(dim=-1).mean(-1)
    return off.nan_to_num(FAR, FAR, FAR)


def fit(tosses: Sequence[HingeToss], law: str, generations: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Best coordinates, then the last elite, and the loss [m]: mean distance over tosses and frames."""
    starts, frames = start_of(tosses), max(map(len, tosses))

    def loss(u: np.ndarray) -> np.ndarray:
        x, _ = predict(u, law, starts, frames)
        each_toss = [distance(x[:, k, SEEN : len(t)], t.centers[SEEN:]).mean(1) for k, t in enumerate(tosses)]
        return torch.stack(each_toss, 1).mean(1).numpy()

    return cross_entropy(loss, LAWS[law], POPULATION, ELITE, generations, rng)


def ensemble(
    tosses: Sequence[HingeToss], law: str, members: np.ndarray, rng: np.random.Generator
) -> list[tuple[Tensor, Tensor]]:
    """Centers (members · draws, frames, 6) and orientations of each toss; starts are drawn by the noise of their frames."""
    noisy = []
    for toss in tosses:
        for k in range(DRAWS):
            shift, turn = (torch.tensor(rng.normal(0, s * (k > 0), (len(toss), 3))) for s in (POSITION, ANGLE))
            off = torch.tensor(rng.normal(0, ANGLE * (k > 0), len(toss)))
            q = rotation.multiply(rotation.exponential(turn), toss.q)
            noisy.append(HingeToss(toss.name, toss.x + shift, q, toss.angle + off))
    frames = max(map(len, tosses))
    x, q = (y.unflatten(1, (len(tosses), DRAWS)) for y in predict(members, law, start_of(noisy), frames))
    return [
        (x[:, k, :, : len(t)].flatten(0, 1).nan_to_num(0.0), q[:, k, :, : len(t)].flatten(0, 1))
        for k, t in enumerate(tosses)
    ]


def hinge_row(run: Run) -> dict:
    """Row, images and figures of the two-link body; writes hinge.jsonl.

    Raises:
        InputError: If the recordings are not there.
    """
    tosses = load()
    run.progress.stage("fitting tosses of the hinge")
    jobs = {"hinge": (run.seed, run.quick)}
    record = dict(run.records(run.ledger("hinge.jsonl", quick=run.quick), jobs, fit_row, "laws")[0])
    images = draw(run.out, record, tosses)
    by_toss = record["tosses"].values()
    mean = lambda key: np.mean([toss[key] for toss in by_toss], 0).tolist()
    keys = ("position_mm", "rotation_deg", "steady_position_mm", "steady_rotation_deg", "still_position_mm", "coverage")
    record |= {key: mean(key) for key in (*keys, "position_quarters_mm", "rotation_quarters_deg")}
    hidden = ("x", "film")
    record["tosses"] = {name: {k: y for k, y in t.items() if k not in hidden} for name, t in record["tosses"].items()}
    figures = {
        "elbow_position_mm": figure(record["position_mm"], goal=record["steady_position_mm"] / GAIN),
        "elbow_rotation_deg": figure(record["rotation_deg"]),
        "elbow_constant_velocity_mm": figure(record["steady_position_mm"]),
        "elbow_band_coverage": coverage_figure(record["coverage"]),
    }
    return {"rows": [record], "images": images, "figures": figures}


def fit_row(job: tuple[int, bool]) -> Mapping:
    """Compare laws of the hinge by folds of the fitted tosses, fit the best to all of them, and predict the others."""
    seed, quick = job
    tosses = load()
    order = np.random.default_rng(seed).permutation(len(tosses))
    fitted, others = [tosses[k] for k in order[:FITTED]], [tosses[k] for k in order[FITTED:]]
    generations = QUICK_GENERATIONS if quick else GENERATIONS
    rng = np.random.default_rng([seed, 1])
    left_out, ensembles = {}, {}
    for law in LAWS:
        errors, ensembles[law] = [], []
        for k in range(FOLDS):
            part = [t for j, t in enumerate(fitted) if j % FOLDS != k]
            rest = [t for j, t in enumerate(fitted) if j % FOLDS == k]
            members, _ = fit(part, law, generations, rng)
            ensembles[law] += zip(rest, ensemble(rest, law, members, rng), strict=True)
            x, _ = predict(members[:1], law, start_of(rest), max(map(len, rest)))
            errors += [distance(x[0, j, SEEN : len(t)], t.centers[SEEN:]).mean().item() for j, t in enumerate(rest)]
        left_out[law] = MM * float(np.mean(errors))
    law = min(left_out, key=lambda name: left_out[name])
    members, loss = fit(fitted, law, generations, rng)
    factor = widening(
        [x[:, SEEN:] for _, (x, _) in ensembles[law]], [toss.centers[SEEN:] for toss, _ in ensembles[law]]
    )
    predictions = ensemble(others, law, members, rng)
    return {
        "row": "hinge",
        "law": law,
        "left_out_mm": left_out,
        "numbers": {key: float(y[0]) for key, y in numbers(members[:1], law).items()},
        "loss_mm": MM * loss,
        "fitted": [toss.name for toss in fitted],
        "widening": factor,
        "tosses": {t.name: _prediction(t, *pair, factor) for t, pair in zip(others, predictions, strict=True)},
    }


def _prediction(toss: HingeToss, x: Tensor, q: Tensor, factor: float) -> dict:
    """Errors of a toss that was not fitted, with those of trivial predictors."""
    middle = band(x)[0]
    turn = lambda p: torch.rad2deg(rotation.logarithm(rotation.multiply(p, rotation.conjugate(toss.q))).norm(dim=-1))[
        SEEN:
    ]
    off, turned = distance(middle, toss.centers)[SEEN:], turn(q[0]).nan_to_num(180.0)
    start = start_of([toss])[0]
    times = torch.arange(len(toss)).double()[:, None] / FPS
    place, velocity, spin = start[:3] + times * start[6:9], start[6:9], start[9:12]
    steady_q = rotation.multiply(
        rotation.exponential(times * spin), rotation.exponential(start[3:6]).expand(len(toss), 4)
    )
    steady = torch.cat([place, second_center(place, steady_q, start[12] + times[:, 0] * start[13])], -1)
    quarters = lambda y, factor=1.0: [factor * float(part.mean()) for part in np.array_split(y.numpy(), 4)]
    return {
        "position_mm": MM * off.mean().item(),
        "rotation_deg": turned.mean().item(),
        "position_quarters_mm": quarters(off, MM),
        "rotation_quarters_deg": quarters(turned),
        "steady_position_mm": MM * distance(steady, toss.centers)[SEEN:].mean().item(),
        "steady_rotation_deg": turn(steady_q).mean().item(),
        "still_position_mm": MM
        * distance(toss.centers[SEEN - 1].expand(len(toss), 6), toss.centers)[SEEN:].mean().item(),
        "speed_m_s": velocity.norm().item(),
        "coverage": float((scores(x[:, SEEN:], toss.centers[SEEN:]) <= factor).double().mean()),
        "x": middle.tolist(),
        "film": [y[0, ::FILMED].tolist() for y in (x, q)],
    }


def draw(out: Path, record: Mapping, tosses: Sequence[HingeToss]) -> list[dict[str, str]]:
    """Write a plot into a folder: file, title and caption of each image.

    Args:
        out: The folder.
        record: Content of the row.
        tosses: The recordings.
    """
    chosen = [toss for toss in tosses if toss.name in record["tosses"]][:8]

    def paths():
        figure = new_figure(WIDTH, 1.5 * len(chosen))
        for row, toss in zip(figure.subplots(len(chosen), 2, squeeze=False), chosen, strict=True):
            one = record["tosses"][toss.name]
            x, times = np.array(one["x"]), np.arange(len(toss)) / FPS
            for ax, columns, words in zip(row, ([2, 5], [0, 1]), ("heights [cm]", "x, y of link 1 [cm]"), strict=True):
                ax.plot(times, 100 * toss.centers[:, columns].numpy(), color=DATA, lw=2)
                ax.plot(times, 100 * x[:, columns], color=FIT, lw=1)
                ax.axvspan(0, SEEN / FPS, color=GREY, alpha=0.3, lw=0)
                ax.set_ylabel(words, fontsize=7)
                ax.tick_params(labelsize=6)
            row[0].set_title(f"{toss.name}: {one['position_mm']:.0f} mm, {one['rotation_deg']:.0f}°", fontsize=7)
        return figure

    caption = "Recorded (orange) and predicted (blue) centers of the links, of the first eight tosses that were not fitted; gray: frames of the start."
    film = write_film(
        out / "hinge_film.gif",
        [_clip(toss, record["tosses"][toss.name]) for toss in chosen[:FILMS]],
        FPS / FILMED / SLOW,
        "Two links on a hinge: film",
        f"Recorded (orange) and predicted (blue) links, {SLOW} times slower, by the numbers of least loss; tosses that were not fitted.",
    )
    return [*write_figures(out, {"hinge": (paths, "Two links on a hinge: tosses not fitted", caption)}), film]


def _clip(toss: HingeToss, predicted: Mapping) -> Clip:
    """A toss with its prediction."""
    x, q = (torch.tensor(y).double() for y in predicted["film"])
    part = slice(None, None, FILMED)
    title = f"{toss.name}: {predicted['position_mm']:.0f} mm"
    return Clip(title, _links(toss.centers[part], toss.q[part]), _links(x, q), floor=0.0)


def _links(x: Tensor, q: Tensor) -> np.ndarray:
    """Edges (frames, 24, 2, 3) of both links from their centers (frames, 6) and the orientation of link 1 (frames, 4)."""
    arm = rotation.rotate(rotation.conjugate(q), x[:, 3:] - x[:, :3]) - torch.tensor(PIVOT_1).to(x)
    angle = torch.atan2(arm[:, 2], -arm[:, 0]) if PIVOT_2[0] > 0 else torch.atan2(-arm[:, 2], arm[:, 0])
    zero = torch.zeros_like(angle)
    second = rotation.multiply(q, rotation.exponential(torch.stack([zero, angle, zero], -1)))
    boxes = [box_edges(y.numpy(), rotation.to_matrix(p).numpy(), SIZE) for y, p in ((x[:, :3], q), (x[:, 3:], second))]
    return np.concatenate(boxes, 1)
