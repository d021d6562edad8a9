"""Score test of each number of a scene that is taken as known: causes of a motion that the video contradicts.

One step of least squares from the answer, with one more number p free besides the unknowns and the offset of outlines, changes it
by δ and lowers Σ r² by Δ (Rao 1948):

    δ = −g_p/S,    Δ = g_p²/S,      S = A_pp − A_pb A_bb⁻¹ A_bp,  A = JᵀJ, g = Jᵀr

No fit is repeated, so all numbers of a scene are tried at the price of one linearization. Large changes are extrapolations: these are
hints, in the order of Δ.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.problem import Problem
from gradsim.identification.uncertainty.outline import sums_by_frame
from gradsim.identification.unknowns import Space, Unknown
from gradsim.scene.parameters import parameters

MOST = 3  # causes that are named
WORTH = 0.3  # share of Σ r² that a cause explains at least
OPEN = 1e-6  # share of A_pp that the unknowns leave, below which they make up for p anyway
AXES = ("x", "y", "z")


@dataclass(frozen=True)
class Cause:
    """A number of the scene that may be wrong.

    Args:
        name: Dotted name.
        change: From its value in the scene.
        unit: SI unit.
        size: RMS displacement of outlines that it would leave [px].
    """

    name: str
    change: float
    unit: str
    size: float


def likely_causes(problem: Problem, u: Tensor, size: float) -> list[Cause]:
    """Numbers of the scene whose change would explain most of what outlines are off, best first; few or none.

    Args:
        problem: Of one clip and camera with `Masks` without the offset of their outlines.
        u: The answer (unknowns,).
        size: RMS displacement of outlines there [px].
    """
    base, n, causes = list(problem.space.unknowns), len(u), []
    tried = _tried(problem, base)
    if not tried:
        return []
    wider = _with(problem, [*base, *(Unknown(name, *_around(value)) for name, value, _ in tried)])
    at = wider.space.inner(torch.tensor([*[1.0] * n, *(value for _, value, _ in tried)]).double())
    at[:n] = u
    frames = sums_by_frame(wider, at)
    A, g = frames.information.sum(0), frames.gradient.sum(0)
    others = [*range(n), len(at)]
    for p, (name, value, unit) in enumerate(tried, n):
        across = torch.linalg.pinv(A[others][:, others], hermitian=True) @ A[others, p]
        left = (A[p, p] - A[p, others] @ across).item()
        slope = (g[p] - g[others] @ across).item()
        if not (math.isfinite(slope) and left > OPEN * A[p, p].item() > 0):
            continue
        share = slope**2 / left / frames.squares
        if share > WORTH:
            changed = at.clone()
            changed[p] -= slope / left
            change = wider.space.numbers(changed)[p].item() - value
            causes.append(Cause(name, change, unit, size * math.sqrt(max(0.0, 1 - share))))
    return sorted(causes, key=lambda cause: cause.size)[:MOST]


def _tried(problem: Problem, base: list[Unknown]) -> list[tuple[str, float, str]]:
    """Numbers that the model reads and that are no unknowns: name, value, unit."""
    rows = []
    for name, value, unit in _numbers(problem.model.scene, {n for unknown in base for n in unknown.names}):
        try:
            _with(problem, [*base, Unknown(name, *_around(value))])
        except InputError:  # nothing reads it
            continue
        rows.append((name, value, unit))
    return rows


def describe(causes: list[Cause], scene, size: float) -> str:
    """Sentence on the causes of outlines that are off by `size` [px]; empty without causes."""
    if not causes:
        return ""
    values = {name: value for name, value, _ in _numbers(scene, set())}
    parts = [f"{c.size:.2g} px with `{c.name}` {_change(c, values[c.name])}" for c in causes]
    return f" Less than {size:.2g} px would be left if one number of the scene were changed: {', or '.join(parts)}."


def _change(cause: Cause, value: float) -> str:
    if value and abs(cause.change) < abs(value):
        return f"by {100 * cause.change / value:+.2g} %"
    return f"by {cause.change:+.2g} {cause.unit}".rstrip()


def _numbers(scene, known: set[str]) -> list[tuple[str, float, str]]:
    """Name, value and unit of every number and component of a scene that is not an unknown."""
    rows = []
    for name, parameter in parameters(scene).items():
        if parameter.value.ndim == 0:
            rows.append((name, float(parameter.value), parameter.unit))
        elif parameter.value.ndim == 1 and len(parameter.value) in (2, 3) and not parameter.elements:
            rows += [
                (f"{name}.{axis}", float(v), parameter.unit) for axis, v in zip(AXES, parameter.value, strict=False)
            ]
    return [row for row in rows if row[0] not in known and row[0].rpartition(".")[0] not in known]


def _around(value: float) -> tuple[float, float]:
    """A range about a value, to which a step is not confined."""
    return (0.5 * value, 1.5 * value) if value > 0 else (1.5 * value, 0.5 * value) if value < 0 else (-1.0, 1.0)


def _with(problem: Problem, unknowns: list[Unknown]) -> Problem:
    wider = Problem(problem.model, problem.observation, Space(problem.model.scene, unknowns))
    wider.effort = problem.effort
    return wider
