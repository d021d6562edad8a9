"""Plant, initial policy and goal of a task, checked before any training."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from gradsim.control.actuator_sharing import groups_along
from gradsim.control.goals.base import Goal, Truth
from gradsim.control.goals.image import ImageGoal, ImageLike, ImageRenderer, listed, read_goal_image
from gradsim.control.goals.state import StateGoal
from gradsim.control.observations import ImageObservation, StateObservation
from gradsim.control.plant import Control, Episode, Plant
from gradsim.control.task.nodes import FeedbackNode, StateObservationNode, schedule
from gradsim.control.task.task import Task
from gradsim.control.training.settings import TrainingConfig
from gradsim.errors import InputError
from gradsim.geometry.surface import Surface
from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory
from gradsim.render.camera import project
from gradsim.render.renderer import Renderer
from gradsim.render.silhouettes import NEAR_DEPTH, Silhouettes


@torch.no_grad()
def place_body(
    model: Model,
    body: str,
    place: Sequence[float] | None,
    shift: Sequence[float] | None,
    rotation_vector: Sequence[float] | None = None,
    frame: int = -1,
) -> tuple[Trajectory, Truth]:
    """One frame with an undeformed body at a position, the others at their start, and its `Truth`.

    Args:
        model: The model.
        body: Name of the body.
        place: Position [m], or
        shift: position relative to its start [m].
        rotation_vector: Orientation; None: that of the scene.
        frame: Frame of the truth.

    Raises:
        InputError: If the body has no position.
    """
    key = f"{body}.position"
    if key not in model.kinds:
        raise InputError(f"`{body}` has no position that could be set; give `pictures` of the goal.")
    start = model.get_parameter(key).detach()
    position = start.new_tensor(place) if place is not None else start + start.new_tensor(shift or (0.0, 0.0, 0.0))
    parameters = {key: position[None]}
    if rotation_vector is not None:
        parameters[f"{body}.rotation_vector"] = start.new_tensor(rotation_vector)[None]
    trajectory = model.rollout(parameters, 1)
    x = trajectory[body]["x"]
    centre = Episode(trajectory, x.new_empty(1, 0, 0)).centre(body)[0, 0]
    return trajectory, Truth(body, centre, x[0, 0] if x.ndim == 4 else None, frame)


@torch.no_grad()
def render_empty_scene(model: Model, cameras: Sequence[str]) -> list[Tensor | None]:
    """Image (3, height, width) of each camera without bodies; None: its plain background."""
    if not model.scenery:
        return [None] * len(cameras)
    values, vertices, parts = model.values(), [], []
    for thing in model.scenery:
        vertices.append(thing.vertices(values)[:, None])
        parts.append(thing.part(parts[-1].vertices.stop if parts else 0))
    surface = Surface(torch.cat(vertices, 2), tuple(parts))
    return [Renderer.of(model.scene, camera=name)(surface, values)[0, 0] for name in cameras]


@torch.no_grad()
def describe_view(renderer: Silhouettes, trajectory: Trajectory, body: str) -> str:
    """Position of a body that is outside a camera's image, for messages."""
    part = next(part for part in trajectory.surface.parts if part.name == body)
    points = trajectory.surface.vertices[:1, 0, part.vertices]
    pixels, depth = project(points, *renderer.matrices(points, trajectory.values))
    if depth.min() < NEAR_DEPTH:
        return "it reaches behind the camera"
    column, row = pixels[0].mean(0).tolist()
    return (
        f"its middle is at column {column:.0f} and row {row:.0f} of {renderer.camera.width} × {renderer.camera.height} px, "
        f"{depth.mean():.3g} m away"
    )


@dataclass(frozen=True)
class Setup:
    """Arguments of `train`: `train(setup.plant, setup.policy, setup.goal, setup.config)`.

    Args:
        task: Task with the random numbers of its seed.
        plant: The plant.
        policy: Policy before training.
        goal: The goal.
        config: Training configuration.
        at_goal: One frame with the undeformed body at the goal; None if only goal images are known.
        user_images: Goal images of the user, if any.
    """

    task: Task
    plant: Plant
    policy: nn.Module
    goal: Goal
    config: TrainingConfig
    at_goal: Trajectory | None = None
    user_images: tuple[ImageLike, ...] = ()

    @classmethod
    def of(
        cls,
        task: Task,
        seed: int = 0,
        quick: bool = False,
        goal: Goal | ImageLike | Sequence[ImageLike] | None = None,
        policy_seed: int | None = None,
    ) -> "Setup":
        """Build the plant, the policy and the goal of a task.

        Args:
            task: The task.
            seed: Seed of the task's random numbers, such as its goal.
            quick: Apply the task's changes for a quick trial.
            goal: Replaces the task's goal: an image (path or tensor) for its camera, one for each of its cameras, or a
                `Goal`.
            policy_seed: Seed of the policy's initial parameters; None: `seed`.

        Raises:
            InputError: If a goal image has another size or other channels than the camera's or is empty, the goal or the
                start is out of view, the model cannot be built, or a control is unknown.
        """
        task = task.with_seed(seed, quick)
        model = Model(task.scene, dtype=getattr(torch, task.precision))
        controls = [Control(name, low, high) for name, (low, high) in task.controls.items()]
        share = {name: groups_along(model, name, axis) for name, axis in task.share.items()}
        plant = Plant(model, controls, task.interval, _observation(task, model), share)
        goal, at_goal, user_images = _goal(task, model, goal)
        _check_start(task, model)
        policy = task.policy.build(plant, seed if policy_seed is None else policy_seed)
        return cls(task, plant, policy, goal, task.search.build(), at_goal, user_images)

    @cached_property
    def images(self) -> list[Tensor]:
        """Goal images (3, height, width) in [0, 1]: rendered for each camera, or the user's; empty for other goals."""
        if self.at_goal is None:
            return [read_goal_image(image).expand(3, -1, -1) for image in self.user_images]
        scene, trajectory = self.task.scene, self.at_goal
        with torch.no_grad():
            return [
                Renderer.of(scene, camera=c)(trajectory.scene_surface, trajectory.values)[0, 0]
                for c in self.task.goal.cameras
            ]

    def state_goal(self, all_frames: bool = False) -> StateGoal:
        """The same goal as a position of the centre of mass.

        Args:
            all_frames: Compare every frame, as the paper's baseline does; else the last one.

        Raises:
            InputError: If the goal is known from images only.
        """
        truth = self.goal.truth
        if truth is None:
            raise InputError(
                "the goal has no 3-D position, only an image; state-supervised baselines need a task whose goal has "
                "`place` or `shift`."
            )
        return StateGoal(truth.body, truth.centre, None if all_frames else truth.frame, truth)


def _goal(
    task: Task, model: Model, other: Goal | ImageLike | Sequence[ImageLike] | None
) -> tuple[Goal, Trajectory | None, tuple[ImageLike, ...]]:
    if isinstance(other, Goal):
        return other, None, ()
    node, scene = task.goal, task.scene
    colors = node.compare == "colors"
    renderers: list[ImageRenderer] = [
        Renderer.of(scene, camera=c) if colors else Silhouettes.of(scene, c) for c in node.cameras
    ]
    if other is None and not node.images:
        return _placed_goal(task, model, renderers)
    goal_images = listed(other) if other is not None else list(node.images)
    per_camera = len(node.frames) if len(goal_images) == len(renderers) * len(node.frames) else 1
    if len(goal_images) != len(renderers) * per_camera:
        raise InputError(
            f"the goal has {len(goal_images)} images; the task has {len(renderers)} cameras: give one of each."
        )
    behind = render_empty_scene(model, node.cameras)
    images, used, frames, backgrounds = [], [], [], []
    for k, renderer in enumerate(renderers):
        for j, frame in enumerate(node.frames):
            images.append(goal_images[k * per_camera + (j if per_camera > 1 else 0)])
            used.append(renderer)
            frames.append(frame)
            backgrounds.append(behind[k])
    return ImageGoal(used, images, frames, schedule(task.loss), colors, backgrounds), None, tuple(goal_images)


def _placed_goal(
    task: Task, model: Model, renderers: Sequence[ImageRenderer]
) -> tuple[Goal, Trajectory, tuple[ImageLike, ...]]:
    """Goal with images of the undeformed body at its target."""
    node, scene = task.goal, task.scene
    body = node.body or next(iter(scene.bodies))
    at_goal, truth = place_body(model, body, node.place, node.shift, node.rotation_vector, node.frames[-1])
    images, used, frames = [], [], []
    for name, renderer in zip(node.cameras, renderers, strict=True):
        _check_view(scene, at_goal, body, name, "at the goal", "Move the goal or the camera.")
        image = _render(renderer, at_goal)
        for frame in node.frames:
            images.append(image)
            used.append(renderer)
            frames.append(frame)
    goal = ImageGoal(used, images, frames, schedule(task.loss), node.compare == "colors", truth=truth)
    return goal, at_goal, ()


def _render(renderer: ImageRenderer, trajectory: Trajectory) -> Tensor:
    with torch.no_grad():
        if isinstance(renderer, Renderer):
            return renderer(trajectory.scene_surface, trajectory.values)[0, 0].clamp(0, 1)
        return renderer.union(trajectory.surface, trajectory.values)[0, 0]


def _check_start(task: Task, model: Model) -> None:
    """Require the body in view of every camera at the start; outside, the loss has no gradient."""
    body = task.goal.body or next(iter(task.scene.bodies))
    with torch.no_grad():
        start = model.rollout(frames=1)
    for camera in task.goal.cameras:
        _check_view(task.scene, start, body, camera, "at the start", "Move the body or the camera.")


def _check_view(scene, trajectory: Trajectory, body: str, camera: str, when: str, way: str) -> None:
    renderer = Silhouettes.of(scene, camera)
    k = [part.name for part in trajectory.surface.parts].index(body)
    with torch.no_grad():
        if renderer.masks(trajectory.surface, trajectory.values)[0, 0, k].sum() >= 1:
            return
    raise InputError(
        f"`{body}` is not in view of the camera `{camera}` {when}: {describe_view(renderer, trajectory, body)}. {way}"
    )


def _observation(task: Task, model: Model):
    if not isinstance(task.policy, FeedbackNode):
        return None
    node = task.policy.senses
    if isinstance(node, StateObservationNode):
        target = None if node.target is None else torch.tensor(node.target, dtype=torch.float64)
        return StateObservation(model, node.points, target, node.detached)
    return ImageObservation(Silhouettes.of(task.scene, node.camera), node.size, node.lag, node.detached)
