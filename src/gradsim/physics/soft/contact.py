"""Contact of the vertices of a soft body: the grounds and obstacles of a scene, one group of elements for each."""

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.physics.contact.laws import stiffening
from gradsim.physics.contact.point_sdf import distance
from gradsim.physics.contact.vertex_plane import touch
from gradsim.physics.contact.vertex_sdf import touch_solid
from gradsim.physics.forces.base import Elements
from gradsim.physics.static_geometry import ObstacleBody
from gradsim.physics.system import State, Values
from gradsim.scene.contact import LAWS


class SoftContact:
    """Contact of one soft body.

    Args:
        name: The body's name.
        scene: Its grounds and obstacles.
        vertices: Those that can touch (k,).
        like: Gives precision and device of all tensors.
        radius: Name of the radius of all vertices [m]; None: they are points.
    """

    def __init__(self, name: str, scene, vertices: Tensor, like: Tensor, radius: str | None = None):
        self.name, self.points, self.radius = name, vertices, radius  # indices among the body's
        self.grounds = list(scene.grounds) if len(vertices) else []
        obstacles = scene.obstacles.items() if len(vertices) else ()
        self.obstacles = [ObstacleBody(key, node, like.dtype, like.device) for key, node in obstacles]
        self.surfaces = [*self.grounds, *(o.name for o in self.obstacles)]
        self.law = next((surface.law for surface in scene.surfaces.values()), "continuous")
        self.damping_name = LAWS[self.law]
        self.groups = [Elements(touch(self.law), vertices[:, None]) for _ in self.grounds]
        self.groups += [Elements(touch_solid(self.law), vertices[:, None]) for _ in self.obstacles]

    def parameters(self, values: Values) -> list[Tensor]:
        """Those of all groups, in order, (worlds, 1, ...)."""
        arguments = []
        for ground in self.grounds:
            arguments += [*self.plane(ground, values), *self.numbers(ground, values)]
        for obstacle in self.obstacles:
            centre, axis, half, rounding = self.solid(obstacle, values)
            arguments += [centre, *axis.unbind(1), *half.unbind(1), rounding, *self.numbers(obstacle.name, values)]
        return [x[:, None] for x in arguments]

    def rates(self, values: Values, mass: Tensor, speed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The largest k/m [1/s²] and c/m [1/s] (worlds,) of a vertex of the least mass, over all surfaces.

        Args:
            values: All parameters.
            mass: Of the vertices (worlds, n) [kg].
            speed: Of the impact (worlds,) [m/s], for the dissipation (`contact/impact.py`); None: without it.
        """
        zero = mass.new_zeros(len(mass))
        if not self.surfaces:
            return zero, zero
        least = mass[:, self.points].amin(1)
        stiffness, drag = [], []
        for surface in self.surfaces:
            k_e, k_d, k_f, _ = (x.detach() for x in self.numbers(surface, values))
            stiffness.append(stiffening(self.law) * k_e / least)
            drag.append((k_f if self.damping_name == "dissipation" else k_f + k_d) / least)
            if speed is not None and self.damping_name == "dissipation":
                drag[-1] = drag[-1] + k_d * speed * torch.sqrt(k_e / least)
        return torch.stack(stiffness).amax(0), torch.stack(drag).amax(0)

    def check(self, values: Values, x: Tensor, allowed: float) -> None:
        """Raise `InputError` if a vertex starts inside a ground or obstacle by more than `allowed` [m]."""
        if not self.surfaces:
            return
        at, gaps = x[:, self.points], []
        for ground in self.grounds:
            normal, height = self.plane(ground, values)
            gaps.append((at * normal[:, None]).sum(-1) - height[:, None])
        for obstacle in self.obstacles:
            centre, axis, half, rounding = self.solid(obstacle, values)
            local = ((at - centre[:, None])[..., None, :] * axis[:, None]).sum(-1)
            gaps.append(distance(local, half[:, None].expand_as(local)) - rounding[:, None])
        depth = -torch.stack(gaps, 1).detach()
        worst = depth.amax((0, 2))
        surface = int(worst.argmax())
        if worst[surface] > allowed:
            vertex = int(self.points[depth[:, surface].amax(0).argmax()])
            raise InputError(
                f"`{self.name}` starts {worst[surface].item():.4g} m inside `{self.surfaces[surface]}` (its vertex "
                f"{vertex}); move one of them away from the other by that much."
            )

    def plane(self, ground: str, values: Values) -> tuple[Tensor, Tensor]:
        """Unit normal (worlds, 3) and height (worlds,) where contact begins."""
        normal = torch.nn.functional.normalize(values[f"{ground}.normal"], dim=-1)
        margin = (
            1.0 * values[f"{ground}.margin"]
        )  # else its gradient and that of the height were one memory, which two passes add to
        return normal, values[f"{ground}.height"] + margin + self._radius(values)

    def solid(self, obstacle: ObstacleBody, values: Values) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Center (worlds, 3), axes (worlds, 3, 3), half sizes (worlds, 3) and rounding (worlds,) where contact begins."""
        centre, axis, half, rounding = obstacle.inputs(values)
        return centre, axis, half, rounding + self._radius(values)

    def _radius(self, values: Values) -> Tensor | float:
        return values[self.radius] if self.radius else 0.0

    def numbers(self, surface: str, values: Values) -> list[Tensor]:
        """Stiffness, damping, friction stiffness and friction (worlds,): the body's own, where it has one."""
        keys = ("stiffness", self.damping_name, "friction_stiffness", "friction")
        return [values.get(f"{self.name}.contact.{key}", values[f"{surface}.{key}"]) for key in keys]


class SoftContactPoints:
    """`ContactPoints` of a soft body: vertices."""

    def __init__(self, contact: SoftContact):
        self.contact, self.surfaces, self.law, self.count = contact, contact.surfaces, contact.law, len(contact.points)

    def label(self, index: int) -> str:
        return f"vertex {int(self.contact.points[index])}"

    def parameters(self, values: Values) -> dict[str, Tensor]:
        zeros = lambda *shape: values["gravity"].new_zeros(len(values["gravity"]), *shape)
        stacked = lambda rows, *shape: torch.stack(rows, 1) if rows else zeros(0, *shape)
        contact = self.contact
        planes = [contact.plane(ground, values) for ground in contact.grounds]
        solids = [contact.solid(obstacle, values) for obstacle in contact.obstacles]
        numbers = [contact.numbers(surface, values) for surface in contact.surfaces]
        keys = ("stiffness", "damping", "friction_stiffness", "friction")
        shapes = {"centre": (3,), "axis": (3, 3), "half": (3,), "rounding": ()}
        return {
            "normal": stacked([normal for normal, _ in planes], 3),
            "height": stacked([height for _, height in planes]),
            "radius": zeros(1),
            **{key: stacked([row[k] for row in numbers]) for k, key in enumerate(keys)},
            **{key: stacked([row[k] for row in solids], *shape) for k, (key, shape) in enumerate(shapes.items())},
        }

    def positions(self, state: State, parameters: dict[str, Tensor]) -> Tensor:
        return state["x"][:, None, self.contact.points]

    def velocities(self, state: State, parameters: dict[str, Tensor], normal: Tensor) -> Tensor:
        return state["v"][:, None, self.contact.points].expand_as(normal)
