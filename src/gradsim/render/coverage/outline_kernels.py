# pyright: reportInvalidTypeForm=false
"""Which parts of silhouette edges are on the outline of a mesh that is not convex: a template for `engine.lanes`.

An edge is cut where other silhouette edges cross it, and of each part the outer side is looked at: the part is on the outline
if there are no layers there (quantitative invisibility, Appel 1967).

Only edges at the height of a point or of an edge matter, so `arrange` sorts them into bins by their upper ends (counting
sort), with what is read of them side by side in memory: of a body of 436 faces on 64² pixels a fifth of the time.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import Scalar

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.coverage.edge_kernels import Edge, jump

Point = wp.types.vector(2, Scalar)  # x to the right, y down [px]
Extent = wp.types.vector(4, Scalar)  # upper and lower end, left and right end of an edge [px]

# [px] distance from an edge at which its outer side is sampled; in double precision
MAX_SIDE_DISTANCE = wp.constant(Scalar(1.0e-9))
COINCIDENCE_TOLERANCE = wp.constant(Scalar(1.0e-8))  # [px] between outlines in one place


@wp.struct
class Outline:
    """Silhouette edges, a page for each body that is drawn at a time."""

    edges: wp.array2d[int]  # numbers in the mesh, (pages, edges)
    extent: wp.array2d[Extent]  # in the order of bins; so `about`
    about: wp.array2d[wp.vec4i]  # the vertices of the ends, layers on the left more than on the right, place in `edges`
    begin: wp.array2d[int]  # where the next bin begins, (pages, edges)
    # first column of each row that edges touch with the body on one side, and that after the last, and of the other, (pages, rows, 4)
    band: wp.array3d[int]


@wp.struct
class Bins:
    """Bins of equal height by the upper ends of edges."""

    count: int
    top: Scalar  # [px]
    scale: Scalar  # [1/px]
    tallest: Scalar  # height of the tallest edge [px]


@wp.func
def empty_band(outline: Outline, page: int, first: int, last: int, width: int):
    """Rows `first` to `last` - 1 without columns that the outline touches."""
    for row in range(first, last):
        for side in range(2):
            outline.band[page, row, 2 * side] = width
            outline.band[page, row, 2 * side + 1] = 0


@wp.func
def widen_band(outline: Outline, page: int, row: int, sign: Scalar, first: int, last: int):
    """Columns `first` to `last` - 1 of a row are touched by an edge of this sign."""
    side = wp.where(sign > Scalar(0.0), 0, 2)
    outline.band[page, row, side] = wp.min(outline.band[page, row, side], first)
    outline.band[page, row, side + 1] = wp.max(outline.band[page, row, side + 1], last)


@wp.func
def touched(outline: Outline, page: int, row: int):
    """Columns of a row that the outline touches: from a first to before a second, and from a third to before a fourth."""
    a = outline.band[page, row, 0]
    a_end = outline.band[page, row, 1]
    b = outline.band[page, row, 2]
    b_end = outline.band[page, row, 3]
    first = wp.min(a, b)
    end = wp.max(a_end, b_end)
    if first >= end:
        return wp.vec4i(0, 0, 0, 0)
    if a >= a_end or b >= b_end or wp.min(a_end, b_end) >= wp.max(a, b):
        return wp.vec4i(first, end, end, end)
    return wp.vec4i(first, wp.min(a_end, b_end), wp.max(a, b), end)


@wp.func
def bin_of(bins: Bins, y: Scalar):
    return wp.clamp(int((y - bins.top) * bins.scale), 0, bins.count - 1)


@wp.func
def arrange(screen: wp.array2d[Point], edges: wp.array[wp.vec4i], front: wp.array2d[wp.bool], outline: Outline, body: int, page: int, count: int, top: Scalar, bottom: Scalar):  # fmt: skip
    """Sort the listed edges of a body between two heights into as many bins; fills `extent`, `about` and `begin`."""
    bins = Bins()
    bins.count = count
    bins.top = top
    bins.scale = Scalar(count) / wp.max(bottom - top, COINCIDENCE_TOLERANCE)
    for m in range(count):
        outline.begin[page, m] = 0
    for m in range(count):
        k = outline.edges[page, m]
        one = screen[body, edges[k][0]][1]
        other = screen[body, edges[k][1]][1]
        bins.tallest = wp.max(bins.tallest, wp.abs(one - other))
        place = bin_of(bins, wp.min(one, other))
        outline.begin[page, place] = outline.begin[page, place] + 1
    before = wp.int32(0)
    for m in range(count):
        size = outline.begin[page, m]
        outline.begin[page, m] = before
        before += size
    for m in range(count):
        k = outline.edges[page, m]
        a = screen[body, edges[k][0]]
        b = screen[body, edges[k][1]]
        place = bin_of(bins, wp.min(a[1], b[1]))
        slot = outline.begin[page, place]
        outline.begin[page, place] = slot + 1  # so that in the end it is where the next bin begins
        outline.extent[page, slot] = Extent(
            wp.min(a[1], b[1]), wp.max(a[1], b[1]), wp.min(a[0], b[0]), wp.max(a[0], b[0])
        )
        outline.about[page, slot] = wp.vec4i(edges[k][0], edges[k][1], jump(edges, front, body, k), m)
    return bins


@wp.func
def slots(outline: Outline, page: int, bins: Bins, upper: Scalar, lower: Scalar):
    """First slot, and the one after the last, of all edges that may reach between two heights."""
    first = bin_of(bins, upper - bins.tallest - COINCIDENCE_TOLERANCE)
    begin = wp.int32(0)
    if first > 0:
        begin = outline.begin[page, first - 1]
    return begin, outline.begin[page, bin_of(bins, lower)]


@wp.func
def layers(screen: wp.array2d[Point], body: int, outline: Outline, page: int, bins: Bins, edge: Edge, number: int, p: Point, inner: Point):  # fmt: skip
    """Number of faces adjacent to an edge at p: the sum over the silhouette edges to its left.

    Of outlines that lie in one place, as of a body that is there twice, the first in the list is the outer one: those
    before are looked at from the inner side. `number`: of the edge in the list.
    """
    total = Scalar(0.0)
    begin, end = slots(outline, page, bins, p[1], p[1])
    for slot in range(begin, end):
        extent = outline.extent[page, slot]
        if extent[0] > p[1] or extent[1] <= p[1] or extent[2] > p[0] + COINCIDENCE_TOLERANCE:
            continue
        about = outline.about[page, slot]
        a = screen[body, about[0]]
        b = screen[body, about[1]]
        # which side of the line, by the upper end first, as for the neighbour that shares it
        down = wp.where(b[1] < a[1], Scalar(-1.0), Scalar(1.0))
        along = (b - a) * down
        right = along[0] * (p[1] - a[1]) - (p[0] - a[0]) * along[1]
        if about[3] < number and wp.abs(right) <= COINCIDENCE_TOLERANCE * wp.length(along):  # noqa: SIM102 -- Warp works out both sides of `and`
            if down * Scalar(about[2]) * edge.sign > Scalar(0.0):
                right = along[0] * (inner[1] - a[1]) - (inner[0] - a[0]) * along[1]
        if right < Scalar(0.0):
            total += down * Scalar(about[2])
    return total


@wp.func
def next_cut(screen: wp.array2d[Point], body: int, outline: Outline, page: int, bins: Bins, edge: Edge, start: Scalar):
    """Fraction of an edge, after `start`, at which another silhouette edge first crosses it; 1 if none does."""
    cut = Scalar(1.0)
    d = edge.bottom - edge.top
    left = wp.min(edge.top[0], edge.bottom[0])
    right = wp.max(edge.top[0], edge.bottom[0])
    begin, end = slots(outline, page, bins, edge.top[1], edge.bottom[1])
    for slot in range(begin, end):
        extent = outline.extent[page, slot]
        if extent[1] < edge.top[1] or extent[0] > edge.bottom[1] or extent[3] < left or extent[2] > right:
            continue
        about = outline.about[page, slot]
        i = about[0]
        j = about[1]
        if i == edge.first or i == edge.second or j == edge.first or j == edge.second:
            continue
        a = screen[body, i] - edge.top
        b = screen[body, j] - edge.top
        from_a = d[0] * a[1] - d[1] * a[0]
        from_b = d[0] * b[1] - d[1] * b[0]
        if (from_a < Scalar(0.0)) == (from_b < Scalar(0.0)):
            continue
        e = b - a
        t = (a[0] * e[1] - a[1] * e[0]) / (d[0] * e[1] - d[1] * e[0])
        if t > start and t < cut:
            cut = t
    return cut


@wp.func
def is_outer(screen: wp.array2d[Point], body: int, outline: Outline, page: int, bins: Bins, edge: Edge, number: int, fraction: Scalar):  # fmt: skip
    """True if nothing lies on the outer side of an edge with its number in the list."""
    aside = edge.normal * (edge.sign * MAX_SIDE_DISTANCE / wp.length(edge.normal))
    p = edge.top + (edge.bottom - edge.top) * fraction
    return layers(screen, body, outline, page, bins, edge, number, p - aside, p + aside) < Scalar(0.5)
