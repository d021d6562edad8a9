"""Pictures in files as arrays."""

import numpy as np
import pytest
from PIL import Image

from gradsim.errors import InputError
from gradsim.geometry import image_io

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)


def test_a_image_is_its_values_over_255(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    read = image_io.read(tmp_path / "a.png")
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, np.moveaxis(PIXELS, -1, 0).astype(np.float32) / 255)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P"])
def test_grey_palettes_and_alpha_become_three_channels(tmp_path, mode):
    image = Image.fromarray(PIXELS).convert(mode)
    image.save(tmp_path / "a.png")
    np.testing.assert_array_equal(
        image_io.read(tmp_path / "a.png"), np.moveaxis(np.asarray(image.convert("RGB"), np.float32) / 255, -1, 0)
    )


def test_what_is_no_image_of_eight_bits_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"image .*none\.png does not exist"):
        image_io.read(tmp_path / "none.png")
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(InputError, match="cannot be read as an image"):
        image_io.read(tmp_path / "text.png")
    Image.fromarray(np.full((2, 2), 40000, np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(InputError, match=r"deep\.png has more than 8 bits per channel \(mode I;16\); save it with 8"):
        image_io.read(tmp_path / "deep.png")


def test_images_side_by_side_are_read_back_with_white_between(tmp_path):
    one, other = (np.moveaxis(PIXELS, -1, 0) / 255, np.full((3, 5, 2), -0.5))
    image_io.write(tmp_path / "new" / "both.png", one, other)
    both = image_io.read(tmp_path / "new" / "both.png")
    assert both.shape == (3, 5, 7 + image_io.GAP + 2)
    np.testing.assert_allclose(both[:, :, :7], one, rtol=1e-6)
    assert (both[:, :, 7:-2] == 1).all()
    assert (both[:, :, -2:] == 0).all()


def test_images_of_other_shapes_and_kinds_of_file_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"unknown suffix; use one of \.png"):
        image_io.write(tmp_path / "a.bmp", np.zeros((3, 4, 4)))
    with pytest.raises(InputError, match="equal heights"):
        image_io.write(tmp_path / "a.png", np.zeros((3, 4, 4)), np.zeros((3, 5, 4)))


def test_a_image_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    image_io.write(tmp_path / "a.png", np.zeros((3, 4, 4)))
    before = (tmp_path / "a.png").read_bytes()

    def fails(self, path):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(Image.Image, "save", fails)
    with pytest.raises(OSError, match="disk full"):
        image_io.write(tmp_path / "a.png", np.ones((3, 4, 4)))
    assert (tmp_path / "a.png").read_bytes() == before and len(list(tmp_path.iterdir())) == 1
