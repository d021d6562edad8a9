# pyright: reportInvalidTypeForm=false, reportIndexIssue=false, reportCallIssue=false
"""Sparse factors A ≈ L D Lᵀ of the Jacobian of an implicit step in blocks of 3 × 3, a template.

In the order of `numerics/elimination.py`, with B of a column before it is divided (George & Liu 1981, ch. 5):

    D_c⁻¹ = A_cc⁻¹,   A_rs ← A_rs - B_rc D_c⁻¹ B_scᵀ,   L_rc = B_rc D_c⁻¹            r ≥ s > c

A is assembled from its products with vectors of ones at vertices that share no row (Curtis, Powell & Reid 1974), and made
symmetric. A block of the diagonal that is not positive, as of elements that are squeezed, is replaced by its size.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.lanes import Vec3 as Vertex

ROWS = globals().get("ROWS", False)  # whether an array of vertices has rows of four numbers, see `engine/access.py`


@wp.struct
class Factors:
    """Pattern and numbers of the factors, for each thread."""

    vertex: wp.array[wp.int32]  # of each column
    start: wp.array[wp.int32]  # see `numerics/elimination.py`
    row: wp.array[wp.int32]
    colors: wp.array[wp.int32]
    color_start: wp.array[wp.int32]
    neighbor: wp.array[wp.int32]
    neighbor_entry: wp.array[wp.int32]
    neighbor_below: wp.array[wp.int32]
    neighbor_start: wp.array[wp.int32]
    pivot: wp.array2d[Mat3]  # A_cc, then D⁻¹
    lower: wp.array2d[Mat3]  # A below the diagonal, then L
    z: wp.array2d[Vec3]
    age: wp.array2d[
        wp.int32
    ]  # whether there are factors; products of the first step with them, in excess of it since, and before a step


if ROWS:

    @wp.func
    def get(x: wp.array[Vertex], j: int) -> Vec3:
        return vec3(x[j][0], x[j][1], x[j][2])

    @wp.func
    def put(x: wp.array[Vertex], j: int, a: Vec3):
        x[j] = Vertex(a[0], a[1], a[2], Scalar(0.0))

else:

    @wp.func
    def get(x: wp.array[Vertex], j: int) -> Vec3:
        return x[j]

    @wp.func
    def put(x: wp.array[Vertex], j: int, a: Vec3):
        x[j] = a


@wp.func
def axis_of(a: int, size: Scalar) -> Vec3:
    """The vector of an axis and a length."""
    o = zero(0)
    x = wp.where(a == 0, size, Scalar(0.0))
    y = wp.where(a == 1, size, Scalar(0.0))
    z = wp.where(a == 2, size, Scalar(0.0))
    return vec3(o + x, o + y, o + z)


@wp.func
def clear_factors(f: Factors, i: int):
    none = columns(zero3(0), zero3(0), zero3(0))
    for c in range(f.pivot.shape[1]):
        f.pivot[i, c] = none
    for t in range(f.lower.shape[1]):
        f.lower[i, t] = none


@wp.func
def set_probe(f: Factors, color: int, a: int, size: Scalar, p: wp.array[Vertex]):
    """Set the vertices of a color to a length along an axis."""
    for m in range(f.color_start[color], f.color_start[color + 1]):
        put(p, f.colors[m], axis_of(a, size))


@wp.func
def add_probe(f: Factors, i: int, color: int, a: int, q: wp.array[Vertex], d: wp.array[Vertex]):
    """Add the columns of A that a probe gives, symmetrically; those of diagonal blocks to `d`."""
    for m in range(f.color_start[color], f.color_start[color + 1]):
        j = f.colors[m]
        put(d, j, get(q, j))
    half = axis_of(a, Scalar(0.5))
    for m in range(f.neighbor_start[color], f.neighbor_start[color + 1]):
        t = f.neighbor_entry[m]
        y = get(q, f.neighbor[m])
        if f.neighbor_below[m] == 1:
            f.lower[i, t] = f.lower[i, t] + outer(y, half)
        else:
            f.lower[i, t] = f.lower[i, t] + outer(half, y)


@wp.func
def positive(a: Mat3) -> Mat3:
    """a where it is positive definite (Sylvester), or else its size times the identity."""
    o = zero(0)
    one = o + 1.0
    unit = columns(vec3(one, o, o), vec3(o, one, o), vec3(o, o, one))
    minors = min(dot(column0(a), column0(unit)), dot(column2(cofactor(a)), column2(unit)))
    size = max(abs(ddot(a, unit)) * (one / 3.0), spread(Scalar(1e-37)))
    return where(less(o, min(minors, det(a))), a, unit * size)


@wp.func
def make_factors(
    f: Factors,
    i: int,
    d0: wp.array[Vertex],  # columns of the diagonal blocks
    d1: wp.array[Vertex],
    d2: wp.array[Vertex],
):
    count = f.pivot.shape[1]
    for c in range(count):
        j = f.vertex[c]
        a = columns(get(d0, j), get(d1, j), get(d2, j))
        f.pivot[i, c] = (a + transpose(a)) * (zero(0) + 0.5)
    for c in range(count):
        a = positive(f.pivot[i, c])
        inverse = cofactor(a) * (1.0 / det(a))  # a is symmetric
        f.pivot[i, c] = inverse
        for m in range(f.start[c], f.start[c + 1]):
            s = f.row[m]
            right = transpose(f.lower[i, m] * inverse)
            f.pivot[i, s] = f.pivot[i, s] - f.lower[i, m] * right
            t = f.start[s]
            for n in range(m + 1, f.start[c + 1]):
                while f.row[t] != f.row[n]:
                    t += 1
                f.lower[i, t] = f.lower[i, t] - f.lower[i, n] * right
            f.lower[i, m] = transpose(right)


@wp.func
def solve_factors(f: Factors, i: int, r: wp.array[Vertex], p: wp.array[Vertex]):
    """p = (L D Lᵀ)⁻¹ r, and r of vertices without a column."""
    count = f.pivot.shape[1]
    for j in range(p.shape[0]):
        p[j] = r[j]
    for c in range(count):
        f.z[i, c] = get(r, f.vertex[c])
    for c in range(count):
        y = f.z[i, c]
        for m in range(f.start[c], f.start[c + 1]):
            s = f.row[m]
            f.z[i, s] = f.z[i, s] - f.lower[i, m] * y
    for e in range(count):
        c = count - 1 - e
        y = f.pivot[i, c] * f.z[i, c]
        for m in range(f.start[c], f.start[c + 1]):
            y = y - transpose(f.lower[i, m]) * f.z[i, f.row[m]]
        f.z[i, c] = y
        put(p, f.vertex[c], y)
