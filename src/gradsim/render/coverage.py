"""Silhouettes as the covered area of every pixel, with exact derivatives.

Convex bodies: the area itself, to rounding (`coverage_kernels.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import Lane, specialise
from gradsim.engine.launch import replay
from gradsim.engine.operation import operation


def coverage(screen: Tensor, faces: Tensor, height: int, width: int, convex: bool = True) -> Tensor:
    """Share of every pixel that closed bodies cover, (worlds, frames, height, width) in [0, 1].

    A vertex that is not a number or is farther than 1e9 px from the origin makes its frame empty.

    Args:
        screen: Projected vertices (worlds, frames, n, 2) [px], x to the right, y down, corners of pixels at whole
            numbers. Differentiable.
        faces: Triangles (m, 3), outward counter-clockwise, of one closed mesh.
        height: Rows of the image.
        width: Columns of the image.
        convex: Whether the body is convex.

    Raises:
        ValueError: If the shapes do not fit or the mesh is not closed.
    """
    _check(screen, faces)
    return _operation(height, width, convex)(screen, faces)[0]


def coverage_tangent(
    screen: Tensor, tangent: Tensor, faces: Tensor, height: int, width: int, convex: bool = True
) -> tuple[Tensor, Tensor]:
    """Coverage, and its derivative along every unknown (worlds, frames, height, width, unknowns).

    Args:
        screen: As for `coverage`.
        tangent: Derivatives of `screen`, (worlds, unknowns, frames, n, 2) [px per unit].
        faces: As for `coverage`.
        height: As for `coverage`.
        width: As for `coverage`.
        convex: As for `coverage`.

    Raises:
        ValueError: As `coverage`, or if `tangent` does not fit `screen`.
    """
    _check(screen, faces)
    worlds, frames, n, _ = screen.shape
    if tangent.ndim != 5 or tangent.shape != (worlds, tangent.shape[1], frames, n, 2):
        shape = f"({worlds}, unknowns, {frames}, {n}, 2)"
        raise ValueError(f"`tangent` has shape {tuple(tangent.shape)}; `screen` needs {shape}.")
    return _program(height, width, convex).tangent(screen, tangent, faces)


@dataclass(frozen=True)
class Coverage:
    """A program (see `engine.operation`) from screen (worlds, frames, n, 2) and faces (m, 3) to coverage.

    Args:
        height: Rows.
        width: Columns.
    """

    height: int
    width: int

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [(*inputs[0].shape[:2], self.height, self.width)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        screen, faces = inputs
        none = screen.new_empty((screen.shape[0], 0, *screen.shape[1:]))
        return [self.tangent(screen, none, faces)[0]]

    def tangent(self, screen: Tensor, tangent: Tensor, faces: Tensor) -> tuple[Tensor, Tensor]:
        """See `coverage_tangent`."""
        code, mesh = _code(screen.dtype), _mesh(faces)
        worlds, frames, n, _ = screen.shape
        unknowns, bodies = tangent.shape[1], worlds * frames
        image = screen.new_zeros(worlds, frames, self.height, self.width)
        image_tangent = screen.new_zeros(worlds, frames, self.height, self.width, unknowns)
        args = [
            _view(code.Point, screen.detach(), bodies, n, 2),
            _view(code.Point, tangent.detach().to(screen.dtype), worlds, unknowns, frames, n, 2),
            *mesh.arrays,
            _view(wp.bool, screen.new_empty(bodies, len(faces), dtype=torch.bool), bodies, len(faces)),
            _view(code.Scalar, image, bodies, self.height, self.width),
            _view(code.Scalar, image_tangent, bodies, self.height, self.width, unknowns),
        ]
        replay(code.cover, bodies, args, str(screen.device))
        return image, image_tangent

    def backward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]) -> list[Tensor]:
        screen, faces = inputs
        code, mesh = _code(screen.dtype), _mesh(faces)
        worlds, frames, n, _ = screen.shape
        bodies = worlds * frames
        adjoint = torch.zeros_like(screen)
        args = [
            _view(code.Point, screen, bodies, n, 2),
            _view(code.Scalar, adjoints[0], bodies, self.height, self.width),
            *mesh.arrays,
            _view(wp.bool, screen.new_empty(bodies, len(faces), dtype=torch.bool), bodies, len(faces)),
            _view(code.Point, adjoint, bodies, n, 2),
        ]
        replay(code.pull_back, bodies, args, str(screen.device))
        return [adjoint, torch.zeros_like(faces)]


@cache
def _program(height: int, width: int, convex: bool):
    return Coverage(height, width)


@torch.compiler.assume_constant_result
def _operation(height: int, width: int, convex: bool):
    return _operations(height, width, convex)


@cache
def _operations(height: int, width: int, convex: bool):
    return operation(_program(height, width, convex))


@dataclass(frozen=True)
class _Mesh:
    arrays: tuple[wp.array, wp.array]


def _mesh(faces: Tensor) -> _Mesh:
    table = faces.detach().cpu().numpy().astype(np.int32)
    return _adjacency(table.tobytes(), str(faces.device))


@cache
def _adjacency(table: bytes, device: str) -> _Mesh:
    faces = np.frombuffer(table, np.int32).reshape(-1, 3)
    half = {}
    for k, (a, b, c) in enumerate(faces.tolist()):
        for u, v in ((a, b), (b, c), (c, a)):
            half.setdefault((u, v), []).append(k)
    edges = []
    for (u, v), owners in half.items():
        back = half.get((v, u), [])
        if len(owners) != 1 or len(back) != 1:
            raise ValueError(
                f"edge ({u}, {v}) belongs to {len(owners)} faces this way and {len(back)} the other; a silhouette needs a closed mesh"
            )
        if u < v:
            edges.append((u, v, owners[0], back[0]))
    wp.init()
    return _Mesh(
        (
            wp.array(faces, dtype=wp.vec3i, device=device),
            wp.array(np.array(edges, np.int32), dtype=wp.vec4i, device=device),
        )
    )


@cache
def _code(dtype: torch.dtype):
    lane = Lane(str(dtype).removeprefix("torch."))
    return specialise("gradsim.render.coverage_kernels", lane)


def _view(dtype, tensor: Tensor, *shape: int) -> wp.array:
    wp.init()
    return wp.from_torch(tensor.contiguous().reshape(shape), dtype=dtype, requires_grad=False)


def _check(screen: Tensor, faces: Tensor) -> None:
    if screen.ndim != 4 or screen.shape[-1] != 2:
        raise ValueError(f"`screen` has shape {tuple(screen.shape)}; coverage needs (worlds, frames, n, 2).")
    if faces.ndim != 2 or faces.shape[-1] != 3:
        raise ValueError(f"`faces` has shape {tuple(faces.shape)}; coverage needs (m, 3).")
