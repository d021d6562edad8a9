"""Exported MJCF, compiled and moved by MuJoCo, is the scene: masses, inertias, places, velocities, motion."""

from typing import Any

import numpy as np
import pytest
import torch
from recorded_cases import gripper
from scipy.spatial.transform import Rotation
from tolerances import SINGLE, SOLVED, assert_near, near

from gradsim import InputError, Model
from gradsim.scene import Scene, exporters

SHAPES = {
    "box": {"box": {"size": [0.1, 0.2, 0.3]}},
    "sphere": {"sphere": {"radius": 0.1}},
    "cylinder": {"cylinder": {"radius": 0.1, "height": 0.3}},
    "capsule": {"capsule": {"radius": 0.1, "height": 0.3}},
    "cone": {"cone": {"radius": 0.1, "height": 0.3}},
    "torus": {"torus": {"radius": 0.1, "tube_radius": 0.03}},
    "tetrahedron": {"tetrahedron": {"vertices": [[0, 0, 0], [0.3, 0, 0], [0, 0.2, 0], [0.1, 0.1, 0.2]]}},
    "pear": {"object": {"name": "pear", "size": [0.1, 0.12, 0.2]}},
}
TURN = [0.1825741858350554, 0.3651483716701107, 0.5477225575051661, 0.7302967433402214]
CHAIN = {
    "gravity": [0.3, -0.2, -9.0],
    "bodies": {
        "a": {"shape": SHAPES["box"], "mass": 1, "quat_xyzw": TURN},
        "b": {"shape": SHAPES["cone"], "mass": 0.5, "scale": 1.2, "quat_xyzw": [0.5, 0.5, 0.5, 0.5]},
        "c": {"shape": SHAPES["torus"], "density": 500},
        "d": {"shape": SHAPES["sphere"], "mass": 0.2},
    },
    "joints": {
        "shoulder": {
            "kind": "ball",
            "between": ["world", "a"],
            "parent_point": [0, 0, 1.2],
            "child_point": [0.05, 0.1, 0.15],
            "rotation_vector": [0.3, 0.4, -0.2],
            "angular_velocity": [1, 2, 3],
            "damping": 0.01,
        },
        "slide": {
            "kind": "prismatic",
            "between": ["a", "b"],
            "parent_point": [0, 0.1, 0],
            "child_point": [0.05, 0, 0.15],
            "axis": [1, 2, 3],
            "displacement": 0.1,
            "speed": 0.3,
            "stiffness": 20,
            "target": 0.05,
            "damping": 0.2,
            "armature": 0.4,
            "force": 0.3,
            "lower": -0.05,
            "upper": 0.12,
            "limit_stiffness": 300,
        },
        "wrist": {
            "kind": "revolute",
            "between": ["b", "c"],
            "parent_point": [0, 0.1, 0.1],
            "axis": [0.2, 1, 0],
            "child_point": [0.05, 0, 0.1],
            "angle": 0.7,
            "rate": -2,
            "torque": 0.02,
            "armature": 0.003,
        },
        "weld": {"kind": "fixed", "between": ["c", "d"], "parent_point": [0.1, 0, 0]},
    },
    "timing": {"fps": 30, "frames": 11, "substeps": 64},
}


@pytest.fixture(scope="module")
def mujoco() -> Any:
    return pytest.importorskip("mujoco", reason='MuJoCo is not installed: pip install "gradsim[engines]"')


def compiled(mujoco, scene, folder, **options) -> tuple[Any, Any]:
    """Model, and data at the keyframe."""
    exported = exporters.export(scene, "mjcf", folder, **options)
    model = mujoco.MjModel.from_xml_path(str(exported.files[0]))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    return model, data


def free(shape, **keys):
    return {"shape": shape, "position": [0.1, 0.2, 1.3], "quat_xyzw": TURN, "velocity": [1, 2, 3], **keys}


@pytest.mark.parametrize("kind", SHAPES)
def test_mass_inertia_place_and_velocity_are_those_of_our_model(mujoco, tmp_path, kind):
    body = free(SHAPES[kind], density=700, scale=1.3, angular_velocity=[3, -1, 2])
    body["pushes"] = [{"impulse": [0.1, 0.2, -0.3], "point": [0.05, 0.02, 0.01]}]
    scene = Scene.parse({"bodies": {"a": body}})
    model, data = compiled(mujoco, scene, tmp_path)
    ours = Model(scene, dtype=torch.float64)
    system, values = ours.systems[0], ours.values({})
    tensor = system.inertia(values)[0].detach().numpy()
    axes = Rotation.from_quat(model.body("a").iquat[[1, 2, 3, 0]]).as_matrix()
    assert model.body("a").mass[0] == near(system.mass(values).item(), SOLVED)
    assert_near(axes * model.body("a").inertia @ axes.T, tensor, SOLVED)
    assert_near(data.body("a").xipos, [0.1, 0.2, 1.3], SOLVED)
    start = dict(zip(system.states, (y[:, None] for y in system.start(values)), strict=True))
    pushed = system.after_impulses(start, values)
    spin = system.spin(pushed["q"], pushed["l"], values)[0, 0].detach().numpy()
    assert_near(data.qvel[:3], pushed["v"][0, 0].detach().numpy(), SOLVED)
    assert_near(Rotation.from_quat(TURN).apply(data.qvel[3:]), spin, SOLVED)


@pytest.mark.slow
def test_a_chain_of_all_joints_moves_as_ours(mujoco, tmp_path):
    """From frame 7 on the slide is at its limit, whose spring in MuJoCo is off by the impedance, 1e-4."""
    scene = Scene.parse(CHAIN)
    with torch.no_grad():
        ours = Model(scene, dtype=torch.float64).rollout().states
    model, data = compiled(mujoco, scene, tmp_path)
    assert sorted(model.jnt_type.tolist()) == [1, 2, 3]
    for frame in range(scene.timing.frames):
        mujoco.mj_forward(model, data)
        bound = 1e-9 if frame < 7 else 1e-4
        for name in scene.bodies:
            turn = Rotation.from_quat(ours[name]["q"][0, frame].numpy()).as_matrix().ravel()
            assert np.abs(ours[name]["x"][0, frame].numpy() - data.body(name).xpos).max() < bound
            assert np.abs(turn - data.body(name).xmat).max() < bound
        mujoco.mj_step(model, data, 64)


@pytest.mark.parametrize("name", ["pendulum", "double_pendulum"])
def test_pendulums_swing_as_ours(mujoco, tmp_path, name):
    content = Scene.library(name).model_dump(exclude_unset=True, by_alias=True)
    body = next(iter(content["bodies"].values()))
    body |= (
        {"force_per_mass": [1, 0, 2], "drag": 0.3, "damping": 0.2}
        if name == "pendulum"
        else {"force": [1, 2, 3], "damping": 0.1}
    )
    body["plane"] = [1, 2, 0]
    content["timing"] = {"fps": 30, "frames": 20}
    scene = Scene.parse(content)
    with torch.no_grad():
        (states,) = Model(scene, dtype=torch.float64).rollout().states.values()
    model, data = compiled(mujoco, scene, tmp_path, timestep=1 / 3000)
    mujoco.mj_step(model, data, 100 * 19)
    assert_near(np.cumsum(data.qpos), np.atleast_1d(states["angle"][0, 19].numpy()), SOLVED, scale=100.0)  # 1e-7


def places(mujoco, scene: Scene, folder) -> tuple[np.ndarray, np.ndarray]:
    """Centers of body `a` at all frames (frames, 3) [m], ours and MuJoCo's."""
    with torch.no_grad():
        ours = Model(scene, dtype=torch.float64).rollout().states["a"]["x"][0].numpy()
    model, data = compiled(mujoco, scene, folder)
    theirs = []
    for _ in range(scene.timing.frames):
        theirs.append(data.body("a").xpos.copy())
        mujoco.mj_step(model, data, 64)
    return ours, np.array(theirs)


def test_a_ball_bounces_by_the_spring_and_damper_of_the_contact_law(mujoco, tmp_path):
    """The paper's law is a spring and a damper, which MuJoCo's soft contact is too: they differ by its impedance, 1e-4."""
    ball = {"shape": SHAPES["sphere"], "mass": 0.4, "position": [0, 0, 0.3], "velocity": [1, 0, 0]}
    ground = {"law": "paper", "stiffness": 2000, "damping": 3, "friction_stiffness": 5, "friction": 0.0}
    scene = Scene.parse({"bodies": {"a": ball}, "ground": ground, "timing": {"fps": 60, "frames": 60, "substeps": 64}})
    ours, theirs = places(mujoco, scene, tmp_path)
    assert np.abs(theirs - ours).max() < 2e-3 and np.ptp(ours[20:, 2]) > 0.02


def test_a_box_that_slides_as_it_lands_is_not_thrown_up(mujoco, tmp_path):
    """With MuJoCo's default of `impratio`, 1, sliding adds to the normal force, and the box is 1 cm too high."""
    box = {"shape": {"box": {"size": [0.2, 0.2, 0.16]}}, "mass": 2.6, "position": [0, 0, 0.5], "velocity": [1.8, 0, 0]}
    ground = {"law": "paper", "stiffness": 15000, "damping": 57, "friction_stiffness": 100, "friction": 0.55}
    scene = Scene.parse({"bodies": {"a": box}, "ground": ground, "timing": {"fps": 60, "frames": 40, "substeps": 64}})
    ours, theirs = places(mujoco, scene, tmp_path)
    assert np.abs(theirs - ours)[:32, 2].max() < 2e-3  # until it lands again


def test_a_camera_off_its_center_has_the_intrinsics_of_the_scene(mujoco, tmp_path):
    camera = {
        "size": [320, 240],
        "R": np.diag([1.0, -1.0, -1.0]).tolist(),
        "t": [0, 0, 3],
        "K": [[300, 0, 150], [0, 310, 130], [0, 0, 1]],
    }
    content = {"bodies": {"a": free(SHAPES["box"], mass=1)}, "camera": camera}
    model, data = compiled(mujoco, Scene.parse(content), tmp_path)
    assert model.cam_resolution[0].tolist() == [320, 240]
    scene, camera = mujoco.MjvScene(model, 100), mujoco.MjvCamera()
    camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, 0
    mujoco.mjv_updateScene(model, data, mujoco.MjvOption(), None, camera, mujoco.mjtCatBit.mjCAT_ALL, scene)
    view = scene.camera[0]
    left = (view.frustum_center - view.frustum_width) / view.frustum_near * 300
    top, bottom = (end / view.frustum_near * 310 for end in (view.frustum_top, view.frustum_bottom))
    assert_near([left, top, bottom], [-150, 130, 130 - 240], SINGLE)
    assert_near(data.cam("camera").xmat.reshape(3, 3), np.eye(3), SOLVED)


def test_recorded_bodies_and_frames_are_held_where_they_start(mujoco, tmp_path):
    scene = Scene.parse(gripper())
    _, data = compiled(mujoco, scene, tmp_path)
    with torch.no_grad():
        start = Model(scene).rollout(frames=1)
    for name in scene.bodies:
        assert_near(data.body(name).xpos, start[name]["x"][0, 0], SOLVED)
        turned = Rotation.from_quat(data.body(name).xquat[[1, 2, 3, 0]]).inv() * Rotation.from_quat(
            start[name]["q"][0, 0]
        )
        assert_near(turned.magnitude(), 0, SOLVED)
    for form in ("mjcf", "urdf", "usd"):
        notes = exporters.export(scene, form, tmp_path / form).notes
        assert any("`hand`: its motion" in n for n in notes) and any("joints.shoulder: its motion" in n for n in notes)


def test_what_the_format_cannot_say_is_listed_and_in_the_comment(tmp_path):
    body = free(SHAPES["torus"], mass=1, pushes=[{"force": [1, 0, 0], "window": [0.1, 0.2]}])
    scene = Scene.parse({"bodies": {"a": body}, "ground": {}, "lights": {"sun": {"kind": "ambient"}}})
    exported = exporters.export(scene, "mjcf", tmp_path, provenance={"status": "mismatch -- not --anyway"})
    text = exported.files[0].read_text()
    assert all(
        any(word in note for note in exported.notes) for word in ("0.1 to 0.2 s", "convex hull", "lights.sun", "law")
    )
    assert all(note in text for note in exported.notes) and "mismatch - - not" in text


def test_an_unknown_format_and_a_file_for_a_folder_are_refused(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="got the format 'sdf'; choose one of mjcf"):
        exporters.export(Scene.library("cube"), "sdf", tmp_path)
    with pytest.raises(InputError, match="taken is a file; give a folder"):
        exporters.export(Scene.library("cube"), "mjcf", tmp_path / "taken")
