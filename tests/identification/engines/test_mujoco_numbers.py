"""Numbers that MuJoCo's model takes as they are move bodies as a model that was built with them does."""

import numpy as np
import pytest

from gradsim.identification.engines import EngineModel
from gradsim.scene import Scene
from gradsim.scene.exporters.substitution import with_values

pytest.importorskip("mujoco", reason='MuJoCo is not installed: pip install "gradsim[engines]"')

from gradsim.identification.engines.mujoco import MuJoCo

TIMES = np.arange(30) / 50
LINK = {"shape": {"box": {"size": [0.1, 0.1, 0.5]}}, "mass": 1.2}
HINGE = {"kind": "revolute", "axis": [0, 1, 0], "child_point": [0, 0, 0.25], "angle": 0.8, "rate": 2.0}
ARM = {
    "bodies": {"upper": LINK, "lower": LINK | {"mass": 0.7}, "tip": LINK | {"mass": 0.3}},
    "joints": {
        "shoulder": HINGE
        | {"between": ["world", "upper"], "parent_point": [0, 0, 2], "damping": 0.1, "friction": 0.2, "armature": 0.01},
        "elbow": HINGE | {"between": ["upper", "lower"], "parent_point": [0, 0, -0.25], "armature": 0.02},
        "wrist": {
            "kind": "ball",
            "between": ["lower", "tip"],
            "parent_point": [0, 0, -0.25],
            "child_point": [0, 0, 0.25],
            "damping": 0.05,
        },
    },
}
BOX = {"shape": {"box": {"size": [0.2, 0.2, 0.2]}}, "mass": 2.0, "position": [0, 0, 0.099], "velocity": [2, 0, 0]}
SLIDE = {
    "bodies": {"box": BOX, "ghost": BOX | {"position": [0, 2, 1], "collision": "none"}},
    "ground": {"friction": 0.3},
}
OF_ARM = (
    {"joints.shoulder.damping": 0.4, "joints.shoulder.friction": 0.9},
    {"joints.elbow.armature": 0.2, "joints.shoulder.armature": 0.05},
    {"joints.wrist.damping": 0.3},
    {"upper.mass": 2.5, "tip.mass": 0.1},
)


def distance(content: dict, numbers: dict[str, float], monkeypatch) -> tuple[float, int]:
    """Largest difference between the motions by a shared model and by one of its own, and models that the shared one took."""
    scene, built = Scene.parse(content), []
    compiled = MuJoCo._compiled
    monkeypatch.setattr(MuJoCo, "_compiled", lambda engine, scene: built.append(scene) or compiled(engine, scene))
    move = MuJoCo().mover(scene)
    first, shared = move({}, TIMES), move(numbers, TIMES)
    count = len(built)
    alone = MuJoCo()(with_values(scene, numbers), TIMES)
    parts = ("position", "quat_xyzw", "velocity", "angular_velocity")
    apart = lambda a, b: max(float(np.abs(getattr(a[n], key) - getattr(b[n], key)).max()) for n in a for key in parts)
    assert apart(first, alone) > 1e-3  # the numbers matter
    return apart(shared, alone), count


@pytest.mark.parametrize("numbers", OF_ARM, ids=lambda numbers: next(iter(numbers)))
def test_numbers_of_joints_and_masses_are_set_in_a_shared_model(numbers, monkeypatch):
    off, models = distance(ARM, numbers, monkeypatch)
    assert off < 1e-9 and models == 1


def test_friction_of_a_ground_is_set_in_a_shared_model(monkeypatch):
    off, models = distance(SLIDE, {"ground.friction": 0.12}, monkeypatch)
    assert off < 1e-9 and models == 1


@pytest.mark.parametrize("name", ("box.mass", "ground.stiffness", "box.velocity.x"))
def test_numbers_without_a_place_of_their_own_have_a_model_of_their_own(name, monkeypatch):
    off, models = distance(SLIDE, {name: 5000.0 if name.endswith("stiffness") else 1.0}, monkeypatch)
    assert off == 0 and models == 2


def test_an_armature_moves_a_pushed_arm_and_the_springs_of_limits_as_in_a_model_of_its_own(monkeypatch):
    pushed = ARM["bodies"] | {"upper": LINK | {"pushes": [{"impulse": [0.5, 0, 0], "at": 0}]}}
    limited = ARM["joints"] | {"elbow": ARM["joints"]["elbow"] | {"upper": 0.9, "limit_stiffness": 50.0}}
    for content in (ARM | {"bodies": pushed}, ARM | {"joints": limited}):
        off, models = distance(content, {"joints.elbow.armature": 0.3}, monkeypatch)
        assert off == 0 and models == 2


def test_worlds_of_a_model_share_it(monkeypatch):
    scene, built = Scene.parse(ARM | {"timing": {"fps": 50, "frames": 10}}), []
    compiled = MuJoCo._compiled
    monkeypatch.setattr(MuJoCo, "_compiled", lambda engine, scene: built.append(scene) or compiled(engine, scene))
    EngineModel(scene, MuJoCo()).rollout({"joints.elbow.damping": [0.1, 0.2, 0.3, 0.4]})
    assert len(built) <= 2  # two threads may begin at once
