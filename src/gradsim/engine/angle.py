"""atan2 for the lane types of `engine.lanes`.

Separate from the other operators, since few templates need it and a change there recompiles all of them.
"""

from functools import cache
from typing import TYPE_CHECKING

from gradsim.engine.lanes import Lane, _Table

if TYPE_CHECKING:
    from gradsim.engine.lanes import Real

    def atan2(y: Real, x: Real) -> Real: ...


@cache
def angle_functions(lane: Lane) -> dict:
    """`atan2(y, x)`, the angle of (x, y) from the first axis, in (−π, π]; a template leaves it open."""
    table = _Table(lane)
    Real, width, scalar = table.names["Real"], lane.width, lane_scalar(lane)
    loop = f"for (int i = 0; i < {width}; ++i) "
    one = lambda name: f"(({scalar}*){name})[i]"
    square = "V s = a[0] * a[0] + b[0] * b[0]; "
    table.native(
        "atan2",
        Real,
        (Real, Real),
        f"{loop}{one('o')} = wp::atan2({one('a')}, {one('b')}); ",
        f"{square}da[0] += g[0] * b[0] / s; db[0] -= g[0] * a[0] / s; ",
        f"{square}to[0] = (ta[0] * b[0] - tb[0] * a[0]) / s; ",
    )
    return {"atan2": table.names["atan2"]}


def lane_scalar(lane: Lane) -> str:
    """The name of its numbers in C++."""
    return {"float32": "float", "float64": "double"}[lane.dtype]
