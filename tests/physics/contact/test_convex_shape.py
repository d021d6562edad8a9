"""Cores of convex bodies: shapes, edges and faces."""

import numpy as np
import pytest
from scipy.spatial import ConvexHull
from tolerances import ROUNDING, SOLVED, ULPS, assert_near, near

from gradsim.errors import InputError
from gradsim.geometry import mesh as meshes
from gradsim.physics.contact.convex_shape import SKIN, hull_core, make_core
from gradsim.scene.shape import Shape


def test_the_core_of_a_box_is_a_smaller_box():
    """Half edges less the skin, which is that share of the smallest; 12 edges, 6 faces."""
    core = hull_core(meshes.box([0.2, 0.4, 0.6]).vertices)
    skin = SKIN * 0.1
    assert core.radius == near(skin, ULPS)
    assert_near(
        np.sort(np.unique(core.corners.round(12), axis=0)[-1]), np.array([0.1, 0.2, 0.3]) - skin, ULPS, scale=1.0
    )
    assert (len(core.corners), len(core.ends), len(core.normals)) == (8, 12, 6)
    middle = core.corners[core.ends].mean(1)
    assert_near(np.linalg.norm(core.outward, axis=1), np.sqrt(0.5), ULPS, scale=1.0)
    assert (np.einsum("ij,ij->i", middle, core.outward) > 0).all()


@pytest.mark.parametrize("shape", [meshes.cylinder(0.3, 0.8, 12), meshes.cone(0.3, 0.8, 9), meshes.sphere(0.5, 1)])
def test_a_core_and_its_skin_end_at_the_faces_of_the_hull(shape):
    """Euler's formula holds, every corner is a skin below some three planes, and none is nearer to any."""
    core = hull_core(shape.vertices)
    assert len(core.corners) - len(core.ends) + len(core.normals) == 2
    hull = ConvexHull(shape.vertices).equations
    depth = -(core.corners @ hull[:, :3].T + hull[:, 3])
    assert depth.min() == near(core.radius, SOLVED)
    assert (np.sort(np.abs(depth - core.radius), 1)[:, :3] < 1e-9).all()
    assert_near((core.corners @ core.normals.T).max(0), core.levels, ROUNDING, scale=1.0)


def test_a_solid_that_is_not_convex_is_refused_unless_its_hull_is_asked_for():
    torus, shape = meshes.torus(0.3, 0.1), Shape.model_validate({"torus": {"radius": 0.3, "tube_radius": 0.1}})
    with pytest.raises(InputError, match="`ring` is not convex.*`collision: hull`"):
        make_core(shape, torus, np.zeros(3), False, "ring")
    assert len(make_core(shape, torus, np.zeros(3), True, "ring").normals) > 32
