"""Pages of the docs run from top to bottom, and print what they say."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from gradsim.app.cli import main
from gradsim.app.experiments import experiments
from gradsim.identification.estimators import ESTIMATORS
from gradsim.identification.unknowns import Space, Unknown
from gradsim.losses.registry import LOSSES
from gradsim.physics import model
from gradsim.physics.contact import laws
from gradsim.render.renderer import RASTERIZERS
from gradsim.scene import Scene, contact, scene
from gradsim.scene.parameters import KEYS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REGISTRIES = (
    scene.KINDS,
    KEYS,
    model.KINDS,
    laws.LAWS,
    contact.LAWS,
    RASTERIZERS,
    ESTIMATORS,
    LOSSES,
    experiments(),
)
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Code and what it prints, up to the last that prints; what follows needs files of a reader's own."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    last = max((k for k, (_, printed) in enumerate(found) if printed), default=-1)
    return found[: last + 1]


@pytest.fixture
def registries():
    """What a page registers is gone after it: other tests list the names."""
    saved = [(registry, dict(registry)) for registry in REGISTRIES]
    yield
    for registry, content in saved:
        registry.clear()
        registry.update(content)


PAGES = [str(page.relative_to(DOCS).with_suffix("")) for page in sorted(DOCS.rglob("*.md")) if blocks(page)]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_prints_what_it_says(page, monkeypatch, registries):
    monkeypatch.chdir(ROOT)
    names = {}
    for code, expected in blocks(DOCS / f"{page}.md"):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(code, names)  # noqa: S102 -- it is our own
        printed = "".join(
            line for line in said.getvalue().splitlines(True) if not line.startswith(("Warp ", "Module "))
        )
        assert printed == expected, code


def commands(page: str) -> list[list[str]]:
    """Words of the `gradsim` commands in the blocks of a page."""
    text = "".join(re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL))
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("gradsim ")]


def test_commands_of_your_own_video_have_the_options_that_it_names(capsys):
    listed = commands("docs/guides/your_own_video.md")
    assert {words[0] for words in listed} == {"new", "camera", "fit", "track"}
    for words in listed:
        with pytest.raises(SystemExit, match="0"):
            main.main([words[0], "--help"])
        options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
        assert {word for word in words if word.startswith("--")} <= options, words


def test_unknowns_of_your_own_video_are_those_of_a_scene():
    """Those that a table advises belong to a ball on a ground of constant restitution."""
    page = (ROOT / "docs" / "guides" / "your_own_video.md").read_text(encoding="utf-8")
    names = set(re.findall(r"--unknown ([\w.]+:[-\d.]+:[-\d.]+)", page))
    content = Scene.library("ball").model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    contact = {"law": "constant-restitution", "stiffness": 1e6, "damping": 0.1}
    ball = Scene.parse({key: value for key, value in content.items() if key != "grounds"} | {"ground": contact})
    one_each = {name.split(":")[0]: name for name in sorted(names)}  # ranges of one number may differ
    assert len(one_each) >= 9 and len(Space(ball, [Unknown.parse(name) for name in one_each.values()])) == len(one_each)
    advised = re.findall(r"`((?:ground|camera|timing|gravity|ball)\.\w[\w.]+)`", page)
    files = {"timing.fps", "camera.size", "ball.png", "ball.yaml"}
    assert len([Space(ball, [Unknown.parse(f"{name}:0.5:1.5")]) for name in {*advised} - files]) >= 12
