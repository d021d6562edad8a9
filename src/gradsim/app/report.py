"""The report page of a run folder: one HTML file that needs nothing else.

It is made from `result.json`, and from what else is there: `history.json` (the search), `side_by_side.webm` and
`overlay.webm` (films), and the pictures that `result["pictures"]` lists as {"file", "title", "caption"}.
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
from gradsim.app.sections import VERDICTS, Section, comparison, interval, sections
from gradsim.errors import InputError
from gradsim.rounding import with_error
from gradsim.video import whole

FILMS = {
    "side_by_side.webm": "Video, left, and fit, right.",
    "overlay.webm": "Outline of the fit over the video.",
}
_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".gif": "image/gif", ".svg": "image/svg+xml", ".webm": "video/webm"}


@dataclass(frozen=True)
class Picture:
    """A figure of the page.

    Args:
        light: Data URI of the picture on light ground.
        dark: The same on dark ground; None where there is only one.
        title: Its title.
        caption: What it shows.
    """

    light: str
    dark: str | None
    title: str
    caption: str


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
    page = _template().render(
        result=result,
        sections=fits,
        verdicts=VERDICTS,
        films=[(_uri(folder / name), text) for name, text in FILMS.items() if (folder / name).is_file()],
        pictures=[*_drawn(folder, fits), *_given(folder, result)],
    )
    path = folder / "report.html"
    with whole(path) as draft:
        draft.write_text(page, encoding="utf-8")
    return path


def _drawn(folder: Path, fits: list[Section]) -> list[Picture]:
    """Figures drawn from the results; the search belongs to the last fit, whose history is kept."""
    if not fits:
        return []
    history = {"stages": [], "starts": None}
    if (folder / "history.json").is_file():
        history |= json.loads((folder / "history.json").read_text(encoding="utf-8"))
    population = history["starts"]
    initial = {}
    if population:
        initial = dict(zip(population["names"], zip(*population["initial"], strict=True), strict=True))
    pictures = []
    for fit in fits:
        name = "intervals" if fit is fits[0] else f"intervals_{fits.index(fit) + 1}"
        caption = "Bars are the ranges that the starts were drawn from; whiskers are 95 % intervals."
        draw = partial(plots.intervals, fit, initial)
        pictures.append(_picture(folder / f"{name}.png", draw, fit.title, caption))
    if history["stages"]:
        caption = "The best start, at the end of each stage. The loss is the sum of squared residuals in units of noise."
        draw = partial(plots.search, history["stages"], fits[-1])
        pictures.append(_picture(folder / "loss.png", draw, "The search", caption))
    if population:
        caption = "Every start, from where it was drawn to where it ended. Crosses: dropped or sown again on the way."
        if fits[-1].compared:
            caption += " Dashed: the truth."
        draw = partial(plots.starts, population, fits[-1])
        pictures.append(_picture(folder / "starts.png", draw, "The starts", caption))
    return pictures


def _picture(path: Path, draw: Callable[[plots.Palette], Figure], title: str, caption: str) -> Picture:
    path.write_bytes(plots.png(draw, plots.LIGHT))
    dark = _encode("image/png", plots.png(draw, plots.DARK))
    return Picture(_uri(path), dark, title, caption)


def _given(folder: Path, result: Mapping) -> list[Picture]:
    return [
        Picture(_uri(folder / p["file"]), None, p.get("title", ""), p.get("caption", ""))
        for p in result.get("pictures", ())
    ]


def _uri(path: Path) -> str:
    return _encode(_TYPES[path.suffix], path.read_bytes())


def _encode(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"interval": interval, "comparison": comparison, "number": _number}
    environment.globals["with_error"] = with_error
    text = resources.files("gradsim.app").joinpath("report.html.j2").read_text(encoding="utf-8")
    return environment.from_string(text)


def _number(value: object) -> str:
    """A number for people: four digits, a dash for None."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
