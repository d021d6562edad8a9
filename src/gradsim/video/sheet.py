"""Contact sheets: pictures in rows and columns, each with a line of text below it."""

from collections.abc import Sequence

import numpy as np

GAP = 6  # [px] between pictures
INK = (70, 74, 82)
LETTERS = 0.09  # height of the letters, of a picture's, but at least LEAST
LEAST = 10  # [px]


def evenly(count: int, chosen: int) -> list[int]:
    """So many of 0 … count - 1 at equal distances, the first and the last among them."""
    return np.linspace(0, count - 1, chosen).round().astype(int).tolist()


def sheet(pictures: Sequence[np.ndarray] | np.ndarray, columns: int, labels: Sequence[str]) -> np.ndarray:
    """Pictures on one page, (height, width, 3) uint8.

    Args:
        pictures: (h, w, 3) uint8 each, of one size; row by row.
        columns: Pictures in a row.
        labels: What stands below each.
    """
    from PIL import Image, ImageDraw, ImageFont

    h, w = pictures[0].shape[:2]
    size = max(LEAST, round(LETTERS * h))
    font, below = ImageFont.load_default(size), round(1.5 * size)
    rows = -(-len(pictures) // columns)
    page = Image.new("RGB", (columns * (w + GAP) + GAP, rows * (h + below + GAP) + GAP), "white")
    draw = ImageDraw.Draw(page)
    for k, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
        x, y = GAP + k % columns * (w + GAP), GAP + k // columns * (h + below + GAP)
        page.paste(Image.fromarray(picture), (x, y))
        draw.text((x + w / 2, y + h + below / 2), label, INK, font, anchor="mm")
    return np.asarray(page)
