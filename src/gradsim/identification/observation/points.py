"""Observed points: tracks of markers that are fixed on bodies, in the image of a camera or in three dimensions."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from gradsim.engine.forward_mode import derivative
from gradsim.errors import InputError
from gradsim.identification.observation.base import Coordinates, NoiseFloor, Residual, Sensitivity
from gradsim.identification.observation.correlated_noise import CorrelatedNoise, drift_modes
from gradsim.numerics import rotation
from gradsim.numerics.robust import GAUSSIAN, RobustLoss, robust_loss
from gradsim.physics.system import System
from gradsim.physics.trajectory import Trajectory
from gradsim.render.camera import project
from gradsim.render.moving_camera import WorldMotion, world_motion
from gradsim.render.optics import image_points
from gradsim.render.silhouettes import NEAR_DEPTH, Silhouettes
from gradsim.scene.interactions import Marker

States = dict[str, dict[str, Tensor]]


class _View(NamedTuple):
    """Input of a prediction of positions.

    Args:
        states: States (worlds, frames or instants, ...) by body and name.
        offsets: Offsets of the instants (frames, samples) [s]; None without a shutter.
        motion: Motion of the world in front of a camera that moves; None for another.
    """

    states: States
    offsets: Tensor | None
    motion: WorldMotion | None


class Points(Coordinates):
    """Tracks of points that are fixed on bodies: an `Observation`.

    Their places on rigid bodies are parameters of the scene (`markers.NAME.point`), which may be unknown, too.

    Args:
        markers: The points by name, such as `Scene.markers`.
        positions: Positions (frames, n, 2) in the image [px], where the middle of the first pixel is (0.5, 0.5), or (frames, n, 3)
            in the world [m], in the order of the markers; NaN where a point was not tracked.
        sigma: Noise of each coordinate [px or m]: one number, or (frames, n).
        silhouettes: The camera, for positions in its image.
        loss: "gaussian", or "huber" or "cauchy" against tracks that jump.
        drift: Standard deviation (frames, n) of the part of each position's error that all later positions of its track share, as
            `gradsim track` writes it; None: errors are independent.

    Raises:
        InputError: If a shape does not match, positions or the camera are missing, the noise is not above 0, a drift is negative, or the
            loss is unknown.
    """

    def __init__(
        self,
        markers: Mapping[str, Marker],
        positions: Tensor,
        sigma: float | Tensor,
        silhouettes: Silhouettes | None = None,
        loss: str | RobustLoss = GAUSSIAN,
        drift: Tensor | None = None,
    ):
        dimensions = 3 if silhouettes is None else 2
        if positions.ndim != 3 or positions.shape[1:] != (len(markers), dimensions):
            what = "in the world" if silhouettes is None else "in an image"
            raise InputError(
                f"positions {what} have shape {tuple(positions.shape)}; expected (frames, {len(markers)}, {dimensions})"
                f"{'; positions in an image need `silhouettes`.' if silhouettes is None else '.'}"
            )
        self.markers, self.silhouettes, self.loss = dict(markers), silhouettes, robust_loss(loss)
        self.positions, self.frames = positions.double(), len(positions)
        self.tracked = torch.isfinite(self.positions).all(2)
        if not self.tracked.any():
            raise InputError("no position of any marker is a number; a fit needs tracks.")
        noise = torch.as_tensor(sigma).double().expand(self.tracked.shape)
        if not ((noise > 0) & noise.isfinite())[self.tracked].all():
            raise InputError(f"sigma is {noise[self.tracked].min():g}; expected a length above 0 [px or m].")
        self.noise, self.sigma = noise, noise[self.tracked].median().item()
        self._data = self.positions.nan_to_num(0.0)
        self._scale = torch.where(self.tracked, 1 / noise, 0.0)[..., None]
        self._drift: Tensor | None = None
        self._correlated: CorrelatedNoise | None = None
        if drift is not None:
            if drift.shape != self.tracked.shape or not ((drift >= 0) & drift.isfinite())[self.tracked].all():
                raise InputError(
                    f"drift has shape {tuple(drift.shape)}; expected {tuple(self.tracked.shape)}, and numbers of at least 0 [px or m]."
                )
            self._drift = drift_modes(drift.double(), self.tracked, noise, dimensions)
            self._correlated = CorrelatedNoise(self._drift)

    @property
    def names(self) -> list[str]:
        """Names of the markers, in the order of the tracks."""
        return list(self.markers)

    def residuals(self, trajectory: Trajectory, frames: int, residual: Residual) -> Iterator[Tensor]:
        yield self.loss.root(self._compare(trajectory, self._view(trajectory, frames), trajectory.values))

    def noise_floor(self, frames: int) -> NoiseFloor:
        return NoiseFloor(0.0, float(self.tracked[:frames].sum() * self.positions.shape[2]), float("inf"))

    def slice_frames(self, first: int, last: int) -> "Points":
        part = object.__new__(Points)  # some frames may have no track
        part.markers, part.silhouettes, part.loss, part.sigma = self.markers, self.silhouettes, self.loss, self.sigma
        for name in ("positions", "tracked", "noise", "_data", "_scale"):
            setattr(part, name, getattr(self, name)[first:last])
        part.frames = len(part.positions)
        part._drift = None if self._drift is None else self._drift[first:last]
        part._correlated = None if self._correlated is None else self._correlated.slice_frames(first, last)
        return part

    @property
    def pose_noise(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True if the camera moves by poses with a covariance."""
        poses = self.silhouettes and self.silhouettes.camera.poses
        return poses is not None and bool(poses.covariance.any())

    @torch.no_grad()
    def linearized_at(self, trajectory: Trajectory) -> "Points":
        if not self.pose_noise or self.silhouettes is None:
            return self
        poses = self.silhouettes.camera.poses
        assert poses is not None
        slopes = self._by_pose(trajectory)[0] * self._scale[..., None]  # (frames, n, 2, 6)
        times = trajectory.times[: self.frames].numpy()
        covariance = torch.tensor(poses.covariance_at(times))
        over_time = torch.linalg.cholesky(torch.tensor(poses.correlation_at(times)))
        squares, axes = torch.linalg.eigh((covariance + covariance.mT) / 2)
        root = axes * squares.clamp(min=0).sqrt()[:, None]
        local = slopes @ root[:, None]
        modes = (local[:, :, :, None] * over_time[:, None, None, :, None]).flatten(3)
        other = copy.copy(self)
        other._correlated = CorrelatedNoise(modes if self._drift is None else torch.cat([self._drift, modes], -1))
        return other

    def _by_pose(self, trajectory: Trajectory) -> Tensor:
        """Derivatives (worlds, frames, n, 2, 6) of the pixels by the rotation vector [rad] and translation [m] of each frame's pose."""
        assert self.silhouettes is not None
        view = self._view(trajectory, self.frames)
        world = self._world(trajectory, view, trajectory.values)
        _, R, t = self.silhouettes.matrices(world, trajectory.values)
        place = world @ R.mT + t[:, None, None]
        columns = []
        for k in range(6):
            axis = torch.eye(3, dtype=world.dtype)[k % 3]
            change = rotation.cross(axis, place) if k < 3 else axis.expand_as(place)
            screen = lambda w: self._on_screen(w, trajectory.values, view.offsets)
            columns.append(torch.func.jvp(screen, (world,), (change @ R,))[1])
        return torch.stack(columns, -1)

    def predict(self, trajectory: Trajectory) -> Tensor:
        """Positions (worlds, frames, n, 2 or 3) of the markers [px or m]; differentiable.

        Raises:
            InputError: If a marker is on no body of the rollout, or on a vertex that the body does not have.
        """
        return self._positions(trajectory, self._view(trajectory, len(trajectory.times)), trajectory.values)

    def _linear(self, s: Sensitivity, frames: int) -> tuple[Tensor, Tensor]:
        view, along = self._view(s.trajectory, frames), self._view(s.tangent, frames).states
        if self._has_shutter:  # whose instants are found by slopes of their own
            values = {name: s.trajectory.values[name] for name in s.direction}  # jvp wants both in one order
            moving = lambda states, some: self._residuals_of(s.trajectory, view, states, some)
            r, slope = torch.func.jvp(moving, (view.states, values), (along, dict(s.direction)))  # pyright: ignore[reportAssignmentType]
            return r[:: s.unknowns], s.by_world(slope).transpose(1, 2)
        places = [(body, key) for body, state in view.states.items() for key in state]
        at = {f"{body} {key}": view.states[body][key] for body, key in places}
        direction = {f"{body} {key}": along[body][key] for body, key in places} | dict(s.direction)

        def residuals(inputs: dict[str, Tensor]) -> list[Tensor]:
            states: States = {body: {} for body in view.states}
            for body, key in places:
                states[body][key] = inputs[f"{body} {key}"]
            return [self._residuals_of(s.trajectory, view, states, {name: inputs[name] for name in s.direction})]

        at |= {name: s.trajectory.values[name] for name in s.direction}
        (r,), (slope,) = derivative(residuals, at, direction)
        slope = torch.zeros_like(r) if slope is None else slope
        return r[:: s.unknowns], s.by_world(slope).transpose(1, 2)

    def _residuals_of(
        self, trajectory: Trajectory, view: "_View", states: States, some: Mapping[str, Tensor]
    ) -> Tensor:
        """Whitened residuals of other states, and of other values of some names."""
        return self._compare(trajectory, view._replace(states=states), {**trajectory.values, **some})

    def _compare(self, trajectory: Trajectory, view: "_View", values: Mapping[str, Tensor]) -> Tensor:
        """Whitened residuals (worlds, frames · n · dimensions)."""
        positions = self._positions(trajectory, view, values)
        frames = positions.shape[1]
        r = ((positions - self._data[:frames]) * self._scale[:frames]).flatten(1)
        return r if self._correlated is None else self._correlated.whiten(r, frames)

    def _positions(self, trajectory: Trajectory, view: "_View", values: Mapping[str, Tensor]) -> Tensor:
        world = self._world(trajectory, view, values)
        return world if self.silhouettes is None else self._on_screen(world, values, view.offsets)

    def _world(self, trajectory: Trajectory, view: "_View", values: Mapping[str, Tensor]) -> Tensor:
        """Places (worlds, frames or instants, n, 3) [m], as a camera that stands still sees them."""
        systems = {system.name: system for system in trajectory.systems}
        places = []
        for name, marker in self.markers.items():
            if marker.body not in systems:
                raise InputError(f"marker `{name}` is on `{marker.body}`; the rollout has {', '.join(systems)}.")
            places.append(_marker_position(name, marker, systems[marker.body], view.states[marker.body], values))
        world = torch.stack(places, 2)
        return world if view.motion is None else view.motion.points(world)

    @property
    def _has_shutter(self) -> bool:
        optics = self.silhouettes and self.silhouettes.camera.optics
        return optics is not None and optics.has_shutter

    def _view(self, trajectory: Trajectory, frames: int) -> "_View":
        """States of the first frames; of all instants about each, one after another, where the camera has a shutter."""
        part = trajectory.at(slice(0, frames))
        offsets = part.dense.offsets if self._has_shutter and part.dense is not None else None
        part = part.samples if self._has_shutter else part
        motion = None if self.silhouettes is None else world_motion(self.silhouettes.camera, part.times, self.positions)
        return _View(dict(part.states), offsets, motion)

    def _on_screen(self, world: Tensor, values: Mapping[str, Tensor], offsets: Tensor | None) -> Tensor:
        """Pixels (worlds, frames, n, 2); a point that is not in front of the camera is moved to 1 m in front of it.

        Of an exposure, its middle.
        """
        assert self.silhouettes is not None
        K, R, t = self.silhouettes.matrices(world, values)
        depth = project(world, K, R, t)[1].detach()
        stand_in = ((R.new_tensor([0.0, 0.0, 1.0]) - t.detach())[:, None] @ R.detach())[:, None]
        pixels = project(torch.where((depth >= NEAR_DEPTH)[..., None], world, stand_in), K, R, t)[0]
        camera = self.silhouettes.camera
        if camera.optics is None:
            return pixels
        numbers = self.silhouettes.optics_values(camera.optics, values, pixels)
        samples = pixels[:, :, None] if offsets is None else pixels.unflatten(1, (-1, offsets.shape[1]))
        offsets = None if offsets is None else offsets[: samples.shape[1]]
        middle = replace(camera.optics, exposure=None)
        return image_points(samples, offsets, K, middle, numbers, (camera.height, camera.width))


def _marker_position(
    name: str, marker: Marker, system: System, state: dict[str, Tensor], values: Mapping[str, Tensor]
) -> Tensor:
    """Position (worlds, frames, 3) [m] of a marker."""
    if marker.vertex is None:
        point = None if marker.point is None else values[f"markers.{name}.point"]
        return system.marker_position(state, dict(values), point)
    vertices = system.vertices(list(state.values()), dict(values))
    if marker.vertex >= vertices.shape[2]:
        raise InputError(
            f"marker `{name}` is on vertex {marker.vertex} of `{marker.body}`, whose surface has {vertices.shape[2]}, counted from 0."
        )
    return vertices[:, :, marker.vertex]
