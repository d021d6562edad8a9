"""Masks per color: bodies of several colors in one video.

A pixel shows I = B + Σ_k α_k (F_k − B) with α_k its coverage by the parts of color F_k. Two or three colors are separated
by the three channels (`color_shares`). Occlusion between colors is not modelled: where parts of two colors are within a
pixel of each other, only their total coverage is compared; elsewhere each color is compared with its own. Every pixel is
used once.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import max_pool2d

from gradsim.errors import InputError
from gradsim.geometry.surface import Part
from gradsim.identification.observation.base import (
    Masks,
    NoiseFloor,
    Observation,
    Residual,
    combined_noise_floor,
)
from gradsim.identification.observation.projection import ImageVertices, Sensitivity, image_vertices
from gradsim.numerics.robust import GAUSSIAN, RobustLoss
from gradsim.physics.trajectory import Trajectory
from gradsim.render.coverage.coverage import coverage
from gradsim.render.silhouettes import Silhouettes, whole

FREE_SIGMAS = 4.0  # [σ] below which a pixel is free of a color
MIN_COVERAGE = 1e-9  # coverage above rounding, in videos without noise
CONTRAST = 0.1  # minimum contrast of a color against the background and the others


class LabelledMasks(Observation):
    """Coverage of pixels by color, from a video: an `Observation`.

    Args:
        shares: Coverage (frames, colors, height, width), about in [0, 1].
        sigma: Standard deviations of its noise (colors,).
        names: Parts of the surface of each color.
        silhouettes: Renderer of the same image size.
        noisy: False for noise-free float frames.
        weight: Weight (frames, height, width), as for `Masks`.
        loss: Robust loss, as for `Masks`.

    Raises:
        InputError: If shapes do not match, as for `Masks`.
    """

    def __init__(
        self,
        shares: Tensor,
        sigma: Sequence[float],
        names: Sequence[Sequence[str]],
        silhouettes: Silhouettes,
        noisy: bool = True,
        weight: Tensor | None = None,
        loss: str | RobustLoss = GAUSSIAN,
    ):
        size = (len(names), silhouettes.camera.height, silhouettes.camera.width)
        if shares.ndim != 4 or shares.shape[1:] != size or len(sigma) != len(names):
            raise InputError(
                f"shares have shape {tuple(shares.shape)} and {len(sigma)} noise levels; {len(names)} colours need "
                f"(frames, {size[0]}, {size[1]}, {size[2]}) and {len(names)}."
            )
        self.shares, self.sigmas, self.names = shares.double(), list(map(float, sigma)), [tuple(n) for n in names]
        self.silhouettes, self.noisy, self.frames, self.notes = silhouettes, noisy, len(shares), {}
        self.weight = torch.ones_like(self.shares[:, 0]) if weight is None else weight.double()
        limit = FREE_SIGMAS * self.shares.new_tensor(self.sigmas)[:, None, None] if noisy else MIN_COVERAGE
        near = max_pool2d((self.shares > limit).double(), 3, 1, 1)  # each color dilated by one pixel
        crowd = near.sum(1)
        self.single = [
            Masks(y, s, silhouettes, self.weight * ((crowd - mask) == 0), loss)
            for y, s, mask in zip(self.shares.unbind(1), self.sigmas, near.unbind(1), strict=True)
        ]
        spread = float(np.sqrt(np.sum(np.square(self.sigmas))))
        met = self.weight * (crowd > 1)
        self.overlap_frames = met.flatten(1).any(1).nonzero()[:, 0]  # frames
        self.combined = Masks(
            self.shares.sum(1)[self.overlap_frames], spread, silhouettes, met[self.overlap_frames], loss
        )

    @property
    def sigma(self) -> float:
        """Root mean square of the noise of the colours."""
        return float(np.sqrt(np.mean(np.square(self.sigmas))))

    @property
    def loss(self) -> RobustLoss:
        """Robust loss of the residuals."""
        return self.combined.loss

    @property
    def masks(self) -> Tensor:
        """Total coverage (frames, height, width)."""
        return self.shares.sum(1)

    def residuals(self, trajectory: Trajectory, frames: int, residual: Residual) -> Iterator[Tensor]:
        screen, parts = self.silhouettes.image_vertices(trajectory.surface, trajectory.values)
        (height, width), screen, by_rows = self.shares.shape[2:], whole(screen), []
        for masks, rows, index, faces, convex in self._groups(parts, frames, residual):
            images = coverage(screen[:, self._images(rows)][:, :, index], faces, height, width, convex)
            by_rows.append((rows, masks.compared(self.silhouettes.mean_of_instants(images), len(rows), residual)))
        yield _by_frame(by_rows, frames)

    def linearize(self, s: Sensitivity, frames: int, residual: Residual) -> Iterator[tuple[Tensor, Tensor]]:
        (screen, slope, parts), by_rows = image_vertices(self.silhouettes, s), []
        for masks, rows, index, faces, convex in self._groups(parts, frames, residual):
            images = self._images(rows)
            projected = screen[:, images][:, :, index], slope[:, :, images][:, :, :, index]
            blocks = masks.linear(*projected, faces, convex, len(rows), residual)
            r, J = (torch.cat(parts, 1) for parts in zip(*blocks, strict=True))
            by_rows.append((rows, torch.cat([r[..., None], J], 2)))
        both = _by_frame(by_rows, frames)
        yield both[..., 0], both[..., 1:]

    @torch.no_grad()
    def cost(self, trajectory: Trajectory, frames: int, residual: Residual) -> Tensor:
        return self._sums(image_vertices(self.silhouettes, trajectory), frames, residual)[0]

    def normal(self, s: Sensitivity, frames: int, residual: Residual) -> tuple[Tensor, Tensor, Tensor]:
        return self._sums(image_vertices(self.silhouettes, s), frames, residual)

    def noise_floor(self, frames: int) -> NoiseFloor:
        met = int((self.overlap_frames < frames).sum())
        return combined_noise_floor(
            [*((part, frames) for part in self.single), *([(self.combined, met)] if met else [])]
        )

    def slice_frames(self, first: int, last: int) -> "LabelledMasks":
        part = slice(first, last)
        shares, weight = self.shares[part], self.weight[part]
        return LabelledMasks(shares, self.sigmas, self.names, self.silhouettes, self.noisy, weight, self.loss)

    def _images(self, rows: Tensor) -> Tensor:
        """Numbers of the images of some frames."""
        count = self.silhouettes.instants
        return rows if count == 1 else (rows[:, None] * count + torch.arange(count)).flatten()

    def _sums(self, vertices: ImageVertices, frames: int, residual: Residual):
        sums = []
        for masks, rows, index, faces, convex in self._groups(vertices.parts, frames, residual):
            images = self._images(rows)
            projected = vertices.screen[:, images][:, :, index], vertices.slope[:, :, images][:, :, :, index]
            sums.append(masks.sums(*projected, faces, convex, len(rows), residual))
        cost, gradient, matrix = (torch.stack(parts).sum(0) for parts in zip(*sums, strict=True))
        return cost, gradient, matrix

    def _groups(
        self, parts: Sequence[Part], frames: int, residual: Residual
    ) -> Iterator[tuple[Masks, Tensor, Tensor, Tensor, bool]]:
        """Masks, frames, vertices and faces of each color; then of the total coverage, for "pixels" residuals only."""
        for masks, names in zip(self.single, self.names, strict=True):
            yield masks, torch.arange(frames), *_joined([part for part in parts if part.name in names])
        met = self.overlap_frames[self.overlap_frames < frames]
        if len(met) and residual == "pixels":
            yield self.combined, met, *_joined(parts)


def _joined(parts: Sequence[Part]) -> tuple[Tensor, Tensor, bool]:
    """Vertices of some parts (n,), their faces in this numbering, and whether they form a single convex body."""
    index = torch.cat([torch.arange(p.vertices.start, p.vertices.stop) for p in parts])
    firsts = np.cumsum([0, *(p.size for p in parts)]).tolist()
    faces = torch.cat([p.faces + first for p, first in zip(parts, firsts, strict=False)])
    return index, faces, len(parts) == 1 and parts[0].convex


def _by_frame(blocks: list[tuple[Tensor, Tensor]], frames: int) -> Tensor:
    """Concatenate residuals (worlds, n, ...) of some frames each by frame, padded with 0."""
    full = []
    for rows, r in blocks:
        framed = r.unflatten(1, (len(rows), -1))
        full.append(framed.new_zeros(len(r), frames, *framed.shape[2:]).index_copy(1, rows, framed))
    return torch.cat(full, 2).flatten(1, 2)


def color_shares(
    frames: np.ndarray, colors: Sequence[Sequence[float]], background: Sequence[float] | np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Coverage of each pixel by each of a few flat colors: α of I = B + Σ α_k (F_k − B), by least squares.

    Args:
        frames: (frames, height, width, 3), uint8 or in [0, 1].
        colors: F of each color.
        background: B.

    Returns:
        α (frames, colors, height, width), not clipped; its noise over that of a channel (colors,); and the root mean
        square residual of the frames.

    Raises:
        InputError: If there are more than three colors, or they and the background cannot be separated.
    """
    scaled = frames / 255 if frames.dtype == np.uint8 else frames
    base = np.asarray(background, float)
    F = np.asarray(colors, float) - base
    if len(F) > 3 or np.linalg.svd(F, compute_uv=False).min() < CONTRAST:
        listed = ", ".join(str([round(float(c), 3) for c in colour]) for colour in colors)
        raise InputError(
            f"the colours {listed} on {base.tolist()} cannot be distinguished by red, green and blue: at most three, "
            "none of them a mixture of the others and the background. Give the bodies other colours, or all the same, "
            "or give a mask video (--mask)."
        )
    inverse = np.linalg.pinv(F)
    alpha = (scaled - base) @ inverse
    residual = scaled - base - alpha @ F
    return np.moveaxis(alpha, -1, 1), np.linalg.norm(inverse, axis=0), float(np.sqrt(np.mean(residual**2)))
