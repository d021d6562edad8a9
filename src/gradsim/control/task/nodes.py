"""Nodes of a task file: goals and losses, policies and observations, and the training configuration.

A goal is a set of images of the user, or the position of a body, of which images are rendered.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field
from pydantic_core import core_schema

from gradsim.geometry.image_io import FORMATS
from gradsim.losses import LOSSES, Blurred, LossStage, Schedule, blur_to_sharp, image_loss
from gradsim.scene.body import FULL_TURN
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
    """Annotation of the name of an image loss."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def _read(self, given: Any) -> str:
        if given not in LOSSES:
            hint = did_you_mean(given, list(LOSSES)) or f"; expected one of {', '.join(LOSSES)}."
            raise mistake(f"got {quote(given)}{hint}")
        return given


class _Blur:
    """Annotation of a blur [px], or of two: at the first and the last iteration."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def _read(self, given: Any) -> tuple[float, ...]:
        value = plain(given)
        sizes = tuple(BLUR.read(item) for item in (value if isinstance(value, list | tuple) else [value]))
        if len(sizes) not in (1, 2):
            raise mistake(f"got {quote(given)}; expected a number [px], or two: at the first and the last iteration.")
        return sizes


class LossNode(Node):
    """Image loss of a number of iterations.

    Attributes:
        loss: Name of the loss, such as "cdf", "moments", "pyramid" or "mse".
        iterations: Number of iterations; the last stage continues to the end.
        blur: Standard deviation of a Gaussian blur of both images [px]; two numbers: at the first and the last
            iteration.
    """

    loss: Annotated[str, _LossName()] = Field(description=f"an image loss: {', '.join(LOSSES)}")
    iterations: Annotated[int | None, Count(1, 1_000_000)] = None
    blur: Annotated[tuple[float, ...] | None, _Blur()] = None

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if self.blur and len(self.blur) == 2 and self.iterations is None:
            yield (
                ("blur",),
                "changes from one number to another; give `iterations`, the number of iterations that takes.",
            )

    def stages(self) -> tuple[LossStage, ...]:
        count = self.iterations or 1
        if self.blur and len(self.blur) == 2:
            return blur_to_sharp(self.loss, (self.blur[0], self.blur[1]), count)
        loss = image_loss(self.loss)
        return (LossStage(Blurred(loss, self.blur[0]) if self.blur else loss, count),)


class GoalNode(Node):
    """Goal; exactly one of `place`, `shift` and `images`.

    Attributes:
        place: Position of the centre of the undeformed body in the goal image [m].
        shift: The same, relative to the start [m].
        images: Image files of the user: one for each camera, or one for each camera and frame. `image` gives a
            single one.
        rotation_vector: Orientation of the body in the goal image, axis times angle [rad]; by default that of the
            start.
        body: Name of the body; by default the first of the scene.
        cameras: Names of the cameras of the goal images.
        frames: Frames of the goal; -1 is the last.
        compare: Compare silhouettes or colours.
    """

    place: Annotated[Vector3 | None, vector("m")] = None
    shift: Annotated[Vector3 | None, vector("m")] = None
    images: tuple[Annotated[Path, FilePath("an image", FORMATS)], ...] = ()
    rotation_vector: Annotated[Vector3 | None, vector("rad", lower=-FULL_TURN, upper=FULL_TURN)] = None
    body: str | None = None
    cameras: tuple[str, ...] = ("camera",)
    frames: tuple[Annotated[int, FRAME], ...] = (-1,)
    compare: Literal["silhouettes", "colors"] = "silhouettes"

    @classmethod
    def known_keys(cls) -> list[str]:
        return [*super().known_keys(), "image"]

    @classmethod
    def prepare(cls, given: dict[str, Any]) -> dict[str, Any]:
        content = {key: value for key, value in given.items() if key != "images" or value not in ((), [])}
        if "image" in content and "images" not in content:
            content["images"] = [content.pop("image")]
        return content

    @classmethod
    def faults(cls, given: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
        yield from exactly_one(given, ("place", "shift", "images"))
        for key in ("body", "rotation_vector"):
            if "images" in given and key in given:
                yield (key,), "has no effect with `images`; remove it."

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        for key in ("cameras", "frames"):
            if not getattr(self, key):
                yield (key,), "is empty; give at least one."
        cameras = len(self.cameras)
        if self.images and len(self.images) not in (cameras, cameras * len(self.frames)):
            both = f", or {cameras * len(self.frames)}, one for each frame too" if len(self.frames) > 1 else ""
            yield ("images",), f"has {len(self.images)} entries; give {cameras}, one for each camera{both}."


def schedule(stages: tuple[LossNode, ...]) -> Schedule | None:
    """Schedule of the losses in sequence; None if there are none."""
    return Schedule(*(stage for node in stages for stage in node.stages())) if stages else None


FREQUENCY = positive("rad/s")
START = Quantity("", lower=0.0)


def _listed(given: dict[str, Any], key: str) -> dict[str, Any]:
    """Replace a single number by a list of one."""
    if key in given and isinstance(given[key], int | float | str):
        return {**given, key: [given[key]]}
    return given


class SinusoidsNode(Node):
    """Open loop of the paper: sinusoids of time, one linear layer, tanh.

    Attributes:
        phases: Number of sinusoids of each frequency.
        frequency: One or several frequencies [rad/s].
        bias: Give the layer a bias.
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
    """Cubic B-spline of time for each output.

    Attributes:
        knots: Number of coefficients of each curve.
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
    """Free parameters: constant, as for a launch, or one value for each of several equal intervals.

    Values over time are bounded by the ranges of their controls; for a launch, the range is only a scale.

    Attributes:
        intervals: Number of intervals.
    """

    kind: Literal["free"] = "free"
    intervals: Annotated[int, Count(1, 100_000)] = 1

    def build(self, plant: "Plant", seed: int) -> "nn.Module":
        from gradsim.control.policies import PiecewiseConstant

        timing = plant.model.scene.timing
        seconds = max(1, timing.frames - 1) / timing.fps
        return PiecewiseConstant(plant.outputs, self.intervals, seconds, bounded=not plant.launched)


class StateObservationNode(Node):
    """Observation of positions and velocities: of soft bodies, of the centre and some vertices.

    Attributes:
        points: Number of vertices of each soft body.
        target: Position [m] relative to which positions are observed.
        detached: Stop gradients at the observation.
    """

    kind: Literal["state"] = "state"
    points: Annotated[int, Count(0, 10_000)] = 8
    target: Annotated[Vector3 | None, vector("m")] = None
    detached: bool = False


class ImageObservationNode(Node):
    """Observation of a small silhouette image.

    Attributes:
        size: Width and height [px].
        camera: Name of the camera.
        lag: Time between this image and an earlier one [s], which shows the velocity; 0: a single image.
        detached: Stop gradients at the observation.
    """

    kind: Literal["image"] = "image"
    size: Annotated[tuple[int, int], Tuple(Count(1, 1024), 2, "whole numbers: width and height in px")] = (16, 12)
    camera: str = "camera"
    lag: Annotated[float, Quantity("s", lower=0.0)] = 0.0
    detached: bool = False


SENSES: dict[str, type[Node]] = {"state": StateObservationNode, "image": ImageObservationNode}


class FeedbackNode(Node):
    """Closed loop: a perceptron of the observation.

    Attributes:
        senses: Observation.
        hidden: Widths of the hidden layers.
        phases: Number of sinusoids of time as further inputs; 0: the time is not an input.
        frequency: One or several frequencies of these [rad/s].
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
    """Training horizon, see `gradsim.control.training.settings`.

    Attributes:
        first: Fraction of the episode in the first iteration.
        iterations: Iteration from which on it is the whole episode.
    """

    first: Annotated[float, Quantity("", lower=0.0, upper=1.0, above=True)] = 0.25
    iterations: Annotated[int, Count(0, 1_000_000)] = 10


KEYS = {"optimiser": "optimizer", "enough": "target_loss"}  # of a task file: fields of `TrainingConfig`


class SearchNode(Node):
    """Training configuration: the settings of `gradsim.control.training.settings.TrainingConfig`."""

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
