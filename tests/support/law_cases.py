"""Forces of elements by the lanes alone, and their adjoint by `wp.grad` of the virtual power: each element by itself.

Positions x and velocities v are (elements, nodes, 3); rest constants and parameters stand in one dictionary, by name.
"""

import sys
import tempfile
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import torch
import warp as wp
from checks import error, weights
from torch import Tensor, linalg

from gradsim.engine.lanes import Lane, lane_of, specialize
from gradsim.engine.layout import Layout
from gradsim.physics.forces.base import Force

WITHIN = {torch.float64: 1e-12, torch.float32: 1e-5}  # of the largest force or derivative

_HEAD = '''"""One element in each register (written by law_cases.py)."""
import warp as wp
from gradsim.engine.lanes import *
{power}
@wp.kernel
def reach(a: wp.array2d[Vec3], r: wp.array[Real], out: wp.array[Real]):
    {fill}
    out[0] = power({names}, {probes})

@wp.kernel(enable_backward=False)
def value({arrays}, f: wp.array2d[Vec3]):
    i = wp.tid()
    {forces} = forces({read})
    {write}

@wp.kernel(enable_backward=False)
def adjoint({arrays}, w: wp.array2d[Vec3], {grads}):
    i = wp.tid()
    {got}, {ignored} = wp.grad(power)({read}, {probe})
    {keep}
'''

_POWER = """
@wp.func(inline=True)
def power({arguments}) -> Real:
    {forces} = forces({names})
    return {products}
"""


def _source(force: Force, power: bool) -> str:
    n = range(force.nodes)
    vectors = [f"x{i}" for i in n] + [f"v{i}" for i in n]
    kinds = {name: "Vec3" for name in vectors} | dict(force.rest) | dict(force.parameters)
    single = {**force.rest, **force.parameters}
    read = [f"x[i, {k}]" for k in n] + [f"v[i, {k}]" for k in n] + [f"{name}_[i]" for name in single]
    arrays = ["x: wp.array2d[Vec3]", "v: wp.array2d[Vec3]"]
    arrays += [f"{name}_: wp.array[{kind}]" for name, kind in single.items()]
    forces = ", ".join(f"f{i}" for i in n)
    got = [f"g_{name}" for name in kinds]
    keep = [f"gx[i, {k}] = g_x{k}" for k in n] + [f"gv[i, {k}] = g_v{k}" for k in n]
    keep += [f"g{name}_[i] = g_{name}" for name in single]
    make = {"Real": "r[0]", "Vec3": "a[0, 0]", "Mat3": "outer(a[0, 0], a[0, 1])"}
    own = _POWER.format(
        arguments=", ".join(f"{k}: {v}" for k, v in kinds.items()) + "".join(f", w{i}: Vec3" for i in n),
        forces=forces,
        names=", ".join(kinds),
        products=" + ".join(f"dot(f{i}, w{i})" for i in n),
    )
    return _HEAD.format(
        power="" if power else own,
        forces=forces,
        names=", ".join(kinds),
        fill="\n    ".join(f"{name} = {make[kind]}" for name, kind in kinds.items()),
        probes=", ".join("a[0, 1]" for _ in n),
        arrays=", ".join(arrays),
        read=", ".join(read),
        write="\n    ".join(f"f[i, {i}] = f{i}" for i in n),
        grads=", ".join("g" + a for a in arrays),
        got=", ".join(got),
        ignored=", ".join(f"_w{i}" for i in n),
        probe=", ".join(f"w[i, {i}]" for i in n),
        keep="\n    ".join(keep),
    )


@cache
def _code(force: Force, lane: Lane) -> ModuleType:
    folder = _folder()
    name = f"law_{force.title}_probe"
    law = specialize(force.module, lane, **(force.bind(lane) if force.bind else {}))
    given = {part: getattr(law, part) for part in ("forces", "power") if hasattr(law, part)}
    (Path(folder.name) / f"{name}.py").write_text(_source(force, "power" in given))
    code = specialize(name, lane, **given)
    wp.set_module_options(
        {"optimization_level": 0}, module=code
    )  # a third of the time to compile; rollouts are optimized
    return code


@cache
def _folder() -> tempfile.TemporaryDirectory:
    folder = tempfile.TemporaryDirectory()  # Warp reads kernels from files
    sys.path.append(folder.name)
    return folder


def kinds(force: Force) -> dict[str, str]:
    return {**force.rest, **force.parameters}


def random_normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_positive(*shape: int, seed: int) -> Tensor:
    """Over a decade or so about 1."""
    return random_normal(*shape, seed=seed).exp()


def random_rotations(elements: int, seed: int) -> Tensor:
    q = linalg.qr(random_normal(elements, 3, 3, seed=seed))[0]
    return q * linalg.det(q)[:, None, None]


def carried(x: Tensor, seed: int) -> Tensor:
    """Each element turned and moved as a rigid body."""
    return x @ random_rotations(len(x), seed) + random_normal(len(x), 1, 3, seed=seed + 1)


def rigid_velocity(x: Tensor, seed: int) -> Tensor:
    """Velocities of a rigid motion of each element: a constant one and a spin."""
    spin = random_normal(len(x), 1, 3, seed=seed)
    return random_normal(len(x), 1, 3, seed=seed + 1) + linalg.cross(spin.expand(x.shape), x)


def imbalance(f: Tensor, x: Tensor) -> float:
    """Net force and torque about the origin, over the largest force and torque of a vertex."""
    torque = linalg.cross(x, f)
    return max((y.sum(1).norm(dim=-1) / y.norm(dim=-1).amax(1)).max().item() for y in (f, torque))


def power(f: Tensor, v: Tensor) -> Tensor:
    """Of the forces on each element [W] (elements,)."""
    return (f * v).sum((1, 2))


def lane_errors(force: Force, x: Tensor, v: Tensor, arrays: dict[str, Tensor], dtype: torch.dtype) -> dict[str, float]:
    """Of the lanes' "forces" and of their derivatives by "x", "v" and each parameter, against the definition."""
    hold = lambda y: y.to(dtype).double()  # the same numbers on both sides
    x, v, arrays = hold(x), hold(v), {name: hold(y) for name, y in arrays.items()}
    probe = hold(weights([x], seed=101)[0])
    f, slopes = defined_gradients(force, x, v, arrays, probe)
    found = lane_gradients(force, x, v, arrays, probe, dtype)
    assert all(slope.any() for slope in slopes.values()), "a state that shows nothing"
    errors = {name: error(found[name], slope) for name, slope in slopes.items()}
    return {"forces": error(lane_forces(force, x, v, arrays, dtype), f), **errors}


def energy_slope(force: Force, x: Tensor, arrays: dict[str, Tensor]) -> Tensor:
    """-∂E/∂x of the definition (elements, nodes, 3)."""
    at = x.detach().clone().requires_grad_()
    (slope,) = torch.autograd.grad(import_module(force.module).energy(at, **arrays).sum(), at)
    return -slope


def lane_forces(force: Force, x: Tensor, v: Tensor, arrays: dict[str, Tensor], dtype=torch.float64) -> Tensor:
    """Forces (elements, nodes, 3) at x, v of that shape, with rest constants and parameters (elements, ...) by name."""
    lane = lane_of(dtype)
    layout, code = Layout(lane), _code(force, lane)
    out = layout.zeros("Vec3", len(x), (force.nodes,), x.device)
    packed = _pack(layout, force, x, v, arrays)
    wp.launch(code.value, len(x), [*packed, out], device="cpu")
    return layout.unpack("Vec3", out, len(x))[0].double()


def lane_gradients(
    force: Force, x: Tensor, v: Tensor, arrays: dict[str, Tensor], probe: Tensor, dtype=torch.float64
) -> dict[str, Tensor]:
    """∂(forces · probe) by "x", "v" and every array, each of its shape."""
    lane = lane_of(dtype)
    layout, code = Layout(lane), _code(force, lane)
    packed, weight = _pack(layout, force, x, v, arrays), layout.pack("Vec3", probe)
    every = {"x": "Vec3", "v": "Vec3", **kinds(force)}
    items = {"x": (force.nodes,), "v": (force.nodes,)}
    out = {name: layout.zeros(kind, len(x), items.get(name, ()), x.device) for name, kind in every.items()}
    wp.launch(code.adjoint, len(x), [*packed, weight, *out.values()], device="cpu")
    return {name: layout.unpack(every[name], y, len(x))[0].double() for name, y in out.items()}


def _pack(layout: Layout, force: Force, x: Tensor, v: Tensor, arrays: dict[str, Tensor]) -> list[wp.array]:
    every = kinds(force)
    return [layout.pack("Vec3", x), layout.pack("Vec3", v), *(layout.pack(k, arrays[n]) for n, k in every.items())]


def defined_gradients(
    force: Force, x: Tensor, v: Tensor, arrays: dict[str, Tensor], probe: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Forces of the definition, and ∂(forces · probe) by "x", "v" and each parameter, by autograd in float64."""
    leaves = {"x": x, "v": v, **{name: arrays[name] for name in force.parameters}}
    leaves = {name: y.detach().clone().requires_grad_() for name, y in leaves.items()}
    f = import_module(force.module).reference(**leaves, **{name: arrays[name] for name in force.rest})
    slopes = torch.autograd.grad((f * probe).sum(), list(leaves.values()), materialize_grads=True)
    return f.detach(), dict(zip(leaves, slopes, strict=True))
