# pyright: reportInvalidTypeForm=false
"""The factor of J M⁻¹ Jᵀ + A in blocks against a dense solve, on all lane types."""

import numpy as np
import pytest
import torch
import warp as wp

from gradsim.engine.block_factor import block_functions, block_size
from gradsim.engine.lanes import Lane, names
from gradsim.engine.layout import Layout

ENDS = [
    (5, 0),
    (0, 1),
    (1, 2),
    (0, 3),
    (3, 4),
    (2, 4),
]  # of a tree of five bodies that hangs from the world, and a loop
ROWS = [5, 3, 6, 5, 1, 4]
BODIES, WORLDS = 5, 3
LANES = [Lane("float64"), Lane("float64", 8), Lane("float64", 1, True), Lane("float64", 4, True)]


def shape() -> dict[str, list[int]]:
    """The arrays of `factor_blocks` that say which rows there are."""
    touching = lambda j: [e for e in range(j + 1) if {0, 1, 2, 3, 4} & set(ENDS[j]) & set(ENDS[e])]
    left = [touching(j)[0] for j in range(len(ENDS))]
    before = np.cumsum([0, *(j - start + 1 for j, start in enumerate(left))])
    each = lambda side: [ends[side] for ends, count in zip(ENDS, ROWS, strict=True) for _ in range(count)]
    row = np.cumsum([0, *ROWS]).tolist()
    added = [int(k == 7) for k in range(row[-1])]
    block = [int(total) - start for total, start in zip(before, left, strict=False)]
    return {"first": each(0), "second": each(1), "row": row, "left": left, "block": block, "added": added}


def numbers(seed: int) -> dict[str, torch.Tensor]:
    """Random rows, masses and inverse inertias of all worlds, and a right side."""
    draw = lambda *size: torch.randn(WORLDS, *size, generator=torch.manual_seed(seed)).double()
    square, rows = draw(BODIES + 1, 3, 3), sum(ROWS)
    force, torque, torque_b = draw(3, rows, 3).unbind(1)
    return {
        "mass": draw(BODIES).abs() + 0.5,
        "inverse": square @ square.mT + 0.1 * torch.eye(3).double(),
        "force": force,
        "torque": torque,
        "torque_b": torque_b,
        "y": draw(rows),
    }


def system(given: dict[str, torch.Tensor]) -> torch.Tensor:
    """S (worlds, rows, rows) by its definition."""
    arrays = shape()
    rows, first, second = sum(ROWS), arrays["first"], arrays["second"]
    J = torch.zeros(WORLDS, rows, BODIES + 1, 6).double()
    for k in range(rows):
        J[:, k, first[k]] = torch.cat([given["force"][:, k], given["torque"][:, k]], -1)
        J[:, k, second[k]] = torch.cat([-given["force"][:, k], given["torque_b"][:, k]], -1)
    J = J[:, :, :BODIES]
    light = (1 / given["mass"])[..., None, None] * torch.eye(3).double()
    applied = torch.einsum("wbij,wkbj->wkbi", light, J[..., :3])
    turned = torch.einsum("wbij,wkbj->wkbi", given["inverse"][:, :BODIES], J[..., 3:])
    whole = torch.cat([applied, turned], -1).flatten(2)
    return J.flatten(2) @ whole.mT + torch.diag(torch.tensor(arrays["added"]).double())


def solved(lane: Lane, given: dict[str, torch.Tensor], along: dict[str, torch.Tensor] | None = None):
    """S⁻¹ y and its tangent, by kernels of a lane type."""
    layout, table = Layout(lane), names(lane)
    Real, Vec3, Mat3 = (table[name] for name in ("Real", "Vec3", "Mat3"))
    factor_blocks, solve_blocks = block_functions(lane).values()

    @wp.kernel(enable_backward=False, module=f"test_block_factor_{lane.name}")
    def run(
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
        y: wp.array2d[Real],
        factor: wp.array2d[Real],
    ):
        i = wp.tid()
        factor_blocks(
            i, i, BODIES, first, second, row, left, block, added, mass, inverse, force, torque, torque_b, factor
        )
        solve_blocks(i, i, row, left, block, factor, y)

    kinds = {"inverse": "Mat3", "force": "Vec3", "torque": "Vec3", "torque_b": "Vec3", "y": "Real"}
    packed = {n: layout.pack(kind, given[n].clone(), along[n] if along else None) for n, kind in kinds.items()}
    width = lane.width
    by_pack = lambda x: torch.cat([x, x[-1:].expand(-len(x) % width, -1)]).unflatten(0, (-1, width)).mT.flatten(0, 1)
    rows_of = lambda x: by_pack(x).flatten()
    mass = layout.pack("Real", rows_of(given["mass"]), rows_of(along["mass"]) if along else None)
    arrays = {n: layout.counts(torch.tensor(x)) for n, x in shape().items()}
    blocks = arrays["block"].numpy()[-1] + len(ENDS)
    factor = layout.zeros("Real", WORLDS, (int(blocks) * block_size(lane),), torch.device("cpu"))
    inputs = [*arrays.values(), mass, *packed.values(), factor]
    wp.launch(run, layout.packs(WORLDS), inputs=inputs, device="cpu")
    return layout.unpack("Real", packed["y"], WORLDS)


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
def test_solve_is_that_of_the_dense_matrix(lane):
    given = numbers(1)
    expected = torch.linalg.solve(system(given), given["y"])
    assert (solved(lane, given)[0] - expected).abs().max() < 1e-10 * expected.abs().max()


@pytest.mark.parametrize("lane", LANES[2:], ids=lambda lane: lane.name)
def test_tangent_of_the_solve_is_that_of_the_dense_matrix(lane):
    given, along = numbers(2), numbers(3)

    def dense(*values):
        one = dict(zip(given, values, strict=True))
        return torch.linalg.solve(system(one), one["y"])

    value, expected = torch.func.jvp(dense, tuple(given.values()), tuple(along.values()))[:2]
    got, tangent = solved(lane, given, along)
    assert (got - value).abs().max() < 1e-10 * value.abs().max()
    assert (tangent - expected).abs().max() < 1e-9 * expected.abs().max()


def test_multiplier_of_a_row_that_says_what_another_says_is_0():
    given = numbers(4)
    for name in ("force", "torque", "torque_b"):
        given[name][:, 4] = given[name][:, 3]
    given["y"][:, 4] = given["y"][:, 3]
    y = solved(LANES[0], given)[0]
    assert not y[:, 4].any()
    assert ((system(given) @ y[..., None])[..., 0] - given["y"]).abs().max() < 1e-9 * given["y"].abs().max()
