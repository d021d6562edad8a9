"""Contact sheets, and several instants of a trajectory in one image, as in the figures of the paper.

An instant of opacity o_k, with image P_k, mask m_k of the moving bodies and image S of the static scene, is composited by

    Q ← Q + o_k (P_k − S + m_k (S − Q))

which is P_k = m_k C + (1 − m_k) S with the color C over Q. Where P_k differs from S outside the mask (a shadow), the
difference is added.
"""

from collections.abc import Sequence

import numpy as np

GAP = 6  # [px] between images
INK = (70, 74, 82)
LETTERS = 0.09  # height of the letters, relative to that of an image, but at least MIN_LETTER_HEIGHT
MIN_LETTER_HEIGHT = 10  # [px]


def evenly(count: int, chosen: int) -> list[int]:
    """`chosen` of the indices 0 … count - 1 at equal distances, with the first and the last."""
    return np.linspace(0, count - 1, chosen).round().astype(int).tolist()


def sheet(images: Sequence[np.ndarray] | np.ndarray, columns: int, labels: Sequence[str]) -> np.ndarray:
    """Contact sheet (height, width, 3) uint8: images in rows, each with a label below.

    Args:
        images: (h, w, 3) uint8 each, of equal size; row by row.
        columns: Images in a row.
        labels: Label below each image.
    """
    from PIL import Image, ImageDraw, ImageFont

    h, w = images[0].shape[:2]
    size = max(MIN_LETTER_HEIGHT, round(LETTERS * h))
    font, below = ImageFont.load_default(size), round(1.5 * size)
    rows = -(-len(images) // columns)
    page = Image.new("RGB", (columns * (w + GAP) + GAP, rows * (h + below + GAP) + GAP), "white")
    draw = ImageDraw.Draw(page)
    for k, (image, label) in enumerate(zip(images, labels, strict=True)):
        x, y = GAP + k % columns * (w + GAP), GAP + k // columns * (h + below + GAP)
        page.paste(Image.fromarray(image), (x, y))
        draw.text((x + w / 2, y + h + below / 2), label, INK, font, anchor="mm")
    return np.asarray(page)


FIRST_OPACITY = 0.25  # opacity of the first instant


def opacities(count: int) -> np.ndarray:
    """Opacities of `count` instants (count,), from `FIRST_OPACITY` to 1."""
    return np.linspace(FIRST_OPACITY, 1.0, count) if count > 1 else np.ones(1)


def strip(images: Sequence[np.ndarray], shares: Sequence[np.ndarray], still: np.ndarray) -> np.ndarray:
    """Composite instants, (height, width, 3) in [0, 1].

    Args:
        images: P_k (height, width, 3) in [0, 1], in order of time.
        shares: m_k (height, width) in [0, 1].
        still: S (height, width, 3) in [0, 1].
    """
    total = np.array(still, np.float64)
    for opacity, image, share in zip(opacities(len(images)), images, shares, strict=True):
        total += opacity * (image - still + share[..., None] * (still - total))
    return total.clip(0, 1)
