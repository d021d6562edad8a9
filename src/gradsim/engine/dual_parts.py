# pyright: reportInvalidTypeForm=false
"""Conversion between plain and dual vectors: pair a value with its tangent, and split them again.

`split_dual(lane)` gives, for vectors of a plain lane type: `pair(x, d)`, the dual vector of value x and derivative d; and
`value` and `slope` of a dual vector.
"""

from functools import cache
from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import Lane, names

if TYPE_CHECKING:  # as templates see them; a dual vector is a `Vec3` to them
    from gradsim.engine.lanes import Vec3

    def pair(x: Vec3, d: Vec3) -> Vec3: ...
    def value(x: Vec3) -> Vec3: ...
    def slope(x: Vec3) -> Vec3: ...


@cache
def split_dual(lane: Lane) -> dict:
    """`pair`, `value` and `slope`.

    Args:
        lane: The plain lane type.
    """
    scalar = {"float32": "float", "float64": "double"}[lane.dtype]
    plain, dual = names(lane)["Vec3"], names(Lane(lane.dtype, lane.width, True))["Vec3"]
    n = 3 * lane.width
    ctype = lambda rows: (
        f"wp::mat_t<{rows}, {lane.width}, {scalar}>" if lane.width > 1 else f"wp::vec_t<{rows}, {scalar}>"
    )
    copy = lambda to, given: f"for (int i = 0; i < {n}; ++i) (({scalar}*)&out)[i{to}] = ((const {scalar}*)&{given}; "

    @wp.func_native(f"{ctype(6)} out; {copy('', 'x)[i]')}{copy(f' + {n}', 'd)[i]')}return out;")
    def pair(x: plain, d: plain) -> dual: ...

    @wp.func_native(f"{ctype(3)} out; {copy('', 'x)[i]')}return out;")
    def value(x: dual) -> plain: ...

    @wp.func_native(f"{ctype(3)} out; {copy('', f'x)[i + {n}]')}return out;")
    def slope(x: dual) -> plain: ...

    return {"pair": pair, "value": value, "slope": slope}
