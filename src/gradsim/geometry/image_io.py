"""Image files as arrays (3, height, width), float32 in [0, 1], row 0 on top.

Values are those of the file divided by 255. No gamma is applied, and an alpha channel is dropped.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_path

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = (".png", ".jpg", ".jpeg")
GAP = 4  # [px] white gap between images in one file


def read(path: Path) -> np.ndarray:
    """Read a PNG or JPEG file.

    Args:
        path: The file, 8 bits per channel.

    Returns:
        (3, height, width), float32 in [0, 1].

    Raises:
        InputError: If the file does not exist, cannot be decoded, or has more than 8 bits per channel.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            return from_image(image, str(path))
    except FileNotFoundError:
        raise InputError(f"image {path} does not exist.") from None
    except (OSError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise InputError(f"{path} cannot be read as an image ({error}); export it again as png.") from error


def from_image(image: "Image", name: str) -> np.ndarray:
    """Convert a Pillow image.

    Args:
        image: The image, 8 bits per channel.
        name: Name for error messages.

    Returns:
        (3, height, width), float32 in [0, 1].

    Raises:
        InputError: If the image has more than 8 bits per channel.
    """
    if image.mode[0] in "IF":
        raise InputError(f"{name} has more than 8 bits per channel (mode {image.mode}); save it with 8.")
    return np.moveaxis(np.asarray(image.convert("RGB"), np.float32) / 255, -1, 0).copy()


def to_bytes(values: ArrayLike) -> np.ndarray:
    """Quantize values in [0, 1], of any shape, to uint8; values outside are clipped."""
    return (np.asarray(values).clip(0, 1) * 255).round().astype(np.uint8)


def write(path: str | Path, *images: ArrayLike) -> None:
    """Write images side by side into one file, atomically; missing folders are created.

    Args:
        path: The file; suffix .png, .jpg or .jpeg.
        *images: (3, height, width) each, of equal height; values are clipped to [0, 1].

    Raises:
        InputError: If the suffix is unknown, or a shape does not fit.
    """
    from PIL import Image

    path, arrays = Path(path), [np.asarray(image, np.float64) for image in images]
    shapes = [a.shape for a in arrays]
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} has an unknown suffix; use one of {', '.join(FORMATS)}.")
    if not shapes or any(len(s) != 3 or s[0] != 3 or s[1] != shapes[0][1] for s in shapes):
        raise InputError(f"images have shapes {shapes}; expected (3, height, width) with equal heights.")
    gap = np.ones((3, shapes[0][1], GAP))
    row = np.concatenate([strip for a in arrays for strip in (gap, a)][1:], -1)
    with atomic_path(path) as draft:
        Image.fromarray(np.moveaxis(to_bytes(row), 0, -1)).save(draft)
