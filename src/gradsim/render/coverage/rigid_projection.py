"""Projection of rigid parts to the screen, with derivatives, for least squares (`rigid_projection_kernels.py`).

Equals projecting the vertices of a `Surface`, without intermediate arrays: at 16 starts, 40 frames and 5 unknowns those
cost more than dynamics and drawing together.
"""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gradsim.engine.lanes import lane_of, specialize
from gradsim.engine.launch import array, replay

if TYPE_CHECKING:
    from gradsim.render.coverage import rigid_projection_kernels
else:
    rigid_projection_kernels = "gradsim.render.coverage.rigid_projection_kernels"

OFFSCREEN = -1e6  # [px] position given to all vertices of a part that is not drawn


@dataclass(frozen=True, eq=False)
class ProjectionCamera:
    """Camera matrices and their derivatives.

    Args:
        K: Intrinsics (worlds or 1, 3, 3) [px].
        R: World → camera (worlds or 1, 3, 3).
        t: (worlds or 1, 3) [m].
        K_tangent: Derivatives (worlds, unknowns, 3, 3); None for zero.
        t_tangent: Derivatives (worlds, unknowns, 3); None for zero.
        R_tangent: Derivatives of R as vectors w (worlds, unknowns, 3), dR = [w]× R; None for zero.
    """

    K: Tensor
    R: Tensor
    t: Tensor
    K_tangent: Tensor | None = None
    t_tangent: Tensor | None = None
    R_tangent: Tensor | None = None


def project_rigid(
    rest: Tensor,
    x: Tensor,
    q: Tensor,
    camera: ProjectionCamera,
    near: float,
    rest_tangent: Tensor | None = None,
    x_tangent: Tensor | None = None,
    q_tangent: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Project vertices R(q) rest + x to the screen, with derivatives.

    Args:
        rest: (worlds or 1, n, 3) [m].
        x: (worlds, frames, 3) [m].
        q: Unit quaternions (worlds, frames, 4), (x, y, z, w).
        camera: The camera.
        near: Least depth [m]. Parts with a nearer or NaN vertex are moved to one point off the image.
        rest_tangent: Derivatives (worlds, unknowns, n, 3); None for zero.
        x_tangent: Derivatives (worlds, unknowns, frames, 3); None for no unknowns.
        q_tangent: Derivatives (worlds, unknowns, frames, 4); None for no unknowns.

    Returns:
        (worlds, frames, n, 2) [px], and (worlds, unknowns, frames, n, 2).
    """
    code, (worlds, frames, _), n = _code(x.dtype), x.shape, rest.shape[1]
    if x_tangent is None or q_tangent is None:
        x_tangent, q_tangent = x.new_empty(worlds, 0, frames, 3), x.new_empty(worlds, 0, frames, 4)
    unknowns = x_tangent.shape[1]
    screen, slope = x.new_empty(worlds, frames, n, 2), x.new_empty(worlds, unknowns, frames, n, 2)
    none = lambda tangent, *tail: x.new_empty(0, unknowns, *tail) if tangent is None else tangent.to(x)
    args = [
        array(code.V3, rest),
        array(code.V3, x),
        array(code.V4, q),
        array(code.M3, camera.K.to(x)),
        array(code.M3, camera.R.to(x)),
        array(code.V3, camera.t.to(x)),
        array(code.V3, none(rest_tangent, n, 3)),
        array(code.V3, x_tangent),
        array(code.V4, q_tangent),
        array(code.M3, none(camera.K_tangent, 3, 3)),
        array(code.V3, none(camera.t_tangent, 3)),
        array(code.V3, none(camera.R_tangent, 3)),
        near,
        OFFSCREEN,
        array(code.Point, screen),
        array(code.Point, slope),
    ]
    replay(code.project_rigid, (worlds, frames), args, str(x.device))
    return screen, slope


@cache
def _code(dtype: torch.dtype):
    return specialize(rigid_projection_kernels, lane_of(dtype))
