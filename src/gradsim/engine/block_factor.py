# pyright: reportInvalidTypeForm=false
"""Factor of S = J M⁻¹ Jᵀ + A for rows in blocks, and its solve: native functions of a lane type.

The rows of a joint are a block of at most `BLOCK_ROWS`. Block (j, e) of S is not zero where joints j and e hold the same body. Of each block row the factor
has the blocks from the first that is not zero to that on the diagonal (the skyline, Jennings 1966), so that of a chain it is linear in the number of joints:

    S = L D Lᵀ,   U = L D:   U_je L_eeᵀ = S_je − Σ_f U_jf D_f⁻¹ U_efᵀ

A block U_je lies in memory by columns, with 1/D on the diagonal, and short blocks are filled up with zeros, so that a core's registers hold the rows of a
world alone. Of a row of which less than a share is left, 1/D is 0 and so is its multiplier: it says what others say.
"""

from functools import cache
from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import Lane, names

if TYPE_CHECKING:
    from gradsim.engine.lanes import Mat3, Real, Vec3

BLOCK_ROWS = 6  # of a joint that holds two bodies together, or of one with an armature
REDUNDANT_SHARE = {"float32": 1e-5, "float64": 1e-10}


def block_size(lane: Lane) -> int:
    """Numbers in the memory of a block."""
    return BLOCK_ROWS * _stride(lane)


def _stride(lane: Lane) -> int:
    """Numbers from column to column of a block: of a world alone those of whole registers."""
    return 8 if lane.width == 1 and not lane.dual else BLOCK_ROWS


@cache
def block_functions(lane: Lane) -> dict:
    """`factor_blocks` and `solve_blocks`; a template leaves them open."""
    table = names(lane)
    Real, Vec3, Mat3 = (table[name] for name in ("Real", "Vec3", "Mat3"))
    head = _head(lane)

    @wp.func_native(head + _FACTOR)
    def factor_blocks(
        i: int,
        at: int,
        n: int,
        first: wp.array[wp.int32],
        second: wp.array[wp.int32],
        row: wp.array[wp.int32],
        left: wp.array[wp.int32],
        block: wp.array[wp.int32],
        added: wp.array[wp.int32],
        mass: wp.array[Real],
        inverse: wp.array2d[Mat3],
        force: wp.array2d[Vec3],
        torque: wp.array2d[Vec3],
        torque_b: wp.array2d[Vec3],
        factor: wp.array2d[Real],
    ): ...

    @wp.func_native(head + _SOLVE)
    def solve_blocks(
        i: int,
        at: int,
        row: wp.array[wp.int32],
        left: wp.array[wp.int32],
        block: wp.array[wp.int32],
        factor: wp.array2d[Real],
        y: wp.array2d[Real],
    ): ...

    return {"factor_blocks": factor_blocks, "solve_blocks": solve_blocks}


if TYPE_CHECKING:  # as templates see them

    def factor_blocks(
        i: int,
        at: int,
        n: int,
        first: wp.array[wp.int32],
        second: wp.array[wp.int32],
        row: wp.array[wp.int32],
        left: wp.array[wp.int32],
        block: wp.array[wp.int32],
        added: wp.array[wp.int32],
        mass: wp.array[Real],
        inverse: wp.array2d[Mat3],
        force: wp.array2d[Vec3],
        torque: wp.array2d[Vec3],
        torque_b: wp.array2d[Vec3],
        factor: wp.array2d[Real],
    ) -> None:
        """Factor of pack i.

        Args:
            i: The pack.
            at: Row of `inverse`, `force`, `torque`, `torque_b` and `factor` for this evaluation of the pack.
            n: Number of bodies that move; others are held.
            first, second: Bodies of each row.
            row: First row of each joint, and the number of rows.
            left: First joint of the skyline of each.
            block: Place of the block (j, 0) of each joint j, were it there.
            added: 1 for each row where A is 1, else 0.
            mass: Of body r in pack i in row i · n + r.
            inverse: Inverse inertia of each body in the world's axes.
            force, torque, torque_b: On the first body of each row, and the torque on the second; the forces are opposite.
            factor: Of `block_size` numbers for each block.
        """

    def solve_blocks(
        i: int,
        at: int,
        row: wp.array[wp.int32],
        left: wp.array[wp.int32],
        block: wp.array[wp.int32],
        factor: wp.array2d[Real],
        y: wp.array2d[Real],
    ) -> None:
        """y ← S⁻¹ y for pack i, by the factor in its row `at`."""


def _head(lane: Lane) -> str:
    """Types of C++: V, the numbers of a pack, and D, the same with a tangent in a dual lane type."""
    scalar = {"float32": "float", "float64": "double"}[lane.dtype]
    register = f"__attribute__((vector_size({lane.width} * sizeof({scalar})), aligned(4), may_alias))"
    head = f"typedef {scalar} V{f' {register}' if lane.width > 1 else ''}; "
    share, one = f"({scalar}){REDUNDANT_SHARE[lane.dtype]}", f"(V{{}} + ({scalar})1)"
    if lane.dual:
        head += "struct D { V v, t; D operator+(const D& b) const { return D{v + b.v, t + b.t}; } "
        head += "D operator-(const D& b) const { return D{v - b.v, t - b.t}; } "
        head += "D operator*(const D& b) const { return D{v * b.v, v * b.t + t * b.v}; } "
        head += "D operator-() const { return D{-v, -t}; } }; "
        head += "auto part = [](const V* p, int e, int c, int size) { "
        head += "const V* q = p + (long long)e * 2 * size; return D{q[c], q[c + size]}; }; "
        head += f"auto over = [](D b) {{ V w = {one} / b.v; return D{{w, -w * w * b.t}}; }}; const D one = D{{{one}, V{{}}}}; "
        head += f"auto over_pivot = [](D b, D whole) {{ V w = b.v > whole.v * {share} ? {one} / b.v : V{{}}; "
        head += "return D{w, -w * w * b.t}; }; "
    else:
        head += (
            "typedef V D; auto part = [](const V* p, int e, int c, int size) { return p[(long long)e * size + c]; }; "
        )
        head += f"auto over = [](D b) {{ return {one} / b; }}; const D one = {one}; "
        head += f"auto over_pivot = [](D b, D whole) {{ return b > whole * {share} ? {one} / b : D{{}}; }}; "
    parts, size = 2 if lane.dual else 1, _stride(lane)
    head += f"const int N = {BLOCK_ROWS}, P = {parts}; (void)P; "
    return head + (_COLUMN_OF_A_WORLD if size > BLOCK_ROWS else _COLUMN).replace("SIZE", str(size))


# Columns of a block: a register of the CPU, or numbers one after another
_COLUMN = """
struct C {
    D a[SIZE];
    D& operator[](int r) { return a[r]; }
    const D& operator[](int r) const { return a[r]; }
    C operator*(const D& p) const { C out; for (int r = 0; r < SIZE; ++r) out.a[r] = a[r] * p; return out; }
    C operator*(const C& b) const { C out; for (int r = 0; r < SIZE; ++r) out.a[r] = a[r] * b.a[r]; return out; }
    C operator+(const C& b) const { C out; for (int r = 0; r < SIZE; ++r) out.a[r] = a[r] + b.a[r]; return out; }
    C operator-(const C& b) const { C out; for (int r = 0; r < SIZE; ++r) out.a[r] = a[r] - b.a[r]; return out; }
};
"""
_COLUMN_OF_A_WORLD = f"""
#ifdef __CUDA_ARCH__
{_COLUMN}
#else
typedef D C __attribute__((vector_size(SIZE * sizeof(D)), aligned(4), may_alias));
#endif
"""

_FACTOR = """
const int joints = (int)row.shape[0] - 1, rows = (int)first.shape[0], bodies = (int)inverse.shape[1];
const V* forces = (const V*)force.data + (long long)at * rows * 3 * P;
const V* torques = (const V*)torque.data + (long long)at * rows * 3 * P;
const V* torques_b = (const V*)torque_b.data + (long long)at * rows * 3 * P;
const V* turned = (const V*)inverse.data + (long long)at * bodies * 9 * P;
const D* masses = (const D*)mass.data + (long long)i * n;
C* L = (C*)((D*)factor.data + (long long)at * factor.shape[1]);
for (int j = 0; j < joints; ++j) {
    const int begin = row.data[j], count = row.data[j + 1] - begin, start = left.data[j];
    const int ends[2] = {first.data[begin], second.data[begin]};
    C f[3], t[2][3], s[2][3];
    D light[2];
    for (int c = 0; c < 3; ++c) f[c] = t[0][c] = t[1][c] = s[0][c] = s[1][c] = C{};
    #pragma unroll
    for (int r = 0; r < N; ++r) {
        if (r >= count) break;
        for (int c = 0; c < 3; ++c) {
            f[c][r] = part(forces, begin + r, c, 3);
            t[0][c][r] = part(torques, begin + r, c, 3);
            t[1][c][r] = part(torques_b, begin + r, c, 3);
        }
    }
    for (int k = 0; k < 2; ++k) {
        light[k] = D{};
        if (ends[k] >= n) continue;
        light[k] = over(masses[ends[k]]);
        for (int c = 0; c < 3; ++c)
            for (int d = 0; d < 3; ++d) s[k][c] = s[k][c] + t[k][d] * part(turned, ends[k], 3 * c + d, 9);
    }
    for (int e = start; e <= j; ++e) {
        const int at = row.data[e], wide = row.data[e + 1] - at;
        C B[N];
        for (int c = 0; c < N; ++c) B[c] = C{};
        for (int k = 0; k < 2; ++k) {
            if (ends[k] >= n) continue;
            for (int side = 0; side < 2; ++side) {
                if ((side ? second.data[at] : first.data[at]) != ends[k]) continue;
                const D weight = side == k ? light[k] : -light[k];
                const V* turns = side ? torques_b : torques;
                const C* u = s[k];
                #pragma unroll
                for (int c = 0; c < N; ++c) {
                    if (c >= wide) break;
                    for (int d = 0; d < 3; ++d)
                        B[c] = B[c] + f[d] * (part(forces, at + c, d, 3) * weight) + u[d] * part(turns, at + c, d, 3);
                }
            }
        }
        D whole[N];
        if (e == j)
            for (int c = 0; c < N; ++c) {
                if (c < count && added.data[begin + c]) B[c][c] = B[c][c] + one;
                whole[c] = B[c][c];
            }
        for (int g = start > left.data[e] ? start : left.data[e]; g < e; ++g) {
            const C* mine = L + (long long)(block.data[j] + g) * N;
            const C* other = L + (long long)(block.data[e] + g) * N;
            const C* between = L + (long long)(block.data[g] + g) * N;
            for (int k = 0; k < row.data[g + 1] - row.data[g]; ++k) {
                const C p = mine[k] * between[k][k];
                #pragma unroll
                for (int c = 0; c < N; ++c) B[c] = B[c] - p * other[k][c];
            }
        }
        if (e < j) {
            const C* diagonal = L + (long long)(block.data[e] + e) * N;
            #pragma unroll
            for (int k = 0; k < N; ++k) {
                if (k >= wide) break;
                const C p = B[k] * diagonal[k][k];
                #pragma unroll
                for (int c = k + 1; c < N; ++c) B[c] = B[c] - p * diagonal[k][c];
            }
        } else {
            #pragma unroll
            for (int k = 0; k < N; ++k) {
                if (k >= count) break;
                const D w = over_pivot(B[k][k], whole[k]);
                const C p = B[k] * w;
                #pragma unroll
                for (int c = k + 1; c < N; ++c) B[c] = B[c] - p * B[k][c];
                #pragma unroll
                for (int r = 0; r < k; ++r) B[k][r] = D{};
                B[k][k] = w;
            }
        }
        C* own = L + (long long)(block.data[j] + e) * N;
        for (int c = 0; c < N; ++c) own[c] = B[c];
    }
}
"""

_SOLVE = """
const int joints = (int)row.shape[0] - 1;
const C* L = (const C*)((D*)factor.data + (long long)at * factor.shape[1]);
D* Y = (D*)y.data + (long long)i * y.shape[1];
for (int j = 0; j < joints; ++j) {
    const int begin = row.data[j], count = row.data[j + 1] - begin;
    C whole = C{};
    for (int e = left.data[j]; e < j; ++e) {
        const C* B = L + (long long)(block.data[j] + e) * N;
        const C* between = L + (long long)(block.data[e] + e) * N;
        const int at = row.data[e], wide = row.data[e + 1] - at;
        for (int c = 0; c < wide; ++c) whole = whole + B[c] * (Y[at + c] * between[c][c]);
    }
    const C* B = L + (long long)(block.data[j] + j) * N;
    D b[N];
    for (int r = 0; r < N; ++r) b[r] = r < count ? Y[begin + r] - whole[r] : D{};
    #pragma unroll
    for (int c = 0; c < N - 1; ++c) {
        const D p = b[c] * B[c][c];
        #pragma unroll
        for (int r = c + 1; r < N; ++r) b[r] = b[r] - B[c][r] * p;
    }
    for (int r = 0; r < N; ++r) if (r < count) Y[begin + r] = b[r];
}
for (int j = joints - 1; j >= 0; --j) {
    const int begin = row.data[j], count = row.data[j + 1] - begin;
    const C* B = L + (long long)(block.data[j] + j) * N;
    D b[N];
    for (int r = 0; r < N; ++r) b[r] = r < count ? Y[begin + r] : D{};
    #pragma unroll
    for (int c = N - 1; c >= 0; --c) {
        #pragma unroll
        for (int r = N - 1; r > c; --r) b[c] = b[c] - B[c][r] * b[r];
        b[c] = b[c] * B[c][c];
    }
    C x = C{};
    for (int r = 0; r < N; ++r) {
        x[r] = b[r];
        if (r < count) Y[begin + r] = b[r];
    }
    for (int e = left.data[j]; e < j; ++e) {
        const C* B = L + (long long)(block.data[j] + e) * N;
        const int at = row.data[e], wide = row.data[e + 1] - at;
        for (int c = 0; c < wide; ++c) {
            const C p = B[c] * x;
            Y[at + c] = Y[at + c] - ((p[0] + p[1]) + (p[2] + p[3]) + (p[4] + p[5]));
        }
    }
}
"""
