# pyright: reportInvalidTypeForm=false
"""Pixels that a mesh touches without covering their centre: a template for `engine.lanes`.

They show the nearest point of the nearest edge over which layers change. Their marks are lower than those of pixels
whose centre is covered (`zbuffer_kernels.py`), in the same table.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import Scalar

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.coverage.edge_kernels import jump
    from gradsim.render.raster.fragment_kernels import NEARNESS, behind
    from gradsim.render.raster.triangle_kernels import centre, to_segment

Corner = wp.types.vector(3, Scalar)  # homogeneous pixel (u z, v z, z), or u, v [px] and depth [m]

MAX_COORDINATE = wp.constant(Scalar(1.0e9))  # [px] beyond it, whole numbers overflow
PIXEL_RADIUS = wp.constant(Scalar(0.7072))  # [px] from the centre of a pixel to its corner, and a little
MARK_STEPS = wp.constant(Scalar(8.0e6))  # of the square of a distance, in the marks
MAX_MARK = wp.constant(wp.int64(0x7FFFFFFF))

BACK, FRONT = wp.constant(1), wp.constant(2)  # faces to leave out


@wp.func
def visible_face(front: wp.array2d[wp.bool], image: int, face: int, other: int, cull: int):
    """Face at an edge whose color is visible there: the one in front; -1 if it is culled."""
    chosen = face
    if face < 0 or (other >= 0 and not front[image, face]):
        chosen = other
    if (cull == BACK and not front[image, chosen]) or (cull == FRONT and front[image, chosen]):
        return -1
    return chosen


@wp.func
def on_screen(h: Corner):
    return Corner(h[0] / h[2], h[1] / h[2], h[2])


@wp.func
def side_of(corners: wp.vec3i, a: int, b: int):
    """Number of the edge of a face between two of its corners."""
    for i in range(3):
        if (corners[i] == a and corners[(i + 1) % 3] == b) or (corners[i] == b and corners[(i + 1) % 3] == a):
            return i
    return 0


@wp.kernel(enable_backward=False)
def mark_touched(
    clip: wp.array2d[Corner],  # (images, vertices)
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    front: wp.array2d[wp.bool],
    alpha: wp.array3d[Scalar],
    near: Scalar,  # [m]
    cull: int,
    # out
    key: wp.array3d[wp.int64],  # (images, rows, columns): see `zbuffer_kernels.py`
):
    thread = wp.tid()
    image = thread / edges.shape[0]
    k = thread - image * edges.shape[0]
    ends = edges[k]
    begin = clip[image, ends[0]]
    end = clip[image, ends[1]]
    if not (begin[2] >= near or end[2] >= near):
        return
    a = on_screen(begin + behind(begin, end, wp.max(near, NEARNESS * end[2])) * (end - begin))
    b = on_screen(end + behind(end, begin, wp.max(near, NEARNESS * begin[2])) * (begin - end))
    inside = (
        wp.abs(a[0]) <= MAX_COORDINATE
        and wp.abs(a[1]) <= MAX_COORDINATE
        and wp.abs(b[0]) <= MAX_COORDINATE
        and wp.abs(b[1]) <= MAX_COORDINATE
    )
    if not inside or jump(edges, front, image, k) == 0:
        return
    face = visible_face(front, image, ends[2], ends[3], cull)
    if face < 0:
        return
    low = wp.int64(face * 4 + side_of(faces[face], ends[0], ends[1]))
    height = alpha.shape[1]
    width = alpha.shape[2]
    top = wp.max(
        int(wp.floor(wp.clamp(wp.min(a[1], b[1]) - PIXEL_RADIUS - Scalar(0.5), Scalar(-1.0), Scalar(height)))), 0
    )
    bottom = (
        int(wp.ceil(wp.clamp(wp.max(a[1], b[1]) + PIXEL_RADIUS - Scalar(0.5), Scalar(-1.0), Scalar(height - 1)))) + 1
    )
    left = wp.max(
        int(wp.floor(wp.clamp(wp.min(a[0], b[0]) - PIXEL_RADIUS - Scalar(0.5), Scalar(-1.0), Scalar(width)))), 0
    )
    right = int(wp.ceil(wp.clamp(wp.max(a[0], b[0]) + PIXEL_RADIUS - Scalar(0.5), Scalar(-1.0), Scalar(width - 1)))) + 1
    for row in range(top, bottom):
        for column in range(left, right):
            if alpha[image, row, column] > Scalar(0.0):
                square = to_segment(centre(row, column), a, b, 0).square
                if square <= PIXEL_RADIUS * PIXEL_RADIUS:
                    rank = wp.int64(1) + wp.int64((Scalar(1.0) - square) * MARK_STEPS)
                    wp.atomic_max(key, image, row, column, (rank << wp.int64(32)) | (MAX_MARK - low))
