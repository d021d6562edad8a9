"""Residual diagnostics: are the residuals white, and if not, where and when?

χ²/N alone does not distinguish a wrong model from noise stated too low, and does not see a small misfit among many
pixels. White noise has no memory and no neighbours, so three sums over whitened residuals r are standard normal,
whatever the model, if it is right (Ljung & Box 1978 for the first):

    time        Σ r(t) r(t+1) / √pairs                  r of one coordinate, or the shift of one image axis
    neighbours  Σ r(p) r(p') / √pairs                   p' right, below and diagonally below p
    shift       Σ dᵀ H d,  d = H⁻¹ b                    H = Σ s sᵀ, b = −Σ s r, s: derivatives of a frame's pixels
                                                        by a shift d of the image; χ² made normal by a cube root

r is divided by √(χ²/N) first where that is above 1: what is then left of a correlation is not the noise's size. So it is
for a video without noise where χ² is above 25: an error of √χ² = 5 standard deviations of an unknown may hide in it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from gradsim.identification.observation.base import Masks, Observation
from gradsim.identification.observation.joint_log import JointLog
from gradsim.identification.observation.projection import image_vertices
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.thresholds import NOISELESS_LEVEL
from gradsim.numerics.robust import GAUSSIAN
from gradsim.physics.trajectory import Trajectory

MAX_CHI2_PER_N = 1.2  # up to which the model explains any number of data: the noise is then stated to within 10 %
CHANCE_SIGMA = 5.0  # standard deviations at which a correlation, or χ²/N above 1, is not chance: p = 3e-7
OUTLIER_SIGMA = 5.0  # standard deviations at which a pixel that no unknown moves is not noise
INSIGNIFICANT_SIGMA = 3.0  # standard deviations below which a misfit that χ²/N shows may be noise
SLIGHT = (
    0.05  # pixels that an outline may be off for the size of time steps; camera and scale are seldom so nearly right
)
HIDDEN = 25.0  # χ² of a video without noise in which an error of five standard deviations may hide
MIN_RESIDUALS = 40  # residuals: a misfit half like that of the next frame is then INSIGNIFICANT_SIGMA standard deviations from chance
FEW_NUMBERS = 2**20  # of frames that are looked at together
MAX_NOISE_RATIO = 10.0  # times the stated noise; beyond, the model is as likely to be wrong as the statement
OTHER_LAW = (
    "So look at the contact law and its parameters: the contact of another law, as that of a real ground or of another "
    "engine, may be the cause. Its friction and stiffness are then not numbers of this law; velocities, gravity and air can be "
    "fitted to the frames before {}."
)


@dataclass(frozen=True)
class ResidualDiagnostics:
    """Tests and summaries of the residuals of a fit.

    Args:
        chi2_per_n: By frame, of the residuals that carry information; NaN where there is none.
        counts: Their number, by frame.
        explained: Number of first frames that the model explains when fitted to them alone; None if unknown.
        contact: First frame after the first contact in the fit; None if nothing touches.
        scores: Standard scores of the three tests of whiteness that apply.
        shift: By frame, how far the outline of the (first) video lies from that of the fit (right, down) [px]; empty
            for states.
        white: Whether all scores are within chance.
        words: All of it.
    """

    chi2_per_n: list[float]
    counts: list[int]
    explained: int | None
    contact: int | None
    scores: dict[str, float]
    shift: list[tuple[float, float]]
    white: bool
    words: str

    def result(self) -> dict:
        """For `result.json`."""
        return asdict(self)


def chi2_limit(residuals: float) -> float:
    """χ²/N up to which the model explains the data: max(1.2, 1 + 5 √(2/N)).

    Of N residuals of standard normal noise, χ²/N has mean 1 and standard deviation √(2/N).

    Args:
        residuals: N, the number of residuals less that of the fitted numbers; above 0.
    """
    return max(MAX_CHI2_PER_N, 1 + CHANCE_SIGMA * math.sqrt(2 / residuals))


def residual_diagnostics(problem: Problem, u: Tensor, history: list[dict]) -> ResidualDiagnostics | None:
    """Examine the residuals of a fit.

    Args:
        problem: The problem.
        u: The estimate (unknowns,).
        history: History of the search: entries of stage, frames and cost.

    Returns:
        What is left; of several clips, that of the worst one. None for a problem of another kind than one clip's.
    """
    clips = problem.problems
    if clips != [problem]:
        candidates = (
            residual_diagnostics(clip, u[mine], [])
            for clip, mine in zip(clips, problem.space.columns, strict=True)  # pyright: ignore[reportAttributeAccessIssue]
        )
        by_clip = [left for left in candidates if left]
        k = max(range(len(by_clip)), key=lambda k: _total(by_clip[k]))
        return replace(by_clip[k], words=f"Clip {k + 1} of {len(by_clip)} has the most left. {by_clip[k].words}")
    if not hasattr(problem, "model"):
        return None
    blocks = problem.jacobian(u[None], problem.frames)
    parts = by_frame(problem.observation, problem.frames, blocks, outlier_threshold(problem))
    trajectory = problem.trajectory(u)
    explained = _explained(problem, history)
    return diagnose_residuals(problem, trajectory, parts, first_contact(trajectory), len(u), explained)


@dataclass(frozen=True)
class FrameResiduals:
    """Part of the data (a camera, or measured states), its residuals by frame, and which of them count.

    Args:
        data: The part.
        r: Whitened residuals (frames, ...).
        informative: Which carry information or contradict the model (frames, ...).
    """

    data: Observation
    r: Tensor
    informative: Tensor


def diagnose_residuals(
    problem: Problem,
    trajectory: Trajectory,
    parts: list[FrameResiduals],
    contact: int | None,
    free: int,
    explained: int | None = None,
    absorbed: bool = False,
) -> ResidualDiagnostics:
    """Tests of residuals that are known by frame.

    Args:
        problem: Whose they are.
        trajectory: The fitted one, of one world.
        parts: Of all frames.
        contact: First frame after the first contact; None if nothing touches.
        free: Number of what was fitted.
        explained: Number of first frames that are explained when fitted alone; None if unknown.
        absorbed: Whether as much was fitted as takes a part of the noise: then the rest is correlated negatively, and only
            positive scores show that the model is wrong.
    """
    counts = torch.stack([part.informative.flatten(1).sum(1) for part in parts]).sum(0)
    chi2 = torch.stack([_by_frame((part.r, part.informative), _sum_of_squares) for part in parts]).sum(0)
    noise = (chi2.sum() / counts.sum().clamp(min=1)).sqrt().item()
    if noise < 1 and not (
        problem.observation.noise_floor(problem.frames).level < NOISELESS_LEVEL and chi2.sum() > HIDDEN
    ):
        noise = 1.0
    scored = [_scores(trajectory, part if noise == 1 else replace(part, r=part.r / noise)) for part in parts]
    names = dict.fromkeys(name for scores, _ in scored for name in scores)
    scores = {k: _together([s[k] for s, _ in scored if k in s]) for k in names}
    shift = next((y for _, y in scored if len(y)), chi2.new_zeros(0, 2))
    total = (chi2.sum() / max(1.0, counts.sum().item() - free)).item()
    most = CHANCE_SIGMA if total <= MAX_CHI2_PER_N else INSIGNIFICANT_SIGMA
    white = all((z if absorbed else abs(z)) < most for z in scores.values())
    per_frame = (chi2 / counts.clamp(min=1)).where(counts > 0, torch.nan).tolist()
    offsets = [(x * noise, y * noise) for x, y in shift.tolist()]
    left = ResidualDiagnostics(per_frame, counts.int().tolist(), explained, contact, scores, offsets, white, "")
    return replace(left, words=_words(left, total, _mean_square(parts, contact)))


def _total(left: ResidualDiagnostics) -> float:
    """Σ r² over all frames."""
    return sum(n * x for n, x in zip(left.counts, left.chi2_per_n, strict=True) if n)


def first_contact(trajectory: Trajectory) -> int | None:
    """First frame before which a body changed its velocity by more than gravity and known pushes did, and g/1000.

    Of soft bodies that of the centre of mass counts. Those that something else holds or blows at are left out, and
    rigid ones that a joint holds.
    """
    first = []
    step = float(trajectory.times[1] - trajectory.times[0]) if len(trajectory.times) > 1 else 1.0
    for system in trajectory.systems:
        if not system.in_free_flight:
            continue
        v = system.velocity(trajectory[system.name], trajectory.values)[0]
        change = torch.linalg.vector_norm(v[1:] - v[:-1] - trajectory.values["gravity"][0] * step, dim=-1)
        for push in system.pushes:
            begin, end = push.window or (push.at, push.at)
            change[int(begin / step) : max(int(begin / step) + 1, math.ceil(end / step))] = 0.0
        touched = (change > 1e-3 * step * 9.81 + 1e-9 * torch.linalg.vector_norm(v[1:], dim=-1)).nonzero()
        first += [int(touched[0]) + 1] if len(touched) else []
    return min(first, default=None)


def outlier_threshold(problem: Problem) -> float:
    """|r| above which a residual contradicts the model though no unknown moves it: 5, or as many σ of louder noise."""
    level = problem.observation.noise_floor(problem.frames).level
    return OUTLIER_SIGMA * math.sqrt(max(1.0, level)) if math.isfinite(level) else OUTLIER_SIGMA


def _together(scores: list[float]) -> float:
    """One standard score from independent ones (Stouffer)."""
    return sum(scores) / math.sqrt(len(scores))


def by_frame(
    data: Observation, frames: int, blocks: Iterable[tuple[Tensor, Tensor]], threshold: float
) -> list[FrameResiduals]:
    """Residuals of every part of the data by frame.

    Args:
        data: All of it.
        frames: Their number.
        blocks: Residuals (1, m) and their derivatives (1, m, unknowns), as `Problem.jacobian` yields them.
        threshold: |r| from which on a residual contradicts the model though no unknown moves it (`outlier_threshold`).
    """
    residuals, places, slopes = [], [], []  # slopes are 0 off the outlines, which is nearly everywhere
    for r, J in blocks:
        slope = J[0].abs().amax(1)
        residuals.append(r[0])
        places.append(slope.nonzero()[:, 0])
        slopes.append(slope[places[-1]])
    largest = torch.cat([residuals[0].new_zeros(1), *slopes]).max().item()
    informative = [r.abs() > threshold for r in residuals]
    for counts, at, slope in zip(informative, places, slopes, strict=True):
        counts[at[slope > 1e-9 * max(largest, 1e-300)]] = True
    r, informative = torch.cat(residuals), torch.cat(informative)
    del residuals
    parts, shapes, sizes = list(data.parts.values()), [], []
    layouts = [part.layout(frames) if isinstance(part, JointLog) else None for part in parts]
    for part, layout in zip(parts, layouts, strict=True):
        images = part.masks.shape if isinstance(part, Masks) else None
        shapes.append(images or (frames, 6 if getattr(part, "q", None) is not None else 3))
        sizes.append(math.prod(shapes[-1]) if layout is None else int((layout >= 0).sum()))
    if sum(sizes) != len(r):  # another kind of data
        parts, shapes, sizes, layouts = [data], [(frames, -1)], [len(r)], [None]
    split = zip(parts, shapes, layouts, r.split(sizes), informative.split(sizes), strict=True)
    return [
        FrameResiduals(part, x.reshape(shape), counts.reshape(shape))
        if layout is None
        else FrameResiduals(part, x[layout.clamp(min=0)], counts[layout.clamp(min=0)] & (layout >= 0))
        for part, shape, layout, x, counts in split
    ]


def _scores(trajectory: Trajectory, part: FrameResiduals) -> tuple[dict[str, float], Tensor]:
    """Standard scores, and by how much the outline of an image is off (frames, 2) [px]."""
    r, informative = part.r, part.informative
    if not isinstance(part.data, Masks):
        return {"time": _correlation(r, informative, [(1, 0)])}, r.new_zeros(0, 2)
    steps = [(0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 1, -1)]
    shift, whitened = _shifts(trajectory, part.data, r)
    finite = torch.isfinite(whitened)
    residuals, degrees = whitened.nan_to_num(0.0), max(1, int(finite.sum()))
    spread = 2 / (9 * degrees)  # the cube root of χ² is nearly normal (Wilson & Hilferty 1931)
    size = ((residuals.square().sum().item() / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    scores = {
        "neighbours": _correlation(r, informative, steps),
        "shift": max(0.0, size),
        "time": _correlation(residuals, finite, [(1, 0)]),
    }
    return scores, shift


def _shifts(trajectory: Trajectory, data: Masks, r: Tensor) -> tuple[Tensor, Tensor]:
    """Least-squares shift of each frame's data against the fit (frames, 2) [px], and the same whitened; NaN if unseen."""
    L, b = [], []
    for first, slope in outline_slopes(trajectory, data):
        left = r[first : first + len(slope)].flatten(1)
        factor, failed = torch.linalg.cholesky_ex(slope.mT @ slope)
        unseen = (failed > 0) | (factor.diagonal(dim1=1, dim2=2).amin(1) < 1e-9 * slope.abs().max())
        L.append(factor.where(~unseen[:, None, None], torch.nan))
        b.append(-slope.mT @ left[..., None])
    L, b = torch.cat(L), torch.cat(b)
    whitened = torch.linalg.solve_triangular(L, b, upper=False)
    return torch.linalg.solve_triangular(L.mT, whitened, upper=True)[..., 0], whitened[..., 0]


def outline_slopes(
    trajectory: Trajectory, data: Masks, begin: int = 0, end: int | None = None
) -> Iterator[tuple[int, Tensor]]:
    """First frame of a block, and derivatives of its whitened masks (frames, pixels, 2) by the image's own shift.

    Args:
        trajectory: Of all frames.
        data: Likewise.
        begin, end: The frames that count; all by default.
    """
    screen, _, faces, convex = image_vertices(data.silhouettes, trajectory).shapes
    right_down = torch.eye(2, dtype=torch.float64)[None, :, None, None].expand(1, 2, *screen.shape[1:]).contiguous()
    views, (height, width) = data.views(screen, right_down), data.masks.shape[1:]
    step, end = (
        max(1, data.chunk // (2 * height * width * data.silhouettes.instants)),
        len(data.masks) if end is None else end,
    )
    for first in range(begin, end, step):
        frames = slice(first, min(first + step, end))
        box, _, slope = data.coverage_near(views, frames, faces, convex)
        whole = slope.new_zeros(frames.stop - first, height, width, 2)
        whole[(slice(None), *box)] = slope[0] * (data.weight[(frames, *box)].sqrt() / data.sigma)[..., None]
        yield first, whole.flatten(1, 2)


def _sum_of_squares(r: Tensor, valid: Tensor) -> Tensor:
    return (r * valid).square().flatten(1).sum(1)


def _by_frame(data: Sequence[Tensor], sums: Callable[..., Tensor]) -> Tensor:
    """Sums (..., frames) of data (frames, ...) that are large, some frames at a time."""
    step = max(1, FEW_NUMBERS // max(1, data[0][:1].numel()))
    return torch.cat([sums(*(y[k : k + step] for y in data)) for k in range(0, max(1, len(data[0])), step)], -1)


def _correlation(r: Tensor, valid: Tensor, steps: list[tuple[int, ...]]) -> float:
    """Σ r r' / √pairs over all pairs of valid entries that are one of the steps apart."""
    total, pairs = 0.0, 0.0
    for step in steps:
        first = tuple(slice(max(0, -s), n - max(0, s)) for s, n in zip(step, r.shape, strict=True))
        second = tuple(slice(max(0, s), n - max(0, -s)) for s, n in zip(step, r.shape, strict=True))
        both = lambda a, b, m, n: torch.stack([(a * m * (b * n)).flatten(1).sum(1), (m & n).flatten(1).sum(1)])
        sums = _by_frame((r[first], r[second], valid[first], valid[second]), both).sum(1)
        total, pairs = total + sums[0].item(), pairs + sums[1].item()
    return total / math.sqrt(max(1.0, pairs))


def _explained(problem: Problem, history: list[dict]) -> int | None:
    """Most first frames that a stage of the search explained by itself; 0 if none, None if unknown."""
    robust = any(getattr(part, "loss", GAUSSIAN).kind for part in problem.observation.parts.values())
    most = 0 if history and not robust else None  # the noise floor of a robust loss is unknown
    for entry in history:
        floor, informative, level = problem.observation.noise_floor(entry["frames"])
        spare = max(1.0, informative - len(problem.space))
        if not math.isfinite(level) or most is None:
            return None
        if (entry["cost"] - floor) / spare <= chi2_limit(spare):
            most = max(most or 0, entry["frames"])
    return most


def _words(left: ResidualDiagnostics, chi2_per_n: float, flight: tuple[float, int]) -> str:
    """Summary in a few sentences; `flight` is χ²/N and N of the frames before the first contact."""
    if chi2_per_n <= MAX_CHI2_PER_N:
        if left.white:
            return f"What is left is white: χ²/N = {chi2_per_n:.3g}, and no correlation between pixels or frames."
        return (
            f"χ²/N = {chi2_per_n:.3g} is near 1, but what is left is not white ({_named(left.scores)}): the model misses "
            f"something small{_size(left)}, which the error bars do not count."
        )
    lands = _lands(left, flight)
    count, louder = sum(left.counts), math.sqrt(chi2_per_n)
    if left.white and not lands and (count < MIN_RESIDUALS or louder > MAX_NOISE_RATIO):
        return (
            f"χ²/N = {chi2_per_n:.3g}, and {count} residuals show no correlation. Either the noise is {louder:.2g} times as "
            "large as stated, or the model is wrong: state the noise as measured, and take more frames."
        )
    if left.white and not lands:
        return (
            f"χ²/N = {chi2_per_n:.3g}, but what is left is white, so the noise is probably about "
            f"{louder:.2g} times as large as stated, and the model right."
        )
    last = len(left.counts) - 1
    known = [(x, k) for k, x in enumerate(left.chi2_per_n) if math.isfinite(x)]
    worst, where = max(known, default=(chi2_per_n, 0))
    text = ""
    if lands:
        text = f"{lands} {OTHER_LAW.format(left.contact)} "
    elif left.explained and left.explained <= last:
        begin = left.explained - 1
        text = f"The first {left.explained} frames alone are explained, and more are not"
        if left.contact is not None and left.contact < begin:
            text += f"; the first contact, before frame {left.contact}, is. Look at what begins later"
        else:
            text += ", before anything touches: look at camera, shape, pushes, gravity and air"
        text += ". "
    elif left.explained == 0 and not 0 < _furthest(left)[0] < SLIGHT:
        text = "Not even the first frames are explained: look at camera, scale, start pose and masks. "
    text += f"Over all frames χ²/N is {chi2_per_n:.3g}, most in frame {where} ({worst:.3g}){_size(left)}."
    if not lands and 0 < _furthest(left)[0] < SLIGHT:
        text += (
            " So little may be the time step alone: fit with other `timing.substeps` and see whether the answer moves."
        )
    return text


def _lands(left: ResidualDiagnostics, flight: tuple[float, int]) -> str:
    """Sentence that frames are explained up to the first contact, and then not; empty if that is not so.

    They are explained by themselves, in a stage of the search, or by the fit of all frames, where louder noise would show
    in the flight as much as in the rest.
    """
    if left.contact is None:
        return ""
    count = sum(left.counts[left.contact :])
    rest = sum(n * x for n, x in list(zip(left.counts, left.chi2_per_n, strict=True))[left.contact :] if n)
    rest /= max(1, count)
    if not _exceeds(rest, count):
        return ""
    alone = left.explained or 0
    if not left.white and alone < len(left.counts) and abs(left.contact + 1 - alone) <= 2:
        return (
            f"The first {alone} frames alone are explained, and more are not. The first contact is just before frame "
            f"{left.contact}."
        )
    chi2_per_n, quiet = flight
    louder = 1 + CHANCE_SIGMA * math.sqrt(
        2 / max(1, quiet) + 2 / count
    )  # ratio of two mean squares of the same noise, at most
    if quiet and not _exceeds(chi2_per_n, quiet) and rest > louder * chi2_per_n:
        return (
            f"Up to the first contact, just before frame {left.contact}, χ²/N is {chi2_per_n:.3g}, and from there on "
            f"{rest:.3g}."
        )
    return ""


def _mean_square(parts: list[FrameResiduals], frames: int | None) -> tuple[float, int]:
    """χ²/N and N of the first frames: of the residuals that carry information, or of all where none does."""
    first = [
        (r[:frames].flatten(), informative[:frames].flatten())
        for r, informative in ((part.r, part.informative) for part in parts)
    ]
    r, informative = (torch.cat(part) for part in zip(*first, strict=True))
    r = r[informative] if informative.any() else r
    return r.square().mean().item() if len(r) else 0.0, len(r)


def _exceeds(chi2_per_n: float, count: int) -> bool:
    """True if χ²/N of a number of residuals is above its limit; False of none."""
    return count > 0 and chi2_per_n > chi2_limit(count)


def _named(scores: dict[str, float]) -> str:
    words = {
        "neighbours": "neighbouring pixels agree",
        "shift": "outlines are shifted",
        "time": "frames resemble the next",
    }
    return ", ".join(f"{words[k]}: {z:.0f} σ" for k, z in scores.items() if abs(z) >= INSIGNIFICANT_SIGMA)


def _size(left: ResidualDiagnostics) -> str:
    """Frame and direction of the largest shift of the outline."""
    most, frame = _furthest(left)
    if not most:
        return ""
    size = f"{most:.2g} px" if most < 0.7 else "a pixel or more"  # beyond, slopes at the outline do not tell
    return f", where the outline is off by up to {size} (frame {frame})"


def _furthest(left: ResidualDiagnostics) -> tuple[float, int]:
    """By how much the outline is off where it is off most [px], and in which frame; 0 where that is not known."""
    return max(((math.hypot(*s), k) for k, s in enumerate(left.shift) if math.isfinite(s[0])), default=(0.0, 0))
