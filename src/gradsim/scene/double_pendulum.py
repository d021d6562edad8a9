"""Double pendulums of a scene."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from gradsim.scene.body import BLUE, FULL_TURN, BodyNode, still_pivot
from gradsim.scene.material import COLOR, Material
from gradsim.scene.node import Place
from gradsim.scene.quantity import Quantity, Vector3, positive, vector

ORANGE = (0.85, 0.45, 0.1)
ANGLE, RATE = Quantity("rad", lower=-FULL_TURN, upper=FULL_TURN), Quantity("rad/s")
RADIUS = Quantity("m", lower=0.0)


class DoublePendulum(BodyNode):
    """Two arms in a vertical plane: the first swings about a fixed pivot, the second about the end of the first.

    Attributes:
        masses: `points`: a point mass at the end of each massless arm. `rods`: uniform rods, with bobs for rendering
            only.
        pivot: Position of the pivot [m].
        first_length, second_length: Lengths of the arms from hinge to end [m].
        first_mass, second_mass: Masses of the arms [kg].
        first_angle, second_angle: Initial angles, both from the downward vertical, positive towards `plane` [rad].
        first_rate, second_rate: Initial angular velocities [rad/s].
        damping: Damping of both hinges, torque over relative angular velocity [N m s].
        force: Constant force on the end of the second arm [N]; its component across the plane has no effect.
        plane: Horizontal direction of the swing, of any length.
        first_radius, second_radius: Radii of the rendered bobs [m]; 0: not rendered.
        rod_radius: Radius of the rendered arms [m]; 0: not rendered.
        colour, second_colour: RGB of the first arm with its bob, and of the second.
        material: Reflectance of both; by default plain and matte.
    """

    kind: Literal["double_pendulum"] = Field(description="kind: double_pendulum")
    masses: Literal["points", "rods"] = "points"
    pivot: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    first_length: Annotated[float, positive("m")] = Field(description="the length of the first arm in m")
    second_length: Annotated[float, positive("m")] = Field(description="the length of the second arm in m")
    first_mass: Annotated[float, positive("kg")] = 1.0
    second_mass: Annotated[float, positive("kg")] = 1.0
    first_angle: Annotated[float, ANGLE] = 0.0
    second_angle: Annotated[float, ANGLE] = 0.0
    first_rate: Annotated[float, RATE] = 0.0
    second_rate: Annotated[float, RATE] = 0.0
    damping: Annotated[float, Quantity("N m s", lower=0.0, positive=True)] = 0.0
    force: Annotated[Vector3, vector("N")] = (0.0, 0.0, 0.0)
    plane: Annotated[Vector3, vector("")] = (1.0, 0.0, 0.0)
    first_radius: Annotated[float, RADIUS] = 0.05
    second_radius: Annotated[float, RADIUS] = 0.05
    rod_radius: Annotated[float, RADIUS] = 0.0
    colour: Annotated[Vector3, COLOR] = BLUE
    second_colour: Annotated[Vector3, COLOR] = ORANGE
    material: Material | None = None

    def part_colors(self, name: str) -> dict[str, Vector3]:
        return {f"{name}.first": self.colour, f"{name}.second": self.second_colour}

    @classmethod
    def faults(cls, raw: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
        yield from still_pivot(raw)

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if not any(self.plane) or abs(self.plane[2]) > 1e-9 * math.hypot(*self.plane):
            yield ("plane",), f"got {list(self.plane)}; expected a horizontal direction, such as [1, 0, 0]."
        for key in ("first_radius", "second_radius"):
            if not self.rod_radius and not getattr(self, key):
                yield (key,), "and `rod_radius` are both 0, so the arm would be invisible; give one of them."
