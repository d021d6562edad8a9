"""What is seen: cameras, and silhouettes by coverage."""

from gradsim.render.camera import Camera, from_opengl, from_pytorch3d, from_scene, from_transforms_json, look_at
from gradsim.render.silhouettes import Silhouettes

__all__ = [
    "Camera",
    "Silhouettes",
    "from_opengl",
    "from_pytorch3d",
    "from_scene",
    "from_transforms_json",
    "look_at",
]
