"""The part of the film that counts."""

import pytest

from gradsim.control.training.settings import Horizon
from gradsim.errors import InputError


def test_it_grows_evenly_to_the_whole_video_and_stays():
    frames = [Horizon(0.2, 4).frames(k, 101) for k in range(7)]
    assert frames == [21, 41, 61, 81, 101, 101, 101]
    assert [Horizon(0.3, 0).frames(k, 11) for k in (0, 5)] == [11, 11]
    assert Horizon(0.01, 10).frames(0, 11) == 2 and Horizon(1.0, 10).frames(0, 11) == 11


@pytest.mark.parametrize("first, iterations", [(0.0, 3), (1.2, 3), (0.5, -1)])
def test_what_is_no_horizon_is_refused(first, iterations):
    with pytest.raises(InputError, match="horizon"):
        Horizon(first, iterations)
