# pyright: reportInvalidTypeForm=false
"""Semi-Lagrangian advection and its adjoint: a template for `engine.lanes`.

`dimensions` (2 or 3) and `walled` (a bool for each axis) are bound by `specialize`. Lengths are in cells: cell c spans
[c, c + 1] along each axis. With τ = dt/h, the value at a node x is that at the position of a particle one step before,
by the midpoint rule,

    x_m = x − ½ τ u(x),    x_d = x − τ u(x_m),    q'(x) = q(x_d)                       (Stam 1999, Sec. 2.3)

where q(·) and the components of u(·) are multilinear between their own nodes: a component of a velocity has nodes at the
lower faces of cells along its own axis (Harlow & Welch 1965), all else at centres. The adjoint of x_d goes to the 2^d
nodes around x_m, then through x_m to those around x.

Beyond a wall, values at centres equal those of the outermost centre, and the velocity through the wall is 0 on it. Next
to solid cells, densities are weighted means over the nodes in fluid, so they stay between the smallest and the largest.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import Scalar

if TYPE_CHECKING:  # bound by `specialize`
    dimensions, walled = 3, (False, False, False)

CORNERS = 2**dimensions
PAIRS = CORNERS // 2
LAST_AXIS = dimensions - 1
NO_OFFSET = -(1 << 28)  # offset of an upper wall, where velocities are 0 and stored nowhere
Point = wp.types.vector(dimensions, Scalar)
Values = wp.types.vector(CORNERS, Scalar)
Sizes = wp.types.vector(dimensions, wp.int32)


@wp.struct
class Box:
    sizes: Sizes  # cells along each axis
    strides: Sizes
    walls: Sizes  # 1 along axes that end in them
    count: wp.int32  # cells
    run: wp.int32  # cells of a line that one thread goes through: all on a CPU, since to place a cell takes divisions


@wp.struct
class Taps:
    """The nodes around a point."""

    lower: Sizes  # offset of the lower ones along each axis
    upper: Sizes
    f: Point  # how far the point is from lower to upper
    slope: Point  # df/dx


@wp.func
def taps(box: Box, x: Point, axis: int):
    """Those of component `axis` of a velocity, or of what is at centres (-1)."""
    t = Taps()
    for a in range(dimensions):
        n = box.sizes[a]
        p = x[a]
        if a != axis:
            p -= Scalar(0.5)
        slope = Scalar(1.0)
        lower = wp.int32(0)
        upper = wp.int32(0)
        if wp.static(walled[a]):
            last = n
            if a != axis:
                last = n - 1
            if p < Scalar(0.0) or p > Scalar(last):
                slope = Scalar(0.0)
            p = wp.clamp(p, Scalar(0.0), Scalar(last))
            lower = wp.clamp(wp.int32(p), 0, last - 1)
            t.f[a] = p - Scalar(lower)
            upper = (lower + 1) * box.strides[a]
            if lower + 1 == n:
                upper = NO_OFFSET
        else:
            lower = wp.int32(p)
            if p < Scalar(lower):  # floor, without a call
                lower -= 1
            t.f[a] = p - Scalar(lower)
            if lower < 0 or lower >= n:
                lower = wp.clamp(((lower % n) + n) % n, 0, n - 1)
            upper = (lower + 1) * box.strides[a]
            if lower + 1 == n:
                upper = wp.int32(0)
        t.lower[a] = lower * box.strides[a]
        t.upper[a] = upper
        t.slope[a] = slope
    return t


@wp.func
def node(t: Taps, corner: int):
    """Index of one of the nodes; negative at a wall."""
    index = wp.int32(0)
    for a in range(dimensions):
        if (corner >> a) & 1 == 1:
            index += t.upper[a]
        else:
            index += t.lower[a]
    return index


@wp.func
def share(t: Taps, corner: int):
    """Its weight."""
    w = Scalar(1.0)
    for a in range(dimensions):
        if (corner >> a) & 1 == 1:
            w *= t.f[a]
        else:
            w *= Scalar(1.0) - t.f[a]
    return w


@wp.func
def around(q: wp.array[Scalar], base: int, t: Taps):
    """Values of the nodes; `base` is where the row begins."""
    v = Values()
    for c in range(CORNERS):
        k = node(t, c)
        if wp.static(True in walled):
            if k >= 0:
                v[c] = q[base + k]
        else:
            v[c] = q[base + k]
    return v


@wp.func
def mean(v: Values, t: Taps):
    """Multilinear interpolation of the nodes, one axis after another."""
    for a in range(dimensions):
        for c in range(PAIRS):
            v[c] = v[2 * c] + t.f[a] * (v[2 * c + 1] - v[2 * c])
    return v[0]


@wp.func
def steepness(v: Values, t: Taps):
    """Gradient of `mean` with respect to the point."""
    g = Point()
    for b in range(dimensions):
        w = Values(v)
        for a in range(dimensions):
            for c in range(PAIRS):
                if a == b:
                    w[c] = w[2 * c + 1] - w[2 * c]
                else:
                    w[c] = w[2 * c] + t.f[a] * (w[2 * c + 1] - w[2 * c])
        g[b] = t.slope[b] * w[0]
    return g


@wp.func
def scatter(g: Scalar, base: int, t: Taps, q_adjoint: wp.array[Scalar]):
    """Adds the adjoint of `mean` by the nodes."""
    for c in range(CORNERS):
        k = node(t, c)
        if wp.static(True in walled):
            if k >= 0:
                wp.atomic_add(q_adjoint, base + k, g * share(t, c))
        else:
            wp.atomic_add(q_adjoint, base + k, g * share(t, c))


@wp.func
def flow(u: wp.array[Scalar], first: int, box: Box, x: Point):
    """Velocity at a point; `first` is where the world begins."""
    v = Point()
    for b in range(dimensions):
        t = taps(box, x, b)
        v[b] = mean(around(u, first + b * box.count, t), t)
    return v


@wp.func
def flow_adjoint(u: wp.array[Scalar], first: int, box: Box, x: Point, g: Point, u_adjoint: wp.array[Scalar]):
    """Adds the adjoint of `flow` by the velocities, and returns that by the point."""
    to_x = Point()
    for b in range(dimensions):
        t = taps(box, x, b)
        base = first + b * box.count
        to_x += g[b] * steepness(around(u, base, t), t)
        scatter(g[b], base, t, u_adjoint)
    return to_x


@wp.struct
class Line:
    """Cells that one thread processes."""

    begin: wp.int32  # in arrays
    row: wp.int32  # where its row begins
    first: wp.int32  # where the velocity of its world begins
    axis: wp.int32  # of the velocity component in its row; -1 for values at centres
    cell: Sizes  # first cell


@wp.func
def line(box: Box, thread: int, components: int):
    path = Line()
    path.begin = thread * box.run
    row = path.begin // box.count
    path.row = row * box.count
    path.first = row // components * dimensions * box.count
    path.axis = wp.int32(-1)
    if components > 1:
        path.axis = row % dimensions
    rest = path.begin - path.row
    for a in range(dimensions):
        k = rest // box.strides[a]
        rest -= k * box.strides[a]
        path.cell[a] = k
    return path


@wp.func
def cell_of(path: Line, k: int):
    """Its k-th cell."""
    cell = path.cell
    cell[LAST_AXIS] += k
    return cell


@wp.func
def place(cell: Sizes, axis: int):
    """Position of the node of a cell."""
    x = Point()
    for a in range(dimensions):
        x[a] = Scalar(cell[a])
        if a != axis:
            x[a] += Scalar(0.5)
    return x


@wp.func
def ahead(box: Box, cell: Sizes, a: int):
    """Offset of the next cell along an axis."""
    if cell[a] + 1 < box.sizes[a]:
        return box.strides[a]
    if box.walls[a] == 1:
        return NO_OFFSET
    return -cell[a] * box.strides[a]


@wp.func
def behind(box: Box, cell: Sizes, axis: int):
    """Offset of the cell before along the axis of a component; next to a wall, where the fluid slips, of the cell itself."""
    offset = wp.int32(0)
    for a in range(dimensions):
        if a == axis:
            if cell[a] > 0:
                offset = -box.strides[a]
            elif box.walls[a] == 0:
                offset = (box.sizes[a] - 1) * box.strides[a]
    return offset


@wp.func
def two(u: wp.array[Scalar], at: int, up: int):
    """Sum of the velocities through two faces of a cell."""
    value = u[at]
    if up > NO_OFFSET:
        value += u[at + up]
    return value


@wp.func
def two_adjoint(g: Scalar, at: int, up: int, u_adjoint: wp.array[Scalar]):
    wp.atomic_add(u_adjoint, at, g)
    if up > NO_OFFSET:
        wp.atomic_add(u_adjoint, at + up, g)


@wp.func
def flow_here(u: wp.array[Scalar], box: Box, path: Line, k: int):
    """`flow` at the k-th node itself, where all weights are equal."""
    v = Point()
    cell = cell_of(path, k)
    back = behind(box, cell, path.axis)
    for b in range(dimensions):
        at = path.first + b * box.count + path.begin - path.row + k
        if b == path.axis:
            v[b] = u[at]
        elif path.axis < 0:
            v[b] = Scalar(0.5) * two(u, at, ahead(box, cell, b))
        else:
            up = ahead(box, cell, b)
            v[b] = Scalar(0.25) * (two(u, at, up) + two(u, at + back, up))
    return v


@wp.func
def flow_here_adjoint(box: Box, path: Line, k: int, g: Point, u_adjoint: wp.array[Scalar]):
    """Adds the adjoint of `flow_here` by the velocities."""
    cell = cell_of(path, k)
    back = behind(box, cell, path.axis)
    for b in range(dimensions):
        at = path.first + b * box.count + path.begin - path.row + k
        if b == path.axis:
            wp.atomic_add(u_adjoint, at, g[b])
        elif path.axis < 0:
            two_adjoint(Scalar(0.5) * g[b], at, ahead(box, cell, b), u_adjoint)
        else:
            up = ahead(box, cell, b)
            two_adjoint(Scalar(0.25) * g[b], at, up, u_adjoint)
            two_adjoint(Scalar(0.25) * g[b], at + back, up, u_adjoint)


@wp.func
def half_way(u: wp.array[Scalar], box: Box, path: Line, k: int, tau: Point):
    """x_m."""
    return place(cell_of(path, k), path.axis) - Scalar(0.5) * wp.cw_mul(tau, flow_here(u, box, path, k))


@wp.func
def origin(u: wp.array[Scalar], box: Box, path: Line, k: int, tau: Point, middle: Point):
    """The nodes around x_d."""
    x = place(cell_of(path, k), path.axis) - wp.cw_mul(tau, flow(u, path.first, box, middle))
    return taps(box, x, path.axis)


@wp.func
def in_fluid(fluid: wp.array[Scalar], t: Taps):
    """Interpolation weight of the nodes in fluid."""
    return mean(around(fluid, 0, t), t)


@wp.func
def arrived(values: Values, at_node: Scalar, cell: int, fluid: wp.array[Scalar], masked: int, t: Taps):
    """Advected value at a node, from the values around x_d and its own."""
    value = mean(values, t)
    if masked == 1:
        weight = in_fluid(fluid, t)
        if fluid[cell] == Scalar(0.0):
            return Scalar(0.0)
        if weight == Scalar(0.0):  # x_d is deep inside a solid
            return at_node
        return value / weight
    return value


@wp.func
def extreme(values: Values, t: Taps, sign: Scalar):
    """Node with the largest value times `sign`; -2 for a wall."""
    corner = wp.int32(0)
    best = values[0]
    for c in range(1, CORNERS):
        if sign * values[c] > sign * best:
            best = values[c]
            corner = c
    return wp.max(node(t, corner), -2)


@wp.kernel(enable_backward=False)
def advect(
    q: wp.array[Scalar],  # (worlds, components, cells)
    u: wp.array[Scalar],  # (worlds, dimensions, cells) [m/s]
    fluid: wp.array[Scalar],  # (cells), 0 in solid cells
    masked: int,  # whether q heeds solid cells, where it has to be 0
    components: int,
    box: Box,
    tau: Point,  # [s/m]
    # out
    moved: wp.array[Scalar],
    least: wp.array[wp.int32],  # nodes of the row, of those around x_d; none if empty
    largest: wp.array[wp.int32],
):
    path = line(box, wp.tid(), components)
    for k in range(box.run):
        i = path.begin + k
        t = origin(u, box, path, k, tau, half_way(u, box, path, k, tau))
        values = around(q, path.row, t)
        moved[i] = arrived(values, q[i], i - path.row, fluid, masked, t)
        if least.shape[0] > 0:
            least[i] = extreme(values, t, Scalar(-1.0))
            largest[i] = extreme(values, t, Scalar(1.0))


@wp.kernel(enable_backward=False)
def advect_adjoint(
    q: wp.array[Scalar],
    u: wp.array[Scalar],
    fluid: wp.array[Scalar],
    masked: int,
    components: int,
    box: Box,
    tau: Point,
    moved_adjoint: wp.array[Scalar],
    # out, added to
    q_adjoint: wp.array[Scalar],
    u_adjoint: wp.array[Scalar],
):
    path = line(box, wp.tid(), components)
    for k in range(box.run):
        i = path.begin + k
        g = moved_adjoint[i]
        middle = half_way(u, box, path, k, tau)
        t = origin(u, box, path, k, tau, middle)
        values = around(q, path.row, t)
        if masked == 1:
            weight = in_fluid(fluid, t)
            if fluid[i - path.row] == Scalar(0.0):
                g = Scalar(0.0)
            elif weight == Scalar(0.0):
                wp.atomic_add(q_adjoint, i, g)
                g = Scalar(0.0)
            else:
                values -= mean(values, t) / weight * around(fluid, 0, t)
                g /= weight
        if g != Scalar(0.0):
            scatter(g, path.row, t, q_adjoint)
            to_x = -g * wp.cw_mul(tau, steepness(values, t))
            to_x = flow_adjoint(u, path.first, box, middle, to_x, u_adjoint)
            flow_here_adjoint(box, path, k, Scalar(-0.5) * wp.cw_mul(tau, to_x), u_adjoint)


@wp.kernel(enable_backward=False)
def correct(
    q: wp.array[Scalar],
    u: wp.array[Scalar],
    fluid: wp.array[Scalar],
    masked: int,
    components: int,
    box: Box,
    tau: Point,  # of time reversed
    moved: wp.array[Scalar],
    least: wp.array[wp.int32],
    largest: wp.array[wp.int32],
    # out
    corrected: wp.array[Scalar],
    source: wp.array[Scalar],  # node whose value was taken; -1 for none, -2 for what is 0
):
    path = line(box, wp.tid(), components)
    for k in range(box.run):
        i = path.begin + k
        t = origin(u, box, path, k, tau, half_way(u, box, path, k, tau))
        returned = arrived(around(moved, path.row, t), moved[i], i - path.row, fluid, masked, t)
        value = moved[i] + Scalar(0.5) * (q[i] - returned)
        taken = wp.int32(-1)
        low = Scalar(0.0)
        high = Scalar(0.0)
        if least[i] >= 0:
            low = q[path.row + least[i]]
        if largest[i] >= 0:
            high = q[path.row + largest[i]]
        if value < low:
            value = low
            taken = least[i]
        elif value > high:
            value = high
            taken = largest[i]
        if masked == 1 and fluid[i - path.row] == Scalar(0.0):
            value = Scalar(0.0)
            taken = -2
        corrected[i] = value
        source[i] = Scalar(taken)


@wp.kernel(enable_backward=False)
def correct_adjoint(
    source: wp.array[Scalar],
    corrected_adjoint: wp.array[Scalar],
    box: Box,
    # out
    moved_adjoint: wp.array[Scalar],
    returned_adjoint: wp.array[Scalar],
    q_adjoint: wp.array[Scalar],  # added to
):
    path = line(box, wp.tid(), 1)
    for k in range(box.run):
        i = path.begin + k
        g = corrected_adjoint[i]
        taken = wp.int32(source[i])
        if taken >= 0:
            wp.atomic_add(q_adjoint, path.row + taken, g)
        if taken != -1:
            g = Scalar(0.0)
        moved_adjoint[i] = g
        returned_adjoint[i] = Scalar(-0.5) * g
        wp.atomic_add(q_adjoint, i, Scalar(0.5) * g)
