"""What a fit writes."""

import json

from gradsim.errors import Status
from gradsim.identification.fit import Estimate, Fit

MASS = Estimate(2.0, 0.1, (1.8, 2.2), "kg", 1.0, 3.0, True)


def fit(status: Status = Status.OK) -> Fit:
    return Fit(status, {"cube.mass": MASS}, 1.0, 1.0, 100, 1, [], {"count": 4, "converged": 4}, 9, 90, 1.0, 1.0, 0)


def test_further_entries_of_a_command_are_in_its_result_and_take_precedence(tmp_path):
    path = fit().save(tmp_path, {"command": "fit cube.yaml", "title": "Cube"})
    assert path == tmp_path / "result.json"
    assert json.loads(path.read_text()) == fit().result() | {"command": "fit cube.yaml", "title": "Cube"}
    assert json.loads((tmp_path / "history.json").read_text()) == {"stages": [], "starts": {}}


def test_no_value_of_an_untrusted_fit_counts_as_identified():
    for status in Status:
        known = fit(status).result()["unknowns"]["cube.mass"]["identifiable"]
        assert known == (status not in (Status.MISMATCH, Status.FAILED))


def test_a_notebook_shows_status_and_table():
    text = fit(Status.MISMATCH)._repr_html_()
    assert "<b>mismatch</b>" in text and text.count("<tr>") == 2 and "<td>cube.mass</td>" in text
