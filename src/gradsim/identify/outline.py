"""Where a motion is on the screen, with its derivatives: what physics moves, as the renderer wants it.

Rigid bodies go there straight from their states; the surface of others is made and projected.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.geometry.surface import Surface
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory
from gradsim.render.coverage.rigid_projection import carry
from gradsim.render.silhouettes import NEAR, Silhouettes, whole


@dataclass(frozen=True)
class Sensitivity:
    """A trajectory of worlds × unknowns rollouts with its derivatives, one unknown in each.

    Args:
        trajectory: The rollouts; every `unknowns`-th is another world.
        tangent: Derivatives of its states.
        along: The directions, by parameter.
        unknowns: Number of unknowns.
    """

    trajectory: Trajectory
    tangent: Trajectory
    along: Values
    unknowns: int

    @property
    def worlds(self) -> Values:
        """Parameters of each world once."""
        return {name: v[:: self.unknowns] for name, v in self.trajectory.values.items()}

    def by_world(self, derivative: Tensor) -> Tensor:
        """(worlds · unknowns, ...) as (worlds, unknowns, ...)."""
        return derivative.unflatten(0, (-1, self.unknowns))


def drawn(trajectory: Trajectory) -> tuple[Tensor, bool]:
    """Faces of all bodies together, and whether they are one convex body."""
    parts = trajectory.parts
    surface = Surface(torch.empty(0, 0, parts[-1].vertices.stop, 3), parts)
    return surface.faces, surface.convex


def on_screen(silhouettes: Silhouettes, seen: Trajectory | Sensitivity) -> tuple[Tensor, Tensor]:
    """Vertices (worlds, frames, n, 2) [px], and their derivatives (worlds, unknowns, frames, n, 2).

    A trajectory alone has no unknowns. A part that is not drawn stands in one point off the image.
    """
    if isinstance(seen, Sensitivity):
        trajectory, unknowns, values = seen.trajectory, seen.unknowns, seen.worlds
        along = {name: seen.by_world(v) for name, v in seen.along.items()}
    else:
        trajectory, unknowns, values, along = seen, 1, seen.values, {}
    if type(trajectory) is not Trajectory or not all(hasattr(s, "carried") for s in trajectory.systems):
        return _projected(silhouettes, seen)  # something else stands between states and surface
    sight, screens, slopes = silhouettes.sight(values, along), [], []
    for s in trajectory.systems:
        states = {name: y[::unknowns] for name, y in trajectory.states[s.name].items()}
        rest, x, q = s.carried(states, values)
        moving = {}
        if isinstance(seen, Sensitivity):
            tangent = seen.tangent.states[s.name]
            moving = {"x_tangent": seen.by_world(tangent["x"]), "q_tangent": seen.by_world(tangent["q"])}
            change = s.rest_tangent(seen.along)
            moving["rest_tangent"] = None if change is None else seen.by_world(change)
        screen, slope = carry(rest, x, q, sight, NEAR, **moving)
        screens.append(screen)
        slopes.append(slope)
    return (screens[0], slopes[0]) if len(screens) == 1 else (torch.cat(screens, 2), torch.cat(slopes, 3))


def _projected(silhouettes: Silhouettes, seen: Trajectory | Sensitivity) -> tuple[Tensor, Tensor]:
    if not isinstance(seen, Sensitivity):
        screen = whole(silhouettes.screen(seen.surface, seen.values))
        return screen, screen.new_empty(len(screen), 0, *screen.shape[1:])
    surface, moving = seen.trajectory.surface_tangent(seen.tangent, seen.along)
    along = {name: seen.by_world(v) for name, v in seen.along.items()}
    once = Surface(surface.vertices[:: seen.unknowns], surface.parts)
    screen, slope = silhouettes.screen_tangent(once, seen.by_world(moving), seen.worlds, along)
    return whole(screen), torch.where(torch.isfinite(screen)[:, None], slope, 0.0)
