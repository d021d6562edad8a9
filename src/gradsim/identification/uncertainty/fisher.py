"""Error bars and identifiability from the Fisher information F = JᵀΣ⁻¹J (acceptance: the Cramér–Rao bound).

Directions are judged in relative units: logarithms of positive quantities, and shares of the range for others. A
direction v with eigenvalue λ has the bound 1/√λ along it; it is a null direction where its part of some unknown's
bound exceeds 10 %.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.identification.unknowns import Ranges

KNOWN = 0.1  # relative bound below which an unknown counts as identified
WIDEST = 0.3  # relative step of a secant at most, for directions that the data leave open
REACH = 4.0  # standard deviations within which a likelihood of one valley is nearly quadratic
ROUNDS = 4  # most times that the axes of secants are taken anew
ROUNDING = 1e-9  # relative difference of sums of the same residuals in another order, at most
DISTANCES = (REACH, 2.0, 2.5, 3.0, 3.5, 5.0, 6.0, 8.0)  # standard deviations at which that is tested
ONE_SIDED = (
    3.0  # factor by which χ² may rise less or more to one side: a minimum is never exact, and smooth valleys are skew
)
AT_END = 0.1  # rise of χ² up to which a side says nothing: there a range ends
NO_MASS = 8.0  # rise of χ² from which on samples are so few that its shape does not matter
NARROWER = (1.0, 1 / 4, 1 / 16, 1 / 64)  # of that step: a bent valley looks open only on a short one


@dataclass(frozen=True)
class NullDirection:
    """Combination of unknowns that the data do not determine.

    Args:
        combination: Coefficient of each unknown (unit vector; of logarithms for positive quantities).
        explanation: In words, with what would fix it.
        bound: Standard deviation along it, relative.
    """

    combination: dict[str, float]
    explanation: str
    bound: float


@dataclass(frozen=True)
class Uncertainty:
    """Bounds from the Fisher information at an estimate.

    Args:
        std_inner: Standard deviations in solver coordinates (unknowns,); inf where nothing is known.
        relative: The same in relative units.
        covariance: In relative units (unknowns, unknowns), of the identified directions.
        posterior: The same of all directions, in solver coordinates; open ones are as wide as rounding lets them be.
        rank: Number of identified directions.
        null: Null directions, weakest first.
    """

    std_inner: Tensor
    relative: Tensor
    covariance: Tensor
    posterior: Tensor
    rank: int
    null: list[NullDirection]


def analyze(space: Ranges, fisher: Tensor, has_push: bool) -> Uncertainty:
    """Bounds, rank and null directions from the Fisher information (unknowns, unknowns) of whitened residuals.

    Args:
        space: The unknowns.
        fisher: JᵀJ with the residuals whitened, priors included.
        has_push: Whether the scene has a known force; only for the explanation.
    """
    unit = space.unit
    scaled = fisher * unit[:, None] * unit[None, :]
    diagonal = scaled.diagonal().clamp(min=1e-300).rsqrt()
    # eigenvectors of the plain matrix, but bounds from the balanced one: its rounding is relative to each unknown
    eigenvalues, axes = torch.linalg.eigh(scaled)
    noise = 1e-13 * eigenvalues.abs().max().clamp(min=1e-300)
    eigenvalues = eigenvalues.clamp(min=noise)
    bounds = eigenvalues.rsqrt()
    parts = axes.abs() * bounds
    null = parts.amax(0) > KNOWN
    balanced = scaled * diagonal[:, None] * diagonal[None, :]
    values, vectors = torch.linalg.eigh(balanced)
    inverse = (vectors / values.clamp(min=1e-13)) @ vectors.T * diagonal[:, None] * diagonal[None, :]
    relative = inverse.diagonal().clamp(min=0).sqrt()
    relative = torch.where(fisher.diagonal() <= 0, math.inf, relative)
    lost = null & (eigenvalues <= 100 * noise)  # nothing but rounding: no bound at all
    bounds = torch.where(lost, math.inf, bounds)
    relative = torch.where((axes.abs()[:, lost] > 1e-3).any(1), math.inf, relative)
    good = axes[:, ~null]
    covariance = (good / eigenvalues[~null]) @ good.T
    directions = [
        NullDirection(combination := _combination(space, axes[:, k]), _explain(space, combination, has_push), b)
        for k, b in ((int(k), bounds[k].item()) for k in null.nonzero()[:, 0])
    ]
    posterior = inverse * unit[:, None] * unit
    return Uncertainty(relative * unit, relative, covariance, posterior, int((~null).sum()), directions)


def secant_fisher(problem, u: Tensor, fisher: Tensor, variance: float = 1.0) -> tuple[Tensor, bool]:
    """Fisher information from secants as wide as the error bars, where contact kinks the likelihood.

    Tangents hold in one tooth of a kinked likelihood only, and grow without bound through chatter, while the
    motion itself does not. So the residuals are compared one standard deviation to both sides along every principal axis,
    and the axes are taken anew until they fit.

    Args:
        problem: The problem.
        u: The estimate (unknowns,).
        fisher: From tangents, whitened by the true noise, priors included. Where it differs from the last one by rounding, the result is the
            same one.
        variance: Variance of the whitened residuals: 1 where the noise is known, χ²/N where it is estimated from them.

    Returns:
        The information, from tangents where they agree with the secants within a factor of 2, and whether they do not.
    """
    if not hasattr(problem, "model"):  # of several clips
        return _secant_fisher(problem, u, fisher, variance)
    make = lambda: (fisher, *_secant_fisher(problem, u, fisher, variance))
    by, information, nonsmooth = problem.effort.evaluations.get("secants", problem, u, variance, make)
    if torch.allclose(fisher, by, rtol=ROUNDING, atol=0.0, equal_nan=True):
        return information, nonsmooth
    return _secant_fisher(problem, u, fisher, variance)


def _secant_fisher(problem, u: Tensor, fisher: Tensor, variance: float) -> tuple[Tensor, bool]:
    space = problem.space
    unit = space.unit
    scaled = fisher * unit[:, None] * unit[None, :]
    nonsmooth = False
    for turn in range(ROUNDS):
        eigenvalues, axes = torch.linalg.eigh(scaled)
        step = eigenvalues.clamp(min=WIDEST**-2).rsqrt()
        informative = eigenvalues > WIDEST**-2
        secants = _secants(problem, u, unit, axes, step, informative) / variance
        prior = axes.T @ (problem.prior_precision * unit[:, None] * unit) @ axes
        updated = secants + prior
        if not torch.isfinite(updated).all():
            break
        ratio = updated.diagonal() / eigenvalues.clamp(min=WIDEST**-2)
        agrees = bool(((ratio > 0.5) & (ratio < 2.0))[informative].all())
        if turn == 0 and agrees:
            return fisher, False
        nonsmooth, scaled = True, axes @ updated @ axes.T
        if agrees:
            break
    return scaled / unit[:, None] / unit[None, :], nonsmooth


def is_quadratic(problem, u: Tensor, fisher: Tensor, frames: int | None = None) -> bool:
    """True if χ² rises as its curvature says along every principal axis, and is nowhere low again.

    Four standard deviations away the mean of both sides is the curvature's, to a factor of 2, as u need not be the minimum of this χ² exactly. Each side
    by itself is, to a factor of 3, from two to four: contact cuts valleys about which the mean of a low and a high tooth may be that of none. And farther away,
    from five to eight, χ² stays where the posterior has no mass. Axes of which priors say more than the data do not count: there the
    data's χ² is about nothing, and its curvature that of residuals.

    Args:
        problem: The problem.
        u: The estimate (unknowns,).
        fisher: From tangents (unknowns, unknowns).
        frames: Number of first frames that count; None: all.
    """
    space, unit = problem.space, problem.space.unit
    eigenvalues, axes = torch.linalg.eigh(fisher * unit[:, None] * unit[None, :])
    distances = torch.tensor(DISTANCES).double()
    step = (distances[:, None] * eigenvalues.clamp(min=1e-300).rsqrt()).clamp(max=WIDEST)
    shift = (unit * axes.T * step[..., None]).flatten(0, 1)
    points = torch.cat([u[None], u + shift, u - shift]).clamp(space.low, space.high)
    cost = problem.cost(points, frames or problem.frames)
    by_side = lambda x: x.unflatten(0, (2, len(distances), -1))  # (sides, distances, axes)
    rise, away = by_side(cost[1:] - cost[0]), points[1:] - u
    expected, by_prior = (
        by_side(torch.einsum("ki,ij,kj->k", away, matrix, away)) for matrix in (fisher, problem.prior_precision)
    )
    counts = (expected.sum(0) > 1) & (by_prior.sum(0) < expected.sum(0) / 2)
    mean, predicted = rise.sum(0)[0], expected.sum(0)[0]  # at `REACH`
    even = (mean > predicted / 2) & (mean < 2 * predicted)
    high = rise > (expected / ONE_SIDED).clamp(max=NO_MASS)
    low = (rise < ONE_SIDED * expected) | (distances > REACH)[:, None]
    says = counts & (expected > AT_END)
    return bool((even | ~counts[0]).all() and (high & low | ~says).all())


def _secants(problem, u: Tensor, unit: Tensor, axes: Tensor, step: Tensor, known: Tensor) -> Tensor:
    """Inner products (axes, axes) of the residuals' slopes over ± step along each axis (columns of `axes`, relative units).

    Along an axis that is not `known` the step is a guess, and a long straight one climbs out of a valley that bends,
    which is not information. Its slope there falls with the step (as its square, at least), that of a true one does not:
    the flattest of a few steps counts.
    """
    ks = torch.cat([torch.arange(len(step)), *((~known).nonzero()[:, 0] for _ in NARROWER[1:])])
    share = torch.cat([torch.full((len(step) if c == 1 else int((~known).sum()),), c).double() for c in NARROWER])
    length = step[ks] * share
    shift = unit * axes.T[ks] * length[:, None]
    products = torch.zeros(len(ks), len(ks), dtype=torch.float64)
    for block in problem.residual_blocks(torch.cat([u + shift, u - shift])):
        plus, minus = block.chunk(2)
        slopes = (plus - minus) / (2 * length[:, None])
        products += slopes @ slopes.T
    squares = products.diagonal()
    flattest = [min((ks == k).nonzero()[:, 0].tolist(), key=lambda i: squares[i].item()) for k in range(len(step))]
    return products[flattest][:, flattest]


def _combination(space: Ranges, direction: Tensor) -> dict[str, float]:
    sign = 1.0 if direction[direction.abs().argmax()] > 0 else -1.0
    return {name: round(sign * float(c), 12) + 0.0 for name, c in zip(space.names, direction, strict=True)}


def _explain(space: Ranges, combination: dict[str, float], has_push: bool) -> str:
    """The combination in words, and what would fix it."""
    largest = max(abs(c) for c in combination.values())
    members = {name: c for name, c in combination.items() if abs(c) > 0.05 * largest}
    log = dict(zip(space.names, space.logarithmic, strict=True))
    if len(members) == 1:
        (name,) = members
        return f"The data do not determine {name}. {_single(name)}"
    together = " and ".join([", ".join(list(members)[:-1]), list(members)[-1]])
    same = max(members.values()) - min(members.values()) < 0.1 * largest
    if all(log[name] for name in members) and same:
        text = f"Multiplying {together} by one common factor changes nothing that was observed: only their ratios show."
    elif all(log[name] for name in members):
        powers = ", ".join(f"{name} by s^{c / largest:+.2f}" for name, c in members.items())
        text = f"Changing {powers}, for any s near 1, changes almost nothing that was observed."
    else:
        text = f"{together} can change together along this direction with almost no effect on what was observed."
    if any(name.endswith("_mass") for name in members):
        text += " A known mass of one arm, or a known `force` on the far end, would fix the scale."
    elif any(name.endswith((".mass", ".density")) for name in members) and not has_push:
        text += " A force of known size, such as a push with a known impulse, would fix the scale."
    elif any(name.endswith(".string_length") for name in members) and any(n.startswith("gravity") for n in members):
        text += " Only their ratio sets the period; fix gravity, or a length in the scene."
    else:
        text += " Fix one of them, give it a prior, or record a motion in which they act apart."
    return text


def _single(name: str) -> str:
    owner, _, kind = name.rpartition(".")
    touch = owner.startswith(("ground", "obstacles", "contact"))  # its stiffness and damping are those of a contact
    if not touch and kind in ("stiffness", "damping"):
        kind = f"own {kind}"
    hints = {
        "own stiffness": "Nothing stretches or turns it enough; record a motion that does, or look closer.",
        "own damping": "It slows no motion enough to be seen: leave it out of the unknowns, or record a motion in which it does, or a longer one.",
        "friction": "Nothing slides enough to show it; record a motion that slides.",
        "rolling_friction": "Nothing rolls long enough to show it; record a longer way.",
        "spinning_friction": "Nothing spins on it long enough to show it; record a longer spin.",
        "friction_stiffness": "The contact hardly creeps; it only shows where a body sticks or barely slides.",
        "stiffness": "No contact is soft or long enough to show it; record a bounce, or a higher frame rate.",
        "damping": "No bounce shows the loss of speed; record a drop from higher up.",
        "dissipation": "No bounce shows the loss of speed; record a drop from higher up.",
        "young": "Nothing bends or squeezes it enough; record a motion that does, or look closer.",
        "mu": "Nothing bends or shears it enough; record a motion that does, or look closer.",
        "poisson": "Its change of width hardly shows; squeeze a thick piece of it, or look closer.",
        "lam": "Nothing squeezes it enough; squeeze a thick piece of it, or look closer.",
        "bending": "No fold is sharp enough to show it; record finer folds, or fix it.",
        "drag": "The air hardly slows it: leave it out of the unknowns, or record a faster motion, or a longer one.",
        "lift": "The air hardly deflects it; record a faster motion.",
        "mass": "No force of known size acts; add a push with a known impulse.",
        "density": "No force of known size acts; add a push with a known impulse.",
    }
    return hints.get(kind, "Record a motion in which it acts, or leave it at a known value.")
