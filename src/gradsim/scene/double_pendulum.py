"""Two arms that swing in a vertical plane, the second about the end of the first."""

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from gradsim.scene.body import BLUE, TURN
from gradsim.scene.material import COLOUR, Material
from gradsim.scene.node import Node, Place
from gradsim.scene.quantity import Quantity, Vector3, positive, vector

ORANGE = (0.85, 0.45, 0.1)
ANGLE, RATE = Quantity("rad", lower=-TURN, upper=TURN), Quantity("rad/s")
RADIUS = Quantity("m", lower=0.0)


class DoublePendulum(Node):
    """Two arms in a vertical plane: the first swings about a fixed pivot, the second about the end of the first.

    Attributes:
        masses: `points`: a point mass at the end of each massless arm. `rods`: the arms are uniform rods, and bobs are
            drawn only.
        pivot: [m].
        first_length, second_length: Of the arms, from hinge to end [m].
        first_mass, second_mass: Of the arms [kg].
        first_angle, second_angle: At the start, both from hanging straight down, positive towards `plane` [rad].
        first_rate, second_rate: At the start [rad/s].
        damping: Of both hinges, torque over the rate between what they join [N m s].
        force: On the far end, always the same [N]; its part across the plane does nothing.
        plane: Horizontal direction of the swing, of any length.
        first_radius, second_radius: Of the bobs as drawn [m]; 0: not drawn.
        rod_radius: Of the arms as drawn [m]; 0: not drawn.
        colour, second_colour: Red, green and blue of the first arm with its bob, and of the second.
        material: How both answer light; by default plain and matte.
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
    colour: Annotated[Vector3, COLOUR] = BLUE
    second_colour: Annotated[Vector3, COLOUR] = ORANGE
    material: Material | None = None

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if not any(self.plane) or abs(self.plane[2]) > 1e-9 * math.hypot(*self.plane):
            yield ("plane",), f"got {list(self.plane)}; expected a horizontal direction, such as [1, 0, 0]."
        for key in ("first_radius", "second_radius"):
            if not self.rod_radius and not getattr(self, key):
                yield (key,), "got 0, and `rod_radius` is 0 too: nothing of the arm would be drawn; give one of them."
