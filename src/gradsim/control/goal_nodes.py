"""The goal of a task file: pictures of a user's own, or of a body that is put where it should be; and the loss."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic_core import core_schema

from gradsim.geometry.image_io import FORMATS
from gradsim.losses import LOSSES, Blurred, Schedule, Stage, blur_to_sharp, image_loss
from gradsim.scene.body import TURN
from gradsim.scene.node import Node, Place, did_you_mean, exactly_one, mistake, shown
from gradsim.scene.path import FilePath
from gradsim.scene.quantity import Count, Vector3, plain, positive, vector

FRAME = Count(-100_000, 100_000)
BLUR = positive("px")


class _LossName:
    """Annotates the name of a loss of images."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def _read(self, given: Any) -> str:
        if given not in LOSSES:
            hint = did_you_mean(given, list(LOSSES)) or f"; expected one of {', '.join(LOSSES)}."
            raise mistake(f"got {shown(given)}{hint}")
        return given


class _Blur:
    """Annotates a blur [px], or two: from the first to the last iteration."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def _read(self, given: Any) -> tuple[float, ...]:
        value = plain(given)
        found = tuple(BLUR.read(each) for each in (value if isinstance(value, list | tuple) else [value]))
        if len(found) not in (1, 2):
            raise mistake(f"got {shown(given)}; expected a number [px], or two: at the first and the last iteration.")
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

    def stages(self) -> tuple[Stage, ...]:
        count = self.iterations or 1
        if self.blur and len(self.blur) == 2:
            return blur_to_sharp(self.loss, (self.blur[0], self.blur[1]), count)
        loss = image_loss(self.loss)
        return (Stage(Blurred(loss, self.blur[0]) if self.blur else loss, count),)


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
