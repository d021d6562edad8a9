"""Policies in a task file, by `kind`, and what those that look are given to see."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from gradsim.scene.node import ByKind, Node
from gradsim.scene.quantity import Count, Quantity, Tuple, Vector3, positive, vector

if TYPE_CHECKING:
    from torch import nn

    from gradsim.control.plant import Plant

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
        from gradsim.control.policies import Free

        timing = plant.model.scene.timing
        seconds = max(1, timing.frames - 1) / timing.fps
        return Free(plant.outputs, self.intervals, seconds, bounded=not plant.launched)


class StateSensesNode(Node):
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


class ImageSensesNode(Node):
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


SENSES: dict[str, type[Node]] = {"state": StateSensesNode, "image": ImageSensesNode}


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
    senses: Annotated[StateSensesNode | ImageSensesNode, ByKind(SENSES, "state")] = StateSensesNode()
    hidden: tuple[Annotated[int, Count(1, 10_000)], ...] = (64, 64)
    phases: Annotated[int, Count(0, 1000)] = 0
    frequency: tuple[Annotated[float, FREQUENCY], ...] = (2.5,)
    start: Annotated[float | None, START] = None

    @classmethod
    def prepare(cls, given: dict[str, Any]) -> dict[str, Any]:
        return _listed(given, "frequency")

    def build(self, plant: "Plant", seed: int) -> "nn.Module":
        from gradsim.control.feedback import Feedback

        inputs = plant.senses.size if plant.senses is not None else 0
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
