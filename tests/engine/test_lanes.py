"""Every operator of every lane type: value, adjoint and forward derivative against PyTorch in float64."""

import pytest
import torch
import warp as wp
from checks import error
from torch import Tensor, linalg

from gradsim.engine.lanes import Lane, names, native_width, specialize
from gradsim.engine.layout import Layout

WIDE = [native_width("float64"), native_width("float32")]
SLOW = pytest.mark.slow  # a precision and a width that others have each
PLAIN = [Lane("float64", WIDE[0]), Lane("float32", WIDE[1]), Lane("float32"), pytest.param(Lane("float64"), marks=SLOW)]
DUAL = [Lane("float64", WIDE[0], dual=True), Lane("float64", dual=True), Lane("float32", WIDE[1], dual=True)]
WORLDS = 32  # full registers: a number that all worlds share gets its adjoint from every lane
KINDS = ("Real", "Vec3", "Mat3", "Quat")
WITHIN = {"float64": 1e-14, "float32": 2e-6}  # some roundings of 1e-16 and 6e-8


def product(p: Tensor, s: Tensor) -> Tensor:
    """Hamilton product p s."""
    u, v = p[:, :3], s[:, :3]
    vector = s[:, 3:] * u + p[:, 3:] * v + linalg.cross(u, v)
    return torch.cat([vector, p[:, 3:] * s[:, 3:] - (u * v).sum(1, keepdim=True)], 1)


def turned(p: Tensor, x: Tensor) -> Tensor:
    """x + 2 u × (u × x + w x), which is p (x, 0) p* for a unit quaternion p = (u, w)."""
    u, w = p[:, :3], p[:, 3:]
    squared = (u * u).sum(1, keepdim=True)
    return x + 2 * ((u * x).sum(1, keepdim=True) * u - squared * x + w * linalg.cross(u, x))


def expected(r: Tensor, u: Tensor, m: Tensor, q: Tensor, shared: Tensor) -> list[Tensor]:
    """What `operators_lanes.operators` computes: (worlds, results, ·) of reals, vectors, matrices, quaternions."""
    a, b, c = r.unbind(1)
    (x, y), (A, B), (p, s) = u.unbind(1), m.unbind(1), q.unbind(1)
    less, each = (a < b), a[:, None]
    conjugate = p * torch.tensor([-1.0, -1, -1, 1], dtype=p.dtype)
    reals = [a + b, a - b, -a, a * b, a / b, a, torch.sqrt(a.abs() + 0.5), torch.sin(a), torch.cos(a)]
    reals += [torch.where(less, a, b), torch.where(less, b, a), a, torch.where(less, a * c, b)]
    reals += [(x * y).sum(1), (x * x).sum(1), (p * s).sum(1), a * shared, -a]
    reals += [a + 0.5, 0.5 - a, a - 0.5, 0.75 + a, a / 4, a / 4, 2 / a, a / 4, 0.1 * a, a / 3]
    reals += [torch.exp(a * b), torch.log1p(a.abs() / (a.abs() + 1))]
    reals += [linalg.det(A), (A * B).sum((1, 2))]
    vectors = [x + y, x - y, -x, x * each, linalg.cross(x, y), linalg.cross(x, linalg.cross(y, x))]
    vectors += [(A @ x[..., None])[..., 0], turned(p, x), turned(conjugate, x), turned(p, p[:, :3])]
    vectors += [torch.stack([a, b, a], 1), torch.where(less[:, None], y, x), -x, A[..., 0] + B[..., 1] - A[..., 2]]
    tall = each[..., None]
    matrices = [A + B, A - B, -A, A * tall, torch.where(less[:, None, None], A, B)]
    rows = A.unbind(1)
    cofactors = torch.stack([linalg.cross(rows[i - 2], rows[i - 1]) for i in range(3)], 1)
    matrices += [A @ B, A.mT, cofactors, torch.stack([x, y, x + y], 2), x[:, :, None] * y[:, None], A @ A]
    quaternions = [p + s, p - s, -p, p * each, product(p, s), product(p, p)]
    quaternions += [torch.cat([x, each], 1), torch.where(less[:, None], p, s)]
    return [torch.stack(results, 1) for results in (reals, vectors, matrices, quaternions)]


def random_arguments(dtype: str, seed: int) -> list[Tensor]:
    """r, u, m, q, shared: float64 numbers that `dtype` holds exactly, away from the kinks of min, max, abs and 1/b."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(WORLDS, 3), (WORLDS, 2, 3), (WORLDS, 2, 3, 3), (WORLDS, 2, 4)]
    given = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    given[0] = given[0] + 0.5 * given[0].sign()
    given.append(torch.tensor(0.7, dtype=torch.float64))
    return [x.to(getattr(torch, dtype)).double() for x in given]


def arrays(layout: Layout, given: list[Tensor], tangents: list[Tensor] | None = None) -> list[wp.array]:
    pairs = zip(KINDS, given, tangents or [None] * 5, strict=False)
    return [layout.pack(kind, x, t) for kind, x, t in pairs] + [layout.scalars(given[4].reshape(1))]


def outputs(layout: Layout, like: list[Tensor]) -> list[wp.array]:
    return [layout.zeros(k, WORLDS, y.shape[1:2], torch.device("cpu")) for k, y in zip(KINDS, like, strict=True)]


@pytest.mark.parametrize("lane", PLAIN, ids=lambda lane: lane.name)
def test_operators_and_their_adjoints_are_those_of_pytorch(lane):
    layout, code = Layout(lane), specialize("operators_kernels", lane)
    given = [x.requires_grad_() for x in random_arguments(lane.dtype, seed=1)]
    results = expected(*given)
    probes = [torch.randn(y.shape, generator=torch.Generator().manual_seed(2)).double() for y in results]

    packed, out = arrays(layout, [x.detach() for x in given]), outputs(layout, results)
    wp.launch(code.operators, layout.packs(WORLDS), packed, out, device="cpu")
    for kind, array, y in zip(KINDS, out, results, strict=True):
        value = layout.unpack(kind, array, WORLDS)[0]
        assert value.dtype == getattr(torch, lane.dtype)
        for k in range(y.shape[1]):
            assert error(value[:, k], y[:, k]) < WITHIN[lane.dtype], f"{kind} {k}"

    for k, kind in enumerate(KINDS):  # of one kind of result at a time, so that a fault is not hidden among the rest
        for j in range(results[k].shape[1]):
            probe = [torch.zeros_like(w) for w in probes]
            probe[k][:, j] = probes[k][:, j]
            scalar = (results[k] * probe[k]).sum()
            wanted = torch.autograd.grad(scalar, given, retain_graph=True, materialize_grads=True)
            weight = [layout.pack(n, w) for n, w in zip(KINDS, probe, strict=True)]
            found = [layout.zeros(n, WORLDS, x.shape[1:2], x.device) for n, x in zip(KINDS, given, strict=False)]
            found.append(layout.scalars(torch.zeros(1)))
            wp.launch(code.operators, layout.packs(WORLDS), packed, out, found, weight, device="cpu", adjoint=True)
            for n, array, g in zip(KINDS, found, wanted, strict=False):
                assert error(layout.unpack(n, array, WORLDS)[0], g) < WITHIN[lane.dtype], f"{kind} {j} by {n}"
            assert error(wp.to_torch(found[4]), wanted[4].reshape(1)) < WITHIN[lane.dtype], (
                f"{kind} {j} by a shared number"
            )


@pytest.mark.parametrize("lane", DUAL, ids=lambda lane: lane.name)
def test_operators_on_dual_lanes_carry_the_forward_derivative(lane):
    layout, code = Layout(lane), specialize("operators_kernels", lane)
    given, along = random_arguments(lane.dtype, seed=3), random_arguments(lane.dtype, seed=4)
    along[4] = torch.zeros_like(along[4])  # numbers that all worlds share have no tangent
    results, wanted = torch.autograd.functional.jvp(lambda *x: tuple(expected(*x)), tuple(given), tuple(along))
    out = outputs(layout, list(results))
    wp.launch(code.operators, layout.packs(WORLDS), arrays(layout, given, along), out, device="cpu")
    for kind, array, y, t in zip(KINDS, out, results, wanted, strict=True):
        value, tangent = layout.unpack(kind, array, WORLDS)
        assert tangent is not None
        for k in range(y.shape[1]):
            assert error(value[:, k], y[:, k]) < WITHIN[lane.dtype], f"{kind} {k}"
            assert error(tangent[:, k], t[:, k]) < WITHIN[lane.dtype], f"tangent of {kind} {k}"


@pytest.mark.parametrize("lane", PLAIN, ids=lambda lane: lane.name)
def test_exp_and_log_are_right_to_rounding_over_their_whole_range(lane):
    layout, code = Layout(lane), specialize("operators_kernels", lane)
    given, like = random_arguments(lane.dtype, seed=5), expected(*random_arguments(lane.dtype, seed=5))
    given[0][:, 0] = torch.linspace(-80, 80, WORLDS).to(getattr(torch, lane.dtype)).double()
    given[0][:, 1] = 1
    out = outputs(layout, like)
    wp.launch(code.operators, layout.packs(WORLDS), arrays(layout, given), out, device="cpu")
    a, found = given[0][:, 0], layout.unpack("Real", out[0], WORLDS)[0].double()
    ratio = a.abs() / (a.abs() + 1)
    assert (found[:, 28] / torch.exp(a) - 1).abs().max() < 80 * WITHIN[lane.dtype]  # a relative rounding of a
    assert error(found[:, 29], torch.log1p(ratio)) < WITHIN[lane.dtype]


@pytest.mark.parametrize("lane", PLAIN, ids=lambda lane: lane.name)
def test_single_lanes_and_sums_over_them_with_their_adjoints(lane):
    place = max(lane.width - 3, 0)
    layout, code = Layout(lane), specialize("operators_kernels", lane, LAST_BUT_TWO=place)
    r = random_arguments(lane.dtype, seed=6)[0].requires_grad_()
    here = (torch.arange(WORLDS) % lane.width == place).double()
    swapped, sums = torch.lerp(r[:, 1], r[:, 0], here), r[:, 2].reshape(-1, lane.width).sum(1)
    given, out = layout.pack("Real", r.detach()), layout.zeros("Real", WORLDS, (), r.device)
    total = layout.scalars(torch.zeros_like(sums))
    wp.launch(code.single_lanes, layout.packs(WORLDS), [given], [out, total], device="cpu")
    assert error(layout.unpack("Real", out, WORLDS)[0], swapped) < WITHIN[lane.dtype]
    assert error(layout.memory(total), sums) < WITHIN[lane.dtype]

    probes = [torch.randn(x.shape, generator=torch.Generator().manual_seed(7)).double() for x in (swapped, sums)]
    (wanted,) = torch.autograd.grad([swapped, sums], r, probes)
    weight = [layout.pack("Real", probes[0]), layout.scalars(probes[1])]
    found = layout.zeros("Real", WORLDS, (3,), r.device)
    wp.launch(code.single_lanes, layout.packs(WORLDS), [given], [out, total], [found], weight, device="cpu", adjoint=True)  # fmt: skip
    assert error(layout.unpack("Real", found, WORLDS)[0], wanted) < WITHIN[lane.dtype]


@pytest.mark.parametrize("lane", [*PLAIN, *DUAL], ids=lambda lane: lane.name)
def test_any_lane_is_true_for_a_register_with_one_such_world(lane):
    layout, code = Layout(lane), specialize("operators_kernels", lane)
    r = torch.tensor([1.0, 0.0]).repeat(WORLDS, 1)
    r[WORLDS // 2 - 1] = torch.tensor([0.0, 1.0])
    found = wp.zeros(layout.packs(WORLDS), dtype=int, device="cpu")
    wp.launch(code.any_less, layout.packs(WORLDS), [layout.pack("Real", r)], [found], device="cpu")
    wanted = (r[:, 0] < r[:, 1]).reshape(-1, lane.width).any(1).int()
    assert torch.equal(wp.to_torch(found), wanted)


def test_templates_are_made_once_for_each_lane_type():
    first = specialize("operators_kernels", PLAIN[0])
    assert specialize("operators_kernels", PLAIN[0]) is first
    assert specialize("operators_kernels", PLAIN[1]) is not first
    assert first.__name__ != specialize("operators_kernels", PLAIN[1]).__name__


def test_names_that_a_template_leaves_open_make_it_another_module():
    lane = PLAIN[0]
    euler, rk4 = (specialize("gradsim.physics.contact.kelvin_voigt", lane, CLAMPED=c) for c in (True, False))
    assert (euler.CLAMPED, rk4.CLAMPED) == (True, False)
    assert euler.__name__ != rk4.__name__


def test_missing_template_is_named():
    with pytest.raises(ModuleNotFoundError, match="no_such_kernels"):
        specialize("no_such_kernels", PLAIN[0])


def test_native_width_fills_a_vector_register():
    assert native_width("float32") == 2 * native_width("float64")
    assert native_width("float64") in (4, 8)


def test_plain_single_lanes_are_warps_own_types():
    types = names(Lane("float32"))
    assert (types["Real"], types["Vec3"]) == (wp.float32, wp.types.vector(3, wp.float32))
