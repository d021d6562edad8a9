"""Video input and output, frame timing, and masks of bodies."""

from gradsim.video.read import Video, check_video, read, read_with_clock
from gradsim.video.write import write, write_preview

__all__ = ["Video", "check_video", "read", "read_with_clock", "write", "write_preview"]
