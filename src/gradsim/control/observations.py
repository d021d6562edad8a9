"""Observations of policies with feedback: normalized states, or a small image.

    soft   (c - c₀)/R,  v̄/V,  (x_i - c)/R and (v_i - v̄)/V of some vertices
    rigid  (x - x₀)/R,  v/V,  ω R/V,  the first two columns of its rotation
    pendulum  sin θ,  cos θ,  θ' R/V, of each arm

R is the body's radius and V = max(√(g R), R/s), so that all are of order 1. c is the centre of mass and c₀ its start, or
a target. Rotations by columns are continuous, unlike quaternions (Zhou et al. 2019, arXiv 1812.07035).

Gradients pass through observations (backpropagation through time): the effect of an action on later observations, and
of these on later actions, is included. Over many intervals such products can grow without bound. `detached` omits that
path: the gradient is that of an open loop with the same actions, times the derivative of each action with respect to its
observation. It stays bounded but is biased: it does not include the effect of reactions on later reactions, so it finds
no policy that damps what it itself excites.
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


class ImageObservation:
    """Low-resolution image of all bodies: silhouettes, or the output of another renderer.

    One image contains no velocity. With `lag` there are two, of the present and of `lag` earlier; the latter follows from
    positions and velocities to first order in `lag`.

    Args:
        renderer: `Silhouettes`, whose camera is resized; or a function of surface and parameters that returns images
            (worlds, frames, 3, height, width), which are averaged over blocks of pixels.
        size: Width and height [px].
        lag: Time between the two images [s]; 0: one image.
        detached: Stop gradients at the observation (see above).

    Raises:
        InputError: If the size is invalid.
    """

    def __init__(
        self,
        renderer: Silhouettes | Callable[[Surface, Mapping[str, Tensor]], Tensor],
        size: tuple[int, int] = (16, 16),
        lag: float = 0.0,
        detached: bool = False,
    ):
        self.lag, self.detached = lag, detached
        self.width, self.height = counts("size", size, 2)
        self.renderer, channels = renderer, 3
        if isinstance(renderer, Silhouettes):
            small = renderer.camera.resized(self.width, self.height)
            self.renderer, channels = Silhouettes(small), 1
        self.size = channels * self.width * self.height * (2 if lag else 1)

    def __call__(self, states: States, values: Mapping[str, Tensor], plant) -> Tensor:
        """(worlds, size) in [0, 1], float64: rows of pixels, channel after channel, the earlier image last.

        Args:
            states: States (worlds, ...) by body and name.
            values: All parameters of the model (worlds or 1, ...).
            plant: Plant of these states.
        """
        times = (0.0, self.lag) if self.lag else (0.0,)
        images = torch.cat([self._image(plant.model, states, values, ago).flatten(1) for ago in times], 1)
        return (images.detach() if self.detached else images).double()

    def _image(self, model: Model, states: States, values: Mapping[str, Tensor], ago: float) -> Tensor:
        vertices = []
        for system in model.systems:
            state = _earlier(system, states[system.name], values, ago) if ago else states[system.name]
            vertices.append(system.vertices([state[key][:, None] for key in system.states], dict(values)))
        surface = Surface(torch.cat(vertices, 2), tuple(part for system in model.systems for part in parts_of(system)))
        if isinstance(self.renderer, Silhouettes):
            return self.renderer.union(surface)  # without parameters, which are in pixels of the large image
        images = self.renderer(surface, values)
        return nn.functional.adaptive_avg_pool2d(images.flatten(0, 1), (self.height, self.width)).reshape(
            len(images), -1
        )


def _earlier(system, state: Mapping[str, Tensor], values: Mapping[str, Tensor], ago: float) -> dict[str, Tensor]:
    """State `ago` seconds earlier, to first order."""
    if "angle" in state:
        return {**state, "angle": state["angle"] - ago * state["rate"]}
    earlier = {**state, "x": state["x"] - ago * state["v"]}
    if isinstance(system, RigidBody):
        back = rotation.exponential(-ago * system.spin(state["q"], state["l"], dict(values)))
        earlier["q"] = rotation.multiply(back, state["q"])
    return earlier


Pendulum = PendulumBody | DoublePendulumBody


class StateObservation:
    """Normalized states of all bodies.

    Args:
        model: The model; radii and starts are those of its own parameters.
        points: Vertices of each soft body, spread over it; at most all.
        target: Position (3,) [m] relative to which the first body's centre is observed, instead of its start; or
            positions by body.
        detached: Stop gradients at the observation (see above).

    Raises:
        InputError: If a target names no body or has another shape.
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
                raise InputError(f"`target` names `{name}`; the bodies are {', '.join(names)}.")
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
            elif isinstance(system, Pendulum):
                self.size += 3 * start[name]["angle"][0, 0].numel()
            else:
                self.size += 15
            if not isinstance(system, Pendulum):
                first = {key: y[:, 0] for key, y in start[name].items()}
                self.home[name] = given[name] if name in given else _centre(system, first, values)[0][0]

    def __call__(self, states: States, values: Mapping[str, Tensor], plant=None) -> Tensor:
        """(worlds, size), float64.

        Args:
            states: States (worlds, ...) by body and name.
            values: All parameters of the model (worlds or 1, ...).
            plant: Unused.
        """
        numbers = torch.cat([y for system in self.systems for y in self._of(system, states[system.name], values)], 1)
        return (numbers.detach() if self.detached else numbers).double()

    def _of(self, system, state: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> list[Tensor]:
        name = system.name
        R, V = self.radius[name], self.speed[name]
        if isinstance(system, Pendulum):
            angle, rate = state["angle"], state["rate"]
            return [torch.stack([torch.sin(angle), torch.cos(angle), rate * (R / V)], 1).flatten(1)]
        centre, velocity = _centre(system, state, values)
        numbers = [(centre - self.home[name].to(centre)) / R, velocity / V]
        if isinstance(system, SoftBody):
            chosen = self.chosen[name]
            numbers.append(((state["x"][:, chosen] - centre[:, None]) / R).flatten(1))
            numbers.append(((state["v"][:, chosen] - velocity[:, None]) / V).flatten(1))
        else:
            spin = system.spin(state["q"], state["l"], dict(values))
            numbers += [spin * (R / V), rotation.to_matrix(state["q"])[..., :2].flatten(1)]
        return numbers


def _centre(system, state: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Centre of mass and its velocity (worlds, 3)."""
    if not isinstance(system, SoftBody):
        return state["x"], state["v"]
    mass = system.mass(dict(values))
    weights = (mass / mass.sum(1, keepdim=True))[..., None]
    return (weights * state["x"]).sum(1), (weights * state["v"]).sum(1)


def _radius(system, values: Mapping[str, Tensor]) -> float:
    """Largest distance [m] of a vertex from the body's centre; of a pendulum, from its pivot."""
    if isinstance(system, PendulumBody):
        return (values[f"{system.name}.string_length"] + values[f"{system.name}.radius"]).item()
    if isinstance(system, DoublePendulumBody):
        return sum(values[f"{system.name}.{arm}_length"].item() for arm in ARMS)
    scale = values.get(f"{system.name}.scale")  # soft bodies may have none
    return torch.linalg.vector_norm(system.rest, dim=-1).max().item() * (1.0 if scale is None else scale.item())


def _spread(rest: Tensor, count: int) -> Tensor:
    """Farthest-point sample (Gonzalez 1985) of `count` vertex indices, beginning with the one farthest from the centre."""
    away, chosen = torch.linalg.vector_norm(rest, dim=-1), []
    for _ in range(min(count, len(rest))):
        chosen.append(int(away.argmax()))
        near = torch.linalg.vector_norm(rest - rest[chosen[-1]], dim=-1)
        away = near if len(chosen) == 1 else torch.minimum(away, near)
    return torch.tensor(chosen, dtype=torch.long, device=rest.device)
