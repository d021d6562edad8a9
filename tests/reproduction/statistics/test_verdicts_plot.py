"""The picture of the verdicts appears whole or not at all."""

import pytest
from matplotlib.figure import Figure

from gradsim_reproduction.statistics.verdicts import draw

RECORD = {"case": "mass", "expected": "ok", "status": "ok", "null": [], "right": True}


def test_a_picture_that_is_interrupted_leaves_the_last_one_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "verdicts.png").write_text("the last one")

    def torn(figure, path, **options):
        path.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Figure, "savefig", torn)
    with pytest.raises(KeyboardInterrupt):
        draw(tmp_path, [RECORD])
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("verdicts.png", "the last one")]
