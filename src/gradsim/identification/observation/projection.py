"""Projection of a trajectory and its tangents to the vertices of images, with derivatives: rigid bodies directly from their
states, other bodies by their surface; then through the lens and the shutter of the camera, if it has them.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gradsim.geometry.surface import Part, Surface
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory
from gradsim.render.coverage.optical_projection import edge_pieces, project_optics
from gradsim.render.coverage.rigid_projection import project_rigid
from gradsim.render.coverage.subdivision import subdivide
from gradsim.render.moving_camera import world_motion
from gradsim.render.silhouettes import NEAR_DEPTH, Silhouettes, whole


@dataclass(frozen=True)
class Sensitivity:
    """A trajectory of worlds × unknowns rollouts with its derivatives, one unknown in each.

    Args:
        trajectory: Rollouts (worlds · unknowns); those of one world are equal.
        tangent: Derivatives of the states.
        direction: One for each world, by parameter.
        unknowns: Number of unknowns.
    """

    trajectory: Trajectory
    tangent: Trajectory
    direction: Values
    unknowns: int

    @property
    def worlds(self) -> Values:
        """Parameters of the worlds, without repetition."""
        return {name: v[:: self.unknowns] for name, v in self.trajectory.values.items()}

    @property
    def samples(self) -> "Sensitivity":
        """That of all instants of the dense output, one after another."""
        return Sensitivity(self.trajectory.samples, self.tangent.samples, self.direction, self.unknowns)

    def by_world(self, derivative: Tensor) -> Tensor:
        """Reshape (worlds · unknowns, ...) to (worlds, unknowns, ...)."""
        return derivative.unflatten(0, (-1, self.unknowns))


def all_faces(parts: tuple[Part, ...]) -> tuple[Tensor, bool]:
    """Faces of all parts, and whether they form a single convex body."""
    if len(parts) == 1 and not parts[0].vertices.start:
        return parts[0].faces, parts[0].convex
    surface = Surface(torch.empty(0, 0, parts[-1].vertices.stop, 3), parts)
    return surface.faces, surface.convex


def project(silhouettes: Silhouettes, sensitivity: Trajectory | Sensitivity) -> tuple[Tensor, Tensor]:
    """Project the vertices to the screen by the pinhole.

    A part that is not rendered has all vertices in one point off the image.

    Returns:
        Vertices (worlds, frames, n, 2) [px], and their derivatives (worlds, unknowns, frames, n, 2), with 0 unknowns for
        a trajectory without tangents.
    """
    if isinstance(sensitivity, Sensitivity):
        trajectory, unknowns, values = sensitivity.trajectory, sensitivity.unknowns, sensitivity.worlds
        along = {name: sensitivity.by_world(v) for name, v in sensitivity.direction.items()}
    else:
        trajectory, unknowns, values, along = sensitivity, 1, sensitivity.values, {}
    carried = _carried(trajectory, unknowns, values)
    if carried is None:
        return _projected(silhouettes, sensitivity)
    motion = world_motion(silhouettes.camera, trajectory.times, carried[0][1])
    if motion is not None:
        carried = [(rest, motion.places(x), motion.turns(q)) for rest, x, q in carried]
    sight, screens, slopes = silhouettes.projection_camera(values, along), [], []
    for s, (rest, x, q) in zip(trajectory.systems, carried, strict=True):
        moving: dict[str, Tensor | None] = {}
        if isinstance(sensitivity, Sensitivity):
            tangent = sensitivity.tangent.states[s.name]
            x_tangent, q_tangent = (sensitivity.by_world(tangent[key]) for key in ("x", "q"))
            if motion is not None:
                x_tangent, q_tangent = motion.directions(x_tangent).contiguous(), motion.turns(q_tangent).contiguous()
            moving = {"x_tangent": x_tangent, "q_tangent": q_tangent}
            change = s.rest_tangent(sensitivity.trajectory.values, sensitivity.direction)
            moving["rest_tangent"] = None if change is None else sensitivity.by_world(change)
        screen, slope = project_rigid(rest, x, q, sight, NEAR_DEPTH, **moving)
        screens.append(screen)
        slopes.append(slope)
    return (screens[0], slopes[0]) if len(screens) == 1 else (torch.cat(screens, 2), torch.cat(slopes, 3))


def _carried(trajectory: Trajectory, unknowns: int, values: Values) -> list[tuple[Tensor, Tensor, Tensor]] | None:
    """`System.rigid_shape_and_pose` of each body in the first of every `unknowns` worlds; None if a body deforms."""
    if type(trajectory) is not Trajectory:
        return None  # something else lies between states and surface
    states = {body: {name: y[::unknowns] for name, y in state.items()} for body, state in trajectory.states.items()}
    poses = [s.rigid_shape_and_pose(states[s.name], values) for s in trajectory.systems]
    rigid = [pose for pose in poses if pose is not None]
    return rigid if len(rigid) == len(poses) else None


def _projected(silhouettes: Silhouettes, sensitivity: Trajectory | Sensitivity) -> tuple[Tensor, Tensor]:
    if not isinstance(sensitivity, Sensitivity):
        screen = whole(silhouettes.screen(sensitivity.surface, sensitivity.values))
        return screen, screen.new_empty(len(screen), 0, *screen.shape[1:])
    surface, moving = sensitivity.trajectory.surface_tangent(sensitivity.tangent, sensitivity.direction)
    along = {name: sensitivity.by_world(v) for name, v in sensitivity.direction.items()}
    once = Surface(surface.vertices[:: sensitivity.unknowns], surface.parts, times=surface.times)
    screen, slope = silhouettes.screen_tangent(once, sensitivity.by_world(moving), sensitivity.worlds, along)
    return whole(screen), torch.where(torch.isfinite(screen)[:, None], slope, 0.0)


class ImageVertices(NamedTuple):
    """Vertices in the images of all frames.

    Args:
        screen: (worlds, frames · images, n, 2) [px]; the mean of the images of a frame is compared with it.
        slope: Derivatives (worlds, unknowns, frames · images, n, 2).
        parts: Parts that they form.
    """

    screen: Tensor
    slope: Tensor
    parts: tuple[Part, ...]

    @property
    def shapes(self) -> tuple[Tensor, Tensor, Tensor, bool]:
        """Screen, slope, faces of all parts, and whether they form a single convex body."""
        return self.screen, self.slope, *all_faces(self.parts)


def image_vertices(silhouettes: Silhouettes, sensitivity: Trajectory | Sensitivity) -> ImageVertices:
    """Vertices in the images, through lens and shutter."""
    trajectory = sensitivity.trajectory if isinstance(sensitivity, Sensitivity) else sensitivity
    optics, parts, frames = silhouettes.camera.optics, trajectory.parts, len(trajectory.times)
    if optics is None:
        return ImageVertices(*project(silhouettes, sensitivity), parts)
    offsets, source = None, sensitivity
    if optics.has_shutter:
        source = sensitivity.samples
        assert trajectory.dense is not None  # as `samples` requires
        offsets = trajectory.dense.offsets
    samples, slopes = project(silhouettes, source)
    samples, slopes = samples.unflatten(1, (frames, -1)), slopes.unflatten(2, (frames, -1))
    values = sensitivity.worlds if isinstance(sensitivity, Sensitivity) else sensitivity.values
    along = {}
    if isinstance(sensitivity, Sensitivity):
        along = {name: sensitivity.by_world(v) for name, v in sensitivity.direction.items()}
    K, size = silhouettes.matrices(samples, values)[0], (silhouettes.camera.height, silhouettes.camera.width)
    numbers = silhouettes.optics_values(optics, values, samples)
    pieces = edge_pieces(samples, offsets, K, optics, numbers, size, parts)
    samples, cut = subdivide(samples, parts, pieces)
    slopes, _ = subdivide(slopes, parts, pieces)
    tangent = silhouettes.optics_tangent(along)
    return ImageVertices(*project_optics(samples, slopes, offsets, K, optics, numbers, tangent, size), cut)
