"""Scene files: bit for bit there and back, strict and safe."""

import math
import os

import numpy as np
import pytest
import trimesh
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradsim.errors import InputError
from gradsim.geometry import mesh as meshes
from gradsim.scene import Rigid, Scene, yaml_io

TEXT = """
timing: {fps: 30, frames: 10}
bodies:
  cube:
    shape: {box: {size: [0.6, 0.48, 0.36]}}
    mass: 5 kg
ground: {stiffness: 1e5}
camera: {size: [64, 48], look_at: {eye: [0, -4, 1], target: [0, 0, 0.5], fov: 45 deg}}
"""
LIBRARY = [
    "arm",
    "ball",
    "beam",
    "cube",
    "cube_paper",
    "double_pendulum",
    "flag",
    "gear",
    "jellyfish",
    "pendulum",
    "rope",
    "sheet_throw",
    "soft_ball",
    "throw",
    "top",
    "walker",
]


@pytest.fixture
def load(tmp_path):
    """Load a scene from its text."""

    def read(text: str | bytes) -> Scene:
        path = tmp_path / "drop.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Scene.load(path)

    return read


@pytest.fixture
def refusal(load, tmp_path):
    """The message about a text, without the folder."""

    def read(text: str | bytes) -> str:
        with pytest.raises(InputError) as error:
            load(text)
        return str(error.value).replace(f"{tmp_path}{os.sep}", "")

    return read


def test_a_file_is_a_scene(load, scene):
    assert load(TEXT) == scene({"name": "drop"})


def test_a_scene_without_a_name_has_that_of_its_file(load):
    assert load(TEXT).name == "drop"
    assert load(f"name: tumble\n{TEXT}").name == "tumble"


@pytest.mark.parametrize("name", LIBRARY)
def test_scenes_of_the_library_load_and_come_back(tmp_path, name):
    scene = Scene.library(name)
    scene.save(tmp_path / "again.yaml")
    assert Scene.load(tmp_path / "again.yaml") == scene


def test_the_library_names_its_scenes():
    with pytest.raises(InputError, match="the library has no scene `cub`; did you mean `cube`"):
        Scene.library("cub")
    with pytest.raises(InputError, match=f"choose one of {', '.join(LIBRARY)}"):
        Scene.library("xyzzy")
    assert {p.stem for p in yaml_io.library_files()} >= set(LIBRARY)


numbers = st.floats(-1e300, 1e300)
vectors = st.tuples(numbers, numbers, numbers)
scales = st.floats(1e-300, 1e300)
quaternions = vectors.filter(any).map(lambda v: (*(c / math.hypot(*v, 1.0) for c in v), 1 / math.hypot(*v, 1.0)))
rigid = st.fixed_dictionaries(
    {"shape": st.fixed_dictionaries({"box": st.fixed_dictionaries({"size": st.tuples(scales, scales, scales)})})},
    optional={
        "scale": scales,
        "position": vectors,
        "velocity": vectors,
        "quat_xyzw": quaternions,
        "pushes": st.lists(st.fixed_dictionaries({"impulse": vectors}, optional={"at": scales, "point": vectors})),
    },
)
grounds = st.fixed_dictionaries(
    {"normal": st.tuples(numbers, numbers, scales)},
    optional={"height": numbers, "stiffness": scales, "friction": scales},
)
scenes = st.fixed_dictionaries(
    {
        "name": st.text(st.characters(codec="utf-8"), max_size=20).filter(str.isprintable),
        "bodies": st.dictionaries(
            st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,5}", fullmatch=True).map(lambda n: f"body_{n}"),
            rigid.map(lambda body: {**body, "mass": 1.5}),
            min_size=1,
            max_size=2,
        ),
        "grounds": st.dictionaries(st.sampled_from(["no", "on", "null", "y", "true", "e1", "_1"]), grounds, max_size=2),
        "gravity": vectors,
    }
)


@given(scenes)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_saved_scenes_load_bit_for_bit(tmp_path, content):
    scene = Scene.parse(content)
    scene.save(tmp_path / "any.yaml")
    again = Scene.load(tmp_path / "any.yaml")
    assert repr(again) == repr(scene)  # unlike ==, tells -0.0 from 0.0
    assert again == scene
    other = yaml.safe_load((tmp_path / "any.yaml").read_text(encoding="utf-8"))
    assert other["gravity"] == list(scene.gravity), "readers of YAML 1.1 see the same numbers"


@pytest.mark.parametrize(
    "name", ["1e5", "5", ".5", "true", "null", "~", "", "<<", "on", "1:30", "0x10", "[a", "# a", " a b "]
)
def test_names_that_look_like_something_else_come_back_as_text(tmp_path, scene, name):
    scene({"name": name}).save(tmp_path / "scene.yaml")
    assert Scene.load(tmp_path / "scene.yaml").name == name


def test_an_equals_sign_is_quoted_for_readers_of_yaml_1_1(tmp_path, scene):
    scene({"name": "="}).save(tmp_path / "scene.yaml")
    assert yaml.safe_load((tmp_path / "scene.yaml").read_text(encoding="utf-8"))["name"] == "="


def test_mesh_files_are_saved_relative_to_the_scene(tmp_path):
    solid = meshes.box([1, 1, 1])
    (tmp_path / "meshes").mkdir()
    (tmp_path / "run").mkdir()
    trimesh.Trimesh(solid.vertices, solid.faces).export(tmp_path / "meshes" / "rock.ply")
    content = {"bodies": {"rock": {"shape": {"mesh": {"file": "meshes/rock.ply"}}, "mass": 1}}}
    scene = Scene.parse(content, folder=tmp_path)
    scene.save(tmp_path / "run" / "scene.yaml")
    assert "file: ../meshes/rock.ply" in (tmp_path / "run" / "scene.yaml").read_text()
    moved = tmp_path.with_name(f"{tmp_path.name}-moved")
    tmp_path.rename(moved)
    rock = Scene.load(moved / "run" / "scene.yaml").bodies["rock"]
    assert isinstance(rock, Rigid)
    np.testing.assert_array_equal(rock.shape.mesh().vertices, sorted(solid.vertices.tolist()))


def test_saving_replaces_the_file_and_leaves_nothing_else(tmp_path, scene):
    path = tmp_path / "scene.yaml"
    path.write_text("old")
    scene().save(path)
    assert Scene.load(path) == scene()
    assert [p.name for p in tmp_path.iterdir()] == ["scene.yaml"]


def test_saving_that_fails_keeps_the_old_file(tmp_path, scene, monkeypatch):
    path = tmp_path / "scene.yaml"
    path.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        scene().save(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["scene.yaml"]
    with pytest.raises(InputError, match="the folder .* does not exist; create it first"):
        scene().save(tmp_path / "none" / "scene.yaml")


@pytest.mark.parametrize("text", ["1e5", "'1e5'", "1E+5", "100000", "1.e5", "+1e5", "100 kN/m", '"1e5 N/m"'])
def test_a_stiffness_may_be_written_in_many_ways(load, text):
    assert load(TEXT.replace("1e5", text)) == load(TEXT)


def test_words_and_times_stay_text(load, refusal):
    """YAML 1.1 makes false of `off`, 90 of `1:30`, 8 of `010` and a date of `2026-11-21`."""
    for name in ("off", "no", "1:30", "2026-11-21", "1_000"):
        assert load(f"name: {name}\n{TEXT}").name == name
    assert load(TEXT.replace("cube", "on")).bodies.keys() == {"on"}
    assert load(TEXT.replace("5 kg", "010")).bodies["cube"].mass == 10
    assert "got '1:30'" in refusal(TEXT.replace("5 kg", "1:30"))


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "1e400"])
def test_numbers_that_are_not_finite_are_refused(refusal, value):
    assert "bodies.cube.mass (line 6): got " in refusal(TEXT.replace("5 kg", value))


def test_a_key_that_stands_twice_is_refused_with_its_line(refusal):
    assert refusal(f"{TEXT}ground: {{}}\ntiming:\n  fps: 30\n  fps: 60\n").split("\n") == [
        "drop.yaml has 3 mistakes:",
        "  line 9: the key `ground` appears twice; remove one of them.",
        "  line 10: the key `timing` appears twice; remove one of them.",
        "  line 12: the key `fps` appears twice; remove one of them.",
    ]


def test_mistakes_are_told_with_place_and_line(refusal):
    text = TEXT.replace("5 kg", "-5").replace("fps", "fsp").replace("1e5", "soft")
    assert refusal(text).split("\n") == [
        "drop.yaml has 3 mistakes:",
        "  timing.fsp (line 2): unknown key; did you mean `fps`?",
        "  bodies.cube.mass (line 6): got -5; expected a number above 0 [kg].",
        "  ground.stiffness (line 7): got 'soft'; expected a number, with or without a unit such as N/m.",
    ]


def test_lines_are_those_of_lists_and_anchors_too(refusal):
    text = """
bodies:
  a: &a
    shape: {box: {size: [1, 1, 1]}}
    mass: 1
    pushes:
      - {impulse: [1, 2, 3]}
      - impulse: [1,
          heavy, 3]
  b: {<<: *a, mass: 0}
"""
    assert [line.split(": got")[0] for line in refusal(text).split("\n")[1:]] == [
        "  bodies.a.pushes.1.impulse.1 (line 9)",
        "  bodies.b.mass (line 10)",
        "  bodies.b.pushes.1.impulse.1 (line 9)",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "drop.yaml is empty"),
        ("# nothing", "drop.yaml is empty"),
        ("null", "got None; expected a mapping"),
        ("- 1", "got [1]; expected a mapping with `name`, "),
        ("cube", "got 'cube'; expected a mapping"),
        ("a: [1", "not valid YAML: line 1, column 6: "),
        ("a: b: c", "not valid YAML: line 1, column 5: mapping values are not allowed here."),
        ("a: *b", "undefined alias 'b'"),
        ("? [a]\n: b", "found unhashable key"),
        ("--- 1\n--- 2", "but found another document"),
        ("a: \x00", "not valid YAML"),
        (b"a: \xff\xfe", "cannot be read as a scene file"),
        ("a: " + "[" * 2000, "nested too deeply"),
        ("a: " + "1" * 5000, "not valid YAML"),
        ("1: 2\nbodies: {}", "the key 1 is not text; put it in quotes."),
        ("bodies: &b {b: *b}", "bodies.b"),
        ("name: !!python/name:os.system", "could not determine a constructor"),
        ("bodies: !!python/object/apply:os.system ['touch hacked']", "could not determine a constructor"),
        ("bodies: !!set {cube}", "bodies (line 1): got {'cube'}; expected a mapping"),
    ],
)
def test_what_is_no_scene_file_is_refused(refusal, text, words, tmp_path):
    assert words in refusal(text)
    assert [p.name for p in tmp_path.iterdir()] == ["drop.yaml"]


def test_a_file_that_grows_by_its_aliases_is_refused_at_once(refusal):
    """Nine levels of nine: 10⁹ words, were they written out."""
    rows = ["a0: &a0 [lol]"] + [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 10)]
    message = refusal("\n".join([*rows, "bodies: *a9"]))
    assert "bodies (line 11): got " in message
    assert len(message) < 5000


def test_files_that_are_not_there_get_a_suggestion(load, tmp_path):
    load(TEXT)
    with pytest.raises(InputError, match=r"the scene file .*dorp\.yaml does not exist; did you mean .*drop\.yaml\?"):
        Scene.load(tmp_path / "dorp.yaml")
    with pytest.raises(InputError, match=r'Scene\.library\("cube"\)'):
        Scene.load("cube")
    with pytest.raises(InputError, match="give the path of a YAML file"):
        Scene.load(tmp_path / "none" / "dorp.yaml")
    with pytest.raises(InputError, match="is a folder; expected a scene file"):
        Scene.load(tmp_path)


def test_binary_values_are_refused_where_text_is_expected(tmp_path):
    (tmp_path / "scene.yaml").write_text("name: !!binary aGVsbG8=\nbodies: {}\n")
    with pytest.raises(InputError, match="`!!binary` is not allowed"):
        Scene.load(tmp_path / "scene.yaml")
