"""Profile likelihood: how χ² rises along one direction while the other unknowns follow (Raue et al. 2009).

    Δχ²(c) = min { χ²(u) : d·(u − û)/unit = c } − χ²(û),      95 % interval: Δχ² ≤ 3.84

d is one unknown, or a direction that the data leave weak; unit is 1 for logarithms and the range for others. The Fisher
information gives Δχ² = c²/σ², which contact may bend or kink. All values of c are side by side in one batch: they start
where the Fisher information sends the other unknowns, and then from where their neighbours ended, so that the curve is
the lower envelope of what the descents find.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.observation.base import Residual
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.uncertainty.discretization import at_answer
from gradsim.identification.uncertainty.fisher import secant_fisher

LEVEL = 3.841458820694124  # 95 % point of χ² with one degree of freedom
RUNGS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)  # standard deviations at which χ² is looked at first, to both sides
ENOUGH = 6.0  # Δχ² that the last rung of a side reaches
ALONE = 0.9  # share of a direction from which on it is one unknown
WIDEST = 0.5  # standard deviation that is assumed at most, for directions without a bound
BENT = 0.15  # relative difference from the parabola's interval that counts as none


@dataclass(frozen=True)
class Profile:
    """χ² along one unknown or direction.

    Args:
        name: Name of the unknown; or the parts of a direction, such as "cube.mass + 0.9 ground.friction".
        combination: Coefficients of the direction.
        unit: Of `at`: the unknown's SI unit; empty for a direction, where `at` is relative and 0 at the estimate.
        at: Where χ² was minimised over the other unknowns, in order.
        delta: Δχ² there.
        parabola: Δχ² there by the Fisher information.
        estimate: Where the fit is.
        interval95: Where Δχ² crosses 3.84; None for an end that the range cuts off.
        parabolic: Whether the error bars of the Fisher information hold: interval and curve agree with it.
        gain: By how much χ² is lower somewhere on the curve than at the fit: above 1, the fit missed the best answer.
        words: The verdict.
    """

    name: str
    combination: dict[str, float]
    unit: str
    at: list[float]
    delta: list[float]
    parabola: list[float]
    estimate: float
    interval95: tuple[float | None, float | None]
    parabolic: bool
    gain: float
    words: str

    def result(self) -> dict:
        """For `result.json`."""
        return asdict(self)


def with_profiles(fit, problem: Problem, names: Sequence[str] = ()):
    """The fit with profiles along the named unknowns, or along its two weakest directions; see `profiles`."""
    problem = at_answer(problem, fit.discretization)
    u = problem.space.inner(torch.tensor([fit.values[name] for name in problem.space.names], dtype=torch.float64))
    tangents = problem.linearize(u[None], problem.frames)[1][0]
    fisher, _ = secant_fisher(problem, u, tangents)
    return replace(fit, profiles=profiles(problem, u, fisher, names))


def profiles(problem: Problem, u: Tensor, fisher: Tensor, names: Sequence[str] = ()) -> list[Profile]:
    """Profiles along the named unknowns, or along the two weakest directions.

    Args:
        problem: The problem.
        u: The estimate (unknowns,).
        fisher: Information about u (unknowns, unknowns).
        names: Unknowns; empty for the two directions of the largest bounds.

    Raises:
        InputError: If a name is none of the unknowns.
    """
    space = problem.space
    for name in names:
        if name not in space.names:
            raise InputError(f"cannot profile `{name}`: not an unknown; the unknowns are {', '.join(space.names)}.")
    unit = space.unit
    scaled = fisher * unit[:, None] * unit[None, :]
    eye = torch.eye(len(u), dtype=torch.float64)
    directions = [eye[space.names.index(name)] for name in names]
    if not directions:
        _, axes = torch.linalg.eigh(scaled)  # from the weakest on
        for axis in axes.T[:2]:
            k = int(axis.abs().argmax())
            directions.append(eye[k] if axis[k].abs() > ALONE else axis * axis[k].sign())
    covariance = torch.linalg.pinv(scaled + WIDEST**-2 * 1e-6 * eye, hermitian=True)
    return [_Ladder(problem, u, d, unit, covariance).climb() for d in directions]


class _Ladder:
    """One profile on its way: places c, and the least cost and where it was found for each."""

    def __init__(self, problem: Problem, u: Tensor, direction: Tensor, unit: Tensor, covariance: Tensor):
        self.problem, self.u, self.direction, self.unit = problem, u, direction, unit
        along = covariance @ direction
        self.sigma = min(WIDEST, math.sqrt(max(1e-30, float(direction @ along))))
        self.path = along / (direction @ along)  # how the others follow, by the Fisher information; d·path = 1
        self.slice = _Slice(problem, u, direction, unit)
        self.base = float(problem.cost(u[None], problem.frames)[0])
        self.at, self.cost = torch.zeros(1).double(), torch.tensor([self.base]).double()
        self.where = u[None].clone()

    def climb(self) -> Profile:
        """Widen or narrow both sides until they hold the crossing, then smooth out what neighbours find better."""
        steps = {+1: self.sigma, -1: self.sigma}
        end = {side: self._end(side) for side in steps}
        self._add([side * step * rung for side, step in steps.items() for rung in RUNGS])
        for _ in range(6):
            new = []
            for side in steps:
                delta = self._side(side)
                far = max((abs(c) for c, _ in delta), default=0.0)
                if not any(y >= ENOUGH for _, y in delta) and 0 < far < end[side]:
                    new += [side * far * times for times in (1.4, 2.0, 2.8)]
                elif delta and delta[0][1] > 2 * LEVEL:
                    near = abs(delta[0][0])
                    new += [side * near * times for times in (0.1, 0.25, 0.5, 0.75)]
            if not new:
                break
            self._add(new)
        for _ in range(3):
            if self._parabolic() or not self._exchange():
                break
        return self._profile()

    def _side(self, side: int) -> list[tuple[float, float]]:
        """Places to one side from the estimate outwards, with Δχ²."""
        pairs = zip(self.at.tolist(), (self.cost - self.cost.min()).tolist(), strict=True)
        return sorted(((c, y) for c, y in pairs if c * side > 0), key=lambda pair: abs(pair[0]))

    def _end(self, side: int) -> float:
        """Distance to the end of the range on one side."""
        space, rise = self.problem.space, side * self.path * self.unit
        room = torch.where(rise > 0, space.high - self.u, self.u - space.low) / rise.abs().clamp(min=1e-300)
        return float(room[self.direction.abs() > 0.05].min())

    def _add(self, places: list[float]) -> None:
        within = {max(-self._end(-1), min(self._end(1), c)) for c in places} - set(self.at.tolist())
        if not within:
            return
        c = torch.tensor(sorted(within), dtype=torch.float64)
        start = self.u + c[:, None] * self.path * self.unit
        where, cost = self.slice.descend(c, start)
        order = torch.cat([self.at, c]).argsort()
        self.at = torch.cat([self.at, c])[order]
        self.cost, self.where = torch.cat([self.cost, cost])[order], torch.cat([self.where, where])[order]

    def _exchange(self) -> bool:
        """Start every place from where its neighbours ended; whether that found anything better."""
        better = False
        for shift in (1, -1):
            source = self.where.roll(shift, 0)
            step = self.at - self.at.roll(shift, 0)
            where, cost = self.slice.descend(self.at, source + step[:, None] * self.path * self.unit)
            won = cost < self.cost - 0.02
            self.cost, self.where = torch.where(won, cost, self.cost), torch.where(won[:, None], where, self.where)
            better |= bool(won.any())
        return better

    def _crossing(self, side: int) -> float | None:
        """The outermost place to one side where Δχ² passes 3.84, by lines in √Δχ²; None where the range ends before."""
        points = [(0.0, float(self.cost[self.at == 0][0] - self.cost.min())), *self._side(side)]
        inside = [k for k, (_, y) in enumerate(points) if y <= LEVEL]
        if not inside or inside[-1] + 1 >= len(points):
            return 0.0 if not inside else None
        (c, y), (d, z) = points[inside[-1]], points[inside[-1] + 1]
        if not math.isfinite(z):
            return None
        low, high = math.sqrt(max(0.0, y)), math.sqrt(z)
        return c + (d - c) * (math.sqrt(LEVEL) - low) / (high - low)

    def _parabolic(self) -> bool:
        ends = [self._crossing(side) for side in (-1, 1)]
        reach = math.sqrt(LEVEL) * self.sigma
        if any(end is None or abs(abs(end) / reach - 1) > BENT for end in ends):
            return False
        delta, says = self.cost - self.cost.min(), (self.at / self.sigma).square()
        near = (delta < 9) | (says < 9)
        return bool(((delta - says).abs() <= 2 * BENT * torch.maximum(delta, says) + 0.3)[near].all())

    def _profile(self) -> Profile:
        space, d = self.problem.space, self.direction
        names = {name: float(x) for name, x in zip(space.names, d, strict=True) if abs(x) > 1e-12}
        finite = torch.isfinite(self.cost)
        at, delta = self.at[finite], (self.cost - self.cost.min())[finite]
        low, high = (self._crossing(side) for side in (-1, 1))
        gain, parabolic = max(0.0, self.base - float(self.cost.min())), self._parabolic()
        if len(names) == 1:
            (name,) = names
            k = space.names.index(name)
            place = lambda c: float(space.numbers(self.u + self.unit * c * d)[k])
            unit = space.units[k]
        else:
            parts = sorted(names.items(), key=lambda pair: -abs(pair[1]))
            name = " ".join(f"{x:+.2f} {n}" for n, x in parts if abs(x) > 0.05).removeprefix("+")
            place, unit = float, ""
        interval = (None if low is None else place(low), None if high is None else place(high))
        words = _words(name, interval, parabolic, gain, (low, high), self.sigma)
        return Profile(
            name,
            names,
            unit,
            [place(c) for c in at.tolist()],
            delta.tolist(),
            (at / self.sigma).square().tolist(),
            place(0.0),
            interval,
            parabolic,
            gain,
            words,
        )


class _Slice:
    """The problem on planes d·(u − û)/unit = c, in the coordinates of u with c in place of the pivot's own."""

    def __init__(self, problem: Problem, u: Tensor, direction: Tensor, unit: Tensor):
        self.problem, self.u, self.slope, self.pivot = problem, u, direction / unit, int(direction.abs().argmax())
        bound = torch.full_like(u, math.inf)
        bound[self.pivot] = 0.0
        is_pivot = torch.isfinite(bound) & (bound == 0)
        self.space = SimpleNamespace(
            low=problem.space.low.where(~is_pivot, -math.inf),
            high=problem.space.high.where(~is_pivot, math.inf),
            logarithmic=[True if k == self.pivot else log for k, log in enumerate(problem.space.logarithmic)],
        )
        self.turn = torch.eye(len(u), dtype=torch.float64)  # ∂u/∂y on a plane
        self.turn[self.pivot] = -self.slope / self.slope[self.pivot]
        self.turn[self.pivot, self.pivot] = 0.0

    @property
    def effort(self):
        return self.problem.effort

    def descend(self, c: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """The least cost on each plane that starts at `start` (planes, unknowns) find, and where."""
        y = torch.maximum(torch.minimum(start, self.problem.space.high), self.problem.space.low)
        y[:, self.pivot] = c
        if len(self.u) == 1:
            return self._inner(y), self.cost(y, self.problem.frames)
        iterates, _ = descend(self, Population.at(y), self.problem.frames, "pixels", 12)  # pyright: ignore[reportArgumentType]
        return self._inner(iterates.u), iterates.cost

    def cost(self, y: Tensor, frames: int, residual: Residual = "pixels") -> Tensor:
        u = self._inner(y)
        k = self.pivot
        inside = (u[:, k] >= self.problem.space.low[k]) & (u[:, k] <= self.problem.space.high[k])
        held = u.clamp(self.problem.space.low, self.problem.space.high)
        return torch.where(inside, self.problem.cost(held, frames, residual), torch.inf)

    def linearize(self, y: Tensor, frames: int, residual: Residual = "pixels") -> tuple[Tensor, Tensor, Tensor]:
        u = self._inner(y)
        k = self.pivot
        inside = (u[:, k] >= self.problem.space.low[k]) & (u[:, k] <= self.problem.space.high[k])
        held = u.clamp(self.problem.space.low, self.problem.space.high)
        cost, A, g = self.problem.linearize(held, frames, residual)
        return torch.where(inside, cost, torch.inf), self.turn.T @ A @ self.turn, g @ self.turn

    def _inner(self, y: Tensor) -> Tensor:
        """u of y: the pivot follows from c and the others."""
        away = (y - self.u) * self.slope
        away[:, self.pivot] = 0.0
        u = y.clone()
        u[:, self.pivot] = self.u[self.pivot] + (y[:, self.pivot] - away.sum(1)) / self.slope[self.pivot]
        return u


def _words(name: str, interval, parabolic: bool, gain: float, places, sigma: float) -> str:
    if gain > 1:
        return (
            f"Along {name}, χ² is lower by {gain:.3g} than at the fit: the search missed the best answer. "
            "Use more starts."
        )
    cut = [end for end, value in zip(("below", "above"), interval, strict=True) if value is None]
    if cut:
        return f"{name} is open {' and '.join(cut)}: χ² does not rise by 3.84 before the end of the range."
    if parabolic:
        return f"χ² is a parabola along {name}: the error bars of the Fisher information hold."
    left, right = (abs(c) / (math.sqrt(LEVEL) * sigma) for c in places)
    return (
        f"χ² is not a parabola along {name}: its interval reaches {left:.2g} and {right:.2g} times as far down and up as "
        "the Fisher information says."
    )
