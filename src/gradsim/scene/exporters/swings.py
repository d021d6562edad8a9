"""Pendulums and double pendulums as links on hinges.

The angle θ from hanging straight down turns −z to the horizontal direction a of the swing, so the axis is a × z. A link has
its z axis up where it hangs.

    pendulum    m (L² + 2/5 r²) θ̈ = … − m (L² + 2/5 r²) (c θ̇ + d |θ̇| θ̇)      damping and drag of the hinge
    arms        damping of the hinges by the relative rates; the second angle is relative to the first arm
"""

import numpy as np

from gradsim.geometry import mesh as meshes
from gradsim.scene.body import Pendulum
from gradsim.scene.double_pendulum import DoublePendulum
from gradsim.scene.exporters.links import place_children
from gradsim.scene.exporters.twin import IDENTITY, Force, Form, Hinge, Link, Twin, unused_name

MASS = 1.0  # [kg] of the ball of a pendulum, whose motion does not depend on it
POINT = 1e-12  # moment of inertia of a point mass over m l²: engines refuse 0


def add_pendulum(name: str, body: Pendulum, twin: Twin) -> None:
    """Add a ball on a hinge."""
    length, r = body.string_length + body.radius, body.radius
    about_pivot = MASS * (length**2 + 2 / 5 * r**2)
    forms = [_ball(r, np.zeros(3), body.colour)]
    if body.rod_radius > 0:
        forms.append(
            _rod(body.rod_radius, body.string_length, np.array([0, 0, r + body.string_length / 2]), body.colour)
        )
    twin.links[name] = Link(name, MASS, 2 / 5 * MASS * r**2 * np.eye(3), tuple(forms), *_rest())
    twin.tree[name] = Hinge(
        f"{name}_hinge",
        "revolute",
        None,
        name,
        np.array(body.pivot, np.float64),
        np.array([0.0, 0.0, length]),
        _axis(body.plane),
        np.array(IDENTITY),
        body.angle,
        body.rate,
        damping=body.damping * about_pivot,
        drag=body.drag * about_pivot,
    )
    if any(body.force_per_mass):
        force = MASS * np.array(body.force_per_mass)
        twin.forces.append(Force(f"{name}_force", name, force, np.zeros(3)))
    twin.notes.append(f"`{name}`: its motion does not depend on its mass; the model has {MASS:g} kg.")
    place_children(twin)


def add_double_pendulum(name: str, body: DoublePendulum, twin: Twin) -> None:
    """Add two arms on hinges."""
    names = tuple(unused_name(f"{name}_{arm}", twin.links) for arm in ("first", "second"))
    lengths = (body.first_length, body.second_length)
    masses = (body.first_mass, body.second_mass)
    centre = 0.5 if body.masses == "rods" else 1.0  # of mass over the length, from the hinge
    arms = zip(names, lengths, masses, (body.first_radius, body.second_radius), strict=True)
    for k, (arm, l, mass, radius) in enumerate(arms):
        across = mass * l**2 / 12 if body.masses == "rods" else POINT * mass * l**2
        along = POINT * mass * l**2
        inertia = np.diag([across, across, along if body.masses == "points" else 2 * along])
        color, end = (body.colour, body.second_colour)[k], np.array([0.0, 0.0, -(1 - centre) * l])
        forms = [_ball(radius, end, color)] if radius else []
        if body.rod_radius:
            forms.append(_rod(body.rod_radius, l, end + [0, 0, l / 2], color))
        twin.links[arm] = Link(arm, mass, inertia, tuple(forms), *_rest())
    angles = (body.first_angle, body.second_angle - body.first_angle)
    speeds = (body.first_rate, body.second_rate - body.first_rate)
    for k, arm in enumerate(names):
        twin.tree[arm] = Hinge(
            f"{name}_{('pivot', 'elbow')[k]}",
            "revolute",
            names[0] if k else None,
            arm,
            np.array([0.0, 0.0, -(1 - centre) * lengths[0]]) if k else np.array(body.pivot, np.float64),
            np.array([0.0, 0.0, centre * lengths[k]]),
            _axis(body.plane),
            np.array(IDENTITY),
            angles[k],
            speeds[k],
            damping=body.damping,
        )
    if any(body.force):
        end = np.array([0.0, 0.0, -(1 - centre) * lengths[1]])
        twin.forces.append(Force(f"{name}_force", names[1], np.array(body.force, np.float64), end))
    if body.masses == "points":
        twin.notes.append(f"`{name}`: a point mass has the moment of inertia {POINT:g} m l² in the model.")
    place_children(twin)


def _axis(plane) -> np.ndarray:
    """Axis of a swing whose angle turns −z to the horizontal direction `plane`."""
    along = np.array(plane, np.float64) / np.linalg.norm(plane)
    return np.cross(along, [0.0, 0.0, 1.0])


def _ball(radius: float, centre: np.ndarray, color) -> Form:
    return Form("sphere", (radius,), meshes.sphere(radius), centre, color=tuple(color), collides=False)


def _rod(radius: float, length: float, centre: np.ndarray, color) -> Form:
    mesh = meshes.cylinder(radius, length, 8)
    return Form("cylinder", (radius, length), mesh, centre, color=tuple(color), collides=False)


def _rest() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Position, orientation and velocities at the origin, until `place_children` sets them."""
    return np.zeros(3), np.array(IDENTITY), np.zeros(3), np.zeros(3)
