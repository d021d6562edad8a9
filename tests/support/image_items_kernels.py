# pyright: reportInvalidTypeForm=false
"""What single pixels get from single triangles and edges, by functions of the renderer: a template that Warp differentiates."""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import Scalar

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.antialias.edge_kernels import border
    from gradsim.render.antialias.kernels import split
    from gradsim.render.coverage.edge_kernels import cell, in_column, in_row
    from gradsim.render.dibr.kernels import MAX_SQUARED_DISTANCE, MIN_SQUARED_DISTANCE, expm1
    from gradsim.render.raster.fragment_kernels import Corner, Place, at_centre, at_foot, foot, relative
    from gradsim.render.raster.triangle_kernels import centre, to_border

Flat = wp.types.vector(2, Scalar)


@wp.kernel
def places(
    clip: wp.array2d[Corner],
    faces: wp.array[wp.vec3i],
    owner: wp.array[wp.vec4i],
    side: wp.array[int],
    # out
    place: wp.array[Place],
):
    k = wp.tid()
    own = owner[k]
    corners = faces[own[1]]
    x = Scalar(own[2]) + Scalar(0.5)
    y = Scalar(own[3]) + Scalar(0.5)
    if side[k] == 3:
        a = relative(clip[own[0], corners[0]], x, y)
        b = relative(clip[own[0], corners[1]], x, y)
        c = relative(clip[own[0], corners[2]], x, y)
        place[k] = at_centre(a, b, c)
    else:
        begin = clip[own[0], corners[side[k]]]
        end = clip[own[0], corners[(side[k] + 1) % 3]]
        place[k] = at_foot(foot(begin, end, x, y), begin, end, side[k])


@wp.kernel
def fades(
    screen: wp.array2d[Corner],
    faces: wp.array[wp.vec3i],
    delta: Scalar,
    # out
    clear: wp.array3d[Scalar],  # (faces, rows, columns), of image 0
):
    face, row, column = wp.tid()
    k = faces[face]
    x = to_border(centre(row, column), screen[0, k[0]], screen[0, k[1]], screen[0, k[2]]).square / delta
    if x <= MAX_SQUARED_DISTANCE:
        clear[face, row, column] = wp.log(-expm1(-wp.max(x, MIN_SQUARED_DISTANCE)))


@wp.kernel
def shares(
    clip: wp.array2d[Corner],
    frozen: wp.array2d[Corner],  # the same, for what has no derivative
    faces: wp.array[wp.vec3i],
    part_of: wp.array[int],
    edges: wp.array[wp.vec4i],
    turn: wp.array2d[int],
    listed: wp.array[wp.vec3i],
    owner: wp.array[wp.vec4i],
    beside: wp.array[int],
    rows: wp.array3d[int],
    near: Scalar,
    # out
    share: wp.array3d[Scalar],  # (listed edges, rows, columns)
    way: wp.array3d[int],
    own: wp.array3d[int],
):
    m, row, column = wp.tid()
    found = border(clip, edges, turn, part_of, near, listed[m])
    edge = found.edge
    if found.used and row >= cell(edge.top[1], rows.shape[1]) and row <= cell(edge.bottom[1], rows.shape[1] - 1):
        line = in_row(edge, row)
        if column >= cell(line[0], rows.shape[2]) and column <= cell(line[2], rows.shape[2] - 1):
            piece = in_column(edge, line, column)
            p = Flat(Scalar(0.5) * (piece[0] + piece[2]), Scalar(0.5) * (piece[1] + piece[3]))
            cut = split(frozen, faces, part_of, owner, beside, rows, found, not found.crease, row, column, piece, p)
            if cut.used:
                share[m, row, column] = cut.share
                way[m, row, column] = cut.way
                own[m, row, column] = cut.shown_side
