"""Pictures that begin again beyond their borders."""

import math

import pytest
import torch
from tolerances import ROUNDING, assert_near

from gradsim.errors import InputError
from gradsim.render.shading.texture import sample, sheet

IMAGE = torch.rand(3, 5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
PLACES = torch.rand(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 4 - 2


def bilinear(image, uv):
    """The definition: weights 1 − |distance| in texels of the four nearest texel centres of an endless tiling."""
    h, w = image.shape[1:]
    values = []
    for u, v in uv.tolist():
        column, row = u * w - 0.5, (1 - v) * h - 0.5
        total = torch.zeros(len(image), dtype=image.dtype)
        for j in (math.floor(row), math.floor(row) + 1):
            for i in (math.floor(column), math.floor(column) + 1):
                total += image[:, j % h, i % w] * (1 - abs(row - j)) * (1 - abs(column - i))
        values.append(total)
    return torch.stack(values)


def test_samples_are_bilinear_between_the_texels_of_an_endless_tiling():
    torch.testing.assert_close(sample(IMAGE, PLACES), bilinear(IMAGE, PLACES), rtol=0, atol=1e-13)


def test_a_sheet_shows_each_image_as_often_as_its_places_go_round():
    """But at the outer border of the tiles, where places are kept half a texel inside."""
    other = torch.rand(3, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    inner = PLACES[:, :1] % 0.3 + 0.3 + torch.tensor([[1.0, -1.0]]).double() * (PLACES > 0)
    whole, uv = sheet([other, IMAGE], [inner, PLACES])
    expected = bilinear(other, inner)
    assert_near(sample(whole, uv[:40]), expected, ROUNDING, scale=1.0)
    within = ((PLACES > -2 + 0.5 / 5) & (PLACES < 2 - 0.5 / 5)).all(1)
    assert within.sum() > 30
    assert_near(sample(whole, uv[40:])[within], bilinear(IMAGE, PLACES[within]), ROUNDING, scale=1.0)


@pytest.mark.parametrize("turns", [-1.0, 1.0, 3.0])
def test_a_whole_turn_changes_nothing(turns):
    level = torch.linspace(0, 3, len(PLACES), dtype=torch.float64)
    torch.testing.assert_close(sample(IMAGE, PLACES + turns, level), sample(IMAGE, PLACES, level))


def test_a_sheet_of_too_many_copies_is_refused():
    floor = torch.tensor([[0.0, 0.0], [1e3, 1e3]])
    with pytest.raises(InputError, match="64 × 64 texels repeats 1000 × 1000 times"):
        sheet([torch.rand(3, 64, 64)], [floor])
