# pyright: reportInvalidTypeForm=false
"""The adjoint of an implicit step (paper Appendix B: one linear solve per step), a template.

Of backward Euler, from x and v to x + h u and u:

    Aᵀ λ = a_v + h a_x,   w = h λ
    a_x ← a_x + ∂(f·w)/∂x,   a_v ← a_v + h a_x + ∂(f·w)/∂v         with the new a_x; f at the end of the step
    a_g += M w,   a_1/m += M² λ·(u - v - h g),   a_h += a_x·u + λ·(f + M g)        f + M g = M (u - v) / h

Products with Aᵀ are gradients of the virtual power f·w. A pinned vertex has λ = 0. The whole step is x' = x + (h/θ) u and
v' = v + (u - v)/θ, so a_x and a_v are 1/θ of those of x' and v' before, and the rest, 1 - 1/θ of those, is added after. The
adjoint of the velocity of a driven vertex is that of its drive, and goes no further back.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.lanes import members, specialize

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.access_kernels import load, store
    from gradsim.engine.lanes import Lane
    from gradsim.engine.lanes import Vec3 as Vertex
    from gradsim.physics.forces.assembly import (
        Elements,
        add_adjoints,
        add_forces,
        add_products,
        all_powers,
    )
    from gradsim.physics.soft import jacobian_kernels, krylov_kernels
    from gradsim.physics.soft.kernels import VertexParameters, constant
    from gradsim.physics.soft.krylov_kernels import ACROSS, BANDED, FACTORED

    LANE = Lane()
    JACOBIAN: tuple[str, ...] = ()
    FACTOR_NAMES: tuple[str, ...] = ()
else:
    jacobian_kernels = "gradsim.physics.soft.jacobian_kernels"
    krylov_kernels = "gradsim.physics.soft.krylov_kernels"

REFINEMENTS = wp.constant(4)
MIN_STEP = Scalar(1e-7)  # [s], as in `soft/kernels.py`


@wp.struct
class AdjointWorkspace:
    p: VertexParameters
    e: Elements
    x: wp.array2d[Vertex]  # where the step ends
    u: wp.array2d[Vertex]
    a: wp.array2d[Vertex]
    b: wp.array2d[Vertex]  # the right-hand side
    rest_x: wp.array2d[Vertex]  # adjoints that pass by the solve
    rest_v: wp.array2d[Vertex]


@wp.func
def same(a: Real) -> Real:
    return a


@wp.func
def between(a: Vec3, b: Vec3, t: Real) -> Vec3:
    """a + t (b - a), exactly b for t = 1."""
    return b + (b - a) * (t - 1.0)


@wp.func
def product(s: AdjointWorkspace, i: int, frame: int, p: wp.array[Vertex], q: wp.array[Vertex]):
    _after = wp.grad(same)(zero(0))  # see assembly
    h = s.p.step[i, frame]
    blocks = s.p.inverse_mass.shape[1]
    for b in range(blocks):
        store(s.a[i], b, zero3(0))
    add_products(s.e, i, frame, h, s.x[i], s.u[i], p, s.a[i])
    for b in range(blocks):
        free = constant(s.p.free[b])
        mass = 1.0 / (s.p.inverse_mass[i, b] + (1.0 - free))
        store(q, b, (load(p, b) * mass - load(s.a[i], b) * h) * free)


krylov = specialize(
    krylov_kernels,
    LANE,
    System=AdjointWorkspace,
    product=product,
    Vertex=Vertex,
    load=load,
    store=store,
    ACROSS=ACROSS,
    BANDED=BANDED,
    FACTORED=FACTORED,
    **{name: globals()[name] for name in FACTOR_NAMES},
    KEY=__name__,
)
Space, solve, square_of = krylov.Space, krylov.solve, krylov.square_of
begin_count, end_count, limit = krylov.begin_count, krylov.end_count, krylov.limit

if FACTORED:
    outdated, probe, set_probed_block = krylov.outdated, krylov.probe, krylov.set_probed_block

    @wp.func
    def factor(s: AdjointWorkspace, k: Space, i: int, frame: int, h: Real):
        """Factors and D at the end of the step."""
        _after = wp.grad(same)(zero(0))  # see assembly
        blocks = s.p.inverse_mass.shape[1]
        probe(s, k, i, frame, blocks, h)
        for b in range(blocks):
            _weight = set_probed_block(k, i, b, s.p.inverse_mass[i, b], constant(s.p.free[b]))

    @wp.func
    def prepare(s: AdjointWorkspace, k: Space, i: int, frame: int, h: Real):
        """Factors and D at the end of the step, unless those of another will do."""
        _after = wp.grad(same)(zero(0))  # see assembly
        if outdated(k, i, h) == 1:
            factor(s, k, i, frame, h)

    @wp.func
    def renew(s: AdjointWorkspace, k: Space, i: int, frame: int, h: Real, products: int) -> int:
        """Make factors if a solve took too many products with those of another step; 1 if so."""
        _after = wp.grad(same)(zero(0))  # see assembly
        made = wp.int32(0)
        if products >= k.patience and k.f.age[i, 0] == 2:
            factor(s, k, i, frame, h)
            made = wp.int32(1)
        return made

else:
    jacobian = specialize(
        jacobian_kernels,
        LANE,
        **{
            name: globals()[name] for name in (*JACOBIAN, "VertexParameters", "constant", "Elements", "store", "Vertex")
        },
        **members(krylov, "Space", "factorize", "set_band"),
        BANDED=BANDED,
        KEY=__name__,
    )
    linearize, set_blocks = jacobian.linearize, krylov.set_blocks

    @wp.func
    def prepare(s: AdjointWorkspace, k: Space, i: int, frame: int, h: Real):
        """The blocks of D at the end of the step."""
        _after = wp.grad(same)(zero(0))  # see assembly
        linearize(s.p, s.e, k, i, frame, h, s.x[i], s.u[i], 1)
        for b in range(s.p.inverse_mass.shape[1]):
            _weight = set_blocks(k, i, b, h, s.p.inverse_mass[i, b], constant(s.p.free[b]))

    @wp.func
    def renew(s: AdjointWorkspace, k: Space, i: int, frame: int, h: Real, products: int) -> int:
        """0: there are no factors of another step."""
        return 0


@wp.func
def split_adjoint(
    s: AdjointWorkspace,
    i: int,
    whole: Scalar,
    x: wp.array[Vertex],  # before and after the step
    v: wp.array[Vertex],
    xn: wp.array[Vertex],
    vn: wp.array[Vertex],
    # out
    ax: wp.array[Vertex],
    av: wp.array[Vertex],
):
    """The state at which a step is solved, and of the adjoints what it has a part in and what passes by it."""
    one = zero(0) + 1.0
    more = one * whole
    share = 1.0 / more
    for j in range(xn.shape[0]):
        s.x[i, j] = xn[j]
        s.u[i, j] = vn[j]
    for b in range(s.p.inverse_mass.shape[1]):
        store(s.x[i], b, between(load(x, b), load(xn, b), share))
        moves = constant(s.p.free[b])  # a pinned vertex has the velocity at the end in all of the step
        store(s.u[i], b, between(load(v, b), load(vn, b), share * moves + (1.0 - moves)))
        store(s.rest_x[i], b, load(ax, b) * (one - more))
        store(s.rest_v[i], b, load(av, b) * (one - more))
        store(ax, b, load(ax, b) * more)
        store(av, b, load(av, b) * more)


@wp.func
def solve_adjoint(
    s: AdjointWorkspace,
    d: Elements,
    i: int,
    frame: int,
    tolerance: Scalar,
    products: int,
    k: Space,
    v: wp.array[Vertex],  # before the step
    # out
    w: wp.array[Vertex],
    ax: wp.array[Vertex],
    av: wp.array[Vertex],
    grad: VertexParameters,
) -> Real:
    """The adjoint of the state at which a step is solved becomes that before it; the error of its solve over the tolerance."""
    _after = wp.grad(same)(zero(0))  # see assembly
    blocks = s.p.inverse_mass.shape[1]
    h = s.p.step[i, frame]
    g = s.p.gravity[i, 0]
    for b in range(blocks):
        store(w, b, zero3(0))
    prepare(s, k, i, frame, h)
    for b in range(blocks):
        free = constant(s.p.free[b])
        store(s.b[i], b, (load(av, b) + load(ax, b) * h) * free)
        store(k.r[i], b, load(s.b[i], b))
    rest = square_of(k, i, blocks, k.r[i])
    aim = rest * (tolerance * tolerance)
    rounds = wp.int32(0)
    total = wp.int32(0)
    begin_count(k, i, 0)
    while rounds < REFINEMENTS and any_lane(less(aim * 4.0, rest)):
        for b in range(blocks):
            store(k.y[i], b, zero3(0))
        taken = solve(s, k, i, frame, blocks, limit(k, i, products), aim)
        total += taken
        for b in range(blocks):
            store(w, b, load(w, b) + load(k.y[i], b))
        product(s, i, frame, w, k.y[i])
        for b in range(blocks):
            store(k.r[i], b, load(s.b[i], b) - load(k.y[i], b))
        rounds += 1
        if renew(s, k, i, frame, h, taken) == 1:
            begin_count(k, i, total)
            rounds = wp.int32(0)
            aim = square_of(k, i, blocks, s.b[i]) * (tolerance * tolerance)
        rest = square_of(k, i, blocks, k.r[i])
    end_count(k, i, total)
    for b in range(blocks):
        store(s.a[i], b, zero3(0))
    short = less(h, spread(MIN_STEP))
    if any_lane(short):
        add_forces(s.e, i, frame, s.x[i], s.u[i], s.a[i])
    pull = zero3(0)
    gained = zero(0)
    forced = zero(0)
    for b in range(blocks):
        free = constant(s.p.free[b])
        mass = 1.0 / (s.p.inverse_mass[i, b] + (1.0 - free))
        y = load(w, b)
        push = y * mass
        gain = (load(s.u[i], b) - load(v, b)) * free
        store(w, b, y * h)
        pull = pull + push * h
        gained = gained + dot(push, gain)
        forced = forced + dot(y, load(s.a[i], b) + g * (free * mass))
        grad.inverse_mass[i, b] = grad.inverse_mass[i, b] + dot(push, gain - g * (free * h)) * mass
    add_adjoints(s.e, d, i, frame, s.x[i], s.u[i], w, ax, av)
    rate = where(short, forced, gained / where(short, spread(Scalar(1.0)), h))
    for b in range(blocks):
        a = load(ax, b)
        rate = rate + dot(a, load(s.u[i], b))
        store(ax, b, a + load(s.rest_x[i], b))
        store(av, b, load(av, b) + a * h + load(s.rest_v[i], b))
    grad.gravity[i, 0] = grad.gravity[i, 0] + pull
    grad.step[i, frame] = grad.step[i, frame] + rate
    return rest / max(aim, spread(Scalar(1e-37)))


@wp.kernel(enable_backward=False)
def backward(
    offset: int,  # see `engine.launch`
    s: AdjointWorkspace,
    d: Elements,
    substeps: int,  # steps in each frame interval
    first: int,  # frame interval
    tolerance: Scalar,
    products: int,
    k: Space,
    w: wp.array2d[Vertex],
    whole: Scalar,  # 1/θ
    driven: int,  # whether pinned vertices have a velocity in each step
    x: wp.array3d[Vertex],  # all steps from the frame `first` on
    v: wp.array3d[Vertex],
    # out; the adjoints of the frames are given, those of the start are added up
    x_adjoint: wp.array3d[Vertex],
    v_adjoint: wp.array3d[Vertex],
    ax: wp.array2d[Vertex],
    av: wp.array2d[Vertex],
    grad: VertexParameters,
    drive: wp.array3d[Vertex],
    worst: wp.array2d[Real],  # square of a residual over that at which it would be good
):
    i = offset + wp.tid()
    blocks = s.p.inverse_mass.shape[1]
    steps = x.shape[1] - 1
    for m in range(steps):
        n = steps - 1 - m
        frame = first + n // substeps
        if (n + 1) % substeps == 0:
            for b in range(blocks):
                store(ax[i], b, load(ax[i], b) + load(x_adjoint[i, frame + 1], b))
                store(av[i], b, load(av[i], b) + load(v_adjoint[i, frame + 1], b))
        split_adjoint(s, i, whole, x[i, n], v[i, n], x[i, n + 1], v[i, n + 1], ax[i], av[i])
        level = solve_adjoint(s, d, i, frame, tolerance, products, k, v[i, n], w[i], ax[i], av[i], grad)
        worst[i, 0] = max(worst[i, 0], level)
        if driven > 0:
            for b in range(blocks):
                free = constant(s.p.free[b])
                early = load(av[i], b)
                store(drive[i, first * substeps + n], b, early * (1.0 - free))
                store(av[i], b, early * free)


# Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
@wp.kernel(enable_backward=True)
def keep_adjoints(a: wp.array[Vec3], m: wp.array[Mat3], r: wp.array[Real]):
    if never(0):
        r[1] = all_powers(a[0], m[0], r[0])
