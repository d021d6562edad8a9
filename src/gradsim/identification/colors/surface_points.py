"""Points on rigid bodies that pixels show, in the frame of the body: rays against spheres in closed form, or against faces.

    d = Rᵀ K⁻¹ (u, v, 1),   |e + s d − c| = r   (sphere)   or   n · (e + s d − a) = 0   (face),   X = R(q)ᵀ (e + s d − x) / scale

with the eye e. The face is the nearest one at the pixel. X is smooth in pose, scale and camera while the face stays the same; the balls of
scenes are true spheres, whatever their mesh. Derivatives are central differences along forward sensitivities.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.geometry.surface import Surface
from gradsim.identification.observation.projection import Sensitivity
from gradsim.numerics import rotation
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory
from gradsim.render.optics import rays
from gradsim.render.raster.zbuffer import rasterize
from gradsim.render.silhouettes import Silhouettes
from gradsim.render.view import View

STEP = 1e-5  # of central differences, in units of the fastest point in body sizes


@dataclass(frozen=True, eq=False)
class PixelList:
    """Pixels in frames.

    Args:
        frame: Frame of each (n,), int64, ascending.
        place: Column and row of its center (n, 2) [px].
    """

    frame: Tensor
    place: Tensor


@dataclass(frozen=True, eq=False)
class SurfacePoints:
    """Points that pixels show.

    Args:
        points: In the frame of the body about its center of mass, at scale 1 (n, 3) [m].
        normals: Outward unit normals in the world (n, 3).
        slant: Cosine between normal and line of sight (n,).
    """

    points: Tensor
    normals: Tensor
    slant: Tensor


@dataclass(frozen=True, eq=False)
class Pose:
    """A rigid body in all frames of one world, and the camera.

    Args:
        x: (frames, 3) [m].
        q: Unit quaternions (frames, 4).
        scale: Of its shape.
        K, R, t: Of the camera: (3, 3), (3, 3), (3,).
        lens: Distortion coefficients; None for a pinhole.
    """

    x: Tensor
    q: Tensor
    scale: Tensor
    K: Tensor
    R: Tensor
    t: Tensor
    lens: Tensor | None


def body_named(trajectory: Trajectory, name: str) -> RigidBody:
    """The rigid body of a name.

    Raises:
        InputError: If there is none, or it is of another kind.
    """
    for system in trajectory.systems:
        if system.name == name:
            if isinstance(system, RigidBody):
                return system
            raise InputError(f"`{name}` is not a rigid body; colors are observed of rigid bodies only.")
    raise InputError(f"the scene has no body `{name}`; there are {', '.join(s.name for s in trajectory.systems)}.")


def pose_of(trajectory: Trajectory, name: str, silhouettes: Silhouettes, world: int = 0) -> Pose:
    """Pose of a body in one world of a trajectory, and the camera of `silhouettes`."""
    values = {key: v[world : world + 1] for key, v in trajectory.values.items()}
    state = {key: trajectory.states[name][key][world] for key in ("x", "q")}
    return _pose(state, values, name, silhouettes)


def _pose(state: dict[str, Tensor], values: Values, name: str, silhouettes: Silhouettes) -> Pose:
    K, R, t = silhouettes.matrices(state["x"], values)
    optics, lens = silhouettes.camera.optics, None
    if optics is not None and optics.coefficients is not None:
        lens = silhouettes.optics_values(optics, values, state["x"]).coefficients
        lens = None if lens is None else lens[0]
    q = state["q"] / torch.linalg.vector_norm(state["q"], dim=-1, keepdim=True)
    return Pose(state["x"], q, values[f"{name}.scale"][0], K[0], R[0], t[0], lens)


def moved_poses(s: Sensitivity, name: str, silhouettes: Silhouettes) -> Iterator[tuple[Pose, Pose, float]]:
    """Poses a step ahead of and behind a trajectory of one world, along each unknown, and twice the step."""
    at, along = s.trajectory, s.tangent.states[name]
    for k in range(s.unknowns):
        state = {key: at.states[name][key][k] for key in ("x", "q")}
        change = {key: along[key][k] for key in ("x", "q")}
        size = max(change["x"].abs().max().item(), change["q"].abs().max().item(), 1e-9)
        largest = max((v[k].abs().max().item() for v in s.direction.values()), default=0.0)
        step = STEP / max(size, largest)
        ends = []
        for sign in (1, -1):
            values = {key: v[k : k + 1] for key, v in at.values.items()}
            values |= {key: values[key] + sign * step * v[k : k + 1] for key, v in s.direction.items()}
            perturbed = {key: y + sign * step * change[key] for key, y in state.items()}
            ends.append(_pose(perturbed, values, name, silhouettes))
        yield ends[0], ends[1], 2 * step


def surface_points(
    body: RigidBody, pose: Pose, pixels: PixelList, silhouettes: Silhouettes, faces: Tensor | None
) -> SurfacePoints:
    """Points of a body at pixels; a ray that misses a sphere has the point nearest to it, of the outline.

    Args:
        body: The body.
        pose: Where it is.
        pixels: n pixels.
        silhouettes: The camera.
        faces: Face of each pixel (n,), as `visible_faces` has them; None of a sphere.
    """
    optics = silhouettes.camera.optics
    d = rays(pose.K, pose.R, pixels.place, pose.lens, optics is not None and optics.fisheye is not None)
    eye = -pose.t @ pose.R
    x, q = pose.x[pixels.frame], pose.q[pixels.frame]
    back = rotation.conjugate(q)
    if faces is None:
        center = x - rotation.rotate(q, torch.tensor(body.centre).to(x) * pose.scale)
        radius = body.body.shape.sphere.radius * pose.scale
        middle = ((center - eye) * d).sum(-1)
        below = radius**2 - (eye + middle[:, None] * d - center).square().sum(-1)
        hit = eye + (middle - below.clamp(min=0).sqrt())[:, None] * d
        normal = torch.nn.functional.normalize(hit - center, dim=-1)
        hit = center + radius * normal
    else:
        corners = body.rest[body.part.faces.to(torch.int64)[faces]]
        flat = torch.nn.functional.normalize(
            torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), dim=-1
        )
        normal = rotation.rotate(q, flat)
        a = x + pose.scale * rotation.rotate(q, corners[:, 0])
        slope = (normal * d).sum(-1)
        slope = torch.where(slope.abs() < 1e-3, -1e-3, slope)
        hit = eye + (((a - eye) * normal).sum(-1) / slope)[:, None] * d
    return SurfacePoints(rotation.rotate(back, hit - x) / pose.scale, normal, -(normal * d).sum(-1))


def visible_faces(
    body: RigidBody, pose: Pose, values: Values, pixels: PixelList, silhouettes: Silhouettes
) -> Tensor | None:
    """Number of the body's nearest face at each pixel (n,), -1 where there is none; None of a sphere.

    Args:
        body: The body.
        pose: Where it is.
        values: Parameters of one world.
        pixels: n pixels.
        silhouettes: The camera.
    """
    if body.body.shape.sphere:
        return None
    rest = body.rest * pose.scale
    vertices = pose.x[None, :, None] + rotation.rotate(pose.q[None, :, None], rest[None, None])
    pinhole = Silhouettes(silhouettes.camera.pinhole, lens=silhouettes.lens)
    pinhole.binning = silhouettes.binning
    part = body.part.faces
    view = View.of(Surface.of(vertices, part, name=body.name), pinhole, _pinhole_values(values, silhouettes.lens))
    fragments = rasterize(view)
    table = fragments.onto((fragments.face + 1).double()[:, None], 0.0)[..., 0].long() - 1
    place = pixels.place
    if pose.lens is not None:
        optics = silhouettes.camera.optics
        d = rays(pose.K, pose.R, place, pose.lens, optics is not None and optics.fisheye is not None)
        straight = (d @ pose.R.mT) @ pose.K.mT
        place = straight[:, :2] / straight[:, 2:]
    column, row = place.floor().long().unbind(1)
    inside = (column >= 0) & (column < view.width) & (row >= 0) & (row < view.height)
    at = table[pixels.frame, row.clamp(0, view.height - 1), column.clamp(0, view.width - 1)]
    return torch.where(inside, at, -1)


def _pinhole_values(values: Values, lens: str) -> Values:
    """Parameters without those of lens and shutter."""
    optics = {f"{lens}.{key}" for key in ("distortion", "fisheye", "readout", "exposure")}
    return {name: v for name, v in values.items() if name not in optics}
