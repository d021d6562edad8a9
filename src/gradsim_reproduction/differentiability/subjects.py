"""Subjects of the differentiability table: trajectories, images, smoke and policies."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradsim.control.plant import Control, Parameters, Plant
from gradsim.control.policies import Feedback
from gradsim.geometry.surface import Surface
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.light_masks import LightMasks
from gradsim.identification.problem import Problem
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.physics.smoke.solver import Smoke
from gradsim.physics.system import Values
from gradsim.render.renderer import Renderer
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim.scene.parameters import parameters
from gradsim.video.background import subtract_background

LOOK = ("color", "texture", "diffuse", "specular", "shininess")
CHECKS = (5, 4)  # rows and columns of the texture


class TrajectorySubject:
    """States of all bodies and vertices of their surface, at all frames.

    Args:
        scene: The scene.
        given: Values (1, ...) in place of the scene's, such as actuation over time.
    """

    def __init__(self, scene: Scene, given: Values | None = None):
        self.model = Model(scene)
        self.given = dict(given or {})

    def values(self) -> Values:
        return {name: value.detach() for name, value in self.model.values(self.given).items()}

    def observe(self, given: Values) -> list[Tensor]:
        values = {**self.given, **given}
        worlds = max(len(v) for v in values.values())
        if worlds == 1:  # next to a copy: one world alone may have kernels of its own, and the differences take many
            values = {name: v.expand(2, *v.shape[1:]) for name, v in values.items()}
        trajectory = self.model.rollout(values)
        states = [y[:worlds] for state in trajectory.states.values() for y in state.values()]
        return [*states, trajectory.surface.vertices[:worlds]]

    def tangent(self, direction: Values) -> list[Tensor]:
        worlds = max(len(v) for v in direction.values())
        values = {name: v.expand(worlds, *v.shape[1:]).clone() for name, v in self.values().items()}
        trajectory, moving = self.model.tangent(values, direction, self.model.scene.timing.frames)
        states = [y for state in moving.states.values() for y in state.values()]
        return [*states, trajectory.surface_tangent(moving, dict(direction))[1]]


class SmokeSubject:
    """Velocity and density of smoke in a walled box with an obstacle; forces and sources differ over time."""

    SHAPE, FRAMES = (7, 6), 4

    def __init__(self):
        obstacles = torch.zeros(self.SHAPE, dtype=torch.bool)
        obstacles[4, 2:4] = True
        about = {"spacing": 0.1, "dt": 0.05, "boundary": "walled", "obstacles": obstacles}
        self.smoke = Smoke(self.SHAPE, **about, dtype=torch.float64)

    def values(self) -> Values:
        generator = torch.Generator().manual_seed(0)
        draw = lambda *shape: torch.randn(1, *shape, *self.SHAPE, generator=generator, dtype=torch.float64)
        fields = {"velocity": 0.5 * draw(2), "density": draw().abs()}
        fields |= {"forces": draw(self.FRAMES - 1, 2), "sources": draw(self.FRAMES - 1)}
        numbers = {"viscosity": [0.02], "buoyancy": [[-1.5, 0.3]]}
        return fields | {name: torch.tensor(x, dtype=torch.float64) for name, x in numbers.items()}

    def observe(self, given: Values) -> list[Tensor]:
        inputs: dict[str, Any] = {**self.values(), **given}
        plume = self.smoke.rollout(**inputs, frames=self.FRAMES)
        return [plume.velocity, plume.density]

    def tangent(self, direction: Values) -> None:
        """Smoke has an adjoint alone."""


class PolicySubject:
    """States of a motion whose muscles a perceptron sets, every two frames, by the body's centre and its velocity.

    In addition to the parameters of the scene, `policy.weights.0` and so on.

    Args:
        scene: A scene whose first body is soft.
        muscles: Its actuation, by name.
    """

    def __init__(self, scene: Scene, muscles: str):
        self.size = 6
        self.plant = Plant(Model(scene), [Control(muscles, -0.3, 0.3)], 2, self)
        self.policy = Feedback(self.size, self.plant.outputs, hidden=(4,), start=0.5)

    def __call__(self, states, values: Parameters, plant: Plant) -> Tensor:
        """Observation of the policy."""
        state = states[plant.model.systems[0].name]
        return torch.cat([state["x"].mean(1), 0.2 * state["v"].mean(1)], 1)

    def values(self) -> Values:
        weights = {f"policy.{name}": w.detach()[None] for name, w in self.policy.named_parameters()}
        return {name: v.detach() for name, v in self.plant.model.values().items()} | weights

    def observe(self, given: Values) -> list[Tensor]:
        worlds = max(len(v) for v in given.values())
        values = {**self.values(), **given}
        weights = {name: w.expand(worlds, *w.shape[1:]) for name, w in values.items() if name.startswith("policy.")}
        parameters = {name: v for name, v in given.items() if name not in weights}
        policy = _Weighed(self.policy, {name.removeprefix("policy."): w for name, w in weights.items()})
        episode = self.plant.rollout(policy, parameters, worlds=worlds)
        return [*(y for one in episode.trajectory.states.values() for y in one.values()), episode.actions]

    def tangent(self, direction: Values) -> None:
        """Policies have an adjoint alone."""


@dataclass(frozen=True)
class _Weighed:
    """A policy with weights (worlds, ...) of its own in each world."""

    policy: Feedback
    weights: Values
    feedback = True

    def __call__(self, times: Tensor, observation: Tensor | None) -> Tensor:
        act = lambda weights, seen: torch.func.functional_call(self.policy, weights, (times, seen[None]))[0]
        assert observation is not None, "a policy with feedback"
        return torch.func.vmap(act)(self.weights, observation)


def with_actuation(scene: Scene, *names: str) -> TrajectorySubject:
    """A motion with another value of these for each frame interval and element."""
    generator = torch.Generator().manual_seed(0)
    kinds, intervals = parameters(scene), scene.timing.frames - 1
    draw = lambda count: 0.05 * torch.randn(1, intervals, count, generator=generator, dtype=torch.float64)
    return TrajectorySubject(scene, {name: float(kinds[name].value) + draw(kinds[name].elements) for name in names})


class RenderedSubject:
    """Two images of a moment of a motion, without and with a texture on the first body: by camera, lights and looks.

    Looks have no names among the parameters of a scene; here `look.texture` is the image (1, 3, h, w) on that body,
    and `look.color` its color where it has none. Bodies without uv have no texture.

    Args:
        scene: The scene; its camera and lights.
        frame: Which moment.
    """

    def __init__(self, scene: Scene, frame: int = 1):
        self.renderer = Renderer.of(scene, "aa", law="phong")
        with torch.no_grad():
            trajectory = Model(scene).rollout(frames=frame + 1).at([frame])
            self.surface, self.own = trajectory.scene_surface, trajectory.values
        self.wrapped = self.surface.parts[0].appearance.uv is not None

    def values(self) -> Values:
        generator = torch.Generator().manual_seed(0)
        texture = torch.rand(1, 3, *CHECKS, generator=generator, dtype=torch.float64)
        view = {name: v.detach() for name, v in self.own.items() if name.startswith(("camera.", "lights."))}
        looks = {"color": texture[:, :, 0, 0], **({"texture": texture} if self.wrapped else {})}
        shine = {"diffuse": 0.7, "specular": 0.5, "shininess": 2.5}
        looks |= {key: torch.tensor([x], dtype=torch.float64) for key, x in shine.items()}
        return view | {f"look.{key}": x for key, x in looks.items()}

    def observe(self, given: Values) -> list[Tensor]:
        worlds = max(len(v) for v in given.values())
        if worlds > 1 and any(name.startswith("look.") for name in given):  # which a surface has one of for all worlds
            singly = [self.observe({name: v[k : k + 1] for name, v in given.items()}) for k in range(worlds)]
            return [torch.cat(images) for images in zip(*singly, strict=True)]
        merged = {**self.values(), **given}
        looks = {key: merged.pop(f"look.{key}")[0] for key in LOOK if f"look.{key}" in merged}
        dresses = ({**looks, "texture": None}, *([looks] if self.wrapped else []))
        return [self.renderer(self._dressed(dress, worlds), merged) for dress in dresses]

    def tangent(self, direction: Values) -> None:
        """Renderers have adjoints alone."""

    def _dressed(self, looks: Mapping[str, Tensor | None], worlds: int) -> Surface:
        """The surface with these looks on the first body, in all worlds."""
        first, *others = self.surface.parts
        dressed = replace(first, appearance=replace(first.appearance, **looks))
        return Surface(self.surface.vertices.expand(worlds, -1, -1, -1), (dressed, *others))


class MasksSubject:
    """Cost of masks of a motion through a camera with a lens and a shutter, by solver coordinates of numbers of the camera.

    Args:
        scene: The scene; what its camera states is unknown.
        ranges: Unknowns with their ranges, by name.
        frames: Number of frames.
    """

    SIGMA, AWAY = 0.1, 0.02  # noise of the masks; from the coordinates of the masks to those of the derivatives

    def __init__(self, scene: Scene, ranges: Mapping[str, str], frames: int = 4):
        assert scene.camera is not None  # through which the masks are seen
        model, view = Model(scene), Silhouettes.of(scene)
        space = Space(scene, [f"{name}:{span}" for name, span in ranges.items()])
        self.u, blank = (
            torch.lerp(space.low, space.high, 1 / 3)[None],
            torch.zeros(frames, *reversed(scene.camera.size)),
        )
        with torch.no_grad():
            trajectory = model.rollout_unchecked(model.values(space.values(self.u + self.AWAY)), frames)
            masks = Masks(blank, 1.0, view).image(trajectory)
        self.problem, self.names = Problem(model, self._observed(masks, view), space), list(ranges)

    def _observed(self, masks: Tensor, view: Silhouettes) -> Masks:
        return Masks(masks, self.SIGMA, view)

    def values(self) -> Values:
        return {name: self.u[:, k] for k, name in enumerate(self.names)}

    def observe(self, given: Values) -> list[Tensor]:
        return [self.problem.sum_of_squares(self._points(given))[0][:, None]]

    def tangent(self, direction: Values) -> list[Tensor]:
        worlds = max(len(v) for v in direction.values())
        _, _, gradient = self.problem.linearize(self.u.expand(worlds, -1), self.problem.frames)
        along = torch.stack([direction.get(name, torch.zeros(1)).expand(worlds) for name in self.names], 1)
        return [2 * (gradient * along).sum(1, keepdim=True)]

    def _points(self, given: Values) -> Tensor:
        worlds = max(len(v) for v in given.values())
        return torch.stack([{**self.values(), **given}[name].expand(worlds) for name in self.names], 1)


class ResponseSubject(MasksSubject):
    """The same of a video whose values are light to the power of 1/γ, with the gain over a film of the empty scene.

    Its masks are measured from colors of 8 bits, and follow γ and gain (`identification.observation.light_masks`).
    """

    DARK, BRIGHT = (0.08, 0.06, 0.15), (0.75, 0.7, 0.6)  # colors of the body and of the background

    def __init__(self, scene: Scene, ranges: Mapping[str, str], frames: int = 4):
        assert scene.camera is not None and scene.camera.gamma is not None and scene.camera.gain is not None
        self.gamma, self.gain = scene.camera.gamma, scene.camera.gain
        self.blur = (scene.camera.exposure or 0.0) * scene.timing.fps
        super().__init__(scene, ranges, frames)

    def _observed(self, masks: Tensor, view: Silhouettes) -> Masks:
        alpha = masks.double().numpy()
        dark, bright = np.array(self.DARK) ** self.gamma, self.gain * np.array(self.BRIGHT) ** self.gamma
        light = alpha[..., None] * dark + (1 - alpha[..., None]) * bright
        video = np.rint(255 * light ** (1 / self.gamma)).clip(0, 255).astype(np.uint8)
        plate = np.broadcast_to(self.gain ** (1 / self.gamma) * np.array(self.BRIGHT), video.shape[1:])
        measured = subtract_background(video, plate, None, True, alpha > 0.5, self.blur, self.gamma)
        assert measured.edges is not None  # of a video with soft edges
        plain = Masks(torch.tensor(measured.masks), self.SIGMA, view, torch.tensor(measured.weight))
        plain.outline_noise = True
        return LightMasks(plain, measured.edges.at_gain(self.gamma, self.gain), self.gamma, self.gain)
