"""`gradsim plan`: what to film next, from a scene or a fit."""

from collections.abc import Sequence
from pathlib import Path

from gradsim import video as videos
from gradsim.app.job import FitArguments, open_scene, read_record
from gradsim.app.report import plan_plots, plots
from gradsim.app.report.report import write_report
from gradsim.app.run_files import read_result
from gradsim.errors import InputError, Status
from gradsim.geometry.image_io import to_bytes
from gradsim.identification import synthetic
from gradsim.identification.fit import SCHEMA
from gradsim.planning import Design, Plan, plan
from gradsim.runtime.atomic import atomic_path, jsonable, write_json
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.runtime.provenance import versions
from gradsim.scene import Scene

MOST_RECORDINGS = 1000  # of a folder
FILMS = {"best": "The best design.", "present": "The present film."}


def write_plan(
    subject: Path,
    want: Sequence[str],
    out: Path,
    choose: Sequence[str] = (),
    weigh: Sequence[str] = (),
    mark: Sequence[str] = (),
    unknown: Sequence[str] = (),
    prior: Sequence[str] = (),
    after: Path | None = None,
    among: Path | None = None,
    plane: Sequence[str] = (),
    progress: Progress | None = None,
    **options,
) -> dict:
    """Write result.json, report.html, films of the best and the present design, and plots.

    Args:
        subject: Scene file, name of a library scene, or run folder of `gradsim fit`.
        want: As for `plan`.
        out: Output folder.
        choose: As for `plan`.
        weigh: As for `plan`.
        mark: As for `plan`.
        unknown: As `unknowns` of `plan`; none: those of the run.
        prior: As `priors` of `plan`; none: those of the run.
        after: Run folder of an earlier film, whose information counts.
        among: Folder of recordings that are compared.
        plane: Two choices of the map; none: the first two.
        progress: Receives stages.
        **options: Further arguments of `plan`.

    Returns:
        Content of result.json.

    Raises:
        InputError: If an argument is wrong, before any work.
    """
    progress, out = progress or NullProgress(), Path(out)
    scene, about, stated = _subject(Path(subject))
    earlier = None if after is None else _run(after)
    answer = {"about": about, "after": earlier}
    made = plan(
        scene,
        want,
        choose,
        unknowns=unknown,
        priors=list(prior) or stated,
        weigh=weigh,
        mark=mark,
        among=None if among is None else recordings(among),
        plane=(plane[0], plane[1]) if plane else among is None,
        progress=progress,
        **answer,
        **options,
    )
    progress.stage("drawing the films and the report")
    out.mkdir(parents=True, exist_ok=True)
    content = {
        "schema": SCHEMA,
        "command": "plan",
        "title": f"What to film next: {', '.join(w.name for w in made.judge.question.wanted)}",
        "status": Status.OK,
        "subject": str(subject),
        "plan": made.result(),
        "videos": _write_films(out, made),
        "images": _write_plots(out, made),
        "cpu_seconds": made.cpu_seconds,
        "seed": options.get("seed", 0),
        "versions": versions(),
    }
    made.scene().save(out / "scene.yaml")
    content = jsonable(content)
    assert isinstance(content, dict)
    write_json(out / "result.json", content)
    write_report(out)
    progress.done()
    return content


def _subject(path: Path) -> tuple[Scene, dict | None, list]:
    """Scene, result of the fit if it is a run folder, and its priors."""
    if not path.is_dir():
        return open_scene(path), None, []
    result = _run(path)
    record, stated = read_record(path), []
    if record is not None and record["command"] == FitArguments.command:
        stated = FitArguments.load(path).stated_priors
    return Scene.load(path / "scene.yaml"), result, stated


def _run(folder: Path) -> dict:
    """Content of result.json of a fit.

    Raises:
        InputError: If the folder holds none with a scene.
    """
    folder = Path(folder)
    result = read_result(folder) if folder.is_dir() else {}
    if not result.get("unknowns") or not (folder / "scene.yaml").is_file():
        raise InputError(
            f"{folder} holds no fit of one clip (result.json with unknowns, and scene.yaml); give a folder of `gradsim fit`, or a scene file."
        )
    return result


def recordings(folder: Path) -> dict[str, Scene]:
    """Scenes of the recordings in a folder, by label: scene files, and folders with a scene.yaml.

    Raises:
        InputError: If there are fewer than two, or too many.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(
            f"--among is {folder}, which is not a folder; give one with scene files (*.yaml), or folders with a scene.yaml."
        )
    files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    files |= {path.parent.name: path for path in sorted(folder.glob("*/scene.yaml"))}
    if not 2 <= len(files) <= MOST_RECORDINGS:
        raise InputError(
            f"{folder} holds {len(files)} scenes; expected 2 to {MOST_RECORDINGS}: scene files (*.yaml), or folders with a scene.yaml."
        )
    return {label: Scene.load(path) for label, path in files.items()}


def _write_films(out: Path, made: Plan) -> list[dict]:
    """Films of the best and of the present design at the middle of the samples."""
    entries = []
    for name, text in FILMS.items():
        design = made.best if name == "best" else made.present
        film = made.judge.recording(design)
        trajectory, problem = film.trajectory(film.places.mean(0)), film.problem
        scene = problem.model.scene
        for camera in scene.views:
            frames = to_bytes(synthetic.render_video(scene, trajectory, camera))
            file = f"{name}.webm" if camera == "camera" else f"{name}_{camera}.webm"
            videos.write_preview(out / file, frames, scene.timing.fps)
            more = "" if camera == "camera" else f" Camera {camera}."
            entries.append({"file": file, "text": f"{text}{more} {_caption(made, design)}"})
    return entries


def _caption(made: Plan, design: Design) -> str:
    sentence = made.sentence(design)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _write_plots(out: Path, made: Plan) -> list[dict]:
    content, entries = made.result(), []
    draws: list[tuple[str, object, str, str]] = []
    if content["single_changes"] or made.judge.recordings:
        caption = "Standard deviation of the present film over that of each: all else as at present above, the best designs below."
        draws.append(("gains.png", lambda: plan_plots.gains(content), "What each change gains", caption))
    if made.plane:
        caption = (
            "Standard deviation over value with all else as at present. Cross: the present film; ring: the best design."
        )
        draws.append(
            (
                "map.png",
                lambda: plan_plots.plane(content, made.judge.present, made.judge.settings(made.best)),
                "Map",
                caption,
            )
        )
    for file, draw, title, caption in draws:
        with atomic_path(out / file) as draft:
            draft.write_bytes(plots.png(draw))  # pyright: ignore[reportArgumentType] -- a figure
        entries.append({"file": file, "title": title, "caption": caption})
    return entries
