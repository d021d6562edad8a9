"""Progress of reading, which shows once it takes long."""

import io

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from gradsim import video as videos
from gradsim.app.cli.command import working
from gradsim.runtime import progress
from gradsim.runtime.progress import NullProgress, show_reading

COUNT = 6


class Shown(NullProgress):
    def __init__(self):
        self.stages, self.fractions = [], []

    def stage(self, text):
        self.stages.append(text)

    def fraction(self, finished, total):
        self.fractions.append((finished, total))


@pytest.fixture(params=["film.mp4", "film.webm", "film.gif", "film"])
def film(request, tmp_path):
    path = tmp_path / request.param
    images = np.random.default_rng(0).integers(0, 256, (COUNT, 32, 48, 3), np.uint8)
    if path.suffix == ".gif":
        first, *others = map(Image.fromarray, images)
        first.save(path, save_all=True, append_images=others, duration=50)
    elif path.suffix:
        videos.write(path, images, 20)
    else:
        path.mkdir()
        for k, image in enumerate(images):
            Image.fromarray(image).save(path / f"{k}.png")
    return path


def read(path):
    return videos.read(path, 20.0)


def test_every_frame_of_a_file_that_takes_long_is_shown(film, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BEFORE_READING_SHOWS", 0.0)
    shown = Shown()
    with show_reading(shown):
        read(film)
    read(film)  # and no longer
    assert shown.stages == [f"reading {film.name}"]
    assert shown.fractions == [(k + 1, COUNT) for k in range(COUNT)]


def test_a_file_that_is_read_at_once_is_not_shown(film):
    shown = Shown()
    with show_reading(shown):
        read(film)
    assert not shown.stages and not shown.fractions


def test_commands_show_reading(film, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BEFORE_READING_SHOWS", 0.0)
    lines = io.StringIO()
    with working(Console(file=lines)):
        read(film)
    assert f"reading {film.name}" in lines.getvalue()
