"""Extras one by one: without its packages gradsim imports, and what needs them says how to install them."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = {  # of packages whose name is another one
    "opencv-python-headless": "cv2",
    "stable-baselines3": "stable_baselines3",
    "usd-core": "pxr",
    "newton-usd-schemas": "newton_usd_schemas",
    "mujoco[sysid]": "absl",
}
NOT_OF_USERS = ("dev", "docs", "bench")
CALLS = [  # a command that needs an extra
    ("data", ["dataset", "generate", "rigid", "--n", "1", "--sizes", "32", "--out", "data"]),
    ("control", ["control", "throw", "--method", "cma", "--quick"]),
    ("capture", ["capture", "image.png", "--target", "a4"]),
    ("capture", ["track", "clip.webm", "--auto", "3"]),
    ("capture", ["reproduce", "capture", "--quick"]),
    ("masks", ["new", "clip.webm", "--background", "mog2", "--out", "first.yaml"]),
    ("mitsuba", ["render", "cube", "--renderer", "mitsuba"]),
    ("newton", ["import", "robot.xml", "--out", "robot.yaml"]),
    ("tet", ["simulate", "mesh.yaml"]),
    ("viewer", ["view", "cube"]),
    ("ray", ["reproduce", "table1", "--quick", "--engine", "ray"]),
    ("engines", ["fit", "cube", "--video", "clip.webm", "--unknown", "cube.mass:2:12", "--engine", "mujoco"]),
    ("baselines", ["reproduce", "pybullet", "--quick"]),
    ("logs", ["fit", "logged.yaml", "--log", "log.mcap", "--unknown", "lower.mass:0.3:2"]),
    ("c3d", ["fit", "marked.yaml", "--tracks", "markers.c3d", "--unknown", "cube.mass:2:12", "--noise", "0.001"]),
]
OF_AN_EXTRA = (  # modules that commands import after a check of their extra
    "gradsim.control.baselines.ppo_env",
    "gradsim.control.gym.env",
    "gradsim.control.gym",
    "gradsim.render.mitsuba.frame",
)
BLOCKED = """
import importlib.abc, sys
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
"""


def extras() -> dict[str, list[str]]:
    """Import names of the packages of each extra for users."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    names = {extra: [re.split("[;<>]", line)[0].strip() for line in lines] for extra, lines in stated.items()}
    return {
        extra: [MODULES.get(name, name) for name in lines]
        for extra, lines in names.items()
        if extra not in NOT_OF_USERS
    }


def run(program: str, folder: Path) -> str:
    """What a program without the packages of any extra writes to stderr."""
    names = sorted({name for packages in extras().values() for name in packages})
    code = BLOCKED.format(names=names) + program
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, text=True)
    return done.stderr


def test_every_extra_has_a_command_that_needs_it():
    assert {extra for extra, _ in CALLS} == set(extras())


@pytest.mark.slow
def test_a_command_names_the_extra_that_it_needs(tmp_path):
    from gradsim import Scene, examples

    examples.clip("cube", tmp_path / "clip.webm")
    (tmp_path / "image.png").write_bytes((ROOT / "docs" / "images" / "soft.png").read_bytes())
    for name in ("robot.xml", "markers.c3d", "mesh.msh", "log.mcap"):
        (tmp_path / name).write_text("<mujoco/>")
    (tmp_path / "mesh.yaml").write_text(
        "bodies: {blob: {kind: solid, shape: {mesh: {file: mesh.msh}}, density: 1000, young: 1e5, poisson: 0.3}}\n"
    )
    Scene.library("cube").save(tmp_path / "marked.yaml")
    with (tmp_path / "marked.yaml").open("a") as file:
        file.write("markers: {corner: {body: cube, point: [0.05, 0, 0]}}\n")
    Scene.library("arm").save(tmp_path / "logged.yaml")
    with (tmp_path / "logged.yaml").open("a") as file:
        file.write("channels: {q: {joint: elbow, quantity: angle}}\n")
    program = f"""
from gradsim.app.cli.main import main
for extra, words in {CALLS!r}:
    print("<", main(words), file=sys.stderr)
"""
    panels = [" ".join(panel.split()) for panel in run(program, tmp_path).replace("│", " ").split("<")]
    wrong = []
    for k, (extra, words) in enumerate(CALLS):
        code = panels[k + 1].split()[0]
        if code != "2" or f"gradsim[{extra}]" not in panels[k]:
            wrong.append(f"{' '.join(words)}: exit {code}, {panels[k]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_every_module_imports_without_an_extra_or_names_it(tmp_path):
    program = """
import importlib, pkgutil, gradsim
for module in pkgutil.walk_packages(gradsim.__path__, "gradsim."):
    if not module.name.endswith(("kernels", "__main__")):  # templates, and programs
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            print("<", module.name, file=sys.stderr)
        except gradsim.InputError as error:
            assert "gradsim[" in str(error), error
"""
    assert set(run(program, tmp_path).split("<")[1:]) <= {f" {name}\n" for name in OF_AN_EXTRA}
