"""Values put into a scene are those that its parameters then have."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tolerances import ULPS, assert_near

from gradsim import InputError
from gradsim.scene import Scene
from gradsim.scene.exporters.substitution import with_values
from gradsim.scene.parameters import parameters


def test_numbers_and_components_of_all_parts_of_a_scene():
    scene = Scene.library("arm")
    values = {"lower.mass": 0.9, "joints.elbow.axis.x": 0.1, "gravity.z": -9.7, "camera.translation.z": 4.0}
    values |= {"camera.focal": 80.0, "joints.shoulder.damping=joints.elbow.damping": 0.03}
    changed = parameters(with_values(scene, values))
    assert changed["lower.mass"].value == 0.9 and changed["gravity"].value.tolist() == [0, 0, -9.7]
    assert changed["joints.elbow.axis"].value.tolist() == [0.1, scene.joints["elbow"].axis[1], 0]
    assert changed["camera.translation"].value[2] == 4.0 and changed["camera.focal"].value == 80
    assert changed["joints.shoulder.damping"].value == changed["joints.elbow.damping"].value == 0.03
    untouched = {name for name in changed if not any(name in key for key in values)} - {"gravity", "joints.elbow.axis"}
    before = parameters(scene)
    for name in untouched - {"camera.translation"}:
        assert_near(changed[name].value, before[name].value, ULPS)


def test_numbers_of_a_camera_are_put_in_together():
    camera = {"look_at": {"eye": [1, -3, 1], "target": [0, 0, 0], "fov": 0.6}, "size": [64, 48]}
    scene = Scene.parse(
        {
            "camera": camera | {"distortion": [0.0] * 5},
            "bodies": {"ball": {"kind": "pendulum", "string_length": 1.0, "radius": 0.1}},
        }
    )
    turn, place = [0.1, -0.2, 0.3], [0.1, 0.2, 3.0]
    values = {f"camera.rotation_vector.{axis}": x for axis, x in zip("xyz", turn, strict=True)}
    values |= {f"camera.translation.{axis}": x for axis, x in zip("xyz", place, strict=True)}
    values |= {"camera.focal": 80.0, "camera.centre.x": 30.0, "camera.distortion.k1": -0.2}
    changed = with_values(scene, values).camera
    K, R, t = changed.matrices()
    assert K.tolist() == [[80, 0, 30], [0, 80, 24], [0, 0, 1]] and t.tolist() == place
    assert changed.distortion == (-0.2, 0, 0, 0, 0)
    assert_near(R, Rotation.from_rotvec(turn).as_matrix() @ scene.camera.matrices()[1], ULPS)


def test_a_rotation_vector_turns_the_orientation_of_the_file():
    content = Scene.library("cube").model_dump(exclude_unset=True, by_alias=True)
    content["bodies"]["cube"].pop("rotation_vector", None)
    content["bodies"]["cube"]["quat_xyzw"] = [0.5, 0.5, 0.5, 0.5]
    changed = with_values(Scene.parse(content), {"cube.rotation_vector.x": 0.3}).bodies["cube"]
    expected = Rotation.from_rotvec([0.3, 0, 0]) * Rotation.from_quat([0.5] * 4)
    got = Rotation.from_quat(changed.quat_xyzw)
    assert (got * expected.inv()).magnitude() < 1e-15 and not np.any(changed.rotation_vector)


def test_a_vector_is_set_whole_or_by_component():
    whole = with_values(Scene.library("cube"), {"cube.velocity": [1.0, 2.0, 3.0]})
    assert whole.bodies["cube"].velocity == (1.0, 2.0, 3.0)
    assert with_values(whole, {"cube.velocity.y": 5.0}).bodies["cube"].velocity == (1.0, 5.0, 3.0)


def test_numbers_of_another_shape_and_an_unknown_name_are_refused():
    with pytest.raises(
        InputError, match=r"`gravity` is given as 1.0; expected a vector of 3 numbers; give all, or some of gravity.x"
    ):
        with_values(Scene.library("cube"), {"gravity": 1.0})
    with pytest.raises(InputError, match="`cube.mass` is given as .*; expected a number"):
        with_values(Scene.library("cube"), {"cube.mass": [1.0, 2.0]})
    with pytest.raises(InputError, match="did you mean `cube.mass`"):
        with_values(Scene.library("cube"), {"cube.mas": 1.0})
