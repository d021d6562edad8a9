"""`gradsim new`: a first scene file from a clip, with comments, and a picture of it over the clip."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradsim.app.clip import read_clip
from gradsim.app.job import open_scene
from gradsim.app.viewer.first_scene_file import check_free, write_scene
from gradsim.app.viewer.scene_editor import SceneEditor
from gradsim.errors import InputError
from gradsim.identification.first_scene import first_scene, resting_scene
from gradsim.identification.observation.from_video import with_times
from gradsim.runtime.progress import Progress

if TYPE_CHECKING:
    from gradsim.app.viewer.editor_page import EditorPage


def new(video: Path, out: Path, **options: Any) -> str:
    """Write a scene file of a clip, and a picture of it next to it.

    Args:
        video: The clip.
        out: Scene file to write.
        options: Of `draft_scene`.

    Returns:
        What was read, taken and guessed, and the next command.

    Raises:
        InputError: If a file exists already or cannot be read, or no body moves in the clip.
    """
    check_free(out)
    return write_scene(draft_scene(video, **options), out)


def edit(video: Path, out: Path, host: str = "127.0.0.1", port: int = 8080, **options: Any) -> "EditorPage":
    """Page on which the first scene of a clip is moved by hand and written; see `EditorPage`.

    Args:
        video: The clip.
        out: Scene file that its button writes.
        host: Address to listen at.
        port: Port to listen at.
        options: Of `draft_scene`.

    Raises:
        InputError: If viser is not installed, the scene file exists already, or as `draft_scene`.
    """
    from gradsim.app.viewer.editor_page import EditorPage

    check_free(out)
    return EditorPage(draft_scene(video, by_hand=True, **options), out, host, port)


def draft_scene(
    video: Path,
    start: str = "ball",
    mask: Path | None = None,
    background: str = "median",
    category: str = "",
    size: float | None = None,
    focal: float | None = None,
    distance: float | None = None,
    ground: bool = True,
    frames: str = "",
    progress: Progress | None = None,
    by_hand: bool = False,
) -> SceneEditor:
    """First scene of a clip, to be edited or written; see `first_scene`.

    Args:
        video: The clip.
        start: Library scene, or scene file, with the body's shape and the ground.
        mask: Masks of the body, in place of a background; as in `read_masks`.
        background: Image or video of the empty scene, or "median" or "mog2" of the clip.
        category: Of COCO annotations, as in `read_masks`.
        size: Longest side of the body, diameter of the ball of a pendulum [m].
        focal: Focal length [px].
        distance: From the camera to the plane of the motion [m].
        ground: Whether the lowest point that the body comes to is the ground.
        frames: "A:B": the frames that count; "": all.
        progress: Shown meanwhile.
        by_hand: True if the body may be placed by hand, where no region is found: it is in the middle of the image then.

    Raises:
        InputError: If a file cannot be read, or, unless `by_hand`, no body moves in the clip.
    """
    content = open_scene(Path(start)).model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    clip = read_clip(video, mask, background, category, frames, progress, by_hand)
    clip_video = clip.video
    extent, lengths = (clip_video.width, clip_video.height), (size, focal, distance)
    fps = float(f"{clip_video.fps:.6g}")
    known = frozenset(name for name, x in zip(("size", "focal", "distance"), lengths, strict=True) if x is not None)
    try:
        if clip.regions is not None:
            first = first_scene(content, clip.regions, extent, fps, len(clip_video.frames), *lengths, ground)
            scene = with_times(first.scene, clip_video.times, clip_video.fps, video)
            return SceneEditor(clip, scene, first.sources, start, known)
    except InputError as error:
        if not by_hand:
            raise
        clip = replace(clip, problem=str(error), regions=None)
    first = resting_scene(content, extent, fps, len(clip_video.frames), *lengths, ground)
    return SceneEditor(
        clip, with_times(first.scene, clip_video.times, clip_video.fps, video), first.sources, start, known
    )
