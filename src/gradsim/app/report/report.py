"""The report page of a run folder: one HTML file that needs nothing else.

It is made from `result.json`, and from what else is there: `history.json` (the search), `side_by_side.webm` and
`overlay.webm` (films), `player.html` (the motion in 3-D), and the pictures that `result["pictures"]` lists as {"file", "title", "caption"}.
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from gradsim.app.report import plots
from gradsim.app.report.page import Picture, data_uri, drawn, template
from gradsim.app.report.plots import profiles, residual_diagnostics
from gradsim.app.report.sections import Section, film_notes, sections
from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_path

FILMS = {
    "side_by_side.webm": "Video, left, and fit, right.",
    "overlay.webm": "Outline of the fit over the video.",
    "residuals.webm": "What the fit leaves, in units of the noise. Red: the fit covers more than the video; blue: less.",
}


def write_report(folder: str | Path) -> Path:
    """Write `report.html`, and the figures in it as png, into a run folder.

    Args:
        folder: Holds `result.json`.

    Returns:
        The page.

    Raises:
        InputError: If there is no `result.json`.
    """
    folder = Path(folder)
    if not (folder / "result.json").is_file():
        raise InputError(f"{folder} holds no result.json; give a folder made by `gradsim fit`, `demo` or `reproduce`.")
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    fits = sections(result)
    history = _history(folder)
    films = {film["file"]: film["text"] for film in result.get("films", ())} or FILMS
    page = template("report.html.j2").render(
        result=result,
        film_notes=film_notes(result),
        fits=list(zip(fits, _intervals(folder, fits, history), strict=True)),
        films=[(data_uri(folder / name), text) for name, text in films.items() if (folder / name).is_file()],
        player=_player(folder),
        tables=_tables(result),
        pictures=[
            *_leftovers(folder, fits),
            *_profiles(folder, fits),
            *_search(folder, fits, history),
            *_given(folder, result),
        ],
    )
    path = folder / "report.html"
    with atomic_path(path) as draft:
        draft.write_text(page, encoding="utf-8")
    return path


def _player(folder: Path) -> str:
    """The page of the 3-D player, which the report carries whole; empty where there is none."""
    path = folder / "player.html"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _history(folder: Path) -> dict:
    """Stages and starts of the search; empty where no history is kept."""
    path = folder / "history.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {"stages": kept.get("stages") or [], "starts": kept.get("starts") or {}}


def _intervals(folder: Path, fits: list[Section], history: Mapping) -> list[Picture]:
    """Estimates in their ranges, one figure a fit."""
    population = history["starts"]
    initial = (
        dict(zip(population["names"], zip(*population["initial"], strict=True), strict=True)) if population else {}
    )
    caption = "Bars are the ranges that the starts were drawn from; whiskers are 95 % intervals."
    names = ["intervals.png", *(f"intervals_{k}.png" for k in range(2, len(fits) + 1))]
    return [
        drawn(folder / name, lambda fit=fit: plots.intervals(fit, initial), fit.title, caption)
        for name, fit in zip(names, fits, strict=False)
    ]


def _leftovers(folder: Path, fits: list[Section]) -> list[Picture]:
    """What each fit leaves, over the frames."""
    pictures = []
    told = [
        (fit, fit.residual_diagnostics)
        for fit in fits
        if fit.residual_diagnostics and len(fit.residual_diagnostics["chi2_per_n"]) > 1
    ]
    for k, (fit, left) in enumerate(told, 1):
        name = "residuals.png" if k == 1 else f"residuals_{k}.png"
        title = "What is left" if len(told) == 1 else f"What is left ({fit.title.removeprefix('Unknowns: ')})"
        pictures.append(drawn(folder / name, partial(residual_diagnostics, left), title, left["words"]))
    return pictures


def _profiles(folder: Path, fits: list[Section]) -> list[Picture]:
    """χ² along weak directions, of each fit that has them."""
    pictures = []
    for k, fit in enumerate((fit for fit in fits if fit.profiles), 1):
        name = "profiles.png" if k == 1 else f"profiles_{k}.png"
        caption = " ".join(p["words"] for p in fit.profiles)
        pictures.append(drawn(folder / name, partial(profiles, fit.profiles), "Profile likelihood", caption))
    return pictures


def _search(folder: Path, fits: list[Section], history: Mapping) -> list[Picture]:
    """How the answer was found. Of several fits, the history is the last one's."""
    pictures = []
    if fits and history["stages"]:
        caption = "The best start at the end of each stage. Loss: sum of squared residuals, in units of the noise."
        draw = partial(plots.search, history["stages"], fits[-1])
        pictures.append(drawn(folder / "loss.png", draw, "The search", caption))
    if fits and history["starts"]:
        caption = "Every start, from where it was drawn to where it ended. Crosses: dropped or sown again on the way."
        caption += " Dashed: the truth." if fits[-1].compared else ""
        draw = partial(plots.starts, history["starts"], fits[-1])
        pictures.append(drawn(folder / "starts.png", draw, "The starts", caption))
    return pictures


def _tables(result: Mapping) -> list[dict]:
    """Tables of the paper beside ours: one under "table", or several under "tables"."""
    return [*([result["table"]] if result.get("table") else []), *result.get("tables", ())]


def _given(folder: Path, result: Mapping) -> list[Picture]:
    """Pictures that the run brought along."""
    listed = result.get("pictures", ())
    return [Picture(data_uri(folder / p["file"]), p.get("title", ""), p.get("caption", "")) for p in listed]
