"""Geometry of rigid bodies: one object for bodies alike."""

import numpy as np
import pytest
import torch

from gradsim import Model, Scene
from gradsim.errors import InputError
from gradsim.geometry import mesh as meshes
from gradsim.physics.rigid.many.shape import shape_of

BOX = {"box": {"size": [0.2, 0.3, 0.4]}}
TO = {"dtype": torch.float64, "device": torch.device("cpu")}


def bodies(**more) -> dict:
    scene = Scene.parse({"bodies": {"a": {"shape": BOX, "mass": 1}, "b": {"shape": BOX, "mass": 2, **more}}})
    return {system.name: system for system in Model(scene).systems}


def test_bodies_alike_have_one_geometry():
    alike = bodies()
    assert alike["a"].shape is alike["b"].shape


@pytest.mark.parametrize("more", [{"centre_of_mass": [0.01, 0, 0]}, {"collision": "none"}, {"collision": "hull"}])
def test_bodies_that_differ_have_their_own(more):
    unlike = bodies(**more)
    assert unlike["a"].shape is not unlike["b"].shape
    assert len(unlike["a"].points) == 8 and torch.equal(unlike["a"].rest, bodies()["a"].rest)


def test_the_inertia_of_a_box_is_that_of_the_formula():
    x, y, z = 0.2, 0.3, 0.4
    expected = torch.diag(torch.tensor([y * y + z * z, x * x + z * z, x * x + y * y], dtype=torch.float64)) / 12
    torch.testing.assert_close(bodies()["a"].inertia_per_mass, expected, rtol=1e-14, atol=1e-16)


def test_a_mesh_that_bounds_no_solid_is_refused_by_each_body_of_it():
    solid = meshes.box((1.0, 1.0, 1.0))
    open_box = meshes.Mesh(solid.vertices, np.delete(solid.faces, 0, 0))
    node = Scene.parse({"bodies": {"a": {"shape": BOX, "mass": 1}}}).bodies["a"]
    for name in ("bodies.a.shape", "bodies.b.shape"):
        with pytest.raises(InputError, match=name):
            shape_of(node, open_box, name, TO)


def test_geometry_made_in_inference_mode_can_be_differentiated_later():
    scene = Scene.parse({"bodies": {"a": {"shape": {"box": {"size": [0.21, 0.3, 0.4]}}, "mass": 1}}})
    with torch.inference_mode():
        Model(scene)
    model = Model(scene)
    scale = torch.ones(1).double().requires_grad_()
    vertices = model.rollout({"a.scale": scale}, frames=1).surface.vertices
    (slope,) = torch.autograd.grad(vertices.abs().sum(), scale)
    assert slope > 0
