"""A small valid scene, and what is wrong with a changed one."""

import copy

import pytest

from gradsim.errors import InputError
from gradsim.scene import Scene

SMALL = {
    "timing": {"fps": 30, "frames": 10},
    "bodies": {"cube": {"shape": {"box": {"size": [0.6, 0.48, 0.36]}}, "mass": 5}},
    "ground": {"stiffness": 1e5},
    "camera": {"size": [64, 48], "look_at": {"eye": [0, -4, 1], "target": [0, 0, 0.5], "fov": "45 deg"}},
}


def changed(content: dict, place: str, value) -> dict:
    """A copy with another value at "bodies.cube.mass"; None takes it away."""
    content = copy.deepcopy(content)
    *path, last = place.split(".")
    node = content
    for key in path:
        node = node[int(key)] if isinstance(node, list) else node.setdefault(key, {})
    if value is None:
        del node[last]
    else:
        node[last] = value
    return content


@pytest.fixture
def scene():
    """Make the small scene with other values at dotted places."""

    def make(changes: dict | None = None) -> Scene:
        content = copy.deepcopy(SMALL)
        for place, value in (changes or {}).items():
            content = changed(content, place, value)
        return Scene.parse(content)

    return make


@pytest.fixture
def mistakes(scene):
    """The lines of the message about such a scene, each "place: words"."""

    def find(changes: dict) -> list[str]:
        with pytest.raises(InputError) as error:
            scene(changes)
        head, *lines = str(error.value).split("\n")
        assert head == f"the scene has {f'{len(lines)} mistakes' if len(lines) > 1 else 'a mistake'}:"
        return [line.removeprefix("  ") for line in lines]

    return find


@pytest.fixture
def mistake(mistakes):
    """The only such line."""

    def find(changes: dict) -> str:
        (line,) = mistakes(changes)
        return line

    return find
