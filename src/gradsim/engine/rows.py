# pyright: reportInvalidTypeForm=false
"""Consecutive numbers of an array in one register: native functions of a lane type.

`row_functions(lane)` gives the names that a template leaves open. A register of one lane holds one number, so the same template
runs on a GPU.
"""

from functools import cache
from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import Lane, names

if TYPE_CHECKING:
    from gradsim.engine.lanes import Mask, Real, Scalar


@cache
def row_functions(lane: Lane) -> dict:
    """Functions below, by name, and `WIDTH`, the number of lanes."""
    table, width = names(lane), lane.width
    Real, Mask, Scalar = (table[name] for name in ("Real", "Mask", "Scalar"))
    scalar = {"float32": "float", "float64": "double"}[lane.dtype]
    bits, size = {"float32": ("int", 4), "float64": ("long", 8)}[lane.dtype]
    packed = f"__attribute__((vector_size({width * size}), aligned({size}), may_alias))" if width > 1 else ""
    mask = bits if width > 1 else "bool"
    head = f"typedef {scalar} V {packed}; typedef {mask} M {packed}; typedef {scalar} S; "
    real = f"wp::vec_t<{width}, {scalar}>" if width > 1 else scalar
    masks = f"wp::vec_t<{width}, wp::int{8 * size}>" if width > 1 else "bool"
    new = f"{head}{real} out; V& o = *(V*)&out; "
    steps = "".join(
        f"o += {_shuffle('o', 'V{}', [width if i < h else i - h for i in range(width)])}; "
        for h in (1 << k for k in range(width.bit_length() - 1))
    )
    lanes = "".join(f"o[{i}] = {i}; " for i in range(width)) if width > 1 else "o = 0; "
    next_lanes = _shuffle("*(V*)&a", "V{} + before", [width, *range(width - 1)]) if width > 1 else "before"

    @wp.func_native(f"{new}o = *(const V*)((const S*)x.data + at); return out;")
    def load_row(x: wp.array[Scalar], at: int) -> Real: ...

    @wp.func_native(f"{head}*(V*)((S*)x.data + at) = *(V*)&value;")
    def store_row(x: wp.array[Scalar], at: int, value: Real): ...

    @wp.func_native(
        f"{new}o = *(const V*)((const S*)((const char*)x.data + (long)x.strides[0] * row) + column); return out;"
    )
    def load_image(x: wp.array2d[Scalar], row: int, column: int) -> Real: ...

    @wp.func_native(f"{new}o = *(V*)&a; {steps}return out;")
    def running_sum(a: Real) -> Real: ...

    @wp.func_native(f"{new}o = {next_lanes}; return out;")
    def shifted(a: Real, before: Scalar) -> Real: ...

    @wp.func_native(f"{new}{lanes}o += (S)first; return out;")
    def numbers_from(first: int) -> Real: ...

    fold = "".join(
        f"{{ V b = {_shuffle('o', 'o', [(i + h) % width for i in range(width)])}; o = o > b ? o : b; }} "
        for h in (1 << k for k in range(width.bit_length() - 1))
    )
    entry = "o[0]" if width > 1 else "o"

    @wp.func_native(f"{new}o = *(V*)&a; {fold}return {entry};")
    def most(a: Real) -> Scalar: ...

    @wp.func_native(f"{head}{masks} out; *(M*)&out = *(M*)&a & *(M*)&b; return out;")
    def both(a: Mask, b: Mask) -> Mask: ...

    functions = {"load_row": load_row, "store_row": store_row, "load_image": load_image, "running_sum": running_sum}
    return functions | {"shifted": shifted, "numbers_from": numbers_from, "both": both, "most": most, "WIDTH": width}


def _shuffle(a: str, b: str, places: list[int]) -> str:
    """C++ of the entries of two registers at some places, those of the second after those of the first."""
    return f"__builtin_shufflevector({a}, {b}, {', '.join(map(str, places))})"


if TYPE_CHECKING:  # as templates see them
    WIDTH: int

    def load_row(x: wp.array[Scalar], at: int) -> Real:
        """Numbers of an array from a place on."""
        ...

    def store_row(x: wp.array[Scalar], at: int, value: Real) -> None:
        """Put them there."""
        ...

    def load_image(x: wp.array2d[Scalar], row: int, column: int) -> Real:
        """Numbers of a row from a column on; those beyond its end are of the next row."""
        ...

    def running_sum(a: Real) -> Real:
        """Each lane and those before it."""
        ...

    def shifted(a: Real, before: Scalar) -> Real:
        """In each lane the one before it, and a number in the first."""
        ...

    def numbers_from(first: int) -> Real:
        """A number, the next, and so on."""
        ...

    def most(a: Real) -> Scalar:
        """Largest number of all lanes."""
        ...

    def both(a: Mask, b: Mask) -> Mask:
        """True where both are."""
        ...
