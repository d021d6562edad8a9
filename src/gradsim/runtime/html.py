"""HTML of objects in notebooks; all text is escaped."""

from collections.abc import Iterable, Sequence
from html import escape


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with one row of headings; cells are shown by `str`."""
    line = lambda cells, tag: "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"
    return f"<table>{line(head, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"
