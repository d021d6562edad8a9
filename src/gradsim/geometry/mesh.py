"""Closed triangle meshes: primitives, checks, and the mass properties of the solid inside.

For a solid of density ρ whose faces (a, b, c) are seen counter-clockwise from outside, with d = a·(b × c):

    m = ρ Σ d/6,   m c = ρ Σ d (a + b + c)/24,   C = ρ Σ d/120 [(a + b + c)(a + b + c)ᵀ + a aᵀ + b bᵀ + c cᵀ]
    I = tr(C') 1 − C',   C' = C − m c cᵀ

are exact: each face spans a tetrahedron with the origin, signed by its orientation (Tonon 2004).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gradsim.errors import InputError
from gradsim.geometry import uv as unwrap

if TYPE_CHECKING:
    from torch import Tensor

PLANE_TOLERANCE = 1e-9  # of the size: distance that a vertex of a convex solid may lie outside the plane of a face
COLUMNS = (  # arrays of a mesh
    ("vertices", 3, np.float64),
    ("faces", 3, np.int64),
    ("uv", 2, np.float64),
    ("uv_faces", 3, np.int64),
    ("vertex_colors", 3, np.float64),
)
CREASE = math.radians(40)  # sharper edges stay visible; an icosahedron has 41.8°
BLOCK = 2**18  # vertex-to-plane distances computed at once: 2 MB, which stay in the cache


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangle mesh: closed around a solid, or open (`gradsim.geometry.sheet`).

    Attributes:
        vertices: (n, 3) float64 [m], read-only.
        faces: (m, 3) int64, counter-clockwise seen from outside or, on a sheet, from its upper side, read-only.
        uv: Texture coordinates (k, 2): u to the right, v up. None if absent, as all fields below.
        uv_faces: Rows (m, 3) of `uv` at the corners of each face.
        vertex_colors: (n, 3) in [0, 1].
        texture: Image (3, h, w) in [0, 1], row 0 on top.
    """

    vertices: np.ndarray
    faces: np.ndarray
    uv: np.ndarray | None = None
    uv_faces: np.ndarray | None = None
    vertex_colors: np.ndarray | None = None
    texture: np.ndarray | None = None

    def __post_init__(self):
        for name, width, dtype in COLUMNS:
            if getattr(self, name) is None:
                continue
            array = np.array(getattr(self, name), dtype)
            if array.ndim != 2 or array.shape[1] != width:
                raise InputError(f"mesh {name} have shape {array.shape}; expected (n, {width}).")
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @cached_property
    def size(self) -> float:
        """Diagonal of the bounding box [m]."""
        return float(np.linalg.norm(np.ptp(self.vertices, 0))) if len(self.vertices) else 0.0

    @cached_property
    def volume(self) -> float:
        """Volume [m³]; negative if the mesh is inside out."""
        a, b, c = np.moveaxis((self.vertices - self.vertices.mean(0))[self.faces], 1, 0)
        return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)

    @cached_property
    def solid(self) -> "MassProperties":
        """Volume, centre and inertia of the solid inside: its mass properties for the density 1, in float64."""
        import torch

        return mass_properties(torch.tensor(self.vertices), torch.tensor(self.faces), torch.tensor(1.0).double())

    @cached_property
    def smooth(self) -> bool:
        """True if the normals turn by at most `CREASE` across every edge."""
        a, b, c = np.moveaxis(self.vertices[self.faces], 1, 0)
        normals = np.cross(b - a, c - a)
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
        edges = np.sort(self.faces[:, [[0, 1], [1, 2], [2, 0]]], 2).reshape(-1, 2)
        order = np.lexsort(edges.T)
        inner = np.flatnonzero((edges[order[1:]] == edges[order[:-1]]).all(1))  # all edges of a solid have two faces
        pairs = np.stack([order[inner], order[inner + 1]], 1) // 3
        return bool((np.einsum("ei,ei->e", *normals[pairs].swapaxes(0, 1)) >= math.cos(CREASE)).all())

    @cached_property
    def convex(self) -> bool:
        """True if no vertex lies outside the plane of any face, to 1e-9 of the size."""
        vertices = self.vertices - self.vertices.mean(0)
        a, b, c = np.moveaxis(vertices[self.faces], 1, 0)
        normals = np.cross(b - a, c - a)
        area = np.linalg.norm(normals, axis=1)
        solid = area > 0
        if not solid.any():
            return False
        normals = normals[solid] / area[solid, None]
        level = np.einsum("ij,ij->i", normals, a[solid]) + PLANE_TOLERANCE * self.size
        step = max(1, BLOCK // len(vertices))
        blocks = (slice(k, k + step) for k in range(0, len(normals), step))
        return all(((normals[s] @ vertices.T).max(1) <= level[s]).all() for s in blocks)


class MassProperties(NamedTuple):
    """Mass, center of mass and inertia of a solid of constant density.

    Attributes:
        mass: (...) [kg].
        centre: Centre of mass (..., 3) [m].
        inertia: About the centre of mass, along the axes of the mesh (..., 3, 3) [kg m²].
    """

    mass: "Tensor"
    centre: "Tensor"
    inertia: "Tensor"


def mass_properties(vertices: "Tensor", faces: "Tensor", density: "Tensor") -> MassProperties:
    """Mass, centre of mass and inertia of the solid inside a closed mesh; exact, differentiable to any order.

    Args:
        vertices: (..., n, 3) [m].
        faces: (m, 3), counter-clockwise seen from outside.
        density: (...) [kg/m³]; broadcasts against the first dimensions of `vertices`.
    """
    import torch

    origin = vertices.mean(-2, keepdim=True)  # no cancellation where the mesh is far from the origin
    a, b, c = (vertices - origin)[..., faces, :].unbind(-2)
    d = (a * torch.linalg.cross(b, c)).sum(-1)
    total = a + b + c
    mass = density * d.sum(-1) / 6
    offset = (d[..., None] * total).sum(-2) / (4 * d.sum(-1))[..., None]
    second = sum(torch.einsum("...f,...fi,...fj->...ij", d, e, e) for e in (total, a, b, c)) / 120
    spread = density[..., None, None] * second - mass[..., None, None] * offset[..., :, None] * offset[..., None, :]
    trace = spread.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    inertia = trace * torch.eye(3, dtype=vertices.dtype, device=vertices.device) - spread
    centre = origin[..., 0, :] + offset
    return MassProperties(mass, centre.expand(*mass.shape, 3), inertia)


def check(mesh: Mesh, name: str) -> None:
    """Check that a mesh bounds a solid.

    Args:
        mesh: The mesh.
        name: Name for error messages, such as "bodies.cube.shape".

    Raises:
        InputError: If it has no faces, numbers that are not finite, vertices without a face, faces without an area,
            holes, edges with more than two faces, neighbours that face opposite ways, or is inside out.
    """
    vertices, faces = mesh.vertices, mesh.faces
    if not len(faces):
        raise InputError(f"{name} has no faces; give a closed triangle mesh.")
    bad = ~np.isfinite(vertices).all(1)
    if bad.any():
        first = int(bad.argmax())
        raise InputError(
            f"{name} has {bad.sum()} vertices that are not finite, the first is vertex {first}: "
            f"{vertices[first].tolist()}; export the mesh again."
        )
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise InputError(f"{name} has faces that name vertex {faces.max()} of {len(vertices)}; the file is cut off.")
    loose = np.setdiff1d(np.arange(len(vertices)), faces)
    if len(loose):
        raise InputError(
            f"{name} has {len(loose)} vertices that belong to no face, the first is {loose[0]}; drop them."
        )
    _check_closed(mesh, name)
    if mesh.volume <= 1e-12 * mesh.size**3:
        if mesh.volume < -1e-12 * mesh.size**3:
            raise InputError(
                f"{name} is inside out: its faces point inwards (volume {mesh.volume:.4g} m³); reverse the order of "
                "the vertices in every face (in trimesh: mesh.invert())."
            )
        raise InputError(f"{name} has no volume ({mesh.volume:.4g} m³); give a solid, not a sheet.")


def _check_closed(mesh: Mesh, name: str) -> None:
    """Check that every edge belongs to two faces with opposite directions."""
    pairs = np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]])
    same = pairs[:, 0] == pairs[:, 1]
    if same.any():
        raise InputError(f"{name} has {same.sum()} faces that name a vertex twice; remove degenerate faces.")
    edges, where, count = np.unique(np.sort(pairs, 1), axis=0, return_inverse=True, return_counts=True)
    for wrong, what, mend in (
        (count < 2, "is not watertight: {} of its edges have one face only", "close the holes"),
        (count > 2, "is not a manifold: {} of its edges have more than two faces", "remove doubled or inner faces"),
    ):
        if wrong.any():
            raise InputError(
                f"{name} {what.format(wrong.sum())}, the first from {_edge(mesh, edges[wrong.argmax()])}; {mend} "
                "(in Blender: 3D-Print Toolbox, Make Manifold)."
            )
    forward = np.bincount(where.ravel(), pairs[:, 0] < pairs[:, 1], len(edges))
    twisted = forward != 1
    if twisted.any():
        raise InputError(
            f"{name} has neighbouring faces that point opposite ways at {twisted.sum()} edges, the first from "
            f"{_edge(mesh, edges[twisted.argmax()])}; make the normals consistent (in trimesh: mesh.fix_normals())."
        )


def _edge(mesh: Mesh, ends: np.ndarray) -> str:
    return " to ".join(str(tuple(mesh.vertices[v].round(6).tolist())) for v in ends)


def joined(parts: Sequence[Mesh]) -> Mesh:
    """Concatenate meshes; uv are kept if all meshes have them."""
    first = np.cumsum([0, *(len(part.vertices) for part in parts)])
    faces = np.concatenate([part.faces + start for part, start in zip(parts, first, strict=False)])
    uv = [part.uv for part in parts if part.uv is not None]
    first = np.cumsum([0, *map(len, uv)])
    rows = [part.uv_faces for part in parts if part.uv_faces is not None]
    rows = [r + start for r, start in zip(rows, first, strict=False)]
    vertices = np.concatenate([part.vertices for part in parts])
    whole = len(uv) == len(parts)
    return Mesh(vertices, faces, np.concatenate(uv) if whole else None, np.concatenate(rows) if whole else None)


def box(size: Sequence[float]) -> Mesh:
    """A box of edge lengths `size` [m] along x, y and z. Its centre is the origin, as of all primitives here."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) / 2
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    faces = _fans(quads)
    return Mesh(corners * _lengths(size=size), faces, *unwrap.box(corners, faces))


def sphere(radius: float, subdivisions: int = 3) -> Mesh:
    """A sphere as 20 · 4^subdivisions triangles: a subdivided icosahedron with its vertices at `radius` [m]."""
    unit = _unit_sphere(subdivisions)
    return Mesh(unit.vertices * _lengths(radius=radius), unit.faces, unit.uv, unit.uv_faces)


@cache
def _unit_sphere(subdivisions: int) -> Mesh:
    golden = (1 + math.sqrt(5)) / 2
    signs = [(s, t * golden) for s in (-1, 1) for t in (-1, 1)]
    vertices = np.array([np.roll((0, s, t), k) for k in range(3) for s, t in signs])
    faces = _hull_of_icosahedron(vertices)
    for _ in range(subdivisions):
        edges, where = np.unique(
            np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), 1), axis=0, return_inverse=True
        )
        middle = len(vertices) + where.reshape(-1, 3)
        vertices = np.concatenate([vertices, vertices[edges].sum(1)])
        vertices /= np.linalg.norm(vertices, axis=1, keepdims=True)
        (a, b, c), (ab, bc, ca) = faces.T, middle.T
        faces = np.concatenate([np.stack(f, 1) for f in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))])
    vertices = vertices / np.linalg.norm(vertices, axis=1, keepdims=True)
    return Mesh(vertices, faces, *unwrap.sphere(vertices, faces))


def _hull_of_icosahedron(vertices: np.ndarray) -> np.ndarray:
    """Its faces: all triples of neighbours, turned outwards."""
    near = np.abs(np.linalg.norm(vertices[:, None] - vertices, axis=-1) - 2) < 1e-9
    triples = [
        (i, j, k) for i in range(12) for j in range(i) for k in range(j) if near[i, j] and near[j, k] and near[i, k]
    ]
    outwards = [np.linalg.det(vertices[list(t)]) > 0 for t in triples]
    return np.array([t if out else t[::-1] for t, out in zip(triples, outwards, strict=True)])


def cylinder(radius: float, height: float, segments: int = 32) -> Mesh:
    """A prism over a regular polygon with its corners at `radius` [m]; its axis is z, `height` [m] long."""
    _lengths(radius=radius, height=height)
    return _lathe([(radius, -height / 2), (radius, height / 2)], segments)


def cone(radius: float, height: float, segments: int = 32) -> Mesh:
    """A pyramid over a regular polygon; the base at z = −height/4, the apex at 3/4 height, the axis z."""
    _lengths(radius=radius, height=height)
    return _lathe([(radius, -height / 4), (0.0, 3 * height / 4)], segments)


def capsule(radius: float, height: float, segments: int = 32, rings: int = 8) -> Mesh:
    """A cylinder along z between two half balls, each of `rings` rings; `height` [m] is that of the cylinder."""
    _lengths(radius=radius, height=height)
    angles = np.linspace(0, np.pi / 2, rings + 1)
    upper = [(radius * math.cos(t), height / 2 + radius * math.sin(t)) for t in angles[:-1]] + [
        (0.0, height / 2 + radius)
    ]
    return _lathe([(r, -z) for r, z in reversed(upper)] + upper, segments)


def torus(radius: float, tube_radius: float, segments: int = 32, tube_segments: int = 16) -> Mesh:
    """A ring around z; `radius` [m] is that of its middle line, which lies in z = 0."""
    _lengths(radius=radius, tube_radius=tube_radius)
    if tube_radius >= radius:
        raise InputError(f"tube_radius {tube_radius} m is not below radius {radius} m; the ring would cut itself.")
    turns = 2 * np.pi * np.arange(segments) / segments
    angles = 2 * np.pi * np.arange(tube_segments) / tube_segments
    out, up = radius + tube_radius * np.cos(angles), tube_radius * np.sin(angles)
    vertices = np.stack(
        [np.outer(np.cos(turns), out), np.outer(np.sin(turns), out), np.broadcast_to(up, (segments, tube_segments))], -1
    )
    index = np.arange(segments * tube_segments).reshape(segments, tube_segments)
    right, above = np.roll(index, -1, 0), np.roll(index, -1, 1)
    quads = np.stack([index, right, np.roll(right, -1, 1), above], -1).reshape(-1, 4)
    vertices, faces = vertices.reshape(-1, 3), _fans(quads)
    return Mesh(vertices, faces, *unwrap.torus(vertices, faces, radius))


def tetrahedron(vertices: Sequence[Sequence[float]]) -> Mesh:
    """From its four corners [m], in any order and place."""
    corners = np.array(vertices, np.float64)
    if corners.shape != (4, 3):
        raise InputError(f"tetrahedron vertices have shape {corners.shape}; expected 4 corners with 3 coordinates.")
    faces = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])
    faces = faces if np.linalg.det(corners[1:] - corners[0]) > 0 else faces[:, ::-1]
    return Mesh(corners, faces, *unwrap.tiled(faces))


def _lathe(profile: list[tuple[float, float]], segments: int) -> Mesh:
    """A profile of (radius, z), from below to above, turned around z; an end of radius 0 is a point, else a lid."""
    if segments < 3:
        raise InputError(f"segments = {segments}; a solid of revolution needs at least 3.")
    turns = 2 * np.pi * np.arange(segments) / segments
    vertices, rows = [], []
    for radius, z in profile:
        count = segments if radius > 0 else 1
        rows.append(np.arange(count) + len(vertices))
        vertices += [(radius * math.cos(t), radius * math.sin(t), z) for t in turns[:count]]
    polygons = []
    for low, high in itertools.pairwise(rows):
        for k in range(segments):
            i, j = k, (k + 1) % segments
            corners = (low[i % len(low)], low[j % len(low)], high[j % len(high)], high[i % len(high)])
            polygons.append(list(dict.fromkeys(corners)))
    if len(rows[0]) > 1:
        polygons.append(rows[0][::-1])
    if len(rows[-1]) > 1:
        polygons.append(rows[-1])
    lengths = [math.dist(p, q) for p, q in itertools.pairwise(profile)]
    along = np.repeat(np.cumsum([0.0, *lengths]) / sum(lengths), [len(row) for row in rows])
    vertices, faces = np.array(vertices), _fans(polygons)
    return Mesh(vertices, faces, *unwrap.lathe(vertices, faces, along))


def _fans(polygons) -> np.ndarray:
    """Triangles of convex polygons, from the first corner of each."""
    return np.array([(p[0], p[k], p[k + 1]) for p in polygons for k in range(1, len(p) - 1)])


def _lengths(**lengths) -> np.ndarray:
    """The one length or vector of lengths; raises if one is not above 0."""
    for name, value in lengths.items():
        array = np.asarray(value, np.float64)
        if not (np.isfinite(array).all() and (array > 0).all()):
            raise InputError(f"{name} is {value}; expected lengths above 0 [m].")
    return np.asarray(next(iter(lengths.values())), np.float64)
