"""Several instants of a motion in one picture, earlier ones fainter, as in the figures of the paper.

With a picture P_k of everything, the share m_k of each pixel that moving things take in it, and S the picture of what
stands still, an instant of opacity o_k goes over the picture so far by

    Q ← Q + o_k (P_k − S + m_k (S − Q))

which is P_k = m_k C + (1 − m_k) S composed as if the colour C had been drawn over Q. Where P_k differs from S with no
moving thing there (a shadow), the difference is added.
"""

from collections.abc import Sequence

import numpy as np

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
