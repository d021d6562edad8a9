"""Geometry of a rigid body at scale 1, one object for all bodies of the same mesh, centre of mass and contact points."""

from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
import scipy
import torch
from torch import Tensor

from gradsim.geometry import mesh as meshes

MOST_TOUCHING = 8  # contact points of one face that count for the bound of the step
LEVEL = 1e-6  # of the extent: points within it lie in one plane


def about(inertia: Tensor, off: Tensor) -> Tensor:
    """Inertia per mass (..., 3, 3) [m²] about a point that is off the centre of mass (..., 3) [m], from that about the centre."""
    square = off.square().sum(-1)[..., None, None] * torch.eye(3, dtype=off.dtype, device=off.device)
    return inertia + square - off[..., :, None] * off[..., None, :]


@dataclass(frozen=True, eq=False)
class BodyShape:
    """Geometry of a rigid body at scale 1. Its tensors are shared, so they are not to be written to.

    Attributes:
        volume: [m³].
        centre: Centre of mass (3,) [m], in the coordinates of the mesh.
        stated_centre: The same as a tensor.
        uniform_centre: That with uniform density (3,) [m].
        rest: Vertices (n, 3) [m] about the centre of mass.
        faces: Triangles (m, 3).
        uniform_inertia: Inertia per mass about `uniform_centre` (3, 3) [m²].
        inertia_per_mass: The same about the centre of mass.
        inverse_inertia_per_mass: Its inverse [1/m²].
        points: Contact points (k, 3) [m] about the centre of mass.
        radius: Radius about each (k,) [m].
    """

    volume: float
    centre: np.ndarray
    stated_centre: Tensor
    uniform_centre: Tensor
    rest: Tensor
    faces: Tensor
    uniform_inertia: Tensor
    inertia_per_mass: Tensor
    inverse_inertia_per_mass: Tensor
    points: Tensor
    radius: Tensor

    @classmethod
    def of(cls, mesh: meshes.Mesh, centre: tuple[float, float, float] | None, collision: str, ball: float, to: dict):
        """Geometry from a mesh.

        Args:
            mesh: Surface, checked.
            centre: Stated centre of mass (3,) [m]; None: that with uniform density.
            collision: "vertices", "hull", "sphere" or "none".
            ball: Radius of a sphere [m].
            to: `dtype` and `device` of the tensors.
        """
        solid = mesh.solid
        at = solid.centre if centre is None else torch.tensor(centre, dtype=torch.float64)
        rest = (torch.tensor(mesh.vertices) - at).to(**to)
        points, radius = rest[:0], rest.new_zeros(0)
        if collision == "sphere":
            points, radius = rest.new_zeros(1, 3), rest.new_full((1,), ball)
        elif collision in ("vertices", "hull"):
            rows = scipy.spatial.ConvexHull(mesh.vertices).vertices if collision == "hull" else slice(None)
            points = rest[rows]
            radius = rest.new_zeros(len(points))
        per_mass = solid.inertia / solid.mass
        inertia = about(per_mass, solid.centre - at).to(**to)
        return cls(
            solid.mass.item(), at.numpy(), at.to(**to), solid.centre.to(**to), rest,
            torch.tensor(mesh.faces, device=to["device"]), per_mass.to(**to), inertia, torch.linalg.inv(inertia), points, radius,
        )  # fmt: skip

    @cached_property
    def size(self) -> Tensor:
        """Distance () [m] of the farthest vertex from the centre of mass."""
        return torch.linalg.vector_norm(self.rest, dim=-1).max()

    @cached_property
    def reach(self) -> Tensor:
        """Distance () [m] of the farthest contact point; 0 without any."""
        return torch.linalg.vector_norm(self.points, dim=-1).max() if len(self.points) else self.size.new_zeros(())

    @cached_property
    def ball_radius(self) -> Tensor:
        """Largest radius () [m] about a contact point; 0 without any."""
        return self.radius.max() if len(self.radius) else self.size.new_zeros(())

    @cached_property
    def touching(self) -> int:
        """Number of contact points that can rest on a plane at once: the most with one supporting plane, at most 8."""
        points = self.points
        directions = torch.nn.functional.normalize(points, dim=-1)
        axes = torch.cat([torch.eye(3, dtype=points.dtype, device=points.device), directions, -directions])
        axes = torch.cat([axes, -axes[:3]])
        heights = axes @ points.T
        extent = (heights.max() - heights.min()).clamp(min=1e-12)
        level = heights - heights.min(1, keepdim=True).values
        return int(np.clip((level < LEVEL * extent).sum(1).max().item(), 1, MOST_TOUCHING))


_shapes: WeakKeyDictionary[meshes.Mesh, dict[tuple, BodyShape]] = WeakKeyDictionary()


def shape_of(body, mesh: meshes.Mesh, name: str, to: dict) -> BodyShape:
    """Geometry of a body of a scene; of bodies alike, whose meshes are one object, the same one.

    Args:
        body: The scene's description of it.
        mesh: Its mesh.
        name: Name of the mesh in messages, such as "bodies.cube.shape".
        to: `dtype` and `device` of its tensors.

    Raises:
        InputError: If the mesh does not bound a solid.
    """
    known = _shapes.setdefault(mesh, {})
    collision = body.collision or ("sphere" if body.shape.sphere else "vertices")
    ball = body.shape.sphere.radius if body.shape.sphere else 0.0
    key = body.centre_of_mass, collision, ball, to["dtype"], str(to["device"])
    if key not in known:
        if not known:  # a mesh that others have been made from is a solid
            meshes.check(mesh, name)
        with torch.inference_mode(False), torch.no_grad():  # others may differentiate what they share
            known[key] = BodyShape.of(mesh, body.centre_of_mass, collision, ball, to)
    return known[key]
