"""The report page of a run folder: one HTML file that needs nothing else.

It is made from `result.json`, and from what else is there: `history.json` (the search), `side_by_side.webm` and
`overlay.webm` (films), `player.html` (the motion in 3-D), and the pictures that `result["pictures"]` lists as {"file", "title", "caption"}.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path

import jinja2
from matplotlib.figure import Figure

from gradsim.app import plots
from gradsim.app.model_plots import leftover, profiles
from gradsim.app.sections import VERDICTS, Section, comparison, film_notes, interval, measured, sections
from gradsim.errors import InputError
from gradsim.files import whole
from gradsim.rounding import with_error

FILMS = {
    "side_by_side.webm": "Video, left, and fit, right.",
    "overlay.webm": "Outline of the fit over the video.",
    "residuals.webm": "What the fit leaves, in units of the noise. Red: the fit covers more than the video; blue: less.",
}
_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".gif": "image/gif",
    ".svg": "image/svg+xml",
    ".webm": "video/webm",
}


@dataclass(frozen=True)
class Picture:
    """A figure of the page.

    Args:
        source: Data URI.
        title: Its title.
        caption: What it shows.
        drawn: Whether it is a drawing of ours, which dark pages invert.
    """

    source: str
    title: str
    caption: str
    drawn: bool = False


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
    page = _template().render(
        result=result,
        film_notes=film_notes(result),
        fits=list(zip(fits, _intervals(folder, fits, history), strict=True)),
        films=[(_uri(folder / name), text) for name, text in films.items() if (folder / name).is_file()],
        player=_player(folder),
        pictures=[
            *_leftovers(folder, fits),
            *_profiles(folder, fits),
            *_search(folder, fits, history),
            *_given(folder, result),
        ],
    )
    path = folder / "report.html"
    with whole(path) as draft:
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
        _picture(folder / name, lambda fit=fit: plots.intervals(fit, initial), fit.title, caption)
        for name, fit in zip(names, fits, strict=False)
    ]


def _leftovers(folder: Path, fits: list[Section]) -> list[Picture]:
    """What each fit leaves, over the frames."""
    pictures = []
    told = [(fit, fit.leftover) for fit in fits if fit.leftover and len(fit.leftover["chi2_per_n"]) > 1]
    for k, (fit, left) in enumerate(told, 1):
        name = "leftover.png" if k == 1 else f"leftover_{k}.png"
        title = "What is left" if len(told) == 1 else f"What is left ({fit.title.removeprefix('Unknowns: ')})"
        pictures.append(_picture(folder / name, partial(leftover, left), title, left["words"]))
    return pictures


def _profiles(folder: Path, fits: list[Section]) -> list[Picture]:
    """χ² along weak directions, of each fit that has them."""
    pictures = []
    for k, fit in enumerate((fit for fit in fits if fit.profiles), 1):
        name = "profiles.png" if k == 1 else f"profiles_{k}.png"
        caption = " ".join(p["words"] for p in fit.profiles)
        pictures.append(_picture(folder / name, partial(profiles, fit.profiles), "Profile likelihood", caption))
    return pictures


def _search(folder: Path, fits: list[Section], history: Mapping) -> list[Picture]:
    """How the answer was found. Of several fits, the history is the last one's."""
    pictures = []
    if fits and history["stages"]:
        caption = "The best start at the end of each stage. Loss: sum of squared residuals, in units of the noise."
        draw = partial(plots.search, history["stages"], fits[-1])
        pictures.append(_picture(folder / "loss.png", draw, "The search", caption))
    if fits and history["starts"]:
        caption = "Every start, from where it was drawn to where it ended. Crosses: dropped or sown again on the way."
        caption += " Dashed: the truth." if fits[-1].compared else ""
        draw = partial(plots.starts, history["starts"], fits[-1])
        pictures.append(_picture(folder / "starts.png", draw, "The starts", caption))
    return pictures


def _given(folder: Path, result: Mapping) -> list[Picture]:
    """Pictures that the run brought along."""
    listed = result.get("pictures", ())
    return [Picture(_uri(folder / p["file"]), p.get("title", ""), p.get("caption", "")) for p in listed]


def _picture(path: Path, draw: Callable[[], Figure], title: str, caption: str) -> Picture:
    with whole(path) as draft:
        draft.write_bytes(plots.png(draw))
    return Picture(_uri(path), title, caption, drawn=True)


def _uri(path: Path) -> str:
    return f"data:{_TYPES[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"interval": interval, "measured": measured, "comparison": comparison, "number": _number}
    environment.globals |= {"with_error": with_error, "verdicts": VERDICTS}
    text = resources.files("gradsim.app").joinpath("report.html.j2").read_text(encoding="utf-8")
    return environment.from_string(text)


def _number(value: object) -> str:
    """A number for people: four digits, a dash for None."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
