"""Scenes from MJCF, URDF and USD."""

from gradsim.scene.importers.newton import Imported, load

__all__ = ["Imported", "load"]
