"""Contact sheets: pictures in rows and columns, each with a line of text below it.

Several instants of a motion in one picture, earlier ones fainter, as in the figures of the paper.

With a picture P_k of everything, the share m_k of each pixel that moving things take in it, and S the picture of what
stands still, an instant of opacity o_k goes over the picture so far by

    Q ← Q + o_k (P_k − S + m_k (S − Q))

which is P_k = m_k C + (1 − m_k) S composed as if the colour C had been drawn over Q. Where P_k differs from S with no
moving thing there (a shadow), the difference is added.
"""

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


FAINT = 0.25  # opacity of the first instant


def opacities(count: int) -> np.ndarray:
    """Of so many instants (count,), from `FAINT` to 1."""
    return np.linspace(FAINT, 1.0, count) if count > 1 else np.ones(1)


def strip(pictures: Sequence[np.ndarray], shares: Sequence[np.ndarray], still: np.ndarray) -> np.ndarray:
    """The instants over one another, (height, width, 3) in [0, 1].

    Args:
        pictures: P_k (height, width, 3) in [0, 1], in the order of time.
        shares: m_k (height, width) in [0, 1].
        still: S (height, width, 3) in [0, 1].
    """
    image = np.array(still, np.float64)
    for opacity, picture, share in zip(opacities(len(pictures)), pictures, shares, strict=True):
        image += opacity * (picture - still + share[..., None] * (still - image))
    return image.clip(0, 1)
