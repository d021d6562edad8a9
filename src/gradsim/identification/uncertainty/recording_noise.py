"""Noise of the recordings that vertices, rigid bodies and joints follow, and what it does to the unknowns of a fit.

The answer is where Jᵀ r + P (u − m) = 0 with whitened residuals r, so small errors z of the samples move it by

    du = −(Jᵀ J + P)⁻¹ Jᵀ (r(κ + z) − r(κ − z))/2                (implicit function theorem; Gauss–Newton curvature)

with z drawn from the stated noise of the positions and orientations, each number by itself, in one batch of rollouts.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gradsim.numerics.formatting import two_digits
from gradsim.scene.soft_body import Soft

if TYPE_CHECKING:
    from gradsim.identification.problem import Problem

DRAWS = 64  # of the errors of a recording: their root mean square is then good to 9 %
SEED = 0  # of these


def noisy_recordings(scene) -> dict[str, dict[str, Tensor]]:
    """Standard deviations of the samples, by the name of the motion and by array parameter; of motions with a noise."""
    table = {}
    for name, body in scene.bodies.items():
        if not isinstance(body, Soft):
            continue
        widths = {key: torch.zeros(shape, dtype=torch.float64) for key, (shape, _) in body.motion_arrays.items()}
        begin = dict.fromkeys(widths, 0)
        for k, motion in enumerate(body.motion):
            counts = {"motion_offset": (motion.table.size // (7 if motion.poses else 3), motion.noise)}
            if motion.poses:
                counts["motion_rotation"] = (len(motion.times), motion.angle_noise)
            spread = {f"{name}.{key}": torch.zeros_like(widths[key]) for key in counts}
            for key, (count, width) in counts.items():
                spread[f"{name}.{key}"][begin[key] : begin[key] + count] = width
                begin[key] += count
            if any(width.any() for width in spread.values()):
                table[f"{name}.motion.{k}"] = spread
    joints = {f"joints.{name}": joint.motion for name, joint in scene.joints.items() if joint.motion is not None}
    for name, motion in (scene.recorded | joints).items():
        if motion.noise or motion.angle_noise:
            rows = torch.ones(len(motion.times), 3, dtype=torch.float64)
            spread = {"motion_offset": motion.noise * rows, "motion_rotation": motion.angle_noise * rows}
            table[f"{name}.motion"] = {f"{name}.{key}": width for key, width in spread.items()}
    return table


def shifts(problem: "Problem", u: Tensor, spread: dict[str, Tensor]) -> Tensor:
    """Shifts of the answer (draws, unknowns) in solver coordinates by errors of a recording.

    Args:
        problem: The problem.
        u: The answer (unknowns,).
        spread: Standard deviations by array parameter, as of `noisy_recordings`.
    """
    generator = torch.Generator().manual_seed(SEED)
    errors = {
        name: width * torch.randn(DRAWS, *width.shape, generator=generator, dtype=torch.float64)
        for name, width in spread.items()
    }
    both = {name: torch.cat([error, -error]) for name, error in errors.items()}
    values = problem.model.values({**problem.space.values(u.expand(2 * DRAWS, -1)), **both})
    trajectory = problem.model.rollout_unchecked(values, problem.frames)
    residuals = torch.cat(list(problem.observation.residuals(trajectory, problem.frames, "pixels")), 1)
    change = (residuals[:DRAWS] - residuals[DRAWS:]) / 2
    slopes = torch.cat([J[0] for _, J in problem.jacobian(u[None], problem.frames)])
    curvature = slopes.T @ slopes + problem.prior_precision
    return -change @ slopes @ torch.linalg.pinv(curvature, hermitian=True)


def recording_rows(problem: "Problem", u: Tensor, std: Tensor) -> list[dict]:
    """Rows for the table of known numbers: root mean squares of the shifts of each unknown.

    None of several clips, and of outlines whose noise is fitted with them.

    Args:
        problem: The problem.
        u: The answer (unknowns,), in solver coordinates.
        std: Its standard deviations (unknowns,), in solver coordinates.
    """
    if len(problem.problems) > 1 or getattr(problem.observation, "outline_noise", False):
        return []
    numbers, rows = problem.space.numbers(u), []
    size = torch.where(torch.tensor(problem.space.logarithmic), numbers, 1.0)  # ∂value/∂u
    for name, spread in noisy_recordings(problem.model.scene).items():
        move = shifts(problem, u, spread).square().mean(0).sqrt()
        effects = {}
        for k, key in enumerate(problem.space.names):
            shift, value = (move[k] * size[k]).item(), numbers[k].item()
            percent = 100 * shift / abs(value) if value else None
            effects[key] = {"shift": shift, "percent": percent, "sd": (move[k] / std[k]).item()}
        width = max(part.max().item() for part in spread.values())
        row = {"name": name, "value": 0.0, "unit": "", "step": width, "error": "its noise", "effects": effects}
        rows.append(row | {"largest": max(effect["sd"] for effect in effects.values())})
    return rows


def recording_words(row: dict) -> str:
    """Sentence on what the noise of a recording does to the unknown that it moves by most standard deviations."""
    name = max(row["effects"], key=lambda key: row["effects"][key]["sd"])
    effect = row["effects"][name]
    percent = effect["percent"]
    amount = two_digits(effect["shift"]) if percent is None else f"{two_digits(percent)} %"
    return (
        f"The noise of the recording {row['name']} scatters {name} by {amount} ({two_digits(effect['sd'])} sd), which its "
        "error bar leaves out."
    )
