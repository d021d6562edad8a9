"""Films of predictions: boxes have the edges of boxes, and every frame shows both colors where they are."""

import numpy as np
import pytest
from PIL import Image, ImageColor

from gradsim_reproduction.plotting import DATA, FIT
from gradsim_reproduction.reality.films import PANEL, Clip, box_edges, write_film


def test_edges_of_a_turned_box_have_its_lengths():
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    edges = box_edges(np.array([[1.0, 2.0, 3.0]]), turn[None], (0.1, 0.2, 0.3))[0]
    lengths = np.linalg.norm(edges[:, 1] - edges[:, 0], axis=1)
    assert sorted(lengths.round(12).tolist()) == [0.1] * 4 + [0.2] * 4 + [0.3] * 4
    assert edges.reshape(-1, 3).mean(0) == pytest.approx([1.0, 2.0, 3.0])


def test_views_are_along_the_stated_direction():
    """From −y, x is to the right and z up; from above, y is up."""
    point = np.array([1.0, 2.0, 3.0])
    assert Clip("", point, point, (-np.pi / 2, 0.0)).projected(point) == pytest.approx([1.0, 3.0])
    assert Clip("", point, point, (-np.pi / 2, np.pi / 2)).projected(point) == pytest.approx([1.0, 2.0])


def test_a_film_has_all_frames_of_the_longest_run_and_both_colors(tmp_path):
    line = np.stack([np.linspace(0, 1, 5), np.zeros(5), np.zeros(5)], 1)
    moving = lambda frames, shift: (
        line[None, None] + np.array([0, 0, 0.1]) * np.arange(frames)[:, None, None, None] + shift
    )
    clips = [Clip("a", moving(7, 0.0), moving(7, 0.3), floor=0.0), Clip("b", moving(4, 0.0), moving(4, 0.3))]
    image = write_film(tmp_path / "film.gif", clips, 20.0, "Film", "Words")
    assert image == {"file": "film.gif", "title": "Film", "caption": "Words"}
    with Image.open(tmp_path / "film.gif") as film:
        assert (film.size, film.n_frames) == ((2 * PANEL[0], PANEL[1]), 7)
        for frame in (0, 6):
            film.seek(frame)
            pixels = np.asarray(film.convert("RGB")).reshape(-1, 3).astype(int)
            for color in (DATA, FIT):
                near = np.abs(pixels - ImageColor.getrgb(color)[:3]).max(1) < 40
                assert near.sum() > 50
