# pyright: reportInvalidTypeForm=false
"""Gather, scatter, load and store of mesh vertices, for each mapping of work to lanes.

    "worlds"    a register holds one vertex of several worlds: arrays of Vec3, an index is one number
    "elements"  a register holds the vertices of several elements of one world: arrays of rows (x, y, z, 0), an index
                is a register of numbers; a dual row is followed by that of its derivative
    "threads"   one element a thread, many threads at once: arrays of Vec3, sums are atomic

`access(lane, mapping)` gives the names that a template leaves open: `Vertex`, the type of an array of vertices, `Index`,
`gather` and `scatter` (add) by index, and `load` and `store` of one block of consecutive vertices. With the mapping
"elements", a block has as many vertices as a register has lanes.
"""

from functools import cache
from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import Lane, members, names, specialize

if TYPE_CHECKING:
    from gradsim.engine import access_kernels
else:
    access_kernels = "gradsim.engine.access_kernels"


@cache
def access(lane: Lane, mapping: str) -> dict:
    """Types and functions of one mapping, by the names in the head of this file."""
    if mapping == "elements" and lane.width > 1:
        return _Transposing(lane).names
    code = specialize(access_kernels, lane, ATOMIC=mapping == "threads")
    functions = {"Vertex": names(lane)["Vec3"], "Index": wp.int32, "gather": code.load}
    return functions | members(code, "scatter", "load", "store")


class _Transposing:
    """Native functions that turn rows of vertices into registers and back, four rows at a time."""

    def __init__(self, lane: Lane):
        self.width, self.scalar = lane.width, {"float32": "float", "float64": "double"}[lane.dtype]
        self.parts = 2 if lane.dual else 1
        self.quads = lane.width // 4
        table = names(lane)
        Vec3, width = table["Vec3"], lane.width
        Row = wp.types.vector(4 * self.parts, table["Scalar"])
        Index = wp.types.vector(width, wp.int32)
        out = f"wp::mat_t<{3 * self.parts}, {width}, {self.scalar}> out; V* o = (V*)&out; "
        at = lambda i: f"{4 * self.parts} * (long)i.c[{i}]"
        block = lambda i: f"{4 * self.parts} * ((long)b * {width} + {i})"

        @wp.func_native(f"{self._head('const')}{out}{self._read(at)}return out;")
        def gather(x: wp.array[Row], i: Index) -> Vec3: ...

        @wp.func_native(f"{self._head('const')}{out}{self._read(block)}return out;")
        def load(x: wp.array[Row], b: int) -> Vec3: ...

        @wp.func_native(f"{self._head('')}{self._write(at, '+=')}")
        def scatter(x: wp.array[Row], i: Index, value: Vec3): ...

        @wp.func_native(f"{self._head('')}{self._write(block, '=')}")
        def store(x: wp.array[Row], b: int, value: Vec3): ...

        self.names = {"Vertex": Row, "Index": Index, "gather": gather, "load": load, "scatter": scatter}
        self.names |= {"store": store}

    def _head(self, const: str) -> str:
        size = {"float": 4, "double": 8}[self.scalar]
        types = (("V", self.width * size), ("Q", 4 * size))
        head = "".join(
            f"typedef {self.scalar} {name} __attribute__((vector_size({n}), aligned(4), may_alias)); "
            for name, n in types
        )
        return f"{head}{const} {self.scalar}* base = ({const} {self.scalar}*)x.data; "

    def _read(self, at) -> str:
        """o[...] from rows: 4 × 4 blocks of (row, component) are transposed in two rounds of shuffles."""
        code = ""
        for part in range(self.parts):
            code += "{ " + "".join(f"Q q{k} = *(const Q*)(base + {at(k)} + {4 * part}); " for k in range(self.width))
            code += "".join(f"V r{r} = {self._join([f'q{r + 4 * k}' for k in range(self.quads)])}; " for r in range(4))
            code += f"V s = {self._mix('r0', 'r1', LOW)}, t = {self._mix('r2', 'r3', LOW)}; "
            code += f"V u = {self._mix('r0', 'r1', HIGH)}, w = {self._mix('r2', 'r3', HIGH)}; "
            pairs = (("s", "t", EVEN), ("s", "t", ODD), ("u", "w", EVEN))
            code += "".join(f"o[{3 * part + c}] = {self._mix(*pair)}; " for c, pair in enumerate(pairs)) + "} "
        return code

    def _write(self, at, operator: str) -> str:
        code = "const V* a = (const V*)&value; V z = {}; "
        for part in range(self.parts):
            x, y, w = (f"a[{3 * part + c}]" for c in range(3))
            code += f"{{ V s = {self._mix(x, y, LOW)}, t = {self._mix(x, y, HIGH)}; "
            code += f"V u = {self._mix(w, 'z', LOW)}, v = {self._mix(w, 'z', HIGH)}; "
            rows = (("s", "u", EVEN), ("s", "u", ODD), ("t", "v", EVEN), ("t", "v", ODD))
            code += "".join(f"V r{r} = {self._mix(*row)}; " for r, row in enumerate(rows))
            for r in range(4):
                for k in range(self.quads):
                    quad = f"__builtin_shufflevector(r{r}, r{r}, {', '.join(str(4 * k + j) for j in range(4))})"
                    code += f"*(Q*)(base + {at(r + 4 * k)} + {4 * part}) {operator} {quad}; "
            code += "} "
        return code

    def _join(self, short: list[str]) -> str:
        """Short vectors one after another."""
        if len(short) == 1:
            return short[0]
        half = len(short) // 2
        places = ", ".join(map(str, range(4 * len(short))))
        return f"__builtin_shufflevector({self._join(short[:half])}, {self._join(short[half:])}, {places})"

    def _mix(self, a: str, b: str, pattern: tuple[int, ...]) -> str:
        """Within each four lanes: `pattern` picks 0–3 of a, 4–7 of b."""
        places = (p + 4 * k if p < 4 else self.width + p - 4 + 4 * k for k in range(self.quads) for p in pattern)
        return f"__builtin_shufflevector({a}, {b}, {', '.join(map(str, places))})"


LOW, HIGH, EVEN, ODD = (0, 4, 1, 5), (2, 6, 3, 7), (0, 1, 4, 5), (2, 3, 6, 7)
