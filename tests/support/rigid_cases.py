"""Inputs of rigid rollouts for the tests, by name."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from gradsim.physics.rigid.rollout import CONTACT, INPUTS, RigidRollout

GRAVITY = 9.81  # [m/s²]

Case = dict[str, Tensor]


def body(worlds: int = 1, **given) -> Case:
    """A body of mass 1 kg and unit inertia at rest at the origin, that nothing acts on; `given` replaces inputs.

    Values broadcast to the shapes of `RigidRollout`; the numbers of contact points, grounds, pushes, obstacles,
    frame intervals, drags and levers are read off `points`, `normal`, `impulse`, `centre`, `step`, `drag`, `rolling` and `spinning`.
    """
    values = {name: torch.as_tensor(value, dtype=torch.float64) for name, value in given.items()}
    none = torch.zeros(0, 3, dtype=torch.float64)
    counted = ("points", "normal", "impulse", "centre")
    points, grounds, pushes, obstacles = (values.setdefault(n, none).shape[-2] for n in counted)
    optional = ("step", "drag", "rolling", "spinning")
    columns = {name: values.setdefault(name, torch.zeros(0, dtype=torch.float64)).shape[-1:] for name in optional}
    shapes = {"x": (3,), "q": (4,), "v": (3,), "l": (3,), "mass": (), "inertia_inverse": (3, 3), "gravity": (3,)}
    shapes |= {"points": (points, 3), "radius": (points,), "normal": (grounds, 3), "height": (grounds,)}
    shapes |= dict.fromkeys(CONTACT, (grounds + obstacles,))
    shapes |= {"impulse": (pushes, 3), "push_point": (pushes, 3), "centre": (obstacles, 3), "axis": (obstacles, 3, 3)}
    shapes |= {"half": (obstacles, 3), "rounding": (obstacles,), **columns}
    defaults = {"q": torch.tensor([0.0, 0, 0, 1]), "mass": torch.tensor(1.0), "inertia_inverse": torch.eye(3)}
    case = {}
    for name in INPUTS:
        value = values.get(name, defaults.get(name, torch.tensor(0.0)).double())
        case[name] = value.expand(worlds, *shapes[name])
    return case


def simulate(case: Case, frames: int, dt: float, substeps: int = 1, **options) -> Case:
    """States x, q, v, l of every frame (worlds, frames, ·)."""
    outputs = RigidRollout(frames, substeps, dt, **options).run(*case.values())
    return dict(zip("xqvl", outputs, strict=True))


def random_inertia_inverse(worlds: int, generator: torch.Generator) -> Tensor:
    """Inverse inertias (worlds, 3, 3) of generic bodies [1/(kg m²)], with eigenvalues in [5, 20]."""
    axes = torch.linalg.qr(torch.randn(worlds, 3, 3, generator=generator, dtype=torch.float64)).Q
    inverse = 5 + 15 * torch.rand(worlds, 3, generator=generator, dtype=torch.float64)
    return axes @ torch.diag_embed(inverse) @ axes.mT


WINDOWS = ((0.0, 0.0), (0.0117, 0.0253))  # [s], pushes of `tumbling`: a blow, and a window between the steps


def tumbling(worlds: int, seed: int, law: str = "continuous") -> Case:
    """Generic bodies that tumble through a wedge of two grounds on four contact points, each with a radius.

    Over 0.1 s each meets both grounds, at some points sliding and at some sticking, while two pushes act on it.
    """
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(worlds, *shape, generator=generator, dtype=torch.float64)
    uniform = lambda *shape: torch.rand(worlds, *shape, generator=generator, dtype=torch.float64)
    tilt = torch.tensor([[0.3, 0.1, 1.0], [-0.4, 0.2, 1.0]], dtype=torch.float64)
    return body(
        worlds,
        x=0.03 * normal(3) + torch.tensor([0, 0, 0.1]),
        q=normalize(normal(4), dim=-1),
        v=normal(3) - torch.tensor([0, 0, 1.0]),
        l=0.3 * normal(3),
        mass=0.5 + uniform(),
        inertia_inverse=random_inertia_inverse(worlds, generator),
        gravity=torch.tensor([0.3, -0.2, -GRAVITY]),
        points=0.15 * normalize(normal(4, 3), dim=-1),
        radius=0.03 * uniform(4),
        normal=normalize(tilt + 0.1 * normal(2, 3), dim=-1),
        height=0.02 * normal(2),
        stiffness=1000 + 1000 * uniform(2),
        damping=(0.1 + 0.3 * uniform(2)) * (1 if law == "continuous" else 30),  # [s/m] or [N s/m]
        friction_stiffness=5 + 20 * uniform(2),
        friction=0.2 + 0.5 * uniform(2),
        impulse=0.3 * normal(2, 3),
        push_point=0.1 * normal(2, 3),
    )


def among_obstacles(worlds: int, seed: int, law: str = "continuous") -> Case:
    """`tumbling` over one ground, a ball, a sharp box and a rounded one, all turned at random and hit by every body."""
    case = tumbling(worlds, seed, law)
    generator = torch.Generator().manual_seed(seed + 1000)
    normal = lambda *shape: torch.randn(worlds, *shape, generator=generator, dtype=torch.float64)
    uniform = lambda *shape: torch.rand(worlds, *shape, generator=generator, dtype=torch.float64)
    under = torch.tensor([[-0.1, 0.0, -0.12], [0.1, 0.1, -0.15], [0.1, -0.12, -0.14]], dtype=torch.float64)
    sizes = torch.tensor([[0.0, 0, 0], [0.11, 0.14, 0.12], [0.1, 0.09, 0.12]], dtype=torch.float64)
    changes = {
        "normal": case["normal"][:, :1],
        "height": case["height"][:, :1] - 0.05,
        "centre": under + 0.02 * normal(3, 3),
        "axis": torch.linalg.qr(normal(3, 3, 3)).Q,
        "half": sizes * (1 + 0.2 * uniform(3, 3)),
        "rounding": torch.tensor([0.12, 0.0, 0.04]) * (1 + 0.2 * uniform(3)),
        **{name: case[name].repeat(1, 2) * (0.8 + 0.4 * uniform(4)) for name in CONTACT},
    }
    return body(worlds, **{**{name: x for name, x in case.items() if name not in changes}, **changes})


def in_air(worlds: int, seed: int, law: str = "continuous") -> Case:
    """`tumbling` in a thick air, which takes some tenths of the speed."""
    share = torch.rand(worlds, 1, generator=torch.Generator().manual_seed(seed + 2000), dtype=torch.float64)
    return {**tumbling(worlds, seed, law), "drag": 1 + 2 * share}


def rough(case: Case, seed: int) -> Case:
    """The same with friction against rolling and spinning on all grounds and obstacles."""
    shape = case["stiffness"].shape
    lever = lambda k: 0.05 * torch.rand(*shape, generator=torch.Generator().manual_seed(seed + k), dtype=torch.float64)
    return {**case, "rolling": 0.05 + lever(3000), "spinning": 0.05 + lever(4000)}


def rolling(worlds: int, seed: int, law: str = "continuous") -> Case:
    """`tumbling` with that."""
    return rough(tumbling(worlds, seed, law), seed)


def rolling_over_obstacles(worlds: int, seed: int, law: str = "continuous") -> Case:
    """`among_obstacles` with that."""
    return rough(among_obstacles(worlds, seed, law), seed)


def with_clock(case: Case, intervals: int, step: float, seed: int) -> Case:
    """The same with a step of its own in every world and frame interval, off `step` by up to a fifth."""
    share = torch.rand(len(case["x"]), intervals, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return {**case, "step": step * (0.8 + 0.4 * share)}


def airborne(worlds: int, seed: int) -> Case:
    """`tumbling` with the grounds far below."""
    case = tumbling(worlds, seed)
    return {**case, "height": case["height"] - 100}


def resting(worlds: int, seed: int) -> Case:
    """Bodies that rock softly on four points, below the limit of friction: no contact begins, ends or slips."""
    case = tumbling(worlds, seed)
    wobble = 0.002 * torch.randn(worlds, 4, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    corners = [[0.1, 0.1, -0.05], [-0.1, 0.1, -0.052], [-0.1, -0.1, -0.051], [0.1, -0.1, -0.049]]
    stiffness = 0.1 * case["stiffness"][:, :1]  # sinks in by one to four centimetres
    height = 0.05 - case["mass"] * GRAVITY / (4 * stiffness[:, 0])
    return body(
        worlds,
        **{name: case[name] for name in ("mass", "inertia_inverse", "gravity", "push_point")},
        x=torch.stack([torch.zeros_like(height), torch.zeros_like(height), height], 1) + wobble[:, :3],
        q=normalize(torch.tensor([0.0, 0, 0, 1]) + wobble, dim=-1),
        v=0.02 * case["v"],
        l=0.02 * case["l"],
        points=torch.tensor(corners),
        normal=normalize(torch.tensor([[0.02, 0.01, 1.0]], dtype=torch.float64), dim=-1),
        stiffness=stiffness,
        damping=case["damping"][:, :1],
        friction_stiffness=case["friction_stiffness"][:, :1],
        friction=10.0,
        impulse=0.02 * case["impulse"],
    )
