"""Mass properties against closed forms of the faceted solids (A12), convexity, and what no solid is."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
import trimesh
from scipy.spatial import ConvexHull
from tolerances import ULPS, assert_near, near

from gradsim.errors import InputError
from gradsim.geometry import mesh as meshes
from gradsim.geometry.mesh import Mesh

DENSITY = 3.7
ROUND = 1e-12  # relative: sums of some thousand terms in double precision


def polygon(radius, n):
    """Area and polar second moment over area of a regular polygon."""
    return n / 2 * radius**2 * math.sin(2 * math.pi / n), radius**2 / 6 * (2 + math.cos(2 * math.pi / n))


def box_properties(a, b, c):
    return a * b * c, np.array([b * b + c * c, a * a + c * c, a * a + b * b]) / 12


def prism_properties(radius, height, n):
    area, polar = polygon(radius, n)
    side = polar / 2 + height**2 / 12
    return area * height, np.array([side, side, polar])


def pyramid_properties(radius, height, n):
    area, polar = polygon(radius, n)
    side = 0.3 * polar + 3 / 80 * height**2
    return area * height / 3, np.array([side, side, 0.6 * polar])


def sphere_properties(radius, subdivisions):
    """From the tetrahedra (0, a, b, c) on the unit sphere: 6 V = √det G, ∫r² = V/10 (ΣG_ij + 3)/2, G = cosines.

    An icosahedron has cosines 1/√5. Halved, each of its faces becomes the face of an icosidodecahedron (cosines
    cos 36°) and three triangles with two edges of half its angle.
    """
    long = 1 / math.sqrt(5)
    half, middle = math.sqrt((1 + long) / 2), math.cos(math.pi / 5)
    faces = {0: [(20, long, long, long)], 1: [(20, middle, middle, middle), (60, half, half, middle)]}[subdivisions]
    volume = moment = 0.0
    for count, x, y, z in faces:
        part = count / 6 * math.sqrt(1 + 2 * x * y * z - x * x - y * y - z * z)
        volume, moment = volume + part, moment + part / 10 * (3 + x + y + z)
    return volume * radius**3, np.full(3, 2 / 3 * moment / volume * radius**2)


SOLIDS = {  # mesh about its centre of mass, volume, principal moments per mass
    "box": (meshes.box([0.6, 0.48, 0.36]), *box_properties(0.6, 0.48, 0.36)),
    "icosahedron": (meshes.sphere(0.7, 0), *sphere_properties(0.7, 0)),
    "sphere": (meshes.sphere(0.7, 1), *sphere_properties(0.7, 1)),
    "prism": (meshes.cylinder(0.3, 1.1, 5), *prism_properties(0.3, 1.1, 5)),
    "cylinder": (meshes.cylinder(0.3, 0.2, 32), *prism_properties(0.3, 0.2, 32)),
    "pyramid": (meshes.cone(0.3, 1.1, 4), *pyramid_properties(0.3, 1.1, 4)),
    "cone": (meshes.cone(0.3, 0.5, 32), *pyramid_properties(0.3, 0.5, 32)),
}
CORNERS = [[0.1, 0.2, -0.3], [1.0, 0.1, 0.2], [0.3, 0.9, 0.1], [0.2, 0.4, 1.3]]


@pytest.fixture(params=SOLIDS)
def solid(request):
    """A solid, turned and moved: vertices, faces, volume, centre and inertia per mass."""
    mesh, volume, moments = SOLIDS[request.param]
    rng = np.random.default_rng(3)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    turn *= np.linalg.det(turn)
    centre = rng.normal(size=3)
    vertices = torch.tensor(mesh.vertices @ turn.T + centre)
    inertia = torch.tensor(turn @ np.diag(moments) @ turn.T)
    return vertices, torch.tensor(mesh.faces), volume, torch.tensor(centre), inertia


def number(value):
    return torch.tensor(value, dtype=torch.float64)


def close(actual, expected, scale=None):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual, expected, rtol=0, atol=ROUND * float(scale or expected.abs().max()))


def test_mass_centre_and_inertia_are_those_of_the_faceted_solid(solid):
    vertices, faces, volume, centre, inertia = solid
    found = meshes.mass_properties(vertices, faces, number(DENSITY))
    close(found.mass, DENSITY * volume)
    close(found.centre, centre)
    close(found.inertia, DENSITY * volume * inertia)


def test_mass_properties_of_a_tetrahedron_are_those_of_its_corners():
    corners = torch.tensor(CORNERS, dtype=torch.float64)
    mesh = meshes.tetrahedron(CORNERS)
    found = meshes.mass_properties(corners, torch.tensor(mesh.faces), number(DENSITY))
    mass = DENSITY * abs(np.linalg.det(np.subtract(CORNERS[1:], CORNERS[0]))) / 6
    arm = corners - corners.mean(0)
    spread = mass / 20 * arm.T @ arm
    close(found.mass, mass)
    close(found.centre, corners.mean(0))
    close(found.inertia, spread.trace() * torch.eye(3).double() - spread)


def test_derivatives_by_scale_and_density_are_those_of_the_powers(solid):
    """m = ρ s³ V, c = s c₁, I = ρ s⁵ I₁: with s = 1.3."""
    vertices, faces, volume, centre, inertia = solid
    scale, density = number(1.3), number(DENSITY)
    along = torch.func.jacfwd(lambda s, rho: meshes.mass_properties(s * vertices, faces, rho), argnums=(0, 1))
    by = along(scale, density)
    mass = DENSITY * volume * 1.3**3
    close(by.mass[0], 3 * mass / 1.3)
    close(by.mass[1], mass / DENSITY)
    close(by.centre[0], centre)
    close(by.centre[1], torch.zeros(3), scale=1)
    close(by.inertia[0], 5 * mass * 1.3 * inertia)
    close(by.inertia[1], mass * 1.3**2 * inertia / DENSITY)


def test_derivatives_by_pose_move_the_centre_and_turn_the_inertia(solid):
    """∂c/∂shift = 1 and ∂I/∂shift = 0; turning about axis k changes I by [e_k]× I − I [e_k]×."""
    vertices, faces, *_ = solid
    generators = torch.stack([torch.linalg.cross(e.expand(3, 3), torch.eye(3), dim=1).T for e in torch.eye(3)]).double()

    def moved(shift, turn):
        matrix = torch.matrix_exp(torch.einsum("k,kij->ij", turn, generators))
        return meshes.mass_properties(vertices @ matrix.T + shift, faces, number(DENSITY))

    still = torch.zeros(3, dtype=torch.float64)
    own, by = moved(still, still), torch.func.jacrev(moved, argnums=(0, 1))(still, still)
    size = float(own.inertia.abs().max())
    close(by.mass[0], torch.zeros(3), scale=own.mass)
    close(by.mass[1], torch.zeros(3), scale=own.mass)
    close(by.centre[0], torch.eye(3))
    close(by.inertia[0], torch.zeros(3, 3, 3), scale=size)
    turned = generators @ own.inertia - own.inertia @ generators
    close(by.inertia[1], turned.permute(1, 2, 0), scale=10 * size)


def test_mass_properties_have_derivatives_by_every_vertex():
    mesh = meshes.tetrahedron(CORNERS)
    vertices = torch.tensor(mesh.vertices).requires_grad_()
    density = number(DENSITY).requires_grad_()
    function = lambda x, rho: tuple(meshes.mass_properties(x, torch.tensor(mesh.faces), rho))
    torch.autograd.gradcheck(function, (vertices, density))
    torch.autograd.gradgradcheck(function, (vertices, density))


def test_a_batch_is_each_of_its_worlds():
    mesh = meshes.cone(0.3, 0.5, 7)
    vertices = torch.tensor(mesh.vertices) * torch.tensor([0.5, 1.0, 2.0]).double()[:, None, None] + 1
    density, faces = torch.tensor([1.0, 2.0, 3.0]).double(), torch.tensor(mesh.faces)
    batch = meshes.mass_properties(vertices, faces, density)
    for k in range(3):
        for whole, one in zip(batch, meshes.mass_properties(vertices[k], faces, density[k]), strict=True):
            assert_near(whole[k], one, ULPS)
    shared = meshes.mass_properties(vertices[0], faces, density)
    assert [x.shape for x in shared] == [(3,), (3, 3), (3, 3, 3)]


def test_digits_survive_far_from_the_origin():
    """At 1000 sizes away the coordinates themselves are good to 1e-13 of the size, which the sums must not square."""
    mesh, volume, moments = SOLIDS["box"]
    found = meshes.mass_properties(torch.tensor(mesh.vertices + 1000), torch.tensor(mesh.faces), number(1.0))
    torch.testing.assert_close(found.inertia.diagonal(), volume * torch.tensor(moments), rtol=1e-11, atol=0)


PRIMITIVES = {
    "box": meshes.box([1, 2, 3]),
    "sphere": meshes.sphere(2.0),
    "cylinder": meshes.cylinder(0.5, 2.0),
    "cone": meshes.cone(0.5, 2.0),
    "capsule": meshes.capsule(0.5, 1.0),
    "torus": meshes.torus(1.0, 0.3),
    "tetrahedron": meshes.tetrahedron(CORNERS),
}


@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitives_are_closed_solids_about_their_centre_of_mass(name):
    mesh = PRIMITIVES[name]
    meshes.check(mesh, name)
    if name != "tetrahedron":
        found = meshes.mass_properties(torch.tensor(mesh.vertices), torch.tensor(mesh.faces), number(1.0))
        close(found.centre, torch.zeros(3), scale=mesh.size)


@pytest.mark.parametrize(
    ("make", "volume"),
    [
        (lambda n: meshes.sphere(2.0, n), 32 / 3 * math.pi),
        (lambda n: meshes.cylinder(0.5, 2.0, 8 * 2**n), 0.5 * math.pi),
        (lambda n: meshes.cone(0.5, 2.0, 8 * 2**n), 0.5 / 3 * math.pi),
        (lambda n: meshes.capsule(0.5, 1.0, 8 * 2**n, 4 * 2**n), math.pi / 4 + math.pi / 6),
        (lambda n: meshes.torus(1.0, 0.3, 8 * 2**n, 8 * 2**n), 2 * math.pi**2 * 0.09),
    ],
)
def test_round_primitives_converge_to_their_solid_at_second_order(make, volume):
    errors = [volume - make(n).volume for n in range(4)]
    assert all(e > 0 for e in errors), "corners lie on the surface, so the faceted solid is inside"
    slopes = [math.log2(coarse / fine) for coarse, fine in pairwise(errors)]
    assert slopes[-1] == pytest.approx(2, abs=0.05)


def test_corners_of_round_primitives_lie_on_the_surface():
    assert np.linalg.norm(meshes.sphere(2.0).vertices, axis=1) == pytest.approx(2, rel=1e-15)
    x, y, z = PRIMITIVES["torus"].vertices.T
    assert (np.hypot(x, y) - 1) ** 2 + z**2 == near(0.09, ULPS)
    x, y, z = PRIMITIVES["capsule"].vertices.T
    assert np.hypot(np.hypot(x, y), np.maximum(abs(z) - 0.5, 0)) == pytest.approx(0.5, rel=1e-15)


@pytest.mark.parametrize("corners", [CORNERS, CORNERS[::-1], [CORNERS[k] for k in (1, 0, 2, 3)]])
def test_a_tetrahedron_faces_outwards_whatever_the_order_of_its_corners(corners):
    assert meshes.tetrahedron(corners).volume > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: meshes.box([1, 0, 1]),
        lambda: meshes.box([1, -1, 1]),
        lambda: meshes.sphere(math.nan),
        lambda: meshes.cylinder(1, 0),
        lambda: meshes.cone(1, math.inf),
        lambda: meshes.cylinder(1, 1, 2),
        lambda: meshes.torus(1, 1),
        lambda: meshes.tetrahedron([[0, 0, 0]]),
    ],
)
def test_primitives_without_a_solid_are_refused(make):
    with pytest.raises(InputError):
        make()


def moved(mesh, scale=1.0, shift=0.0, seed=0):
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    return Mesh(mesh.vertices @ (turn * np.linalg.det(turn)).T * scale + shift * scale, mesh.faces)


@pytest.mark.parametrize("name", PRIMITIVES)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_convexity_does_not_depend_on_pose_and_scale(name, scale, shift):
    assert moved(PRIMITIVES[name], scale, shift).convex == (name != "torus")


def test_hulls_of_random_points_are_convex():
    for seed in range(5):
        points = np.random.default_rng(seed).normal(size=(60, 3)) * [1, 1, 0.01]
        hull = trimesh.Trimesh(points, ConvexHull(points).simplices)
        hull.fix_normals()
        hull.remove_unreferenced_vertices()
        assert Mesh(hull.vertices, hull.faces).convex


@pytest.mark.parametrize(("depth", "convex"), [(1e-6, False), (1e-8, False), (1e-11, True), (-1e-8, True)])
def test_a_dent_of_a_millionth_is_seen_and_rounding_is_not(depth, convex):
    """The middle of a face of a unit box, moved inwards by `depth` of the size."""
    mesh = meshes.box([1, 1, 1])
    corners = np.flatnonzero(mesh.vertices[:, 2] > 0)
    ring = corners[np.argsort(np.arctan2(mesh.vertices[corners, 1], mesh.vertices[corners, 0]))]
    kept = [face for face in mesh.faces if not set(face) <= set(corners)]
    fan = [(8, ring[k], ring[(k + 1) % 4]) for k in range(4)]
    dented = Mesh(np.vstack([mesh.vertices, [0, 0, 0.5 - depth * mesh.size]]), np.array(kept + fan))
    meshes.check(dented, "dented box")
    assert dented.convex == convex


def test_two_convex_bodies_apart_or_nested_are_not_one():
    a, b = meshes.box([1, 1, 1]), meshes.box([0.2, 0.2, 0.2])
    for shift in (2.0, 0.0):
        both = Mesh(np.vstack([a.vertices, b.vertices + shift]), np.vstack([a.faces, b.faces + 8]))
        assert not both.convex


def test_an_inside_out_body_is_not_convex():
    mesh = meshes.box([1, 1, 1])
    assert not Mesh(mesh.vertices, mesh.faces[:, ::-1]).convex
    assert not Mesh(np.zeros((3, 3)), np.array([[0, 1, 2]])).convex


def test_meshes_keep_their_own_read_only_arrays():
    vertices = np.array(CORNERS)
    mesh = Mesh(vertices, np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]]))
    vertices[:] = 0
    assert mesh.volume != 0
    with pytest.raises(ValueError, match="read-only"):
        mesh.vertices[0] = 0
    with pytest.raises(InputError, match=r"vertices have shape \(4, 2\)"):
        Mesh(np.zeros((4, 2)), np.array([[0, 1, 2]]))


def broken(change):
    mesh = meshes.box([0.6, 0.48, 0.36])
    return Mesh(*change(mesh.vertices.copy(), mesh.faces.copy()))


BROKEN = {
    "has no faces": lambda v, f: (v, f[:0]),
    "vertices that are not finite, the first is vertex 3": lambda v, f: (
        np.where(np.arange(8)[:, None] == 3, np.nan, v),
        f,
    ),
    "name vertex 7 of 7": lambda v, f: (v[:7], f),
    "belong to no face, the first is 8": lambda v, f: (np.vstack([v, [1, 1, 1]]), f),
    "name a vertex twice": lambda v, f: (v, np.vstack([f, [0, 0, 1]])),
    "3 of its edges have one face only": lambda v, f: (v, f[1:]),
    "edges have more than two faces": lambda v, f: (v, np.vstack([f, f])),
    "point opposite ways at 3 edges": lambda v, f: (v, np.vstack([f[:1, ::-1], f[1:]])),
    "is inside out": lambda v, f: (v, f[:, ::-1]),
    "has no volume": lambda v, f: (v * [1, 1, 0], f),
}


@pytest.mark.parametrize("message", BROKEN)
def test_what_bounds_no_solid_is_refused_by_name(message):
    with pytest.raises(InputError) as error:
        meshes.check(broken(BROKEN[message]), "bodies.cube.shape")
    assert str(error.value).startswith("bodies.cube.shape ")
    assert message in str(error.value)
