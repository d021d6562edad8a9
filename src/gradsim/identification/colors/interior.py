"""Colors inside of outlines as an observation: for each motion the texture, exposure and light that explain them best.

    r = √w (I − (g + s · Y) T(X) − o)/σ,      ∂r/∂u = −√w P⊥ (g + s · Y) ∇T · ∂X/∂u/σ

X: points on the body that the pixels show; P⊥ takes off what texture, exposure and light can follow, so that Gauss–Newton steps and
the Fisher information are those of the profiled cost (variable projection, Golub & Pereyra 1973). A texture of the scene
(`material.texture`) is fixed; only exposure and light are then fitted with it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.colors.known_texture import nodes_of_texture, points_on
from gradsim.identification.colors.response import (
    channels_of,
    light_of,
    log_of_root_weight,
    mean_of_blocks,
    slope_of_light,
    weight_of,
)
from gradsim.identification.colors.surface_points import (
    PixelList,
    body_named,
    moved_poses,
    pose_of,
    surface_points,
    visible_faces,
)
from gradsim.identification.colors.texture import NOISE, PROFILED, STEPS, Minimum, Texture, harmonics
from gradsim.identification.colors.texture_parts import Grid, Pixels
from gradsim.identification.observation.base import NoiseFloor, Observation, Residual
from gradsim.identification.observation.projection import Sensitivity
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory
from gradsim.render.silhouettes import Silhouettes
from gradsim.video.front_coverage import COLOR_WEIGHTS

# luma and two directions of chroma, by red, green and blue, where chroma has half the resolution. Where its samples lie between those of luma no file says for sure: of a
# ball of six sectors an answer 4.5 % off in spin left a fifth less of the chroma than the truth does, and a tenth more of the luma
SUBSAMPLED = channels_of(COLOR_WEIGHTS)
LEAST_SLANT = 0.4  # cosine between normal and line of sight below which a pixel shows too much of a surface
MARGIN = 2.0  # [px] from the outline inward within which pixels mix body and background
FEWEST = 30  # pixels of a frame below which it does not count


@dataclass(frozen=True, eq=False)
class BodyColors:
    """Pixels of one body.

    Args:
        name: The body.
        pixels: Where they are.
        color: Values (n, 3) in [0, 1].
        weight: At least 0 (n,).
        light: Harmonics of their normals (n, 8).
        grid: Of the texture.
        nodes: Values of a known texture (nodes, 3); None if it is unknown.
        near: Minimum over texture and exposure for a motion like those that are compared, of all frames, at which they start; None: neutral.
        channels: Channels that are compared, by red, green and blue (3, 3).
    """

    name: str
    pixels: PixelList
    color: np.ndarray
    weight: np.ndarray
    light: np.ndarray
    grid: Grid
    nodes: np.ndarray | None = None
    near: Minimum | None = None
    channels: np.ndarray = field(default_factory=lambda: np.eye(3))

    def first(self, frames: int, gamma: float = 1.0) -> tuple[PixelList, Pixels]:
        """Pixels of the first frames, in light of γ."""
        n = int(torch.searchsorted(self.pixels.frame, frames))
        part = PixelList(self.pixels.frame[:n], self.pixels.place[:n])
        frame = self.pixels.frame[:n].numpy()
        color, weight = self.color[:n], self.weight[:n]
        if gamma != 1:
            color, weight = light_of(color, gamma), weight * weight_of(color, gamma)
        return part, Pixels(color @ self.channels.T, weight, frame, self.light[:n], frames, gamma, self.channels)


class InteriorColors(Observation):
    """Colors of the pixels that are inside of outlines; the pixels stay the same, whatever the motion.

    Args:
        bodies: Pixels by body.
        silhouettes: The camera, in the pixels of `bodies`.
        frames: Number of frames.
        sigma: Noise of a channel of a pixel.
        steps: Of `Texture`, from a neutral exposure.
    """

    def __init__(
        self, bodies: Sequence[BodyColors], silhouettes: Silhouettes, frames: int, sigma: float, steps: int = STEPS
    ):
        self.bodies, self.silhouettes, self.frames = list(bodies), silhouettes, frames
        self.sigma, self.steps = sigma, steps

    @torch.no_grad()
    def textures(
        self, trajectory: Trajectory, frames: int, world: int = 0, still: bool = False, steps: int | None = None
    ) -> list[Texture]:
        """Textures of one world, the exposure, and what is left.

        Args:
            trajectory: Of at least as many frames.
            frames: Number of first frames.
            world: The world.
            still: Whether bodies keep their orientation of frame 0.
            steps: Of `Texture`; None: its own from a stored exposure, else those of the observation.
        """
        parts = []
        for body in self.bodies:
            system = body_named(trajectory, body.name)
            pose = pose_of(trajectory, body.name, self.silhouettes, world)
            if still:
                pose = replace(pose, q=pose.q[:1].expand_as(pose.q))
            values = {key: v[world : world + 1] for key, v in trajectory.values.items()}
            where, pixels = body.first(frames, self.gamma_of(values))
            nodes = None if body.nodes is None else light_of(body.nodes, pixels.gamma) @ body.channels.T
            faces = visible_faces(system, pose, values, where, self.silhouettes)
            points = surface_points(system, pose, where, self.silhouettes, faces).points.numpy()
            near = body.near if frames == self.frames else None
            start = None if body.near is None else body.near.exposure.first(frames)
            count = steps or (self.steps if near is None else PROFILED)
            parts.append(Texture(body.grid, points, pixels, nodes, start, count, near))
        return parts

    def gamma_of(self, values: Values) -> float:
        """γ of the camera in the first world; 1 where the scene does not state it."""
        gamma = values.get(f"{self.silhouettes.lens}.gamma")
        return 1.0 if gamma is None else float(gamma[0])

    def _response(self, body: BodyColors, texture: Texture) -> tuple[np.ndarray, np.ndarray]:
        """Change of the residuals (n, 3) with γ at fixed texture and exposure, and that of the roots of their weights times them."""
        count, gamma = len(texture.residual), texture.pixels.gamma
        values = body.color[:count]
        change = slope_of_light(values, gamma) @ body.channels.T
        if body.nodes is not None:
            change = change - texture.shaded(slope_of_light(body.nodes, gamma) @ body.channels.T)
        return change, log_of_root_weight(values)[:, None] * texture.residual

    @torch.no_grad()
    def cost(self, trajectory: Trajectory, frames: int, residual: Residual) -> Tensor:
        worlds = len(next(iter(trajectory.values.values())))
        return torch.tensor([self._cost(trajectory, frames, w) for w in range(worlds)], dtype=torch.float64)

    def residuals(self, trajectory: Trajectory, frames: int, residual: Residual) -> Iterator[Tensor]:
        worlds = len(next(iter(trajectory.values.values())))
        rows = [self._whitened(self.textures(trajectory, frames, w)) for w in range(worlds)]
        yield torch.stack(rows)

    def linearize(self, s: Sensitivity, frames: int, residual: Residual) -> Iterator[tuple[Tensor, Tensor]]:
        rows, slopes = [], []
        for w in range(_worlds(s)):
            parts = self.linear(_world(s, w), frames)
            rows.append(torch.cat([part.residual.flatten() for part in parts]))
            slopes.append(torch.cat([part.slope.flatten(0, 1) for part in parts]))
        yield torch.stack(rows), torch.stack(slopes)

    def normal(self, s: Sensitivity, frames: int, residual: Residual) -> tuple[Tensor, Tensor, Tensor]:
        sums = []
        for w in range(_worlds(s)):
            one = _world(s, w)
            if not _finite(one.trajectory, [body.name for body in self.bodies], frames, 0):
                lost = torch.full((s.unknowns, s.unknowns), torch.inf).double()
                sums.append((lost[0, 0], lost[0], lost))
                continue
            parts = self.linear(one, frames)
            cost = torch.tensor(sum(part.texture.cost for part in parts) / self.sigma**2, dtype=torch.float64)
            sums.append((cost, sum(part.gradient for part in parts), sum(part.curvature for part in parts)))
        cost, gradient, matrix = (torch.stack(part) for part in zip(*sums, strict=True))
        return cost, gradient, matrix

    def noise_floor(self, frames: int) -> NoiseFloor:
        count = sum(int((body.first(frames)[1].weight > 0).sum()) for body in self.bodies)
        return NoiseFloor(0.0, 3.0 * count, float("inf"))

    def slice_frames(self, first: int, last: int) -> "InteriorColors":
        parts = []
        for body in self.bodies:
            within = (body.pixels.frame >= first) & (body.pixels.frame < last)
            pixels = PixelList(body.pixels.frame[within] - first, body.pixels.place[within])
            rows = within.numpy()
            parts.append(
                replace(body, pixels=pixels, color=body.color[rows], weight=body.weight[rows], light=body.light[rows])
            )
        return InteriorColors(parts, self.silhouettes, last - first, self.sigma)

    def with_steps(self, steps: int) -> "InteriorColors":
        """The same with another number of steps."""
        return InteriorColors(self.bodies, self.silhouettes, self.frames, self.sigma, steps)

    def with_sigma(self, sigma: float) -> "InteriorColors":
        """The same with another noise."""
        return InteriorColors(self.bodies, self.silhouettes, self.frames, sigma)

    def with_colors(self, colors: Sequence[np.ndarray]) -> "InteriorColors":
        """The same pixels with other colors (n, 3), of each body."""
        bodies = [replace(body, color=color) for body, color in zip(self.bodies, colors, strict=True)]
        return InteriorColors(bodies, self.silhouettes, self.frames, self.sigma)

    def with_exposures(self, trajectory: Trajectory) -> "InteriorColors":
        """The same, whose fits of textures start at the minimum for a trajectory of one world."""
        textures = self.textures(trajectory, self.frames)
        bodies = [replace(body, near=texture.settle()) for body, texture in zip(self.bodies, textures, strict=True)]
        return InteriorColors(bodies, self.silhouettes, self.frames, self.sigma)

    def _cost(self, trajectory: Trajectory, frames: int, world: int) -> float:
        if not _finite(trajectory, [body.name for body in self.bodies], frames, world):
            return float("inf")
        return sum(texture.cost for texture in self.textures(trajectory, frames, world)) / self.sigma**2

    def _whitened(self, textures: Sequence[Texture]) -> Tensor:
        return torch.tensor(np.concatenate([t.whitened(t.residual).ravel() for t in textures]) / self.sigma)

    @torch.no_grad()
    def linear(self, s: Sensitivity, frames: int) -> list["LinearColors"]:
        """Residuals and derivatives of the profiled colors of one world, by body."""
        parts = []
        for body, texture in zip(self.bodies, self.textures(s.trajectory, frames), strict=True):
            system, where = body_named(s.trajectory, body.name), body.first(frames)[0]
            values = {key: v[:1] for key, v in s.trajectory.values.items()}
            pose = pose_of(s.trajectory, body.name, self.silhouettes)
            faces = visible_faces(system, pose, values, where, self.silhouettes)
            motion = []
            for ahead, behind, step in moved_poses(s, body.name, self.silhouettes):
                ends = [surface_points(system, end, where, self.silhouettes, faces).points for end in (ahead, behind)]
                motion.append(((ends[0] - ends[1]) / step).numpy())
            change = -np.stack([texture.slope(shift) for shift in motion], -1)
            weighed = np.zeros_like(change)
            along = s.direction.get(f"{self.silhouettes.lens}.gamma")
            if along is not None and bool(along.any()):
                by_gamma = [part[..., None] * along.numpy()[: s.unknowns] for part in self._response(body, texture)]
                change, weighed = change + by_gamma[0], by_gamma[1]
            residual = torch.tensor(texture.whitened(texture.residual) / self.sigma)
            parts.append(LinearColors(body, texture, where.frame, residual, change, weighed, self.sigma))
        return parts

    def gradient(self, s: Sensitivity, frames: int) -> Tensor:
        """Gradient (unknowns,) of half the cost at one motion, without what textures follow, which only the curvature needs."""
        return torch.stack([part.gradient for part in self.linear(s, frames)]).sum(0)


@dataclass(frozen=True, eq=False)
class LinearColors:
    """Colors of one body about a motion.

    Args:
        body: Its pixels.
        texture: Texture and exposure.
        frame: Frame of each pixel (n,).
        residual: Whitened colors less those of the model (n, 3).
        change: Derivatives of the residuals at fixed texture and exposure, without those of weights (n, 3, unknowns).
        weighed: Those of the roots of weights, times the residuals (n, 3, unknowns).
        sigma: Noise of a channel of a pixel.
    """

    body: BodyColors
    texture: Texture
    frame: Tensor
    residual: Tensor
    change: np.ndarray
    weighed: np.ndarray
    sigma: float

    @cached_property
    def fixed(self) -> Tensor:
        """Derivatives of the whitened residuals at fixed texture and exposure (n, 3, unknowns)."""
        return torch.tensor(self.texture.whitened(self.change + self.weighed) / self.sigma)

    @cached_property
    def slope(self) -> Tensor:
        """The same less what texture and exposure follow."""
        return torch.tensor(self.texture.whitened(self.texture.project(self.change) + self.weighed) / self.sigma)

    @property
    def gradient(self) -> Tensor:
        """That of half the profiled cost (unknowns,): smoothness holds the texture, so what it follows counts too."""
        return torch.einsum("pci,pc->i", self.fixed, self.residual)

    @property
    def curvature(self) -> Tensor:
        """Gauss–Newton matrix of half the profiled cost (unknowns, unknowns)."""
        matrix = torch.einsum("pci,pcj->ij", self.fixed, self.slope)
        return 0.5 * (matrix + matrix.mT)


def _worlds(s: Sensitivity) -> int:
    return len(next(iter(s.trajectory.values.values()))) // s.unknowns


def _world(s: Sensitivity, world: int) -> Sensitivity:
    """That of one world."""
    rows = slice(world * s.unknowns, (world + 1) * s.unknowns)
    pick = lambda t: Trajectory(
        t.times,
        {body: {key: y[rows] for key, y in state.items()} for body, state in t.states.items()},
        {name: v[rows] for name, v in t.values.items()},
        t.systems,
        t.scenery,
    )
    return Sensitivity(
        pick(s.trajectory), pick(s.tangent), {name: v[rows] for name, v in s.direction.items()}, s.unknowns
    )


def _finite(trajectory: Trajectory, names: Sequence[str], frames: int, world: int) -> bool:
    states = [trajectory.states[name][key][world, :frames] for name in names for key in ("x", "q")]
    return all(bool(torch.isfinite(y).all()) for y in states)


@torch.no_grad()
def interior_pixels(
    trajectory: Trajectory, name: str, silhouettes: Silhouettes, margin: float, used: np.ndarray
) -> tuple[PixelList, np.ndarray]:
    """Pixels well inside of a body's outline in a trajectory of one world, and the harmonics of their normals.

    Args:
        trajectory: Of all frames.
        name: The body.
        silhouettes: The camera, in the pixels that are meant.
        margin: Distance from outlines [px].
        used: Which pixels may count (frames, height, width), bool.
    """
    from scipy.ndimage import distance_transform_edt

    values = {key: v[:1] for key, v in trajectory.values.items()}
    system, pose = body_named(trajectory, name), pose_of(trajectory, name, silhouettes)
    masks = silhouettes.masks(trajectory.scene_surface, values)[0]
    parts = [part.name for part in trajectory.scene_surface.parts]
    whole, others = masks[:, parts.index(name)].numpy() > 0.999, masks.numpy().copy()
    others[:, parts.index(name)] = 0
    selected = []
    for k in range(len(whole)):
        padded = np.pad(whole[k], 1, constant_values=False)
        inside = np.asarray(distance_transform_edt(padded))[1:-1, 1:-1] > margin
        foreign = np.asarray(distance_transform_edt(others[k].max(0) <= 0.001)) <= margin
        selected.append(inside & ~(foreign & (others[k].max(0).max() > 0)) & used[k])
    frame, row, column = np.nonzero(np.stack(selected))
    place = torch.tensor(np.stack([column + 0.5, row + 0.5], 1)).double()
    pixels = PixelList(torch.tensor(frame), place)
    faces = visible_faces(system, pose, values, pixels, silhouettes)
    points = surface_points(system, pose, pixels, silhouettes, faces)
    frontal = (points.slant > LEAST_SLANT).numpy() & (True if faces is None else (faces >= 0).numpy())
    counts = np.bincount(frame[frontal], minlength=len(whole))
    frontal &= counts[frame] >= FEWEST
    used_pixels = torch.tensor(frontal)
    pixels = PixelList(pixels.frame[used_pixels], pixels.place[used_pixels])
    return pixels, harmonics(points.normals.numpy()[frontal])


@torch.no_grad()
def interior_colors(
    images: np.ndarray,
    used: np.ndarray,
    trajectory: Trajectory,
    names: Sequence[str],
    silhouettes: Silhouettes,
    factor: int,
    cell: float,
    sigma: float = NOISE,
    subsampled: bool = False,
) -> InteriorColors:
    """Observation of the colors of bodies in images.

    Args:
        images: (frames, height, width, 3) in [0, 1].
        used: Which pixels may count (frames, height, width), bool.
        trajectory: About the motion, of one world: it says which pixels are inside of outlines.
        names: The bodies.
        silhouettes: The camera, of the images' size.
        factor: Pixels of the images in a row of each pixel that is compared.
        cell: Edge of a cell of the texture, in compared pixels at the body's mean distance.
        sigma: Noise of a channel.
        subsampled: Whether the video has chroma at half the resolution: it counts little then.
    """
    channels = SUBSAMPLED if subsampled else np.eye(3)
    binned = silhouettes if factor == 1 else silhouettes.binned(factor)
    mean = lambda x: x.reshape(len(x), x.shape[1] // factor, factor, x.shape[2] // factor, factor, -1).mean((2, 4))
    gamma = trajectory.values.get(f"{silhouettes.lens}.gamma")
    if factor > 1:
        images = mean_of_blocks(images, factor, 1.0 if gamma is None else float(gamma[0]))
        used = mean(used)[..., 0] > 0.99
    bodies = []
    for name in names:
        pixels, light = interior_pixels(trajectory, name, binned, max(1.0, MARGIN / factor), used)
        system, pose = body_named(trajectory, name), pose_of(trajectory, name, binned)
        depth = (pose.x @ pose.R.mT + pose.t)[:, 2].median()
        edge = (cell * depth / pose.K[0, 0] / pose.scale).item()
        rest = system.rest.numpy()
        grid = Grid.around(rest.min(0), rest.max(0), edge).with_surface(points_on(system, edge))
        frame = pixels.frame.numpy()
        column, row = pixels.place.floor().long().numpy().T
        color = images[frame, row, column]
        nodes = nodes_of_texture(system, grid)
        one = np.ones(len(frame))
        bodies.append(BodyColors(name, pixels, color, one, light, grid, nodes, channels=channels))
    return InteriorColors(bodies, binned, len(images), sigma)
