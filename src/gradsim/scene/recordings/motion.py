"""Prescribed motion: vertices that follow a table of times and positions."""

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic_core import core_schema

from gradsim.scene.node import Node, Place, mistake, quote
from gradsim.scene.quantity import Count, Increasing, Quantity, plain


class _Vertices:
    """Annotate a list of different vertices."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        return {"type": "array", "items": Count(0).json_schema(), "minItems": 1}

    def _read(self, raw: Any) -> tuple[int, ...]:
        values = plain(raw)
        if not isinstance(values, list | tuple) or not values or len(set(values)) < len(values):
            raise mistake(f"got {quote(values)}; expected a list of different vertices, counted from 0.")
        return tuple(int(Count(0).read(k)) for k in values)


class _Positions:
    """Annotate positions [m] of vertices at several times, (times, vertices, 3)."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        point = {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3}
        return {"type": "array", "items": {"type": "array", "items": point}, "minItems": 2}

    def _read(self, raw: Any) -> tuple[tuple[tuple[float, ...], ...], ...]:
        try:
            table = np.array(plain(raw), np.float64)
        except (TypeError, ValueError):
            table = np.array([], np.float64)
        if table.ndim != 3 or table.shape[2] != 3 or len(table) < 2 or not np.isfinite(table).all():
            raise mistake(
                "expected for each time a list with a point [x, y, z] in m for each vertex, at two times or more."
            )
        return tuple(tuple(map(tuple, row)) for row in table.tolist())


class Motion(Node):
    """Vertices of a soft body that follow a recording, by a cubic through neighboring samples (`physics.soft.driven`).

    Attributes:
        vertices: The vertices by index.
        times: Times of the samples [s], from 0; after the last one the vertices stand still.
        positions: Positions of the vertices at each time [m], in the world. Those at time 0 are those of the start.
    """

    vertices: Annotated[tuple[int, ...], _Vertices()] = Field(description="the vertices, such as [0, 1]")
    times: Annotated[tuple[float, ...], Increasing(Quantity("s"))] = Field(description="the times in s, from 0")
    positions: Annotated[tuple[tuple[tuple[float, ...], ...], ...], _Positions()] = Field(
        description="for each time a point [x, y, z] in m for each vertex"
    )

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if len(self.positions) != len(self.times):
            yield (
                ("positions",),
                f"are given at {len(self.positions)} times; expected {len(self.times)}, as in `times`.",
            )
        elif len(self.positions[0]) != len(self.vertices):
            yield (
                ("positions",),
                f"have {len(self.positions[0])} points each; expected {len(self.vertices)}, as in `vertices`.",
            )
