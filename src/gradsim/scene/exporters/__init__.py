"""Scenes as MJCF, URDF and USD."""

from gradsim.scene.exporters.export import FORMATS, export

__all__ = ["FORMATS", "export"]
