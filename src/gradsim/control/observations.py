"""What a policy with feedback sees: a small picture.

What a policy with feedback sees: numbers of the state.

    soft   (c - c₀)/R,  v̄/V,  (x_i - c)/R and (v_i - v̄)/V of some vertices
    rigid  (x - x₀)/R,  v/V,  ω R/V,  the first two columns of its rotation
    pendulum  sin θ,  cos θ,  θ' R/V, of each arm

R is the body's radius, V = max(√(g R), R/s): so all are of order 1. c is the centre of mass and c₀ where it starts, or
the place it should go to. A rotation by columns is continuous, unlike quaternions (Zhou et al. 2019, arXiv 1812.07035).

Gradients go through the senses: what an action does to later observations, and these to later actions, counts
(backpropagation through time). Over many intervals such products may grow without bound, where each of their factors
is larger than 1. `detached` leaves that path out: a gradient is then that of the actions as if they had been an open
loop, and how each depends on its own observation. It stays tame, and is biased: it knows nothing of what a policy's
reactions do to its later ones, so it finds no policy that damps what it itself excites.
"""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from gradsim.errors import InputError
from gradsim.geometry.surface import Surface
from gradsim.geometry.validation import counts
from gradsim.numerics import rotation
from gradsim.physics.model import Model, States
from gradsim.physics.pendulum.double import ARMS, DoublePendulumBody
from gradsim.physics.pendulum.simple import PendulumBody
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.soft.body import SoftBody
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


Swinging = PendulumBody | DoublePendulumBody


class StateSenses:
    """See the states of all bodies.

    Args:
        model: The model that is looked at; radii and starts are those of its own parameters.
        points: Vertices of each soft body, spread over it; all where it has fewer.
        target: The place (3,) [m] of the first body that its centre is seen from, in place of its start; or places by
            body.
        detached: Whether gradients end at the senses.

    Raises:
        InputError: If a place is of no body, or no place.
    """

    def __init__(
        self, model: Model, points: int = 8, target: Tensor | Mapping[str, Tensor] | None = None, detached: bool = False
    ):
        counts("points", points, least=0)
        self.systems, self.detached = model.systems, detached
        names = [system.name for system in self.systems]
        given = target if isinstance(target, Mapping) else {} if target is None else {names[0]: target}
        for name, place in given.items():
            if name not in names:
                raise InputError(f"a target is of `{name}`; the bodies are {', '.join(names)}.")
            if not isinstance(place, Tensor) or place.shape != (3,):
                got = f"shape {tuple(place.shape)}" if isinstance(place, Tensor) else repr(place)
                raise InputError(f"the target of `{name}` is {got}; expected a tensor (3) [m].")
        values = {name: value.detach() for name, value in model.values().items()}
        g = torch.linalg.vector_norm(values["gravity"]).item()
        self.radius, self.speed, self.home, self.chosen = {}, {}, {}, {}
        with torch.no_grad():
            start = model.rollout(frames=1)
        self.size = 0
        for system in self.systems:
            name = system.name
            self.radius[name] = _radius(system, values)
            self.speed[name] = max(math.sqrt(g * self.radius[name]), self.radius[name])
            if isinstance(system, SoftBody):
                self.chosen[name] = _spread(system.rest, points)
                self.size += 6 + 6 * len(self.chosen[name])
            elif isinstance(system, Swinging):
                self.size += 3 * start[name]["angle"][0, 0].numel()
            else:
                self.size += 15
            if not isinstance(system, Swinging):
                first = {key: y[:, 0] for key, y in start[name].items()}
                self.home[name] = given[name] if name in given else _centre(system, first, values)[0][0]

    def __call__(self, states: States, values: Mapping[str, Tensor], plant=None) -> Tensor:
        """(worlds, size), float64.

        Args:
            states: At an instant (worlds, ...), by body and name.
            values: All parameters of the model (worlds or 1, ...).
            plant: Not needed.
        """
        seen = torch.cat([y for system in self.systems for y in self._of(system, states[system.name], values)], 1)
        return (seen.detach() if self.detached else seen).double()

    def _of(self, system, state: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> list[Tensor]:
        name = system.name
        R, V = self.radius[name], self.speed[name]
        if isinstance(system, Swinging):
            angle, rate = state["angle"], state["rate"]
            return [torch.stack([torch.sin(angle), torch.cos(angle), rate * (R / V)], 1).flatten(1)]
        centre, velocity = _centre(system, state, values)
        found = [(centre - self.home[name].to(centre)) / R, velocity / V]
        if isinstance(system, SoftBody):
            chosen = self.chosen[name]
            found.append(((state["x"][:, chosen] - centre[:, None]) / R).flatten(1))
            found.append(((state["v"][:, chosen] - velocity[:, None]) / V).flatten(1))
        else:
            spin = system.spin(state["q"], state["l"], dict(values))
            found += [spin * (R / V), rotation.to_matrix(state["q"])[..., :2].flatten(1)]
        return found


def _centre(system, state: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Centre of mass and its velocity (worlds, 3)."""
    if not isinstance(system, SoftBody):
        return state["x"], state["v"]
    mass = system.mass(dict(values))
    share = (mass / mass.sum(1, keepdim=True))[..., None]
    return (share * state["x"]).sum(1), (share * state["v"]).sum(1)


def _radius(system, values: Mapping[str, Tensor]) -> float:
    """Largest distance from a body's centre [m]; of a pendulum, from its pivot."""
    if isinstance(system, PendulumBody):
        return (values[f"{system.name}.string_length"] + values[f"{system.name}.radius"]).item()
    if isinstance(system, DoublePendulumBody):
        return sum(values[f"{system.name}.{arm}_length"].item() for arm in ARMS)
    scale = values.get(f"{system.name}.scale")  # soft bodies may have none
    return torch.linalg.vector_norm(system.rest, dim=-1).max().item() * (1.0 if scale is None else scale.item())


def _spread(rest: Tensor, count: int) -> Tensor:
    """Indices of so many vertices, each the farthest from those before (Gonzalez 1985), the first from the centre."""
    away, chosen = torch.linalg.vector_norm(rest, dim=-1), []
    for _ in range(min(count, len(rest))):
        chosen.append(int(away.argmax()))
        near = torch.linalg.vector_norm(rest - rest[chosen[-1]], dim=-1)
        away = near if len(chosen) == 1 else torch.minimum(away, near)
    return torch.tensor(chosen, dtype=torch.long, device=rest.device)
