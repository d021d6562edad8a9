"""The pictures of Table 4 appear whole or not at all."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from gradsim.identification.comparison.folds import GIVEN_MODEL
from gradsim_reproduction.wrong_models import table4

FITS = {GIVEN_MODEL: {"error": 0.3}, "other": {"error": 1e-6}}
RECORD = {"row": "rigid_as_cloth", "object": "cup", "fits": FITS, "chosen": "other"}


@pytest.mark.parametrize("number", [0, 1])
def test_a_image_that_is_interrupted_leaves_the_last_ones_as_they_were(number, tmp_path, monkeypatch):
    names, drawn, save = ("left.png", "table4.png"), [], Figure.savefig
    for name in names:
        (tmp_path / name).write_text("the last one")

    def torn(figure, path, **options):
        drawn.append(path.name)
        if len(drawn) > number:
            path.write_text("half")
            raise KeyboardInterrupt
        save(figure, path, **options)

    monkeypatch.setattr(Figure, "savefig", torn)
    monkeypatch.setattr(table4, "_masks", lambda record, meshes: (np.zeros((9, 4, 4)), np.ones((9, 4, 4))))
    with pytest.raises(KeyboardInterrupt):
        table4.draw(tmp_path, [RECORD], {"rigid_as_cloth": 0.5})
    assert (tmp_path / drawn[-1]).read_text() == "the last one"
    assert sorted(file.name for file in tmp_path.iterdir()) == list(names)
