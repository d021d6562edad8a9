"""What the user says about a motion: bodies, grounds, camera, clock; to and from YAML."""

from gradsim.scene.body import Pendulum, Push, Rigid
from gradsim.scene.camera import Camera, LookAt
from gradsim.scene.contact import Contact
from gradsim.scene.ground import Ground
from gradsim.scene.obstacle import Obstacle
from gradsim.scene.parameters import Parameter, parameters, resolve
from gradsim.scene.scene import Scene, Timing
from gradsim.scene.shape import Box, Capsule, Cone, Cylinder, MeshFile, Shape, Sphere, Tetrahedron, Torus

__all__ = [
    "Box",
    "Camera",
    "Capsule",
    "Cone",
    "Contact",
    "Cylinder",
    "Ground",
    "LookAt",
    "MeshFile",
    "Obstacle",
    "Parameter",
    "Pendulum",
    "Push",
    "Rigid",
    "Scene",
    "Shape",
    "Sphere",
    "Tetrahedron",
    "Timing",
    "Torus",
    "parameters",
    "resolve",
]
