"""The JSON schema accepts what gradsim accepts, and shows an editor what it refuses."""

import pytest
import yaml

from gradsim.errors import InputError
from gradsim.scene import Scene, yaml_io
from gradsim.scene.node import Node
from gradsim.scene.reference.schema import model_schema
from gradsim.scene.scene import JOINTS, KINDS, LIGHTS

BASE = """
timing: {fps: 30, frames: 10}
bodies:
  cube: {shape: {box: {size: [60 cm, 0.48, 0.36]}}, mass: 5 kg}
  bob: {kind: pendulum, string_length: 0.5, radius: 0.05}
ground: {stiffness: 1e5}
camera: {size: [64, 48], look_at: {eye: [0, -4, 1], target: [0, 0, 0.5], fov: 45 deg}}
"""


@pytest.fixture
def content():
    """A small scene with other values at dotted places."""

    def make(changes: dict | None = None) -> dict:
        whole = yaml.load(BASE, yaml_io._Loader)
        for place, value in (changes or {}).items():
            *path, last = place.split(".")
            node = whole
            for key in path:
                node = node.setdefault(key, {})
            node[last] = value
        return whole

    return make


@pytest.mark.parametrize("path", yaml_io.library_files(), ids=lambda path: path.stem)
def test_every_scene_of_the_library_is_valid(validator, path):
    validator.validate(yaml.load(path.read_text(encoding="utf-8"), yaml_io._Loader))


@pytest.mark.parametrize("path", yaml_io.library_files(), ids=lambda path: path.stem)
def test_a_saved_scene_is_valid(validator, path, tmp_path):
    Scene.load(path).save(tmp_path / path.name)
    validator.validate(yaml.load((tmp_path / path.name).read_text(encoding="utf-8"), yaml_io._Loader))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gravity": "9.81 m/s^2"},
        {"gravity": [0, 0, "-1.6 m/s^2"]},
        {"timing.substeps": "auto"},
        {"timing.tolerance": float("inf")},
        {"bodies.cube.kind": "rigid"},
        {"bodies.cube.rotation_vector": ["45 deg", 0, 0]},
        {"bodies.bob.angle": "45 deg"},
        {"camera.look_at": {"eye": [0, -4, 1], "target": [0, 0, 0]}, "camera.K": {"focal": "90 px", "centre": [32, 24]}},
        {"contacts.pile": {"between": "all", "stiffness": "100 kN/m"}, "bodies.other": {"shape": {"sphere": {"radius": 1}}, "mass": 1}},
        {"lights.sky": {"kind": "ambient"}},
    ],
    ids=str,
)  # fmt: skip
def test_what_a_scene_accepts_is_valid(validator, content, changes):
    Scene.parse(content(changes))
    validator.validate(content(changes))


@pytest.mark.parametrize(
    ("place", "value", "key"),
    [
        ("bodys", {}, "bodys"),
        ("timing.frame", 3, "frame"),
        ("bodies.cube.masss", 5, "masss"),
        ("bodies.cube.shape", {"bxo": {"size": [1, 1, 1]}}, "bxo"),
        ("bodies.bob.lenght", 1, "lenght"),
        ("ground.frction", 0.5, "frction"),
        ("camera.look_at.eyes", [0, 0, 0], "eyes"),
        ("lights.sky", {"kind": "ambient", "color": [1, 1, 1]}, "color"),
        ("bodies.bob.kind", "pendulums", "pendulums"),
        ("bodies.cube.mass", -1, "-1"),
        ("timing.frames", 1.5, "1.5"),
        ("bodies.cube.position", [0, 0], "[0, 0]"),
        ("lights.sky", {"colour": [1, 1, 1]}, "kind"),
    ],
)
def test_what_a_scene_refuses_is_refused_and_named(validator, content, place, value, key):
    with pytest.raises(InputError):
        Scene.parse(content({place: value}))
    errors = [error.message for error in validator.iter_errors(content({place: value}))]
    assert errors and any(key in message for message in errors)


@pytest.mark.parametrize("model", [Scene, *KINDS.values(), *JOINTS.values(), *LIGHTS.values()])
def test_every_key_has_a_meaning(model: type[Node]):
    """A key that is another part, such as the shape `box`, has the meaning of that part."""
    schema = model_schema(model)
    nodes = {model.__name__: schema, **schema.get("$defs", {})}
    silent = [
        f"{name}.{key}"
        for name, node in nodes.items()
        for key, content in node["properties"].items()
        if key != "kind" and "description" not in content and not any("$ref" in form for form in content["anyOf"])
    ]
    assert silent == []
    assert all(node["description"] for node in nodes.values())
