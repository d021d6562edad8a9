"""Video in and out, and the masks of bodies in it."""

from gradsim.video.read import Video, check, read
from gradsim.video.write import write, write_preview

__all__ = ["Video", "check", "read", "write", "write_preview"]
