"""Small MJCF, URDF and USD files, written here, become the scenes that they mean; what does not fit is named."""

import importlib
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from gradsim import InputError
from gradsim.render.camera import from_opengl, from_scene
from gradsim.scene import importers

newton = pytest.importorskip("newton", reason='Newton is not installed: pip install "gradsim[newton]"')


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


def test_a_box_on_a_tilted_floor_comes_over_from_mjcf(tmp_path):
    imported = load(mjcf(tmp_path))
    scene = imported.scene
    assert scene.name == "yard" and scene.gravity == (0.0, 0.0, -3.7)
    box, floor = scene.bodies["box"], scene.grounds["floor"]
    assert box.shape.box.size == (0.2, 0.4, 0.6) and box.mass == 2.0 and box.colour == (1.0, 0.0, 0.0)
    turn = Rotation.from_euler("y", 30, degrees=True)
    assert box.position == pytest.approx(turn.apply([0.05, 0, 0]) + (0, 0, 1), abs=1e-6)  # the middle of the shape
    assert box.quat_xyzw == pytest.approx(turn.as_quat(), abs=1e-6)
    normal = np.array([np.sin(np.radians(10)), 0, np.cos(np.radians(10))])
    assert floor.normal == pytest.approx(normal, abs=1e-6) and floor.height == pytest.approx(0.1 * normal[2], abs=1e-6)
    assert floor.friction == 0.7  # MuJoCo takes the larger of the two
    assert imported.notes == (
        (
            "contact: the file has no stiffness and damping of a spring law, so gradsim's defaults stand; "
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
        assert body.mass == pytest.approx(500 * 4 / 3 * np.pi * 1e-3, rel=1e-6)
    if kind == "capsule":  # its axis is the world's x
        assert abs(Rotation.from_quat(body.quat_xyzw).apply([0, 0, 1])[0]) == pytest.approx(1, abs=1e-6)
    assert not [n for n in imported.notes if "inertia" in n]  # faceted and round agree to a percent


def test_a_mesh_is_written_beside_the_scene_and_saved_with_it(tmp_path):
    asset = '<asset><mesh name="tet" vertex="0 0 0  0.3 0 0  0 0.3 0  0 0 0.3"/></asset>'
    path = mjcf(tmp_path, free("tet", 'type="mesh" mesh="tet" mass="1"', "4 0 1"), asset)
    with pytest.raises(InputError, match=r"has meshes \(tet\); give a `mesh_folder`"):
        load(path)
    scene = load(path, tmp_path / "meshes").scene
    assert scene.bodies["tet"].position == pytest.approx((4.075, 0.075, 1.075), abs=1e-6)  # a quarter of each edge
    assert scene.bodies["tet"].shape.mesh().volume == pytest.approx(0.3**3 / 6, rel=1e-6)
    scene.save(tmp_path / "scene.yaml")
    assert "file: meshes/tet.obj" in (tmp_path / "scene.yaml").read_text()
    assert type(scene).load(tmp_path / "scene.yaml").bodies == scene.bodies


FOREIGN = (
    '<body name="arm" pos="5 0 1"><joint name="hinge" type="hinge"/><geom type="box" size="0.1 0.1 0.1"/></body>'
    '<body name="post" pos="6 0 1"><geom type="box" size="0.1 0.1 0.1"/></body>'
    '<body name="pair" pos="7 0 1"><freejoint/><geom name="a" type="sphere" size="0.1"/>'
    '<geom name="b" type="sphere" size="0.2" pos="0 0 1"/></body>'
)


def test_what_a_scene_cannot_say_is_named_in_one_message(tmp_path):
    path = mjcf(tmp_path, FOREIGN, '<actuator><motor name="m" joint="hinge"/></actuator>')
    with pytest.raises(InputError) as error:
        load(path)
    for words in (
        "joint `hinge` of body `arm` is revolute",
        "body `post` is fixed",
        "body `pair` is made of 2 shapes (a, b)",
        "actuator `m` (motor)",
    ):
        assert words in str(error.value)
    imported = load(path, skip=True)
    assert list(imported.scene.bodies) == ["box"]
    assert sum(note.startswith("left out:") for note in imported.notes) == 4


def test_sensors_keyframes_and_moving_cameras_are_noted(tmp_path):
    body = '<body name="eye" pos="0 0 3"><freejoint/><geom type="sphere" size="0.1"/><camera name="inside"/></body>'
    extra = '<keyframe><key name="home" time="0"/></keyframe><sensor><clock name="watch"/></sensor>'
    notes = " ".join(load(mjcf(tmp_path, body, extra)).notes)
    for words in ("keyframe `home`", "sensor `watch`", "camera `inside`, which moves with a body"):
        assert words in notes


def test_a_body_of_other_inertia_than_its_shape_is_reported(tmp_path):
    inertial = '<inertial pos="0 0 0.1" mass="3" diaginertia="0.1 0.1 0.1"/><geom type="cylinder" size="0.1 0.2"/>'
    imported = load(mjcf(tmp_path, f'<body name="top" pos="0 0 2"><freejoint/>{inertial}</body>'))
    assert imported.scene.bodies["top"].mass == 3.0
    notes = " ".join(imported.notes)
    assert "`top`: the file's centre of mass is 0.1 m from that of the shape" in notes
    # a cylinder: m (3 r² + h²)/12 = 0.0475, m r²/2 = 0.015
    assert "`top`: the file's inertia (0.1, 0.1, 0.1) kg m² is" in notes


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
    hinged = path.read_text().replace(
        "</robot>",
        f'<link name="lid"><collision>{solid}</collision></link><joint name="hinge" type="revolute"><parent link="can"/>'
        '<child link="lid"/><axis xyz="0 1 0"/><limit effort="1" velocity="1" lower="0" upper="1"/></joint></robot>',
    )
    path.write_text(hinged)
    with pytest.raises(InputError, match="joint `hinge` of body `lid` is revolute"):
        load(path)


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
    assert cone.position == pytest.approx((0.5, 0, 1 - 0.1), abs=1e-6)  # of its mass, a quarter up from the base
    assert Rotation.from_quat(cone.quat_xyzw).apply([0, 0, 1]) == pytest.approx([0, 0, 1], abs=1e-6)
    assert cone.velocity == pytest.approx((0, 0, 2), abs=1e-6)
    assert floor.normal == pytest.approx((0, 0, 1), abs=1e-6) and floor.friction == pytest.approx(0.6)
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
    with pytest.raises(InputError, match="there is no file"):
        load(tmp_path / "scene.xml")
    (tmp_path / "scene.xml").write_text("<mujoco><worldbody></mujoco>")
    with pytest.raises(InputError, match="cannot be read as MJCF"):
        load(tmp_path / "scene.xml")
    (tmp_path / "scene.xml").write_text("<mujoco><worldbody/></mujoco>")
    with pytest.raises(InputError, match="no free rigid body"):
        load(tmp_path / "scene.xml")
