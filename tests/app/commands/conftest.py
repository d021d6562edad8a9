"""Commands without the time that their plots take."""

import io

import pytest
from PIL import Image

from gradsim.app.report import plots


@pytest.fixture
def blank_plots(monkeypatch):
    """Plots are made but not rasterized, which takes a third of a second each. Those of fixtures of a file are."""
    buffer = io.BytesIO()
    Image.new("L", (8, 8), 255).save(buffer, format="png")

    def png(draw):
        draw()
        return buffer.getvalue()

    monkeypatch.setattr(plots, "png", png)
