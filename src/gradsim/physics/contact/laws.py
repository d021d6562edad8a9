"""The contact laws by name, and their functions for a lane type."""

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradsim.engine.lanes import Lane, members, specialize
from gradsim.engine.user_template import load_template
from gradsim.errors import InputError
from gradsim.scene import contact

if TYPE_CHECKING:
    from gradsim.physics.contact import (
        constant_restitution,
        hunt_crossley,
        kelvin_voigt,
        point_plane,
        point_sdf,
        rolling,
    )
else:
    constant_restitution = "gradsim.physics.contact.constant_restitution"
    hunt_crossley = "gradsim.physics.contact.hunt_crossley"
    kelvin_voigt = "gradsim.physics.contact.kelvin_voigt"
    point_plane = "gradsim.physics.contact.point_plane"
    point_sdf = "gradsim.physics.contact.point_sdf"
    rolling = "gradsim.physics.contact.rolling"

LAWS: dict[str, tuple[Any, dict]] = {  # file, and what its template leaves open
    "continuous": (hunt_crossley, {}),
    "constant-restitution": (constant_restitution, {}),
    "paper": (kelvin_voigt, {}),
    "paper-adhesive": (kelvin_voigt, {"CLAMPED": False}),
}


def register(name: str, path: str | Path) -> None:
    """Add a contact law that scenes can name: `law: NAME` of a ground, an obstacle or a contact.

    Args:
        name: Its name in scenes.
        path: A template like `hunt_crossley.py`: `normal_force(gap, rate, stiffness, damping)`, the same in plain
            PyTorch as `reference`, and `DAMPING`, the scene's number that damps it: "dissipation" or "damping".

    Raises:
        InputError: If the name is taken by another file, or the file lacks one of these.
    """
    template = load_template(path)
    missing = [key for key in ("normal_force", "reference", "DAMPING") if not hasattr(template, key)]
    if missing:
        raise InputError(
            f"{path} has no {' and no '.join(f'`{key}`' for key in missing)}; see docs/developer/extend.md."
        )
    if template.DAMPING not in contact.LAWS.values():
        raise InputError(f"DAMPING of {path} is {template.DAMPING!r}; choose `dissipation` [s/m] or `damping` [N s/m].")
    if LAWS.get(name, (template.__name__, {})) != (template.__name__, {}):
        raise InputError(f"there is a contact law {name!r} already, of {LAWS[name][0]}; choose another name.")
    LAWS[name] = (template.__name__, {})
    contact.LAWS[name] = template.DAMPING


def stiffening(law: str) -> float:
    """Largest slope of the normal force with depth, over the stiffness, for the stability bound."""
    return getattr(import_module(str(LAWS[law][0])), "STIFFENING", 1.0)


def is_odd_law(law: str) -> bool:
    """True if -f_n(-gap) continues its force smoothly past touch, as steps that end at touch and release need."""
    return getattr(import_module(str(LAWS[law][0])), "ODD", False)


@cache
def contact_functions(law: str, lane: Lane) -> dict:
    """The functions of `point_plane.py` with the normal force of a law, a key of `LAWS`."""
    file, options = LAWS[law]
    normal = specialize(file, lane, **options)
    point = specialize(point_plane, lane, normal_force=normal.normal_force)
    return members(point, "contact_gap", "contact_arm", "contact_force", "moded_force", "contact_power")


@cache
def rolling_functions(law: str, lane: Lane, obstacles: bool) -> dict:
    """The functions of `rolling.py` with a law."""
    point = contact_functions(law, lane)
    parts = {name: point[name] for name in ("contact_arm", "contact_gap", "moded_force")}
    if obstacles:
        parts["obstacle_touch"] = obstacle_functions(law, lane)["obstacle_touch"]
    torque = specialize(rolling, lane, OBSTACLES=obstacles, **parts)
    return members(torque, "rolling_torque", "rough_contact_power", *(["rough_obstacle_power"] if obstacles else []))


@cache
def obstacle_functions(law: str, lane: Lane) -> dict:
    """The functions of `point_sdf.py` with a law."""
    point = contact_functions(law, lane)
    forces = {name: point[name] for name in ("contact_arm", "moded_force")}
    touch = specialize(point_sdf, lane, **forces)
    return members(touch, "solid_touch", "obstacle_touch", "obstacle_gap", "obstacle_power")
