"""Parts of report pages: self-contained HTML with embedded videos and images."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2
from matplotlib.figure import Figure

from gradsim.app.report import plots
from gradsim.app.report.headline import headline
from gradsim.app.report.sections import VERDICTS, comparison, effect, estimate, has_error, interval, verdict_of
from gradsim.errors import Status
from gradsim.numerics.formatting import with_error
from gradsim.runtime.atomic import atomic_path

SHOWN_EFFECTS = 6  # errors of known numbers that are not folded away
_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".gif": "image/gif",
    ".svg": "image/svg+xml",
    ".webm": "video/webm",
}


@dataclass(frozen=True)
class Image:
    """An image of the page.

    Args:
        source: Data URI.
        title: Title.
        caption: Caption.
        is_plot: Whether it is a plot, which dark pages invert.
        narrow: Data URI of the same plot for phones; "" if there is none.
    """

    source: str
    title: str
    caption: str
    is_plot: bool = False
    narrow: str = ""


def plot(path: Path, draw: Callable[[], Figure], title: str, caption: str) -> Image:
    """Draw a plot for the page, as SVG for screens and phones, and into a file, as PNG."""
    draw_wide = cache(draw)  # one figure in two formats
    with atomic_path(path) as draft:
        draft.write_bytes(plots.png(draw_wide))
    wide, narrow = plots.svg(draw_wide, plots.WIDTH), plots.svg(draw, plots.NARROW)
    return Image(_data_uri(".svg", wide), title, caption, is_plot=True, narrow=_data_uri(".svg", narrow))


def data_uri(path: Path) -> str:
    """An image or video file as a data URI."""
    return _data_uri(path.suffix, path.read_bytes())


def _data_uri(suffix: str, content: bytes) -> str:
    return f"data:{_TYPES[suffix]};base64,{base64.b64encode(content).decode()}"


def template(name: str) -> jinja2.Template:
    """Jinja template of this package."""
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    """Names and filters of all templates, which are compiled once."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gradsim.app.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "headline": headline,
        "interval": interval,
        "effect": effect,
        "stated": lambda prior: with_error(prior["mean"], prior["sd"]),
        "has_error": has_error,
        "comparison": comparison,
        "estimate": estimate,
        "number": number,
        "percent": percent,
        "value_and_sd": lambda pair: with_error(*pair),
    }
    environment.globals |= {
        "SHOWN_EFFECTS": SHOWN_EFFECTS,
        "verdicts": VERDICTS,
        "verdict_of": verdict_of,
        "messages": {s: s.message for s in Status},
    }
    return environment


def percent(share: float | None) -> str:
    """A share in percent with two digits; a dash for None."""
    return "–" if share is None else f"{100 * share:.2g} %"


def number(value: object) -> str:
    """A number with four digits; a dash for None."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
