"""Seeded mutations of right inputs: scenes, meshes, videos, run folders, data sets and command lines."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from run_cases import write_inputs

from gradsim.app.cli.main import main
from gradsim.geometry import mesh, tet_grid, tet_io

NUMBERS = (
    "0",
    "-1",
    "1e300",
    "1e-300",
    "-1e300",
    ".nan",
    ".inf",
    "1e15",
    "99999999999999999999",
    "٣",
    '""',
    "null",
    "[]",
    "{}",
)
VALUES = (None, -1, 0, 1e300, "", "x", [], {}, [1], {"a": 1}, True, 10**30, "a" * 10_000)
OBJ, TET = "mesh.obj", "mesh.tet"


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        family: Kind of input.
        arguments: Command line.
        corrupt: True if exit code 0 is silence.
    """

    family: str
    arguments: tuple[str, ...]
    corrupt: bool = False


def write_corpus(folder: Path) -> None:
    """Write right inputs into an empty folder: scene, video, meshes, run folder `fit`, data set `data`."""
    folder.mkdir(parents=True)
    write_inputs(folder)
    box = mesh.box((0.5, 0.4, 0.3))
    lines = [f"v {x} {y} {z}" for x, y, z in box.vertices] + [f"f {a} {b} {c}" for a, b, c in box.faces + 1]
    (folder / OBJ).write_text("\n".join(lines) + "\n")
    tet_io.save(tet_grid.box((0.5, 0.4, 0.3), (1, 1, 1)), folder / TET)
    scene = (folder / "scene.yaml").read_text()
    (folder / "meshed.yaml").write_text(
        scene.replace("      box:\n        size: [0.5, 0.4, 0.3]", f"      mesh: {{file: {OBJ}}}")
    )
    (folder / "solid.yaml").write_text(
        f"bodies: {{cube: {{kind: solid, shape: {{mesh: {TET}}}, density: 500}}}}\ntiming: {{frames: 2}}\n"
    )
    files = ("--video", str(folder / "video.webm"), "--unknown", "cube.mass:1:9", "--starts", "1")
    assert main(["fit", str(folder / "scene.yaml"), *files, "--out", str(folder / "fit")]) in (0, 3)
    assert main(["dataset", "generate", "rigid", "--n", "2", "--sizes", "32", "--out", str(folder / "data")]) == 0


def cases(corpus: Path, count: int, seed: int = 0) -> Iterator[tuple[Case, Callable[[Path], None]]]:
    """Cases, each with a function that writes its inputs into a copy of the corpus."""
    for k in range(count):
        rng = np.random.default_rng((seed, k))
        yield FAMILIES[k % len(FAMILIES)](rng)


def copy_corpus(corpus: Path, folder: Path) -> None:
    """A fresh copy, in which a case runs."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(corpus, folder)


def _scene(rng):
    def write(folder: Path) -> None:
        path = folder / "scene.yaml"
        lines = path.read_text().splitlines()
        for _ in range(rng.integers(1, 4)):
            lines = _mutate_lines(lines, rng)
        path.write_text("\n".join(lines) + "\n")

    return Case("scene", ("simulate", "scene.yaml", "--out", "run")), write


def _mutate_lines(lines: list[str], rng) -> list[str]:
    k, how = int(rng.integers(len(lines))), rng.integers(5)
    if how == 0:
        return lines[:k] + lines[k + 1 :]
    if how == 1:
        return [*lines[:k], lines[k], *lines[k:]]
    if how == 2:
        place = int(rng.integers(len(lines[k]) + 1))
        return [
            *lines[:k],
            lines[k][:place] + str(rng.choice(list("{}[]:-&*!#'\"\t%@"))) + lines[k][place:],
            *lines[k + 1 :],
        ]
    words = lines[k].split(" ")
    digits = [i for i, word in enumerate(words) if any(c.isdigit() for c in word)]
    if digits:
        i = int(rng.choice(digits))
        words[i] = str(rng.choice(NUMBERS)) + ("," if words[i].endswith(",") else "]" if words[i].endswith("]") else "")
    return [*lines[:k], " ".join(words), *lines[k + 1 :]]


def _bytes(path: Path, rng) -> None:
    content = bytearray(path.read_bytes())
    how = rng.integers(4)
    if how == 0:
        content = content[: rng.integers(len(content))]
    elif how == 1:
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    elif how == 2:
        for place in rng.integers(len(content), size=10):
            content[place] = rng.integers(256)
    else:
        place = int(rng.integers(len(content)))
        content[place:place] = rng.bytes(20)
    path.write_bytes(content)


def _mesh(rng):
    name = (OBJ, TET)[rng.integers(2)]
    scene = "meshed.yaml" if name == OBJ else "solid.yaml"
    return Case("mesh", ("simulate", scene, "--out", "run")), lambda folder: _bytes(folder / name, rng)


def _video(rng):
    options = ("--unknown", "cube.mass:1:9", "--points", "2", "--out", "run")
    kind = ("video", "mask")[rng.integers(2)]
    files = ("--video", "video.webm") if kind == "video" else ("--video", "video.webm", "--mask", "copy.webm")

    def write(folder: Path) -> None:
        shutil.copy(folder / "video.webm", folder / "copy.webm")
        _bytes(folder / ("video.webm" if kind == "video" else "copy.webm"), rng)

    return Case(kind, ("landscape", "scene.yaml", *files, *options)), write


def _run_folder(rng):
    name = ("job.json", "result.json", "history.json")[rng.integers(3)]
    commands = (
        ("fit", "--resume", "fit"),
        ("render", "fit", "--frame", "0", "--out", "run"),
        ("landscape", "fit", "--unknown", "cube.mass", "--points", "2", "--out", "run"),
    )

    def write(folder: Path) -> None:
        path = folder / "fit" / name
        if rng.integers(3) == 0:
            _bytes(path, rng)
        else:
            path.write_text(json.dumps(_mutate_json(json.loads(path.read_text()), rng)))

    return Case("run folder", commands[rng.integers(len(commands))]), write


def _mutate_json(content, rng):
    if isinstance(content, dict) and content and rng.integers(6):
        key = list(content)[rng.integers(len(content))]
        how = rng.integers(4)
        if how == 0:
            return {k: v for k, v in content.items() if k != key}
        return {**content, key: _mutate_json(content[key], rng)}
    return VALUES[rng.integers(len(VALUES))]


def _data_set(rng):
    commands = (("show", "data", "0", "--out", "run"), ("export", "data", "--to", "webdataset", "--out", "run"))
    names = (
        "pictures/frames_32/c.0.0.0.0.0",
        "pictures/masks_32/c.0.0.0.0",
        "labels/000000.parquet",
        "units/000000.json",
    )
    name = names[rng.integers(len(names))]
    case = Case("data set", ("dataset", *commands[rng.integers(2)]), corrupt=True)
    return case, lambda folder: _bytes(folder / "data" / name, rng)


def _command_line(rng):
    options = {
        "simulate": ("--out",),
        "render": (
            "--frame",
            "--size",
            "--sheet",
            "--strip",
            "--turntable",
            "--camera",
            "--format",
            "--shading",
            "--spp",
        ),
        "landscape": ("--points", "--unknown", "--noise", "--video", "--mask"),
        "camera": ("--length", "--points", "--solve", "--at", "--tilt", "--click"),
        "explain": ("--unknown", "--video", "--mask"),
    }
    command = list(options)[rng.integers(len(options))]
    values = (
        *NUMBERS,
        "a" * 300,
        "\0",
        "x:y",
        "cube.mass:9:1",
        "cube.mass:1:9",
        "1,2,3",
        "2x2",
        "1e9",
        "/dev/zero",
        "run/x",
        "é",
    )
    words = [command, ("scene.yaml", "fit", "video.webm", "nothing.yaml")[rng.integers(4) if rng.integers(2) else 0]]
    for name in rng.choice(options[command], rng.integers(1, 4)):
        words += [f"{name}={values[rng.integers(len(values))]}"]
    if command != "simulate":
        words += ["--out", "run.yaml" if command == "camera" else "run"]
    return Case("command line", tuple(words)), lambda folder: None


FAMILIES = (_scene, _mesh, _scene, _run_folder, _data_set, _command_line, _run_folder, _video)
