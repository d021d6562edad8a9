"""The goal of a task file: pictures of a user's own, or of a body that is put where it should be; and the loss.

Policies in a task file, by `kind`, and what those that look are given to see.

The search of a task file: the settings of `TrainingConfig`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field
from pydantic_core import core_schema

from gradsim.geometry.image_io import FORMATS
from gradsim.losses import LOSSES, Blurred, LossStage, Schedule, blur_to_sharp, image_loss
from gradsim.scene.body import TURN
from gradsim.scene.node import ByKind, Node, Place, did_you_mean, exactly_one, mistake, quote
from gradsim.scene.quantity import Count, Quantity, Tuple, Vector3, plain, positive, vector
from gradsim.scene.yaml_io import FilePath

if TYPE_CHECKING:
    from torch import nn

    from gradsim.control.plant import Plant
from typing import TYPE_CHECKING

from gradsim.errors import InputError

if TYPE_CHECKING:
    from gradsim.control.training.settings import TrainingConfig


FRAME = Count(-100_000, 100_000)
BLUR = positive("px")


class _LossName:
    """Annotates the name of a loss of images."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def _read(self, given: Any) -> str:
        if given not in LOSSES:
            hint = did_you_mean(given, list(LOSSES)) or f"; expected one of {', '.join(LOSSES)}."
            raise mistake(f"got {quote(given)}{hint}")
        return given


class _Blur:
    """Annotates a blur [px], or two: from the first to the last iteration."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def _read(self, given: Any) -> tuple[float, ...]:
        value = plain(given)
        found = tuple(BLUR.read(each) for each in (value if isinstance(value, list | tuple) else [value]))
        if len(found) not in (1, 2):
            raise mistake(f"got {quote(given)}; expected a number [px], or two: at the first and the last iteration.")
        return found


class LossNode(Node):
    """How pictures are compared, for some iterations.

    Attributes:
        loss: Its name, such as "cdf", "moments", "pyramid" or "mse".
        iterations: How many; the last stage goes on.
        blur: A Gaussian over both [px]; two numbers: from the first to the last iteration.
    """

    loss: Annotated[str, _LossName()] = Field(description=f"a loss of images: {', '.join(LOSSES)}")
    iterations: Annotated[int | None, Count(1, 1_000_000)] = None
    blur: Annotated[tuple[float, ...] | None, _Blur()] = None

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if self.blur and len(self.blur) == 2 and self.iterations is None:
            yield ("blur",), "goes from one number to another; give `iterations`, how many that takes."

    def stages(self) -> tuple[LossStage, ...]:
        count = self.iterations or 1
        if self.blur and len(self.blur) == 2:
            return blur_to_sharp(self.loss, (self.blur[0], self.blur[1]), count)
        loss = image_loss(self.loss)
        return (LossStage(Blurred(loss, self.blur[0]) if self.blur else loss, count),)


class GoalNode(Node):
    """Exactly one of `place`, `shift` and `pictures`.

    Attributes:
        place: Where the centre of the undeformed body is pictured [m], or
        shift: the same from where it starts [m], or
        pictures: files of one's own: of each camera, or of each camera in each frame. `picture` stands for a single one.
        rotation_vector: How the pictured body is turned, axis times angle [rad]; by default as at the start.
        body: Whose place it is; by default the first of the scene.
        cameras: Which see it.
        frames: In which it should be so; -1 is the last.
        compare: Silhouettes, or colours.
    """

    place: Annotated[Vector3 | None, vector("m")] = None
    shift: Annotated[Vector3 | None, vector("m")] = None
    pictures: tuple[Annotated[Path, FilePath("a picture", FORMATS)], ...] = ()
    rotation_vector: Annotated[Vector3 | None, vector("rad", lower=-TURN, upper=TURN)] = None
    body: str | None = None
    cameras: tuple[str, ...] = ("camera",)
    frames: tuple[Annotated[int, FRAME], ...] = (-1,)
    compare: Literal["silhouettes", "colours"] = "silhouettes"

    @classmethod
    def known_keys(cls) -> list[str]:
        return [*super().known_keys(), "picture"]

    @classmethod
    def prepare(cls, given: dict[str, Any]) -> dict[str, Any]:
        given = {key: value for key, value in given.items() if key != "pictures" or value not in ((), [])}
        if "picture" in given and "pictures" not in given:
            given["pictures"] = [given.pop("picture")]
        return given

    @classmethod
    def faults(cls, given: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
        yield from exactly_one(given, ("place", "shift", "pictures"))
        for key in ("body", "rotation_vector"):
            if "pictures" in given and key in given:
                yield (key,), "stands beside `pictures`, which show all there is; leave it out."

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        for key in ("cameras", "frames"):
            if not getattr(self, key):
                yield (key,), "is empty; give at least one."
        each = len(self.cameras)
        if self.pictures and len(self.pictures) not in (each, each * len(self.frames)):
            both = f", or {each * len(self.frames)}, in each frame" if len(self.frames) > 1 else ""
            yield ("pictures",), f"are {len(self.pictures)}; give {each}, one of each camera{both}."


def schedule(stages: tuple[LossNode, ...]) -> Schedule | None:
    """The losses one after another; None where none is given."""
    return Schedule(*(stage for node in stages for stage in node.stages())) if stages else None


FREQUENCY = positive("rad/s")
START = Quantity("", lower=0.0)


def _listed(given: dict[str, Any], key: str) -> dict[str, Any]:
    """A single number as a list of one."""
    if key in given and isinstance(given[key], int | float | str):
        return {**given, key: [given[key]]}
    return given


class SinusoidsNode(Node):
    """The paper's open loop: sinusoids of time, one linear layer, tanh.

    Attributes:
        phases: Sinusoids of each frequency.
        frequency: One or several [rad/s].
        bias: Whether the layer has a bias.
        start: Size of u before training.
    """

    kind: Literal["sinusoids"] = "sinusoids"
    phases: Annotated[int, Count(1, 1000)] = 8
    frequency: tuple[Annotated[float, FREQUENCY], ...] = (2.5,)
    bias: bool = False
    start: Annotated[float | None, START] = None

    @classmethod
    def prepare(cls, given: dict[str, Any]) -> dict[str, Any]:
        return _listed(given, "frequency")

    def build(self, plant: "Plant", seed: int) -> "nn.Module":
        from gradsim.control.policies import Sinusoids

        return Sinusoids(plant.outputs, self.phases, self.frequency, self.bias, seed=seed, **_start(self))


class SplineNode(Node):
    """A smooth curve of time for each number.

    Attributes:
        knots: Numbers of each curve.
        start: Size of u before training.
    """

    kind: Literal["spline"] = "spline"
    knots: Annotated[int, Count(4, 10_000)] = 12
    start: Annotated[float | None, START] = None

    def build(self, plant: "Plant", seed: int) -> "nn.Module":
        from gradsim.control.policies import Spline

        timing = plant.model.scene.timing
        return Spline(plant.outputs, self.knots, max(1, timing.frames - 1) / timing.fps, seed=seed, **_start(self))


class FreeNode(Node):
    """The numbers themselves: of a launch, constant, or of each of several equal intervals.

    Over time they are kept within the ranges of their controls; a launch may leave its range, which is a scale.

    Attributes:
        intervals: How many.
    """

    kind: Literal["free"] = "free"
    intervals: Annotated[int, Count(1, 100_000)] = 1

    def build(self, plant: "Plant", seed: int) -> "nn.Module":
        from gradsim.control.policies import PiecewiseConstant

        timing = plant.model.scene.timing
        seconds = max(1, timing.frames - 1) / timing.fps
        return PiecewiseConstant(plant.outputs, self.intervals, seconds, bounded=not plant.launched)


class StateObservationNode(Node):
    """What is where and how fast: of soft bodies the centre, and some vertices.

    Attributes:
        points: Vertices of each soft body.
        target: A place that positions are relative to [m].
        detached: Whether gradients end at the senses.
    """

    kind: Literal["state"] = "state"
    points: Annotated[int, Count(0, 10_000)] = 8
    target: Annotated[Vector3 | None, vector("m")] = None
    detached: bool = False


class ImageObservationNode(Node):
    """A small silhouette.

    Attributes:
        size: Width and height [px].
        camera: Whose view it is.
        lag: Between this picture and a second one of that long ago [s], which shows motion; 0: there is none.
        detached: Whether gradients end at the senses.
    """

    kind: Literal["image"] = "image"
    size: Annotated[tuple[int, int], Tuple(Count(1, 1024), 2, "whole numbers: width and height in px")] = (16, 12)
    camera: str = "camera"
    lag: Annotated[float, Quantity("s", lower=0.0)] = 0.0
    detached: bool = False


SENSES: dict[str, type[Node]] = {"state": StateObservationNode, "image": ImageObservationNode}


class FeedbackNode(Node):
    """A closed loop: a perceptron of what the senses see.

    Attributes:
        senses: What it sees.
        hidden: Widths of the hidden layers.
        phases: Sinusoids of time beside what it sees; 0: it knows no clock.
        frequency: Theirs [rad/s], one or several.
        start: Size of u before training.
    """

    kind: Literal["feedback"] = Field(description="kind: feedback")
    senses: Annotated[StateObservationNode | ImageObservationNode, ByKind(SENSES, "state")] = StateObservationNode()
    hidden: tuple[Annotated[int, Count(1, 10_000)], ...] = (64, 64)
    phases: Annotated[int, Count(0, 1000)] = 0
    frequency: tuple[Annotated[float, FREQUENCY], ...] = (2.5,)
    start: Annotated[float | None, START] = None

    @classmethod
    def prepare(cls, given: dict[str, Any]) -> dict[str, Any]:
        return _listed(given, "frequency")

    def build(self, plant: "Plant", seed: int) -> "nn.Module":
        from gradsim.control.policies import Feedback

        inputs = plant.observation.size if plant.observation is not None else 0
        return Feedback(inputs, plant.outputs, self.hidden, self.phases, self.frequency, seed=seed, **_start(self))


Policy = SinusoidsNode | SplineNode | FreeNode | FeedbackNode
POLICIES: dict[str, type[Policy]] = {
    "sinusoids": SinusoidsNode,
    "spline": SplineNode,
    "free": FreeNode,
    "feedback": FeedbackNode,
}


def _start(node: Any) -> dict[str, float]:
    return {} if node.start is None else {"start": node.start}


class HorizonNode(Node):
    """The part of the film that counts, see `gradsim.control.training.settings`.

    Attributes:
        first: The share of the film in the first iteration.
        iterations: From this one on it is the whole film.
    """

    first: Annotated[float, Quantity("", lower=0.0, upper=1.0, above=True)] = 0.25
    iterations: Annotated[int, Count(0, 1_000_000)] = 10


KEYS = {"optimiser": "optimizer", "enough": "target_loss"}  # of a task file: fields of `TrainingConfig`


class SearchNode(Node):
    """How the policy is looked for: see `gradsim.control.training.settings.TrainingConfig`, which has the same settings."""

    optimiser: str = "adam"
    rate: Annotated[float | None, positive("")] = None
    iterations: Annotated[int, Count(1, 1_000_000)] = 40
    clip: Annotated[float | None, positive("")] = None
    schedule: str | dict[str, Any] | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    horizon: HorizonNode | None = None
    enough: Annotated[float | None, Quantity("")] = None
    not_finite: Literal["raise", "halve"] = "raise"

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        try:
            self.build()
        except InputError as error:
            yield (), str(error)

    def build(self) -> "TrainingConfig":
        """The settings as `train` takes them."""
        from gradsim.control.training.settings import Horizon, TrainingConfig

        settings = {KEYS.get(key, key): value for key, value in self if value is not None}
        if self.horizon is not None:
            settings["horizon"] = Horizon(self.horizon.first, self.horizon.iterations)
        return TrainingConfig(**settings)
