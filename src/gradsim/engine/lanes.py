# pyright: reportInvalidTypeForm=false
"""One set of names for the sources of physics: Real, Vec3, Mat3, Quat and their operators, for any lane type.

    Lane("float32")                      Warp's own float, vec3, mat33, quat: CUDA, or one world at a time on a CPU
    Lane("float64")                      the same in double precision
    Lane("float64", 8)                   every component is a register of 8 worlds (CPU)
    Lane("float64", 8, dual=True)        ... with a forward derivative for every component

A file of kernels starts with `from gradsim.engine.lanes import *` and is a *template*: `specialize` runs it once for
each lane type, and the star import brings the types and operators of that lane type. Warp resolves `a * b` to the
function `mul` among the globals of the caller, so the operators come the same way. Names that depend on more than the
lane type, such as functions of another specialized template, are left open: the template declares them in imports under
`if TYPE_CHECKING:`, and `specialize` binds them.

A template is never imported at run time, only named. The file that uses it shows it to readers and type checkers as a
module (`lanes.pyi` states the names that a template sees):

    if TYPE_CHECKING:
        from gradsim.physics.rigid import kernels
    else:
        kernels = "gradsim.physics.rigid.kernels"

    code = specialize(kernels, Lane("float64", 8), INTEGRATOR="rk4")

Every operator is one native function on vector registers, because Warp scalarises its own operators on packed types.
Operators on tensors are polynomials in the components: each is stated by its NumPy formula, which is traced once,
and value, adjoint and forward derivative are derived from it.
"""

import ast
import hashlib
import importlib.util
import itertools
import pathlib
import sys
import threading
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import numpy as np
import warp as wp

from gradsim.engine import elementary
from gradsim.errors import InputError

wp.config.log_level = wp.LOG_ERROR  # its line for every module would drown ours

FORWARD = "_forward"  # ends the name of the Warp module that has the forward sweep of a template, see `rollout_kernels`
RARE = "_rare"  # ends the name of the Warp module of those kernels of a template that few calls need: they are compiled when one does

__all__ = [  # noqa: PLE0604 -- the names that a template sees, made for each lane type by `names`; see lanes.pyi
    *("Scalar", "Point", "Real", "Mask", "Vec3", "Mat3", "Quat", "DUAL"),
    *("add", "sub", "mul", "div", "neg", "where", "less", "any_lane", "min", "max", "abs", "sqrt", "sin", "cos"),
    *("never",),
    *("spread", "vec3", "quat", "dot", "cross", "qdot", "vector_part", "rotate", "unrotate", "zero", "zero3"),
    *("Matrix", "transpose", "cofactor", "det", "ddot", "columns", "column0", "column1", "column2", "outer"),
    *elementary.NAMES,
]


@dataclass(frozen=True)
class Lane:
    """Number type of a specialized template: precision, SIMD width, and dual or plain.

    Args:
        dtype: "float32" or "float64".
        width: Worlds in one register; 1 for CUDA and for one world at a time.
        dual: Whether every number carries a forward derivative.
    """

    dtype: str = "float64"
    width: int = 1
    dual: bool = False

    @property
    def name(self) -> str:
        return f"{self.dtype}x{self.width}{'d' if self.dual else ''}"


def lane_of(dtype) -> Lane:
    """The plain lane of a dtype of torch."""
    return Lane(str(dtype).removeprefix("torch."))


def check_dtype(dtype) -> None:
    """Raise `InputError` if a dtype of torch is not one of lanes."""
    if str(dtype) not in ("torch.float32", "torch.float64"):
        raise InputError(f"dtype: got {dtype}; expected torch.float32 or torch.float64.")


def native_width(dtype: str) -> int:
    """Lanes in the widest vector register of this CPU: 64 bytes with AVX-512, else 32."""
    try:
        from numpy._core._multiarray_umath import __cpu_features__ as features
    except ImportError:  # NumPy moved its private table: the narrow register runs everywhere
        features = {}
    return (64 if features.get("AVX512F") else 32) // np.dtype(dtype).itemsize


_active = [Lane()]
_specializing = threading.RLock()  # templates that run refer to `_active`


def __getattr__(name: str):
    if name in __all__ or name in elementary.NAMES_WITHOUT_DUALS:
        return names(_active[-1])[name]
    raise AttributeError(name)


def specialize(template: str | ModuleType, lane: Lane, **bound) -> ModuleType:
    """Run a template for one lane type, as a Python and Warp module of its own; cached.

    Args:
        template: Dotted name of the file, such as "gradsim.physics.pendulum.simple_kernels", or a module that was
            imported. A type checker always sees a module (see the head of this file).
        lane: The lane type.
        **bound: Names that the template leaves open.
    """
    name = template if isinstance(template, str) else template.__name__
    with _specializing:
        return _specialize(name, lane, tuple(sorted(bound.items(), key=lambda item: item[0])))


def members(code: ModuleType, *names: str) -> dict:
    """Members of a specialized template by name, to bind in another one: `specialize(..., **members(code, "f"))`."""
    return {name: getattr(code, name) for name in names}


@cache
def _operator_digest() -> str:
    """Digest of the operators' source code, which Warp's cache key misses; docstrings and comments do not count."""
    trees = [ast.parse(pathlib.Path(file).read_bytes()) for file in (__file__, elementary.__file__)]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return hashlib.sha256("".join(map(ast.dump, trees)).encode()).hexdigest()[:8]


@cache
def _specialize(template: str, lane: Lane, bound: tuple) -> ModuleType:
    spec = importlib.util.find_spec(template)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(template)
    key = "".join([_operator_digest(), *(getattr(value, "__module__", str(value)) for _, value in bound)])
    suffix = hashlib.sha256(key.encode()).hexdigest()[:8]
    name = f"{template}_{lane.name}_{suffix}"
    copy = importlib.util.spec_from_file_location(name, spec.origin)
    module = importlib.util.module_from_spec(copy)
    vars(module).update(bound)
    sys.modules[name] = module  # inspect and Warp look modules up by name
    _active.append(lane)
    try:
        copy.loader.exec_module(module)
    finally:
        _active.pop()
    set_options(module, fast_math=lane.dtype == "float32")
    return module


def set_options(code: ModuleType, **options) -> None:
    """Set options of Warp's compiler for all kernels of a specialized template, in whichever of its modules they are."""
    for part in ("", FORWARD, RARE):
        wp.set_module_options(options, module=code.__name__ + part)


class _Polynomial(dict):
    """{sorted variables: coefficient}. Traces a NumPy formula on components, and differentiates it."""

    def __add__(p, q):
        return _Polynomial({m: p.get(m, 0) + q.get(m, 0) for m in {**p, **q}})

    def __sub__(p, q):
        return p + _Polynomial({m: -c for m, c in q.items()})

    def __neg__(p):
        return _Polynomial({m: -c for m, c in p.items()})

    def __mul__(p, q):
        if not isinstance(q, _Polynomial):
            return _Polynomial({m: c * q for m, c in p.items()})
        terms = itertools.product(p.items(), q.items())
        return sum((_Polynomial({tuple(sorted(m + n)): c * d}) for (m, c), (n, d) in terms), _Polynomial())

    __rmul__ = __mul__

    def diff(p, x):
        reduced = ((m[: m.index(x)] + m[m.index(x) + 1 :], c * m.count(x)) for m, c in p.items() if x in m)
        return sum((_Polynomial({m: c}) for m, c in reduced), _Polynomial())

    def __str__(p):
        terms = ["*".join([*m, *([f"({c})"] if c != 1 or not m else [])]) for m, c in p.items() if c]
        return " + ".join(terms) or "V{}"


@cache
def names(lane: Lane) -> dict:
    """Types and operators of a lane type, by the names in `__all__`."""
    return _Table(lane).names


class _Table:
    """Builds the types and operators of one lane type."""

    def __init__(self, lane: Lane):
        self.lane, width = lane, lane.width
        dtype, scalar, mask = {
            "float32": (wp.float32, "float", wp.int32),
            "float64": (wp.float64, "double", wp.int64),
        }[lane.dtype]
        self.dtype, self.scalar = dtype, scalar
        shapes = {"Real": (), "Vec3": (3,), "Mat3": (3, 3), "Quat": (4,)}
        size = {name: int(np.prod(shape)) for name, shape in shapes.items()}
        rows = {name: n * (2 if lane.dual else 1) for name, n in size.items()}
        if width > 1:
            types = {name: wp.types.matrix((n, width), dtype) for name, n in rows.items()}
            if not lane.dual:
                types["Real"] = wp.types.vector(width, dtype)
            ctypes = {name: f"wp::mat_t<{n}, {width}, {scalar}>" for name, n in rows.items()}
            if not lane.dual:
                ctypes["Real"] = f"wp::vec_t<{width}, {scalar}>"
            Mask, mask_ctype = wp.types.vector(width, mask), f"wp::vec_t<{width}, wp::{mask.__name__}>"
            register = f"__attribute__((vector_size({width} * sizeof({scalar})), aligned(4), may_alias))"
            integer = "int" if lane.dtype == "float32" else "long"
            self.head = f"typedef {scalar} V {register}; typedef {integer} M {register}; "
        else:
            if lane.dual:
                types = {name: wp.types.vector(n, dtype) for name, n in rows.items()}
                ctypes = {name: f"wp::vec_t<{n}, {scalar}>" for name, n in rows.items()}
            else:
                types = {"Real": dtype, "Vec3": wp.types.vector(3, dtype)}
                types |= {"Mat3": wp.types.matrix((3, 3), dtype), "Quat": wp.types.quaternion(dtype)}
                ctypes = {"Real": scalar, "Vec3": f"wp::vec_t<3, {scalar}>"}
                ctypes |= {"Mat3": f"wp::mat_t<3, 3, {scalar}>", "Quat": f"wp::quat_t<{scalar}>"}
            Mask, mask_ctype = wp.bool, "bool"
            self.head = f"typedef {scalar} V; typedef bool M; "
        self.Mask = Mask
        self.shape = {types[name]: shape for name, shape in shapes.items()}
        self.size = {types[name]: n for name, n in size.items()}
        self.ctype = {types[name]: c for name, c in ctypes.items()} | {Mask: mask_ctype, dtype: scalar}
        self.names = dict(types, Mask=Mask, Scalar=dtype, Point=wp.types.vector(3, dtype), DUAL=lane.dual)
        self.names["Matrix"] = wp.types.matrix((3, 3), dtype)
        self._operators()

    def native(self, name, out, types, value, adjoint="", tangent=""):
        """Add an overload in C++ on registers.

        `value` sets o[k] from the components a[i], b[i], c[i] of the arguments. `adjoint` adds to da[i], db[i], dc[i]
        from g[k] = ∂loss/∂o[k]. `tangent` sets to[k] from ta[i], tb[i], tc[i] and the values.
        """
        read, grads, pack = self.head, "const V* g = (const V*)&adj_ret; ", "M" if out is self.Mask else "V"
        for x, T in zip("abc", types, strict=False):
            if T in self.shape:
                read += f"const V* {x} = (const V*)&{x}_; "
                read += f"const V* t{x} = {x} + {self.size[T]}; (void)t{x}; " if self.lane.dual else ""
                grads += f"V* d{x} = (V*)&adj_{x}_; "
            elif T is self.Mask:
                read += f"const M* {x} = (const M*)&{x}_; "
            elif T in (self.dtype, wp.float32):  # a number, the same in all lanes: no derivative
                read += f"const V {x}[1] = {{V{{}} + ({self.scalar}){x}_}}; const V t{x}[1] = {{V{{}}}}; (void)t{x}; "
        forward = f"{read}{self.ctype.get(out, 'bool')} out; {pack}* o = ({pack}*)&out; "
        if self.lane.dual and out in self.size:
            forward += f"V* to = o + {self.size[out]}; {value}{tangent}return out;"
        else:
            forward += f"{value}return out;"
        A, B, C = (*types, None, None)[:3]
        # Warp reads the return type only if it sees this very decorator, alone, above the function
        if len(types) == 1:

            @wp.func_native(forward, adj_snippet=read + grads + adjoint)
            def operator(a_: A) -> out: ...

        elif len(types) == 2:

            @wp.func_native(forward, adj_snippet=read + grads + adjoint)
            def operator(a_: A, b_: B) -> out: ...

        else:

            @wp.func_native(forward, adj_snippet=read + grads + adjoint)
            def operator(a_: A, b_: B, c_: C) -> out: ...

        self.names.setdefault(name, operator).add_overload(operator)

    def formula(self, name, out, *types, f):
        """Add an overload from its NumPy formula, a polynomial in the components; derivatives are derived."""
        args = []
        for x, T in zip("abc", types, strict=False):
            args.append(np.empty(self.size[T], object))
            args[-1][:] = [_Polynomial({(f"{x}[{i}]",): 1}) for i in range(self.size[T])]
        shaped = [a.reshape(self.shape[T]) if self.shape[T] else a[0] for a, T in zip(args, types, strict=True)]
        result = f(*shaped)
        result = list(np.asarray(result, object).flat) if self.shape[out] else [result]
        variables = [(x, i) for x, a in zip("abc", args, strict=False) for i in range(a.size)]
        adjoint = tangent = ""
        for x, i in variables:  # one component at a time, because the arguments may alias (x * x)
            chain = (p.diff(f"{x}[{i}]") * _Polynomial({(f"g[{k}]",): 1}) for k, p in enumerate(result))
            adjoint += f"d{x}[{i}] += {sum(chain, _Polynomial())}; "
        for k, p in enumerate(result):
            chain = (p.diff(f"{x}[{i}]") * _Polynomial({(f"t{x}[{i}]",): 1}) for x, i in variables)
            tangent += f"to[{k}] = {sum(chain, _Polynomial())}; "
        self.native(name, out, types, "".join(f"o[{k}] = {p}; " for k, p in enumerate(result)), adjoint, tangent)

    def _operators(self):
        Real, Vec3, Mat3, Quat = (self.names[n] for n in ("Real", "Vec3", "Mat3", "Quat"))
        Mask, formula, native = self.Mask, self.formula, self.native

        for T, n in self.size.items():
            formula("add", T, T, T, f=lambda a, b: a + b)
            formula("sub", T, T, T, f=lambda a, b: a - b)
            formula("neg", T, T, f=lambda a: -a)
            formula("mul", T, T, Real, f=lambda a, s: a * s)
            native(
                "where",
                T,
                (Mask, T, T),
                "".join(f"o[{i}] = a[0] ? b[{i}] : c[{i}]; " for i in range(n)),
                "".join(f"db[{i}] += a[0] ? g[{i}] : V{{}}; dc[{i}] += a[0] ? V{{}} : g[{i}]; " for i in range(n)),
                "".join(f"to[{i}] = a[0] ? tb[{i}] : tc[{i}]; " for i in range(n)),
            )

        formula("vec3", Vec3, Real, Real, Real, f=lambda x, y, z: np.array([x, y, z], object))
        formula("quat", Quat, Vec3, Real, f=lambda u, w: np.array([*u, w], object))
        formula("dot", Real, Vec3, Vec3, f=lambda a, b: _inner(a, b))
        formula("qdot", Real, Quat, Quat, f=lambda a, b: _inner(a, b))
        formula("cross", Vec3, Vec3, Vec3, f=np.cross)
        formula("mul", Vec3, Mat3, Vec3, f=lambda A, x: np.array([_inner(row, x) for row in A], object))
        formula("mul", Mat3, Mat3, Mat3, f=lambda A, B: np.array([[_inner(r, c) for c in B.T] for r in A], object))
        formula("outer", Mat3, Vec3, Vec3, f=np.multiply.outer)
        formula("ddot", Real, Mat3, Mat3, f=lambda A, B: _inner(A.flat, B.flat))
        formula("transpose", Mat3, Mat3, f=np.transpose)
        formula("cofactor", Mat3, Mat3, f=_cofactor)
        formula("det", Real, Mat3, f=lambda A: _inner(A[0], np.cross(A[1], A[2])))
        formula("columns", Mat3, Vec3, Vec3, Vec3, f=lambda a, b, c: np.stack([a, b, c], 1))
        for i in range(3):
            formula(f"column{i}", Vec3, Mat3, f=lambda A, i=i: A[:, i])
        formula("mul", Quat, Quat, Quat, f=_hamilton)
        formula("vector_part", Vec3, Quat, f=lambda q: q[:3])
        native("rotate", Vec3, (Quat, Vec3), *_rotation(""))
        native("unrotate", Vec3, (Quat, Vec3), *_rotation("-"))

        native(
            "div",
            Real,
            (Real, Real),
            "o[0] = a[0] / b[0]; ",
            "V t = g[0] / b[0], q = a[0] / b[0]; da[0] += t; db[0] -= t * q; ",
            "to[0] = (ta[0] - o[0] * tb[0]) / b[0]; ",
        )
        root = "wp::sqrt(a[0])" if self.lane.width == 1 else "__builtin_elementwise_sqrt(a[0])"
        native(
            "sqrt",
            Real,
            (Real,),
            f"o[0] = {root}; ",
            f"da[0] += g[0] / (2 * {root}); ",
            "to[0] = ta[0] / (2 * o[0]); ",
        )
        loop = f"for (int i = 0; i < {self.lane.width}; ++i) "
        entry = lambda x, k=0: f"(({self.scalar}*)({x} + {k}))[i]"
        for name, slope in (("sin", "wp::cos(A)"), ("cos", "-wp::sin(A)")):
            A = entry("a")
            native(
                name,
                Real,
                (Real,),
                f"{loop}{entry('o')} = wp::{name}({A}); ",
                f"{loop}{entry('da')} += {entry('g')} * ({slope.replace('A', A)}); ",
                f"{loop}{entry('to')} = {entry('ta')} * ({slope.replace('A', A)}); ",
            )
        native(
            "abs",
            Real,
            (Real,),
            "o[0] = a[0] < 0 ? -a[0] : a[0]; ",
            "da[0] += a[0] < 0 ? -g[0] : g[0]; ",
            "to[0] = a[0] < 0 ? -ta[0] : ta[0]; ",
        )
        for name, less in (("min", "<"), ("max", ">")):
            native(
                name,
                Real,
                (Real, Real),
                f"o[0] = a[0] {less} b[0] ? a[0] : b[0]; ",
                f"M m = a[0] {less} b[0]; V t = g[0]; da[0] += m ? t : V{{}}; db[0] += m ? V{{}} : t; ",
                f"to[0] = a[0] {less} b[0] ? ta[0] : tb[0]; ",
            )
        native("less", Mask, (Real, Real), "o[0] = a[0] < b[0]; ")
        bits = (
            f"M& m = *(M*)&a_; bool r = false; for (int i = 0; i < {self.lane.width}; ++i) r |= m[i] != 0; return r; "
        )
        native_any = f"{self.head}{bits}" if self.lane.width > 1 else "return a_;"
        mask = Mask

        @wp.func_native(native_any)
        def any_lane(a_: mask) -> bool: ...

        self.names["any_lane"] = any_lane

        @wp.func_native("return false;", adj_snippet="")
        def never(i_: int) -> bool: ...  # the C++ compiler drops what is under it, Warp writes its adjoints

        self.names["never"] = never

        if self.lane.width == 1 and not self.lane.dual:
            formula("spread", Real, Real, f=lambda a: a)
        else:
            gather = f"for (int i = 0; i < {self.lane.width}; ++i) adj_a_ += (({self.scalar}*)g)[i]; "
            native("spread", Real, (self.dtype,), "o[0] = a[0]; ", gather, "to[0] = V{}; ")
        self._spread_constants()
        native("zero", Real, (wp.int32,), "o[0] = V{}; ", "", "to[0] = V{}; ")
        zeros = "".join(f"o[{i}] = V{{}}; " for i in range(3))
        native("zero3", Vec3, (wp.int32,), zeros, "", zeros.replace("o[", "to["))

        for literal in {wp.float32, self.dtype} - {Real}:
            for name, op, da, db, ta, tb in (
                ("add", "+", "t", "t", "ta[0]", "tb[0]"),
                ("sub", "-", "t", "-t", "ta[0]", "-tb[0]"),
                ("mul", "*", "t * b[0]", "t * a[0]", "ta[0] * b[0]", "a[0] * tb[0]"),
                ("div", "/", "t / b[0]", "-t * a[0] / (b[0] * b[0])", "ta[0] / b[0]", "-o[0] * tb[0] / b[0]"),
            ):
                value = f"o[0] = a[0] {op} b[0]; "
                native(name, Real, (Real, literal), value, f"V t = g[0]; da[0] += {da}; ", f"to[0] = {ta}; ")
                native(name, Real, (literal, Real), value, f"V t = g[0]; db[0] += {db}; ", f"to[0] = {tb}; ")
        elementary.add(self)

    def _spread_constants(self):
        """`spread` of a Point and of a Matrix, the same in all lanes: constants, so no derivative flows into them."""
        if self.lane.width == 1 and not self.lane.dual:
            for name in ("Vec3", "Mat3"):
                self.formula("spread", self.names[name], self.names[name], f=lambda a: a)
            return
        for constant, name, entry in (("Point", "Vec3", "a_.c[{i}]"), ("Matrix", "Mat3", "a_.data[{i} / 3][{i} % 3]")):
            n = self.size[self.names[name]]
            value = "".join(f"o[{i}] = V{{}} + {entry.format(i=i)}; " for i in range(n))
            tangent = "".join(f"to[{i}] = V{{}}; " for i in range(n))
            self.native("spread", self.names[name], (self.names[constant],), value, "", tangent)


def _cofactor(A):
    return np.stack([np.cross(A[1], A[2]), np.cross(A[2], A[0]), np.cross(A[0], A[1])])


def _inner(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), _Polynomial())


def _hamilton(p, q):
    vector = q[:3] * p[3] + p[:3] * q[3] + np.cross(p[:3], q[:3])
    return np.array([*vector, p[3] * q[3] - _inner(p[:3], q[:3])], object)


def _rotation(sign: str) -> tuple[str, str, str]:
    """C++ of value, adjoint and tangent of the rotation of a vector x by a unit quaternion (u, w), or with "-" by its inverse (-u, w).

        c = u × x + w x,   y = x + 2 u × c,   dy = dx + 2 (du × c + u × dc)
        h = 2 ȳ × u:   x̄ = ȳ + h × u + w h,   w̄ = h·x,   ū = 2 c × ȳ + x × h

    As polynomials in the components, as other operators are, derivatives would take three times the products.
    """
    cross = lambda p, q, i: f"({p}[{(i + 1) % 3}] * {q}[{(i + 2) % 3}] - {p}[{(i + 2) % 3}] * {q}[{(i + 1) % 3}])"
    vector = lambda name, entry: f"const V {name}[3] = {{{', '.join(entry(i) for i in range(3))}}}; "
    value = vector("u", lambda i: f"{sign}a[{i}]")
    value += vector("c", lambda i: f"{cross('u', 'b', i)} + a[3] * b[{i}]")
    adjoint = value + vector("h", lambda i: f"2 * {cross('g', 'u', i)}")
    tangent = vector("du", lambda i: f"{sign}ta[{i}]")
    tangent += vector(
        "dc", lambda i: f"{cross('du', 'b', i)} + {cross('u', 'tb', i)} + (ta[3] * b[{i}] + a[3] * tb[{i}])"
    )
    for i in range(3):
        value += f"o[{i}] = b[{i}] + 2 * {cross('u', 'c', i)}; "
        tangent += f"to[{i}] = tb[{i}] + 2 * ({cross('du', 'c', i)} + {cross('u', 'dc', i)}); "
        adjoint += f"db[{i}] += g[{i}] + {cross('h', 'u', i)} + a[3] * h[{i}]; "
        adjoint += f"da[{i}] += {sign}(2 * {cross('c', 'g', i)} + {cross('b', 'h', i)}); "
    return value, adjoint + "da[3] += h[0] * b[0] + h[1] * b[1] + h[2] * b[2]; ", tangent
