"""Plant, initial policy and goal of a task, checked before any training."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from gradsim.control.actuator_sharing import along
from gradsim.control.goals.base import Goal, Truth
from gradsim.control.goals.image import Given, PictureGoal, Sees, listed, read
from gradsim.control.goals.state import StateGoal
from gradsim.control.observations import ImageSenses, StateSenses
from gradsim.control.plant import Control, Episode, Plant
from gradsim.control.task.nodes import FeedbackNode, StateSensesNode, schedule
from gradsim.control.task.task import Task
from gradsim.control.training.settings import TrainingConfig
from gradsim.errors import InputError
from gradsim.geometry.surface import Surface
from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory
from gradsim.render.camera import project
from gradsim.render.renderer import Renderer
from gradsim.render.silhouettes import NEAR, Silhouettes


@torch.no_grad()
def placed(
    model: Model,
    body: str,
    place: Sequence[float] | None,
    shift: Sequence[float] | None,
    rotation_vector: Sequence[float] | None = None,
    frame: int = -1,
) -> tuple[Trajectory, Truth]:
    """One frame with a body at a place, the others where they start; and the truth of it.

    Args:
        model: The model.
        body: The body's name.
        place: Its position [m], or
        shift: that from where it starts [m].
        rotation_vector: In place of the scene's; None leaves it.
        frame: Of the truth.

    Raises:
        InputError: If the body has no position.
    """
    key = f"{body}.position"
    if key not in model.kinds:
        raise InputError(f"`{body}` has no position to be placed at; give `pictures` of the goal.")
    start = model.get_parameter(key).detach()
    there = start.new_tensor(place) if place is not None else start + start.new_tensor(shift or (0.0, 0.0, 0.0))
    given = {key: there[None]}
    if rotation_vector is not None:
        given[f"{body}.rotation_vector"] = start.new_tensor(rotation_vector)[None]
    seen = model.rollout(given, 1)
    x = seen[body]["x"]
    centre = Episode(seen, x.new_empty(1, 0, 0)).centre(body)[0, 0]
    return seen, Truth(body, centre, x[0, 0] if x.ndim == 4 else None, frame)


@torch.no_grad()
def empty_scene(model: Model, cameras: Sequence[str]) -> list[Tensor | None]:
    """What each camera sees without the bodies, (3, height, width); None: its plain background."""
    if not model.scenery:
        return [None] * len(cameras)
    values, vertices, parts = model.values(), [], []
    for thing in model.scenery:
        vertices.append(thing.vertices(values)[:, None])
        parts.append(thing.part(parts[-1].vertices.stop if parts else 0))
    surface = Surface(torch.cat(vertices, 2), tuple(parts))
    return [Renderer.of(model.scene, camera=name)(surface, values)[0, 0] for name in cameras]


@torch.no_grad()
def where(sees: Silhouettes, seen: Trajectory, body: str) -> str:
    """Where a camera has a body that is not in its picture, in words."""
    part = next(part for part in seen.surface.parts if part.name == body)
    points = seen.surface.vertices[:1, 0, part.vertices]
    pixels, depth = project(points, *sees.matrices(points, seen.values))
    if depth.min() < NEAR:
        return "it reaches behind the camera"
    column, row = pixels[0].mean(0).tolist()
    return (
        f"its middle is at column {column:.0f} and row {row:.0f} of {sees.camera.width} × {sees.camera.height} px, "
        f"{depth.mean():.3g} m away"
    )


@dataclass(frozen=True)
class Setup:
    """All that `train` needs: `train(setup.plant, setup.policy, setup.goal, setup.search)`.

    Args:
        task: With the numbers of its seed in their places.
        plant: What moves.
        policy: Before training.
        goal: What is wanted.
        search: How the policy is looked for.
        at_goal: One frame in which the undeformed body is where it should be; None where only pictures are known.
        given: The pictures of one's own in place of it.
    """

    task: Task
    plant: Plant
    policy: nn.Module
    goal: Goal
    search: TrainingConfig
    at_goal: Trajectory | None = None
    given: tuple[Given, ...] = ()

    @classmethod
    def of(
        cls,
        task: Task,
        seed: int = 0,
        quick: bool = False,
        goal: Goal | Given | Sequence[Given] | None = None,
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
                start is out of view, the model cannot be built, or it has no such controls.
        """
        task = task.with_seed(seed, quick)
        model = Model(task.scene, dtype=getattr(torch, task.precision))
        controls = [Control(name, low, high) for name, (low, high) in task.controls.items()]
        share = {name: along(model, name, axis) for name, axis in task.share.items()}
        plant = Plant(model, controls, task.interval, _senses(task, model), share)
        goal, at_goal, given = _goal(task, model, goal)
        _check_start(task, model)
        policy = task.policy.build(plant, seed if policy_seed is None else policy_seed)
        return cls(task, plant, policy, goal, task.search.build(), at_goal, given)

    @cached_property
    def pictures(self) -> list[Tensor]:
        """The goal to look at, (3, height, width) in [0, 1]: of each camera, or those of one's own; none of other goals."""
        if self.at_goal is None:
            return [read(each).expand(3, -1, -1) for each in self.given]
        scene, seen = self.task.scene, self.at_goal
        with torch.no_grad():
            return [Renderer.of(scene, camera=c)(seen.drawn, seen.values)[0, 0] for c in self.task.goal.cameras]

    def state_goal(self, every: bool = False) -> StateGoal:
        """The same goal as a place of the centre of mass: what pictures do without.

        Args:
            every: Reward every frame, as the paper's baseline does; else the last one.

        Raises:
            InputError: If the place is not known, but for pictures of one's own.
        """
        truth = self.goal.truth
        if truth is None:
            raise InputError(
                "the goal has no place in three dimensions, only a picture; a baseline that is told the place needs a task "
                "whose goal has one."
            )
        return StateGoal(truth.body, truth.centre, None if every else truth.frame, truth)


def _goal(
    task: Task, model: Model, other: Goal | Given | Sequence[Given] | None
) -> tuple[Goal, Trajectory | None, tuple[Given, ...]]:
    if isinstance(other, Goal):
        return other, None, ()
    node, scene = task.goal, task.scene
    colours = node.compare == "colours"
    sees: list[Sees] = [Renderer.of(scene, camera=c) if colours else Silhouettes.of(scene, c) for c in node.cameras]
    if other is None and not node.pictures:
        return _placed_goal(task, model, sees)
    given = listed(other) if other is not None else list(node.pictures)
    each = len(node.frames) if len(given) == len(sees) * len(node.frames) else 1
    if len(given) != len(sees) * each:
        raise InputError(f"the goal has {len(given)} pictures; the task has {len(sees)} cameras: give one of each.")
    behind = empty_scene(model, node.cameras)
    pictures, eyes, frames, backgrounds = [], [], [], []
    for k, eye in enumerate(sees):
        for j, frame in enumerate(node.frames):
            pictures.append(given[k * each + (j if each > 1 else 0)])
            eyes.append(eye)
            frames.append(frame)
            backgrounds.append(behind[k])
    return PictureGoal(eyes, pictures, frames, schedule(task.loss), colours, backgrounds), None, tuple(given)


def _placed_goal(task: Task, model: Model, sees: Sequence[Sees]) -> tuple[Goal, Trajectory, tuple[Given, ...]]:
    """Pictures of the undeformed body where it should be."""
    node, scene = task.goal, task.scene
    body = node.body or next(iter(scene.bodies))
    at_goal, truth = placed(model, body, node.place, node.shift, node.rotation_vector, node.frames[-1])
    pictures, eyes, frames = [], [], []
    for name, eye in zip(node.cameras, sees, strict=True):
        _check_view(scene, at_goal, body, name, "at the goal", "Move the goal or the camera.")
        picture = _picture(eye, at_goal)
        for frame in node.frames:
            pictures.append(picture)
            eyes.append(eye)
            frames.append(frame)
    goal = PictureGoal(eyes, pictures, frames, schedule(task.loss), node.compare == "colours", truth=truth)
    return goal, at_goal, ()


def _picture(sees: Sees, seen: Trajectory) -> Tensor:
    with torch.no_grad():
        if isinstance(sees, Renderer):
            return sees(seen.drawn, seen.values)[0, 0].clamp(0, 1)
        return sees.union(seen.surface, seen.values)[0, 0]


def _check_start(task: Task, model: Model) -> None:
    """Refuse a camera that does not see the body at the start, from where nothing would pull it."""
    body = task.goal.body or next(iter(task.scene.bodies))
    with torch.no_grad():
        start = model.rollout(frames=1)
    for camera in task.goal.cameras:
        _check_view(task.scene, start, body, camera, "at the start", "Move the body or the camera.")


def _check_view(scene, seen: Trajectory, body: str, camera: str, when: str, way: str) -> None:
    sees = Silhouettes.of(scene, camera)
    k = [part.name for part in seen.surface.parts].index(body)
    with torch.no_grad():
        if sees.masks(seen.surface, seen.values)[0, 0, k].sum() >= 1:
            return
    raise InputError(f"`{body}` is not in view of the camera `{camera}` {when}: {where(sees, seen, body)}. {way}")


def _senses(task: Task, model: Model):
    if not isinstance(task.policy, FeedbackNode):
        return None
    node = task.policy.senses
    if isinstance(node, StateSensesNode):
        target = None if node.target is None else torch.tensor(node.target, dtype=torch.float64)
        return StateSenses(model, node.points, target, node.detached)
    return ImageSenses(Silhouettes.of(task.scene, node.camera), node.size, node.lag, node.detached)
