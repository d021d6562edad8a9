import numpy as np
import pytest

from gradsim.dataset import rigid, sample, test_numbers
from gradsim.identification.unknowns import Unknown
from gradsim_reproduction.baselines import ROWS

NAMES = ("body.mass", "ground.friction")


@pytest.fixture(autouse=True)
def no_steps(monkeypatch):
    """Samples without their stable step, which takes most of the time of a draw and has no part in the truth."""
    monkeypatch.setattr(rigid, "_substeps", lambda *_: 8)


def test_the_average_is_that_of_the_training_samples_and_one_for_all(tmp_path):
    found = ROWS["average"](test_numbers(3), 0, tmp_path, quick=True, unknowns=NAMES)
    training = [sample("rigid", k).truth for k in range(100) if k % 5 != 4]
    assert len(training) == 80 and [r["number"] for r in found] == [4, 9, 14]
    for row in found:
        assert row["values"] == {name: pytest.approx(np.mean([t[name] for t in training])) for name in NAMES}
        assert row["truth"] == {name: sample("rigid", row["number"]).truth[name] for name in NAMES}


def test_a_random_guess_lies_in_the_range_and_knows_no_truth(tmp_path):
    found = ROWS["random"](test_numbers(60), 0, tmp_path, unknowns=NAMES)
    ranges = {u.name: u for u in map(Unknown.parse, sample("rigid", 0).unknowns)}
    for name in NAMES:
        guess, truth = (np.array([r[key][name] for r in found]) for key in ("values", "truth"))
        low, high = ranges[name].low, ranges[name].high
        assert low <= guess.min() and guess.max() <= high and len(set(guess)) == 60
        assert abs(np.corrcoef(guess, truth)[0, 1]) < 3 / np.sqrt(60)  # three standard deviations of chance
    assert found[:5] == ROWS["random"](test_numbers(5), 0, tmp_path, unknowns=NAMES)  # whatever else is asked
