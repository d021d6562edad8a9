"""What soft rasterisers ask of faces on the screen, and how they hand them to kernels."""

import math
from types import ModuleType

import torch
from torch import Tensor

from gradsim.render.tiles import Tiles

CUT = 1e-4
"""Coverage of a pixel below which a face is left out there, as in the code of Liu et al. (`dist_eps`)."""

TURN = {"none": 0, "back": 1, "front": -1}


def check(screen: Tensor, height: int, width: int) -> None:
    """Raise ValueError unless these are corners on a screen."""
    if screen.ndim != 3 or screen.shape[-1] != 3 or screen.dtype not in (torch.float32, torch.float64):
        got = f"shape {tuple(screen.shape)} and {screen.dtype}"
        raise ValueError(f"`screen` has {got}; it needs (images, n, 3) of u, v [px] and depth [m], float32 or float64.")
    if height < 0 or width < 0:
        raise ValueError(f"an image of {height} × {width} pixels; both sides are at least 0.")
    finite("screen", screen)


def finite(name: str, values: Tensor) -> None:
    """Raise ValueError that names the first number that is not finite."""
    good = torch.isfinite(values)
    if not torch.compiler.is_compiling() and not bool(good.all()):
        place = tuple((~good).nonzero()[0].tolist())
        raise ValueError(f"`{name}`{list(place)} is {values[place].item()}; every number has to be finite.")


def table(name: str, indices: Tensor, images: int, rows: int, faces: int | None = None) -> Tensor:
    """Indices (images or 1, faces, 3) of corners for kernels, from (faces, 3) or (images, faces, 3).

    Raises:
        ValueError: If the shape does not fit, or an index is not below `rows`. Negative ones are for `faces` to say that
            there is none.
    """
    shared = indices[None] if indices.ndim == 2 else indices
    m = shared.shape[1] if faces is None and shared.ndim == 3 else faces
    if (
        shared.ndim != 3
        or shared.shape[1:] != (m, 3)
        or shared.shape[0] not in (1, images)
        or shared.is_floating_point()
    ):
        got = f"shape {tuple(indices.shape)} and {indices.dtype}"
        count = "m" if faces is None else faces
        raise ValueError(f"`{name}` has {got}; it needs whole numbers ({count}, 3) or ({images}, {count}, 3).")
    if not torch.compiler.is_compiling() and shared.numel() and int(shared.max()) >= rows:
        raise ValueError(f"`{name}` names row {int(shared.max())}; there are {rows}, counted from 0.")
    return shared.to(torch.int32)


def reach(code: ModuleType, tiles: Tiles, sigma: float, cut: float, turn: float):
    """The kernels' struct: σ [px²], and -x beyond which a face is left out."""
    r = code.Reach()
    r.sharpness, r.cut, r.radius, r.cull = 1 / sigma, cut, math.sqrt(sigma * cut), int(turn)
    r.height, r.width = tiles.height, tiles.width
    return r


def blur(sigma: float, cut: float, cull: str) -> list[float]:
    """σ, cut and turn for `reach`.

    Raises:
        ValueError: If one is out of range.
    """
    if not 0 < sigma < math.inf:
        raise ValueError(f"`sigma` is {sigma} px²; it is above 0 and finite.")
    if not 0 < cut < 0.5:
        raise ValueError(f"`cut` is {cut}; it is a coverage above 0 and below that of a border, 0.5.")
    if cull not in TURN:
        raise ValueError(f"`cull` is {cull!r}; it is one of {', '.join(map(repr, TURN))}.")
    return [sigma, math.log(1 / cut - 1), float(TURN[cull])]
