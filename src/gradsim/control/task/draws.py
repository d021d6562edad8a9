"""Random numbers of a task, by seed, and the entries of the task that they set.

    low + (high − low) (1 − U),  U uniform in [0, 1):       in (low, high]

Each has its own random stream, by the seed and its name: adding one leaves the others unchanged.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic_core import core_schema

from gradsim.errors import InputError
from gradsim.scene.node import Node, Place, did_you_mean, quote
from gradsim.scene.quantity import Quantity, plain


class _Factor:
    """Annotation of a number or a list of numbers."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def _read(self, given: Any) -> float | tuple[float, ...]:
        value = plain(given)
        if isinstance(value, list | tuple):
            return tuple(Quantity("").read(item) for item in value)
        return Quantity("").read(value)


class RandomDraw(Node):
    """A uniform random number.

    Attributes:
        low, high: Range in SI units, without `low` itself.
        whole: Draw an integer, both ends included.
        into: Entries of the task that it sets, by dotted key, times a factor (or a list of factors).
    """

    low: Annotated[float, Quantity("")] = Field(description="the lower end of its range")
    high: Annotated[float, Quantity("")] = Field(description="the upper end of its range")
    whole: bool = False
    into: dict[str, Annotated[Any, _Factor()]] = Field(
        description="keys that it sets, such as {goal.place.0: 1}: dotted keys with a factor for each"
    )

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if self.low > self.high:
            yield ("low",), f"got {self.low:g}, which is above `high`, {self.high:g}; swap them."
        for key in ("low", "high") if self.whole else ():
            if getattr(self, key) % 1:
                yield (key,), f"got {getattr(self, key):g}; a `whole` number needs a whole end."
        if not self.into:
            yield ("into",), "is empty; give the keys that the number sets, such as {goal.place.0: 1}."

    def values(self, name: str, seed: int) -> dict[str, Any]:
        """Values by dotted key for this seed."""
        stream = np.random.default_rng([seed, *name.encode()])
        if self.whole:
            number = int(stream.integers(int(self.low), int(self.high), endpoint=True))
        else:
            number = self.low + (self.high - self.low) * (1 - float(stream.random()))
        times = lambda by: [times(b) for b in by] if isinstance(by, tuple) else _product(number, by)
        return {place: times(by) for place, by in self.into.items()}


def set_at(content: dict[str, Any], place: str, value: Any) -> None:
    """Replace the value at a dotted key of nested dictionaries and lists, such as `goal.place.0`.

    A missing last key is added; missing parents are not.

    Raises:
        InputError: If a parent is missing.
    """
    *path, last = place.split(".")
    at, way = content, ""
    for step in path:
        at = _inside(at, step, place, way)
        way = f"{way}.{step}" if way else step
    if isinstance(at, list):
        _inside(at, last, place, way)
        at[int(last)] = value
    elif isinstance(at, dict):
        at[last] = value
    else:
        raise InputError(f"unknown key `{place}`: `{way}` is {quote(at)}, which has no parts.")


def deep_copy(content: Any) -> Any:
    """Copy nested dictionaries and lists; tuples become lists."""
    if isinstance(content, Mapping):
        return {key: deep_copy(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [deep_copy(value) for value in content]
    return content


def _inside(at: Any, step: str, place: str, way: str) -> Any:
    where = f"`{way}`" if way else "the task"
    if isinstance(at, dict):
        if step not in at:
            hint = did_you_mean(step, list(at)) or f"; {where} has {', '.join(map(str, at))}."
            raise InputError(f"unknown key `{place}`{hint}")
        return at[step]
    if not isinstance(at, list) or not step.isdigit() or int(step) >= len(at):
        size = f"{len(at)} items, counted from 0" if isinstance(at, list) else "no parts"
        raise InputError(f"unknown key `{place}`: {where} has {size}.")
    return at[int(step)]


def _product(number: float, by: float) -> float | int:
    value = number * by
    return int(value) if isinstance(number, int) and value % 1 == 0 else value
