"""docs/reference/scenes.md is what the models say, and its examples are scenes."""

import re
from pathlib import Path

import pytest
import yaml

from gradsim.scene import Scene, yaml_io
from gradsim.scene.reference.page import PARTS, SECTIONS, markdown, type_text
from gradsim.scene.reference.schema import model_schema
from gradsim.scene.scene import JOINTS, KINDS, LIGHTS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "scenes.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_is_the_generated_one():
    assert markdown() == PAGE, "run: python -m gradsim.scene.reference.page > docs/reference/scenes.md"


def rows(name: str) -> set[str]:
    """Keys in the table of a model and of its base."""
    part = SECTIONS[name]
    text = PAGE.partition(f"# {part.title}\n")[2].partition("\n#")[0]
    inherited = rows(part.base.__name__) if part.base else set()
    return set(re.findall(r"^\| `([\w.]+)`", text, re.MULTILINE)) | inherited


@pytest.mark.parametrize("model", [Scene, *KINDS.values(), *JOINTS.values(), *LIGHTS.values()])
def test_every_key_is_on_the_page(model):
    schema = model_schema(model)
    nested = {row.partition(".")[2] for part in PARTS for row in rows(part.model.__name__)}
    for name, node in {**schema.get("$defs", {}), model.__name__: schema}.items():
        listed = rows(name) if name in SECTIONS else nested
        assert set(node["properties"]) - {"kind"} <= listed, name


def test_every_link_within_the_page_has_a_heading():
    headings = {line.lstrip("# ").lower().replace(" ", "-") for line in PAGE.splitlines() if line.startswith("#")}
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) <= headings
    assert len({part.title for part in PARTS}) == len(PARTS)


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_is_a_scene(text, validator):
    content = yaml.load(text, yaml_io._Loader)
    assert Scene.parse(content).camera is not None
    validator.validate(content)


def test_the_examples_are_a_box_a_ball_and_a_beam():
    assert [list(Scene.parse(yaml.load(text, yaml_io._Loader)).bodies) for text in EXAMPLES] == [
        ["box"],
        ["ball"],
        ["beam"],
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, "whole number from 1 to 9"),
        ({"type": "number", "exclusiveMinimum": 0.0, "maximum": 1.0}, "number above 0 and at most 1"),
        ({"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3}, "list of 3 numbers"),
        ({"anyOf": [{"enum": ["a"]}, {"type": "null"}, {"type": "boolean"}]}, "`a` or `true` or `false`"),
        ({"additionalProperties": {"$ref": "#/$defs/Push"}, "type": "object"}, "by name: [push](#push)"),
    ],
)
def test_a_type_in_words(content, words):
    assert type_text(content) == words


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/reference/scenes.md"])
def test_commands_of_a_page_read_only_scene_files_that_it_has_written(page):
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    written: set[str] = set()
    for word, name in re.findall(r"(> |--out |)([\w./-]+\.(?:yaml|webm))", "".join(blocks)):
        assert word or name in written or Path(name).parent.as_posix() in re.findall(r"--out (\S+)", "".join(blocks)), (
            name
        )
        written.add(name)
    assert written
