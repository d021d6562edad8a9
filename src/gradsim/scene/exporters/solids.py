"""Soft solids and sheets for other engines: tetrahedra or triangles with masses at their vertices, and an elastic material.

What counts for small strains is the same in all engines: Young's modulus and Poisson's ratio, with the scene's μ and λ as Lamé
parameters ¾ μ and λ − ⅝ μ (`gradsim.physics.forces.neo_hookean`). For large ones each engine has its own law. The viscosity η of the
scene becomes a damping time η/μ_L of the elastic forces, with the shear modulus μ_L, where an engine damps in proportion to them.

Of sheets, ⅔ μ and λ − 4/9 μ are the Lamé parameters in plane stress times the thickness, E t and ν from them. A plate of thickness t has
the bending stiffness D = E t³/(12 (1 − ν²)); the scene's `bending` k is D = k/4 for a grid of squares that bends about one of its axes,
so t = √(12 (1 − ν²) D/(E t)).
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gradsim.geometry.tet_mesh import TetMesh, surface
from gradsim.scene.cloth import Cloth
from gradsim.scene.exporters.orientation import orientation_of
from gradsim.scene.soft_body import VertexImpulse
from gradsim.scene.solid import Solid, SolidRegion

NUMBERS = ("young", "poisson", "mu", "lam")
SHEET_THICKNESS = 1e-3  # of a sheet that does not bend and states none [m]


@dataclass(frozen=True)
class Lumps:
    """A soft solid of tetrahedra, or a sheet of triangles.

    Attributes:
        name: Name.
        vertices: At the start, without strain, in the world (n, 3) [m].
        velocities: At the start (n, 3) [m/s].
        cells: Indices of the vertices of tetrahedra (m, 4) or triangles (m, 3).
        mass: Of the vertices (n,) [kg].
        density: Of the body, without its regions [kg/m³]; of a sheet by area [kg/m²].
        young, poisson: Young's modulus [Pa] and Poisson's ratio for small strains.
        damping_time: Viscosity over shear modulus [s].
        pinned: Indices of fixed vertices.
        collides: Whether its vertices collide with grounds and obstacles.
        color: RGB.
        contact: Overrides of contact parameters by name.
        thickness: Of a sheet that bends [m]; of one that does not, a nominal one.
        bends: Whether a sheet resists bending.
    """

    name: str
    vertices: np.ndarray
    velocities: np.ndarray
    cells: np.ndarray
    mass: np.ndarray
    density: float
    young: float
    poisson: float
    damping_time: float
    pinned: np.ndarray
    collides: bool
    color: tuple[float, ...]
    contact: dict[str, float] = field(default_factory=dict)
    thickness: float = 0.0
    bends: bool = False

    @property
    def is_sheet(self) -> bool:
        """True of triangles."""
        return self.cells.shape[1] == 3

    @cached_property
    def faces(self) -> np.ndarray:
        """Triangles of the surface (k, 3), counterclockwise from outside."""
        return self.cells if self.is_sheet else surface(TetMesh(self.vertices, self.cells))


def sheet_of(name: str, body: Cloth) -> tuple[Lumps, list[str]]:
    """A sheet of a scene at its start, and notes on what it has that no format expresses."""
    mesh, scale = body.rest, body.scale or 1.0
    faces = np.asarray(mesh.faces)
    edges = mesh.vertices[faces[:, 1:]] - mesh.vertices[faces[:, :1]]
    areas = 0.5 * np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1) * scale**2
    mass = np.zeros(len(mesh.vertices))
    np.add.at(mass, faces, (body.density * areas / 3)[:, None])
    tension, poisson = _in_plane(body)
    stiffness = (body.bending or 0.0) / 4
    thickness = np.sqrt(12 * (1 - poisson**2) * stiffness / tension) if stiffness else body.thickness or SHEET_THICKNESS
    notes = _common(name, body)
    if stiffness:
        notes.append(
            f"`{name}`: bending stiffness of a plate, with that of the scene for a grid of squares; other meshes differ."
        )
    said = {
        "a bending damping of {:g}": body.bending_damping,
        "folds at rest by an activation of {:g}": body.bending_activation,
        "air of {:g} kg/m³ around it": body.air and body.air.density,
    }
    notes += [f"`{name}`: {words.format(value)}." for words, value in said.items() if value]
    damping_time = body.damping * 2 * (1 + poisson) / tension
    material = (body.density, tension / thickness, poisson, damping_time)
    lumps = _lumps(name, body, mesh.vertices, faces, mass, material)
    return replace(lumps, thickness=float(thickness), bends=stiffness > 0), notes


def lumps_of(name: str, body: Solid) -> tuple[Lumps, list[str]]:
    """A solid of a scene at its start, and notes on what it has that no format expresses."""
    mesh, scale = body.rest, body.scale or 1.0
    regions = [body, *body.regions.values()]
    densities = np.array([region.density or body.density for region in regions])[body.region_of()]
    mass = np.zeros(len(mesh.vertices))
    np.add.at(mass, mesh.tets, (densities * mesh.volumes * scale**3 / 4)[:, None])
    young, poisson = _moduli(body)
    material = (body.density, young, poisson, body.damping * 2 * (1 + poisson) / young)
    return _lumps(name, body, mesh.vertices, mesh.tets, mass, material), _unsaid(name, body)


def _lumps(
    name: str,
    body: Solid | Cloth,
    vertices: np.ndarray,
    cells: np.ndarray,
    mass: np.ndarray,
    material: tuple[float, float, float, float],
) -> Lumps:
    """A body with its start.

    Args:
        name: Name.
        body: Its description.
        vertices: At rest, at scale 1 (n, 3) [m].
        cells: Indices of vertices.
        mass: Of the vertices (n,) [kg].
        material: Density, Young's modulus, Poisson's ratio, damping time.
    """
    turn = orientation_of(body)
    arms = turn.apply(vertices * (body.scale or 1.0))
    velocities = np.array(body.velocity) + np.cross(body.angular_velocity, arms)
    held = [region.of(vertices) for region in body.pinned]
    held += [motion.of(body.rest_vertices) for motion in body.motion]
    pinned = np.unique(np.concatenate(held or [np.zeros(0, int)]))
    pinned = pinned[pinned < len(vertices)]  # the corners of quadratic elements come first
    free = np.ones(len(vertices))
    free[pinned] = 0.0
    for push in body.pushes:
        velocities += _blow(push, free, vertices, arms, mass, turn)
    velocities *= free[:, None]
    contact = {k: v for k, v in body.contact.model_dump().items() if v is not None} if body.contact else {}
    solid = body.collision != "none"
    place = np.array(body.position) + arms
    return Lumps(name, place, velocities, cells, mass, *material, pinned, solid, tuple(body.colour), contact)


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


def _in_plane(body: Cloth) -> tuple[float, float]:
    """Young's modulus times the thickness [N/m], and Poisson's ratio."""
    if body.young is not None and body.poisson is not None:
        return body.young * (body.thickness or 0.0), body.poisson
    mu, lam = (body.mu or 0.0) * 2 / 3, (body.lam or 0.0) - (body.mu or 0.0) * 4 / 9
    poisson = lam / (lam + 2 * mu)
    return 2 * mu * (1 + poisson), poisson


def _common(name: str, body: Solid | Cloth) -> list[str]:
    """Sentences on what a solid or sheet has that no format expresses."""
    notes = [
        f"`{name}`: elasticity that is the scene's for small strains only; for large ones each engine has its own law."
    ]
    if body.relaxation or body.hysteresis:
        notes.append(f"`{name}`: elasticity that relaxes, or its hysteresis; the model has what lasts.")
    if isinstance(body, Cloth) and body.plasticity is not None:
        notes.append(f"`{name}`: folds that yield at {body.plasticity.yield_moment:g} N; the model is elastic.")
    said = {
        "an activation of {:g}": body.activation,
        "rest lengths of {:g} times those of the model": (body.rest_length_factor or 1.0) - 1.0
        and body.rest_length_factor,
        "{:g} groups of anchors": len(body.anchors),
        "{:g} motions of vertices; in the model they are fixed at their start": len(body.motion),
    }
    return notes + [f"`{name}`: {words.format(value)}." for words, value in said.items() if value]


def _unsaid(name: str, body: Solid) -> list[str]:
    """The same of a solid."""
    notes = _common(name, body)
    if body.elements == "quadratic":
        notes.append(
            f"`{name}`: its elements are quadratic in the scene and linear in the model, which are too stiff in bending."
        )
    for label, region in body.regions.items():
        stated = ", ".join(f"{key} {value:g}" for key, value in _differing(region).items())
        notes.append(
            f"`{name}`: its region `{label}` in the box {region.box} has {stated}; masses count it, elasticity does not."
        )
    return notes


def _differing(region: SolidRegion) -> dict[str, float]:
    return {key: value for key in ("density", *NUMBERS, "damping") if (value := getattr(region, key)) is not None}
