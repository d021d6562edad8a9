# pyright: reportInvalidTypeForm=false
"""Consecutive entries of an array in the lanes of a register: stores under a mask, and whole numbers in lanes.

`runs(lane)` gives the names that a template leaves open, for a plain lane type of several lanes on a CPU, and those of `engine.rows`:

    Ints                                 a whole number in each lane; `Mask` is one of them
    load_ints(x, i)                      entries i, i + 1, ... of an array
    store(x, i, mask, value)             write the lanes of a mask, and leave the other entries as they are
    store_ints(x, i, mask, value)
    lanes_from(first, end)               the lanes from `first` to `end` - 1
    spread_int(i), lane_int(a, k)        one number in all lanes; that of one lane
    less_int(a, b), equal_int(a, b), is_open(a, bits)
    either(a, b), without(a, b)
    first_lane(mask)                     the first lane of a mask, or the number of lanes
    truncated(x), float_bits(x)          whole part; bits of the number in single precision, which are in the order of positive numbers

Memory behind the last lane has to belong to the array: begin a run at most a register before the end.

`tiles(lane, rows, columns)` gives those of small rectangles of pixels:

    load_tile(x, i, stride)              entries i, i + 1, ... of a row of the rectangle; the next row begins `stride` further
    store_tile(x, i, stride, value)
    load_part(x, i, stride, rows, columns), store_part(x, i, stride, rows, columns, value)
                                         the same of the first rows and columns of a rectangle, with 0 in the other lanes
    any_of(mask)                         True if a lane of a mask is set
    load_block(x, i, stride)             a rectangle of `columns` rows and `rows` columns: a block of tiles that is about square

`lists(lane)` gives what goes through the lanes that a mask sets, of a lane type of several lanes on a CPU:

    bits_of(mask), first_bit(bits)       a bit for each lane that is set; the number of the lowest
    spread_entry(x, i, k)                lane k of entry i of an array of registers, in all lanes
    entry(x, i), put_entry(x, i, value)  entry i, which is not negative
    exp2(x)                              2 to the power of x, for |x| below 100, to rounding
"""

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import warp as wp

from gradsim.engine.elementary import EXPONENT
from gradsim.engine.lanes import Lane, names
from gradsim.engine.rows import row_functions

if TYPE_CHECKING:  # what a template sees
    store = load_ints = store_ints = lanes_from = spread_int = lane_int = less_int = equal_int = Any
    is_open = either = without = first_lane = truncated = float_bits = Any
    load_tile = store_tile = load_part = store_part = any_of = load_block = Any
    bits_of = first_bit = spread_entry = entry = put_entry = exp2 = Any

TERMS = {"float32": 8, "float64": 14}  # of the series of 2^r, |r| ≤ 1/2: (ln 2 / 2)^n / n! rounds to 0


@cache
def tiles(lane: Lane, rows: int, columns: int) -> dict:
    """Types and functions by the names in the head of this file, for rectangles of as many pixels as lanes."""
    table, width = names(lane), lane.width
    scalar = {"float32": "float", "float64": "double"}[lane.dtype]
    integer = {"float32": "int", "float64": "long"}[lane.dtype]
    Real, Mask, Scalar = table["Real"], table["Mask"], table["Scalar"]
    register = lambda kind, count: (
        f"{kind} __attribute__((vector_size({count} * sizeof({scalar})), aligned(4), may_alias))"
    )
    head = f"typedef {scalar} {register('Q', columns)}; typedef {scalar} {register('V', width)}; "
    head += f"typedef {integer} {register('M', width)}; "
    place = f"({scalar}*)x.data + i + (long)k * stride"
    real = f"wp::vec_t<{width}, {scalar}>"

    @wp.func_native(f"{head}{real} out; for (int k = 0; k < {rows}; ++k) ((Q*)&out)[k] = *(const Q*)({place}); return out;")  # fmt: skip
    def load_tile(x: wp.array[Scalar], i: int, stride: int) -> Real: ...

    @wp.func_native(f"{head}for (int k = 0; k < {rows}; ++k) *(Q*)({place}) = ((const Q*)&value)[k];")
    def store_tile(x: wp.array[Scalar], i: int, stride: int, value: Real): ...

    part = (
        f"for (int k = 0; k < rows; ++k) for (int j = 0; j < columns; ++j) {{ {scalar}* p = {place} + j; "
        f"{scalar}* q = ({scalar}*)t + k * {columns} + j; "
    )

    @wp.func_native(
        f"{head}{real} out; *(V*)&out = V{{}}; {scalar}* t = ({scalar}*)&out; {part}*q = *p; }} return out;"
    )
    def load_part(x: wp.array[Scalar], i: int, stride: int, rows: int, columns: int) -> Real: ...

    @wp.func_native(f"{head}const {scalar}* t = (const {scalar}*)&value; {part}*p = *q; }}")
    def store_part(x: wp.array[Scalar], i: int, stride: int, rows: int, columns: int, value: Real): ...

    @wp.func_native(f"{head}return __builtin_reduce_or(*(const M*)&mask) != 0;")
    def any_of(mask: Mask) -> bool: ...

    block = f"{head}typedef {scalar} {register('B', rows)}; {real} out; "

    @wp.func_native(f"{block}for (int k = 0; k < {columns}; ++k) ((B*)&out)[k] = *(const B*)({place}); return out;")
    def load_block(x: wp.array[Scalar], i: int, stride: int) -> Real: ...

    functions = load_tile, store_tile, load_part, store_part, any_of, load_block
    return {f.func.__name__: f for f in functions}


@cache
def lists(lane: Lane) -> dict:
    """Functions by the names in the head of this file."""
    table, width = names(lane), lane.width
    scalar = {"float32": "float", "float64": "double"}[lane.dtype]
    integer = {"float32": "int", "float64": "long"}[lane.dtype]
    place = EXPONENT[lane.dtype][1]
    Real, Mask = table["Real"], table["Mask"]
    register = f"__attribute__((vector_size({width} * sizeof({scalar})), aligned(4), may_alias))"
    head = f"typedef {scalar} V {register}; typedef {integer} M {register}; "
    real = f"wp::vec_t<{width}, {scalar}>"

    @wp.func_native(
        f"{head}typedef bool B __attribute__((ext_vector_type({width}))); const M& m = *(const M*)&mask; "
        "B b = __builtin_convertvector(m, B); unsigned short bits = 0; __builtin_memcpy(&bits, &b, sizeof(b)); "
        f"return (int)bits & {(1 << width) - 1};"
    )
    def bits_of(mask: Mask) -> int: ...

    @wp.func_native("return __builtin_ctz(bits);")
    def first_bit(bits: int) -> int: ...

    @wp.func_native(f"{head}{real} out; *(V*)&out = (({scalar}*)x.data)[i * {width} + k] - V{{}}; return out;")
    def spread_entry(x: wp.array[Real], i: int, k: int) -> Real: ...

    @wp.func_native(
        f"{head}const V& a = *(const V*)&x; V n = __builtin_elementwise_rint(a), r = a - n; V y = {_power(lane.dtype, scalar)}; "
        f"M shift = __builtin_convertvector(n, M) << {place}; *(M*)&y += shift; {real} out; *(V*)&out = y; return out;"
    )
    def exp2(x: Real) -> Real: ...

    @wp.func_native(f"{head}{real} out; *(V*)&out = ((V*)x.data)[i]; return out;")
    def entry(x: wp.array[Real], i: int) -> Real: ...

    @wp.func_native(f"{head}((V*)x.data)[i] = *(const V*)&value;")
    def put_entry(x: wp.array[Real], i: int, value: Real): ...

    return {f.func.__name__: f for f in (bits_of, first_bit, spread_entry, entry, put_entry, exp2)}


def _power(dtype: str, scalar: str) -> str:
    """C++ of 2^r for |r| ≤ 1/2, by its Taylor series to rounding."""
    *lower, text = (f"({scalar}){math.log(2) ** k / math.factorial(k)!r}" for k in range(TERMS[dtype]))
    for number in reversed(lower):
        text = f"({number} + r * {text})"
    return text


@cache
def runs(lane: Lane) -> dict:
    """Types and functions by the names in the head of this file."""
    return row_functions(lane) | _Runs(lane).names


class _Runs:
    """Builds them for one lane type."""

    def __init__(self, lane: Lane):
        table, width = names(lane), lane.width
        scalar = {"float32": "float", "float64": "double"}[lane.dtype]
        integer = {"float32": "int", "float64": "long"}[lane.dtype]
        Real, Mask, Scalar = table["Real"], table["Mask"], table["Scalar"]
        register = lambda kind, size: (
            f"__attribute__((vector_size({width} * sizeof({kind})), aligned({size}), may_alias))"
        )
        head = f"typedef {scalar} V {register(scalar, 4)}; typedef {integer} M {register(integer, 4)}; "
        head += f"typedef int I {register('int', 4)}; typedef float F {register('float', 4)}; "
        ints = f"wp::vec_t<{width}, wp::{Mask._wp_scalar_type_.__name__}>"
        to_ints = lambda value: f"{head}{ints} out; *(M*)&out = {value}; return out;"
        a, b = "(*(const M*)&a)", "(*(const M*)&b)"
        count = ", ".join(map(str, range(width)))

        @wp.func_native(f"{head}V* p = (V*)(({scalar}*)x.data + i); *p = *(const M*)&mask ? *(const V*)&value : *p;")
        def store(x: wp.array[Scalar], i: int, mask: Mask, value: Real): ...

        @wp.func_native(to_ints("__builtin_convertvector(*(const I*)((int*)x.data + i), M)"))
        def load_ints(x: wp.array[wp.int32], i: int) -> Mask: ...

        @wp.func_native(
            f"{head}I* p = (I*)((int*)x.data + i); "
            "*p = __builtin_convertvector(*(const M*)&mask, I) ? __builtin_convertvector(*(const M*)&value, I) : *p;"
        )
        def store_ints(x: wp.array[wp.int32], i: int, mask: Mask, value: Mask): ...

        @wp.func_native(to_ints(f"(M{{{count}}} >= first) & (M{{{count}}} < end)"))
        def lanes_from(first: int, end: int) -> Mask: ...

        @wp.func_native(to_ints("M{} + i"))
        def spread_int(i: int) -> Mask: ...

        @wp.func_native(f"{head}return (int){a}[k];")
        def lane_int(a: Mask, k: int) -> int: ...

        @wp.func_native(to_ints(f"{a} < {b}"))
        def less_int(a: Mask, b: Mask) -> Mask: ...

        @wp.func_native(to_ints(f"{a} == {b}"))
        def equal_int(a: Mask, b: Mask) -> Mask: ...

        @wp.func_native(to_ints(f"({a} & bits) != bits"))
        def is_open(a: Mask, bits: int) -> Mask: ...

        @wp.func_native(to_ints(f"{a} | {b}"))
        def either(a: Mask, b: Mask) -> Mask: ...

        @wp.func_native(to_ints(f"{a} & ~{b}"))
        def without(a: Mask, b: Mask) -> Mask: ...

        @wp.func_native(f"{head}for (int k = 0; k < {width}; ++k) if ({a}[k]) return k; return {width};")
        def first_lane(a: Mask) -> int: ...

        @wp.func_native(to_ints("__builtin_convertvector(*(const V*)&a, M)"))
        def truncated(a: Real) -> Mask: ...

        @wp.func_native(
            to_ints("__builtin_convertvector(*(I*)&f, M)").replace(
                "*(M*)&out", "F f = __builtin_convertvector(*(const V*)&a, F); *(M*)&out"
            )
        )
        def float_bits(a: Real) -> Mask: ...

        functions = (store, load_ints, store_ints, lanes_from, spread_int, lane_int, less_int, equal_int)
        functions += (is_open, either, without, first_lane, truncated, float_bits)
        self.names = {f.func.__name__: f for f in functions} | {"Ints": Mask}
