"""The contact laws by name, and their functions for a lane type."""

from functools import cache

from gradsim.engine.lanes import Lane, borrowed, specialise

LAWS = {  # file, and what its template leaves open
    "continuous": ("gradsim.physics.contact.hunt_crossley", {}),
    "paper": ("gradsim.physics.contact.kelvin_voigt", {}),
    "paper-adhesive": ("gradsim.physics.contact.kelvin_voigt", {"CLAMPED": False}),
}


@cache
def contact_functions(law: str, lane: Lane) -> dict:
    """The functions of `contact.py` with the normal force of a law, a key of `LAWS`."""
    file, options = LAWS[law]
    normal = specialise(file, lane, **options)
    contact = specialise("gradsim.physics.contact.point_plane", lane, normal_force=normal.normal_force)
    return borrowed(contact, "contact_gap", "contact_arm", "contact_force", "contact_power")


@cache
def obstacle_functions(law: str, lane: Lane) -> dict:
    """The functions of `obstacle.py` with a law."""
    contact = contact_functions(law, lane)
    forces = {name: contact[name] for name in ("contact_arm", "contact_force")}
    touch = specialise("gradsim.physics.contact.point_sdf", lane, **forces)
    return borrowed(touch, "solid_touch", "obstacle_touch", "obstacle_power")
