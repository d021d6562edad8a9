"""Two rigid bodies and two triangles on springs that meet, hold one another and fall, and their rollout in PyTorch."""

import torch
from rigid_cases import WINDOWS, tumbling
from rigid_reference import State, share, spin, struck, turned, wrench
from torch import Tensor
from torch.nn.functional import pad

from gradsim.physics.contact import vertex_body, vertex_triangle
from gradsim.physics.contact.broad_phase import Candidates
from gradsim.physics.coupled.rollout import BODY, Coupled, nodes
from gradsim.physics.forces import attachment, spring
from gradsim.physics.forces.base import Elements

FRAMES, SUBSTEPS, DT, PINNED = 4, 6, 1.5e-3, (3,)
FACES = torch.tensor([[0, 1, 2], [3, 4, 5]])
N = 7  # the last vertex is alone
SPRINGS = torch.combinations(torch.arange(N))
HOLDS = torch.tensor([0, 4])  # of body 0
EVERY = torch.arange(N)
REST = torch.randn(N, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)  # no neighbours
PAIRS = torch.tensor([[k, *face] for face in FACES.tolist() for k in range(N) if k not in face])
SIZES = {
    "spring": {"rest_length": 0.1, "stiffness": 50.0, "damping": 0.1},
    "attachment": {"point": 0.1, "stiffness": 200.0, "damping": 0.2},
    "touch_body": {
        "half0": 0.08,
        "half1": 0.1,
        "half2": 0.06,
        "rounding": 0.05,
        "stiffness": 500.0,
        "damping": 0.1,
        "friction_stiffness": 3.0,
        "friction": 0.5,
    },
    "touch_face": {"thickness": 0.04, "stiffness": 300.0, "damping": 0.1, "friction_stiffness": 2.0, "friction": 0.5},
}


def groups() -> tuple[Elements, ...]:
    return (
        Elements(spring.FORCE, SPRINGS),
        Elements(attachment.FORCE, nodes(HOLDS, N, 0)),
        Elements(vertex_body.touch_body("continuous"), nodes(EVERY, N, 1)),
        Elements(vertex_triangle.touch_face("continuous"), torch.zeros(0, 4, dtype=torch.long)),
    )


def program(bodies: int = 2, **given) -> Coupled:
    """Of the first group, and all groups where there are bodies."""
    own = groups() if bodies else (groups()[0], groups()[3])
    faces = {len(own) - 1: Candidates(EVERY, FACES, REST)}
    arguments = {"groups": own, "frames": FRAMES, "substeps": SUBSTEPS, "dt": DT, "pinned": PINNED} | given
    return Coupled(windows=(WINDOWS,) * bodies, faces=faces, **arguments)


def inputs(worlds: int, seed: int, bodies: int = 2) -> list[Tensor]:
    """Of `program`, worlds unlike; every force acts somewhere in each rollout."""
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    about = lambda size, *shape: size * (1 + 0.5 * torch.rand(*shape, generator=generator, dtype=torch.float64))
    B = worlds
    own = []
    for name, sizes in SIZES.items():
        count = {"spring": len(SPRINGS), "attachment": len(HOLDS)}.get(name, 1)
        if bodies or name in ("spring", "touch_face"):
            own += [0.1 * normal(B, count, 3) if k == "point" else about(y, B, count) for k, y in sizes.items()]
    case = [tumbling(B, seed + r) for r in range(bodies)]
    if bodies:
        case[1]["x"] = case[1]["x"] + torch.tensor([0.05, 0.02, -0.03])
        case[1]["points"], case[1]["radius"] = case[1]["points"][:, :3], case[1]["radius"][:, :3]  # unlike body 0
    around = torch.tensor([0.05, 0.0, 0.2]) + 0.1 * normal(B, N, 3)
    return [
        around, normal(B, N, 3), about(5.0, B, N), torch.tensor([0.3, 0.2, -9.81]) + normal(B, 3), *own,
        *(body[name] for body in case for name in BODY), about(DT, B, FRAMES - 1),
    ]  # fmt: skip


def plain(given: list[Tensor], bodies: int = 2) -> list[Tensor]:
    """Outputs of `program(bodies)`, from the definitions of the forces, in PyTorch; differentiable."""
    left = list(given)
    take = lambda count: [left.pop(0) for _ in range(count)]
    x, v, inverse_mass, gravity = take(4)
    law = {name: take(len(sizes)) for name, sizes in SIZES.items() if bodies or name in ("spring", "touch_face")}
    case = [dict(zip(BODY, take(len(BODY)), strict=True)) for _ in range(bodies)]
    (step,) = left
    free = torch.ones(N, dtype=x.dtype)
    free[list(PINNED)] = 0
    state = [[body[name] for name in "xqvl"] for body in case]
    frames = [[x, v, *(y for s in state for y in s)]]
    add = lambda f, index, each: f.index_add(1, index.flatten(), each.flatten(1, 2))
    for k in range(step.shape[1]):
        h = step[:, k, None]
        for j in range(SUBSTEPS):
            time = (k * SUBSTEPS + j) * DT
            state = [struck(c, WINDOWS, time, DT, s) for c, s in zip(case, state, strict=True)]
            f = torch.zeros_like(x)
            f = add(f, SPRINGS, spring.reference(x[:, SPRINGS], v[:, SPRINGS], *law["spring"]))
            f = add(f, PAIRS, vertex_triangle.reference(x[:, PAIRS], v[:, PAIRS], *law["touch_face"]))
            acts = [[0.0, 0.0] for _ in case]
            for r, name, which in ((0, "attachment", HOLDS), (1, "touch_body", EVERY)) if bodies else ():
                file = {"attachment": attachment, "touch_body": vertex_body}[name]
                each = file.reference(*_nodes(case[r], state[r], x[:, which], v[:, which]), *law[name])
                f = f.index_add(1, which, each[:, :, 0])
                acts[r] = [a + each[:, :, m].sum(1) for a, m in zip(acts[r], (1, 2), strict=True)]
            state = [_moved(c, s, a, time, h) for c, s, a in zip(case, state, acts, strict=True)]
            v = v + h[..., None] * free[:, None] * (f * inverse_mass[..., None] + gravity[:, None])
            x = x + h[..., None] * v
        frames.append([x, v, *(y for s in state for y in s)])
    return [torch.stack(y, 1) for y in zip(*frames, strict=True)]


def _nodes(case: dict, state: State, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Positions and velocities of the nodes of forces between vertices and a body."""
    place, q, velocity, _ = (y[:, None].expand(-1, x.shape[1], -1) for y in state)
    w = spin(case, state[1], state[3])[:, None].expand_as(x)
    return (
        torch.stack([x, place, q[..., :3], pad(q[..., 3:], (0, 2))], 2),
        torch.stack([v, velocity, w, torch.zeros_like(w)], 2),
    )


def _moved(case: dict, state: State, acts: list, time: float, h: Tensor) -> State:
    x, q, v, l = state
    f, torque = wrench(case, "continuous", [share(w, time, DT) for w in WINDOWS], h, x, q, v, spin(case, q, l))
    v = v + h * ((f + acts[0]) / case["mass"][:, None] + case["gravity"])
    l = l + h * (torque + acts[1])
    return [x + h * v, turned(q, h * spin(case, q, l)), v, l]
