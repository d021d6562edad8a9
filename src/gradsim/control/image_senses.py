"""What a policy with feedback sees: a small picture."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from gradsim.geometry.surface import Surface
from gradsim.geometry.validation import counts
from gradsim.numerics import rotation
from gradsim.physics.model import Model, States
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.system import parts_of
from gradsim.render.silhouettes import Silhouettes


class ImageSenses:
    """See the silhouette of all bodies in a few pixels, or what another renderer paints, as a camera beside them would.

    A picture shows no speed, and a policy has no memory: with `lag` it sees two, of now and of that long ago, where the
    latter follows from places and velocities to first order in `lag`.

    Args:
        sees: `Silhouettes`, whose camera is made small; or a renderer, a function of surface and parameters that gives
            images (worlds, frames, 3, height, width), which are averaged over blocks of pixels.
        size: Width and height [px] of what the policy sees.
        lag: Between the two pictures [s]; 0 shows one.
        detached: Whether gradients end at the senses (see `senses.py`).

    Raises:
        InputError: If the size is none.
    """

    def __init__(
        self,
        sees: Silhouettes | Callable[[Surface, Mapping[str, Tensor]], Tensor],
        size: tuple[int, int] = (16, 16),
        lag: float = 0.0,
        detached: bool = False,
    ):
        self.lag, self.detached = lag, detached
        self.width, self.height = counts("size", size, 2)
        self.sees, channels = sees, 3
        if isinstance(sees, Silhouettes):
            small = sees.camera.resized(self.width, self.height)
            self.sees, channels = Silhouettes(small), 1
        self.size = channels * self.width * self.height * (2 if lag else 1)

    def __call__(self, states: States, values: Mapping[str, Tensor], plant) -> Tensor:
        """(worlds, size) in [0, 1], float64: rows of pixels, one channel after another, the older picture last.

        Args:
            states: At an instant (worlds, ...), by body and name.
            values: All parameters of the model (worlds or 1, ...).
            plant: Whose bodies they are.
        """
        times = (0.0, self.lag) if self.lag else (0.0,)
        seen = torch.cat([self._picture(plant.model, states, values, ago).flatten(1) for ago in times], 1)
        return (seen.detach() if self.detached else seen).double()

    def _picture(self, model: Model, states: States, values: Mapping[str, Tensor], ago: float) -> Tensor:
        vertices = []
        for system in model.systems:
            state = _earlier(system, states[system.name], values, ago) if ago else states[system.name]
            vertices.append(system.vertices([state[key][:, None] for key in system.states], dict(values)))
        surface = Surface(torch.cat(vertices, 2), tuple(part for system in model.systems for part in parts_of(system)))
        if isinstance(self.sees, Silhouettes):
            return self.sees.union(surface)  # without parameters, which are in pixels of the large picture
        images = self.sees(surface, values)
        return nn.functional.adaptive_avg_pool2d(images.flatten(0, 1), (self.height, self.width)).reshape(
            len(images), -1
        )


def _earlier(system, state: Mapping[str, Tensor], values: Mapping[str, Tensor], ago: float) -> dict[str, Tensor]:
    """The state a moment ago, by its velocities."""
    if "angle" in state:
        return {**state, "angle": state["angle"] - ago * state["rate"]}
    found = {**state, "x": state["x"] - ago * state["v"]}
    if isinstance(system, RigidBody):
        back = rotation.exponential(-ago * system.spin(state["q"], state["l"], dict(values)))
        found["q"] = rotation.multiply(back, state["q"])
    return found
