"""Solve A y = r by least residuals along the last directions, a template: `System` and `product` (q = A p) are bound.

    p = D⁻¹ r,   q = A p,   c_k = ⟨q, q_k⟩ / ⟨q_k, q_k⟩,   p ← p - Σ c_k p_k,   q ← q - Σ c_k q_k
    a = ⟨r, q⟩ / ⟨q, q⟩,   y ← y + a p,   r ← r - a q                             ⟨a, b⟩ = a · D⁻¹ b

over the last few directions k (Orthomin; Eisenstat, Elman, Schultz 1983), preconditioned by blocks D of 3 × 3. Where the
vertices are in line, p = (L U)⁻¹ r with the factors of the banded A at the start of a step (`factorize`), in blocks of
3 × 3 without pivoting (Golub & Van Loan, Matrix Computations, 4th ed., §4.3, §4.5). With `FACTORED`, p = (L D Lᵀ)⁻¹ r with
the factors of a step before (`soft/factor_kernels.py`), which stay as long as they save more than they cost. For a
symmetric A one of them is enough in exact arithmetic, and these are conjugate residuals; more make up for rounding and
for what is not symmetric: damping under strain, and friction. Each direction takes one product, and the residual never
grows. Where a register holds several worlds, each stops by itself.
"""

from typing import TYPE_CHECKING, Any

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.lanes import total

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.access_kernels import load, store
    from gradsim.engine.lanes import Vec3 as Vertex
    from gradsim.physics.soft.factor_kernels import (
        Factors,
        add_probe,
        clear_factors,
        make_factors,
        set_probe,
        solve_factors,
    )

    System = Any

    def product(s: System, i: int, frame: int, p: wp.array[Vertex], q: wp.array[Vertex]) -> None: ...


FACTORED = globals().get("FACTORED", False)  # whether there are sparse factors
BANDED = globals().get("BANDED", False)  # whether vertices are in line
ACROSS = globals().get("ACROSS", False)  # whether the lanes of a register belong to one world
STEP_CHANGE = Scalar(0.1)  # of a step, relative, at which factors are made again
MIN_SQUARE = Scalar(1e-37)  # instead of the square of a direction that vanishes

if ACROSS:

    @wp.func
    def whole(a: Real) -> Real:
        return spread(total(a))

else:

    @wp.func
    def whole(a: Real) -> Real:
        return a


@wp.struct
class Space:
    """Vectors of vertices, for each thread."""

    d0: wp.array2d[Vertex]  # columns of D⁻¹
    d1: wp.array2d[Vertex]
    d2: wp.array2d[Vertex]
    r: wp.array2d[Vertex]  # what is left of the right-hand side
    y: wp.array2d[Vertex]  # the solution
    p: wp.array3d[Vertex]  # the last directions
    q: wp.array3d[Vertex]  # their products
    square: wp.array2d[Real]  # of each product
    part: wp.array2d[Real]
    place: wp.array[wp.int32]  # of each vertex in line; none of these three where they are not
    band: wp.array3d[Mat3]  # (threads, vertices in line, neighbors from before to after): A, then its factors
    z: wp.array2d[Vec3]  # in line
    f: Factors
    h: wp.array2d[Real]  # step of the factors
    patience: wp.int32  # products that factors may take in excess before they are made again


@wp.func
def blocks_of(k: Space, i: int, b: int) -> Mat3:
    return columns(load(k.d0[i], b), load(k.d1[i], b), load(k.d2[i], b))


@wp.func
def square_of(k: Space, i: int, blocks: int, a: wp.array[Vertex]) -> Real:
    """⟨a, a⟩."""
    total = zero(0)
    for b in range(blocks):
        z = load(a, b)
        total = total + dot(z, blocks_of(k, i, b) * z)
    return whole(total)


@wp.func
def set_blocks(k: Space, i: int, b: int, h: Real, inverse_mass: Real, free: Real) -> Real:
    """Block b of D⁻¹ for A = M - h J, from the rows of that of J in its place; returns a third of the trace of D.

    D is the mass alone where A is far from positive, as of an element that is squeezed.
    """
    o = zero(0)
    one = o + 1.0
    unit = columns(vec3(one, o, o), vec3(o, one, o), vec3(o, o, one))
    mass = 1.0 / (inverse_mass + (1.0 - free))
    J = blocks_of(k, i, b)
    return invert_block(k, i, b, unit * mass - (J + transpose(J)) * (h * free * 0.5), mass)


@wp.func
def invert_block(k: Space, i: int, b: int, S: Mat3, mass: Real) -> Real:
    """Block b of D⁻¹ from that of a symmetric A; returns a third of the trace of D."""
    o = zero(0)
    one = o + 1.0
    unit = columns(vec3(one, o, o), vec3(o, one, o), vec3(o, o, one))
    T = S - unit * (mass * 0.5)
    minors = min(dot(column0(T), column0(unit)), dot(column2(cofactor(T)), column2(unit)))
    D = where(less(o, min(minors, det(T))), S, unit * mass)  # Sylvester
    inverse = cofactor(D) * (1.0 / det(D))  # D is symmetric
    store(k.d0[i], b, column0(inverse))
    store(k.d1[i], b, column1(inverse))
    store(k.d2[i], b, column2(inverse))
    return ddot(D, unit) * (one / 3.0)


@wp.func
def factorize(k: Space, i: int):
    """The band by its factors L, with ones on the diagonal, and U, with the inverses of its diagonal blocks."""
    n = k.band.shape[1]
    half = k.band.shape[2] // 2
    for c in range(n):
        pivot = k.band[i, c, half]
        inverse = transpose(cofactor(pivot)) * (1.0 / det(pivot))
        k.band[i, c, half] = inverse
        for r in range(c + 1, wp.min(c + half + 1, n)):
            lower = k.band[i, r, half + c - r] * inverse
            k.band[i, r, half + c - r] = lower
            for d in range(c + 1, wp.min(c + half + 1, n)):
                k.band[i, r, half + d - r] = k.band[i, r, half + d - r] - lower * k.band[i, c, half + d - c]


@wp.func
def set_band(k: Space, i: int, h: Real, b: int, inverse_mass: Real, free: Real, transposed: int):
    """A = M - h J of vertex b from J, and the rows of its diagonal block of J; the identity where it is pinned."""
    half = k.band.shape[2] // 2
    o = zero(0)
    one = o + 1.0
    unit = columns(vec3(one, o, o), vec3(o, one, o), vec3(o, o, one))
    c = k.place[b]
    rows = k.band[i, c, half]
    if transposed == 0:
        rows = transpose(rows)
    store(k.d0[i], b, column0(rows))
    store(k.d1[i], b, column1(rows))
    store(k.d2[i], b, column2(rows))
    for m in range(k.band.shape[2]):
        k.band[i, c, m] = k.band[i, c, m] * (o - h * free)
    k.band[i, c, half] = k.band[i, c, half] + unit * (1.0 / (inverse_mass + (1.0 - free)))


@wp.func
def substitute(k: Space, i: int, r: wp.array[Vertex], p: wp.array[Vertex]):
    """p = (L U)⁻¹ r."""
    n = k.band.shape[1]
    half = k.band.shape[2] // 2
    for b in range(n):
        k.z[i, k.place[b]] = load(r, b)
    for c in range(n):
        y = k.z[i, c]
        for d in range(wp.max(c - half, 0), c):
            y = y - k.band[i, c, half + d - c] * k.z[i, d]
        k.z[i, c] = y
    for e in range(n):
        c = n - 1 - e
        y = k.z[i, c]
        for d in range(c + 1, wp.min(c + half + 1, n)):
            y = y - k.band[i, c, half + d - c] * k.z[i, d]
        k.z[i, c] = k.band[i, c, half] * y
    for b in range(n):
        store(p, b, k.z[i, k.place[b]])


if BANDED:

    @wp.func
    def precondition(k: Space, i: int, blocks: int, r: wp.array[Vertex], p: wp.array[Vertex]):
        substitute(k, i, r, p)

elif FACTORED:

    @wp.func
    def precondition(k: Space, i: int, blocks: int, r: wp.array[Vertex], p: wp.array[Vertex]):
        solve_factors(k.f, i, r, p)

else:

    @wp.func
    def precondition(k: Space, i: int, blocks: int, r: wp.array[Vertex], p: wp.array[Vertex]):
        for b in range(blocks):
            store(p, b, blocks_of(k, i, b) * load(r, b))


@wp.func
def same(a: Real) -> Real:
    return a


@wp.func
def solve(s: System, k: Space, i: int, frame: int, blocks: int, limit: int, target: Real) -> int:
    """Add to y what brings the square of r under `target`, in at most `limit` products; how many it took."""
    _after = wp.grad(same)(zero(0))  # see assembly: a product may use wp.grad
    capacity = k.p.shape[1]
    rest = square_of(k, i, blocks, k.r[i])
    n = wp.int32(0)
    while n < limit and any_lane(less(target, rest)):
        j = n % capacity
        precondition(k, i, blocks, k.r[i], k.p[i, j])
        product(s, i, frame, k.p[i, j], k.q[i, j])
        last = wp.min(n, capacity - 1)
        for m in range(last):
            k.part[i, m] = zero(0)
        for b in range(blocks):
            z = blocks_of(k, i, b) * load(k.q[i, j], b)
            for m in range(last):
                k.part[i, m] = k.part[i, m] + dot(z, load(k.q[i, (n - 1 - m) % capacity], b))
        for m in range(last):
            o = (n - 1 - m) % capacity
            k.part[i, m] = whole(k.part[i, m]) / k.square[i, o]
        along = zero(0)
        size = zero(0)
        for b in range(blocks):
            p = load(k.p[i, j], b)
            q = load(k.q[i, j], b)
            for m in range(last):
                o = (n - 1 - m) % capacity
                p = p - load(k.p[i, o], b) * k.part[i, m]
                q = q - load(k.q[i, o], b) * k.part[i, m]
            store(k.p[i, j], b, p)
            store(k.q[i, j], b, q)
            z = blocks_of(k, i, b) * q
            along = along + dot(z, load(k.r[i], b))
            size = size + dot(z, q)
        size = max(whole(size), spread(MIN_SQUARE))
        k.square[i, j] = size
        a = where(less(target, rest), whole(along) / size, zero(0))
        for b in range(blocks):
            store(k.y[i], b, load(k.y[i], b) + load(k.p[i, j], b) * a)
            store(k.r[i], b, load(k.r[i], b) - load(k.q[i, j], b) * a)
        rest = square_of(k, i, blocks, k.r[i])
        n += 1
    return n


if FACTORED:

    @wp.func
    def outdated(k: Space, i: int, h: Real) -> int:
        """1 if factors have to be made for a step h, else 0."""
        change = abs(h - k.h[i, 0]) - k.h[i, 0] * STEP_CHANGE
        wrong = wp.int32(0)
        if k.f.age[i, 0] == 0 or k.f.age[i, 2] > k.patience or any_lane(less(zero(0), change)):
            wrong = wp.int32(1)
        return wrong

    @wp.func
    def begin_count(k: Space, i: int, products: int):
        k.f.age[i, 3] = products

    @wp.func
    def end_count(k: Space, i: int, products: int):
        """Note what a step took; of the first with its factors it is the measure for the others."""
        products -= k.f.age[i, 3]
        if k.f.age[i, 0] == 1:
            k.f.age[i, 0] = 2
            k.f.age[i, 1] = products
            k.f.age[i, 2] = 0
        k.f.age[i, 2] = k.f.age[i, 2] + wp.max(products - k.f.age[i, 1], 0)

    @wp.func
    def limit(k: Space, i: int, products: int) -> int:
        """Products of a linear solve; with factors of a step before, those after which new ones cost less than going on."""
        most = products
        if k.f.age[i, 0] == 2:
            most = wp.min(products, k.patience)
        return most

    @wp.func
    def probe(s: System, k: Space, i: int, frame: int, blocks: int, h: Real):
        """The factors of A, and the columns of its diagonal blocks."""
        _after = wp.grad(same)(zero(0))  # see assembly
        for b in range(blocks):
            store(k.p[i, 0], b, zero3(0))
        clear_factors(k.f, i)
        colors = k.f.color_start.shape[0] - 1
        for color in range(colors):
            count = int(3)  # noqa: RUF046, UP018 -- else Warp unrolls it
            for a in range(count):
                set_probe(k.f, color, a, Scalar(1.0), k.p[i, 0])
                product(s, i, frame, k.p[i, 0], k.q[i, 0])
                if a == 0:
                    add_probe(k.f, i, color, a, k.q[i, 0], k.d0[i])
                elif a == 1:
                    add_probe(k.f, i, color, a, k.q[i, 0], k.d1[i])
                else:
                    add_probe(k.f, i, color, a, k.q[i, 0], k.d2[i])
            set_probe(k.f, color, 0, Scalar(0.0), k.p[i, 0])
        make_factors(k.f, i, k.d0[i], k.d1[i], k.d2[i])
        k.h[i, 0] = h
        k.f.age[i, 0] = 1

    @wp.func
    def set_probed_block(k: Space, i: int, b: int, inverse_mass: Real, free: Real) -> Real:
        """Block b of D⁻¹ from the columns of that of A; see `set_blocks`."""
        o = zero(0)
        one = o + 1.0
        unit = columns(vec3(one, o, o), vec3(o, one, o), vec3(o, o, one))
        mass = 1.0 / (inverse_mass + (1.0 - free))
        A = blocks_of(k, i, b)
        S = (A + transpose(A)) * (free * 0.5) + unit * (mass * (1.0 - free))
        return invert_block(k, i, b, S, mass)

else:

    @wp.func
    def begin_count(k: Space, i: int, products: int):
        """Nothing: all is made anew in each step."""

    @wp.func
    def end_count(k: Space, i: int, products: int):
        """Nothing."""

    @wp.func
    def limit(k: Space, i: int, products: int) -> int:
        return products
