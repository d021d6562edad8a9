"""Loops over elements, written from the signatures of their forces: one text for every lane type and mapping.

For each force there is a struct of its arrays by name, a function that adds the forces of one element, and one that
adds the adjoints from the gradient of the virtual power Σ f · w (see `engine.access` for mappings). `assemble` puts
those of several groups of elements into one module: a struct `Elements` with a field for each group, and over all of
them `add_forces`, `add_adjoints`, and for implicit steps (x + h v moves, v moves) `add_products`, of the Jacobian
h ∂f/∂x + ∂f/∂v transposed with a probe, `add_diagonals`, its diagonal of 3 × 3 blocks, and `add_bands`, all of its blocks
between vertices, which are in the order of their places. All of them take the number t
of the frame interval, for parameters that have a value in each.
"""

import hashlib
import inspect
import linecache
import sys
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.access import access
from gradsim.engine.lanes import Lane, names, specialize
from gradsim.engine.mapping import CONSTANTS
from gradsim.physics.forces.base import Force


@cache
def assemble(forces: tuple[Force, ...], lane: Lane, mapping: str) -> ModuleType:
    """Module with `Elements`, `add_forces` and, but for dual lanes, `add_adjoints`, `add_products`, `add_diagonals`,
    `add_bands` (of the mapping "worlds") and `all_powers` for groups of elements.

    `all_powers` has to be called by a kernel with a backward pass in the module that calls any of the last: else Warp
    leaves the adjoints of nested functions empty.

    Args:
        forces: That of each group; the groups are called g0, g1, ...
        lane: The lane type.
        mapping: See `engine.access`.
    """
    kinds = list(dict.fromkeys(forces))
    reached = access(lane, mapping)
    known = {**names(lane), **reached, "wp": wp}
    text = ['"""Written by gradsim.physics.forces.assembly."""', *_UNIT]
    text += _BLOCK if mapping == "worlds" and not lane.dual else []
    digest, calls = hashlib.sha256(), []
    for k, force in enumerate(kinds):
        code = specialize(force.module, lane, **(force.bind(lane) if force.bind else {}))
        digest.update(f"{code.__name__} {inspect.getsource(sys.modules[code.__name__])}".encode())
        known |= {f"forces{k}": code.forces}
        if hasattr(code, "power"):
            known[f"power{k}"] = code.power
        if hasattr(code, "active"):
            known[f"active{k}"] = code.active
        writer = _Writer(k, force, code, mapping, lane)
        text += writer.text()
        calls.append(writer.power_call())
    groups = [kinds.index(force) for force in forces]
    text += _together(groups, lane, mapping)
    if not lane.dual:
        text += ["", "", "@wp.func", "def all_powers(a: Vec3, m: Mat3, r: Real) -> Real:"]
        text += [f"    return {' + '.join(calls) or 'r'}"]
    if mapping == "threads":
        text += _launched(kinds, lane)
    source = "\n".join(text) + "\n"
    digest.update(f"{lane.name} {mapping} {reached['Vertex']} {source}".encode())
    known["KINDS"] = groups  # place of the force of each group
    return _module(f"gradsim.physics.assembled_{digest.hexdigest()[:12]}", source, known, lane)


def _module(name: str, source: str, known: dict, lane: Lane) -> ModuleType:
    """A module of this source, which Warp and a debugger can read."""
    if name in sys.modules:
        return sys.modules[name]
    module, file = ModuleType(name), f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    vars(module).update(known, __file__=file)
    sys.modules[name] = module
    exec(compile(source, file, "exec"), vars(module))  # noqa: S102 -- ours
    wp.set_module_options({"fast_math": lane.dtype == "float32"}, module=module)
    return module


if TYPE_CHECKING:  # the assembled source, as templates see it
    from gradsim.engine.lanes import Mat3, Real, Vec3

    class Elements: ...

    Vertices = wp.array[Vec3]

    def add_forces(e: Elements, i: int, t: int, x: Vertices, v: Vertices, f: Vertices) -> None: ...
    def add_adjoints(
        e: Elements, d: Elements, i: int, t: int, x: Vertices, v: Vertices, w: Vertices, ax: Vertices, av: Vertices
    ) -> None: ...
    def add_products(
        e: Elements, i: int, t: int, h: Real, x: Vertices, v: Vertices, w: Vertices, a: Vertices
    ) -> None: ...
    def add_diagonals(
        e: Elements, i: int, t: int, h: Real, x: Vertices, v: Vertices, d0: Vertices, d1: Vertices, d2: Vertices
    ) -> None: ...
    def add_bands(
        e: Elements,
        i: int,
        t: int,
        h: Real,
        x: Vertices,
        v: Vertices,
        place: wp.array[wp.int32],
        transposed: int,
        band: wp.array2d[Mat3],
    ) -> None: ...
    def all_powers(a: Vec3, m: Mat3, r: Real) -> Real: ...


class _Writer:
    """Text for one force."""

    def __init__(self, k: int, force: Force, code: ModuleType, mapping: str, lane: Lane):
        self.k, self.force, self.code, self.lane = k, force, code, lane
        self.mapping = mapping
        self.shared = mapping != "elements" or lane.width == 1  # whether constants are plain numbers
        self.nodes = range(force.nodes)
        self.vertices = range(force.nodes - force.body_nodes)
        self._accumulate = "d.{0}[i, j_{0}] = d.{0}[i, j_{0}] + {0}_"
        if mapping == "threads":  # elements that share a number meet there
            self._accumulate = "wp.atomic_add(d.{0}, i, j_{0}, {0}_)"

    def text(self) -> list[str]:
        lines = [*self._struct(), *self._sum()]
        if self.lane.dual:
            return lines
        lines = [*lines, *self._power(), *self._adjoint(), *self._product(), *self._diagonal()]
        return [*lines, *self._band()] if self.mapping == "worlds" else lines

    def _struct(self) -> list[str]:
        constant = lambda kind: CONSTANTS[kind] if self.shared else kind
        return [
            "",
            "",
            "@wp.struct",
            f"class Force{self.k}:",
            *(f"    n{n}: wp.array[Index]" for n in self.nodes),
            *(f"    {name}: wp.array[{constant(kind)}]" for name, kind in self.force.rest.items()),
            *(f"    {name}: wp.array2d[{kind}]" for name, kind in self.force.parameters.items()),
            # entries of one frame interval, and from one to the next: 0 where one number applies to all of them
            *(f"    {prefix}_{name}: wp.int32" for name in self.force.parameters for prefix in ("count", "stride")),
        ]

    def _sum(self) -> list[str]:
        results = ", ".join(f"f{n}" for n in self.nodes)
        return [
            "",
            "",
            "@wp.func",
            f"def add{self.k}(e: Force{self.k}, i: int, t: int, k: int{_arrays('x', 'v', 'f')}):",
            *self._read(),
            *self._only_active(
                f"{results} = forces{self.k}({self._arguments()})",
                *(f"scatter(f, n{n}, f{n})" for n in self.nodes),
            ),
        ]

    def _power(self) -> list[str]:
        if hasattr(self.code, "power"):
            return []
        arguments = [*self._signature(), *(f"w{n}" for n in self.nodes)]
        kinds = ["Vec3"] * 2 * self.force.nodes + [*self.force.rest.values(), *self.force.parameters.values()]
        kinds += ["Vec3"] * self.force.nodes
        results = ", ".join(f"f{n}" for n in self.nodes)
        return [
            "",
            "",
            "@wp.func(inline=True)",
            f"def power{self.k}({', '.join(f'{a}: {T}' for a, T in zip(arguments, kinds, strict=True))}) -> Real:",
            f"    {results} = forces{self.k}({', '.join(self._signature())})",
            f"    return {' + '.join(f'dot(f{n}, w{n})' for n in self.nodes)}",
        ]

    def _adjoint(self) -> list[str]:
        k, parameters = self.k, self.force.parameters
        probes = ", ".join(f"gather(w, n{n})" for n in self.nodes)
        return [
            "",
            "",
            "@wp.func",
            f"def add_adjoint{k}(e: Force{k}, d: Force{k}, i: int, t: int, k: int{_arrays('x', 'v', 'w', 'ax', 'av')}):",
            *self._read(),
            *self._only_active(
                f"{self._derivatives()} = wp.grad(power{k})({self._arguments()}, {probes})",
                *(f"scatter(a{y}, n{n}, {y}{n}_)" for y in "xv" for n in self.nodes),
                *(self._accumulate.format(name) for name in parameters),
            ),
        ]

    def _derivatives(self) -> str:
        """Names of all derivatives of the virtual power."""
        return ", ".join([*(f"{a}_" for a in self._signature()), *(f"w{n}_" for n in self.nodes)])

    def _product(self) -> list[str]:
        k, probes = self.k, ", ".join(f"gather(w, n{n})" for n in self.nodes)
        return [
            "",
            "",
            "@wp.func",
            f"def add_product{k}(e: Force{k}, i: int, t: int, k: int, h: Real{_arrays('x', 'v', 'w', 'a')}):",
            *self._read(),
            *self._only_active(
                f"{self._derivatives()} = wp.grad(power{k})({self._arguments()}, {probes})",
                *(f"scatter(a, n{n}, x{n}_ * h + v{n}_)" for n in self.nodes),
            ),
        ]

    def _diagonal(self) -> list[str]:
        k, probes = self.k, ", ".join(f"unit(q - {3 * n})" for n in self.nodes)
        return [
            "",
            "",
            "@wp.func",
            f"def add_diagonal{k}(e: Force{k}, i: int, t: int, k: int, h: Real{_arrays('x', 'v', 'd0', 'd1', 'd2')}):",
            *self._read(),
            *self._only_active(
                f"count = int({3 * self.force.nodes})",  # else Warp unrolls it
                "for q in range(count):",
                f"    {self._derivatives()} = wp.grad(power{k})({self._arguments()}, {probes})",
                "    n = n0",
                "    column = x0_ * h + v0_",
                *(
                    line
                    for n in self.nodes[1:]
                    for line in (f"    if q // 3 == {n}:", f"        n = n{n}", f"        column = x{n}_ * h + v{n}_")
                ),
                *(line for c in range(3) for line in (f"    if q % 3 == {c}:", f"        scatter(d{c}, n, column)")),
            ),
        ]

    def _band(self) -> list[str]:
        k, probes = self.k, ", ".join(f"unit(q - {3 * n})" for n in self.nodes)
        return [
            "",
            "",
            "@wp.func",
            f"def add_band{k}({self._band_arguments()}):",
            *self._read(),
            *self._only_active(
                f"count = int({3 * len(self.vertices)})",  # else Warp unrolls it
                "for q in range(count):",
                f"    {self._derivatives()} = wp.grad(power{k})({self._arguments()}, {probes})",
                "    n = n0",
                *(line for n in self.vertices[1:] for line in (f"    if q // 3 == {n}:", f"        n = n{n}")),
                "    row = unit(q % 3)",
                *(
                    f"    add_block(band, place[n], place[n{m}], transposed, row, x{m}_ * h + v{m}_)"
                    for m in self.vertices
                ),
            ),
        ]

    def _band_arguments(self) -> str:
        arrays = "place: wp.array[wp.int32], transposed: int, band: wp.array2d[Mat3]"
        return f"e: Force{self.k}, i: int, t: int, k: int, h: Real{_arrays('x', 'v')}, {arrays}"

    def power_call(self) -> str:
        """The virtual power at some arguments."""
        kinds = ["Vec3"] * 2 * self.force.nodes + [*self.force.rest.values(), *self.force.parameters.values()]
        kinds += ["Vec3"] * self.force.nodes
        return f"power{self.k}({', '.join({'Vec3': 'a', 'Mat3': 'm', 'Real': 'r'}[kind] for kind in kinds)})"

    def _signature(self) -> list[str]:
        vertices = [f"{y}{n}" for y in "xv" for n in self.nodes]
        return [*vertices, *self.force.rest, *self.force.parameters]

    def _read(self) -> list[str]:
        parameters = self.force.parameters
        return [
            *(f"    n{n} = e.n{n}[k]" for n in self.nodes),
            # or one for all elements
            *(f"    j_{name} = wp.min(k, e.count_{name} - 1) + t * e.stride_{name}" for name in parameters),
        ]

    def _values(self) -> list[str]:
        """Expressions for the arguments in `_signature`, for element k."""
        constant = "spread(e.{}[k])" if self.shared else "e.{}[k]"
        values = [f"gather({y}, n{n})" for y in "xv" for n in self.nodes]
        values += [constant.format(name) for name in self.force.rest]
        return [*values, *(f"e.{name}[i, j_{name}]" for name in self.force.parameters)]

    def _arguments(self) -> str:
        return ", ".join(self._values())

    def _only_active(self, *lines: str) -> list[str]:
        if not hasattr(self.code, "active"):
            return [f"    {line}" for line in lines]
        value = dict(zip(self._signature(), self._values(), strict=True))
        arguments = ", ".join(value[name] for name in inspect.signature(self.code.active.func).parameters)
        return [f"    if any_lane(active{self.k}({arguments})):", *(f"        {line}" for line in lines)]


def _launched(kinds: Sequence[Force], lane: Lane) -> list[str]:
    """Kernels with one element a thread: `forces_of` and `adjoints_of` by place of the force."""
    states, sums = _arrays("x", "v", rank=3), _arrays("f", rank=2)
    probes = _arrays("w", "ax", "av", rank=2)
    lines = []
    for k in range(len(kinds)):
        lines += ["", "", "@wp.kernel(enable_backward=False)"]
        lines += [f"def forces_of{k}(e: Force{k}, t: int, s: int{states}{sums}):", "    i, k = wp.tid()"]
        lines += [f"    add{k}(e, i, t, k, x[i, s], v[i, s], f[i])"]
        if not lane.dual:
            lines += ["", "", "@wp.kernel(enable_backward=False)"]
            lines += [
                f"def adjoints_of{k}(e: Force{k}, d: Force{k}, t: int, s: int{states}{probes}):",
                "    i, k = wp.tid()",
            ]
            lines += [f"    add_adjoint{k}(e, d, i, t, k, x[i, s], v[i, s], w[i], ax[i], av[i])"]
    if kinds and not lane.dual:  # never launched: see `all_powers`
        lines += ["", "", "@wp.kernel(enable_backward=True)"]
        lines += ["def keep_adjoints(a: wp.array[Vec3], m: wp.array[Mat3], r: wp.array[Real]):"]
        lines += ["    if never(0):", "        r[1] = all_powers(a[0], m[0], r[0])"]
    return lines


def _arrays(*names_: str, rank: int = 1) -> str:
    """Arguments that are arrays of vertices."""
    return "".join(f", {name}: wp.array{rank}d[Vertex]" for name in names_)


def _together(groups: Sequence[int], lane: Lane, mapping: str) -> list[str]:
    """The struct of all groups, and the loops over them."""
    lines = ["", "", "@wp.struct", "class Elements:"]
    lines += [f"    g{g}: Force{k}" for g, k in enumerate(groups)] or ["    none: wp.int32"]
    lines += ["", "", "@wp.func", f"def add_forces(e: Elements, i: int, t: int{_arrays('x', 'v', 'f')}):"]
    for g, k in enumerate(groups):
        lines += [f"    for k{g} in range(e.g{g}.n0.shape[0]):", f"        add{k}(e.g{g}, i, t, k{g}, x, v, f)"]
    lines += [] if groups else ["    return"]
    if lane.dual:
        return lines
    lines += ["", "", "@wp.func", "def same(a: Real) -> Real:", "    return a"]
    for name, more, arrays in (
        ("adjoint", "d: Elements, i: int, t: int", ("x", "v", "w", "ax", "av")),
        ("product", "i: int, t: int, h: Real", ("x", "v", "w", "a")),
        ("diagonal", "i: int, t: int, h: Real", ("x", "v", "d0", "d1", "d2")),
    ):
        lines += ["", "", "@wp.func", f"def add_{name}s(e: Elements, {more}{_arrays(*arrays)}):"]
        # Warp declares functions with a wp.grad after all others, those which call them not
        lines += ["    _after = wp.grad(same)(zero(0))"]
        for g, k in enumerate(groups):
            first = f"e.g{g}, d.g{g}, i, t, k{g}" if name == "adjoint" else f"e.g{g}, i, t, k{g}, h"
            lines += [f"    for k{g} in range(e.g{g}.n0.shape[0]):"]
            lines += [f"        add_{name}{k}({first}, {', '.join(arrays)})"]
    if mapping != "worlds":
        return lines
    lines += [
        "",
        "",
        "@wp.func",
        f"def add_bands(e: Elements, i: int, t: int, h: Real{_arrays('x', 'v')}, place: wp.array[wp.int32], transposed: int, band: wp.array2d[Mat3]):",
    ]
    lines += ["    _after = wp.grad(same)(zero(0))"]
    for g, k in enumerate(groups):
        lines += [f"    for k{g} in range(e.g{g}.n0.shape[0]):"]
        lines += [f"        add_band{k}(e.g{g}, i, t, k{g}, h, x, v, place, transposed, band)"]
    return lines


_BLOCK = """

@wp.func
def add_block(band: wp.array2d[Mat3], n: int, m: int, transposed: int, row: Vec3, derivative: Vec3):
    middle = band.shape[1] // 2
    if transposed == 1:
        band[m, middle + n - m] = band[m, middle + n - m] + outer(derivative, row)
    else:
        band[n, middle + m - n] = band[n, middle + m - n] + outer(row, derivative)
""".splitlines()

_UNIT = """

@wp.func
def unit(c: int) -> Vec3:
    x = wp.where(c == 0, 1.0, 0.0)
    y = wp.where(c == 1, 1.0, 0.0)
    z = wp.where(c == 2, 1.0, 0.0)
    return vec3(zero(0) + x, zero(0) + y, zero(0) + z)
""".splitlines()
