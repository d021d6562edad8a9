"""The picture of the verdicts appears whole or not at all."""

import pytest
from matplotlib.figure import Figure

from gradsim.errors import Status
from gradsim_reproduction.statistics.verdicts import draw

RECORD = {"case": "mass", "expected": "ok", "status": "ok", "null": [], "right": True}


def test_a_image_that_is_interrupted_leaves_the_last_one_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "verdicts.png").write_text("the last one")

    def torn(figure, path, **options):
        path.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Figure, "savefig", torn)
    with pytest.raises(KeyboardInterrupt):
        draw(tmp_path, [RECORD])
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("verdicts.png", "the last one")]


def test_every_status_of_a_fit_has_a_word_in_the_image(tmp_path):
    statuses = (Status.OK, Status.UNIDENTIFIABLE, Status.UNCONVERGED, Status.MISMATCH, Status.FAILED)
    draw(tmp_path, [RECORD | {"status": str(status)} for status in statuses])
    assert (tmp_path / "verdicts.png").stat().st_size > 0
