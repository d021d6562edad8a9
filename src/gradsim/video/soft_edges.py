"""Coverage of the pixels on the edge of a mask, from the colors on both sides.

    I = α F + (1 − α) B   ⇒   α = (I − B)·(F − B) / |F − B|²

with F from a few pixels inside, its shading continued to the edge, and B from a few pixels outside, where they differ enough; elsewhere the mask stays as it is. Of
discs of radius 6 and 11 px on a texture, coverage at the edge is off by 0.10 (RMS), that of masks of 0 and 1 by 0.28. α is clipped:
centres are as exact as before (0.05 px), where they would be off by 0.09 px, and outlines 0.06 px wide instead of 0.01.
"""

from collections.abc import Sequence

import numpy as np

from gradsim.video.connected_regions import EIGHT_CONNECTED, box_of
from gradsim.video.response import Edges, edges_of

CORE = 2  # [px] from the edge, where pixels have the color of their side
MIN_GRADIENT_PIXELS = 30  # pixels that tell the gradient of a color
MARGIN = 2 * CORE + 3  # [px] about a body: colors of the background, smoothed
CONTRAST = 0.15  # |F − B| above which coverage follows from the color: some five times the texture of a background


def light(values: np.ndarray, gamma: float) -> np.ndarray:
    """Light of values in [0, 1] of a camera whose response is light^(1/γ); values themselves where γ is 1."""
    return values if gamma == 1 else np.maximum(values, 0.0) ** gamma


def soft_edges(frames: np.ndarray, bodies: np.ndarray, gamma: float = 1.0) -> np.ndarray:
    """Coverage (T, height, width) in [0, 1] by bodies (T, height, width) bool in frames (T, height, width, 3) uint8, of light value^γ."""
    return with_soft_edges(frames, bodies, gamma)[0]


def with_soft_edges(
    frames: Sequence[np.ndarray] | np.ndarray, bodies: np.ndarray, gamma: float = 1.0, metric: np.ndarray | None = None
) -> tuple[np.ndarray, Edges | None]:
    """The same, and the colors from which it follows; None without an edge. `metric` (3, 3) weighs differences of color."""
    from scipy import ndimage

    masks, colors, metric = bodies.astype(np.float64), [], np.eye(3) if metric is None else metric
    for k, (frame, body, mask) in enumerate(zip(frames, bodies, masks, strict=True)):
        if not body.any():
            continue
        box = box_of(body, MARGIN)
        frame, body, mask = frame[box], body[box], mask[box]
        core = ndimage.binary_erosion(body, EIGHT_CONNECTED, CORE)
        outside = np.logical_not(ndimage.binary_dilation(body, EIGHT_CONNECTED, CORE))
        if not core.any() or not outside.any():
            continue
        image = frame / 255
        behind, inside = nearest_color(image, outside), continued_color(image, core)
        clear = ((inside - behind) ** 2).sum(-1) > CONTRAST**2
        values = image, behind, inside
        image, behind, inside = (light(y, gamma) for y in (image, behind, inside))
        across = inside - behind
        along = across @ metric
        contrast = (across * along).sum(-1)
        inner = ndimage.binary_erosion(body, EIGHT_CONNECTED)
        edge = ndimage.binary_dilation(body, EIGHT_CONNECTED) & np.logical_not(inner) & clear & (contrast > 0)
        mask[edge] = np.clip(((image - behind) * along).sum(-1)[edge] / contrast[edge], 0, 1)
        row, column = np.nonzero(edge)
        place = (k * masks.shape[1] + box[0].start + row) * masks.shape[2] + box[1].start + column
        colors.append((place, *(y[edge] for y in values)))
    if not colors:
        return masks, None
    return masks, edges_of(*(np.concatenate(part) for part in zip(*colors, strict=True)), metric=metric, clipped=True)


def nearest_color(image: np.ndarray, region: np.ndarray) -> np.ndarray:
    """Color (height, width, 3) of the nearest pixel of a region that is not empty, smoothed."""
    return _nearest(image, region)[..., : image.shape[2]]


def continued_color(image: np.ndarray, region: np.ndarray) -> np.ndarray:
    """Color (height, width, 3) of the nearest pixel of a region that is not empty, and the region's mean gradient from there on.

    A body that is brighter on one side would else be off towards it: of 29 videos whose truth is known, the mean shift of the
    masks has a median of 0.019 px with the gradient and 0.030 px without.
    """
    rows, columns = np.nonzero(region)
    if len(rows) < MIN_GRADIENT_PIXELS:
        return nearest_color(image, region)
    places = np.stack(list(np.mgrid[: region.shape[0], : region.shape[1]]), -1).astype(float)
    color, place = np.split(_nearest(np.concatenate([image, places], -1), region), [image.shape[2]], -1)
    inside = np.stack([rows, columns, np.ones(len(rows))], -1)
    slope = np.linalg.lstsq(inside, image[region], rcond=None)[0][:2]
    return color + (places - place) @ slope


def _nearest(image: np.ndarray, region: np.ndarray) -> np.ndarray:
    """Mean (height, width, channels) over those of 3 × 3 pixels that are in the region, about the region's nearest one."""
    from scipy import ndimage

    fraction = np.maximum(ndimage.uniform_filter(region.astype(float), 3), 1e-9)
    channels = np.moveaxis(image, -1, 0)
    smooth = np.stack([ndimage.uniform_filter(channel * region, 3) / fraction for channel in channels], -1)
    nearest = ndimage.distance_transform_edt(~region, return_distances=False, return_indices=True)
    row, column = np.asarray(nearest)
    return smooth[row, column]
