"""Report page of a run folder: one self-contained HTML file.

It is made from result.json and, where they exist, history.json (the search), side_by_side.webm, overlay.webm and
residuals.webm (videos), player.html (the trajectory in 3-D), and the images that `result["images"]` lists as {"file",
"title", "caption"}.
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from gradsim.app.report import plots
from gradsim.app.report.page import Image, data_uri, plot, template
from gradsim.app.report.plots import profiles, residual_diagnostics
from gradsim.app.report.sections import Section, sections, video_notes
from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_path

VIDEO_CAPTIONS = {
    "side_by_side.webm": "Video, left, and fit, right.",
    "overlay.webm": "Outline of the fit over the video.",
    "residuals.webm": "Residuals in units of the noise. Red: the fit covers more than the video; blue: less.",
}


def write_report(folder: str | Path) -> Path:
    """Write report.html and its plots (png) into a run folder.

    Args:
        folder: Run folder with result.json.

    Returns:
        Path of the report.

    Raises:
        InputError: If result.json does not exist.
    """
    folder = Path(folder)
    if not (folder / "result.json").is_file():
        raise InputError(f"{folder} holds no result.json; give a folder made by `gradsim fit`, `demo` or `reproduce`.")
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    fits = sections(result)
    history = _history(folder)
    videos = {video["file"]: video["text"] for video in result.get("videos", ())} or VIDEO_CAPTIONS
    page = template("report.html.j2").render(
        result=result,
        video_notes=video_notes(result),
        fits=list(zip(fits, _intervals(folder, fits, history), strict=True)),
        videos=[(data_uri(folder / name), text) for name, text in videos.items() if (folder / name).is_file()],
        player=_player(folder),
        tables=_tables(result),
        images=[
            *_residuals(folder, fits),
            *_profiles(folder, fits),
            *_search(folder, fits, history),
            *_listed_images(folder, result),
        ],
    )
    path = folder / "report.html"
    with atomic_path(path) as draft:
        draft.write_text(page, encoding="utf-8")
    return path


def _player(folder: Path) -> str:
    """Content of player.html, which the report embeds; "" if there is none."""
    path = folder / "player.html"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _history(folder: Path) -> dict:
    """Stages and starts of the search; empty without history.json."""
    path = folder / "history.json"
    content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {"stages": content.get("stages") or [], "starts": content.get("starts") or {}}


def _intervals(folder: Path, fits: list[Section], history: Mapping) -> list[Image]:
    """Estimates in their ranges, one plot per fit."""
    population = history["starts"]
    initial = (
        dict(zip(population["names"], zip(*population["initial"], strict=True), strict=True)) if population else {}
    )
    caption = "Bars are the ranges that the starts were drawn from; whiskers are 95 % intervals."
    names = ["intervals.png", *(f"intervals_{k}.png" for k in range(2, len(fits) + 1))]
    return [
        plot(folder / name, lambda fit=fit: plots.intervals(fit, initial), fit.title, caption)
        for name, fit in zip(names, fits, strict=False)
    ]


def _residuals(folder: Path, fits: list[Section]) -> list[Image]:
    """Residual diagnostics of each fit."""
    images = []
    diagnosed = [(fit, d) for fit in fits if (d := fit.residual_diagnostics) and len(d["chi2_per_n"]) > 1]
    for k, (fit, diagnostics) in enumerate(diagnosed, 1):
        name = "residuals.png" if k == 1 else f"residuals_{k}.png"
        title = "Residuals" if len(diagnosed) == 1 else f"Residuals ({fit.title.removeprefix('Unknowns: ')})"
        images.append(plot(folder / name, partial(residual_diagnostics, diagnostics), title, diagnostics["words"]))
    return images


def _profiles(folder: Path, fits: list[Section]) -> list[Image]:
    """Profile likelihoods of each fit that has them."""
    images = []
    for k, fit in enumerate((fit for fit in fits if fit.profiles), 1):
        name = "profiles.png" if k == 1 else f"profiles_{k}.png"
        caption = " ".join(p["words"] for p in fit.profiles)
        images.append(plot(folder / name, partial(profiles, fit.profiles), "Profile likelihood", caption))
    return images


def _search(folder: Path, fits: list[Section], history: Mapping) -> list[Image]:
    """Plots of the search; of several fits, the history is that of the last."""
    images = []
    if fits and history["stages"]:
        caption = "The best start at the end of each stage. Loss: sum of squared residuals, in units of the noise."
        draw = partial(plots.search, history["stages"], fits[-1])
        images.append(plot(folder / "loss.png", draw, "The search", caption))
    if fits and history["starts"]:
        caption = "Initial and final value of every start. Crosses: dropped or resampled during the search."
        caption += " Dashed: the truth." if fits[-1].compared else ""
        draw = partial(plots.starts, history["starts"], fits[-1])
        images.append(plot(folder / "starts.png", draw, "The starts", caption))
    return images


def _tables(result: Mapping) -> list[dict]:
    """Tables that compare with the paper: one under "table", or several under "tables"."""
    return [*([result["table"]] if result.get("table") else []), *result.get("tables", ())]


def _listed_images(folder: Path, result: Mapping) -> list[Image]:
    """Images that the run lists."""
    listed = result.get("images", ())
    return [Image(data_uri(folder / p["file"]), p.get("title", ""), p.get("caption", "")) for p in listed]
