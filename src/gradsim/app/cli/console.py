"""Terminal output: progress, tables of results, error panels."""

import time
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from gradsim.app.report.sections import (
    Section,
    comparison,
    estimate,
    has_error,
    interval,
    prior_words,
    sections,
    verdict_of,
    video_notes,
)
from gradsim.errors import Status
from gradsim.numerics.formatting import with_error
from gradsim.runtime.progress import time_left

if TYPE_CHECKING:  # at run time it would bring PyTorch
    from gradsim.runtime.progress import Progress

_STYLES = {"good": "green", "open": "yellow", "bad": "red"}
_SECONDS_BETWEEN_LINES = 1.0
_SECONDS_BEFORE_BARS = 2.0
_MOST_NUMBERS = 10  # that progress shows: those that a user named come first, and numbers of a calibration are dozens


class _Search:
    """State of a search in words: `frames 24/60, χ²/N 1.1, about 40 s left in this search`, or `iteration 8, loss 0.12`.

    The clip of a search grows by the same number of frames from stage to stage. The work of a stage is taken as the square root
    of its frames, measured from the first stage on, which also compiles and has all starts.
    """

    def __init__(self):
        self.iteration: int | None = None
        self.loss = float("nan")
        self._count, self._total, self._chi2_per_n = 0, 0, None
        self._first: tuple[int, float] | None = None  # frames and time of the first stage

    def grow(self, count: int, total: int, chi2_per_n: float | None) -> None:
        """Set the frames so far, all frames, and χ²/N."""
        self._count, self._total, self._chi2_per_n = count, total, chi2_per_n
        self._first = self._first or (count, time.monotonic())

    def words(self) -> str:
        """The state; "" before the first iteration."""
        if self._first is None:
            return f"iteration {self.iteration}, loss {self.loss:.3g}" if self.iteration is not None else ""
        fit = f", χ²/N {self._chi2_per_n:.3g}" if self._chi2_per_n is not None else ""
        count, begun = self._first
        begin, now, end = (frames**1.5 for frames in (count, self._count, self._total))
        left = time_left(time.monotonic() - begun, (now - begin) / (end - begin) if end > begin else 1.0)
        return f"frames {self._count}/{self._total}{fit}{left and f', about {left} in this search'}"


class LineProgress:
    """Progress as plain lines, for logs and pipes.

    Args:
        stream: Output stream.
    """

    def __init__(self, stream: IO[str]):
        self._stream = stream
        self._begun = time.monotonic()
        self._printed, self._stage_begun = -float("inf"), self._begun
        self._working, self._search = False, _Search()

    def stage(self, text: str) -> None:
        self._working = True
        self._print(text)
        self._printed, self._stage_begun = -float("inf"), time.monotonic()
        self._search = _Search()

    def update(self, iteration: int, loss: float, values: Mapping[str, tuple[float, float]]) -> None:
        self._search.iteration, self._search.loss = iteration, loss
        if time.monotonic() - self._printed < _SECONDS_BETWEEN_LINES:
            return
        self._printed = time.monotonic()
        named, rest = _first(values)
        estimates = "".join(f"   {name} {with_error(*value)}" for name, value in named.items())
        self._print(f"  {self._search.words()}{estimates}{rest and f'   {rest}'}")

    def frames(self, count: int, total: int, chi2_per_n: float | None) -> None:
        self._search.grow(count, total, chi2_per_n)

    def fraction(self, finished: int, total: int) -> None:
        if time.monotonic() - max(self._printed, self._stage_begun) >= _SECONDS_BEFORE_BARS:
            self._printed = time.monotonic()
            self._print(f"  {_items(finished, total, self._stage_begun)}")

    def done(self) -> None:
        if self._working:
            self._print("done")
        self._working = False

    def _print(self, text: str) -> None:
        print(f"[{time.monotonic() - self._begun:6.1f} s] {text}", file=self._stream, flush=True)


class LiveProgress:
    """Progress as a live table; a finished stage leaves one line.

    Args:
        console: A terminal.
    """

    def __init__(self, console: Console):
        self._console = console
        self._spinner = Spinner("dots")
        self._text, self._begun = "", time.monotonic()
        self._search, self._values = _Search(), {}
        self._finished, self._total = 0, 0
        self._live = Live(console=console, refresh_per_second=8, transient=True, get_renderable=self._draw)

    def stage(self, text: str) -> None:
        self._close_stage()
        self._text, self._begun = text, time.monotonic()
        self._search, self._values = _Search(), {}
        self._finished, self._total = 0, 0
        self._live.start()

    def update(self, iteration: int, loss: float, values: Mapping[str, tuple[float, float]]) -> None:
        self._search.iteration, self._search.loss, self._values = iteration, loss, dict(values)

    def frames(self, count: int, total: int, chi2_per_n: float | None) -> None:
        self._search.grow(count, total, chi2_per_n)

    def fraction(self, finished: int, total: int) -> None:
        self._finished, self._total = finished, total

    def done(self) -> None:
        self._close_stage()
        self._text = ""
        self._live.stop()

    def _close_stage(self) -> None:
        if self._text:
            self._console.print(Text.assemble(("✓ ", "green"), self._text, (self._state(), "dim")))

    def _state(self) -> str:
        words = self._search.words()
        return f"   {time.monotonic() - self._begun:.1f} s{words and f'   {words}'}"

    def _draw(self) -> Group:
        self._spinner.update(text=Text.assemble(self._text, (self._state(), "dim")))
        rows = Table.grid(padding=(0, 2))
        named, rest = _first(self._values)
        for name, value in named.items():
            rows.add_row("  " + name, with_error(*value))
        if rest:
            rows.add_row("  " + rest, "")
        if self._total and time.monotonic() - self._begun >= _SECONDS_BEFORE_BARS:
            bar = ProgressBar(self._total, self._finished, width=40)
            rows.add_row(bar, _items(self._finished, self._total, self._begun))
        return Group(self._spinner, rows)


def _first(values: Mapping[str, tuple[float, float]]) -> tuple[dict[str, tuple[float, float]], str]:
    """The first values by name, and how many others there are, in words; "" for none."""
    named = dict(list(values.items())[:_MOST_NUMBERS])
    others = len(values) - len(named)
    return named, f"and {others} more" if others else ""


def _items(finished: int, total: int, begun: float) -> str:
    """Finished items and the time that the others take."""
    left = time_left(time.monotonic() - begun, finished / total if total else 0.0)
    return f"{finished} of {total}{left and f', {left}'}"


def progress(console: Console) -> "Progress":
    """Live progress on a terminal, plain lines elsewhere."""
    return LiveProgress(console) if console.is_terminal else LineProgress(console.file)


def unknowns_table(section: Section) -> Table:
    """Estimates of one fit; truth, relative error and z-score where the truth is known."""
    table = _table(section.title, ("unknown", "value ± sd, 95 %", "known"))
    for heading in ("truth", "rel. err", "z") if section.compared else ():
        table.add_column(heading, justify="right", no_wrap=True)
    for name, u in section.unknowns.items():
        cell = Text.assemble(estimate(u), f" {u['unit']}\n", (interval(u), "dim"))
        identifiable = Text("yes", "green") if u["identifiable"] else Text("no" if has_error(u) else "–", "yellow")
        table.add_row(name, cell, identifiable, *(comparison(u) if section.compared else ()))
    return table


def figures_table(figures: Mapping[str, Mapping]) -> Table:
    """Figures of an experiment, of the paper, and their goals."""
    table = _table("Figures", ("figure", "value", "paper", "goal", "met"))
    for name, figure in figures.items():
        if figure["value"] is None and figure.get("goal") is None:
            continue  # does not apply, such as a distance in space to a goal that is a picture
        no_goal = figure["ok"] and figure.get("goal") is None
        mark = Text("–") if no_goal else Text("✓", "green") if figure["ok"] else Text("✗", "red")
        table.add_row(name, _short(figure["value"]), _short(figure.get("paper")), _short(figure.get("goal")), mark)
    return table


def discrepancy_table(content: Mapping) -> Table:
    """Unknowns with the error bars of a model with a discrepancy."""
    table = _table("With a discrepancy", ("unknown", "value ± sd, 95 %", "between recordings"))
    for name, u in content["unknowns"].items():
        cell = Text.assemble(estimate(u), f" {u['unit']}\n", (interval(u), "dim"))
        table.add_row(name, cell, _short(u["between_recordings"]) if content["recordings"] > 1 else "–")
    return table


def comparison_table(content: Mapping) -> Table:
    """Candidate models, best first."""
    errors = content.get("prediction", {}).get("mean_errors")
    predicted = ("predicted [σ]",) if errors else ()
    table = _table("Models", ("model", "unknowns", "χ²/N", "ΔBIC", "weight", *predicted, "mass, if unknown"))
    for row in sorted(content["candidates"], key=lambda row: row["delta"]):
        masses = [u for name, u in row["unknowns"].items() if name.endswith(".mass")]
        mass = f"{with_error(masses[0]['value'], masses[0]['std'])} {masses[0]['unit']}" if masses else "–"
        name = Text(row["name"], "green" if row["name"] == content["chosen"] else "")
        numbers = [_short(row["chi2_per_n"]), _short(row["delta"]), f"{row['weight']:.3f}"]
        numbers += [_short(errors[row["name"]])] if errors else []
        table.add_row(name, str(row["parameters"]), *numbers, mass)
    return table


def show_result(console: Console, result: Mapping) -> None:
    """Print the tables, verdicts and unidentified directions of a result.json."""
    for section in sections(result):
        console.print(unknowns_table(section))
        for direction in section.null_directions:
            console.print(Text.assemble(("open: ", "yellow"), direction["explanation"]))
        if section.status:
            status = Status(section.status)
            verdict = verdict_of(status, result)
            heading = (f"{status}: ", f"bold {_STYLES[verdict.colour]}")
            console.print(Text.assemble(heading, f"{status.message} {verdict.advice}".strip()))
        for profile in section.profiles:
            console.print(Text.assemble(("profile: ", "dim"), profile["words"]))
        if section.residual_diagnostics:
            console.print(Text.assemble(("residuals: ", "dim"), section.residual_diagnostics["words"]))
        if words_of_steps := (section.discretization or {}).get("words"):
            console.print(Text.assemble(("time step: ", "dim"), str(words_of_steps)))
        if priors := section.priors:
            for prior in priors["numbers"]:
                console.print(Text.assemble(("prior: ", "dim"), prior_words(prior, priors["shares"])))
        if section.known_numbers and section.known_numbers["words"]:
            console.print(Text.assemble(("known numbers: ", "dim"), section.known_numbers["words"]))
        if section.next_video:
            console.print(Text.assemble(("next: ", "green"), section.next_video["words"]))
        if result.get("restitution"):
            console.print(Text.assemble(("contact: ", "dim"), result["contact_law"]))
        console.print()
    if result.get("verdict"):
        verdict = result["verdict"]
        heading = (f"{result['status']}: ", f"bold {_STYLES[verdict['colour']]}")
        console.print(Text.assemble(heading, f"{verdict['title']}. {verdict['words']}"))
    for name, sensor in (result.get("sensors") or {}).items():
        noise = f"noise {_short(sensor['sd'])} ({sensor['noise']})"
        text = f"{name}: {sensor['samples']} samples, {noise}, χ²/N {_short(sensor.get('chi2_per_n'))}"
        console.print(Text.assemble(("log: ", "dim"), text))
    for note in result.get("notes") or ():
        console.print(Text.assemble(("note: ", "yellow"), note))
    for note in video_notes(result):
        console.print(Text.assemble(("video: ", "yellow"), note))
    if result.get("discrepancy"):
        console.print(discrepancy_table(result["discrepancy"]))
        console.print(result["discrepancy"]["words"], highlight=False)
    if result.get("comparison"):
        console.print(comparison_table(result["comparison"]))
        console.print(result["comparison"]["words"], highlight=False)
    if result.get("figures"):
        console.print(figures_table(result["figures"]))
    if result.get("resume"):
        console.print(f"resume: {result['resume']}", highlight=False, soft_wrap=True, markup=False)


def plan_table(plan: Mapping) -> Table:
    """The ten best designs, and the present one."""
    names = [w["name"] for w in plan["wanted"]]
    table = _table("Designs", ("design", *(f"± {name}" for name in names), "gain", "judged by"))
    for row in [plan["present"], *plan["designs"]]:
        phrases, _, _ = row["words"].rpartition(f": {names[0]} ±")
        cells = (f"{100 * row['sd'][name]:.2g} %" if row["sd"].get(name) is not None else "–" for name in names)
        table.add_row(phrases, *cells, f"{row['gain']:.3g}" if row["gain"] else "–", row["judged_by"])
    return table


def show_plan(console: Console, plan: Mapping) -> None:
    """Print a plan: words, the table of designs, films chosen together, assumptions."""
    for text in plan["words"]:
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    console.print(plan_table(plan))
    for k, row in enumerate(plan["batch"] if len(plan["batch"]) > 1 else ()):
        console.print(f"film {k + 1}: {row['words']}", highlight=False, markup=False, soft_wrap=True)
    for text in plan["assumptions"]:
        console.print(Text.assemble(("assumes ", "dim"), text))


def contact_table(rows: Sequence[Mapping]) -> Table:
    """Results of the trials of `gradsim export --match-contact`, by the scene's law and in MuJoCo."""
    table = _table("Contact", ("trial", "gradsim", "MuJoCo, by the formula", "MuJoCo, matched"))
    for row in rows:
        for key, unit in (("bounce", "m"), ("travel", "m"), ("depth", "m"), ("slide", "m"), ("settling", "s")):
            ours, cells = row["gradsim"][key], []
            for mover in ("formula", "matched"):
                off = f" ({100 * (row[mover][key] / ours - 1):+.1f} %)" if ours > 0 else ""
                cells.append(f"{row[mover][key]:.4g} {unit}{off}")
            table.add_row(f"{row['body']} on {row['ground']}, {key}", f"{ours:.4g} {unit}", *cells)
    return table


def error_panel(title: str, message: str, hint: str = "") -> Panel:
    """An error as one panel."""
    text = Text(message)
    if hint:
        text.append(f"\n\n{hint}", "dim")
    return Panel(text, title=title, title_align="left", border_style="red")


def _table(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )
    table.add_column(headings[0], overflow="fold")  # names wrap before numbers
    for heading in headings[1:]:
        table.add_column(heading, no_wrap=True)
    return table


def _short(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
