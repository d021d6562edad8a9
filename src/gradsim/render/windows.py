"""Windows of images, one of the same size for each frame, that go with what is shown."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of the frames of a video.

    Args:
        corner: First row and column (frames, 2) of each window in its image, whole numbers.
        shape: Height and width of windows [px].
        size: Height and width of images [px].
    """

    corner: Tensor
    shape: tuple[int, int]
    size: tuple[int, int]

    @cached_property
    def _origin(self) -> Tensor:
        """x to the right and y down of each corner (frames, 1, 2) [px]."""
        return self.corner.flip(-1)[:, None].double()

    def from_corners(self, screen: Tensor, images: int = 1) -> Tensor:
        """Vertices (..., frames · images, n, 2) [px] of the first frames, from the corners of their windows."""
        origin = self._origin.to(screen)
        if images > 1:
            origin = origin.repeat_interleave(images, 0)
        return screen - origin[: screen.shape[-3]]

    def sums(self, image: Tensor) -> Tensor:
        """Sums of windows (frames, *shape) along the rows and columns of their images, (frames, height + width)."""
        total = image.new_zeros(len(image), sum(self.size))
        for side, along, begin in ((0, -1, 0), (1, -2, self.size[0])):
            places = begin + self.corner[: len(image), side, None] + torch.arange(self.shape[side])
            total.scatter_(1, places.long(), image.sum(along))
        return total

    def of_frames(self, first: int, last: int) -> "Windows":
        """Those of frames `first` to `last - 1`."""
        return Windows(self.corner[first:last], self.shape, self.size)

    def stride_frames(self, stride: int) -> "Windows":
        """Those of frames 0, `stride`, 2 `stride`, …"""
        return Windows(self.corner[::stride], self.shape, self.size)

    def divides(self, factor: int) -> bool:
        """True if windows and images are whole numbers of pixels `factor` times as wide."""
        return not (self.corner % factor).any() and all(n % factor == 0 for n in (*self.shape, *self.size))

    def binned(self, factor: int) -> "Windows":
        """The same in pixels `factor` times as wide and high."""
        divided = lambda pair: (pair[0] // factor, pair[1] // factor)
        return Windows(self.corner // factor, divided(self.shape), divided(self.size))
