"""Exported URDF, compiled by MuJoCo, has the masses, inertias, places and joints of the scene."""

from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tolerances import SOLVED, assert_near, near

from gradsim import InputError
from gradsim.scene import Scene, exporters
from gradsim.scene.exporters.build import twin_of
from gradsim.scene.exporters.urdf import rpy

BALL = {"kind": "ball", "between": ["a", "c"], "parent_point": [0, 0, 0.2], "child_point": [0, 0.1, 0]}
HINGE = {"kind": "revolute", "between": ["world", "a"], "parent_point": [0, 0, 1], "child_point": [0.05, 0.1, 0.15]}
SLIDE = {"kind": "prismatic", "between": ["a", "b"], "parent_point": [0, 0.1, 0], "child_point": [0.05, 0, 0.1]}
CHAIN = {
    "bodies": {
        "a": {"shape": {"box": {"size": [0.1, 0.2, 0.3]}}, "mass": 1, "quat_xyzw": [0.5, 0.5, 0.5, 0.5]},
        "b": {
            "shape": {"cone": {"radius": 0.1, "height": 0.3}},
            "mass": 0.5,
            "scale": 1.2,
            "quat_xyzw": [0.6, 0, 0, 0.8],
        },
        "c": {"shape": {"cylinder": {"radius": 0.1, "height": 0.3}}, "density": 500, "quat_xyzw": [0, 0.6, 0, 0.8]},
    },
    "joints": {
        "hinge": {
            **HINGE,
            "axis": [1, 2, 3],
            "damping": 0.1,
            "friction": 0.2,
            "lower": -1,
            "upper": 2,
            "limit_stiffness": 100,
        },
        "slide": {**SLIDE, "axis": [0, 1, 1], "stiffness": 20},
        "ball": {**BALL, "rotation_vector": [0.1, 0.2, 0.3]},
    },
}


@pytest.fixture(scope="module")
def mujoco() -> Any:
    return pytest.importorskip("mujoco", reason='MuJoCo is not installed: pip install "gradsim[engines]"')


def test_a_chain_has_its_masses_inertias_and_places_in_mujoco(mujoco, tmp_path):
    content = {**CHAIN, "joints": {**CHAIN["joints"], "ball": BALL}}
    twin = twin_of(Scene.parse(content))
    exported = exporters.export(Scene.parse(content), "urdf", tmp_path)
    assert [path.name for path in exported.files] == ["model.urdf"]
    text = exported.files[0].read_text().replace('filename="meshes/', f'filename="{tmp_path}/meshes/')
    text = text.replace("</robot>", '<mujoco><compiler strippath="false"/></mujoco></robot>')
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    assert sorted(model.jnt_type.tolist()) == [1, 2, 3]
    for name, link in twin.links.items():
        principal = Rotation.from_quat(model.body(name).iquat[[1, 2, 3, 0]]).as_matrix()
        assert model.body(name).mass[0] == near(link.mass, SOLVED)
        assert_near(principal * model.body(name).inertia @ principal.T, link.inertia, SOLVED)
        assert_near(data.body(name).xipos, link.x, SOLVED)
        assert_near(data.body(name).xmat.reshape(3, 3), Rotation.from_quat(link.quat_xyzw).as_matrix(), SOLVED)
    assert model.joint("hinge").range.tolist() == [-1, 2] and model.joint("hinge").damping[0] == 0.1
    assert model.joint("hinge").frictionloss[0] == 0.2
    axis = data.joint("hinge").xaxis
    assert_near(axis, np.array([1, 2, 3]) / np.sqrt(14), SOLVED)


def test_what_urdf_cannot_say_is_listed(tmp_path):
    scene = Scene.parse({**CHAIN, "ground": {"friction": 0.4}})
    notes = " ".join(exporters.export(scene, "urdf", tmp_path).notes)
    words = (
        "a spring of 20",
        "stiffness 100 of its limits",
        "`ball` at the start: 0.1 0.2 0.3",
        "friction 0.4",
        "gravity",
        "spherical",
    )
    assert [word for word in words if word not in notes] == []


def test_free_bodies_have_a_file_each(tmp_path):
    free = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1, "velocity": [1, 2, 3]}
    exported = exporters.export(Scene.parse({"bodies": {"a": free, "b": free}}), "urdf", tmp_path)
    assert [path.name for path in exported.files] == ["a.urdf", "b.urdf"]
    assert "velocity 1 2 3" in exported.files[1].read_text()


@pytest.mark.parametrize("angles", [[0.3, -1.2, 2.0], [0.4, np.pi / 2, 0.1], [0.4, -np.pi / 2, 0.1]])
def test_roll_pitch_and_yaw_make_the_rotation_again_also_where_they_lock(angles):
    turn = Rotation.from_euler("xyz", angles)
    assert (Rotation.from_euler("xyz", rpy(turn)) * turn.inv()).magnitude() < 1e-9


def test_a_scene_without_links_is_refused(tmp_path):
    with pytest.raises(InputError, match="soft bodies only"):
        exporters.export(Scene.library("flag"), "urdf", tmp_path)


@pytest.mark.parametrize(
    ("kind", "words"), [("urdf", '<dynamics damping="0.1" friction="0.2"'), ("mjcf", 'frictionloss="0.2"')]
)
def test_dry_friction_is_written(tmp_path, kind, words):
    exported = exporters.export(Scene.parse(CHAIN), kind, tmp_path)
    assert words in exported.files[0].read_text()


def test_armature_is_written_to_mjcf_and_named_where_urdf_has_none(tmp_path):
    joints = {**CHAIN["joints"], "hinge": {**CHAIN["joints"]["hinge"], "armature": 0.05}}
    scene = Scene.parse({**CHAIN, "joints": joints})
    assert 'armature="0.05"' in exporters.export(scene, "mjcf", tmp_path / "a").files[0].read_text()
    assert any("`hinge`: an armature of 0.05" in note for note in exporters.export(scene, "urdf", tmp_path / "b").notes)


@pytest.mark.parametrize("kind", ["mjcf", "urdf", "usd"])
def test_a_backlash_is_named_by_every_format(tmp_path, kind):
    joints = {**CHAIN["joints"], "hinge": {**CHAIN["joints"]["hinge"], "backlash": 0.03}}
    exported = exporters.export(Scene.parse({**CHAIN, "joints": joints}), kind, tmp_path)
    assert any("`hinge`: a backlash of 0.03" in note for note in exported.notes)
    plain = exporters.export(Scene.parse(CHAIN), kind, tmp_path / "plain")
    assert not any("backlash" in note for note in plain.notes)
