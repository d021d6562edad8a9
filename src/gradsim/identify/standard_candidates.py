"""Standard candidates for `compare`, by name: the usual parts of a model left out, put in, or of another law.

without friction      no friction at any ground
without elasticity    no body bounces
without damping       nothing is lost in a bounce; a pendulum swings for ever
with friction         friction is an unknown of every ground
with damping          what a bounce loses is an unknown of every ground; damping and drag of every pendulum
paper law             the contact law of the paper, its damping unknown
continuous law        Hunt and Crossley's, its dissipation unknown
rk4                   the integrator of fourth order
"""

import math
from collections.abc import Callable, Sequence

from gradsim.errors import InputError
from gradsim.identify.unknowns import Space, Unknown
from gradsim.scene.body import Pendulum
from gradsim.scene.node import did_you_mean
from gradsim.scene.scene import Scene

INELASTIC = 30.0  # [s/m] dissipation at which a bounce at 1 m/s keeps about 1/30 of the speed
FRICTION, DISSIPATION, DAMPING = "0.02:1.5", "0.02:5", "1:1000"  # ranges of what a candidate adds
SWING, DRAG = "0.001:1", "0.001:1"


def standard(name: str, scene: Scene, unknowns: Sequence[str | Unknown]) -> dict:
    """Changes of a standard candidate.

    Args:
        name: One of the names above.
        scene: The scene as given.
        unknowns: Of the scene as given, for their ranges.

    Raises:
        InputError: If there is none of that name, or it changes nothing in this scene.
    """
    if name not in STANDARD:
        hint = did_you_mean(name, list(STANDARD)) or f"; there are {', '.join(STANDARD)}."
        raise InputError(f"there is no standard candidate `{name}`{hint}")
    changes = STANDARD[name](scene, unknowns)
    if not changes:
        raise InputError(f"the candidate `{name}` changes nothing: the scene has nothing that it is about.")
    return changes


def _without_friction(scene: Scene, unknowns) -> dict:
    return {f"{g}.{key}": 0.0 for g in scene.grounds for key in ("friction", "friction_stiffness")}


def _without_elasticity(scene: Scene, unknowns) -> dict:
    changes = {}
    for name, ground in scene.grounds.items():
        if ground.law == "continuous":
            changes[f"{name}.dissipation"] = INELASTIC
        else:
            changes[f"{name}.damping"] = 2 * math.sqrt(
                _highest(scene, unknowns, f"{name}.stiffness") * _mass(scene, unknowns)
            )
    return changes


def _without_damping(scene: Scene, unknowns) -> dict:
    changes = {f"{n}.{'dissipation' if g.law == 'continuous' else 'damping'}": 0.0 for n, g in scene.grounds.items()}
    return changes | {f"{n}.{key}": 0.0 for n in _pendulums(scene) for key in ("damping", "drag")}


def _with_friction(scene: Scene, unknowns) -> dict:
    return {"unknowns": [f"{g}.friction:{FRICTION}" for g in scene.grounds]} if scene.grounds else {}


def _with_damping(scene: Scene, unknowns) -> dict:
    added = [
        f"{n}.dissipation:{DISSIPATION}" if g.law == "continuous" else f"{n}.damping:{DAMPING}"
        for n, g in scene.grounds.items()
    ]
    added += [text for n in _pendulums(scene) for text in (f"{n}.damping:{SWING}", f"{n}.drag:{DRAG}")]
    return {"unknowns": added} if added else {}


def _paper_law(scene: Scene, unknowns) -> dict:
    changes = {}
    for name, ground in scene.grounds.items():
        if ground.law == "continuous":
            changes |= {f"{name}.law": "paper", f"{name}.dissipation": None, f"{name}.damping": 50.0}
    return changes and changes | {"unknowns": [f"{g}.damping:{DAMPING}" for g in scene.grounds]}


def _continuous_law(scene: Scene, unknowns) -> dict:
    changes = {}
    for name, ground in scene.grounds.items():
        if ground.law != "continuous":
            changes |= {f"{name}.law": "continuous", f"{name}.damping": None, f"{name}.dissipation": 0.5}
    return changes and changes | {"unknowns": [f"{g}.dissipation:{DISSIPATION}" for g in scene.grounds]}


def _rk4(scene: Scene, unknowns) -> dict:
    return {"timing.integrator": "rk4"} if scene.timing.integrator != "rk4" else {}


def _pendulums(scene: Scene) -> list[str]:
    return [name for name, body in scene.bodies.items() if isinstance(body, Pendulum)]


def _highest(scene: Scene, unknowns, name: str) -> float:
    """The upper end of a parameter's range, or its value where it is known."""
    space = Space(scene, unknowns)
    if name in space.names:
        return space.range(space.names.index(name))[1]
    owner, key = name.split(".")
    return float(getattr(scene.grounds[owner], key))


def _mass(scene: Scene, unknowns) -> float:
    """The largest mass of a body."""
    space = Space(scene, unknowns)
    masses = [space.range(k)[1] for k, name in enumerate(space.names) if name.endswith(".mass")]
    masses += [float(m) for body in scene.bodies.values() if (m := getattr(body, "mass", None)) is not None]
    return max(masses, default=10.0)


STANDARD: dict[str, Callable[[Scene, Sequence[str | Unknown]], dict]] = {
    "without friction": _without_friction,
    "without elasticity": _without_elasticity,
    "without damping": _without_damping,
    "with friction": _with_friction,
    "with damping": _with_damping,
    "paper law": _paper_law,
    "continuous law": _continuous_law,
    "rk4": _rk4,
}
