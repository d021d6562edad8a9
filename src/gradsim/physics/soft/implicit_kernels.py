# pyright: reportInvalidTypeForm=false
"""Implicit steps for the vertices of soft bodies, a template for `engine.lanes`.

    r(u) = M (u - v - h g) - h f(x + h u, u) = 0                (`soft/implicit_residual_kernels.py`), and the whole step
    x' = x + (h/θ) u,   v' = v + (u - v)/θ                      θ = 1: backward Euler; θ = ½: the implicit midpoint rule
    A d = -r,   u ← u + t d                     Newton's method; A = ∂r/∂u = M - h ∂f/∂v - h² ∂f/∂x
    A u̇ = -ṙ                                    derivative of u along any direction, ṙ being that of r at fixed u

Products with A are derivatives of dual numbers, so they are exact, whether A is symmetric or not (see
`soft/krylov_kernels.py` for the linear solve). The step length t is halved until the residual falls. A step ends where

    |r| ≤ τ |M (u, v, h g)| + 4 ε |D x / h|     ε: rounding of a number

in the norm of D⁻¹, D being the diagonal blocks of A: the second term is the rounding of the forces. Where Newton's method
is stuck, in a state far from rest, it starts again with a share of the step, whose solution is near v, and doubles it.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.lanes import members, specialize

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.access_kernels import load, store
    from gradsim.engine.access_kernels import load as dual_load
    from gradsim.engine.access_kernels import store as dual_store
    from gradsim.engine.dual_parts import pair, slope, value
    from gradsim.engine.lanes import Lane
    from gradsim.engine.lanes import Vec3 as DualVec3
    from gradsim.engine.lanes import Vec3 as DualVertex
    from gradsim.engine.lanes import Vec3 as Vertex
    from gradsim.physics.forces.assembly import Elements, all_powers
    from gradsim.physics.forces.assembly import Elements as DualElements
    from gradsim.physics.soft import jacobian_kernels, krylov_kernels
    from gradsim.physics.soft.implicit_residual_kernels import evaluate
    from gradsim.physics.soft.kernels import VertexParameters, constant
    from gradsim.physics.soft.kernels import VertexParameters as DualParameters
    from gradsim.physics.soft.krylov_kernels import ACROSS, BANDED, FACTORED

    LANE = Lane()
    JACOBIAN: tuple[str, ...] = ()
    FACTOR_NAMES: tuple[str, ...] = ()
else:
    jacobian_kernels = "gradsim.physics.soft.jacobian_kernels"
    krylov_kernels = "gradsim.physics.soft.krylov_kernels"

LINE_SEARCH_SHARES = wp.constant(7)  # the first: 1/64
REFINEMENTS = wp.constant(4)
MIN_RESIDUAL = Scalar(1e-37)  # instead of a residual that vanishes


@wp.struct
class Step:
    p: DualParameters
    e: DualElements
    x: wp.array2d[DualVertex]  # where the step begins
    v: wp.array2d[DualVertex]
    u: wp.array2d[DualVertex]  # the velocity sought, and a direction
    f: wp.array2d[DualVertex]
    xn: wp.array2d[DualVertex]  # x'
    r: wp.array2d[DualVertex]
    c: wp.array2d[Vertex]  # derivative of r that has nothing to do with the direction
    base: wp.array2d[Vertex]
    weight: wp.array2d[Real]  # of each vertex in D [kg]
    share: wp.array[Scalar]  # of the step


@wp.func
def product(s: Step, i: int, frame: int, p: wp.array[Vertex], q: wp.array[Vertex]):
    blocks = s.weight.shape[1]
    for b in range(blocks):
        dual_store(s.u[i], b, pair(value(dual_load(s.u[i], b)), load(p, b)))
    evaluate(s.p, s.e, i, frame, s.share[i], s.x[i], s.v[i], s.u[i], s.f[i], s.xn[i], s.r[i])
    for b in range(blocks):
        store(q, b, slope(dual_load(s.r[i], b)) - load(s.c[i], b))


krylov = specialize(
    krylov_kernels,
    LANE,
    System=Step,
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
Space, solve = krylov.Space, krylov.solve
begin_count, end_count, limit = krylov.begin_count, krylov.end_count, krylov.limit
square_of, whole = krylov.square_of, krylov.whole


@wp.func
def residual(s: Step, k: Space, i: int, frame: int) -> Real:
    """Its square; also sets the right-hand side -r, and c."""
    blocks = s.weight.shape[1]
    for b in range(blocks):
        dual_store(s.u[i], b, pair(value(dual_load(s.u[i], b)), zero3(0)))
    evaluate(s.p, s.e, i, frame, s.share[i], s.x[i], s.v[i], s.u[i], s.f[i], s.xn[i], s.r[i])
    for b in range(blocks):
        r = dual_load(s.r[i], b)
        store(k.r[i], b, neg(value(r)))
        store(s.c[i], b, slope(r))
    return square_of(k, i, blocks, k.r[i])


@wp.func
def same(a: Real) -> Real:
    return a


@wp.func
def between(a: DualVec3, b: DualVec3, t: Real) -> DualVec3:
    """a + t (b - a), exactly b for t = 1."""
    x = value(b) + (value(b) - value(a)) * (t - 1.0)
    return pair(x, slope(b) + (slope(b) - slope(a)) * (t - 1.0))


if FACTORED:
    outdated, probe, set_probed_block = krylov.outdated, krylov.probe, krylov.set_probed_block

    @wp.func
    def factor(p: VertexParameters, s: Step, k: Space, i: int, frame: int):
        """Factors and D at the velocities u."""
        _after = wp.grad(same)(zero(0))  # see assembly
        blocks = s.weight.shape[1]
        for b in range(blocks):
            u = value(dual_load(s.u[i], b))
            store(s.base[i], b, u)
            dual_store(s.u[i], b, pair(u, zero3(0)))
        evaluate(s.p, s.e, i, frame, s.share[i], s.x[i], s.v[i], s.u[i], s.f[i], s.xn[i], s.r[i])
        for b in range(blocks):
            store(s.c[i], b, slope(dual_load(s.r[i], b)))
        probe(s, k, i, frame, blocks, p.step[i, frame] * s.share[i])
        for b in range(blocks):
            dual_store(s.u[i], b, pair(load(s.base[i], b), zero3(0)))
            s.weight[i, b] = set_probed_block(k, i, b, p.inverse_mass[i, b], constant(p.free[b]))

    @wp.func
    def prepare(p: VertexParameters, e: Elements, s: Step, k: Space, i: int, frame: int):
        """Factors and D at the start of the step, unless those of a step before will do."""
        _after = wp.grad(same)(zero(0))  # see assembly
        if outdated(k, i, p.step[i, frame] * s.share[i]) == 1:
            factor(p, s, k, i, frame)

    @wp.func
    def renew(p: VertexParameters, s: Step, k: Space, i: int, frame: int, products: int, failed: Real) -> int:
        """Make factors at u if a linear solve took too many products, or failed with factors of a step before; 1 if so."""
        _after = wp.grad(same)(zero(0))  # see assembly
        made = wp.int32(0)
        if products >= k.patience or (k.f.age[i, 0] == 2 and any_lane(less(zero(0), failed))):
            factor(p, s, k, i, frame)
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
    def prepare(p: VertexParameters, e: Elements, s: Step, k: Space, i: int, frame: int):
        """The blocks of D at the start of the step."""
        _after = wp.grad(same)(zero(0))  # see assembly
        blocks = s.weight.shape[1]
        h = p.step[i, frame] * s.share[i]
        for b in range(blocks):
            store(k.r[i], b, value(dual_load(s.x[i], b)))
            store(k.y[i], b, value(dual_load(s.v[i], b)))
        linearize(p, e, k, i, frame, h, k.r[i], k.y[i], 0)
        for b in range(blocks):
            s.weight[i, b] = set_blocks(k, i, b, h, p.inverse_mass[i, b], constant(p.free[b]))

    @wp.func
    def renew(p: VertexParameters, s: Step, k: Space, i: int, frame: int, products: int, failed: Real) -> int:
        """0: there are no factors of a step before."""
        return 0


@wp.func
def enough(p: VertexParameters, s: Step, i: int, frame: int, tolerance: Scalar, rounding: Scalar) -> Real:
    """Square of the residual at which a step ends."""
    h = p.step[i, frame] * s.share[i]
    g = p.gravity[i, 0] * h
    level = zero(0)
    for b in range(s.weight.shape[1]):
        u = value(dual_load(s.u[i], b))
        v = value(dual_load(s.v[i], b))
        x = value(dual_load(s.x[i], b)) * (1.0 / h)
        free = constant(p.free[b])
        mass = 1.0 / (p.inverse_mass[i, b] + (1.0 - free))
        w = s.weight[i, b]
        level = level + free * mass * mass / w * (dot(u, u) + dot(v, v) + dot(g, g)) * (tolerance * tolerance)
        level = level + free * w * dot(x, x) * (Scalar(16.0) * rounding * rounding)
    return whole(level)


@wp.func
def newton(
    p: VertexParameters,
    s: Step,
    k: Space,
    i: int,
    frame: int,
    tolerance: Scalar,
    rounding: Scalar,
    newtons: int,
    products: int,
    asked: Real,  # 1 for worlds to solve, else 0
    counts: wp.array[wp.int32],
) -> Real:
    """Improve u; the square of the residual over that at which a step ends."""
    _after = wp.grad(same)(zero(0))  # see assembly
    blocks = s.weight.shape[1]
    none = zero(0)
    rest = residual(s, k, i, frame)
    target = enough(p, s, i, frame, tolerance, rounding)
    live = where(less(target, rest), asked, none)
    gain = none + 0.01  # how far a linear solve lowers the square of its residual: more as Newton's method closes in
    n = wp.int32(0)
    while n < newtons and any_lane(less(none, live)):
        for b in range(blocks):
            store(s.base[i], b, value(dual_load(s.u[i], b)))
            store(k.y[i], b, zero3(0))
        aim = where(less(none, live), max(rest * gain, target * 0.25), rest)
        taken = solve(s, k, i, frame, blocks, limit(k, i, products), aim)
        counts[0] = counts[0] + taken
        t = live
        worse = live
        ahead = rest
        tries = wp.int32(0)
        while tries < 10 and any_lane(less(none, worse)):
            for b in range(blocks):
                dual_store(s.u[i], b, pair(load(s.base[i], b) + load(k.y[i], b) * t, zero3(0)))
            ahead = residual(s, k, i, frame)
            worse = where(less(ahead, rest * (1.0 - t * 0.0002)), none, live)
            t = where(less(none, worse), t * 0.5, t)
            tries += 1
        fall = ahead / max(rest, spread(MIN_RESIDUAL))
        gain = max(min(fall * fall, none + 0.01), none + 0.00000001)
        rest = ahead
        target = enough(p, s, i, frame, tolerance, rounding)
        unsolved = where(less(target, rest), live, none)
        live = where(less(none, worse), none, unsolved)
        if any_lane(less(none, unsolved)):  # noqa: SIM102 -- Warp evaluates both sides of an `and`
            if renew(p, s, k, i, frame, taken, worse * unsolved) == 1:
                begin_count(k, i, counts[0])
                rest = residual(s, k, i, frame)
                target = enough(p, s, i, frame, tolerance, rounding)
                live = where(less(target, rest), unsolved, none)
        counts[1] = counts[1] + 1
        n += 1
    return rest / max(target, spread(MIN_RESIDUAL))


@wp.func
def differentiate(s: Step, k: Space, i: int, frame: int, tolerance: Scalar, products: int):
    """Give u the derivative of the solution, refined until the true residual is small."""
    _after = wp.grad(same)(zero(0))  # see assembly
    blocks = s.weight.shape[1]
    for b in range(blocks):
        store(k.r[i], b, load(s.c[i], b))
        store(s.base[i], b, slope(dual_load(s.v[i], b)))
    aim = square_of(k, i, blocks, k.r[i]) * (tolerance * tolerance)
    open = wp.int32(1)
    rounds = wp.int32(0)
    while open == 1:
        for b in range(blocks):
            dual_store(s.u[i], b, pair(value(dual_load(s.u[i], b)), load(s.base[i], b)))
        evaluate(s.p, s.e, i, frame, s.share[i], s.x[i], s.v[i], s.u[i], s.f[i], s.xn[i], s.r[i])
        for b in range(blocks):
            store(k.r[i], b, neg(slope(dual_load(s.r[i], b))))
            store(k.y[i], b, zero3(0))
        open = wp.int32(0)
        if rounds < REFINEMENTS and any_lane(less(aim * 4.0, square_of(k, i, blocks, k.r[i]))):
            _n = solve(s, k, i, frame, blocks, products, aim)
            for b in range(blocks):
                store(s.base[i], b, load(s.base[i], b) + load(k.y[i], b))
            open = wp.int32(1)
            rounds += 1


@wp.func
def solve_step(
    p: VertexParameters,
    e: Elements,
    s: Step,
    k: Space,
    i: int,
    frame: int,
    tolerance: Scalar,
    rounding: Scalar,
    newtons: int,
    products: int,
    counts: wp.array[wp.int32],
) -> Real:
    """Set u and xn of a step from x and v; the square of the residual over that at which a step ends."""
    _after = wp.grad(same)(zero(0))  # see assembly
    blocks = p.inverse_mass.shape[1]
    one = zero(0) + 1.0
    for b in range(blocks):
        dual_store(s.u[i], b, dual_load(s.v[i], b))
    s.share[i] = Scalar(1.0)
    begin_count(k, i, counts[0])
    prepare(p, e, s, k, i, frame)
    level = newton(p, s, k, i, frame, tolerance, rounding, newtons, products, one, counts)
    end_count(k, i, counts[0])
    if any_lane(less(one, level)):
        stuck = less(one, level)
        for b in range(blocks):
            fresh = value(dual_load(s.v[i], b))
            dual_store(s.u[i], b, pair(where(stuck, fresh, value(dual_load(s.u[i], b))), zero3(0)))
        open = where(stuck, one, zero(0))
        for stage in range(LINE_SEARCH_SHARES):
            s.share[i] = Scalar(1.0) / Scalar(1 << (LINE_SEARCH_SHARES - 1 - stage))
            prepare(p, e, s, k, i, frame)
            level = newton(p, s, k, i, frame, tolerance, rounding, newtons, products, open, counts)
    return level


@wp.kernel(enable_backward=False)
def forward(
    offset: int,  # see `engine.launch`
    p: VertexParameters,
    e: Elements,
    substeps: int,  # steps in each frame interval
    stride: int,  # steps between two records
    first: int,  # frame interval
    tolerance: Scalar,
    rounding: Scalar,
    newtons: int,
    products: int,
    tangent: int,  # whether derivatives are wanted
    whole: Scalar,  # 1/θ
    drive: wp.array3d[DualVertex],  # velocity of pinned vertices in each step; of no steps: they keep theirs
    s: Step,
    k: Space,
    # out; record 0 is given
    x: wp.array3d[DualVertex],
    v: wp.array3d[DualVertex],
    worst: wp.array2d[Real],  # of each record: the square of a residual over where the step ends
    counts: wp.array2d[wp.int32],  # of products, and of Newton's steps
):
    i = offset + wp.tid()
    blocks = p.inverse_mass.shape[1]
    one = zero(0) + 1.0
    for n in range((x.shape[1] - 1) * stride):
        frame = first + n // substeps
        record = n // stride
        for b in range(blocks):
            if n % stride == 0:
                dual_store(s.x[i], b, dual_load(x[i, record], b))
                dual_store(s.v[i], b, dual_load(v[i, record], b))
            if drive.shape[1] > 0:
                driving = dual_load(drive[i, first * substeps + n], b)
                dual_store(s.v[i], b, between(driving, dual_load(s.v[i], b), constant(p.free[b])))
        level = solve_step(p, e, s, k, i, frame, tolerance, rounding, newtons, products, counts[i])
        worst[i, record + 1] = max(worst[i, record + 1], level)
        if tangent == 1:
            differentiate(s, k, i, frame, tolerance, products)
        for b in range(blocks):
            dual_store(s.x[i], b, between(dual_load(s.x[i], b), dual_load(s.xn[i], b), one * whole))
            dual_store(s.v[i], b, between(dual_load(s.v[i], b), dual_load(s.u[i], b), one * whole))
            if (n + 1) % stride == 0:
                dual_store(x[i, record + 1], b, dual_load(s.x[i], b))
                dual_store(v[i, record + 1], b, dual_load(s.v[i], b))


# Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
@wp.kernel(enable_backward=True)
def keep_adjoints(a: wp.array[Vec3], m: wp.array[Mat3], r: wp.array[Real]):
    if never(0):
        r[1] = all_powers(a[0], m[0], r[0])
