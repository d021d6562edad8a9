# pyright: reportInvalidTypeForm=false
"""Division of pixels by edges that occlude something: a template for `engine.lanes`.

Both sides of such an edge are visible in a pixel that it crosses: one at its centre, the other in one of its four
neighbours. Seen from the centre o, a piece of an edge from p to q hides

    ¼ |s_q − s_p| − ½ |(p − o) × (q − o)|

of its pixel, where s is the place on the pixel's border, from 0 to 4, that lies behind a point. Over the pieces of a
closed outline these areas, with the signs of the sides that they are seen from, add up to all that lies on the other
side: exact shares wherever one outline crosses a pixel, with exact derivatives (those of areas, `coverage/kernels.py`).
(Laine et al. 2020, Sec. 3.6, whose idea it is to mix neighbours, take the distance to the crossing for the area.)

Creases, the edges inside a surface over which its shade jumps, divide pixels in the same way.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import Scalar

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.antialias.edge_kernels import Border, border, is_outline
    from gradsim.render.antialias.neighbour_mix_kernels import ABOVE, BELOW, LEFT, NEAR_SIDE, RIGHT, column_of, row_of
    from gradsim.render.coverage.edge_kernels import cell, in_column, in_row
    from gradsim.render.raster.fragment_kernels import behind, flat_adjoint

Corner = wp.types.vector(3, Scalar)  # homogeneous pixel (u z, v z, z)
Point = wp.types.vector(2, Scalar)  # x to the right, y down [px]
Four = wp.types.vector(4, Scalar)  # x, y of the left end and of the right end of a piece [px]

SAME_PART_DEPTH = wp.constant(Scalar(1.0e-4))  # relative depths of one part that are no step: neighbours in one surface
# ... of another part that lies behind an edge, or that the edge's part rests on
OTHER_PART_DEPTH = wp.constant(Scalar(1.0e-3))
MIN_SQUARE = wp.constant(Scalar(1.0e-12))  # [px²] so that derivatives stay finite where a vertex lies on a centre
CREASE_DEPTH = wp.constant(Scalar(3.0e-3))  # relative depths of one part at a crease that belong to one surface
# [px] from an edge, below which the z-buffer decides on which side a centre is
EDGE_TOLERANCE = wp.constant(Scalar(1.0e-4))

INSIDE = wp.constant(3)
INNER, OUTER, NEITHER = wp.constant(1), wp.constant(-1), wp.constant(0)


@wp.struct
class Split:
    """Division of a pixel by a piece of an edge."""

    used: bool
    shown_side: int  # the side visible at the centre
    way: int  # to the neighbour that shows the other side
    share: Scalar  # of it, to be added to those of other pieces
    sign: Scalar  # of the hidden area in the share
    by_a: Point  # d hidden area / d left end of the piece
    by_b: Point  # ... right end


@wp.func
def depth_at(clip: wp.array2d[Corner], image: int, corners: wp.vec3i, p: Point):
    """Depth of a triangle's plane at a point of the screen (`zbuffer_kernels.py`); at most 0 where it is not seen."""
    h = clip[image, corners[0]]
    a = Corner(h[0] - p[0] * h[2], h[1] - p[1] * h[2], h[2])
    h = clip[image, corners[1]]
    b = Corner(h[0] - p[0] * h[2], h[1] - p[1] * h[2], h[2])
    h = clip[image, corners[2]]
    c = Corner(h[0] - p[0] * h[2], h[1] - p[1] * h[2], h[2])
    total = (b[0] * c[1] - b[1] * c[0]) + (c[0] * a[1] - c[1] * a[0]) + (a[0] * b[1] - a[1] * b[0])
    if total == Scalar(0.0):
        return Scalar(0.0)
    return wp.dot(a, wp.cross(b, c)) / total


@wp.func
def facet_side(clip: wp.array2d[Corner], faces: wp.array[wp.vec3i], part_of: wp.array[int], owner: wp.array[wp.vec4i], border_edge: Border, k: int, p: Point, edge_depth: Scalar):  # fmt: skip
    """On which side of a crease, at its point p of depth `edge_depth`, lies the surface that fragment k shows."""
    face = owner[k][1]
    if face == border_edge.face:
        return INNER
    if face == border_edge.back:
        return OUTER
    depth = depth_at(clip, border_edge.image, faces[face], p)
    if (
        part_of[face] != border_edge.part
        or depth <= Scalar(0.0)
        or wp.abs(depth - edge_depth) > edge_depth * CREASE_DEPTH
    ):
        return NEITHER
    centre = Point(Scalar(owner[k][2]) + Scalar(0.5), Scalar(owner[k][3]) + Scalar(0.5))
    return wp.where(
        border_edge.edge.sign * wp.dot(centre - border_edge.edge.top, border_edge.edge.normal) > Scalar(0.0),
        INNER,
        OUTER,
    )


@wp.func
def side(clip: wp.array2d[Corner], faces: wp.array[wp.vec3i], part_of: wp.array[int], owner: wp.array[wp.vec4i], touched_edge: wp.array[int], rows: wp.array3d[int], border_edge: Border, is_free: bool, row: int, column: int, p: Point, edge_depth: Scalar):  # fmt: skip
    """On which side of an edge, at its point p of depth `edge_depth`, lies what a pixel shows.

    `is_free`: True if the edge's part has nothing behind the edge; else only its own part counts as behind.
    """
    if row < 0 or column < 0 or row >= rows.shape[1] or column >= rows.shape[2]:
        return NEITHER
    k = rows[border_edge.image, row, column]
    if k < 0:
        return NEITHER
    if border_edge.crease:
        return facet_side(clip, faces, part_of, owner, border_edge, k, p, edge_depth)
    if touched_edge[k] != INSIDE:
        return NEITHER
    face = owner[k][1]
    if (part_of[face] == border_edge.part) == is_free:
        return wp.where(is_free, INNER, NEITHER)
    depth = depth_at(clip, border_edge.image, faces[face], p)
    if not is_free:
        if (
            face == border_edge.face
            or face == border_edge.back
            or (depth > Scalar(0.0) and depth <= edge_depth * (Scalar(1.0) + SAME_PART_DEPTH))
        ):
            return INNER
        return OUTER
    if depth <= Scalar(0.0) or depth >= edge_depth * (Scalar(1.0) - OTHER_PART_DEPTH):
        return OUTER
    # the plane of what is round rises before it
    centre = depth_at(
        clip, border_edge.image, faces[face], Point(Scalar(column) + Scalar(0.5), Scalar(row) + Scalar(0.5))
    )
    return wp.where(centre >= edge_depth, OUTER, NEITHER)


@wp.func
def along_border(p: Point):
    """Position on the border of a pixel, 0 to 4, where the ray from its centre through p leaves it."""
    if wp.abs(p[0]) >= wp.abs(p[1]):
        if p[0] == Scalar(0.0):
            return Scalar(0.0)
        return wp.where(p[0] > Scalar(0.0), Scalar(0.5), Scalar(2.5)) + Scalar(0.5) * p[1] / p[0]
    return wp.where(p[1] > Scalar(0.0), Scalar(1.5), Scalar(3.5)) - Scalar(0.5) * p[0] / p[1]


@wp.func
def turned(p: Point):
    """q with q · d = p × d."""
    return Point(-p[1], p[0])


@wp.func
def outermost(p: Point):
    """Square of the larger coordinate, from which ds = ½ (p × dp) / it."""
    m = wp.max(wp.abs(p[0]), wp.abs(p[1]))
    return wp.max(m * m, MIN_SQUARE)


@wp.func
def split(clip: wp.array2d[Corner], faces: wp.array[wp.vec3i], part_of: wp.array[int], owner: wp.array[wp.vec4i], touched_edge: wp.array[int], rows: wp.array3d[int], border_edge: Border, is_free: bool, row: int, column: int, piece: Four, p: Point):  # fmt: skip
    """Division of a pixel by a piece of an edge with middle p."""
    cut = Split()
    edge = border_edge.edge
    t = wp.clamp(wp.dot(p - edge.top, edge.axis), Scalar(0.0), Scalar(1.0))
    edge_depth = Scalar(1.0) / ((Scalar(1.0) - t) / border_edge.first_depth + t / border_edge.second_depth)
    cut.shown_side = side(
        clip, faces, part_of, owner, touched_edge, rows, border_edge, is_free, row, column, p, edge_depth
    )
    number = rows[border_edge.image, row, column]
    if is_free and touched_edge[number] != INSIDE:
        cut.shown_side = OUTER
    # of what lies beyond a neighbouring facet, the crease that is crossed first takes account
    if border_edge.crease and owner[number][1] != border_edge.face and owner[number][1] != border_edge.back:
        cut.shown_side = NEITHER
    if cut.shown_side == NEITHER:
        return cut
    # away from the side that the pixel shows, first along the axis that the edge is turned to, then along the other; at
    # sharp corners also the other way
    away = edge.normal * (-edge.sign * Scalar(cut.shown_side))
    steep = wp.abs(away[0]) >= wp.abs(away[1])
    for attempt in range(4):
        if not cut.used:
            if steep == (attempt == 0 or attempt == 3):
                cut.way = wp.where((away[0] > Scalar(0.0)) == (attempt < 2), RIGHT, LEFT)
            else:
                cut.way = wp.where((away[1] > Scalar(0.0)) == (attempt < 2), BELOW, ABOVE)
            x = column_of(column, cut.way)
            y = row_of(row, cut.way)
            cut.used = (
                side(clip, faces, part_of, owner, touched_edge, rows, border_edge, is_free, y, x, p, edge_depth)
                == -cut.shown_side
            )
    if not cut.used:
        return cut
    o = Point(Scalar(column) + Scalar(0.5), Scalar(row) + Scalar(0.5))
    a = Point(piece[0], piece[1]) - o
    b = Point(piece[2], piece[3]) - o
    swept = along_border(b) - along_border(a)
    if wp.abs(swept) > Scalar(2.0):
        swept -= wp.sign(swept) * Scalar(4.0)
    hidden = Scalar(0.25) * swept - Scalar(0.5) * (a[0] * b[1] - a[1] * b[0])
    # how far the centre is on the side that the pixel shows
    inside = -edge.sign * Scalar(cut.shown_side) * wp.dot(a, edge.normal)
    cut.sign = wp.where((hidden >= Scalar(0.0)) == (inside >= Scalar(0.0)), Scalar(1.0), Scalar(-1.0))
    cut.share = cut.sign * hidden
    if inside < Scalar(0.0) and wp.abs(swept) > Scalar(1.0) and -inside <= EDGE_TOLERANCE * wp.length(edge.normal):
        cut.share += Scalar(1.0)
    cut.by_a = turned(b) * Scalar(0.5) - turned(a) * (Scalar(0.125) / outermost(a))
    cut.by_b = turned(b) * (Scalar(0.125) / outermost(b)) - turned(a) * Scalar(0.5)
    return cut


@wp.kernel(enable_backward=False)
def divide(
    clip: wp.array2d[Corner],  # (images, vertices)
    faces: wp.array[wp.vec3i],
    part_of: wp.array[int],
    edges: wp.array[wp.vec4i],
    turn: wp.array2d[int],
    listed: wp.array[wp.vec3i],  # image, edge, and of creases 1, or -1 if they are seen from behind, else 0
    outline: wp.array[wp.vec2i],  # image and edge where turns are not 0, by image
    begin: wp.array[int],  # where those of each image begin, and the end
    owner: wp.array[wp.vec4i],  # image, face, column, row of each fragment
    touched_edge: wp.array[int],  # INSIDE, or the edge of the face that the pixel only touches
    rows: wp.array3d[int],  # number of the fragment at each pixel, -1: none
    near: wp.array[Scalar],  # [m]
    # out
    shares: wp.array2d[Scalar],  # (fragments, 5): of the neighbours; zero before
):
    border_edge = border(clip, edges, turn, part_of, near[0], listed[wp.tid()])
    if not border_edge.used:
        return
    edge = border_edge.edge
    height = rows.shape[1]
    width = rows.shape[2]
    for row in range(wp.max(cell(edge.top[1], height), 0), cell(edge.bottom[1], height - 1) + 1):
        line = in_row(edge, row)
        for column in range(wp.max(cell(line[0], width), 0), cell(line[2], width - 1) + 1):
            target = rows[border_edge.image, row, column]
            if target < 0:
                continue
            piece = in_column(edge, line, column)
            p = Point(Scalar(0.5) * (piece[0] + piece[2]), Scalar(0.5) * (piece[1] + piece[3]))
            is_free = False
            if not border_edge.crease:
                is_free = is_outline(clip, near[0], edges, turn, part_of, outline, begin, border_edge, p)
            cut = split(clip, faces, part_of, owner, touched_edge, rows, border_edge, is_free, row, column, piece, p)
            if cut.used:
                wp.atomic_add(shares, target, cut.way, cut.share)
                if cut.shown_side == INNER and not border_edge.crease:
                    wp.atomic_add(shares, target, NEAR_SIDE, cut.share)


@wp.kernel(enable_backward=False)
def divide_adjoint(
    clip: wp.array2d[Corner],  # (images, vertices)
    faces: wp.array[wp.vec3i],
    part_of: wp.array[int],
    edges: wp.array[wp.vec4i],
    turn: wp.array2d[int],
    listed: wp.array[wp.vec3i],  # image, edge, and of creases 1, or -1 if they are seen from behind, else 0
    outline: wp.array[wp.vec2i],  # image and edge where turns are not 0, by image
    begin: wp.array[int],  # where those of each image begin, and the end
    owner: wp.array[wp.vec4i],  # image, face, column, row of each fragment
    touched_edge: wp.array[int],  # INSIDE, or the edge of the face that the pixel only touches
    rows: wp.array3d[int],  # number of the fragment at each pixel, -1: none
    near: wp.array[Scalar],  # [m]
    shares_adjoint: wp.array2d[Scalar],
    # out
    clip_adjoint: wp.array2d[Corner],  # zero before
):
    border_edge = border(clip, edges, turn, part_of, near[0], listed[wp.tid()])
    if not border_edge.used:
        return
    edge = border_edge.edge
    height = rows.shape[1]
    width = rows.shape[2]
    to_top = Point()
    to_bottom = Point()
    for row in range(wp.max(cell(edge.top[1], height), 0), cell(edge.bottom[1], height - 1) + 1):
        line = in_row(edge, row)
        for column in range(wp.max(cell(line[0], width), 0), cell(line[2], width - 1) + 1):
            target = rows[border_edge.image, row, column]
            if target < 0:
                continue
            piece = in_column(edge, line, column)
            p = Point(Scalar(0.5) * (piece[0] + piece[2]), Scalar(0.5) * (piece[1] + piece[3]))
            is_free = False
            if not border_edge.crease:
                is_free = is_outline(clip, near[0], edges, turn, part_of, outline, begin, border_edge, p)
            cut = split(clip, faces, part_of, owner, touched_edge, rows, border_edge, is_free, row, column, piece, p)
            if cut.used:
                g = shares_adjoint[target, cut.way]
                if cut.shown_side == INNER and not border_edge.crease:
                    g += shares_adjoint[target, NEAR_SIDE]
                s = wp.dot(Point(piece[0], piece[1]) - edge.top, edge.axis)
                t = wp.dot(Point(piece[2], piece[3]) - edge.top, edge.axis)
                # ends that lie on the pixel's border slide along the edge, which changes nothing
                to_top += (cut.by_a * (Scalar(1.0) - s) + cut.by_b * (Scalar(1.0) - t)) * (cut.sign * g)
                to_bottom += (cut.by_a * s + cut.by_b * t) * (cut.sign * g)
    top = clip[border_edge.image, edge.first]
    bottom = clip[border_edge.image, edge.second]
    t = behind(top, bottom, near[0])
    s = behind(bottom, top, near[0])
    by_top = flat_adjoint(top + t * (bottom - top), to_top)
    by_bottom = flat_adjoint(bottom + s * (top - bottom), to_bottom)
    # the point where the near plane cuts the edge is far outside the image and has no derivative
    wp.atomic_add(clip_adjoint, border_edge.image, edge.first, (Scalar(1.0) - t) * by_top + s * by_bottom)
    wp.atomic_add(clip_adjoint, border_edge.image, edge.second, t * by_top + (Scalar(1.0) - s) * by_bottom)
