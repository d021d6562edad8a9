"""Pairs of bodies at random places where they touch, and the forces of the lanes on them."""

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import warp as wp
from torch import Tensor
from torch.nn.functional import normalize

from gradsim.engine.lanes import Lane, specialize
from gradsim.engine.launch import replay
from gradsim.engine.layout import Layout
from gradsim.physics.contact.convex_reference import Placed, depth
from gradsim.physics.contact.convex_shape import hull_core, point_core, segment_core
from gradsim.physics.rigid.pairs import Pairs, pair_code

CPU = torch.device("cpu")
BOX = np.array([[x, y, z] for x in (-0.1, 0.1) for y in (-0.15, 0.15) for z in (-0.2, 0.2)])
ROCK = np.random.default_rng(3).normal(size=(14, 3))
ROCK = 0.18 * ROCK / np.linalg.norm(ROCK, axis=1, keepdims=True)
CORES = {"ball": point_core(0.12), "capsule": segment_core(0.15, 0.07), "box": hull_core(BOX), "rock": hull_core(ROCK)}
KINDS = [("ball", "ball"), ("capsule", "ball"), ("box", "ball"), ("ball", "rock"), ("capsule", "capsule"),
         ("box", "capsule"), ("capsule", "rock"), ("box", "box"), ("rock", "box"), ("rock", "rock")]  # fmt: skip
STATES = {"x": "Vec3", "q": "Quat", "v": "Vec3", "w": "Vec3"}


def pairs_among(kinds) -> Pairs:
    bodies: Any = [SimpleNamespace(name=f"{kind}{k}") for k, kind in enumerate(kinds)]
    every = {(a, b): "all" for a in range(len(kinds)) for b in range(a + 1, len(kinds))}
    return Pairs(bodies, [CORES[kind] for kind in kinds], every)


def random_meeting(kinds, worlds: int, seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """States (worlds, 2, ·) of two bodies that are in one another by up to their skins, and the numbers of the pair."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)
    q = normalize(draw(worlds, 2, 4), dim=-1)
    scale = 0.8 + 0.4 * torch.rand(worlds, 2, generator=generator).double()
    aim, x = normalize(draw(worlds, 3), dim=-1), torch.zeros(worlds, 2, 3).double()
    for k in range(worlds):
        a, b = (Placed(CORES[kinds[j]], x[k, j], q[k, j], scale[k, j]) for j in (0, 1))
        wanted = (0.2 + 0.7 * torch.rand((), generator=generator).double()) * (a.radius + b.radius)
        near, far = 0.0, a.core.reach + b.core.reach + 1.0
        for _ in range(14):
            middle = (near + far) / 2
            near, far = (middle, far) if depth(a._replace(x=middle * aim[k]), b) > wanted else (near, middle)
        x[k, 0] = near * aim[k]
    x += draw(worlds, 1, 3)
    numbers = {"scale": scale, "stiffness": 1e4 * (1 + torch.rand(worlds, 1, generator=generator).double())}
    numbers["dissipation"] = 0.2 * torch.rand(worlds, 1, generator=generator).double()
    numbers["friction_stiffness"] = 100 * (1 + torch.rand(worlds, 1, generator=generator).double())
    numbers["friction"] = 0.5 + torch.rand(worlds, 1, generator=generator).double()
    return {"x": x, "q": q, "v": draw(worlds, 2, 3), "w": 3 * draw(worlds, 2, 3)}, numbers


@cache
def _code(lane: Lane):
    given = {name: getattr(pair_code(lane), name) for name in ("PairShape", "PairNumbers", "NearPairs", "add_pairs")}
    if not lane.dual:
        given |= {name: getattr(pair_code(lane), name) for name in ("add_pair_adjoints", "all_pair_powers")}
    code = specialize("pair_cases_kernels", lane, **given)
    wp.set_module_options(
        {"optimization_level": 0}, module=code
    )  # a third of the time to compile; rollouts are optimized
    return code


def empty_list(pairs: Pairs, worlds: int, lane: Lane):
    """A list of pairs for `lane_forces`, which fills it."""
    return pairs.empty_list(_code(lane), Layout(lane), worlds, CPU)


def lane_forces(pairs: Pairs, states, numbers, lane: Lane, tangents=None, near=None) -> list[list[Tensor]]:
    """Force and torque (worlds, bodies, 3), and their tangents of dual lanes; `near` is a list of pairs to go on with."""
    layout, code = Layout(lane), _code(lane)
    along = tangents or {}
    worlds = len(states["x"])
    given = code.PairNumbers()
    for name, value in numbers.items():
        setattr(given, name, layout.pack("Real", value, along.get(name)))
    packed = [layout.pack(kind, states[key][:, None], _under(along.get(key))) for key, kind in STATES.items()]
    out = [layout.zeros("Vec3", worlds, (len(pairs.cores),), CPU) for _ in range(2)]
    near = near or pairs.empty_list(code, layout, worlds, CPU)
    args = [pairs.shape(code, layout, CPU), given, near, *packed, *out]
    replay(code.forces, layout.packs(worlds), args, "cpu")
    return [list(x) for x in zip(*(layout.unpack("Vec3", y, worlds) for y in out), strict=True)]


def lane_adjoints(pairs: Pairs, states, numbers, probes, lane: Lane) -> dict[str, Tensor]:
    """Adjoints of states and numbers from probes of force and torque (worlds, bodies, 3) each."""
    layout, code = Layout(lane), _code(lane)
    worlds, n = states["x"].shape[:2]
    given, grad = code.PairNumbers(), code.PairNumbers()
    for name, value in numbers.items():
        setattr(given, name, layout.pack("Real", value))
        setattr(grad, name, layout.zeros("Real", worlds, value.shape[1:], CPU))
    packed = [layout.pack(kind, states[key][:, None]) for key, kind in STATES.items()]
    out = {key: layout.zeros(kind, worlds, (n,), CPU) for key, kind in STATES.items()}
    probed = [layout.pack("Vec3", probe) for probe in probes]
    near = pairs.empty_list(code, layout, worlds, CPU)
    args = [pairs.shape(code, layout, CPU), given, grad, near, *packed, *probed, *out.values()]
    replay(code.adjoints, layout.packs(worlds), args, "cpu")
    found = {key: layout.unpack(kind, out[key], worlds)[0] for key, kind in STATES.items()}
    return found | {name: layout.unpack("Real", getattr(grad, name), worlds)[0] for name in numbers}


def _under(x: Tensor | None) -> Tensor | None:
    return None if x is None else x[:, None]
