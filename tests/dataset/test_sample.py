"""Samples of the data set: drawn by their number alone, and no scene tells its truth."""

import pytest

from gradsim.dataset import OBJECTS, rigid, sample, test_numbers
from gradsim.dataset.sample import SAMPLERS
from gradsim.errors import InputError
from gradsim.scene import Scene, parameters


def test_a_sample_follows_from_its_number_and_seed_alone():
    first = sample("rigid", 7, 3)
    sample("rigid", 8, 3)
    assert sample("rigid", 7, 3) == first
    assert sample("rigid", 8, 3).scene != first.scene != sample("rigid", 7, 4).scene


@pytest.fixture
def no_steps(monkeypatch):
    """Samples without their stable step, which takes most of the time of a draw and no random number."""
    monkeypatch.setattr(rigid, "_substeps", lambda *_: 8)


def test_the_truth_is_uniform_over_its_ranges_and_none_of_the_scene(no_steps):
    samples = [sample("rigid", k) for k in range(150)]
    for text in samples[0].unknowns:
        name, low, high = text.split(":")
        shares = [(s.truth[name] - float(low)) / (float(high) - float(low)) for s in samples]
        assert 0 <= min(shares) < 0.05 and 0.95 < max(shares) <= 1
        assert sum(shares) / 150 == pytest.approx(0.5, abs=4 / (12 * 150) ** 0.5)  # four standard errors
        assert len({parameters(s.scene)[name].value.item() for s in samples[:20]}) == 1


def test_a_placed_scene_holds_the_truth_and_nothing_else_new():
    one = sample("rigid", 4)
    with_parameters = one.true_scene()
    known = parameters(with_parameters)
    assert {name: known[name].value.item() for name in one.truth} == one.truth
    assert {name: parameters(one.scene)[name].value.item() for name in one.truth} != one.truth
    back = with_parameters.model_copy(update={"bodies": one.scene.bodies, "grounds": one.scene.grounds})
    assert back == one.scene


def test_a_scene_of_a_sample_survives_its_file(tmp_path):
    with_parameters = sample("rigid", 11).true_scene()
    with_parameters.save(tmp_path / "scene.yaml")
    assert Scene.load(tmp_path / "scene.yaml") == with_parameters
    assert str(tmp_path) not in (tmp_path / "scene.yaml").read_text()


def test_the_last_of_every_five_samples_is_for_testing():
    split = [sample("rigid", k).split for k in range(20)]
    assert [k for k, which in enumerate(split) if which == "test"] == test_numbers(4)
    assert len([k for k in test_numbers(1000) if k < 1000]) == 200  # of 800 and 200, as in the paper


def test_all_objects_come_up_among_training_and_test_samples(no_steps):
    for split in ("train", "test"):
        numbers = test_numbers(14) if split == "test" else range(0, 70, 5)
        assert {sample("rigid", k).object for k in numbers} == set(OBJECTS)


def test_what_is_no_sample_is_refused():
    with pytest.raises(InputError, match=rf"unknown kind 'rigit' of samples; choose one of {', '.join(SAMPLERS)}"):
        sample("rigit", 0)
    with pytest.raises(InputError, match="`number` is -1; expected at least 0"):
        sample("rigid", -1)
