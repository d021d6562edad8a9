"""The file of a first scene, with comments that say where each number comes from, its picture, and what to do next."""

import shlex
from collections.abc import Collection
from pathlib import Path

import numpy as np

from gradsim.app.clip import ObservedClip
from gradsim.app.viewer.scene_editor import SceneEditor
from gradsim.errors import InputError
from gradsim.identification.first_scene import first_unknowns
from gradsim.runtime.atomic import atomic_path
from gradsim.scene import Scene, yaml_io
from gradsim.visualization.mask_sheet import write_mask_sheet

PICTURES = 3  # frames of the picture: the first, a middle and the last of those that place and speed come from
LOOKED_AT = 8  # frames that place and speed come from


def check_free(out: Path) -> tuple[Path, Path]:
    """Paths of the picture of a scene file, and of the sheet of bad masks.

    Raises:
        InputError: If one of the three exists, or their folder does not.
    """
    picture, flawed = out.with_suffix(".png"), out.with_name(f"{out.stem}_masks.png")
    for path in (out, picture, flawed):
        if path.exists():
            raise InputError(f"{path} exists already; choose another --out, or remove it.")
    if not out.absolute().parent.is_dir():
        raise InputError(f"the folder {out.absolute().parent} for {out.name} does not exist; create it first.")
    return picture, flawed


def write_scene(editor: SceneEditor, out: Path) -> str:
    """Write a scene file and its picture, both or none.

    Args:
        editor: The scene over its clip.
        out: Scene file.

    Returns:
        What was read, taken and guessed, and the next command.

    Raises:
        InputError: If a file exists already, its folder does not, or the scene cannot be simulated.
    """
    from PIL import Image

    if out.suffix.lower() not in (".yaml", ".yml"):
        raise InputError(f"the scene file is {out}; its name ends in .yaml.")
    picture, flawed = check_free(out)
    clip = editor.clip
    images = [editor.picture(frame) for frame in _chosen(clip)]
    with atomic_path(picture) as drawn_picture, atomic_path(out) as text:
        Image.fromarray(np.concatenate(images, 1)).save(drawn_picture, format="PNG")
        text.write_text(_text(editor), encoding="utf-8")
    if clip.faults.words and clip.regions is not None:
        write_mask_sheet(flawed, clip.video.frames, clip.faults)
        return _report(
            editor, out, picture, [f"masks: {'; '.join(clip.faults.words)}; see {flawed}. Try {clip.faults.advice}"]
        )
    return _report(editor, out, picture, [])


def _chosen(clip: ObservedClip) -> list[int]:
    """Frames of the picture."""
    frames = np.arange(len(clip.video.frames)) if clip.regions is None else clip.regions.frames
    last = min(LOOKED_AT, len(frames)) - 1
    return frames[np.unique(np.linspace(0, last, PICTURES).round().astype(int))].tolist()


def _read(clip: ObservedClip) -> str:
    video = clip.video
    return f"{video.width} × {video.height} px, {len(video.frames)} frames at {video.fps:.4g} per second"


def _text(editor: SceneEditor) -> str:
    """The scene file: comments say where each number comes from."""
    clip = editor.clip
    comments = [
        f"# A first scene of {clip.path.name}: {_read(clip)};",
        f"# {'; '.join(clip.properties.words)}.",
        f"# Shape and mass are from `{editor.start}`. The motion is taken to be in the plane y = {editor.position(0)[1]:g}, and the camera",
        "# to be level unless a comment below says that it was turned: x is right, z is up, y points away from the camera; lengths in m.",
        *(f"#   {part}: {source}." for part, source in editor.sources.items()),
    ]
    if clip.regions is not None and clip.regions.frames[0]:
        first = clip.regions.frames[0]
        comments.append(f"#   The body is whole from frame {first} on: fit with --frames {first}:")
    return "\n".join(comments) + "\n" + yaml_io.as_text(editor.scene, brief=True)


def fit_command(scene: Scene, clip: ObservedClip, out: Path, known: Collection[str] = ()) -> str:
    """Command that fits a scene to its clip, with the unknowns of a first fit.

    Args:
        scene: Scene of one body.
        clip: The clip.
        out: Its file.
        known: Which of "size", "focal" and "distance" are known.
    """
    command = ["gradsim", "fit", str(out), "--video", str(clip.path), "--noise", "auto"]
    command += [part for unknown in first_unknowns(scene, known) for part in ("--unknown", unknown)]
    return shlex.join([*command, *clip.options, "--out", f"runs/{out.stem}"])


def _report(editor: SceneEditor, out: Path, picture: Path, warning: list[str]) -> str:
    clip = editor.clip
    whole = 0 if clip.regions is None else len(clip.regions.frames)
    lines = [
        f"{clip.path}: {_read(clip)}; a body is whole in {whole} of them",
        *clip.properties.words,
        *(f"{part}: {source}" for part, source in editor.sources.items()),
        f"scene: {out}",
        f"picture: {picture} (is the outline on the body?)",
        *warning,
        f"next: {fit_command(editor.scene, clip, out, editor.known)}",
    ]
    return "\n".join(lines)
