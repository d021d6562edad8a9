"""Channels of a log: sensors of joints, and what drives their motors."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from gradsim.scene.joint import AnyJoint, Prismatic, Revolute
from gradsim.scene.node import Node, Place, did_you_mean, quote
from gradsim.scene.quantity import Count, Quantity
from gradsim.scene.yaml_io import FilePath

FORMATS = (".csv", ".mcap", ".parquet")
MOTORS = ("torque", "force", "target")  # quantities that act on a joint


class LogFile(Node):
    """A file of signals over time, read by the scene's `channels`.

    Attributes:
        file: CSV with a column `time` [s], MCAP, or a parquet file of a LeRobot data set (version 3).
        start: Time in the log of the scene's start [s], after its first stamp where these are dates.
        episode: Episode of a LeRobot data set.
    """

    file: Annotated[Path, FilePath("a log", FORMATS)] = Field(description="a file that ends in .csv, .mcap or .parquet")
    start: Annotated[float, Quantity("s")] = 0.0
    episode: Annotated[int, Count(0)] = 0


class Channel(Node):
    """A signal of a log: a sensor of a joint, or what drives its motor.

        sensor:  column(t) = scale · quantity(t − delay) + offset + noise       angle, rate; displacement, speed
        motor:   quantity(t) = scale · column(t − delay) + offset               torque, force, target

    Attributes:
        joint: Name of a revolute or prismatic joint.
        quantity: `angle` or `rate` of a revolute joint, `displacement` or `speed` of a prismatic one: sensors; or `torque`,
            `force` or `target`, which drive the joint.
        column: Column of the log; the channel's own name by default. In an MCAP file TOPIC.FIELD, with [k] for the entry of
            a list, in a data set FEATURE[k] or FEATURE.NAME.
        scale: Factor, such as 57.29578 of a sensor that reads degrees, or a motor's torque constant.
        offset: Offset, in the unit of what is on the left.
        delay: Time of the left after the right [s].
        sd: Noise of a sensor, in its unit; by default that of differences of neighboring samples.
        between: A motor between two stamps: `line` joins their values, `hold` keeps the earlier one, as a controller's output is kept, and
            `spline` is the smooth curve through all.
    """

    joint: str = Field(description="the name of a joint")
    quantity: Literal["angle", "rate", "displacement", "speed", "torque", "force", "target"] = Field(
        description="angle, rate, torque or target of a revolute joint, displacement, speed, force or target of a prismatic one"
    )
    column: str | None = None
    scale: Annotated[float, Quantity("")] = 1.0
    offset: Annotated[float, Quantity("")] = 0.0
    delay: Annotated[float, Quantity("s")] = 0.0
    sd: Annotated[float | None, Quantity("", lower=0.0, above=True)] = None
    between: Literal["line", "hold", "spline"] = "line"

    @property
    def drives(self) -> bool:
        """True for what drives a motor, False for a sensor."""
        return self.quantity in MOTORS

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if self.scale == 0:
            yield ("scale",), "got 0; a channel of factor 0 says nothing."
        if self.drives and self.sd is not None:
            yield ("sd",), f"is the noise of a sensor, and `{self.quantity}` drives the joint; remove it."

    def joint_conflicts(self, joints: Mapping[str, AnyJoint]) -> Iterator[tuple[Place, str]]:
        """Mistakes that depend on the scene's joints."""
        joint = joints.get(self.joint)
        if joint is None:
            known = f"; it has {', '.join(joints)}." if joints else ", nor any other."
            yield ("joint",), f"the scene has no joint `{self.joint}`{did_you_mean(self.joint, list(joints)) or known}"
        elif not isinstance(joint, Revolute | Prismatic):
            yield ("joint",), f"`{self.joint}` is a {joint.kind} joint; channels are of revolute and prismatic ones."
        elif self.quantity not in (*joint.start, *joint.forces):
            known = ", ".join([*joint.start, *joint.forces])
            yield ("quantity",), f"got {quote(self.quantity)}; the {joint.kind} joint `{self.joint}` has {known}."


def channel_conflicts(channels: Mapping[str, Channel], joints: Mapping[str, AnyJoint]) -> Iterator[tuple[Place, str]]:
    """Mistakes between channels and joints."""
    motors: dict[tuple[str, str], str] = {}
    for name, channel in channels.items():
        yield from ((("channels", name, *place), words) for place, words in channel.joint_conflicts(joints))
        if channel.drives:
            first = motors.setdefault((channel.joint, channel.quantity), name)
            if first != name:
                yield (
                    ("channels", name),
                    f"drives the {channel.quantity} of `{channel.joint}`, which `{first}` drives already.",
                )
