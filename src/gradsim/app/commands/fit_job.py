"""The pipeline of `gradsim fit` and `gradsim compare`, from videos to a run folder.

    inputs → observation → search → videos and report → result.json

`run_fit` is the pipeline. A `FitJob` is what it fits: one clip (`clip_fit.ClipFit`, which can be resumed), several clips, cameras
or windows (`fit_multi.MultiClipFit`), or several models of one clip (`compare.ModelComparison`). Wrong inputs are
refused before a folder is made, and every file in it appears whole.
"""

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np

from gradsim.app.report.report import write_report
from gradsim.app.run_directory import RunDirectory
from gradsim.errors import InputError
from gradsim.geometry.image_io import to_bytes
from gradsim.identification import synthetic
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.labelled_masks import LabelledMasks
from gradsim.physics.trajectory import Trajectory
from gradsim.runtime.progress import CheckpointStore, NoCheckpoint, NullProgress, Progress
from gradsim.scene import Scene
from gradsim.video.aligned import AlignedFrames
from gradsim.video.windowed import WHOLE_PIXELS
from gradsim.video.write import preview_writer
from gradsim.visualization.overlay_video import overlay, side_by_side
from gradsim.visualization.residual_video import write_residuals

DRAWN_PIXELS = 2**22  # of a large film, drawn at once for its videos: some 150 bytes each


class FitJob(ABC):
    """One fit. The constructor reads the inputs and raises `InputError` if they are wrong.

    Attributes:
        command: Command under which the result is stored.
        title: Title of the report.
    """

    command: ClassVar[str] = "fit"
    title: str

    def finished_result(self, directory: RunDirectory) -> dict | None:
        """Result of the same job if it has ended in this folder; None if it has to be run.

        Raises:
            InputError: If the folder holds a run with other inputs.
        """
        return None

    @abstractmethod
    def build(self) -> None:
        """Build the models."""

    @contextlib.contextmanager
    def open(self, directory: RunDirectory, resume: bool) -> Iterator[CheckpointStore]:
        """Prepare the run folder; jobs that cannot be resumed leave it until they have a result."""
        yield NoCheckpoint()

    @abstractmethod
    def search(self, checkpoint: CheckpointStore, progress: Progress) -> Fit:
        """Estimate the unknowns."""

    @abstractmethod
    def write_videos(self, folder: Path, fit: Fit) -> dict:
        """Write scene and videos of the fit; returns further entries of result.json."""

    def write_interrupted(self, folder: Path, checkpoint: CheckpointStore) -> dict | None:
        """Write the last checkpoint as a result; None: nothing can be resumed, so nothing is written."""
        return None


def run_fit(job: FitJob, out: Path, resume: bool = False, progress: Progress | None = None) -> dict:
    """Run a fit; writes result.json, history.json, report.html, videos and plots.

    Ctrl-C leaves the last checkpoint of a job that can be resumed, with status "interrupted".

    Args:
        job: The fit.
        out: Run folder.
        resume: Whether to continue an unfinished run; the result is that of an uninterrupted run.
        progress: Receives stages and iterations.

    Returns:
        Content of result.json.

    Raises:
        InputError: If `out` holds an unfinished run and `resume` is False, or a run with other inputs.
    """
    progress, directory = progress or NullProgress(), RunDirectory(Path(out))
    if resume and (result := job.finished_result(directory)):
        progress.stage(f"{directory.path} is finished already")
        return result
    progress.stage("building the model")
    job.build()
    with job.open(directory, resume) as checkpoint:
        try:
            fit = job.search(checkpoint, progress)
            progress.stage("writing the report")
            directory.path.mkdir(parents=True, exist_ok=True)
            entries = {"command": job.command, "title": job.title, **job.write_videos(directory.path, fit)}
            fit.save(directory.path, entries)
            result = {**fit.result(), **entries}
            write_report(directory.path)
            checkpoint.clear()
        except KeyboardInterrupt:
            result = job.write_interrupted(directory.path, checkpoint)
            if result is None:
                raise
    progress.done()
    return result


def require_starts(starts: int) -> None:
    """Raise `InputError` for fewer than one start."""
    if starts < 1:
        raise InputError(f"starts is {starts}; use at least 1.")


def write_clip_videos(
    folder: Path,
    scene: Scene,
    fitted: Trajectory,
    path: Path,
    frames: str = "",
    camera: str = "camera",
    suffix: str = "",
) -> tuple[np.ndarray | AlignedFrames, np.ndarray | None]:
    """Write side_by_side.webm and overlay.webm of one camera, some frames at a time.

    Args:
        folder: Run folder.
        scene: Scene of the clip.
        fitted: Fitted trajectory.
        path: Observed video.
        frames: Frames that were used, as in `align_frames`.
        camera: Name of the camera.
        suffix: Suffix of the file names.

    Returns:
        Observed frames (frames, height, width, 3) uint8 and fitted masks (frames, height, width); of a film of more pixels than are kept whole,
        the frames one at a time, and no masks.
    """
    fps = scene.timing.fps
    observed, small = AlignedFrames(path, fps, frames, scene.timing.stamps), None
    size = math.prod(observed.size)
    whole = len(observed) * size <= WHOLE_PIXELS
    step = len(observed) if whole else max(1, DRAWN_PIXELS // size)
    name = lambda kind: folder / f"{kind}{suffix}.webm"
    with preview_writer(name("side_by_side"), fps) as write_pair, preview_writer(name("overlay"), fps) as write_overlay:
        for first in range(0, len(observed), step):
            frames_of_part = range(first, min(first + step, len(observed)))
            part, video = fitted.at(frames_of_part), np.stack([observed[k] for k in frames_of_part])
            mask = synthetic.float_masks(scene, part, camera).masks.numpy()
            write_pair(side_by_side(video, to_bytes(synthetic.render_video(scene, part, camera))))
            write_overlay(overlay(video, mask))
            small = (video, mask) if whole else None
    return small or (observed, None)


def write_residual_video(
    folder: Path, observed: Masks | LabelledMasks, fitted: Trajectory, mask: np.ndarray | None, fps: float
) -> None:
    """Write residuals.webm; masks of a fit that `write_clip_videos` did not return are drawn in the pixels that are compared."""
    if isinstance(observed, Masks) and (mask is None or observed.windows):
        mask = observed.image(fitted).detach().numpy()
    if mask is not None:
        write_residuals(folder, observed, mask, fps)
