"""Pictures in files, as arrays (3, height, width) of float32 in [0, 1], row 0 on top: what textures are made of.

Values are those of the file, divided by its largest possible one: no gamma is taken out or put in, and an alpha channel
is left out.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gradsim.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = (".png", ".jpg", ".jpeg")


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
