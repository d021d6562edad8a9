"""`gradsim fit` of one clip of one camera."""

from pathlib import Path

from gradsim.app.clip_fit import ClipFit
from gradsim.app.commands.fit_job import run_fit
from gradsim.app.commands.fit_log import LogFit
from gradsim.app.commands.fit_tracks import TracksFit
from gradsim.app.job import FitArguments
from gradsim.app.picture_fit import PicturesFit
from gradsim.runtime.progress import Progress


def fit(arguments: FitArguments, out: Path, resume: bool = False, progress: Progress | None = None) -> dict:
    """Identify unknowns of a scene from a video; see `run_fit`. Also writes job.json, residuals.webm and player.html.

    Raises:
        InputError: If an argument is wrong, or the folder holds another or an unfinished run.
    """
    return run_fit(clip_job(arguments), out, resume, progress)


def clip_job(arguments: FitArguments) -> ClipFit:
    """The fit of one clip's outlines, of its pictures, of tracks, or of a log."""
    if arguments.tracks is not None:
        return TracksFit(arguments)
    if arguments.log is not None:
        return LogFit(arguments)
    return PicturesFit(arguments) if arguments.observe == "pictures" else ClipFit(arguments)
