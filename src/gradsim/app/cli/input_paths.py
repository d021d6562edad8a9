"""Check that the files a command reads exist, before anything heavy is imported: seconds before the command would notice."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

from gradsim.errors import InputError

VIDEO = "give a video file or a folder of png images."
FILES = {  # by option: what is expected
    "video": VIDEO,
    "source": "give a video, an image, or a folder of images.",
    "refine": VIDEO,
    "ignore": VIDEO,
    "tracks": "give a table of tracks (CSV).",
    "log": "give a log (CSV, MCAP, or parquet of LeRobot).",
    "mask": "give a mask video, a folder of png, COCO annotations (.json), or grabcut:X,Y,W,H or color:X,Y,W,H.",
    "background": "give an image or a video of the empty scene, or `median` or `mog2` of the video itself.",
    "candidates": "give a YAML file of models.",
    "intrinsics": "give the capture.json of a calibration.",
    "goal": "give an image.",
    "after": "give the folder of a fit.",
    "among": "give a folder of recordings.",
    "weights": "give a state dictionary of the network (.pt).",
    "prior": "give NAME=MEAN±SD, or a file of numbers with their covariance (.json).",
}
SCENES = ("scene", "more", "subject", "target", "start")
NOT_FILES = re.compile(r"median|mog2|(grabcut|color):.*")
CAMERA = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*=(.+)")  # of CAMERA=VIDEO


def require_inputs(command) -> None:
    """Refuse files that do not exist.

    Args:
        command: A command, a dataclass whose fields are its options.

    Raises:
        InputError: It names the first of them, and what is expected.
    """
    for name, text in _options(command):
        if name in SCENES and not getattr(command, "resume", False):
            _require_scene(text, is_run=name in ("subject", "target"))
        elif name == "task" and Path(text).suffix.lower() in (".yaml", ".yml"):
            _require_yaml(Path(text), "task")
        elif name == "folder" and not Path(text, "dataset.json").exists():
            raise InputError(f"{text} holds no data set; give the folder that `gradsim dataset generate` wrote.")
        elif name in FILES and not (name == "prior" and not text.lower().endswith(".json")):
            camera = CAMERA.fullmatch(text)
            path = Path(camera[1] if camera and not Path(text).exists() else text)
            if not (path.exists() or NOT_FILES.fullmatch(str(path))):
                label = {"background": "the background ", "goal": "the goal image "}.get(name, "")
                raise InputError(f"{label}{path} does not exist; {FILES[name]}")


def _require_scene(text: str, is_run: bool) -> None:
    path = Path(text)
    if path.exists():
        return
    if path.suffix.lower() in (".yaml", ".yml"):
        _require_yaml(path, "scene")
    elif len(path.parts) > 1 or path.suffix:
        folder = ", or the folder of a run" if is_run else ""
        raise InputError(f"{path} does not exist; give a scene file (YAML), the name of a library scene{folder}.")
    else:
        from gradsim.scene import yaml_io

        yaml_io.library(text)  # raises on an unknown name


def _require_yaml(path: Path, label: str) -> None:
    if not path.exists():
        from gradsim.scene import yaml_io

        raise yaml_io.missing_file(path, label)


def _options(command) -> Iterator[tuple[str, str]]:
    """Name and text of each value of the options, those of a group included."""
    for field in fields(command):
        value = getattr(command, field.name)
        if is_dataclass(value):
            yield from _options(value)
        elif not (field.name == "target" and isinstance(value, list)):  # what is in view of `gradsim capture`
            yield from ((field.name, text) for text in _texts(value))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, Path | str):
        yield from [str(value)] if str(value) else []
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
