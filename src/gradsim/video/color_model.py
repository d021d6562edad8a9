"""Bodies by their colors, learnt from a rectangle around one: histograms of body and surroundings.

    P(body | color) = n_body / (n_body + n_elsewhere) > 1/2

with the numbers of pixels of a color in the ellipse within the rectangle and outside of the rectangle. What the ellipse has of the
surroundings does no harm, since there is more of it outside. The camera may move, and the body may stay: a frame is compared with
the histograms alone.
"""

from dataclasses import dataclass

import numpy as np

from gradsim.errors import InputError
from gradsim.video.connected_regions import remove_flashes
from gradsim.video.mog2 import clean_region

BINS = 16  # per channel, 16 grey levels wide: above the noise of cameras
BLUR = 1.0  # bins, standard deviation
MIN_BODY_AREA = 16  # [px²] of a body that has a histogram


@dataclass(frozen=True)
class Rectangle:
    """A rectangle around the body in one frame, as in `40,30,64,48@12`.

    Attributes:
        x, y: Its upper left corner [px].
        width, height: Its size [px].
        frame: The frame.
    """

    x: int
    y: int
    width: int
    height: int
    frame: int = 0

    @classmethod
    def parse(cls, text: str) -> "Rectangle":
        """A rectangle from `X,Y,WIDTH,HEIGHT[@FRAME]`.

        Raises:
            InputError: If the text has another form.
        """
        corner, _, frame = text.partition("@")
        try:
            numbers = [round(float(part)) for part in corner.split(",")]
            number = int(frame) if frame else 0
        except ValueError:
            numbers, number = [], 0
        if len(numbers) != 4 or min(numbers[2:]) < 1 or number < 0:
            raise InputError(
                f"the rectangle is {text!r}; expected X,Y,WIDTH,HEIGHT in pixels from the upper left corner, and @FRAME if it "
                "is not of frame 0, such as 40,30,64,48@12."
            )
        x, y, width, height = numbers
        return cls(x, y, width, height, number)

    def inside(self, frames: np.ndarray) -> np.ndarray:
        """Mask (height, width) of the rectangle in its frame of a video (T, height, width, 3).

        Raises:
            InputError: If the video lacks the frame, or the rectangle is not within the image and smaller.
        """
        count, height, width = frames.shape[:3]
        if self.frame >= count:
            raise InputError(f"the rectangle is of frame {self.frame}, the video has frames 0 to {count - 1}.")
        within = self.x >= 0 and self.y >= 0 and self.x + self.width <= width and self.y + self.height <= height
        if not within or self.width * self.height > 0.9 * width * height:
            raise InputError(
                f"the rectangle {self.x},{self.y},{self.width},{self.height} is not within the image of {width} × {height} px, "
                "with surroundings; draw it a few pixels around the body."
            )
        mask = np.zeros((height, width), bool)
        mask[self.y : self.y + self.height, self.x : self.x + self.width] = True
        return mask


def color_masks(frames: np.ndarray, rectangle: Rectangle) -> np.ndarray:
    """Masks (T, height, width) bool of what has the colors of the body in a rectangle, and not those around it.

    Args:
        frames: (T, height, width, 3) uint8.
        rectangle: Around the body, in one frame; other bodies that look alike are outside of it.

    Raises:
        InputError: If the rectangle is not within the video, or what is in it has the colors of its surroundings.
    """
    box = rectangle.inside(frames)
    bins = frames[rectangle.frame] // (256 // BINS)
    likelier = _histogram(bins[_ellipse(box)]) > _histogram(bins[~box])
    if (box & likelier[tuple(np.moveaxis(bins, -1, 0))]).sum() < MIN_BODY_AREA:
        raise InputError(
            f"what is in the rectangle {rectangle.x},{rectangle.y},{rectangle.width},{rectangle.height} of frame "
            f"{rectangle.frame} has the colors of what is around it; choose another rectangle, or --background."
        )
    masks = [clean_region(likelier[tuple(np.moveaxis(frame // (256 // BINS), -1, 0))]) for frame in frames]
    return remove_flashes(np.stack(masks))


def _ellipse(box: np.ndarray) -> np.ndarray:
    """The ellipse in a rectangle (height, width)."""
    (rows, columns) = (np.flatnonzero(box.any(axis)) for axis in (1, 0))
    y, x = ((2 * np.arange(n) - at[0] - at[-1]) / len(at) for n, at in zip(box.shape, (rows, columns), strict=True))
    return box & (y[:, None] ** 2 + x**2 < 1)


def _histogram(bins: np.ndarray) -> np.ndarray:
    """Smoothed number (BINS, BINS, BINS) of colors (n, 3)."""
    from scipy import ndimage

    flat = np.ravel_multi_index(tuple(bins.T), (BINS,) * 3)
    count = np.bincount(flat, minlength=BINS**3).reshape((BINS,) * 3)
    return ndimage.gaussian_filter(count.astype(np.float64), BLUR)
