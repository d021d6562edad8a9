"""Pictures in files, as arrays (3, height, width) of float32 in [0, 1], row 0 on top: what textures are made of.

Values are those of the file, divided by its largest possible one: no gamma is taken out or put in, and an alpha channel
is left out.
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
GAP = 4  # pixels of white between pictures in one file


def read(path: Path) -> np.ndarray:
    """A picture from a png or jpg file.

    Raises:
        InputError: If there is no such file, or it is no picture of 8 bits per channel.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            return from_image(image, str(path))
    except FileNotFoundError:
        raise InputError(f"there is no picture {path}.") from None
    except (OSError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise InputError(f"{path} cannot be read as a picture ({error}); export it again as png.") from error


def from_image(image: "Image", name: str) -> np.ndarray:
    """A picture that Pillow has read; `name` is what to call it in the message."""
    if image.mode[0] in "IF":
        raise InputError(f"{name} has more than 8 bits per channel (mode {image.mode}); save it with 8.")
    return np.moveaxis(np.asarray(image.convert("RGB"), np.float32) / 255, -1, 0).copy()


def to_bytes(values: ArrayLike) -> np.ndarray:
    """Values in [0, 1], of any shape, as uint8; what is beyond is cut off."""
    return (np.asarray(values).clip(0, 1) * 255).round().astype(np.uint8)


def write(path: str | Path, *images: ArrayLike) -> None:
    """Pictures side by side in one file, which appears whole or not at all; its folder is made if there is none.

    Args:
        path: Ends in .png or .jpg.
        *images: (3, height, width) each, of one height; what is beyond [0, 1] is cut off.

    Raises:
        InputError: If the suffix or a shape is another, or heights differ.
    """
    from PIL import Image

    path, arrays = Path(path), [np.asarray(image, np.float64) for image in images]
    shapes = [a.shape for a in arrays]
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} is none of {', '.join(FORMATS)}; choose one of these.")
    if not shapes or any(len(s) != 3 or s[0] != 3 or s[1] != shapes[0][1] for s in shapes):
        raise InputError(f"pictures have shapes {shapes}; they need (3, height, width), and the same height.")
    gap = np.ones((3, shapes[0][1], GAP))
    row = np.concatenate([strip for a in arrays for strip in (gap, a)][1:], -1)
    with atomic_path(path) as draft:
        Image.fromarray(np.moveaxis(to_bytes(row), 0, -1)).save(draft)
