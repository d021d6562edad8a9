"""Soft solids and sheets leave for MuJoCo as a flex, solids for USD as tetrahedra, with masses, elasticity, start and contact."""

import importlib
from typing import Any

import numpy as np
import pytest
import torch
from tolerances import ROUNDING, SINGLE, SOLVED, assert_near, near

from gradsim.physics.model import Model
from gradsim.scene import Scene, exporters
from gradsim.scene.exporters.build import twin_of

BOX = {"size": [0.4, 0.08, 0.08], "cells": [6, 2, 2]}
BEAM = {"kind": "solid", "shape": {"box": BOX}, "density": 1000, "young": 2e6, "poisson": 0.3, "damping": 50}
HELD = {**BEAM, "pinned": [{"box": [[-0.21, -1, -1], [-0.199, 1, 1]]}], "position": [0, 0, 1]}
BLOWS = [
    {"impulse": [0.3, 0.1, 0], "point": [0, 0.02, 0.03]},
    {"impulse": [0, 0, 1], "region": {"box": [[0, -1, -1], [1, 1, 1]]}},
]
THROWN = {
    **BEAM,
    "velocity": [1, 0, 0],
    "angular_velocity": [0, 2, 0],
    "rotation_vector": [0.3, 0.2, 0],
    "pushes": BLOWS,
}
GROUND = {"stiffness": 3e3, "damping": 5.0, "friction": 0.4, "friction_stiffness": 20.0, "law": "paper"}


@pytest.fixture(scope="module")
def mujoco() -> Any:
    module = pytest.importorskip("mujoco", reason='MuJoCo is not installed: pip install "gradsim[engines]"')
    module.set_mju_user_warning(lambda message: None)  # which would write MUJOCO_LOG.TXT where tests run
    return module


def scene_of(body: dict, ground: dict | None = None, frames: int = 31) -> Scene:
    content: dict = {"bodies": {"beam": body}, "timing": {"fps": 60, "frames": frames}}
    return Scene.parse(content | ({"ground": ground} if ground else {}))


def compiled(mujoco, scene: Scene, folder):
    """Model and data at the keyframe."""
    exported = exporters.export(scene, "mjcf", folder, timestep=Model(scene).dt)
    model = mujoco.MjModel.from_xml_path(str(exported.files[0]))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    return model, data


def compared(mujoco, scene: Scene, folder) -> tuple[np.ndarray, np.ndarray]:
    """Vertices of a beam or sheet in all frames, by gradsim and by MuJoCo."""
    with torch.no_grad():
        ours = Model(scene).rollout()["beam"]["x"][0].numpy()
    model, data = compiled(mujoco, scene, folder)
    theirs = []
    for _ in range(scene.timing.frames):
        theirs.append(data.flexvert_xpos.copy())
        for _ in range(round(1 / scene.timing.fps / model.opt.timestep)):
            mujoco.mj_step(model, data)
        mujoco.mj_forward(model, data)
    return ours, np.array(theirs)


@pytest.mark.parametrize("moduli", [{}, {"young": None, "poisson": None, "mu": 1e6, "lam": 2e6}])
def test_a_beam_swings_in_mujoco_as_in_the_scene(mujoco, tmp_path, moduli):
    body = {key: value for key, value in {**HELD, **moduli}.items() if value is not None}
    scene = scene_of(body)
    ours, theirs = compared(mujoco, scene, tmp_path)
    swing = np.ptp(ours[:, :, 2], axis=0).max()
    assert swing > 0.02
    assert np.abs(theirs - ours).max() < 0.01 * swing  # the laws differ in second order of the strain


def test_masses_and_the_start_with_its_impulses_are_those_of_the_scene(mujoco, tmp_path):
    scene = scene_of(THROWN)
    with torch.no_grad():
        start = Model(scene).rollout()["beam"]
    model, data = compiled(mujoco, scene, tmp_path)
    assert_near(data.flexvert_xpos, start["x"][0, 0], SOLVED)
    assert_near(data.qvel.reshape(-1, 3), start["v"][0, 0], SOLVED)
    assert model.body_mass.sum() == near(1000 * 0.4 * 0.08**2, ROUNDING)


def test_each_vertex_meets_the_ground_with_the_spring_and_damper_of_the_scene(mujoco, tmp_path):
    model, data = compiled(mujoco, scene_of({**BEAM, "position": [0, 0, 0.05]}, GROUND), tmp_path)
    data.qpos[2::3], data.qvel[2::3] = -0.02, -0.5  # 1 cm into the ground, without strain
    mujoco.mj_forward(model, data)
    assert data.ncon == 21
    masses = set()
    for k in range(data.ncon):
        force = np.zeros(6)
        mujoco.mj_contactForce(model, data, k, force)
        geom = max(data.contact[k].geom)
        masses.add(round(float(model.body_mass[model.geom_bodyid[geom]]), 9))
        assert force[0] == pytest.approx(
            3e3 * 0.01 + 5.0 * 0.5, rel=5e-3
        )  # of the impedance and of the ball of a vertex
    assert len(masses) > 1


def test_another_law_has_a_damper_for_the_mass_that_the_vertices_share(tmp_path):
    ground = {"stiffness": 3e3, "dissipation": 0.4, "friction": 0.4}
    text = exporters.export(scene_of({**BEAM, "position": [0, 0, 1]}, ground), "mjcf", tmp_path).files[0].read_text()
    numbers = [line.split('solref="')[1].split('"')[0].split() for line in text.splitlines() if "<pair" in line]
    ratios = {round(float(damper) / float(spring), 12) for spring, damper in numbers}
    assert len(ratios) == 1 and ratios.pop() > 0  # one damper and one spring, over the mass of each vertex


def test_usd_has_tetrahedra_with_their_material(tmp_path):
    pytest.importorskip("pxr", reason='USD is not installed: pip install "gradsim[newton]"')
    Usd, UsdGeom, UsdShade = (importlib.import_module(f"pxr.{name}") for name in ("Usd", "UsdGeom", "UsdShade"))
    scene = scene_of(HELD, GROUND)
    exported = exporters.export(scene, "usd", tmp_path)
    lumps = twin_of(scene).solids["beam"]
    world = Usd.Stage.Open(str(exported.files[0]))
    prim = world.GetPrimAtPath("/scene/beam")
    tets = UsdGeom.TetMesh(prim)
    assert_near(np.array(tets.GetPointsAttr().Get()), lumps.vertices, SINGLE)
    assert np.array(tets.GetTetVertexIndicesAttr().Get()).tolist() == lumps.cells.tolist()
    material = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial("physics")[0].GetPrim()
    stated = [material.GetAttribute(f"physics:{key}").Get() for key in ("youngsModulus", "poissonsRatio", "density")]
    assert stated == [near(value, SINGLE) for value in (2e6, 0.3, 1000)]
    assert [note for note in exported.notes if "fixed vertices 0 1 2" in note]


def test_newton_reads_the_masses_and_lame_parameters(tmp_path):
    newton = pytest.importorskip("newton", reason='Newton is not installed: pip install "gradsim[newton]"')
    pytest.importorskip("pxr", reason='USD is not installed: pip install "gradsim[newton]"')
    scene = scene_of(BEAM)
    exported, lumps = exporters.export(scene, "usd", tmp_path), twin_of(scene).solids["beam"]
    builder = newton.ModelBuilder()
    builder.add_usd(str(exported.files[0]))
    assert_near(np.array(builder.particle_mass), lumps.mass, SINGLE)
    mu, lam, _ = builder.tet_materials[0]
    assert (mu, lam) == (near(2e6 / 2.6, SINGLE), near(2e6 * 0.3 / (1.3 * 0.4), SINGLE))


def test_what_no_format_says_of_a_solid_is_listed(tmp_path):
    region = {"core": {"box": [[-0.1, -1, -1], [0.1, 1, 1]], "young": 1e7, "density": 2000}}
    body = {
        **BEAM,
        "elements": "quadratic",
        "regions": region,
        "activation": 0.1,
        "relaxation": [{"ratio": 1, "time": 1}],
        "motion": {"region": "-x", "times": [0, 1], "poses": [{}, {"position": [0.1, 0, 0]}]},
    }
    scene = scene_of(body)
    for to in exporters.FORMATS:
        if to != "urdf":
            notes = " ".join(exporters.export(scene, to, tmp_path / to).notes)
            for words in (
                "quadratic",
                "region `core`",
                "young 1e+07",
                "activation of 0.1",
                "relaxes",
                "small strains only",
                "1 motions of vertices; in the model they are fixed at their start",
            ):
                assert words in notes
    lumps = twin_of(scene).solids["beam"]
    x = lumps.vertices[:, 0]
    assert lumps.pinned.tolist() == np.flatnonzero(x < x.min() + 1e-9).tolist()
    assert lumps.mass.sum() > 1.2 * 1000 * 0.4 * 0.08**2


SHEET = {
    "kind": "cloth",
    "shape": {"grid": {"size": [0.4, 0.3], "cells": [8, 6]}},
    "density": 0.3,
    "position": [0, 0, 1],
}
HUNG = {**SHEET, "pinned": [{"box": [[-0.21, -1, -1], [-0.199, 1, 1]]}], "damping": 0.05}
MODULI = [{"mu": 300, "lam": 400}, {"young": 2e5, "poisson": 0.3, "thickness": 2e-3}]


@pytest.mark.parametrize("moduli", MODULI)
def test_a_sheet_stretches_in_mujoco_as_in_the_scene(mujoco, tmp_path, moduli):
    upright = {**HUNG, "rotation_vector": [0, np.pi / 2, 0]}  # hangs from its upper edge
    ours, theirs = compared(mujoco, scene_of({**upright, **moduli}), tmp_path)
    stretched = np.ptp(ours[:, :, 2], axis=0).max()
    assert stretched > 2e-4
    assert np.abs(theirs - ours).max() < 0.05 * stretched


def test_a_sheet_bends_in_mujoco_as_in_the_scene(mujoco, tmp_path):
    clamped = {"pinned": [{"box": [[-0.21, -1, -1], [-0.149, 1, 1]]}]}  # two rows of vertices
    body = {**HUNG, **clamped, "young": 2e6, "poisson": 0.0, "thickness": 1e-3, "bending": 1.0}
    ours, theirs = compared(mujoco, scene_of(body), tmp_path)
    sag = np.ptp(ours[:, :, 2], axis=0).max()
    assert sag > 0.02
    assert np.abs(theirs - ours).max() < 0.02 * sag
