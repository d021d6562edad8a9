"""Soft solids for other engines: tetrahedra with masses at their vertices, and an elastic material.

What counts for small strains is the same in all engines: Young's modulus and Poisson's ratio, with the scene's μ and λ as Lamé
parameters ¾ μ and λ − ⅝ μ (`gradsim.physics.forces.neo_hookean`). For large ones each engine has its own law. The viscosity η of the
scene becomes a damping time η/μ_L of the elastic forces, with the shear modulus μ_L, where an engine damps in proportion to them.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim.scene.soft_body import VertexImpulse
from gradsim.scene.solid import Solid, SolidRegion

NUMBERS = ("young", "poisson", "mu", "lam")


@dataclass(frozen=True)
class Lumps:
    """A soft solid of tetrahedra.

    Attributes:
        name: Name.
        vertices: At the start, without strain, in the world (n, 3) [m].
        velocities: At the start (n, 3) [m/s].
        tets: Indices of vertices (m, 4).
        mass: Of the vertices (n,) [kg].
        density: Of the body, without its regions [kg/m³].
        young, poisson: Young's modulus [Pa] and Poisson's ratio for small strains.
        damping_time: Viscosity over shear modulus [s].
        pinned: Indices of fixed vertices.
        collides: Whether its vertices collide with grounds and obstacles.
        color: RGB.
        contact: Overrides of contact parameters by name.
    """

    name: str
    vertices: np.ndarray
    velocities: np.ndarray
    tets: np.ndarray
    mass: np.ndarray
    density: float
    young: float
    poisson: float
    damping_time: float
    pinned: np.ndarray
    collides: bool
    color: tuple[float, ...]
    contact: dict[str, float] = field(default_factory=dict)


def lumps_of(name: str, body: Solid) -> tuple[Lumps, list[str]]:
    """A solid of a scene at its start, and notes on what it has that no format expresses."""
    mesh, scale = body.rest, body.scale or 1.0
    rest = mesh.vertices * scale
    turn = Rotation.from_quat(body.quat_xyzw)
    if any(body.rotation_vector):
        turn = Rotation.from_rotvec(body.rotation_vector) * turn
    arms = turn.apply(rest)
    velocities = np.array(body.velocity) + np.cross(body.angular_velocity, arms)
    pinned = np.unique(np.concatenate([region.of(mesh.vertices) for region in body.pinned] or [np.zeros(0, int)]))
    regions = [body, *body.regions.values()]
    densities = np.array([region.density or body.density for region in regions])[body.region_of()]
    mass = np.zeros(len(rest))
    np.add.at(mass, mesh.tets, (densities * mesh.volumes * scale**3 / 4)[:, None])
    free = np.ones(len(rest))
    free[pinned] = 0.0
    for push in body.pushes:
        velocities += _blow(push, free, mesh.vertices, arms, mass, turn)
    velocities *= free[:, None]
    young, poisson = _moduli(body)
    contact = {k: v for k, v in body.contact.model_dump().items() if v is not None} if body.contact else {}
    lumps = Lumps(
        name,
        np.array(body.position) + arms,
        velocities,
        mesh.tets,
        mass,
        body.density,
        young,
        poisson,
        body.damping * 2 * (1 + poisson) / young,
        pinned,
        body.collision != "none",
        tuple(body.colour),
        contact,
    )
    return lumps, _unsaid(name, body)


def _blow(
    push: VertexImpulse, free: np.ndarray, rest: np.ndarray, arms: np.ndarray, mass: np.ndarray, turn
) -> np.ndarray:
    """Velocities (n, 3) [m/s] that an impulse gives: of all vertices that it strikes as of one rigid body."""
    struck = free.copy()
    if push.region is not None:
        struck = np.zeros(len(rest))
        struck[push.region.of(rest)] = 1.0
        struck *= free
    m = mass * struck
    gain = np.array(push.impulse) / m.sum()
    if any(push.point):
        r = arms - np.average(arms, axis=0, weights=m)
        inertia = np.einsum("k,kij->ij", m, (r**2).sum(1)[:, None, None] * np.eye(3) - r[:, :, None] * r[:, None, :])
        spin = np.linalg.solve(inertia, np.cross(turn.apply(push.point), push.impulse))
        return (gain + np.cross(spin, r)) * struck[:, None]
    return gain * struck[:, None]


def _moduli(body: Solid) -> tuple[float, float]:
    """Young's modulus [Pa] and Poisson's ratio."""
    if body.young is not None and body.poisson is not None:
        return body.young, body.poisson
    mu, lam = 0.75 * (body.mu or 0.0), (body.lam or 0.0) - 0.625 * (body.mu or 0.0)
    return mu * (3 * lam + 2 * mu) / (lam + mu), lam / (2 * (lam + mu))


def _unsaid(name: str, body: Solid) -> list[str]:
    """Sentences on what a solid has that no format expresses."""
    notes = [
        f"`{name}`: elasticity that is the scene's for small strains only; for large ones each engine has its own law."
    ]
    if body.elements == "quadratic":
        notes.append(
            f"`{name}`: its elements are quadratic in the scene and linear in the model, which are too stiff in bending."
        )
    for label, region in body.regions.items():
        stated = ", ".join(f"{key} {value:g}" for key, value in _differing(region).items())
        notes.append(
            f"`{name}`: its region `{label}` in the box {region.box} has {stated}; masses count it, elasticity does not."
        )
    if body.relaxation or body.hysteresis:
        notes.append(f"`{name}`: elasticity that relaxes, or its hysteresis; the model has what lasts.")
    said = {
        "an activation of {:g}": body.activation,
        "rest lengths of {:g} times those of the model": (body.rest_length_factor or 1.0) - 1.0
        and body.rest_length_factor,
        "{:g} groups of anchors": len(body.anchors),
    }
    notes += [f"`{name}`: {words.format(value)}." for words, value in said.items() if value]
    return notes


def _differing(region: SolidRegion) -> dict[str, float]:
    return {key: value for key in ("density", *NUMBERS, "damping") if (value := getattr(region, key)) is not None}
