"""Prescribed motion of rigid bodies and of joints to the world: a table of times and poses."""

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic_core import core_schema

from gradsim.scene.node import Node, Place, mistake
from gradsim.scene.quantity import Increasing, Quantity, plain

LENGTH_TOLERANCE = 1e-3  # deviation of a quaternion's length from 1: files often keep four digits
MAX_TURN = np.pi / 2  # [rad] between neighboring samples: quaternions of a half-turn have no shortest way
MAX_SAMPLES = 4000  # the slopes of a cubic spline are one dense matrix of all samples


class _Rows:
    """Annotate rows of numbers at two times or more.

    Args:
        size: Numbers of a row.
        words: What a row is.
    """

    def __init__(self, size: int, words: str):
        self.size, self.words = size, words

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        row = {"type": "array", "items": {"type": "number"}, "minItems": self.size, "maxItems": self.size}
        return {"type": "array", "items": row, "minItems": 2}

    def _read(self, raw: Any) -> tuple[tuple[float, ...], ...]:
        try:
            table = np.array(plain(raw), np.float64)
        except (TypeError, ValueError):
            table = np.array([], np.float64)
        if table.ndim != 2 or table.shape[1] != self.size or len(table) < 2 or not np.isfinite(table).all():
            raise mistake(f"expected for each time {self.words}, at two times or more.")
        return tuple(map(tuple, table.tolist()))


class PoseMotion(Node):
    """A pose that follows a recording, by cubic splines through the samples (`physics.rigid.recorded.frames`).

    Attributes:
        times: Times of the samples [s], from 0. After the last one, velocity and angular velocity stay as they are.
        positions: Position at each time [m], in the world: of the center of mass of a body, or of the origin of the frame in which a
            joint to the world has its `parent_point` and `axis`.
        quats_xyzw: Orientation at each time; by default none changes.
        noise: Standard deviation of each number of the positions [m].
        angle_noise: Standard deviation of the orientations about each axis [rad].
    """

    times: Annotated[tuple[float, ...], Increasing(Quantity("s"))] = Field(description="the times in s, from 0")
    positions: Annotated[tuple[tuple[float, ...], ...], _Rows(3, "a point [x, y, z] in m")] = Field(
        description="for each time a point [x, y, z] in m"
    )
    quats_xyzw: Annotated[tuple[tuple[float, ...], ...] | None, _Rows(4, "a quaternion [x, y, z, w] of length 1")] = (
        None
    )
    noise: Annotated[float, Quantity("m", lower=0.0)] = 0.0
    angle_noise: Annotated[float, Quantity("rad", lower=0.0)] = 0.0

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        count = len(self.times)
        if count > MAX_SAMPLES:
            yield ("times",), f"are {count}; expected at most {MAX_SAMPLES}: keep every other one, or a shorter part."
        for key in ("positions", "quats_xyzw"):
            rows = getattr(self, key)
            if rows is not None and len(rows) != count:
                yield (key,), f"are given at {len(rows)} times; expected {count}, as in `times`."
        if self.quats_xyzw is not None:
            yield from self._turn_conflicts(np.array(self.quats_xyzw))

    @staticmethod
    def _turn_conflicts(quats: np.ndarray) -> Iterator[tuple[Place, str]]:
        length = np.linalg.norm(quats, axis=1)
        wrong = np.flatnonzero(np.abs(length - 1) > LENGTH_TOLERANCE)
        if len(wrong):
            k = int(wrong[0])
            yield (
                ("quats_xyzw", k),
                f"has length {length[k]:.6g}; a rotation has length 1, and the order is x, y, z, w.",
            )
            return
        unit = quats / length[:, None]
        angle = 2 * np.arccos(np.clip(np.abs((unit[1:] * unit[:-1]).sum(1)), 0.0, 1.0))
        if len(angle) and angle.max() > MAX_TURN:
            k = int(angle.argmax())
            yield (
                ("quats_xyzw", k + 1),
                f"is turned by {angle[k]:.3g} rad from the one before; expected at most {MAX_TURN:.3g} rad: give more samples.",
            )

    @property
    def unit_quats(self) -> np.ndarray:
        """Orientations (times, 4) of length 1, each as near the one before as its sign can make it."""
        if self.quats_xyzw is None:
            return np.tile([0.0, 0.0, 0.0, 1.0], (len(self.times), 1))
        quats = np.array(self.quats_xyzw)
        quats = quats / np.linalg.norm(quats, axis=1, keepdims=True)
        signs = np.where((quats[1:] * quats[:-1]).sum(1) < 0, -1.0, 1.0)
        return quats * np.concatenate([[1.0], np.cumprod(signs)])[:, None]
