import pytest

from gradsim.errors import InputError
from gradsim.runtime.limits import require_steps


def test_more_time_steps_than_the_limit_are_refused_and_the_variable_raises_it(monkeypatch):
    monkeypatch.setenv("GRADSIM_MAX_STEPS", "100")
    require_steps(10, 10)
    with pytest.raises(InputError, match="11 frames of 10 steps .*GRADSIM_MAX_STEPS"):
        require_steps(11, 10)
    monkeypatch.setenv("GRADSIM_MAX_STEPS", "110")
    require_steps(11, 10)


@pytest.mark.parametrize("text", ["none", "0", "-1", "nan"])
def test_a_limit_that_is_no_positive_number_is_refused(monkeypatch, text):
    monkeypatch.setenv("GRADSIM_MAX_STEPS", text)
    with pytest.raises(InputError, match="GRADSIM_MAX_STEPS"):
        require_steps(1, 1)
