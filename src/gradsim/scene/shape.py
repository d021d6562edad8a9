"""Shapes of rigid bodies: primitives and mesh files."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from gradsim import mesh as meshes
from gradsim.errors import InputError
from gradsim.scene.quantities import Strict, matrix, positive, positives


Segments = Annotated[int, Field(ge=3, le=4096)]


class Box(Strict):
    """Edge lengths [m]."""

    size: positives("m")

    def mesh(self) -> meshes.Mesh:
        return meshes.box(self.size)


class Sphere(Strict):
    """Radius [m]; drawn as an icosahedron subdivided so many times."""

    radius: positive("m")
    subdivisions: Annotated[int, Field(ge=0, le=6)] = 3

    def mesh(self) -> meshes.Mesh:
        return meshes.sphere(self.radius, self.subdivisions)


class Cylinder(Strict):
    """Axis along z [m]."""

    radius: positive("m")
    height: positive("m")
    segments: Segments = 32

    def mesh(self) -> meshes.Mesh:
        return meshes.cylinder(self.radius, self.height, self.segments)


class Cone(Strict):
    """Axis along z, apex up [m]."""

    radius: positive("m")
    height: positive("m")
    segments: Segments = 32

    def mesh(self) -> meshes.Mesh:
        return meshes.cone(self.radius, self.height, self.segments)


class Capsule(Strict):
    """Axis along z [m]; `height` is that of the cylinder between the half spheres."""

    radius: positive("m")
    height: positive("m")
    segments: Segments = 24
    rings: Annotated[int, Field(ge=1, le=256)] = 6

    def mesh(self) -> meshes.Mesh:
        return meshes.capsule(self.radius, self.height, self.segments, self.rings)


class Torus(Strict):
    """Axis along z [m]; `radius` reaches to the middle of the tube."""

    radius: positive("m")
    tube_radius: positive("m")
    segments: Segments = 32
    sides: Segments = 16

    @model_validator(mode="after")
    def _open(self):
        if self.tube_radius >= self.radius:
            raise InputError(f"tube_radius {self.tube_radius:g} m has to be below radius {self.radius:g} m.")
        return self

    def mesh(self) -> meshes.Mesh:
        return meshes.torus(self.radius, self.tube_radius, self.segments, self.sides)


class Tetrahedron(Strict):
    """Four corners [m]."""

    vertices: matrix(4, 3)

    def mesh(self) -> meshes.Mesh:
        return meshes.tetrahedron(self.vertices)


class MeshFile(Strict):
    """A mesh file (.obj, .stl, .ply, .glb); its coordinates times `scale` are metres."""

    file: Path
    scale: positive() = 1.0

    def mesh(self) -> meshes.Mesh:
        return meshes.load(self.file, self.scale)


class Shape(Strict):
    """Exactly one of the kinds."""

    box: Box | None = None
    sphere: Sphere | None = None
    cylinder: Cylinder | None = None
    cone: Cone | None = None
    capsule: Capsule | None = None
    torus: Torus | None = None
    tetrahedron: Tetrahedron | None = None
    mesh_file: MeshFile | None = Field(None, alias="mesh")

    @model_validator(mode="after")
    def _one(self):
        kinds = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(kinds) != 1:
            given = " and ".join(kinds) or "none"
            raise InputError(f"a shape is exactly one of box, sphere, cylinder, cone, capsule, torus, tetrahedron, mesh; got {given}.")  # fmt: skip
        return self

    def mesh(self) -> meshes.Mesh:
        """The mesh, in its own coordinates."""
        return next(v for name in type(self).model_fields if (v := getattr(self, name)) is not None).mesh()
