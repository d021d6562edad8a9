"""Observations: data with noise, compared with a trajectory as whitened residuals r = (model − data)/σ.

`Observation` is the interface of least squares; `Masks` (silhouettes in a video) and `States` (motion capture) are two
of its implementations. Residuals come in chunks of frames, which bounds the memory. The cost is Σ r², or Σ λ ρ(r) with a
robust loss (`gradsim.numerics.robust`), minimized by iteratively reweighted least squares.
"""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.observation.projection import Sensitivity, image_vertices
from gradsim.losses import CDF, MSE, ImageLoss, cdf, cdf_of_sums, cdf_of_sums_tangent, image_loss
from gradsim.numerics import rotation
from gradsim.numerics.robust import GAUSSIAN, RobustLoss, robust_loss
from gradsim.physics.trajectory import Trajectory
from gradsim.render.coverage.coverage import coverage_tangent
from gradsim.render.coverage.objective import objective, profiles
from gradsim.render.coverage.targets import Target, target
from gradsim.render.silhouettes import Silhouettes
from gradsim.render.windows import Windows
from gradsim.video.mask_faults import MaskFaults

# type of image residuals: whitened pixels; CDFs of rows and columns, with a wide basin; or those of an image loss
Residual = Literal["pixels", "cdf"] | ImageLoss
OUTLINE_SIGMAS = 4.0  # [σ] distance from 0 and from 1 above which a pixel is on an outline
OFF_BY_A_PIXEL = 0.3  # mean square of differences of coverage near an outline that is off by a pixel
CHUNK = 2**25  # elements of one block of an image Jacobian: 256 MB
WINDOWS_CHUNK = 2**20  # the same where the memory is that of windows
LEVEL_PIXELS = 2**22  # of windows that tell the level of the noise


class NoiseFloor(NamedTuple):
    """Noise level of an observation, estimated without a model.

    Args:
        cost: Σ r² of residuals that do not depend on the parameters.
        informative: Number of residuals that carry information.
        level: χ²/N of the residuals without information: 1 for a correct σ, 0 for noise-free frames, infinite if unknown.
    """

    cost: float
    informative: float
    level: float


class Observation(Protocol):
    """Interface of data that a trajectory is fitted to; what inherits from it takes its defaults.

    Attributes:
        frames: Number of frames.
        sigma: Standard deviation of the noise, to which a result refers; 1 where the data have noise of several units.
        outline_noise: Whether the noise is estimated from the outlines, and `sigma` is only a scale.
        notes: Entries of `result.json` on the data, such as dropped frames.
        pose_noise: Whether a camera moves by poses with a covariance, which `linearized_at` takes into the noise.
        growth: Factor by which a search may lengthen the clip from stage to stage, and be content with the digits that noise leaves; 1: by
            some frames, as for tumbling bodies.
    """

    frames: int
    sigma: float = 1.0
    outline_noise: bool = False
    pose_noise: bool = False
    growth: float = 1.0
    notes: Mapping[str, Any] = MappingProxyType({})

    @property
    def parts(self) -> Mapping[str, "Observation"]:
        """Observations of which this one consists, by camera; itself where it is a single one."""
        return {"": self}

    def residuals(self, trajectory: Trajectory, frames: int, residual: Residual) -> Iterator[Tensor]:
        """Blocks (worlds, n) of residuals of the first `frames` frames, differentiable; their squares sum to the cost."""
        ...

    def linearize(self, s: Sensitivity, frames: int, residual: Residual) -> Iterator[tuple[Tensor, Tensor]]:
        """Blocks of residuals (worlds, n) and derivatives (worlds, n, unknowns), after `RobustLoss.winsorize`."""
        ...

    def cost(self, trajectory: Trajectory, frames: int, residual: Residual) -> Tensor:
        """Σ r² or Σ λ ρ(r) (worlds,), not differentiable."""
        ...

    def normal(self, s: Sensitivity, frames: int, residual: Residual) -> tuple[Tensor, Tensor, Tensor]:
        """Cost (worlds,), Jᵀ W r (worlds, unknowns) and Jᵀ W J (worlds, unknowns, unknowns); W = 1 for Σ r²."""
        ...

    def noise_floor(self, frames: int) -> NoiseFloor:
        """Noise floor of the first frames."""
        ...

    def linearized_at(self, trajectory: Trajectory) -> "Observation":
        """The observation with the errors of a moving camera's poses as noise, correlated as at a trajectory of one world."""
        return self

    def within(self, ranges: Mapping[str, tuple[float, float]]) -> "Observation":
        """The observation with those data alone that a motion covers wherever unknowns are in their ranges, by name."""
        return self

    def slice_frames(self, first: int, last: int) -> "Observation":
        """Observation of frames `first` to `last - 1`."""
        ...

    def ends(self, frames: int) -> list[int]:
        """Numbers of the first frames up to this one, with each of which one more is compared."""
        return list(range(1, frames + 1))


def sum_squares(blocks: Iterator[Tensor]) -> Tensor:
    """Σ r² (worlds,) over blocks (worlds, n)."""
    return torch.stack([r.square().sum(1) for r in blocks]).sum(0)


def combined_noise_floor(parts: Sequence[tuple[Observation, int]]) -> NoiseFloor:
    """Noise floor of several observations, each with its number of frames.

    The levels are averaged with the numbers of informative residuals as weights. Where a part has no level, but another
    does, its stated noise is assumed to be correct.
    """
    floors = [part.noise_floor(frames) for part, frames in parts]
    costs, counts, levels = zip(*floors, strict=True)
    if not any(map(math.isfinite, levels)):
        return NoiseFloor(sum(costs), sum(counts), math.inf)
    assumed = [level if math.isfinite(level) else 1.0 for level in levels]
    level = sum(n * y for n, y in zip(counts, assumed, strict=True)) / max(1.0, sum(counts))
    return NoiseFloor(sum(costs), sum(counts), level)


def normal_equations(
    blocks: Iterator[tuple[Tensor, Tensor]], loss: RobustLoss = GAUSSIAN
) -> tuple[Tensor, Tensor, Tensor]:
    """Σ λ ρ(r), Jᵀ W r and Jᵀ W J over blocks of residuals and derivatives, with W = λ ρ'(r)/(2 r)."""
    parts = []
    for r, J in blocks:
        weighted = J if loss.kind == 0 else J * (loss.scale * loss.weight(r))[..., None]
        cost = loss.scale * loss.rho(r).sum(1)
        parts.append((cost, (weighted.mT @ r[..., None])[..., 0], weighted.mT @ J))
    cost, gradient, matrix = (torch.stack(part).sum(0) for part in zip(*parts, strict=True))
    return cost, gradient, matrix


def _mean_of(parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Means over pairs of images and derivatives."""
    if len(parts) == 1:
        return parts[0]
    images, slopes = zip(*parts, strict=True)
    return torch.stack(images).mean(0), torch.stack(slopes).mean(0)


def _box_of(points: Tensor, size: Sequence[int]) -> tuple[slice, slice]:
    """Rows and columns of an image (height, width) that hold all finite points (n, 2) [px]."""
    points = points[points.isfinite().all(-1)]
    if not len(points):
        return slice(0, 0), slice(0, 0)
    ends = torch.stack([points.amin(0).floor() - 1, points.amax(0).ceil() + 1]).flip(1).clamp(min=0)
    first, last = torch.minimum(ends, torch.tensor(size).to(ends)).long().tolist()
    rows, columns = (slice(min(a, b), b) for a, b in zip(first, last, strict=True))
    return rows, columns


def _binned(masks: Tensor, weight: Tensor, factor: int) -> tuple[Tensor, Tensor]:
    """Masks and weights (frames, height, width) in pixels `factor` times as wide and high."""
    blocks = lambda x: x.unflatten(1, (-1, factor)).unflatten(3, (-1, factor))
    mean = lambda x: blocks(x).mean((2, 4))
    counts = (weight > 0).double()
    used = mean(counts)
    enough, share = used > 0.75, used.clamp(min=1e-300)
    spread = mean(torch.where(weight > 0, 1 / weight.clamp(min=1e-300), 0.0)) / share
    coarse = torch.where(enough, 1 / spread.clamp(min=1e-300), 0.0)
    return torch.where(enough, mean(masks * counts) / share, 0.0), coarse


def _image_loss(residual: Residual) -> ImageLoss | None:
    """Image loss of the residuals; None for whitened pixels."""
    loss = None if residual == "pixels" else image_loss(residual)
    return None if isinstance(loss, MSE) else loss


class Masks(Observation):
    """Masks of the bodies in a video.

    Args:
        masks: Coverage (frames, height, width), about in [0, 1].
        sigma: Standard deviation of its noise.
        silhouettes: Renderer of the same image size.
        weight: Optional weight of each squared residual (frames, height, width), or (frames, 1, 1) if alike in all pixels of a frame, at least
            0: 0 for excluded pixels, 1/4 for a noise of 2 σ.
        loss: "gaussian", or "huber" or "cauchy" against outlier pixels; applies to "pixels" residuals only.
        windows: Where masks are windows of images. A model is compared with 0 outside of them, with the weight of the frame if it is alike in all pixels,
            else with weight 1, or 0 if none of them counts.

    Raises:
        InputError: If the loss is unknown, a shape does not match, or a weight is negative.
    """

    def __init__(
        self,
        masks: Tensor,
        sigma: float,
        silhouettes: Silhouettes,
        weight: Tensor | None = None,
        loss: str | RobustLoss = GAUSSIAN,
        windows: Windows | None = None,
    ):
        size = windows.shape if windows else (silhouettes.camera.height, silhouettes.camera.width)
        if masks.ndim != 3 or masks.shape[1:] != size:
            raise InputError(
                f"masks have shape {tuple(masks.shape)}; expected (frames, {size[0]}, {size[1]}), the size of "
                "`silhouettes.camera`."
            )
        self.masks, self.sigma, self.silhouettes = masks.double(), float(sigma), silhouettes
        self.frames, self.loss, self.windows = len(masks), robust_loss(loss), windows
        distinct = torch.ones(self.frames, 1, 1, dtype=torch.float64) if weight is None else weight.double()
        self.weight = distinct.expand_as(self.masks) if distinct.shape[1:] == (1, 1) else distinct
        if self.weight.shape != self.masks.shape or not ((distinct >= 0) & distinct.isfinite()).all():
            raise InputError(
                f"`weight` has shape {tuple(self.weight.shape)} and numbers from {self.weight.min():g} to "
                f"{self.weight.max():g}; expected shape {tuple(self.masks.shape)} and finite numbers of at least 0."
            )
        self.notes: dict = {}  # for `result.json`: used, dropped and excluded frames
        self.mask_faults: MaskFaults | None = None  # of a video's masks, in its frames
        self.outline_noise = False  # noise is estimated from the outlines, and σ is only a scale
        self._floors: dict[tuple[int, bool], NoiseFloor] = {}  # by frames and `outline_noise`

    @property
    def chunk(self) -> int:
        """Elements of one block of a Jacobian."""
        return CHUNK if self.windows is None else WINDOWS_CHUNK

    @property
    def _distinct_weight(self) -> Tensor:
        """Weight (frames, 1, 1) where pixels of a frame have the same, else (frames, height, width)."""
        return self.weight[:, :1, :1] if self.weight.stride()[1:] == (0, 0) else self.weight

    @cached_property
    def _distinct_counts(self) -> Tensor:
        counts = (self._distinct_weight > 0).double()
        return counts[:, :1, :1] if (counts == counts[:, :1, :1]).all() else counts

    @cached_property
    def _outside(self) -> Tensor:
        """Weight (frames) outside of windows."""
        weight = self._distinct_weight
        return weight[:, 0, 0] if weight.shape[1:] == (1, 1) else (weight > 0).flatten(1).any(1).double()

    @property
    def _counts(self) -> Tensor:
        return self._distinct_counts.expand_as(self.masks)

    @property
    def all_frames_count(self) -> bool:
        """True if each frame has a pixel with a weight."""
        return bool((self._distinct_weight > 0).flatten(1).any(1).all())

    @cached_property
    def _cdf(self) -> Tensor:
        if self.windows is None:
            return cdf(self.masks * self._counts)
        return cdf_of_sums(self.windows.sums(self.masks * self._distinct_counts), self.windows.size[0])

    @cached_property
    def _target(self) -> Target:
        scale = 1 / self.sigma**2
        return target(self.masks, self._distinct_weight * scale, self.loss, self.windows, self._outside * scale)

    def from_corners(self, screen: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        """Vertices on the screen, and their derivatives, of the first frames, from the corners of the windows, if there are any."""
        return (self.windows.from_corners(screen, self.silhouettes.instants) if self.windows else screen), slope

    def residuals(self, trajectory: Trajectory, frames: int, residual: Residual) -> Iterator[Tensor]:
        worlds, (height, width) = len(next(iter(trajectory.values.values()))), self.masks.shape[1:]
        step = max(1, self.chunk // (worlds * height * width))
        if self.windows is None or step >= frames:
            image = self.silhouettes.union(trajectory.surface, trajectory.values, self.windows)
            yield self.compared(image, frames, residual)
            return
        for first in range(0, frames, step):
            last = min(first + step, frames)
            yield from self.slice_frames(first, last).residuals(
                trajectory.at(slice(first, last)), last - first, residual
            )

    def compared(self, image: Tensor, frames: int, residual: Residual) -> Tensor:
        """Residuals (worlds, n) of the first frames of images (worlds, frames, height, width); differentiable."""
        image = image[:, :frames]
        if loss := _image_loss(residual):
            counts = self._counts[:frames]
            return (loss.residual(image * counts, self.masks[:frames] * counts) / self.sigma).flatten(1)
        scale = self.weight[:frames].sqrt() / self.sigma
        return self.loss.root(((image - self.masks[:frames]) * scale).flatten(1))

    def image(self, trajectory: Trajectory) -> Tensor:
        """Coverage (frames, height, width) by the bodies of a trajectory of one world."""
        numbers = [*trajectory.values.values(), *(y for state in trajectory.states.values() for y in state.values())]
        if torch.is_grad_enabled() and any(x.requires_grad for x in numbers):
            return self.silhouettes.union(trajectory.surface, trajectory.values, self.windows)[0]
        # by kernels, which are ten times as fast through a lens and a shutter
        screen, slope, faces, convex = image_vertices(self.silhouettes, trajectory).shapes
        return self.mean_coverage(self.views(screen, slope), slice(0, self.frames), faces, convex)[0][0]

    def views(self, screen: Tensor, slope: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Screen vertices and derivatives of images (worlds, frames · instants, ...) whose mean is compared with the masks."""
        return [self.from_corners(screen, slope)]

    def coverage_near(
        self, views: Sequence[tuple[Tensor, Tensor]], frames: slice, faces: Tensor, convex: bool
    ) -> tuple[tuple[slice, slice], Tensor, Tensor]:
        """Rows and columns outside of which these frames show nothing, and `mean_coverage` of the image inside of them."""
        if self.silhouettes.instants > 1:
            height, width = self.masks.shape[1:]
            return (slice(0, height), slice(0, width)), *self.mean_coverage(views, frames, faces, convex)
        box = _box_of(torch.cat([screen[:, frames].flatten(0, -2) for screen, _ in views]), self.masks.shape[1:])
        height, width = (side.stop - side.start for side in box)
        corner = views[0][0].new_tensor([side.start for side in reversed(box)])
        parts = [
            coverage_tangent(screen[:, frames] - corner, slope[:, :, frames], faces, height, width, convex)
            for screen, slope in views
        ]
        return box, *_mean_of(parts)

    def mean_coverage(
        self, views: Sequence[tuple[Tensor, Tensor]], frames: slice, faces: Tensor, convex: bool
    ) -> tuple[Tensor, Tensor]:
        """Mean over `views` of the coverage (worlds, frames, height, width) in these frames, and its derivatives."""
        (height, width), count, mean = (
            self.masks.shape[1:],
            self.silhouettes.instants,
            self.silhouettes.mean_of_instants,
        )
        if count > 1 and len(views) == 1 and len(views[0][0]) == 1:
            return self._mean_of_instants_near(*views[0], frames, faces, convex)
        rows = slice(frames.start * count, frames.stop * count)
        parts = [coverage_tangent(s[:, rows], d[:, :, rows], faces, height, width, convex) for s, d in views]
        return _mean_of([(mean(image), mean(slope)) for image, slope in parts])

    def _mean_of_instants_near(
        self, screen: Tensor, slope: Tensor, frames: slice, faces: Tensor, convex: bool
    ) -> tuple[Tensor, Tensor]:
        """As `mean_coverage` of one world and view: instants are drawn in the part of the image that the bodies are in."""
        size, count = self.masks.shape[1:], self.silhouettes.instants
        image = screen.new_zeros(1, frames.stop - frames.start, *size)
        change = screen.new_zeros(*image.shape, slope.shape[1])
        for k in range(image.shape[1]):
            rows = slice((frames.start + k) * count, (frames.start + k + 1) * count)
            points = screen[:, rows]
            box = _box_of(points.flatten(0, -2), size)
            height, width = (side.stop - side.start for side in box)
            if height > 0 and width > 0:
                part = points - points.new_tensor([side.start for side in reversed(box)])
                one, along = coverage_tangent(part, slope[:, :, rows], faces, height, width, convex)
                image[(0, k, *box)], change[(0, k, *box)] = one[0].mean(0), along[0].mean(0)
        return image, change

    def replaced(self, masks: Tensor | None = None, sigma: float | None = None) -> "Masks":
        """The same observation of other masks, or with another σ."""
        other = copy.copy(self)
        for cached in ("_cdf", "_target", "_floors_of_all_frames"):
            other.__dict__.pop(cached, None)
        other._floors = {}
        other.masks = self.masks if masks is None else masks
        other.sigma = self.sigma if sigma is None else sigma
        return other

    def linearize(self, s: Sensitivity, frames: int, residual: Residual) -> Iterator[tuple[Tensor, Tensor]]:
        yield from self.linear(*image_vertices(self.silhouettes, s).shapes, frames, residual)

    def linear(
        self, screen: Tensor, slope: Tensor, faces: Tensor, convex: bool, frames: int, residual: Residual
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """`linearize` from screen vertices and their derivatives (see `coverage_tangent`)."""
        far = _image_loss(residual)
        for r, J in self._linear(screen, slope, faces, convex, frames, far):
            yield (r, J) if far else self.loss.winsorize(r, J)

    def _linear(
        self, screens: Tensor, slopes: Tensor, faces: Tensor, convex: bool, frames: int, far: ImageLoss | None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        worlds, unknowns, (height, width) = len(screens), slopes.shape[1], self.masks.shape[1:]
        count = max(1, unknowns) * self.silhouettes.instants
        views = self.views(screens, slopes)
        step = max(1, self.chunk // (worlds * height * width * count))
        for first in range(0, frames, step):
            last = min(first + step, frames)
            if far:
                image, slope = self.mean_coverage(views, slice(first, last), faces, convex)
                counts = self._counts[first:last]
                r, slope = far.tangent(image * counts, slope * counts[..., None], self.masks[first:last] * counts)
                r, J = r / self.sigma, slope / self.sigma
            else:  # where nothing is in view, which is most of a large image, there is nothing to compute
                box, image, slope = self.coverage_near(views, slice(first, last), faces, convex)
                masks, scale = self.masks[first:last], self.weight[first:last].sqrt() / self.sigma
                r = (-masks * scale).expand(worlds, -1, -1, -1).clone()
                r[(..., *box)] = (image - masks[(..., *box)]) * scale[(..., *box)]
                J = slope.new_zeros(*r.shape, unknowns)
                J[(..., *box, slice(None))] = slope * scale[(..., *box, None)]
            yield r.flatten(1), J.flatten(1, J.ndim - 2)

    @torch.no_grad()
    def cost(self, trajectory: Trajectory, frames: int, residual: Residual) -> Tensor:
        return self.sums(*image_vertices(self.silhouettes, trajectory).shapes, frames, residual)[0]

    def normal(self, s: Sensitivity, frames: int, residual: Residual) -> tuple[Tensor, Tensor, Tensor]:
        return self.sums(*image_vertices(self.silhouettes, s).shapes, frames, residual)

    def sums(self, screen: Tensor, slope: Tensor, faces: Tensor, convex: bool, frames: int, residual: Residual):
        """`normal` from screen vertices and their derivatives (see `coverage.objective`)."""
        far, count = _image_loss(residual), self.silhouettes.instants
        if far is None:
            cost, gradient, matrix = objective(screen, slope, faces, self._target, convex, count)
            return self.loss.scale * cost, self.loss.scale * gradient, self.loss.scale * matrix
        if not isinstance(far, CDF):
            return normal_equations(self._linear(screen, slope, faces, convex, frames, far))
        return normal_equations(self._linear_cdf(screen, slope, faces, convex, frames))

    def _image_counts(self, first: int, last: int) -> Tensor:
        """1 where pixels of whole images count, else 0 (frames, height, width), or (frames, 1, 1) if alike in a frame."""
        counts = self._distinct_counts[first:last]
        if self.windows is None or counts.shape[1:] == (1, 1):
            return counts
        images = (self._outside[first:last, None, None] > 0).to(counts).repeat(1, *self.windows.size)
        for image, part, (row, column) in zip(images, counts, self.windows.corner[first:last].tolist(), strict=True):
            image[row : row + part.shape[0], column : column + part.shape[1]] = part
        return images

    def _linear_cdf(
        self, screen: Tensor, slope: Tensor, faces: Tensor, convex: bool, frames: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Residuals of whole images (worlds, n) of the CDF and derivatives (worlds, n, unknowns), some frames at a time."""
        size, count = (self.silhouettes.camera.height, self.silhouettes.camera.width), self.silhouettes.instants
        step = max(1, CHUNK // (16 * len(screen) * sum(size) * max(1, slope.shape[1])))
        if self.windows and self._distinct_counts.shape[1:] != (1, 1):  # counts are of whole images then
            step = min(step, max(1, CHUNK // math.prod(size)))
        for first in range(0, frames, step):
            last = min(first + step, frames)
            images = slice(first * count, last * count)
            counts = self._image_counts(first, last).repeat_interleave(count, 0)
            drawing = profiles(screen[:, images], slope[:, :, images], faces, counts, convex, size)
            sums, along = map(self.silhouettes.mean_of_instants, drawing)
            value, along = cdf_of_sums_tangent(sums, along, size[0])
            r = (value - self._cdf[first:last]) / self.sigma
            yield r.flatten(1), (along / self.sigma).flatten(1, 2)

    def noise_floor(self, frames: int) -> NoiseFloor:
        key = frames, self.outline_noise
        if key not in self._floors:
            self._floors[key] = self._noise_floor(frames)
        return self._floors[key]

    def _noise_floor(self, frames: int) -> NoiseFloor:
        if self.windows is None:
            level, cost, informative, empty = self._floors_of_frames(frames)
        else:  # the noise is that of all frames, so that sums over each of them are made once
            level, cost, informative, empty = self._floors_of_all_frames
        if self.outline_noise:  # σ is only a scale, and the search goes on where outlines are about a pixel off
            level = max(level, OFF_BY_A_PIXEL / self.sigma**2)
        count = sum(informative[:frames])
        if self.loss.kind:
            # outliers and the body cannot be separated without a model: the cost of an empty image is an upper bound, so
            # starts are compared with the best of them only
            return NoiseFloor(self.loss.scale * sum(empty[:frames]), float(count), 1.0)
        return NoiseFloor(sum(cost[:frames]), float(count), level)

    @cached_property
    def _floors_of_all_frames(self) -> tuple[float, list[float], list[int], list[float]]:
        return self._floors_of_frames(self.frames)

    def _floors_of_frames(self, frames: int) -> tuple[float, list[float], list[int], list[float]]:
        """Level of the noise of the first frames, and by frame Σ r² off outlines, the number of other pixels, and the cost of an empty image."""
        few = slice(None, frames, 1 if self.windows is None else max(1, self.masks.numel() // LEVEL_PIXELS))
        pixels = [off[(weight > 0) & (off < OUTLINE_SIGMAS)] for off, weight in map(self._off, range(frames)[few])]
        near = torch.cat([self.masks.new_empty(0), *pixels])
        # the median absolute deviation of pixels off the outline is 0.6745 σ for Gaussian noise
        level = (near.median() / 0.6745).square().item() if len(near) else 1.0
        limit, cost, informative, empty = OUTLINE_SIGMAS * max(level, 1e-16) ** 0.5, [], [], []
        for k in range(frames):  # one at a time fits into the cache, and needs no memory for others
            off, weight = self._off(k)
            counted, clear = weight > 0, off < limit
            informative.append(int((counted & ~clear).sum()))
            cost.append(off[counted & clear].square().sum().item())
            scale = weight.sqrt() / self.sigma
            empty.append(self.loss.rho(self.masks[k] * scale).sum().item() if self.loss.kind else 0.0)
        return level, cost, informative, empty

    def _off(self, frame: int) -> tuple[Tensor, Tensor]:
        """By how many σ the pixels of a frame differ from 0 or 1, and their weights."""
        mask, weight = self.masks[frame], self.weight[frame]
        return torch.minimum(mask.abs(), (1 - mask).abs()) * (weight.sqrt() / self.sigma), weight

    def binned(self, factor: int) -> "Masks":
        """The same masks in pixels `factor` times as wide and high: the mean of the pixels that are not excluded.

        Where a quarter of the pixels is excluded, the mean is, too. σ stays, so it is a scale.
        """
        windows, step = self.windows and self.windows.binned(factor), max(1, WINDOWS_CHUNK // self.masks[0].numel())
        parts = [
            _binned(self.masks[k : k + step], self.weight[k : k + step], factor) for k in range(0, self.frames, step)
        ]
        masks, weight = (torch.cat(part) for part in zip(*parts, strict=True))
        if windows and self._distinct_weight.shape[1:] == (1, 1):
            weight = weight[:, :1, :1]
        part = Masks(masks, self.sigma, self.silhouettes.binned(factor), weight, self.loss, windows)
        part.notes, part.outline_noise = self.notes, self.outline_noise
        return part

    def largest_bin(self, finest: float) -> int:
        """Largest factor of `binned` that leaves bodies `finest` pixels across: the diameter of a disk of their area."""
        area = torch.stack([(mask * counts).sum() for mask, counts in zip(self.masks, self._counts, strict=True)])
        visible = area[area > 0.25 * area.max()]
        across = 2 * (visible.median() / math.pi).sqrt().item() if len(visible) else 0.0
        return max(f for f in range(1, max(1, int(across / finest)) + 1) if self.can_be_binned(f))

    def can_be_binned(self, factor: int) -> bool:
        """True if images are whole numbers of pixels `factor` times as wide, and windows, if there are any."""
        if self.windows:
            return self.windows.divides(factor)
        return math.gcd(*self.masks.shape[1:]) % factor == 0

    def slice_frames(self, first: int, last: int) -> "Masks":
        windows = self.windows.of_frames(first, last) if self.windows else None
        weight = self._distinct_weight[first:last]
        part = Masks(self.masks[first:last], self.sigma, self.silhouettes, weight, self.loss, windows)
        part.outline_noise = self.outline_noise
        return part

    def stride_frames(self, stride: int) -> "Masks":
        """Masks of frames 0, `stride`, 2 `stride`, …"""
        windows = self.windows.stride_frames(stride) if self.windows else None
        weight = self._distinct_weight[::stride]
        part = Masks(self.masks[::stride], self.sigma, self.silhouettes, weight, self.loss, windows)
        part.outline_noise = self.outline_noise
        return part


class Coordinates(Observation):
    """Observation of coordinates, few enough that all frames are one block.

    Attributes:
        loss: Robust loss of each coordinate.
    """

    loss: RobustLoss

    def _linear(self, s: Sensitivity, frames: int) -> tuple[Tensor, Tensor]:
        """Whitened residuals (worlds, n) and their derivatives (worlds, n, unknowns)."""
        raise NotImplementedError

    def linearize(self, s: Sensitivity, frames: int, residual: Residual) -> Iterator[tuple[Tensor, Tensor]]:
        yield self.loss.winsorize(*self._linear(s, frames))

    def cost(self, trajectory: Trajectory, frames: int, residual: Residual) -> Tensor:
        return sum_squares(self.residuals(trajectory, frames, residual))

    def normal(self, s: Sensitivity, frames: int, residual: Residual) -> tuple[Tensor, Tensor, Tensor]:
        return normal_equations(iter([self._linear(s, frames)]), self.loss)


class States(Coordinates):
    """Position and orientation of a rigid body at each frame, as from motion capture (the paper's 3-D supervision).

    Args:
        body: Name of the body.
        x: Positions of the center of mass (frames, 3) [m].
        quat_xyzw: Orientations (frames, 4), or None for positions only.
        sigma_x: Noise of each coordinate [m].
        sigma_angle: Noise of the orientation about each axis [rad].
        loss: Robust loss of each coordinate, as for `Masks`.
        exact: True for data without noise, as from a simulation, which a fit may reproduce to all digits.
    """

    def __init__(
        self,
        body: str,
        x: Tensor,
        quat_xyzw: Tensor | None,
        sigma_x: float,
        sigma_angle: float = 1.0,
        loss: str | RobustLoss = GAUSSIAN,
        exact: bool = False,
    ):
        self.body, self.x, self.q = body, x.double(), None if quat_xyzw is None else quat_xyzw.double()
        self.sigma_x, self.sigma_angle, self.frames, self.loss = sigma_x, sigma_angle, len(x), robust_loss(loss)
        self.exact = exact

    def residuals(self, trajectory: Trajectory, frames: int, residual: Residual) -> Iterator[Tensor]:
        states = trajectory[self.body]
        yield self.loss.root(self._compare([states["x"][:, :frames], states["q"][:, :frames]]).flatten(1))

    def _linear(self, s: Sensitivity, frames: int) -> tuple[Tensor, Tensor]:
        states, tangent = s.trajectory[self.body], s.tangent[self.body]
        primal = [states[k][:, :frames] for k in ("x", "q")]
        along = [tangent[k][:, :frames] for k in ("x", "q")]
        r, slope = torch.func.jvp(self._compare, (primal,), (along,))  # pyright: ignore[reportAssignmentType]
        return r[:: s.unknowns].flatten(1), slope.flatten(1).unflatten(0, (-1, s.unknowns)).transpose(1, 2)

    def noise_floor(self, frames: int) -> NoiseFloor:
        return NoiseFloor(0.0, float(frames * (3 if self.q is None else 6)), 0.0 if self.exact else math.inf)

    def slice_frames(self, first: int, last: int) -> "States":
        q = None if self.q is None else self.q[first:last]
        return States(self.body, self.x[first:last], q, self.sigma_x, self.sigma_angle, self.loss, self.exact)

    def _compare(self, states: list[Tensor]) -> Tensor:
        """(worlds, frames, 3 or 6)."""
        x, q = states
        frames = x.shape[1]
        shift = (x - self.x[:frames]) / self.sigma_x
        if self.q is None:
            return shift
        turn = rotation.logarithm(rotation.multiply(q, rotation.conjugate(self.q[:frames]).expand_as(q)))
        return torch.cat([shift, turn / self.sigma_angle], -1)
