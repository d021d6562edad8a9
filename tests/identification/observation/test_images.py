"""Textured pictures as an observation, for few unknowns and for whole arrays."""

import numpy as np
import pytest
import torch
from tolerances import ROUNDING, assert_near

from gradsim.errors import InputError
from gradsim.geometry import image_io
from gradsim.identification.api import least_squares
from gradsim.identification.fields.api import identify_fields
from gradsim.identification.fields.fields import Field, FieldSpace
from gradsim.identification.fields.problem import FieldProblem
from gradsim.identification.observation.base import normal_equations
from gradsim.identification.observation.images import MAX_DIFFERENCED_UNKNOWNS, Images
from gradsim.identification.observation.multi_view import MultiView
from gradsim.identification.observation.optical_flow import central_difference
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.physics.model import Model
from gradsim.render.renderer import Renderer
from gradsim.scene import Scene

VELOCITY = Field("beam.vertex_velocity", scale=0.5)
CAMERAS = ("camera", "back")


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """A pinned beam with a texture of broad waves, from two sides, 5 frames of 32 × 24 pixels."""
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 48), np.linspace(0, 2 * np.pi, 48))
    waves = [0.5 + 0.4 * np.sin(2 * u + k) * np.cos(2 * v - k) for k in range(3)]
    path = tmp_path_factory.mktemp("texture") / "waves.png"
    image_io.write(path, np.stack(waves))
    view = lambda *eye: {"size": [32, 24], "look_at": {"eye": list(eye), "target": [0.0, 0, 0.08], "fov": 0.36}}
    body = {
        "kind": "solid",
        "shape": {"box": {"size": [0.3, 0.12, 0.1], "cells": [2, 1, 1]}},
        "density": 900,
        "young": 4000,
        "poisson": 0.3,
        "damping": 1.0,
        "position": [0, 0, 0.1],
        "rotation_vector": [0.3, 0.2, 0.1],
        "velocity": [0.1, 0.2, 0.3],
        "pinned": ["-x"],
        "material": {"texture": str(path)},
    }
    timing = {"fps": 50, "frames": 5, "substeps": 20}
    cameras = {"camera": view(0.2, -1, 0.3), "cameras": {"back": view(-0.1, 0.9, -0.3)}}
    return Scene.parse({"gravity": 9.81, "timing": timing, "bodies": {"beam": body}, **cameras})


@pytest.fixture(scope="module")
def model(scene):
    return Model(scene)


def recorded(scene, trajectory, **options):
    """What two cameras see of it, in double precision."""
    parts = {}
    for name in CAMERAS:
        renderer = Renderer.of(scene, camera=name)
        with torch.no_grad():
            parts[name] = Images(renderer(trajectory.scene_surface, trajectory.values)[0], 1 / 255, renderer, **options)
    return MultiView(parts)


def test_slopes_of_images_are_those_of_their_adjoint(scene, model):
    space = FieldSpace(model, [VELOCITY])
    problem = FieldProblem(model, recorded(scene, model.rollout(), loss="gaussian"), space)
    generator = torch.manual_seed(0)
    u = space.start() + 0.2 * torch.randn(len(space), generator=generator, dtype=torch.float64)
    here = problem.at(u, 5)
    for _ in range(3):
        v = torch.randn(len(u), generator=generator, dtype=torch.float64)
        w = torch.randn(len(here.r), generator=generator, dtype=torch.float64)
        slope = here.jvp(v)
        # 1e-2: the renderer's own gradient is that of areas along edges, not of single pixels
        assert abs(slope @ w - v @ here.vjp(w)) < 1e-2 * slope.norm() * w.norm() / len(w) ** 0.5


def test_the_flow_has_the_cost_and_gradient_of_central_differences_and_nearly_their_information(scene, model):
    space = FieldSpace(model, [VELOCITY])
    generator = torch.manual_seed(1)
    u = space.start() + 0.02 * torch.randn(len(space), generator=generator, dtype=torch.float64)
    for views in (recorded(scene, model.rollout(), loss=loss) for loss in ("gaussian", "huber")):
        seen, problem = views.parts["camera"], FieldProblem(model, views, space)
        s = problem.sensitivity(u[None], 5)
        assert s.unknowns >= MAX_DIFFERENCED_UNKNOWNS
        cost, g, A = normal_equations(seen._linear(s, 5, "pixels"), seen.loss)
        found = seen.normal(s, 5, "pixels")
        assert_near(found[0], cost, ROUNDING)
        assert (found[1] - g).norm() < 1e-2 * g.norm()  # as the slopes above
        ratio = torch.linalg.eigvals(torch.linalg.solve(A[0], found[2][0])).real
        assert 0.5 < ratio.min() and ratio.max() < 2 and abs(ratio.median() - 1) < 0.02


@pytest.mark.slow
def test_the_velocity_of_every_vertex_is_found_from_pixels(scene, model):
    space = FieldSpace(model, [VELOCITY])
    noise = torch.randn(len(space), generator=torch.manual_seed(2), dtype=torch.float64)
    truth = {k: v[0].numpy() for k, v in space.values((space.start() + 0.2 * noise)[None]).items()}
    with torch.no_grad():
        seen = recorded(scene, model.rollout({k: torch.tensor(v)[None] for k, v in truth.items()}))
    fit = identify_fields(scene, [VELOCITY], seen, model=model).against(truth)
    assert fit.rank > 18 and fit.errors.worst < 1e-6  # without noise, beyond that rank too


def test_a_number_is_found_from_pixels(scene):
    unknowns = ["beam.young:2000:9000", "beam.velocity.x:0:1"]
    with torch.no_grad():
        seen = recorded(scene, Model(scene).rollout())
    fit = least_squares(scene, seen, unknowns, MultistartConfig(starts=2), 1).against(
        {"beam.young": 4000, "beam.velocity.x": 0.1}
    )
    assert fit.status == "ok"
    assert max(abs(e.value / e.truth - 1) for e in fit.unknowns.values()) < 1e-6


def test_jumps_of_pixels_are_no_slopes():
    x, h = torch.tensor([0.3, 0.3, 0.3], dtype=torch.float64), 1e-4
    jump = torch.tensor([0.0, 0.3 + h / 2, 0.3 - h / 2], dtype=torch.float64)  # before, within a step ahead, behind
    at = lambda x: x.sin() + (x > jump)
    torch.testing.assert_close(central_difference(at(x - h), at(x), at(x + h), h), x.cos(), rtol=0, atol=h)


def test_images_of_another_size_are_refused(scene):
    with pytest.raises(InputError, match=r"needs \(frames, 3, 24, 32\)"):
        Images(torch.zeros(5, 3, 32, 24), 1 / 255, Renderer.of(scene))
