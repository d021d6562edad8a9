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
from gradsim.physics.model import Model, States
from gradsim.physics.system import ObservationUnits
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
            state = states[system.name]
            if ago:
                state = system.extrapolate(state, dict(values), -ago)
            vertices.append(system.vertices([state[key][:, None] for key in system.states], dict(values)))
        surface = Surface(torch.cat(vertices, 2), tuple(part for system in model.systems for part in system.parts))
        if isinstance(self.renderer, Silhouettes):
            return self.renderer.union(surface)  # without parameters, which are in pixels of the large image
        images = self.renderer(surface, values)
        return nn.functional.adaptive_avg_pool2d(images.flatten(0, 1), (self.height, self.width)).reshape(
            len(images), -1
        )


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
        targets = target if isinstance(target, Mapping) else {} if target is None else {names[0]: target}
        for name, place in targets.items():
            if name not in names:
                raise InputError(f"`target` names `{name}`; the bodies are {', '.join(names)}.")
            if not isinstance(place, Tensor) or place.shape != (3,):
                got = f"shape {tuple(place.shape)}" if isinstance(place, Tensor) else repr(place)
                raise InputError(f"the target of `{name}` is {got}; expected a tensor (3) [m].")
        values = {name: value.detach() for name, value in model.values().items()}
        g = torch.linalg.vector_norm(values["gravity"]).item()
        self.units: dict[str, ObservationUnits] = {}
        with torch.no_grad():
            start = model.rollout(frames=1)
        self.size = 0
        for system in self.systems:
            name, radius = system.name, system.bounding_radius(values)
            first = {key: y[:, 0] for key, y in start[name].items()}
            origin = targets.get(name)
            if origin is None and "x" in first:
                origin = system.center_of_mass(first, values)[0]
            speed = max(math.sqrt(g * radius), radius)
            self.units[name] = ObservationUnits(radius, speed, origin, system.landmarks(points))
            self.size += system.observables(first, values, self.units[name]).shape[1]

    def __call__(self, states: States, values: Mapping[str, Tensor], plant=None) -> Tensor:
        """(worlds, size), float64.

        Args:
            states: States (worlds, ...) by body and name.
            values: All parameters of the model (worlds or 1, ...).
            plant: Unused.
        """
        parts = [s.observables(states[s.name], dict(values), self.units[s.name]) for s in self.systems]
        numbers = torch.cat(parts, 1)
        return (numbers.detach() if self.detached else numbers).double()
