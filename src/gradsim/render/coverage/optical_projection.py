"""Vertices in the images of a camera with a lens and a shutter, with derivatives, for least squares (`optics_kernels.py`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gradsim.engine.lanes import lane_of, specialize
from gradsim.engine.launch import array, replay
from gradsim.geometry.surface import Part
from gradsim.render.coverage.edges import edges_of
from gradsim.render.coverage.rigid_projection import OFFSCREEN
from gradsim.render.optics import NEWTON, SHUTTER_MARGIN, TIMES, Optics, OpticsValues, radial_limit

if TYPE_CHECKING:
    from gradsim.render.coverage import optics_kernels
else:
    optics_kernels = "gradsim.render.coverage.optics_kernels"

BEND = 0.05  # [px] of an edge that is drawn as straight
PIECES = (1, 2, 4, 8, 16)  # of an edge
EXAMINED_SAMPLES = 2, 8  # worlds and frames in which edges are examined
MARGIN = 0.5  # sizes of the image about it in which they are


@dataclass(frozen=True, eq=False)
class OpticsTangent:
    """Derivatives of `OpticsValues` and intrinsics; None for zero.

    Args:
        K: (worlds, unknowns, 3, 3).
        coefficients: (worlds, unknowns, 5 or 4).
        readout: (worlds, unknowns).
        exposure: (worlds, unknowns).
        delay: (worlds, unknowns).
    """

    K: Tensor | None = None
    coefficients: Tensor | None = None
    readout: Tensor | None = None
    exposure: Tensor | None = None
    delay: Tensor | None = None


def project_optics(
    samples: Tensor,
    samples_tangent: Tensor,
    offsets: Tensor | None,
    K: Tensor,
    optics: Optics,
    values: OpticsValues,
    along: OpticsTangent,
    size: tuple[int, int],
) -> tuple[Tensor, Tensor]:
    """`optics.image_points` with derivatives, of vertices that are off the image in place of NaN where they are not drawn.

    Args:
        samples: (worlds, frames, samples, n, 2) [px].
        samples_tangent: (worlds, unknowns, frames, samples, n, 2).
        offsets: (frames, samples) [s]; None without a shutter.
        K: (worlds or 1, 3, 3).
        optics: Kinds and settings.
        values: Numbers.
        along: Their derivatives.
        size: Height and width of the image [px].

    Returns:
        (worlds, frames · images, n, 2) [px], and (worlds, unknowns, frames · images, n, 2).
    """
    worlds, frames, _, n, _ = samples.shape
    unknowns, code = samples_tangent.shape[1], _code(samples.dtype)
    images = optics.exposures if offsets is not None else 1
    screen = samples.new_empty(worlds, frames * images, n, 2)
    slope = samples.new_empty(worlds, unknowns, frames * images, n, 2)
    none = lambda x, *tail: samples.new_empty(0, unknowns, *tail) if x is None else x.to(samples)
    padded = lambda k: torch.nn.functional.pad(k.to(samples), (0, 5 - k.shape[-1]))
    k, fisheye = values.coefficients, optics.fisheye is not None
    kind = 0 if k is None else 2 if fisheye else 1
    first, last = optics.span(size[1], size[0])
    args = [
        array(code.Point, samples.flatten(1, 2)),
        array(code.Point, samples_tangent.flatten(2, 3)),
        array(code.Scalar, samples.new_zeros(frames, 1) if offsets is None else offsets.to(samples)),
        array(code.M3, K.to(samples)),
        array(code.M3, none(along.K, 3, 3)),
        array(code.Five, samples.new_zeros(1, 5) if k is None else padded(k)),
        array(code.Five, none(None if along.coefficients is None else padded(along.coefficients), 5)),
        array(code.Scalar, samples.new_zeros(1) if k is None else radial_limit(k, fisheye).to(samples)),
        kind,
        array(code.Scalar, values.readout.to(samples)),
        array(code.Scalar, none(along.readout)),
        array(code.Scalar, values.exposure.to(samples)),
        array(code.Scalar, none(along.exposure)),
        array(code.Scalar, values.delay.to(samples)),
        array(code.Scalar, none(along.delay)),
        array(code.Scalar, samples.new_tensor(optics.shares if offsets is not None else [0.0])),
        1 if optics.scan == "rows" else 0,
        code.Scalar(first),
        code.Scalar(last - first),
        code.Scalar(0.5 + SHUTTER_MARGIN),
        NEWTON,
        array(code.Point, screen),
        array(code.Point, slope),
    ]
    replay(code.project_optics, (worlds, frames), args, str(samples.device))
    return screen, slope


@torch.no_grad()
def edge_pieces(
    samples: Tensor,
    offsets: Tensor | None,
    K: Tensor,
    optics: Optics,
    values: OpticsValues,
    size: tuple[int, int],
    parts: Sequence[Part],
) -> list[int]:
    """Number of pieces of the edges of each part at which none of them bends by more than `BEND`; arguments as for `project_optics`.

    A piece of 1/n of an edge bends by 1/n² of it. Some worlds and frames are examined, in and near the image.
    """
    worlds, frames = (range(0, n, -(-n // most)) for n, most in zip(samples.shape[:2], EXAMINED_SAMPLES, strict=True))
    few = lambda x: x if len(x) == 1 else x[list(worlds)]
    numbers = OpticsValues(
        None if values.coefficients is None else few(values.coefficients), *(few(getattr(values, key)) for key in TIMES)
    )
    points = samples.detach()[list(worlds)][:, list(frames)]
    points = torch.where(points > OFFSCREEN / 2, points, OFFSCREEN)
    times = None if offsets is None else offsets[list(frames)]
    edge = points.new_tensor([size[1], size[0]])
    still = Optics(
        optics.distortion,
        optics.fisheye,
        optics.readout,
        None,
        scan=optics.scan,
        window=optics.window,
        delay=optics.delay,
    )
    pieces = []
    for part in parts:
        ends = _edges(part.faces.cpu().numpy().tobytes(), str(part.faces.dtype))
        a, b = (points[..., part.vertices, :][..., ends[:, k], :] for k in (0, 1))
        three = torch.cat([a, (a + b) / 2, b], 3)
        none = three.new_empty(len(three), 0, *three.shape[1:])
        a, middle, b = project_optics(three, none, times, few(K), still, numbers, OpticsTangent(), size)[0].chunk(3, 2)
        near = lambda x: ((x > -MARGIN * edge) & (x < (1 + MARGIN) * edge)).all(-1)
        bend = (middle - (a + b) / 2).norm(dim=-1)
        worst = torch.where(near(a) & near(b), bend, 0.0).amax().item() if bend.numel() else 0.0
        pieces.append(next((n for n in PIECES if worst <= BEND * n**2), PIECES[-1]))
    return pieces


@cache
def _edges(table: bytes, dtype: str) -> Tensor:
    faces = torch.frombuffer(bytearray(table), dtype=getattr(torch, dtype.removeprefix("torch."))).view(-1, 3)
    return torch.tensor([row[:2] for row in edges_of(faces.numpy())], dtype=torch.int64).reshape(-1, 2)


@cache
def _code(dtype: torch.dtype):
    return specialize(optics_kernels, lane_of(dtype))
