"""Progress and tables on a terminal, and in a pipe."""

import io

import pytest
from rich.console import Console

from gradsim.app.cli import console
from gradsim.runtime.progress import progress_callback, time_left


def text(renderable, width: int = 140) -> str:
    screen = Console(file=io.StringIO(), width=width)
    screen.print(renderable)
    return screen.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def report_to(progress):
    progress.stage("fitting")
    for iteration in range(1, 4):
        progress.update(
            iteration, 0.5**iteration, {"cube.mass": (5.0031, 0.012), "ground.friction": (0.4, float("nan"))}
        )
    progress.stage("writing")
    progress.done()
    progress.done()


def test_a_pipe_gets_plain_lines():
    stream = io.StringIO()
    report_to(console.progress(Console(file=stream)))
    lines = [line.split("] ")[1] for line in stream.getvalue().splitlines()]
    first = "  iteration 1, loss 0.5   cube.mass 5.003 ± 0.012   ground.friction 0.4000"
    assert lines == ["fitting", first, "writing", "done"]  # at most one line a second, and one end


def test_a_terminal_keeps_one_line_of_every_stage():
    stream = io.StringIO()
    screen = Console(file=stream, force_terminal=True, width=100, color_system=None)
    report_to(console.progress(screen))
    kept = [line for line in stream.getvalue().splitlines() if "✓" in line]
    assert [line.split("✓ ")[1].split()[0] for line in kept] == ["fitting", "writing"]
    assert "iteration 3, loss 0.125" in kept[0]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_search_says_frames_chi2_and_the_time_left(is_terminal, monkeypatch):
    """From 4 frames to 36 of 64 is (216 − 8)/(512 − 8) of the work: 52 s of it leave 74 s. The first stage does not count."""
    now = [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    progress = console.progress(Console(file=io.StringIO(), force_terminal=is_terminal, width=200))
    progress.stage("fitting")
    lines = []
    for frames, chi2_per_n, seconds in ((4, None, 300), (36, 1.104, 52), (64, None, 70)):
        now[0] += seconds
        callback = progress_callback(progress)
        entry = {"iteration": 3, "cost": 9.0, "values": {"cube.mass": 5.0}, "frames": frames, "of_frames": 64}
        callback(entry | {"chi2_per_n": chi2_per_n})
        lines.append(progress._state() if is_terminal else progress._stream.getvalue().splitlines()[-1])  # pyright: ignore
    assert "frames 4/64" in lines[0] and "left" not in lines[0]
    assert "frames 36/64, χ²/N 1.1, about 70 s left in this search" in lines[1]
    assert "frames 64/64" in lines[2] and "left" not in lines[2] and "χ²" not in lines[2]
    progress.done()


@pytest.mark.parametrize(
    ("seconds", "share", "words"),
    [
        (10, 0.0, ""),
        (10, 1.0, ""),
        (4, 0.5, "4 s left"),
        (43, 0.5, "40 s left"),
        (600, 0.5, "10 min left"),
        (3600, 0.25, "3.0 h left"),
        (1e-9, 0.5, "1 s left"),
    ],
)
def test_time_left_is_that_of_the_work_which_remains(seconds, share, words):
    assert time_left(seconds, share) == words


@pytest.mark.parametrize("kind", [console.LineProgress, console.LiveProgress])
def test_work_may_end_before_its_first_stage(kind):
    screen = Console(file=io.StringIO())
    kind(screen.file if kind is console.LineProgress else screen).done()


def test_truth_shows_only_where_it_is_known(answered):
    (section, _) = console.sections(answered)
    assert "truth" in text(console.unknowns_table(section))
    for unknown in section.unknowns.values():
        unknown["truth"] = None  # pyright: ignore[reportIndexIssue]
    assert "truth" not in text(console.unknowns_table(section))


def test_result_shows_every_fit_with_verdict(answered):
    screen = Console(file=io.StringIO(), width=140)
    console.show_result(screen, answered)
    shown = screen.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert shown.count("cube.mass") == 2 and shown.count("ok:") == 2
    assert "5.30996 ± 0.00011" in shown and "-0.40" in shown


def test_a_figure_without_a_goal_has_not_met_one():
    figure = {"value": 0.5, "paper": None, "goal": None, "ok": True}
    assert "✓" not in text(console.figures_table({"found": figure}))
    assert "✓" in text(console.figures_table({"found": {**figure, "goal": 0.6}}))
    assert "✗" in text(console.figures_table({"found": {**figure, "ok": False}}))


def test_figures_that_do_not_apply_are_left_out():
    empty = {"value": None, "paper": None, "goal": None, "ok": True}
    shown = text(console.figures_table({"distance": empty, "unreached": {**empty, "goal": 1.0, "ok": False}}))
    assert "distance" not in shown and "unreached" in shown


def test_the_first_iteration_may_be_number_zero():
    stream = io.StringIO()
    console.LineProgress(stream).update(0, 0.25, {"distance": (1.5, float("nan"))})
    assert "iteration 0, loss 0.25   distance 1.5" in stream.getvalue()


@pytest.mark.parametrize(("count", "rest"), [(10, ""), (11, "and 1 more"), (55, "and 45 more")])
def test_progress_names_the_first_numbers_and_counts_the_others(count, rest):
    values = {f"number_{k}": (float(k), float("nan")) for k in range(count)}
    lines, live = io.StringIO(), console.LiveProgress(Console(file=io.StringIO(), force_terminal=True))
    live.stage("outlines")
    for kind in (console.LineProgress(lines), live):
        kind.update(3, 0.25, values)
    for shown in (lines.getvalue(), text(live._draw())):
        assert "number_9" in shown and "number_10" not in shown
        assert rest in shown and ("more" in shown) == bool(rest)
    live.done()


def test_figures_show_value_paper_goal_and_mark():
    figures = {"friction": {"value": 0.2213, "paper": None, "goal": 0.22, "ok": False}}
    assert ["friction", "0.2213", "–", "0.22", "✗"] in [
        row.split() for row in text(console.figures_table(figures)).splitlines()
    ]


def test_tables_fit_a_narrow_terminal(answered):
    shown = text(console.unknowns_table(console.sections(answered)[1]), width=80)
    assert (
        "ground.stiffness" in shown and "123415 ± 12 N/m" in shown and "123391 … 123439" in shown and "+1.20" in shown
    )


def test_square_brackets_in_an_error_are_words_not_markup():
    assert "bodies[cube][/red]" in text(console.error_panel("bad input", "bodies[cube][/red]"))


@pytest.mark.parametrize("seconds", [1.0, 3.0])
def test_a_bar_shows_only_in_what_takes_longer_than_two_seconds(monkeypatch, seconds):
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    lines = io.StringIO()
    quiet, live = console.LineProgress(lines), console.LiveProgress(Console(file=io.StringIO(), force_terminal=True))
    for kind in (quiet, live):
        now[0] = 10.0
        kind.stage("rendering")
        now[0] = 10.0 + seconds
        kind.fraction(3, 8)
    for shown in (lines.getvalue(), text(live._draw())):
        assert ("3 of 8" in shown) == (seconds > 2)
    live.done()
