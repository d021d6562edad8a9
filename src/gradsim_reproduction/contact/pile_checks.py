"""Checks of piles: finite gradients, adjoints against forward sensitivities, both against secants, energy."""

from typing import Any

import torch
from torch import Tensor

from gradsim.numerics import rotation
from gradsim.physics.contact.point_sdf import distance
from gradsim.physics.contact_events import pair_touches, touches
from gradsim.physics.model import Model
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.pairs import Pairs
from gradsim.physics.rigid.rollout import INPUTS
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory

SEEN = ("x", "q")  # what the loss sees of every body in the last frame
UNITS = {
    "position": 0.01,
    "rotation_vector": 0.05,
    "velocity": 0.1,
    "angular_velocity": 0.5,
}  # of directions; else relative


def check_gradients(
    model: Model, parameters: dict[str, Tensor], seed: int, widths: tuple[float, ...]
) -> list[dict[str, Any]]:
    """All checks of some scenes, side by side.

    Args:
        model: Model of the piles.
        parameters: Parameters of the scenes (scenes, ...).
        seed: Of directions and of the loss.
        widths: Shares of the directions by which secants go to either side. The narrowest comes first; a scene leaves when
            anything else touches, slips or sticks there in any step.
    """
    values, frames = model.values(parameters), model.scene.timing.frames
    model.check(values)
    generator = torch.Generator().manual_seed(seed)
    draw = lambda like: torch.randn(like.shape, generator=generator, dtype=torch.float64)
    along = {name: draw(x) * UNITS.get(name.rpartition(".")[2], 0.01 * x.abs()) for name, x in parameters.items()}
    leaves = {name: x.clone().requires_grad_() for name, x in parameters.items()}
    end = _end(model.rollout(leaves, segment=40))
    weights = draw(end)
    gradient = dict(zip(leaves, torch.autograd.grad((end * weights).sum(), list(leaves.values())), strict=True))
    trajectory, tangent = model.tangent(values, along, frames)
    slope = _end(tangent)
    forward, reverse = slope * weights, [(gradient[name] * along[name]).reshape(len(end), -1) for name in parameters]
    back = torch.cat(reverse, 1)
    gap = (forward.sum(1) - back.sum(1)).abs() / (forward.abs().sum(1) + back.abs().sum(1))
    finite = torch.stack([torch.isfinite(x).all(1) for x in (end.detach(), slope, back)]).all(0)
    energies, touching = energy(model, trajectory, values), pair_touches(_pairs(model), trajectory, values)
    records = [
        {"finite": bool(finite[k]), "adjoint_sensitivity": gap[k].item(), "growth": slope[k].norm().item(),
         "touching": touching.number[k].mean().item(), "most_touching": touching.number[k].max().item(),
         "energy": energies[k, :: max(1, frames // 100)].tolist(), "energy_rise": rise(energies[k]), "secants": {}}
        for k in range(len(end))
    ]  # fmt: skip
    left, base = list(range(len(end))), {}
    for width in sorted(widths):
        shifted = [model.values({name: x + s * width * along[name] for name, x in parameters.items()}) for s in (-1, 1)]
        sides = [model.rollout_unchecked(point, frames) for point in shifted]
        for point, side in zip(shifted, sides, strict=True):
            mark = pair_touches(_pairs(model), side, point).mark
            left = [k for k in left if torch.equal(mark[k], touching.mark[k])]
            for k in list(left):
                base[k] = on_surfaces(trajectory, values, k) if k not in base else base[k]
                if not torch.equal(on_surfaces(side, point, k), base[k]):
                    left.remove(k)
        secant = (_end(sides[1]) - _end(sides[0])) / (2 * width)
        for k in left:
            records[k]["secants"][f"{width:g}"] = ((secant[k] - slope[k]).norm() / slope[k].norm()).item()
    return records


def _end(trajectory: Trajectory) -> Tensor:
    """Final positions and orientations, which the loss depends on (worlds, n)."""
    return torch.cat([state[key][:, -1] for state in trajectory.states.values() for key in SEEN], 1)


def rise(energy: Tensor) -> float:
    """The largest growth above what it was before, over the largest energy."""
    return ((energy - energy.cummin(0).values).max() / energy.abs().max()).item()


def _pairs(model: Model) -> Pairs:
    (pairs,) = [group.pairs for group in model.groups if group.pairs]
    return pairs


def on_surfaces(trajectory: Trajectory, values: Values, world: int) -> Tensor:
    """Contact, sliding and pressing flags on ground and obstacles in one world (frames, points)."""
    marks, one = [], {name: x[world : world + 1] for name, x in values.items()}
    for s in [s for s in trajectory.systems if isinstance(s, RigidBody)]:
        events = touches(s, {key: y[world : world + 1] for key, y in trajectory[s.name].items()}, one)
        marks += [y.flatten(1) for y in (events.inside, events.sliding, events.pressing)]
    return torch.cat(marks, 1)


def energy(model: Model, trajectory: Trajectory, values: Values) -> Tensor:
    """Kinetic, by weight, and of contact (worlds, frames) [J]; the bodies' contact with surfaces is of the law's elastic part."""
    total = pair_touches(_pairs(model), trajectory, values).energy
    for s in model.systems:
        if not isinstance(s, RigidBody):
            continue
        state, mass = trajectory[s.name], s.mass(values)
        turn = rotation.to_matrix(state["q"])
        body = (turn.mT @ state["l"][..., None])[..., 0]
        spin = torch.linalg.solve(s.inertia(values)[:, None], body[..., None])[..., 0]
        height = -(state["x"] * values["gravity"][:, None]).sum(-1)
        total = total + mass[:, None] * (0.5 * state["v"].square().sum(-1) + height) + 0.5 * (spin * body).sum(-1)
        if s.surfaces:
            stiffness = dict(zip(INPUTS, s.inputs(values), strict=False))["stiffness"]
            for world in range(len(total)):
                deep = _depth(s, trajectory, values, world).clamp(min=0).unflatten(1, (len(s.surfaces), -1))
                total[world] = total[world] + 0.5 * (stiffness[world] * deep.square().sum(-1)).sum(-1)
    return total.detach()


def _depth(s: RigidBody, trajectory: Trajectory, values: Values, world: int) -> Tensor:
    """Penetration depth of each point into each surface in one world (frames, surfaces · points) [m]; below 0 outside."""
    inputs = {name: x[world].detach() for name, x in zip(INPUTS, s.inputs(values), strict=False)}
    state = {key: y[world].detach() for key, y in trajectory[s.name].items()}
    at = rotation.rotate(state["q"][:, None], inputs["points"]) + state["x"][:, None]
    gap = (at[:, None] * inputs["normal"][:, None]).sum(-1) - inputs["height"][:, None] - inputs["radius"]
    local = ((at[:, None] - inputs["centre"][:, None])[..., None, :] * inputs["axis"][:, None]).sum(-1)
    away = distance(local, inputs["half"][:, None].expand_as(local)) - inputs["rounding"][:, None] - inputs["radius"]
    return -torch.cat([gap, away], 1).flatten(1)
