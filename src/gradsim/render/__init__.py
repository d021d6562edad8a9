"""Differentiable rendering: cameras, silhouettes by exact coverage, and shaded, textured images."""

from gradsim.render.antialias.rasterizer import Antialiased
from gradsim.render.camera import Camera, from_opengl, from_pytorch3d, from_scene, from_transforms_json, look_at
from gradsim.render.dibr.rasterizer import DibR
from gradsim.render.renderer import Renderer, RenderOutput
from gradsim.render.shading.lights import Ambient, Directional, Harmonics, Point
from gradsim.render.shading.shading import Shading
from gradsim.render.silhouettes import Silhouettes
from gradsim.render.softras.rasterizer import SoftRas

__all__ = [
    "Ambient",
    "Antialiased",
    "Camera",
    "DibR",
    "Directional",
    "Harmonics",
    "Point",
    "RenderOutput",
    "Renderer",
    "Shading",
    "Silhouettes",
    "SoftRas",
    "from_opengl",
    "from_pytorch3d",
    "from_scene",
    "from_transforms_json",
    "look_at",
]
