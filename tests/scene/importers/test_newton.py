"""Small MJCF, URDF and USD files, written here, become the scenes that they mean; what does not fit is named."""

import importlib
from typing import Any

import numpy as np
import pytest
import torch
import warp as wp
from scipy.spatial.transform import Rotation
from tolerances import SINGLE, near

from gradsim import InputError, Model
from gradsim.physics.rigid.joints import joints_of
from gradsim.render.camera import from_opengl, from_scene
from gradsim.scene import importers


@pytest.fixture(scope="module", autouse=True)
def newton() -> Any:
    """Imported for the tests and not for their collection, which every worker does: it takes 3 s."""
    return pytest.importorskip("newton", reason='Newton is not installed: pip install "gradsim[newton]"')


def load(*arguments, **options) -> Any:
    return importers.load(*arguments, **options)


CUBE = """
<mujoco model="yard">
  <compiler angle="degree"/>
  <option gravity="0 0 -3.7"/>
  <visual><global offwidth="320" offheight="240"/></visual>
  <worldbody>
    <camera name="front" pos="0 -3 1" xyaxes="1 0 0 0 0.3 1" fovy="45"/>
    <geom name="floor" type="plane" size="0 0 0.1" pos="0 0 0.1" euler="0 10 0" friction="0.7 0.005 0.0001"/>
    <body name="box" pos="0 0 1" euler="0 30 0">
      <freejoint/>
      <geom type="box" size="0.1 0.2 0.3" mass="2" rgba="1 0 0 1" pos="0.05 0 0" friction="0.2 0.005 0.0001"/>
    </body>
    BODIES
  </worldbody>
  EXTRA
</mujoco>
"""


def mjcf(folder, bodies="", extra=""):
    path = folder / "yard.xml"
    path.write_text(CUBE.replace("BODIES", bodies).replace("EXTRA", extra))
    return path


def free(name, geom, place="0 0 2"):
    return f'<body name="{name}" pos="{place}"><freejoint/><geom {geom}/></body>'


@pytest.mark.slow
def test_a_box_on_a_tilted_floor_comes_over_from_mjcf(tmp_path):
    imported = load(mjcf(tmp_path))
    scene = imported.scene
    assert scene.name == "yard" and scene.gravity == (0.0, 0.0, -3.7)
    box, floor = scene.bodies["box"], scene.grounds["floor"]
    assert box.shape.box.size == (0.2, 0.4, 0.6) and box.mass == 2.0 and box.colour == (1.0, 0.0, 0.0)
    turn = Rotation.from_euler("y", 30, degrees=True)
    assert box.position == near(turn.apply([0.05, 0, 0]) + (0, 0, 1), SINGLE, scale=1.0)  # the middle of the shape
    assert box.quat_xyzw == near(turn.as_quat(), SINGLE, scale=1.0)
    normal = np.array([np.sin(np.radians(10)), 0, np.cos(np.radians(10))])
    assert floor.normal == near(normal, SINGLE, scale=1.0) and floor.height == near(0.1 * normal[2], SINGLE, scale=1.0)
    assert floor.friction == 0.7  # MuJoCo takes the larger of the two
    assert imported.notes == (
        (
            "contact: the file has no stiffness and damping of a spring law, so gradsim's defaults apply; "
            "set them in `grounds`."
        ),
    )


def test_an_mjcf_camera_looks_where_mujocos_does(tmp_path):
    camera = from_scene(load(mjcf(tmp_path)).scene.camera)
    up = np.array([0, 0.3, 1]) / np.hypot(0.3, 1)
    pose = np.eye(4)
    pose[:3] = np.stack([[1, 0, 0], up, np.cross([1, 0, 0], up), [0, -3, 1]], 1)
    K = torch.tensor([[120 / np.tan(np.pi / 8), 0, 160], [0, 120 / np.tan(np.pi / 8), 120], [0, 0, 1]])
    expected = from_opengl(torch.tensor(pose), K, 320, 240)
    assert (camera.width, camera.height) == (320, 240)
    assert all((getattr(camera, n) - getattr(expected, n)).abs().max() < 1e-9 for n in ("K", "R", "t"))


@pytest.mark.parametrize(
    ("geom", "kind", "sizes"),
    [
        ('type="sphere" size="0.1" density="500"', "sphere", {"radius": 0.1}),
        ('type="capsule" fromto="-0.2 0 0 0.2 0 0" size="0.05" mass="1"', "capsule", {"radius": 0.05, "height": 0.4}),
        ('type="cylinder" size="0.1 0.2" mass="1"', "cylinder", {"radius": 0.1, "height": 0.4}),
    ],
)
def test_round_shapes_keep_their_sizes(tmp_path, geom, kind, sizes):
    imported = load(mjcf(tmp_path, free("thing", geom)))
    body = imported.scene.bodies["thing"]
    shape = getattr(body.shape, kind)
    assert {key: getattr(shape, key) for key in sizes} == sizes and body.position == (0.0, 0.0, 2.0)
    if kind == "sphere":
        assert body.mass == near(500 * 4 / 3 * np.pi * 1e-3, SINGLE)
    if kind == "capsule":  # its axis is the world's x
        assert abs(Rotation.from_quat(body.quat_xyzw).apply([0, 0, 1])[0]) == near(1, SINGLE, scale=1.0)
    assert not [n for n in imported.notes if "inertia" in n]  # faceted and round agree to a percent


def test_a_mesh_is_written_beside_the_scene_and_saved_with_it(tmp_path):
    asset = '<asset><mesh name="tet" vertex="0 0 0  0.3 0 0  0 0.3 0  0 0 0.3"/></asset>'
    path = mjcf(tmp_path, free("tet", 'type="mesh" mesh="tet" mass="1"', "4 0 1"), asset)
    with pytest.raises(InputError, match=r"has meshes \(tet\); give a `mesh_folder`"):
        load(path)
    scene = load(path, tmp_path / "meshes").scene
    assert scene.bodies["tet"].position == near((4.075, 0.075, 1.075), SINGLE, scale=1.0)  # a quarter of each edge
    assert scene.bodies["tet"].shape.mesh().volume == near(0.3**3 / 6, SINGLE)
    scene.save(tmp_path / "scene.yaml")
    assert "file: meshes/tet.obj" in (tmp_path / "scene.yaml").read_text()
    assert type(scene).load(tmp_path / "scene.yaml").bodies == scene.bodies


FOREIGN = (
    '<body name="arm" pos="5 0 1"><joint name="both" type="hinge" axis="1 0 0"/><joint type="hinge" axis="0 1 0"/>'
    '<geom type="box" size="0.1 0.1 0.1"/><body name="hand"><joint name="wrist" type="hinge"/>'
    '<geom type="box" size="0.1 0.1 0.1"/></body></body>'
    '<body name="wheel" pos="6 0 1"><joint name="hub" type="ball" range="0 40" limited="true"/>'
    '<geom type="box" size="0.1 0.1 0.1"/></body>'
)


def test_what_a_scene_cannot_say_is_named_in_one_message(tmp_path):
    path = mjcf(tmp_path, FOREIGN, '<actuator><muscle name="m" joint="wrist"/></actuator>')
    with pytest.raises(InputError) as error:
        load(path)
    for words in (
        "of body `arm` is d6 (0 directions, 2 axes)",
        "body `hand` is attached to `arm`",
        "joint `hub` is a ball joint with limits",
        "actuator `m` (muscle)",
    ):
        assert words in str(error.value)
    imported = load(path, skip=True)
    assert list(imported.scene.bodies) == ["box", "wheel"]  # whose limits alone are left out
    assert sum(note.startswith("left out:") for note in imported.notes) == 4


def test_sensors_keyframes_and_moving_cameras_are_noted(tmp_path):
    body = '<body name="eye" pos="0 0 3"><freejoint/><geom type="sphere" size="0.1"/><camera name="inside"/></body>'
    extra = '<keyframe><key name="home" time="0"/></keyframe><sensor><clock name="watch"/></sensor>'
    notes = " ".join(load(mjcf(tmp_path, body, extra)).notes)
    for words in ("keyframe `home`", "sensor `watch`", "camera `inside`, which moves with a body"):
        assert words in notes


def test_a_body_of_other_inertia_than_its_shape_keeps_that_of_the_file(tmp_path):
    inertial = '<inertial pos="0 0 0.1" mass="3" diaginertia="0.1 0.12 0.15"/><geom type="cylinder" size="0.1 0.2"/>'
    imported = load(mjcf(tmp_path, f'<body name="top" pos="0 0 2"><freejoint/>{inertial}</body>'))
    top = imported.scene.bodies["top"]
    assert top.mass == 3.0 and top.position == near((0, 0, 2.1), SINGLE, scale=1.0)
    assert top.inertia == pytest.approx((0.1, 0.12, 0.15)) and top.centre_of_mass == pytest.approx((0, 0, 0.1))
    model = Model(imported.scene)
    system = next(s for s in model.systems if s.name == "top")
    assert np.abs(inertia(system, model) - np.diag([0.1, 0.12, 0.15])).max() < 1e-8
    vertices = model.rollout(frames=1).surface.vertices[0, 0, system.part.vertices]
    assert vertices[:, 2].min().item() == near(1.8, SINGLE, scale=1.0)  # the cylinder itself is about 2


def inertia(system: Any, model: Model) -> np.ndarray:
    return system.inertia(model.values())[0].detach().numpy()


def test_several_shapes_become_one_mesh_with_the_inertia_of_the_file(tmp_path):
    geoms = '<geom type="sphere" size="0.1" mass="1"/><geom type="sphere" size="0.2" pos="0 0 1" mass="1"/>'
    imported = load(mjcf(tmp_path, f'<body name="pair" pos="7 0 1"><freejoint/>{geoms}</body>'), tmp_path / "meshes")
    pair = imported.scene.bodies["pair"]
    assert pair.position == near((7, 0, 1.5), SINGLE, scale=1.0)  # weighed by mass, not by volume
    across = 2 * 0.25 + 0.4 * (0.01 + 0.04)
    assert sorted(pair.inertia) == pytest.approx([0.4 * 0.05, across, across], rel=1e-5)


ARM = """
<robot name="arm">
  <link name="world"/>
  <link name="base">
    <inertial><mass value="2"/><origin xyz="0 0 0.05"/>
      <inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0.001" ixz="0" iyz="0"/></inertial>
    <visual><origin xyz="0 0 0.05"/><geometry><box size="0.1 0.1 0.1"/></geometry></visual>
  </link>
  <link name="upper">
    <inertial><mass value="1"/><origin xyz="0.2 0 0" rpy="0 0 0.3"/>
      <inertia ixx="0.001" iyy="0.02" izz="0.0205" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><origin xyz="0.2 0 0" rpy="0 1.2 0"/><geometry><cylinder radius="0.03" length="0.4"/></geometry></visual>
  </link>
  <link name="tool">
    <inertial><mass value="0.1"/><origin xyz="0.1 0 0"/>
      <inertia ixx="0.0001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <link name="tip"/>
  <joint name="floor" type="fixed"><parent link="world"/><child link="base"/><origin xyz="1 2 3"/></joint>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <origin xyz="0 0 0.1" rpy="0.2 0 0.5"/><axis xyz="0 1 0"/><limit lower="-1" upper="2" effort="10" velocity="3"/>
    <dynamics damping="0.1" friction="0.02"/></joint>
  <joint name="rail" type="prismatic"><parent link="upper"/><child link="tool"/><origin xyz="0.4 0 0" rpy="0 0.3 0"/>
    <axis xyz="1 0 0"/><limit lower="0" upper="0.1" effort="10" velocity="3"/></joint>
  <joint name="end" type="fixed"><parent link="tool"/><child link="tip"/><origin xyz="0.05 0 0"/></joint>
</robot>
"""


def test_an_arm_comes_over_from_urdf(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    imported = load(path)
    scene, notes = imported.scene, " ".join(imported.notes)
    assert {name: joint.kind for name, joint in scene.joints.items()} == {
        "fixed_base": "fixed",
        "shoulder": "revolute",
        "rail": "prismatic",
    }
    shoulder, rail = scene.joints["shoulder"], scene.joints["rail"]
    assert (shoulder.lower, shoulder.upper, shoulder.damping, rail.lower) == (-1.0, 2.0, 0.1, 0.0)
    assert shoulder.friction == 0.02
    for words in ("dry friction of `shoulder`", "limits of `rail`", "`tip`: fixed", "`tool` has no shape"):
        assert words in notes, words


def test_links_of_an_arm_stand_where_newton_has_them(tmp_path, newton):
    """Centres of mass and inertias in the world at some coordinates, against Newton's own forward kinematics."""
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    model = Model(load(path).scene)
    at = {"joints.shoulder.angle": 0.7, "joints.rail.displacement": 0.06}
    values = model.values({name: torch.tensor([value]).double() for name, value in at.items()})
    joints: Any = joints_of(model.systems, model.scene)  # pyright: ignore[reportArgumentType] -- all are rigid
    start = joints.start({s.name: s.start(values) for s in joints.bodies}, values)
    builder = newton.ModelBuilder()
    builder.add_urdf(str(path), floating=False, collapse_fixed_joints=False)
    theirs = builder.finalize(device="cpu")
    state = theirs.state()
    q = theirs.joint_q.numpy()
    q[:] = list(at.values())
    theirs.joint_q.assign(q)
    kinematics = importlib.import_module("newton._src.sim.articulation")  # 6 s to compile with adjoints
    wp.set_module_options({"enable_backward": False, "optimization_level": 0}, module=kinematics)
    newton.eval_fk(theirs, theirs.joint_q, theirs.joint_qd, state)
    poses = dict(zip([label.rsplit("/")[-1] for label in builder.body_label], state.body_q.numpy(), strict=True))
    for system in model.systems:
        name = "base" if system.name == "root" else system.name
        number = [label.rsplit("/")[-1] for label in builder.body_label].index(name)
        turn = Rotation.from_quat(poses[name][3:])
        com = turn.apply(np.array(builder.body_com[number])) + poses[name][:3]
        assert start[system.name][0][0].tolist() == near(com, SINGLE, scale=1.0), name
        own = Rotation.from_quat(start[system.name][1][0].tolist()).as_matrix()
        file = turn.as_matrix() @ np.array(builder.body_inertia[number]).reshape(3, 3) @ turn.as_matrix().T
        assert np.abs(own @ inertia(system, model) @ own.T - file).max() < 1e-2 * np.abs(file).max(), name


def test_hinges_springs_and_motors_come_over_from_mjcf(tmp_path):
    bodies = (
        '<body name="post" pos="6 0 1" euler="0 0 90"><geom type="box" size="0.1 0.1 0.1"/>'
        '<body name="arm" pos="0.2 0 0"><joint name="hinge" type="hinge" axis="0 1 0" pos="-0.1 0 0" damping="0.2" '
        'stiffness="3" springref="10" armature="0.02"/><geom type="box" size="0.1 0.02 0.02" mass="1"/>'
        '<body name="bob" pos="0.2 0 0"><joint name="knob" type="ball" damping="0.3" armature="0.1"/><geom type="sphere" size="0.05"/>'
        "</body></body></body>"
    )
    motors = '<actuator><motor name="m" joint="hinge" gear="30"/><position name="p" joint="hinge" kp="5"/></actuator>'
    imported = load(mjcf(tmp_path, bodies, motors))
    joints = imported.scene.joints
    assert [j.kind for j in joints.values()] == ["fixed", "revolute", "ball"]
    hinge = joints["hinge"]
    assert hinge.stiffness == 8.0 and hinge.target == pytest.approx(3 / 8 * np.radians(10)) and hinge.damping == 0.2
    assert hinge.parent_point == pytest.approx((0.1, 0, 0)) and hinge.child_point == pytest.approx((-0.1, 0, 0))
    assert joints["knob"].damping == pytest.approx(0.3)
    assert hinge.armature == pytest.approx(0.02)
    assert any("left out: armature" in note and "`knob`" in note for note in imported.notes)
    assert any("actuator `m`" in note and "gear of 30" in note for note in imported.notes)


def test_a_urdf_link_floats(tmp_path):
    path = tmp_path / "can.urdf"
    solid = '<geometry><cylinder radius="0.1" length="0.4"/></geometry>'
    moments = 'ixx="0.03166" iyy="0.03166" izz="0.01" ixy="0" ixz="0" iyz="0"'
    path.write_text(
        f'<robot name="can"><link name="can"><inertial><mass value="2"/><inertia {moments}/></inertial>'
        f"<collision>{solid}</collision></link></robot>"
    )
    imported = load(path)
    can = imported.scene.bodies["can"]
    assert can.mass == 2.0 and can.shape.cylinder.radius == 0.1 and can.shape.cylinder.height == 0.4
    assert imported.scene.grounds == {} and imported.notes == ()


def stage(path, metres=1.0):
    """A y-up stage: a cone with a velocity above a floor, and a camera."""
    Usd, UsdGeom, UsdPhysics, UsdShade = (
        importlib.import_module(f"pxr.{name}") for name in ("Usd", "UsdGeom", "UsdPhysics", "UsdShade")
    )
    world = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(world, "Y")
    UsdGeom.SetStageMetersPerUnit(world, metres)
    clock = UsdPhysics.Scene.Define(world, "/clock")
    clock.CreateGravityDirectionAttr((0, -1, 0))
    clock.CreateGravityMagnitudeAttr(3.7)
    cone = UsdGeom.Cone.Define(world, "/cone")
    cone.CreateRadiusAttr(0.1)
    cone.CreateHeightAttr(0.4)
    cone.CreateAxisAttr("Y")
    cone.AddTranslateOp().Set((0.5, 1, 0))
    UsdPhysics.RigidBodyAPI.Apply(cone.GetPrim()).CreateVelocityAttr((0, 2, 0))
    UsdPhysics.CollisionAPI.Apply(cone.GetPrim())
    UsdPhysics.MassAPI.Apply(cone.GetPrim()).CreateMassAttr(1.5)
    floor = UsdGeom.Plane.Define(world, "/floor")
    floor.CreateAxisAttr("Y")
    UsdPhysics.CollisionAPI.Apply(floor.GetPrim())
    rough = UsdShade.Material.Define(world, "/rough")
    UsdPhysics.MaterialAPI.Apply(rough.GetPrim()).CreateDynamicFrictionAttr(0.6)
    for prim in (floor.GetPrim(), cone.GetPrim()):
        UsdShade.MaterialBindingAPI.Apply(prim).Bind(rough, materialPurpose="physics")
    camera = UsdGeom.Camera.Define(world, "/eye")
    camera.AddTranslateOp().Set((0, 1, 4))
    camera.CreateFocalLengthAttr(24)
    camera.CreateHorizontalApertureAttr(36)
    camera.CreateVerticalApertureAttr(24)
    world.Save()
    return path


def test_a_y_up_usd_stage_is_turned_to_z_up(tmp_path):
    pytest.importorskip("pxr", reason='USD is not installed: pip install "gradsim[newton]"')
    scene = load(stage(tmp_path / "yard.usda")).scene
    cone, floor, camera = scene.bodies["cone"], scene.grounds["floor"], from_scene(scene.camera)
    assert scene.gravity == pytest.approx((0, 0, -3.7), abs=1e-5)
    assert cone.shape.cone.radius == 0.1 and cone.shape.cone.height == 0.4 and cone.mass == 1.5
    assert cone.position == near((0.5, 0, 1 - 0.1), SINGLE, scale=1.0)  # of its mass, a quarter up from the base
    assert Rotation.from_quat(cone.quat_xyzw).apply([0, 0, 1]) == near([0, 0, 1], SINGLE, scale=1.0)
    assert cone.velocity == near((0, 0, 2), SINGLE, scale=1.0)
    assert floor.normal == near((0, 0, 1), SINGLE, scale=1.0) and floor.friction == pytest.approx(0.6)
    assert camera.centre.tolist() == pytest.approx([0, -4, 1]) and camera.K[0, 0].item() == pytest.approx(640 * 24 / 36)
    (u, v), depth = (a.squeeze(0).tolist() for a in camera.project(torch.tensor([[0.0, 0.0, 2.0]]).double()))
    assert depth == pytest.approx(4) and u == pytest.approx(320) and v < camera.height / 2  # what is high is on top


def test_a_stage_in_centimetres_is_refused(tmp_path):
    pytest.importorskip("pxr", reason='USD is not installed: pip install "gradsim[newton]"')
    with pytest.raises(InputError, match=r"metersPerUnit 0.01; Newton reads stages in metres only"):
        load(stage(tmp_path / "yard.usda", 0.01))


def test_files_that_are_none_are_refused(tmp_path):
    with pytest.raises(InputError, match="ends in none of .xml"):
        load(tmp_path / "scene.yaml")
    with pytest.raises(InputError, match="does not exist"):
        load(tmp_path / "scene.xml")
    (tmp_path / "scene.xml").write_text("<mujoco><worldbody></mujoco>")
    with pytest.raises(InputError, match="cannot be read as MJCF"):
        load(tmp_path / "scene.xml")
    (tmp_path / "scene.xml").write_text("<mujoco><worldbody/></mujoco>")
    with pytest.raises(InputError, match="no rigid body"):
        load(tmp_path / "scene.xml")


@pytest.mark.parametrize("included", [False, True])
def test_xml_with_entities_is_refused_before_it_is_read(tmp_path, included):
    """Ten entities of ten others each are 10 GB."""
    laughs = "".join(f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 11))
    bad = tmp_path / ("part.xml" if included else "arm.xml")
    bad.write_text(f'<?xml version="1.0"?><!DOCTYPE mujoco [<!ENTITY a0 "ha">{laughs}]><mujoco>&a10;</mujoco>')
    if included:
        (tmp_path / "arm.xml").write_text('<mujoco><include file="part.xml"/></mujoco>')
    with pytest.raises(InputError, match=f"{bad.name} declares XML entities"):
        load(tmp_path / "arm.xml")
