"""Known numbers of a scene, and what an error of each would do to the unknowns of a fit.

The answer is where Jᵀ W r + P (u − m) = 0, so a small error dκ of a number that the fit takes as known moves it by

    du = −(Jᵀ W J + P)⁻¹ Jᵀ W ∂r/∂κ dκ          (implicit function theorem; Gauss–Newton curvature)

∂r/∂κ comes from the same forward sensitivities as J: one rollout for each number. With `--noise auto` the offset of all outlines
is an unknown, too, and W weighs by the errors of outlines (`uncertainty.outline`). An error is 1 % of a number, and a step in
its unit of a number that is 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.points import Points
from gradsim.identification.uncertainty.outline import fit_outline
from gradsim.identification.uncertainty.outline_sums import sums_by_frame
from gradsim.identification.uncertainty.recording_noise import recording_rows, recording_words
from gradsim.identification.unknowns import Unknown
from gradsim.numerics.formatting import two_digits
from gradsim.scene.parameters import component_letters, parameters

if TYPE_CHECKING:
    from gradsim.identification.problem import Problem

SHARE = 0.01  # error of a number that is not 0
STEPS = {
    "m": 1e-3,
    "m/s": 1e-2,
    "m/s^2": 0.1,
    "rad": 1e-2,
    "rad/s": 1e-2,
    "px": 0.1,
}  # error of one that is 0, by its unit
OTHER_STEP = 1e-2  # of other units
MOST = 48  # numbers of a table, in the order of `FIRST`
FIRST = ("timing", "gravity", "camera")  # owners whose numbers come before those of bodies
LISTED = 4  # numbers in words, of which 1 % counts
LISTED_OF_ZEROS = 1  # and of those that are 0, whose step has no natural size
NOTABLE = 1.0  # standard deviations of an unknown from which on a number is said in words
NOTABLE_NOISE = 0.3  # and the noise of a recording, which is sure to be there: 5 % of the error bar
ROUNDING = 1e-9  # standard deviations below which a number does nothing
OFFSET_STEPS = 2  # from the answer on to the offset of the outlines, in which they are nearly linear
BATCH = 49  # rollouts at once for each unknown, as many as a search has trials
CENTER = ".centre."  # in the name of that of a camera
UNREAD = ("timing.offset",)  # a clock that begins later needs a model that simulates more
LIGHTS = ("lights.",)  # masks and tracks do not depend on them
NOT_MADE = "The table of known numbers is not made for {}."


@dataclass(frozen=True)
class KnownNumber:
    """A number that a fit takes as known.

    Args:
        name: Dotted name.
        value: In SI units.
        unit: SI unit.
        step: Error that is considered, in SI units; away from 0.
    """

    name: str
    value: float
    unit: str
    step: float

    @property
    def error(self) -> str:
        """The error in words; of the center of a camera in pixels, too, since its zero is a corner of the picture."""
        if not self.value:
            return f"{self.step:g} {self.unit}".strip()
        pixels = f" ({abs(self.step):.2g} px)" if CENTER in self.name else ""
        return f"{100 * SHARE:g} %{pixels}"


def with_known_numbers(fit, problem: "Problem"):
    """The fit with the table of its known numbers; unchanged where it lacks an answer or a scene.

    Args:
        fit: The `Fit`.
        problem: At the time step of the answer, of the frames that count.
    """
    if not hasattr(problem, "with_unknowns"):
        return fit
    rollouts = problem.effort.rollouts
    u = problem.space.inner(torch.tensor([fit.values[name] for name in problem.space.names], dtype=torch.float64))
    if not torch.isfinite(u).all():
        return fit
    std = torch.tensor([e.std for e in fit.unknowns.values()], dtype=torch.float64)
    std = torch.where(torch.tensor(problem.space.logarithmic), std / problem.space.numbers(u), std)
    numbers, left_out = known_numbers(problem)
    with torch.no_grad():
        response = responses(problem, u, numbers)
        recorded = recording_rows(problem, u, std)
    problem.effort.rollouts = rollouts  # not of the search
    rows = _rows(problem, u, std, numbers, response)
    words = [_words(rows, list(fit.unknowns), left_out, fit.nonsmooth)]
    words += [recording_words(row) for row in recorded if row["largest"] > NOTABLE_NOISE]
    rows = sorted([*rows, *recorded], key=lambda row: -row["largest"])
    table = {"numbers": rows, "left_out": left_out, "words": " ".join(filter(None, words))}
    return fit.with_table(table)


def known_numbers(problem: "Problem") -> tuple[list[KnownNumber], int]:
    """Numbers that the data depend on and that are not unknowns, and how many are left out beyond `MOST`.

    Of several clips: numbers of the same name and value are one number.
    """
    by_clip = [_of_clip(clip) for clip in problem.problems]
    numbers: dict[str, KnownNumber] = {}
    for k, mine in enumerate(by_clip):
        for name, number in mine.items():
            alike = all(other.get(name, number) == number for other in by_clip)
            label = name if alike else f"{name}@{k + 1}"
            numbers[label] = KnownNumber(label, number.value, number.unit, number.step)
    rank = lambda number: next((i for i, owner in enumerate(FIRST) if number.name.startswith(owner)), len(FIRST))
    ordered = sorted(numbers.values(), key=rank)
    return ordered[:MOST], len(ordered[MOST:])


def _of_clip(problem: "Problem") -> dict[str, KnownNumber]:
    """Known numbers of one clip by name."""
    tracked = any(isinstance(part, Points) for part in problem.observation.parts.values())
    scene, model, taken = (
        problem.model.scene,
        problem.model,
        {place for places in problem.space.places for place in places},
    )
    numbers = {}
    for name, kind in parameters(scene).items():
        skipped = name in UNREAD or name.startswith(LIGHTS) or (name.startswith("markers.") and not tracked)
        if skipped or kind.row_of or name in model.unused_parameters:
            continue
        components = [(None, name)] if kind.value.ndim == 0 else enumerate(component_letters(name)[: kind.value.size])
        for index, letter in components:
            label = name if index is None else f"{name}.{letter}"
            if (name, index) not in taken:
                value = float(kind.value if index is None else kind.value[index])
                step = SHARE * value or STEPS.get(kind.unit, OTHER_STEP)
                numbers[label] = KnownNumber(label, value, kind.unit, step)
    return numbers


def responses(problem: "Problem", u: Tensor, numbers: Sequence[KnownNumber]) -> Tensor:
    """Shift of the answer (numbers, unknowns) in solver coordinates by the error of each number.

    Args:
        problem: The problem.
        u: The answer (unknowns,).
        numbers: Of `known_numbers`.
    """
    n, size = len(u), max(1, (BATCH - 1) * len(u))
    data = problem.observation
    is_outline = data.outline_noise and isinstance(data, Masks)
    rows = []
    if is_outline and numbers:
        problem, u, errors = fit_outline(problem, u, iterations=OFFSET_STEPS)
    for first in range(0, len(numbers), size):
        batch = numbers[first : first + size]
        wider = problem.with_unknowns([_as_unknown(number) for number in batch])
        place = torch.cat([u, torch.tensor([number.value for number in batch], dtype=torch.float64)])
        if is_outline:
            frames = sums_by_frame(wider, place)
            A = frames.information.sum(0)
            columns = [*range(n), len(place)]  # the last one is the offset
            move = errors.gain @ A[columns][:, n : len(place)]
        else:
            A = wider.linearize(place[None], problem.frames)[1][0]
            H, towards = A[:n, :n], A[:n, n:]
            scale = H.diagonal().clamp(min=1e-300).rsqrt()
            inverse = torch.linalg.pinv(H * scale[:, None] * scale, hermitian=True, rtol=1e-12) * scale[:, None] * scale
            move = -inverse @ towards
        rows.append(move.T * torch.tensor([number.step for number in batch], dtype=torch.float64)[:, None])
    return torch.cat(rows) if rows else torch.zeros(0, n).double()


def _as_unknown(number: KnownNumber) -> Unknown:
    """A range of no meaning about it: only derivatives at its value count."""
    return Unknown(number.name, logarithmic=False, at=number.value)


def _rows(problem: "Problem", u: Tensor, std: Tensor, numbers: Sequence[KnownNumber], response: Tensor) -> list[dict]:
    """Rows of the table, the largest effect first."""
    space, values, rows = problem.space, problem.space.numbers(u), []
    size = torch.where(torch.tensor(space.logarithmic), values, 1.0)  # ∂value/∂u
    for number, move in zip(numbers, response, strict=True):
        effects = {}
        for k, name in enumerate(space.names):
            shift, value = (move[k] * size[k]).item(), values[k].item()
            percent = 100 * shift / abs(value) if value else None
            effects[name] = {"shift": shift, "percent": percent, "sd": (move[k] / std[k]).item()}
        largest = max(abs(effect["sd"]) for effect in effects.values())
        if largest > ROUNDING:
            entry = {"name": number.name, "value": number.value, "unit": number.unit, "step": number.step}
            rows.append(entry | {"error": number.error, "effects": effects, "largest": largest})
    return sorted(rows, key=lambda row: -row["largest"])


def _effect(row: Mapping, names: Sequence[str]) -> str:
    """Sentence on what an error of a number does to the unknown that it moves by most standard deviations."""
    name = max(names, key=lambda name: abs(row["effects"][name]["sd"]))
    effect = row["effects"][name]
    amount = (
        two_digits(effect["shift"], True) if effect["percent"] is None else f"{two_digits(effect['percent'], True)} %"
    )
    zero = "" if row["value"] else ", which is 0,"
    return f"{row['error']} in {row['name']}{zero} moves {name} by {amount} ({two_digits(abs(effect['sd']))} sd)."


def _words(rows: Sequence[dict], names: Sequence[str], left_out: int, nonsmooth: bool) -> str:
    """The largest effects in words."""
    notable = [row for row in rows if row["largest"] > NOTABLE]
    listed = [row for row in notable if row["value"]][:LISTED] + [row for row in notable if not row["value"]][
        :LISTED_OF_ZEROS
    ]
    sentences = [_effect(row, names) for row in listed]
    if sentences:
        sentences.append("A number that is not known so well needs a prior.")
    elif relative := [row for row in rows if row["value"]]:
        row = relative[0]
        sentences.append(f"No error of 1 % of a known number moves an unknown by more than {row['largest']:.1g} sd.")
    if nonsmooth and rows:
        sentences.append("Contact kinks the likelihood, so these hold for small errors only.")
    if left_out:
        sentences.append(f"{left_out} further known numbers of the scene are not examined.")
    return " ".join(sentences)
