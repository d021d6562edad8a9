"""The report page is self-contained and shows the result."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from gradsim.app.report import plots
from gradsim.app.report.report import write_report
from gradsim.app.report.sections import VERDICTS, Section
from gradsim.errors import InputError, Status
from gradsim.identification.uncertainty.discrepancy import Discrepancy, Process
from gradsim.identification.unknowns import Ranges, Unknown
from gradsim.runtime.atomic import jsonable

WEBM = bytes.fromhex("1a45dfa3") + b"not much of a video"


@pytest.fixture
def undrawn(monkeypatch):
    """No figures: they take a second, and only some tests are about them."""
    monkeypatch.setattr(plots, "png", lambda draw: b"\x89PNG")
    monkeypatch.setattr(plots, "svg", lambda draw, width: b"<svg/>")


class Links(HTMLParser):
    """Every address that a page refers to."""

    def __init__(self, page: str):
        super().__init__()
        self.addresses = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.addresses += [
            value for key, value in attrs if key in ("src", "href", "srcset", "data", "poster", "action")
        ]


def text_of(page: str) -> str:
    """The words of a page, without its tags."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)))


def test_page_refers_to_nothing_outside_itself(run_folder, answered):
    folder = run_folder(answered)
    (folder / "side_by_side.webm").write_bytes(WEBM)
    (folder / "overlay.webm").write_bytes(WEBM)
    page = write_report(folder).read_text()
    addresses = Links(page).addresses
    assert len(addresses) == 10  # two videos; two plots of intervals, the search, the starts, for screens and phones
    assert all(address.startswith("data:") for address in addresses)
    assert sum(address.startswith("data:video/webm") for address in addresses) == 2
    assert "http" not in page and "url(" not in page and "<script src" not in page


def test_powers_of_ten_are_plain_text_at_ticks_in_view():
    """None is a formula, and no tick or label is made beyond the axis."""
    figure = Figure()
    axes = figure.subplots()
    axes.plot([0, 1], [3e-5, 40.0])
    axes.set(yscale="log", ylim=(3e-5, 40.0))
    plots.svg(lambda: figure)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "10⁰", "10¹"]
    minor = axes.get_yticks(minor=True)
    assert 3e-5 <= min(minor) < 1e-4 and 10 < max(minor) <= 40 * (1 + 1e-6)


def test_a_logarithmic_axis_within_a_decade_has_labels_between_powers():
    figure = Figure()
    axes = figure.subplots()
    axes.plot([0, 1], [2e-5, 6e-5])
    axes.set(yscale="log", ylim=(2e-5, 6e-5))
    plots.svg(lambda: figure)
    assert "3×10⁻⁵" in [label.get_text() for label in axes.get_yticklabels(minor=True)]


def test_lines_of_starts_go_from_initial_to_final_values_and_end_early_where_dropped():
    """A dropped start, a start with the least loss and one with ten times as much."""
    population = {"names": ["mass"], "initial": [[1.0], [2.0], [3.0]], "final": [[2.5], [None], [2.6]]}
    population["cost"] = [5.0, None, 60.0]
    (axes, *_) = plots.starts(population, Section("", {}, None, None, None, [])).axes
    dropped, whole = axes.collections[:2]
    assert np.array(dropped.get_segments()).tolist() == [[[0.0, 2.0], [plots.DROPPED_AT, 2.0]]]
    assert np.array(whole.get_segments()).tolist() == [[[0.0, 1.0], [1.0, 2.5]], [[0.0, 3.0], [1.0, 2.6]]]
    assert np.allclose(whole.get_edgecolor()[:, :3], [plots.SHADES(0.0)[:3], plots.SHADES(1.0)[:3]])


def test_every_fit_of_a_run_has_its_table(undrawn, run_folder, answered):
    words = text_of(write_report(run_folder(answered)).read_text())
    assert words.count("cube.mass") == 2
    assert "5.31000 ± 0.00011 kg" in words  # float frames
    assert "5.30996 ± 0.00011 kg" in words  # 8-bit video
    assert "-0.40" in words and "+1.20" in words  # z-scores


def test_figures_are_left_in_the_folder(run_folder, answered):
    folder = run_folder(answered)
    write_report(folder)
    assert {p.name for p in folder.glob("*.png")} == {"intervals.png", "intervals_2.png", "loss.png", "starts.png"}


def test_a_mismatch_states_values_to_three_digits_without_errors(undrawn, run_folder, answered):
    words = text_of(write_report(run_folder(answered | {"status_8bit": "mismatch"})).read_text())
    assert "5.31000 ± 0.00011 kg" in words  # float frames, ok
    assert "5.30996" not in words and "5.31 kg" in words
    assert "-0.40" not in words and "+1.20" not in words  # its z-scores
    assert words.count(" 0.00 ") == len(answered["unknowns"])  # those of the float frames


def test_an_approximate_answer_states_its_intervals(undrawn, run_folder, answered):
    words = text_of(write_report(run_folder(answered | {"status_8bit": "approximate"})).read_text())
    assert "5.30996 ± 0.00011 kg" in words and "Approximate: the numbers are good to their intervals" in words


def test_error_bars_with_a_discrepancy_have_a_table(undrawn, run_folder, answered):
    """The mass is known to 2 %, of the friction nothing is; files of before have no ranges there."""
    space = Ranges([Unknown("cube.mass", 2.0, 12.0), Unknown("ground.friction", 0.2, 1.0)], [True, True], ["kg", ""])
    covariance, process = np.diag([0.02**2, 1.0]), Process(2.0, 0.3, 1.0)
    is_open, degrees = np.array([False, True]), np.full(2, 1e9)
    bars = Discrepancy(np.log([5.0, 0.5]), covariance, is_open, np.zeros((2, 2)), process, 1.0, degrees, 1)
    content = jsonable(bars.result(space))

    def table() -> str:
        words = text_of(write_report(run_folder(answered | {"discrepancy": content})).read_text())
        return words.partition("With a discrepancy")[2].partition("Values are those of the fit")[0]

    assert "5.00 ± 0.10 kg 4.81 … 5.20" in table() and "all of 0.2 … 1" in table()
    for unknown in content["unknowns"].values():
        del unknown["low"], unknown["high"]
    assert "5.00 ± 0.10 kg 4.81 … 5.20" in table()


def test_open_directions_are_told_in_words(undrawn, run_folder, unanswered):
    words = text_of(write_report(run_folder(unanswered)).read_text())
    assert "Not all unknowns are identifiable" in words
    assert unanswered["null_directions"][0]["explanation"] in words
    low, high = (unanswered["unknowns"]["cube.mass"][end] for end in ("low", "high"))
    assert "undetermined" in words and f"all of {low:g} … {high:g}" in words and "± ∞" not in words


@pytest.mark.parametrize("status", ["unidentifiable", "approximate", "mismatch", "failed"])
def test_a_verdict_says_what_it_means_and_what_to_do(undrawn, run_folder, unanswered, status):
    words = text_of(write_report(run_folder(unanswered | {"status": status})).read_text())
    verdict = VERDICTS[status]
    assert all(part and part in words for part in (verdict.title, Status(status).message, verdict.advice))


def test_a_mismatch_is_drawn_without_error_bars(run_folder, answered):
    """Truth and values are there, errors are not known."""
    for unknown in answered["unknowns_8bit"].values():
        unknown |= {"interval95": [None, None]}
    page = write_report(run_folder(answered | {"status_8bit": "mismatch"})).read_text()
    assert "Not a measurement" in text_of(page)


def test_known_numbers_beyond_the_first_six_are_folded_away(undrawn, run_folder, answered):
    effects = {name: {"shift": 0.1, "percent": 742.0, "sd": 1200.0} for name in answered["unknowns"]}
    row = {"name": "camera.focal", "error": "1 %", "value": 80.0, "unit": "px", "effects": effects}
    table = {"words": "1 % in camera.focal moves all.", "numbers": [row] * 9}
    page = write_report(run_folder(answered | {"known_numbers": table})).read_text()
    folded = page.partition("<details><summary>3 more</summary>")[2]
    assert folded.partition("</details>")[0].count("<code>camera.focal</code>") == 3
    assert "+740 %, 1200 sd" in text_of(page)


def test_plots_for_phones_are_narrow():
    wide, narrow = (
        plots.svg(lambda: Figure(figsize=(plots.column_width(), 1)), w) for w in (plots.WIDTH, plots.NARROW)
    )
    assert b'width="619.2pt"' in wide and b'width="295.2pt"' in narrow
    assert plots.svg(lambda: Figure(figsize=(plots.column_width(), 1))) == wide


def test_labels_are_measured_once_and_have_room(monkeypatch):
    """By a constrained layout, which is asked to measure them twice; within the figure, and not below the next panel."""
    measured = []

    def tight(axes, *arguments, **options):
        measured.append(axes)
        return measure(axes, *arguments, **options)

    def draw() -> Figure:
        figure = Figure(figsize=(plots.column_width(), 3), layout="constrained")
        for axes in figure.subplots(1, 2):
            axes.plot([0, 1], [1e-3, 2e5])
            axes.set(xlabel="time", ylabel="length", title="panel")
        figures.append(figure)
        return figure

    figures, measure = [], Axes.get_tightbbox
    monkeypatch.setattr(Axes, "get_tightbbox", tight)
    plots.svg(draw)
    left, right = figures[0].axes
    assert measured == [left, right]
    boxes = [measure(axes).extents / figures[0].dpi for axes in (left, right)]
    assert boxes[0][0] >= 0 and boxes[0][2] <= boxes[1][0] and boxes[1][2] <= plots.WIDTH
    assert all(box[1] >= 0 and box[3] <= 3 for box in boxes)


def test_ticks_are_made_alike_so_that_none_is_copied(monkeypatch):
    def draw() -> Figure:
        figure = Figure(figsize=(plots.column_width(), 3), layout="constrained")
        for axes in figure.subplots(1, 2, sharey=True):
            axes.plot([1, 70], [1e-3, 2e5])
            axes.set(yscale="log", xticks=[1, 30, 70], xticklabels=["one", "half", "all"])
            axes.tick_params(axis="x", colors="red", length=7, labelsize=5, labelrotation=30)
            axes.tick_params(axis="y", which="minor", left=False, right=True)
        return figure

    copies = []

    def copy(source, target):
        copies.append(target)
        copy_look(None, source, target)

    alike, copy_look = plots.svg(draw), Axis._copy_tick_props
    monkeypatch.setattr(plots, "_leave_as_made", copy)
    assert plots.svg(draw) == alike and len(copies) > 8


def test_a_failed_run_without_numbers_has_a_page(run_folder, unanswered):
    for unknown in unanswered["unknowns"].values():
        unknown |= {"value": None, "std": None, "interval95": None, "truth": None, "identifiable": False}
    words = text_of(write_report(run_folder(unanswered | {"status": "failed", "chi2_per_n": None})).read_text())
    assert "– ± ∞" not in words


def test_a_result_without_fits_or_history_has_a_page(tmp_path, answered):
    content = {"command": "reproduce x", "status": "ok", "versions": answered["versions"]}
    content["figures"] = {"string_length_m": {"value": 0.4987, "paper": None, "goal": 0.5, "ok": True}}
    (tmp_path / "result.json").write_text(json.dumps(content))
    words = text_of(write_report(tmp_path).read_text())
    assert "string_length_m 0.4987 – 0.5 yes" in words


def test_images_of_a_run_come_with_title_and_caption(undrawn, run_folder, answered):
    answered["images"] = [{"file": "horizon.png", "title": "Prediction", "caption": "Error over the horizon."}]
    folder = run_folder(answered)
    (folder / "horizon.png").write_bytes(b"\x89PNG")
    words = text_of(write_report(folder).read_text())
    assert "Prediction" in words and "Error over the horizon." in words


def test_names_cannot_break_the_page(undrawn, run_folder, answered):
    answered["title"] = "<script>alert(1)</script>"
    assert "<script>" not in write_report(run_folder(answered)).read_text()


def test_a_folder_without_result_is_bad_input(tmp_path):
    with pytest.raises(InputError, match="holds no result.json"):
        write_report(tmp_path)
