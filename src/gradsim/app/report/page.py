"""What pages of run folders are made of: one HTML file that needs nothing else, with films and pictures in it."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jinja2
from matplotlib.figure import Figure

from gradsim.app.report import plots
from gradsim.app.report.sections import VERDICTS, comparison, interval, measured
from gradsim.numerics.formatting import with_error
from gradsim.runtime.atomic import atomic_path

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


def drawn(path: Path, draw: Callable[[], Figure], title: str, caption: str) -> Picture:
    """A drawing of ours, which is left in the folder, too."""
    with atomic_path(path) as draft:
        draft.write_bytes(plots.png(draw))
    return Picture(data_uri(path), title, caption, drawn=True)


def data_uri(path: Path) -> str:
    """A picture or film as an address that holds all of it."""
    return f"data:{_TYPES[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"


def template(name: str) -> jinja2.Template:
    """A template of this package."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gradsim.app.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"interval": interval, "measured": measured, "comparison": comparison, "number": number}
    environment.globals |= {"with_error": with_error, "verdicts": VERDICTS}
    return environment.get_template(name)


def number(value: object) -> str:
    """A number for people: four digits, a dash for None."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
