"""Scenes as MJCF."""

from gradsim.scene.exporters.export import FORMATS, export

__all__ = ["FORMATS", "export"]
