"""Largest speed at which a body can meet a surface, for the time step: the continuous law damps more at higher speed.

    f = k C (1 + a Ċ)      in a bounce of speed V on a spring k, C reaches V √(m/k), so ∂f/∂Ċ is a k C ≤ a V √(k m)

with the stiffest k of all that touches at once. The bound of an explicit step, h² k/m + 2 h c/m < 4, then has
c/m = a V √(k/m) in addition (see `hunt_crossley.py`).
"""

import torch
from torch import Tensor

from gradsim.physics.system import Values

IMPACT_STEP_FACTOR = 0.5  # proposed step over the largest stable one with the dissipation at the speed of the impact


def fall_speed(speed: Tensor, height: Tensor, gravity: Tensor, time: float) -> Tensor:
    """Largest speed [m/s] of what starts at `speed`: at the end of the clip, or at its lowest place.

    Args:
        speed: At the start, blows included (worlds,) or (worlds, bodies) [m/s].
        height: Of the start above the lowest place, of the same shape [m]; infinite where none is known.
        gravity: Vector (worlds, 3) [m/s²].
        time: Length of the clip [s].
    """
    g = torch.linalg.vector_norm(gravity, dim=-1)
    g = g[:, None] if speed.ndim > 1 else g
    lowest = torch.sqrt(speed**2 + 2 * g * height.clamp(min=0))
    return torch.where(g > 0, torch.minimum(speed + g * time, lowest), speed)  # 0 · ∞ is not a number


def clip_length(scene, values: Values) -> float:
    """Simulated time of the whole clip [s], at the fastest clock of all worlds."""
    return scene.timing.frames / scene.timing.fps * values["timing.rate"].max().item()


def height_above(surfaces, x: Tensor, values: Values) -> Tensor:
    """Largest height [m] along gravity of the places x above the grounds and obstacles of a body, (worlds,) or (worlds, bodies).

    Args:
        surfaces: Has `grounds`, names, and `obstacles`, which are `ObstacleBody`.
        x: Places (worlds, 3) [m].
    """
    of_world = lambda y: y[:, None] if x.ndim > 2 else y
    up = of_world(-torch.nn.functional.normalize(values["gravity"], dim=-1))
    heights = [torch.zeros_like(x[..., 0])]
    for ground in surfaces.grounds:
        normal = of_world(torch.nn.functional.normalize(values[f"{ground}.normal"], dim=-1))
        along = (normal * up).sum(-1)
        gap = (x * normal).sum(-1) - of_world(values[f"{ground}.height"])
        heights.append(torch.where(along > 0, gap / along, torch.inf))
    for obstacle in surfaces.obstacles:
        centre, _, half, rounding = map(of_world, obstacle.inputs(values))
        reach = torch.linalg.vector_norm(half, dim=-1) + rounding
        heights.append(((x - centre) * up).sum(-1) + reach)
    return torch.stack([h.expand_as(x[..., 0]) for h in heights]).amax(0)
