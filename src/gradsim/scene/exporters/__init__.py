"""Scenes as MJCF and URDF."""

from gradsim.scene.exporters.export import FORMATS, export

__all__ = ["FORMATS", "export"]
