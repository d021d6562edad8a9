"""Exported USD, read by OpenUSD, has the masses, inertias, places, joints and materials of the scene."""

import importlib
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tolerances import SINGLE, SOLVED, assert_near, near

from gradsim.scene import Scene, exporters
from gradsim.scene.exporters.build import twin_of
from gradsim.scene.exporters.usda import Prim, stage

HINGE = {"kind": "revolute", "between": ["world", "a"], "parent_point": [0, 0, 1], "child_point": [0.05, 0.1, 0.15]}
SLIDE = {"kind": "prismatic", "between": ["a", "b"], "parent_point": [0, 0.1, 0], "child_point": [0.05, 0, 0.1]}
SPRING = {"stiffness": 20, "target": 0.3, "damping": 0.5, "torque": 2}
CHAIN = {
    "bodies": {
        "a": {"shape": {"box": {"size": [0.1, 0.2, 0.3]}}, "mass": 1, "quat_xyzw": [0.5, 0.5, 0.5, 0.5]},
        "b": {"shape": {"cone": {"radius": 0.1, "height": 0.3}}, "mass": 0.5, "quat_xyzw": [0.6, 0, 0, 0.8]},
    },
    "joints": {
        "hinge": {**HINGE, **SPRING, "axis": [1, 2, 3], "angle": 0.4, "rate": 2, "upper": 1.5, "limit_stiffness": 60},
        "slide": {**SLIDE, "axis": [0, 0, -1], "friction": 0.2, "lower": -1, "limit_stiffness": 100},
    },
    "camera": {"look_at": {"eye": [1, -4, 2], "target": [0, 0, 1], "fov": "40 deg"}, "size": [320, 200]},
}
GROUND = {"friction": 0.4, "law": "paper", "stiffness": 1e4, "damping": 50, "friction_stiffness": 90}
FREE = {"shape": {"box": {"size": [0.1, 0.2, 0.3]}}, "mass": 2, "position": [0, 0, 1]}
SPINNING = {**FREE, "quat_xyzw": [0.6, 0, 0, 0.8], "velocity": [1, 2, 3], "angular_velocity": [0, 0, 1]}


@pytest.fixture(scope="module")
def pxr() -> Any:
    pytest.importorskip("pxr", reason='USD is not installed: pip install "gradsim[newton]"')
    return {name: importlib.import_module(f"pxr.{name}") for name in ("Usd", "UsdGeom", "UsdPhysics", "UsdShade")}


def export(content: dict, folder) -> tuple[str, tuple[str, ...]]:
    exported = exporters.export(Scene.parse(content), "usd", folder, provenance={"status": 'ok. "Done."'})
    return str(exported.files[0]), exported.notes


def pose(pxr, prim) -> tuple[np.ndarray, np.ndarray]:
    """Orientation (3, 3) and position of a prim in the world."""
    matrix = np.array(pxr["UsdGeom"].XformCache().GetLocalToWorldTransform(prim)).T
    return matrix[:3, :3], matrix[:3, 3]


def test_links_have_their_places_masses_and_inertias(pxr, tmp_path):
    path, _ = export(CHAIN, tmp_path)
    world, twin = pxr["Usd"].Stage.Open(path), twin_of(Scene.parse(CHAIN))
    assert pxr["UsdGeom"].GetStageUpAxis(world) == "Z" and pxr["UsdGeom"].GetStageMetersPerUnit(world) == 1
    assert world.GetRootLayer().customLayerData["gradsim"]["status"] == 'ok. "Done."'
    for name, link in twin.links.items():
        prim = world.GetPrimAtPath(f"/scene/a_tree/{name}")
        R, x = pose(pxr, prim)
        assert_near(R, Rotation.from_quat(link.quat_xyzw).as_matrix(), SOLVED)
        assert_near(x, link.x, SOLVED)
        mass = pxr["UsdPhysics"].MassAPI(prim)
        assert mass.GetMassAttr().Get() == near(link.mass, SINGLE)
        q = mass.GetPrincipalAxesAttr().Get()
        axes = Rotation.from_quat([*q.imaginary, q.real]).as_matrix()
        assert_near(axes * np.array(mass.GetDiagonalInertiaAttr().Get()) @ axes.T, link.inertia, SINGLE)
        I = link.inertia
        stated = prim.GetAttribute("newton:inertia").Get()
        assert_near(np.array(stated), [I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]], SOLVED)


def test_frames_of_joints_meet_where_the_coordinate_says(pxr, tmp_path):
    path, notes = export(CHAIN, tmp_path)
    world, twin = pxr["Usd"].Stage.Open(path), twin_of(Scene.parse(CHAIN))
    for name, joint in {joint.name: joint for joint in twin.tree.values()}.items():
        prim = world.GetPrimAtPath(f"/scene/a_tree/{name}")
        frames = []
        for k in (0, 1):
            bodies = prim.GetRelationship(f"physics:body{k}").GetTargets()
            R, x = pose(pxr, world.GetPrimAtPath(bodies[0])) if bodies else (np.eye(3), np.zeros(3))
            q = prim.GetAttribute(f"physics:localRot{k}").Get()
            local = Rotation.from_quat([*q.imaginary, q.real]).as_matrix()
            frames.append((R @ local, x + R @ np.array(prim.GetAttribute(f"physics:localPos{k}").Get())))
        (A, a), (B, b) = frames
        if joint.kind == "revolute":
            assert_near(Rotation.from_matrix(A.T @ B).as_rotvec(), [0, 0, joint.start], SINGLE)
            assert_near(a, b, SINGLE)
        else:
            assert_near(A.T @ (b - a), [0, 0, joint.start], SINGLE)
            assert_near(A, B, SINGLE)
    assert [note for note in notes if "target of its drive" in note]


def test_drives_limits_and_states_are_in_degrees(pxr, tmp_path):
    world = pxr["Usd"].Stage.Open(export(CHAIN, tmp_path)[0])
    hinge, slide = (world.GetPrimAtPath(f"/scene/a_tree/{name}") for name in ("hinge", "slide"))
    degree = np.pi / 180
    drive = pxr["UsdPhysics"].DriveAPI.Get(hinge, "angular")
    assert drive.GetStiffnessAttr().Get() / degree == near(20, SINGLE)
    assert drive.GetDampingAttr().Get() / degree == near(0.5, SINGLE)
    torque_at_rest = 20 * (drive.GetTargetPositionAttr().Get() * degree)
    assert torque_at_rest == near(20 * 0.3 + 2, SINGLE)
    assert hinge.GetAttribute("state:angular:physics:position").Get() * degree == near(0.4, SINGLE)
    assert hinge.GetAttribute("state:angular:physics:velocity").Get() * degree == near(2, SINGLE)
    turn = pxr["UsdPhysics"].RevoluteJoint(hinge)
    assert turn.GetUpperLimitAttr().Get() * degree == near(1.5, SINGLE) and turn.GetLowerLimitAttr().Get() == -np.inf
    assert hinge.GetAttribute("newton:limitStiffness").Get() / degree == near(60, SINGLE)
    limits = pxr["UsdPhysics"].PrismaticJoint(slide)
    assert limits.GetLowerLimitAttr().Get() == -1 and limits.GetUpperLimitAttr().Get() == np.inf
    assert slide.GetAttribute("newton:limitStiffness").Get() == 100
    assert slide.GetAttribute("newton:friction").Get() == near(0.2, SINGLE)


def test_velocities_are_in_the_axes_of_the_body_and_in_degrees(pxr, tmp_path):
    path, _ = export({"bodies": {"a": SPINNING}}, tmp_path)
    world = pxr["Usd"].Stage.Open(path)
    prim = world.GetPrimAtPath("/scene/a")
    body, (R, _) = pxr["UsdPhysics"].RigidBodyAPI(prim), pose(pxr, prim)
    assert_near(R @ np.array(body.GetVelocityAttr().Get()), [1, 2, 3], SINGLE)
    assert_near(np.radians(R @ np.array(body.GetAngularVelocityAttr().Get())), [0, 0, 1], SINGLE)


def test_materials_have_the_contact_numbers_and_links_pass_through_one_another(pxr, tmp_path):
    content = {"bodies": {"a": FREE, "b": {**FREE, "position": [1, 0, 1]}}, "ground": GROUND}
    world = pxr["Usd"].Stage.Open(export(content, tmp_path)[0])
    for path in ("/scene/a/shape", "/scene/ground"):
        binding = pxr["UsdShade"].MaterialBindingAPI(world.GetPrimAtPath(path))
        material = binding.ComputeBoundMaterial("physics")[0].GetPrim()
        physics = pxr["UsdPhysics"].MaterialAPI(material)
        assert physics.GetStaticFrictionAttr().Get() == physics.GetDynamicFrictionAttr().Get() == near(0.4, SINGLE)
        assert 0 < physics.GetRestitutionAttr().Get() < 1
        contact = {key: material.GetAttribute(f"newton:contact{key}").Get() for key in ("Stiffness", "Damping")}
        assert contact == {"Stiffness": near(1e4, SINGLE), "Damping": near(50, SINGLE)}
        assert material.GetAttribute("newton:contactFrictionGain").Get() == near(90, SINGLE)
    filtered = pxr["UsdPhysics"].FilteredPairsAPI(world.GetPrimAtPath("/scene/a")).GetFilteredPairsRel().GetTargets()
    assert [str(path) for path in filtered] == ["/scene/b"]
    touching = {**content, "contacts": {"pair": {"between": ["a", "b"], "stiffness": 1e4}}}
    world = pxr["Usd"].Stage.Open(export(touching, tmp_path / "touching")[0])
    assert not world.GetPrimAtPath("/scene/a").GetRelationship("physics:filteredPairs")


@pytest.mark.parametrize(
    "camera",
    [{}, {"K": [[400.0, 0.0, 150.0], [0.0, 380.0, 111.0], [0.0, 0.0, 1.0]]}, {"focal": 400.0, "centre": [150.0, 90.0]}],
)
def test_a_camera_comes_back(pxr, tmp_path, camera):
    pytest.importorskip("newton", reason='Newton is not installed: pip install "gradsim[newton]"')
    from gradsim.scene.importers.newton import load

    view = {"eye": [1, -4, 2], "target": [0, 0, 1]} | ({} if camera else {"fov": "40 deg"})
    scene = Scene.parse({**CHAIN, "camera": {"look_at": view, "size": [320, 200], **camera}})
    exported = exporters.export(scene, "usd", tmp_path)
    one, other = (s.camera.matrices() for s in (scene, load(exported.files[0]).scene))
    for a, b in zip(one, other, strict=True):
        assert_near(b, a, SINGLE)


@pytest.mark.parametrize("to", ["mjcf", "usd"])
def test_friction_and_a_spring_law_come_back(tmp_path, to):
    pytest.importorskip("newton", reason='Newton is not installed: pip install "gradsim[newton]"')
    if to == "usd":
        pytest.importorskip("pxr", reason='USD is not installed: pip install "gradsim[newton]"')
    from gradsim.scene.importers.newton import load

    exported = exporters.export(Scene.parse({"bodies": {"a": FREE}, "ground": GROUND}), to, tmp_path)
    imported = load(exported.files[0])
    ground = imported.scene.grounds["ground"]
    assert ground.friction == near(0.4, SINGLE)
    if to == "usd":
        assert {key: getattr(ground, key) for key in GROUND} == GROUND
        assert [note for note in imported.notes if "as the law `paper`" in note]


def test_what_usd_cannot_say_is_listed(tmp_path):
    free = {**FREE, "pushes": [{"impulse": [1, 0, 0], "at": 0.5}]}
    joints = {"hinge": {**CHAIN["joints"]["hinge"], "stiffness": 0}, "slide": CHAIN["joints"]["slide"]}
    content = {"bodies": {**CHAIN["bodies"], "c": free}, "joints": joints, "ground": GROUND}
    notes = " ".join(export(content, tmp_path)[1])
    words = (
        "push at 0.5 s",
        "constant force or torque of its motor, 2",
        "dry friction",
        "contact law paper",
        "a round cone",
    )
    assert [word for word in words if word not in notes] == []


@pytest.mark.parametrize("name", ["arm", "cube", "double_pendulum", "soft_ball"])
def test_a_stage_passes_the_validators_of_openusd(pxr, tmp_path, name):
    validation = importlib.import_module("pxr.UsdValidation")
    exported = exporters.export(Scene.library(name), "usd", tmp_path)
    world = pxr["Usd"].Stage.Open(str(exported.files[0]))
    validators = validation.ValidationRegistry().GetOrLoadAllValidators()
    errors = validation.ValidationContext(validators).Validate(world)
    assert [error.GetMessage() for error in errors] == []


def test_text_survives_quotes_backslashes_and_names(pxr, tmp_path):
    root = Prim("Xform", "a", "/a")
    names = [root.child("Xform", name).name for name in ("b-c", "b_c", "1")]
    assert names == ["b_c", "b_c_", "_1"]
    root.set("string", "gradsim:note", 'a "b" \\ c\nd')
    path = tmp_path / "a.usda"
    path.write_text(stage(root, 'say """this""" \\', {"key with space": "µ"}), encoding="utf-8")
    world = pxr["Usd"].Stage.Open(str(path))
    assert world.GetPrimAtPath("/a").GetAttribute("gradsim:note").Get() == 'a "b" \\ c\nd'
    assert world.GetRootLayer().customLayerData["gradsim"] == {"key with space": "µ"}
