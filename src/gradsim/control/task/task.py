"""Control tasks: a scene, the parameters that a policy sets, and the goal; read from and written to YAML.

name: toss
scene: throw                                    # of the library, a path, or a scene itself
controls: {ball.velocity: [-6, 6]}              # the range that the policy's u from -1 to 1 spans
policy: {kind: free}
goal: {place: [0.5, 0, 0.15]}                   # position of the undeformed body in the goal image
loss: [{loss: cdf, iterations: 4}, {loss: whereabouts}]
search: {optimiser: polyak, rate: 2, iterations: 12, options: {bound: 0.3, deflect: false}}
draws: {right: {low: 0.1, high: 0.9, into: {goal.place.0: 1}}}       # random numbers, by seed
quick: {search.iterations: 8}                                        # changes for a quick trial

`Setup.of` (setup.py) builds the plant, the policy and the goal of a task.
"""

import difflib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic_core import core_schema

from gradsim.control.task.draws import RandomDraw, deep_copy, set_at
from gradsim.control.task.nodes import (
    POLICIES,
    FeedbackNode,
    GoalNode,
    ImageObservationNode,
    LossNode,
    Policy,
    SearchNode,
    SinusoidsNode,
)
from gradsim.errors import InputError
from gradsim.scene import Scene
from gradsim.scene import yaml_io as scene_file
from gradsim.scene.node import ByKind, Node, Place, did_you_mean, mistake, quote
from gradsim.scene.parameters import resolve
from gradsim.scene.quantity import Count, Quantity, Tuple, plain

END = Quantity("")


class _SceneOf:
    """Annotation of a scene: its content, a name in the library, or a path relative to the folder of the task."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.with_info_plain_validator_function(self._read)

    def _read(self, given: Any, info: core_schema.ValidationInfo) -> Scene:
        if isinstance(given, Scene | Mapping):
            return given if isinstance(given, Scene) else Scene.model_validate(given, context=info.context)
        if not isinstance(given, str | Path) or not str(given):
            raise mistake(f"got {quote(given)}; expected a scene: its name in the library, a path, or its content.")
        try:
            if isinstance(given, str) and Path(given).suffix.lower() not in (".yaml", ".yml"):
                return Scene.library(given)
            return Scene.load(Path((info.context or {}).get("folder", "."), given))
        except InputError as error:
            raise mistake(str(error)) from None


class Task(Node):
    """Control task.

    Attributes:
        name: Name for titles; by default that of the file.
        scene: Scene with its cameras.
        controls: Ranges [low, high] of parameters of the model by name, which u in [-1, 1] spans: `walker.activation`
            has a number for each element over time, `cloth.velocity` is set at the start.
        interval: Frames in a control interval.
        precision: Precision of the model; float32 takes half of the time of float64, its gradients have about 5 digits.
        share: Axes x, y or z of rest shapes by control, along which elements share one number (`actuator_sharing.py`).
        policy: Policy before training.
        goal: Goal.
        loss: Image losses in sequence; by default the CDF, then the squared difference of pixels.
        search: Training configuration.
        draws: Random numbers by name, sampled for each seed.
        quick: Changes for a trial of less than a minute, by dotted key.
    """

    name: str = "task"
    scene: Annotated[Scene, _SceneOf()] = Field(description="a scene: its name in the library, a path, or its content")
    controls: dict[str, Annotated[tuple[float, float], Tuple(END, 2, "numbers: the ends of its range")]] = Field(
        description="what the policy sets, such as {walker.activation: [-0.2, 0.2]}"
    )
    interval: Annotated[int, Count(1, 100_000)] = 1
    precision: Literal["float64", "float32"] = "float64"
    share: dict[str, Literal["x", "y", "z"]] = Field(default_factory=dict)
    policy: Annotated[Policy, ByKind(POLICIES, "sinusoids")] = SinusoidsNode()
    goal: GoalNode = Field(description="the goal, such as {place: [5, 0, 2]} or {image: goal.png}")
    loss: tuple[LossNode, ...] = ()
    search: SearchNode = SearchNode()
    draws: dict[str, RandomDraw] = Field(default_factory=dict)
    quick: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def prepare(cls, given: dict[str, Any]) -> dict[str, Any]:
        loss = plain(given.get("loss"))
        if isinstance(loss, str):
            return {**given, "loss": [{"loss": loss}]}
        return {**given, "loss": [loss]} if isinstance(loss, Mapping) else given

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if not self.controls:
            yield (
                ("controls",),
                "is empty; name the parameters that the policy sets, such as {walker.activation: [-0.2, 0.2]}.",
            )
        for name, (low, high) in self.controls.items():
            try:
                resolve(self.scene, name)
            except InputError as error:
                yield ("controls", name), str(error)
            if not low < high:
                yield ("controls", name), f"goes from {low:g} to {high:g}; low has to be below high."
        for name in self.share:
            if name not in self.controls:
                hint = did_you_mean(name, list(self.controls)) or f"; there are {', '.join(self.controls)}."
                yield ("share", name), f"is not a control{hint}"
        yield from self._views()
        bodies, body = list(self.scene.bodies), self.goal.body
        if body is not None and body not in bodies:
            hint = did_you_mean(body, bodies) or f"; there are {', '.join(bodies)}."
            yield ("goal", "body"), f"the scene has no body `{body}`{hint}"
        length = self.scene.timing.frames
        for k, frame in enumerate(self.goal.frames):
            if not -length <= frame < length:
                yield ("goal", "frames", k), f"got {frame}; the scene has frames 0 to {length - 1}, and -1 is the last."
        for k, stage in enumerate(self.loss[:-1]):
            if stage.iterations is None:
                yield ("loss", k, "iterations"), "is missing; only the last stage may omit it."
        yield from self._places()

    def _views(self) -> Iterator[tuple[Place, str]]:
        """Cameras that the scene does not have."""
        used: list[tuple[Place, str]] = [(("goal", "cameras", k), name) for k, name in enumerate(self.goal.cameras)]
        if isinstance(self.policy, FeedbackNode) and isinstance(self.policy.senses, ImageObservationNode):
            used.append((("policy", "senses", "camera"), self.policy.senses.camera))
        for place, name in used:
            try:
                self.scene.view(name)
            except InputError as error:
                yield place, str(error)

    def _places(self) -> Iterator[tuple[Place, str]]:
        """Keys of draws and of `quick` that the task does not have."""
        content = self._content()
        wanted = [(("draws", name, "into", p), p) for name, draw in self.draws.items() for p in draw.into]
        for where, place in [*wanted, *((("quick", p), p) for p in self.quick)]:
            try:
                set_at(deep_copy(content), place, 0.0)
            except InputError as error:
                yield where, str(error)

    def with_seed(self, seed: int, quick: bool = False) -> "Task":
        """Task with the random numbers of a seed inserted, without `draws` and `quick`.

        Raises:
            InputError: If the seed is negative, or the task is invalid with these numbers.
        """
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**63:  # what PyTorch takes
            raise InputError(f"the seed is {seed!r}; expected an integer from 0 to below 2^63.")
        content, changes = self._content(), dict(self.quick) if quick else {}
        for place, value in changes.items():
            set_at(content, place, value)
        draws = {name: RandomDraw.model_validate(draw) for name, draw in content.pop("draws").items()}
        content.pop("quick")
        for name, draw in draws.items():
            for place, value in draw.values(name, seed).items():
                set_at(content, place, value)
        return Task.parse(content, f"the task {self.name} of seed {seed}")

    @classmethod
    def load(cls, name: str | Path) -> "Task":
        """Load a task of the library, such as "walker", or of a file.

        Raises:
            InputError: If it does not exist or is invalid: one message with all mistakes.
        """
        path = Path(name)
        if path.suffix.lower() in (".yaml", ".yml"):
            return scene_file.load(cls, path, "task")
        known = {p.stem: p for p in library()}
        if str(name) not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            hint = f"; did you mean `{near[0]}`?" if near else f"; there are {', '.join(known)}."
            raise InputError(f"unknown task `{name}`{hint} Paths of task files end in .yaml.")
        return scene_file.load(cls, known[str(name)], "task")

    @classmethod
    def parse(cls, content: Any, source: str = "the task", folder: str | Path = ".") -> "Task":
        """Read a task from nested dictionaries with the keys of a task file; see `Scene.parse`."""
        return scene_file.parse(cls, content, source, Path(folder))

    def save(self, path: str | Path) -> None:
        """Write the task with its scene as YAML, atomically."""
        scene_file.save(self, Path(path))

    def _content(self) -> dict[str, Any]:
        return deep_copy(self.model_dump(by_alias=True, exclude_none=True))


def library() -> list[Path]:
    """Files of the tasks that come with gradsim."""
    return sorted(Path(str(resources.files("gradsim.control"))).glob("library/*.yaml"))
