"""Random scenes with contact: a body of each shape that is pushed, falls, tumbles and slides; many worlds of one shape.

Ranges are those of the paper's Table 6 and of our joint fits: mass 2 to 12 kg, stiffness 20 to 500 kN/m, friction 0.2
to 1, friction stiffness and the paper's damping 1 to 200 N s/m, dissipation 0.05 to 0.6 s/m, bodies of 0.3 to 1 m.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.system import Values
from gradsim.scene import Scene

SHAPES = {  # about 1 m across; `scale` makes them smaller
    "box": {"box": {"size": [0.8, 0.6, 0.45]}},
    "sphere": {"sphere": {"radius": 0.4}},
    "cylinder": {"cylinder": {"radius": 0.35, "height": 0.7, "segments": 16}},
    "cone": {"cone": {"radius": 0.4, "height": 0.8, "segments": 16}},
    "capsule": {"capsule": {"radius": 0.25, "height": 0.5, "segments": 12, "rings": 3}},
    "torus": {"torus": {"radius": 0.35, "tube_radius": 0.12, "segments": 16, "tube_segments": 8}},
}
LAWS = {"continuous": ("dissipation", (0.05, 0.6)), "paper": ("damping", (1.0, 200.0))}
RANGES = {
    "body.mass": (2.0, 12.0),
    "body.scale": (0.3, 1.0),
    "ground.stiffness": (2e4, 5e5),
    "ground.friction_stiffness": (1.0, 200.0),
    "ground.friction": (0.2, 1.0),
}
FPS = 30


@dataclass(frozen=True)
class Scenes:
    """Worlds of one shape and law.

    Args:
        shape: Key of `SHAPES`.
        law: Key of `LAWS`.
        values: Parameters that differ between them (worlds, ...).
        substeps: Steps per frame that resolve every contact.
    """

    shape: str
    law: str
    values: Values
    substeps: int

    def model(self, finer: int = 1) -> Model:
        """The model with a step this many times smaller."""
        return Model(scene(self.shape, self.law), self.substeps * finer)


def scene(shape: str, law: str) -> Scene:
    """One body above a ground, pushed at the start."""
    body = {"shape": SHAPES[shape], "mass": 5, "position": [0, 0, 2], "scale": 0.6}
    body |= {"pushes": [{"impulse": [4, 1, 0], "point": [-0.1, 0.05, 0.04], "at": 0}]}
    damping, (low, high) = LAWS[law]
    ground = {"law": law, damping: (low + high) / 2, "stiffness": 1e5, "friction_stiffness": 100, "friction": 0.5}
    timing = {"fps": FPS, "frames": 24, "substeps": "auto", "integrator": "semi-implicit"}
    return Scene.parse({"timing": timing, "bodies": {"body": body}, "ground": ground})


def draw(shape: str, law: str, worlds: int, rng: np.random.Generator) -> Scenes:
    """Random worlds: parameters over their ranges, any orientation, 2 to 15 cm above the ground, a push of 2 to 6 N s."""
    uniform = lambda low, high, *more: torch.tensor(rng.uniform(low, high, (worlds, *more)))
    values = {name: uniform(*ends) for name, ends in RANGES.items()}
    values[f"ground.{LAWS[law][0]}"] = uniform(*LAWS[law][1])
    q = torch.nn.functional.normalize(torch.tensor(rng.standard_normal((worlds, 4))), dim=1)
    values["body.rotation_vector"] = rotation.logarithm(q)
    values["body.velocity"] = torch.cat([uniform(-1.5, 1.5, 2), uniform(-2.0, 0.0, 1)], 1)
    values["body.angular_velocity"] = uniform(-3.0, 3.0, 3)
    aim = torch.tensor(rng.standard_normal((worlds, 3)))
    values["body.pushes.0.impulse"] = torch.nn.functional.normalize(aim, dim=1) * uniform(2.0, 6.0)[:, None]
    model = Model(scene(shape, law))
    (body,) = model.systems
    assert isinstance(body, RigidBody)
    at = rotation.rotate(q[:, None], body.points * values["body.scale"][:, None, None])[..., 2]
    lowest = (at - body.radius * values["body.scale"][:, None]).amin(1)
    height = uniform(0.02, 0.15) - lowest
    values["body.position"] = torch.stack([torch.zeros(worlds), torch.zeros(worlds), height], 1).double()
    return Scenes(
        shape, law, values, model.recommended_substeps({k: v.detach() for k, v in model.values(values).items()})
    )


def directions(scenes: Scenes, rng: np.random.Generator) -> Values:
    """A random direction in all parameters and the start, in natural units; worlds as in `values`.

    Positive quantities by their logarithm, places by the size of the body, turns by 1 rad, speeds by 1 m/s and
    1 rad/s, the push by its own size.
    """
    size = 0.5 * scenes.values["body.scale"][:, None]
    units = {
        "body.position": size,
        "body.pushes.0.impulse": scenes.values["body.pushes.0.impulse"].norm(dim=1)[:, None],
    }
    by_name = {}
    for name, value in scenes.values.items():
        unit = value if value.ndim == 1 else units.get(name, torch.ones_like(size))
        by_name[name] = torch.tensor(rng.standard_normal(value.shape)) * unit
    return by_name


def touches_ground(scenes: Scenes, model: Model, frames: int) -> Tensor:
    """True if each world touched the ground (worlds,): its path differs from free flight."""
    with torch.no_grad():
        v = model.rollout(scenes.values, frames)["body"]["v"]
    falling = v[:, 1:2, 2] - 9.81 / FPS * torch.arange(frames - 1)  # after the push, which acts in the first frame
    return ((v[:, 1:, 2] - falling).abs() > 1e-6).any(1)
