"""Sums over the outlines of each frame, from which their errors are estimated (`outline`)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.projection import image_vertices
from gradsim.identification.problem import Problem
from gradsim.identification.uncertainty.residual_diagnostics import outline_slopes
from gradsim.physics.trajectory import Trajectory

MARGIN = 3  # pixels about a body that filters reach
HARMONICS = 6  # of an outline's displacement about its centre; the first is a shift
EXPOSURE = ".exposure"  # end of the name of an unknown that blurs edges, as other things do


class OutlineSums(NamedTuple):
    """Sums over the pixels of each outline: one in each frame, or of each of several bodies those of all frames.

    Args:
        information: JᵀJ of unknowns and offset (outlines, n + 1, n + 1).
        gradient: Jᵀr (outlines, n + 1).
        by_mode: JᵀX (outlines, n + 1, 2 harmonics + 1).
        modes: Harmonics of the displacement [px]: two of each from the first on, then a₀ (outlines, 2 harmonics + 1).
        visible: Outlines of which they can be measured.
        followed: Harmonics of J by unknown and offset (outlines, 2 harmonics + 1, n + 1).
        size: RMS displacement [px].
        rest: Mean square of displacements that are no harmonics [px²].
        squares: Σ r².
        by_pixel: Jᵀb²J (n + 1, n + 1).
        body: Number of the body whose outline it is (outlines,).
        blurs: Covariance of the score by the blurs of frames (n + 1, n + 1); 0 where no exposure is unknown.
    """

    information: Tensor
    gradient: Tensor
    by_mode: Tensor
    modes: Tensor
    visible: Tensor
    followed: Tensor
    size: float
    rest: float
    squares: float
    by_pixel: Tensor
    body: Tensor
    blurs: Tensor


def sums_by_frame(problem: Problem, u: Tensor) -> OutlineSums:
    """Sums over the pixels of each frame at u (unknowns,), of residuals and derivatives smoothed over 3 × 3 pixels."""
    data, first, frames = problem.observation_at(u), 0, []
    assert isinstance(data, Masks)
    trajectory = problem.model.rollout_unchecked(problem.model.values(problem.space.values(u[None])), problem.frames)
    size, bodies = data.masks.shape[1:], _Bodies.of(problem, trajectory)
    for r, J in problem.jacobian(u[None], problem.frames):
        last = first + r.shape[1] // math.prod(size)
        scale = data.weight[first:last].sqrt() / data.sigma
        slopes = outline_slopes(trajectory, data, first, last)
        block = r[0].unflatten(0, (-1, *size)), J[0].unflatten(0, (-1, *size))
        slope = torch.cat([slope for _, slope in slopes]).unflatten(1, size)
        image = torch.where(scale > 0, block[0] / scale.clamp(min=1e-300), 0.0) + data.masks[first:last]
        for k in range(last - first):
            box = _box((image[k] > 0) | (data.masks[first + k] > 0))
            cut = [y[k][box] for y in (*block, slope, image, scale)]
            frames.append(_Frame._make([*cut, bodies.regions(first + k, size)[:, *box]]))
        first = last
    blurs = torch.zeros(2 * [frames[0].J.shape[2] + 1]).double()
    if any(name.endswith(EXPOSURE) for name in problem.space.names):
        frames, blurs = _without_blur(frames)
    parts = [_of_outline(*frame[:4], region) for frame in frames for region in frame.regions]
    by_body = [torch.stack(part).unflatten(0, (-1, bodies.count)).transpose(0, 1) for part in zip(*parts, strict=True)]
    JJ, Jr, JX, XX, Xr, rr, ll, JLLJ = (part.flatten(0, 1) for part in by_body)
    # parts of an outline that are out of view or hidden leave harmonics that cannot be separated
    visible = torch.linalg.eigvalsh(XX)[:, 0] > 1e-3 * XX.diagonal(dim1=1, dim2=2).amax()
    visible = visible & bodies.apart(len(visible) // bodies.count)
    measurable = torch.where(visible[:, None, None], XX, torch.eye(XX.shape[1]).double())
    followed = torch.linalg.solve(measurable, JX.mT)
    modes = -torch.linalg.solve(measurable, Xr[..., None])[..., 0]
    modes = torch.where(visible[:, None], modes, 0.0)
    rest = rr + (modes * Xr).sum(1)
    weight = ll.sum().clamp(min=1e-300)
    return OutlineSums(
        JJ,
        Jr,
        JX,
        modes,
        visible,
        followed,
        (rr[visible].sum() / weight).sqrt().item(),
        (rest[visible].sum() / weight).item(),
        rr.sum().item(),
        JLLJ.sum(0),
        torch.arange(bodies.count).repeat_interleave(len(visible) // bodies.count),
        blurs,
    )


class _Frame(NamedTuple):
    """The part of a frame that its bodies are in.

    Args:
        r: Residuals (h, w).
        J: Their derivatives (h, w, n).
        slope: Derivatives by shifts of the image (h, w, 2).
        image: Coverage (h, w).
        scale: Of a residual over the difference of coverage (h, w).
        regions: Pixels of each body (bodies, h, w).
    """

    r: Tensor
    J: Tensor
    slope: Tensor
    image: Tensor
    scale: Tensor
    regions: Tensor


def _without_blur(frames: list[_Frame]) -> tuple[list[_Frame], Tensor]:
    """Frames less what a blur that all share explains of residuals and derivatives, and what blurs of single frames do to the score.

    Optics and codecs spread edges as a shutter does: ∂image/∂(variance) = ∇²image/2, another one across edges of other directions.
    The mean over frames is an unknown of no interest, eliminated; what frames have besides is noise, of a variance and a correlation
    from frame to frame that are estimated as those of harmonics.

    Returns:
        The frames, and the covariance of the score of unknowns and offset (n + 1, n + 1).
    """
    spread = []
    for frame in frames:
        angle, blur = 2 * _angles(frame.image[None])[0], 0.5 * laplacian(frame.image) * frame.scale
        spread.append(torch.stack([blur, blur * torch.cos(angle), blur * torch.sin(angle)], -1))
    smooth = lambda y: _smooth(y.reshape(1, -1, y.shape[-1]), y.shape[:2])[0]
    BB, By = [], []
    for frame, B in zip(frames, spread, strict=True):
        B, length = smooth(B), frame.slope.norm(dim=-1, keepdim=True)
        BB.append(B.T @ B)
        By.append(B.T @ smooth(torch.cat([frame.r[..., None], frame.J, length], -1)))
    BB, By = torch.stack(BB), torch.stack(By)
    explained = balanced_inverse(BB.sum(0)) @ By.sum(0)
    left = [
        frame._replace(r=frame.r - B @ explained[:, 0], J=frame.J - B @ explained[:, 1:-1])
        for frame, B in zip(frames, spread, strict=True)
    ]
    explained[:, -1] = 0.0
    By = By - BB @ explained
    measurable = BB.diagonal(dim1=1, dim2=2).amin(1) > 1e-3 * BB.diagonal(dim1=1, dim2=2).amin(1).amax()
    BB = torch.where(measurable[:, None, None], BB, torch.eye(3).double())
    modes = torch.where(measurable[:, None], torch.linalg.solve(BB, By[..., :1])[..., 0], 0.0)
    power = modes[measurable].square().mean(0)
    unit = modes / power.sqrt().clamp(min=1e-300)
    correlation = lag_correlation(
        (unit[1:] * unit[:-1]).mean().item() / unit.square().mean().clamp(min=1e-300).item(), len(frames)
    )
    place = torch.arange(len(frames))
    alike = correlation ** (place[:, None] - place).abs().double()
    noisy = By[..., 1:].mT * power.sqrt()
    return left, torch.einsum("sim,st,tjm->ij", noisy, alike, noisy)


def lag_correlation(correlation: float, count: int) -> float:
    """ρ of one frame with the next from the estimate of a short series, which is too small."""
    return min(0.95, max(0.0, correlation + (1 + 3 * max(0.0, correlation)) / count))


def laplacian(image: Tensor) -> Tensor:
    """Σ of second differences (h, w) along rows and columns."""
    wide = torch.nn.functional.pad(image[None], (1, 1, 1, 1), mode="replicate")[0]
    return wide[2:, 1:-1] + wide[:-2, 1:-1] + wide[1:-1, 2:] + wide[1:-1, :-2] - 4 * image


@dataclass(frozen=True)
class _Bodies:
    """Bodies that are apart in an image, where vertices of each are projected.

    Args:
        count: Of bodies; those that a joint connects are one.
        middle: Mean of the vertices of each (bodies, frames, 2) [px]; None of a single one.
        radius: Largest distance of a vertex from it (bodies, frames) [px].
    """

    count: int
    middle: Tensor | None = None
    radius: Tensor | None = None

    @classmethod
    def of(cls, problem: Problem, trajectory: Trajectory) -> "_Bodies":
        """Bodies of a clip's scene."""
        scene, ranges = problem.model.scene, {}
        root = {name: name for name in scene.bodies}
        for joint in scene.joints.values():
            ends = [root[name] for name in joint.between if name in root]
            root = {name: ends[0] if top in ends else top for name, top in root.items()}
        for k, part in enumerate(trajectory.parts):
            owner = next((name for name in root if part.name == name or part.name.startswith(f"{name}.")), part.name)
            ranges.setdefault(root.get(owner, owner), []).append(k)
        if len(ranges) < 2:
            return cls(1)
        data = problem.observation
        assert isinstance(data, Masks)
        vertices = image_vertices(data.silhouettes, trajectory)
        screen, parts = data.from_corners(vertices.screen, vertices.slope)[0], vertices.parts
        count = data.silhouettes.instants
        screen = screen[0, count // 2 :: count]
        vertices = [torch.cat([screen[:, parts[k].vertices] for k in members], 1) for members in ranges.values()]
        middle = torch.stack([x.mean(1) for x in vertices])
        away = zip(vertices, middle, strict=True)
        radius = torch.stack([(x - c[:, None]).norm(dim=-1).amax(1) for x, c in away])
        return cls(len(ranges), middle, radius)

    def apart(self, frames: int) -> Tensor:
        """True for outlines (bodies · frames,) of bodies that are not within one another's circle."""
        if self.middle is None or self.radius is None:
            return torch.ones(frames, dtype=torch.bool)
        away = (self.middle[:, None] - self.middle[None]).norm(dim=-1)
        touching = away < self.radius[:, None] + self.radius[None]
        return (touching.sum(1) == 1).flatten()  # itself

    def regions(self, frame: int, size: Sequence[int]) -> Tensor:
        """Pixels (bodies, height, width) that are nearest to each body of one frame, in units of its radius."""
        if self.middle is None or self.radius is None:
            return torch.ones(1, *size, dtype=torch.bool)
        y, x = torch.meshgrid(*(torch.arange(n).double() + 0.5 for n in size), indexing="ij")
        away = torch.stack([x, y], -1) - self.middle[:, frame, None, None]
        nearest = (away.norm(dim=-1) / self.radius[:, frame, None, None].clamp(min=1e-9)).argmin(0)
        return nearest == torch.arange(self.count)[:, None, None]


def _of_outline(r: Tensor, J: Tensor, slope: Tensor, image: Tensor, region: Tensor) -> list[Tensor]:
    """JᵀJ, Jᵀr, JᵀX, XᵀX, Xᵀr, Σ r², Σ b² and Jᵀb²J of one body in one frame.

    Args:
        r: Residuals (h, w).
        J: Their derivatives (h, w, n).
        slope: Derivatives by shifts of the image (h, w, 2).
        image: Coverage (h, w).
        region: Pixels of the body (h, w).
    """
    size = tuple(r.shape)
    flat = [y.reshape(1, r.numel(), -1) for y in (r, J, slope, slope.norm(dim=-1))]
    r, J, slope, length = (_smooth(y, size)[0] for y in flat)
    length = length[:, 0]
    angle = _angles((image * region)[None])[0].reshape(-1)
    if not region.all():
        r, J, slope, length = (
            torch.where(region.reshape(-1, *[1] * (y.ndim - 1)), y, 0.0) for y in (r, J, slope, length)
        )
    waves = [length * wave(k * angle) for k in range(2, HARMONICS + 1) for wave in (torch.cos, torch.sin)]
    X = torch.cat([slope, torch.stack([*waves, length], 1)], 1)
    J = torch.cat([J, length[:, None]], 1)
    by_pixel = J * length[:, None]
    return [
        J.T @ J,
        J.T @ r[:, 0],
        J.T @ X,
        X.T @ X,
        X.T @ r[:, 0],
        r.square().sum(),
        length.square().sum(),
        by_pixel.T @ by_pixel,
    ]


def _box(region: Tensor) -> tuple[slice, slice]:
    """Rows and columns of a region (height, width), and two more on each side for filters."""
    sides = []
    for axis in (1, 0):
        at = region.any(axis).nonzero()[:, 0]
        low, high = (int(at[0]), int(at[-1])) if len(at) else (0, 0)
        sides.append(slice(max(0, low - MARGIN), high + 1 + MARGIN))
    return sides[0], sides[1]


def balanced_inverse(H: Tensor) -> Tensor:
    """Pseudoinverse of a symmetric matrix, balanced: units do not matter."""
    scale = H.diagonal().clamp(min=1e-300).rsqrt()
    return torch.linalg.pinv(H * scale[:, None] * scale, hermitian=True, rtol=1e-12) * scale[:, None] * scale


def _smooth(images: Tensor, size: tuple[int, ...]) -> Tensor:
    """Images (frames, pixels, n) after a binomial filter of 3 × 3: displacements up to a pixel are then nearly linear."""
    one = torch.tensor([0.25, 0.5, 0.25]).double()
    kernel = (one[:, None] * one)[None, None]
    stacked = images.mT.reshape(-1, 1, *size)
    padded = torch.nn.functional.pad(stacked, (1, 1, 1, 1), mode="replicate")
    return torch.nn.functional.conv2d(padded, kernel).reshape(len(images), images.shape[2], -1).mT


def _angles(image: Tensor) -> Tensor:
    """Angle of each pixel about the centre of the mask (frames, height, width) [rad]."""
    height, width = image.shape[1:]
    y, x = torch.meshgrid(torch.arange(height).double(), torch.arange(width).double(), indexing="ij")
    mass = image.sum((1, 2)).clamp(min=1e-9)
    centre = [((image * axis).sum((1, 2)) / mass)[:, None, None] for axis in (x, y)]
    return torch.atan2(y - centre[1], x - centre[0])
