"""Scene description: bodies, grounds, contacts, joints, cameras, lights and clock, to and from YAML."""

from gradsim.scene.body import Pendulum, Push, Rigid
from gradsim.scene.camera import CameraSpec, LookAt
from gradsim.scene.contact import Contact
from gradsim.scene.double_pendulum import DoublePendulum
from gradsim.scene.ground import Ground
from gradsim.scene.light import Ambient, Directional, Harmonics, Point
from gradsim.scene.material import Material, Visible
from gradsim.scene.obstacle import Obstacle
from gradsim.scene.parameters import Parameter, parameters, resolve
from gradsim.scene.scene import Scene, Timing
from gradsim.scene.shape import Box, Capsule, Cone, Cylinder, MeshFile, Object, Shape, Sphere, Tetrahedron, Torus

__all__ = [
    "Ambient",
    "Box",
    "CameraSpec",
    "Capsule",
    "Cone",
    "Contact",
    "Cylinder",
    "Directional",
    "DoublePendulum",
    "Ground",
    "Harmonics",
    "LookAt",
    "Material",
    "MeshFile",
    "Object",
    "Obstacle",
    "Parameter",
    "Pendulum",
    "Point",
    "Push",
    "Rigid",
    "Scene",
    "Shape",
    "Sphere",
    "Tetrahedron",
    "Timing",
    "Torus",
    "Visible",
    "parameters",
    "resolve",
]
