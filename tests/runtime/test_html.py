"""Tables for notebooks."""

from gradsim.runtime.html import table


def test_text_of_a_table_is_escaped():
    assert table(("a<b",), [("x&y",), (3,)]) == (
        "<table><tr><th>a&lt;b</th></tr><tr><td>x&amp;y</td></tr><tr><td>3</td></tr></table>"
    )
