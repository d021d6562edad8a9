"""Candidate models of `compare`: edits of a scene, and standard ones by name.

A candidate is an edit of the scene. What it sets is known, so it is not an unknown of that candidate.

Standard candidates, by name: the usual parts of a model left out, put in, or of another law.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradsim.errors import InputError
from gradsim.identification.priors import Prior, has
from gradsim.identification.unknowns import Space, Unknown
from gradsim.scene.node import did_you_mean
from gradsim.scene.parameters import parameters
from gradsim.scene.scene import Scene

Changes = Mapping[str, Any]
INELASTIC_DISSIPATION = 30.0  # [s/m] dissipation at which a bounce at 1 m/s keeps about 1/30 of the speed
FRICTION, DISSIPATION, DAMPING = "0.02:1.5", "0.02:5", "1:1000"  # ranges of what a candidate adds
SWING, DRAG = "0.001:1", "0.001:1"


def standard_candidate(name: str, scene: Scene, unknowns: Sequence[str | Unknown]) -> dict:
    """Changes of a standard candidate.

    Args:
        name: One of the names above.
        scene: The scene as given.
        unknowns: Unknowns of the scene as given, for their ranges.

    Raises:
        InputError: If there is none of that name, or it changes nothing in this scene.
    """
    if name not in STANDARD_CANDIDATES:
        hint = did_you_mean(name, list(STANDARD_CANDIDATES)) or f"; there are {', '.join(STANDARD_CANDIDATES)}."
        raise InputError(f"unknown standard candidate `{name}`{hint}")
    changes = STANDARD_CANDIDATES[name](scene, _plain(unknowns))
    if not changes:
        raise InputError(f"the candidate `{name}` changes nothing: the scene has nothing that it is about.")
    return changes


def _plain(unknowns: Sequence[str | Unknown]) -> list[Unknown]:
    """Unknowns under the names of a scene, each once, without the recordings that have them."""
    parsed = [Unknown.parse(u) if isinstance(u, str) else u for u in unknowns]
    return list({name: replace(u, name=name) for u in parsed if (name := u.name.partition("@")[0])}.values())


def _without_friction(scene: Scene, unknowns) -> dict:
    return {f"{g}.{key}": 0.0 for g in scene.grounds for key in ("friction", "friction_stiffness")}


def _without_elasticity(scene: Scene, unknowns) -> dict:
    changes = {}
    for name, ground in scene.grounds.items():
        if ground.law == "continuous":
            changes[f"{name}.dissipation"] = INELASTIC_DISSIPATION
        else:
            changes[f"{name}.damping"] = 2 * math.sqrt(
                _highest(scene, unknowns, f"{name}.stiffness") * _mass(scene, unknowns)
            )
    return changes


def _without_damping(scene: Scene, unknowns) -> dict:
    changes = {f"{n}.{'dissipation' if g.law == 'continuous' else 'damping'}": 0.0 for n, g in scene.grounds.items()}
    return changes | {f"{n}.{key}": 0.0 for n in _damped_bodies(scene) for key in ("damping", "drag")}


def _with_friction(scene: Scene, unknowns) -> dict:
    return {"unknowns": [f"{g}.friction:{FRICTION}" for g in scene.grounds]} if scene.grounds else {}


def _with_damping(scene: Scene, unknowns) -> dict:
    added = [
        f"{n}.dissipation:{DISSIPATION}" if g.law == "continuous" else f"{n}.damping:{DAMPING}"
        for n, g in scene.grounds.items()
    ]
    added += [text for n in _damped_bodies(scene) for text in (f"{n}.damping:{SWING}", f"{n}.drag:{DRAG}")]
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
    return (
        {"timing.integrator": "rk4"}
        if any(scene.integrator_of(name) == "semi-implicit" for name in scene.bodies)
        else {}
    )


def _damped_bodies(scene: Scene) -> list[str]:
    """Bodies with a damping and a drag of their own, such as pendulums."""
    known = parameters(scene)
    return [name for name in scene.bodies if {f"{name}.damping", f"{name}.drag"} <= known.keys()]


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
    known = parameters(scene)
    masses += [float(known[key].value) for name in scene.bodies if (key := f"{name}.mass") in known]
    return max(masses, default=10.0)


STANDARD_CANDIDATES: dict[str, Callable[[Scene, Sequence[str | Unknown]], dict]] = {
    "without friction": _without_friction,
    "without elasticity": _without_elasticity,
    "without damping": _without_damping,
    "with friction": _with_friction,
    "with damping": _with_damping,
    "paper law": _paper_law,
    "continuous law": _continuous_law,
    "rk4": _rk4,
}


def edit_scene(scene: Scene, unknowns: Sequence[str | Unknown], changes: Changes) -> tuple[Scene, list[Unknown]]:
    """A scene with changes, and the unknowns that are left.

    Args:
        scene: The scene.
        unknowns: Unknowns of the scene as given.
        changes: As for `compare`.

    Raises:
        InputError: If a name is none of the scene's, or the edited scene is invalid.
    """
    content = scene.model_dump(exclude_unset=True)
    set_here = [name for name in changes if name != "unknowns"]
    for dotted in set_here:
        *path, key = dotted.split(".") if dotted not in content.get("bodies", ()) else ("bodies", dotted)
        group = next((g for g in ("grounds", "bodies", "obstacles") if path and path[0] in content.get(g, ())), None)
        node = content[group] if group else content
        if path and not group and path[0] not in Scene.model_fields:
            known = ", ".join([*scene.bodies, *scene.grounds, "timing", "gravity"])
            raise InputError(f"a candidate changes `{dotted}`, and the scene has no `{path[0]}`; it has {known}.")
        for part in path:
            node = node.setdefault(part, {})
        node[key] = changes[dotted]
    added = [Unknown.parse(u) if isinstance(u, str) else u for u in changes.get("unknowns", ())]
    gone = [*set_here, *(u.name for u in added)]
    parsed = [Unknown.parse(u) if isinstance(u, str) else u for u in unknowns]
    base = lambda name: name.partition("@")[0]  # without the recording that has it
    unchanged = [u for u in parsed if not any(_is_part(base(n), base(g)) for n in u.names for g in gone)]
    return Scene.parse(content, "the changed scene"), [*unchanged, *added]


def _is_part(name: str, group: str) -> bool:
    """True for a name itself, and for one of what belongs to it."""
    return name == group or name.startswith(f"{group}.")


def priors_left(priors: Sequence[Prior], edited: Sequence[Scene], changes: Changes) -> list[Prior]:
    """Priors of the numbers that some of the changed scenes still have and that the changes do not set."""
    fixed = [key for key in changes if key != "unknowns"]
    base = lambda name: name.partition("@")[0]
    present = lambda name: any(has(scene, base(name)) for scene in edited)
    left = [
        prior.of(name for name in prior.names if present(name) and not any(_is_part(base(name), g) for g in fixed))
        for prior in priors
    ]
    return [prior for prior in left if prior]


def as_json(changes: Changes) -> dict:
    """Changes as JSON holds them."""
    added = [u if isinstance(u, str) else f"{u.name}:{u.low}:{u.high}" for u in changes.get("unknowns", ())]
    return {**changes, "unknowns": added} if added else dict(changes)
