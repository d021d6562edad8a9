"""Shapes of rigid bodies and their surface meshes."""

from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic_core import core_schema

from gradsim.geometry import mesh as meshes
from gradsim.geometry import mesh_io as mesh_file
from gradsim.scene.node import Node, Place, did_you_mean, exactly_one, mistake, quote
from gradsim.scene.quantity import Count, Quantity, Tuple, Vector3, positive, vector
from gradsim.scene.yaml_io import FilePath

LENGTH = positive("m")
SEGMENTS = Count(3, 4096)
_OBJECTS = Path(str(resources.files("gradsim.scene"))) / "objects"


class Box(Node):
    """A box; `size` is its edge lengths along x, y and z [m]."""

    size: Annotated[Vector3, Tuple(LENGTH)] = Field(description="the edge lengths [x, y, z] in m")

    def mesh(self) -> meshes.Mesh:
        return meshes.box(self.size)


class Sphere(Node):
    """A ball.

    Attributes:
        subdivisions: Fineness of the mesh, also for mass and inertia: it has 20 · 4^subdivisions triangles.
    """

    radius: Annotated[float, LENGTH] = Field(description="the radius in m")
    subdivisions: Annotated[int, Count(0, 6)] = 3

    def mesh(self) -> meshes.Mesh:
        return meshes.sphere(self.radius, self.subdivisions)


class Cylinder(Node):
    """A cylinder around z.

    Attributes:
        segments: Number of corners of the circle.
    """

    radius: Annotated[float, LENGTH] = Field(description="the radius in m")
    height: Annotated[float, LENGTH] = Field(description="the height in m")
    segments: Annotated[int, SEGMENTS] = 32

    def mesh(self) -> meshes.Mesh:
        return meshes.cylinder(self.radius, self.height, self.segments)


class Cone(Node):
    """A cone around z, its apex up.

    Attributes:
        segments: Number of corners of the circle.
    """

    radius: Annotated[float, LENGTH] = Field(description="the radius of the base in m")
    height: Annotated[float, LENGTH] = Field(description="the height in m")
    segments: Annotated[int, SEGMENTS] = 32

    def mesh(self) -> meshes.Mesh:
        return meshes.cone(self.radius, self.height, self.segments)


class Capsule(Node):
    """A cylinder around z with hemispherical ends; `height` is that of the cylinder alone.

    Attributes:
        segments: Number of corners of the circle.
        rings: Number of rings of each hemisphere.
    """

    radius: Annotated[float, LENGTH] = Field(description="the radius in m")
    height: Annotated[float, LENGTH] = Field(description="the height of the cylindrical part in m")
    segments: Annotated[int, SEGMENTS] = 32
    rings: Annotated[int, Count(1, 1024)] = 8

    def mesh(self) -> meshes.Mesh:
        return meshes.capsule(self.radius, self.height, self.segments, self.rings)


class Torus(Node):
    """A torus around z; `radius` is that of its center line.

    Attributes:
        segments: Number of corners of the center line.
        tube_segments: Number of corners of the tube.
    """

    radius: Annotated[float, LENGTH] = Field(description="the radius of the center line in m")
    tube_radius: Annotated[float, LENGTH] = Field(description="the radius of the tube in m")
    segments: Annotated[int, SEGMENTS] = 32
    tube_segments: Annotated[int, SEGMENTS] = 16

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if self.tube_radius >= self.radius:
            yield ("tube_radius",), f"got {self.tube_radius:g}; expected less than the radius {self.radius:g} m."

    def mesh(self) -> meshes.Mesh:
        return meshes.torus(self.radius, self.tube_radius, self.segments, self.tube_segments)


class Tetrahedron(Node):
    """A tetrahedron by its four corners [m], in any order."""

    vertices: Annotated[tuple[Vector3, Vector3, Vector3, Vector3], Tuple(vector("m"), 4, "corners [x, y, z]")] = Field(
        description="four corners [x, y, z] in m"
    )

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        edges = np.subtract(self.vertices[1:], self.vertices[0])
        if abs(np.linalg.det(edges)) <= 1e-12 * np.abs(edges).max() ** 3:
            yield ("vertices",), "are coplanar; move one of the corners out of the plane."

    def mesh(self) -> meshes.Mesh:
        return meshes.tetrahedron(self.vertices)


class MeshFile(Node):
    """A closed mesh in a file.

    Attributes:
        scale: Meters per unit of the file.
    """

    file: Annotated[Path, FilePath("a mesh file", mesh_file.FORMATS)] = Field(
        description="the path of an obj, stl, ply or glb file"
    )
    scale: Annotated[float, Quantity("", lower=0.0, above=True)] = 1.0

    def mesh(self) -> meshes.Mesh:
        return mesh_file.load(self.file, self.scale)


class _ObjectName:
    """Annotate the name of an object of gradsim's library."""

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        return {"enum": object_names()}

    def _read(self, raw: Any) -> str:
        known = object_names()
        if not isinstance(raw, str) or raw not in known:
            hint = did_you_mean(raw, known) or f"; choose one of {', '.join(known)}."
            raise mistake(f"got {quote(raw)}{hint}")
        return raw


class Object(Node):
    """An object of gradsim's library (docs/guides/meshes.md), such as "pear", scaled to a bounding box.

    `size` is the extents along x, y and z [m]. Up is z and front is x; the origin is the center of the bounding box.
    """

    name: Annotated[str, _ObjectName()] = Field(description="the name of an object, such as pear")
    size: Annotated[Vector3, Tuple(LENGTH)] = Field(description="the extents [x, y, z] in m")

    def mesh(self) -> meshes.Mesh:
        shape = _object(self.name)
        low, high = shape.vertices.min(0), shape.vertices.max(0)
        stretch = np.array(self.size) / (high - low)
        return meshes.Mesh((shape.vertices - (low + high) / 2) * stretch, shape.faces)


def object_names() -> list[str]:
    """Names of the objects of gradsim's library."""
    return sorted(path.stem for path in _OBJECTS.glob("*.obj"))


@cache
def _object(name: str) -> meshes.Mesh:
    """An object at its original size: the largest extent is 1."""
    return mesh_file.load(_OBJECTS / f"{name}.obj")


@lru_cache(maxsize=64)
def _mesh_of(kind: Box | Sphere | Cylinder | Cone | Capsule | Torus | Tetrahedron | Object) -> meshes.Mesh:
    return kind.mesh()


class Shape(Node):
    """Shape of a rigid body: exactly one of the following."""

    box: Box | None = None
    sphere: Sphere | None = None
    cylinder: Cylinder | None = None
    cone: Cone | None = None
    capsule: Capsule | None = None
    torus: Torus | None = None
    tetrahedron: Tetrahedron | None = None
    object: Object | None = None
    mesh_file: MeshFile | None = Field(default=None, alias="mesh")

    @classmethod
    def prepare(cls, raw: dict[str, Any]) -> dict[str, Any]:
        return {"mesh" if key == "mesh_file" else key: value for key, value in raw.items()}

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        if not set(raw) - set(cls.known_keys()):
            yield from exactly_one(raw, cls.known_keys())

    def mesh(self) -> meshes.Mesh:
        """Surface at scale 1; of equal shapes one object, but for those of files, which may change."""
        (kind,) = (node for _, node in self if node is not None)
        return kind.mesh() if self.mesh_file else _mesh_of(kind)
