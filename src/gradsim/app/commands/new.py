"""`gradsim new`: a first scene file from a clip, with comments, and a picture of it over the clip."""

import shlex
from pathlib import Path

import numpy as np

from gradsim import video as videos
from gradsim.app.job import open_scene
from gradsim.errors import InputError
from gradsim.identification.first_scene import FirstScene, bounce_unknowns, first_scene, regions
from gradsim.runtime.atomic import atomic_path, atomic_write
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.scene import Scene, yaml_io
from gradsim.video.background import MOG2, read_background, subtract_background
from gradsim.video.mask_faults import MaskFaults, mask_faults
from gradsim.video.mask_input import read_masks
from gradsim.visualization.mask_sheet import write_mask_sheet

PICTURES = 3  # frames of the picture: the first, a middle and the last of those that place and speed come from


def new(
    video: Path,
    out: Path,
    start: str = "ball",
    mask: Path | None = None,
    background: str = "median",
    category: str = "",
    size: float | None = None,
    focal: float | None = None,
    distance: float | None = None,
    ground: bool = True,
    progress: Progress | None = None,
) -> str:
    """Write a scene file of a clip, and a picture of it next to it; see `first_scene`.

    Args:
        video: The clip.
        out: Scene file to write.
        start: Library scene, or scene file, with the body's shape and the ground.
        mask: Masks of the body, in place of a background; as in `read_masks`.
        background: Image or video of the empty scene, or "median" or "mog2" of the clip.
        category: Of COCO annotations, as in `read_masks`.
        size: Longest side of the body [m].
        focal: Focal length [px].
        distance: From the camera to the plane of the motion [m].
        ground: Whether the lowest point that the body comes to is the ground.
        progress: Shown meanwhile.

    Returns:
        What was read, taken and guessed, and the next command.

    Raises:
        InputError: If a file exists already or cannot be read, or no body moves in the clip.
    """
    progress = progress or NullProgress()
    picture, flawed = out.with_suffix(".png"), out.with_name(f"{out.stem}_masks.png")
    for path in (out, picture, flawed):
        if path.exists():
            raise InputError(f"{path} exists already; choose another --out, or remove it.")
    content = open_scene(Path(start)).model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    progress.stage(f"reading {video}")
    film = videos.read(video)
    if len(film.frames) < 3:
        raise InputError(f"{video} has {len(film.frames)} frames; expected 3 or more.")
    progress.stage("looking for what moves")
    coverage = _masks(film, video, mask, background, category)
    faults = mask_faults(coverage)
    body = regions(coverage)
    image_size = (film.width, film.height)
    fps = float(f"{film.fps:.6g}")
    first = first_scene(content, body, image_size, fps, len(film.frames), size, focal, distance, ground)
    text = _text(first, video, film, body.frames, start)
    if not out.absolute().parent.is_dir():
        raise InputError(f"the folder {out.absolute().parent} for {out.name} does not exist; create it first.")
    chosen = np.unique(np.linspace(0, min(7, len(body.frames) - 1), PICTURES).round().astype(int))
    with atomic_path(picture) as draft:
        _draw(first.scene, film.frames, body.frames[chosen], draft)
    with atomic_write(out, "w") as file:
        file.write(text)
    if faults.words:
        write_mask_sheet(flawed, film.frames, faults)
    masks = ["--mask", str(mask)] if mask else ["--background", background]
    masks += ["--category", category] if category else []
    return _report(first, video, film, body.frames, out, picture, masks, _warning(faults, flawed))


def _masks(film: videos.Video, video: Path, mask: Path | None, background: str, category: str) -> np.ndarray:
    if mask is not None or category:
        if mask is None:
            raise InputError("got a category (--category) and no COCO annotations; give them (--mask FILE.json).")
        return read_masks(mask, film, video, category=category)
    empty = None if background == "median" else MOG2 if background == MOG2 else read_background(background)
    return subtract_background(film.frames, empty, subsampled=True).masks


def _text(first: FirstScene, video: Path, film: videos.Video, frames: np.ndarray, start: str) -> str:
    """The scene file: comments say where each number comes from."""
    comments = [
        f"# A first scene of {video.name}: {film.width} × {film.height} px, {len(film.frames)} frames at {film.fps:.4g} per second.",
        f"# Shape and mass are from `{start}`. The camera is taken to be level, and the motion to be in the plane y = 0:",
        "# x is right, z is up, y points away from the camera; lengths in m.",
        *(f"#   {part}: {source}." for part, source in first.sources.items()),
    ]
    if frames[0]:
        comments.append(f"#   The body is whole from frame {frames[0]} on: fit with --frames {frames[0]}:")
    content = yaml_io.as_text(first.scene, brief=True)
    return "\n".join(comments) + "\n" + content


def _draw(scene: Scene, film: np.ndarray, frames: np.ndarray, path: Path) -> None:
    """Frames of the clip with the outline of the scene's body, next to one another."""
    import torch
    from PIL import Image

    from gradsim.physics.model import Model
    from gradsim.render.silhouettes import Silhouettes
    from gradsim.visualization.overlay_video import overlay

    model = Model(scene)
    with torch.no_grad():
        trajectory = model.rollout_unchecked(model.values({}), int(frames.max()) + 1)
        mask = Silhouettes.of(scene).union(trajectory.surface, trajectory.values)[0].numpy()
    images = overlay(film[frames], mask[frames])
    Image.fromarray(np.concatenate(list(images), 1)).save(path, format="PNG")


def _report(
    first: FirstScene,
    video: Path,
    film: videos.Video,
    frames: np.ndarray,
    out: Path,
    picture: Path,
    masks: list[str],
    warning: list[str],
) -> str:
    name = next(iter(first.scene.bodies))
    parts = [f"{part}: {source}" for part, source in first.sources.items()]
    command = ["gradsim", "fit", str(out), "--video", str(video), "--noise", "auto"]
    command += masks
    unknowns = [
        *(
            f"{name}.position.{axis}:{x - 0.2:.2f}:{x + 0.2:.2f}"
            for axis, x in _moving(first.scene.bodies[name].position)
        ),
        *(f"{name}.velocity.{axis}:{v - 2:.2f}:{v + 2:.2f}" for axis, v in _moving(first.scene.bodies[name].velocity)),
        "gravity.z:-15:-5",
        *bounce_unknowns(first.scene),
    ]
    command += [*(part for unknown in unknowns for part in ("--unknown", unknown)), "--out", f"runs/{out.stem}"]
    if frames[0]:
        command += ["--frames", f"{frames[0]}:"]
    read = (
        f"{video}: {film.width} × {film.height} px, {len(film.frames)} frames at {film.fps:.4g} per second; a body is whole in "
        f"{len(frames)} of them"
    )
    lines = [
        read,
        *parts,
        f"scene: {out}",
        f"picture: {picture} (is the outline on the body?)",
        *warning,
        f"next: {shlex.join(command)}",
    ]
    return "\n".join(lines)


def _warning(faults: MaskFaults, picture: Path) -> list[str]:
    """Line on masks that cannot be right; none if all may be."""
    return [f"masks: {'; '.join(faults.words)}; see {picture}. Try {faults.advice}"] if faults.words else []


def _moving(vector) -> list[tuple[str, float]]:
    """Components in the plane of the motion, with their axes."""
    return [(axis, component) for axis, component in zip("xyz", vector, strict=True) if axis != "y"]
