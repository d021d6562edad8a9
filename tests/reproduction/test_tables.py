"""A table of the paper beside ours."""

from gradsim_reproduction.tables import ratio, write_table


def test_a_table_says_how_many_times_smaller_ours_is(tmp_path):
    rows = [
        {"name": "mass", "paper": 9.01e-5, "ours": 1e-12, "note": "float frames"},
        {"name": "random", "paper": 0.1344, "ours": None},
    ]
    table = write_table(tmp_path, "Table 1", rows, "200 objects.")
    assert table["rows"][0]["ratio"] == 9.01e7
    lines = (tmp_path / "table.md").read_text().splitlines()
    assert lines[0] == "## Table 1"
    assert lines[2] == "|  | paper | ours | ratio | note |"
    assert lines[4] == "| mass | 9.01e-05 | 1e-12 | 9.01e+07 | float frames |"
    assert lines[5] == "| random | 0.134 | – | – |  |"
    assert lines[-1] == "200 objects."


def test_no_ratio_is_made_up_where_a_number_is_missing_or_zero():
    assert ratio(None, 1.0) is None
    assert ratio(1.0, 0.0) is None
    assert ratio(1.0, None) is None
