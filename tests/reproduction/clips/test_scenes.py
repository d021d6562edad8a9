import numpy as np
import pytest
from hidden_truths import check_hidden_truths

from gradsim_reproduction.clips import scenes
from gradsim_reproduction.clips.scenes import (
    DRAG,
    FORCE,
    KINDS,
    LARGEST,
    RATE,
    SIZE,
    SMALL,
    recording,
    size_of,
    wrong_model,
)


@pytest.mark.parametrize("kind", KINDS)
def test_truths_are_within_the_ranges_and_the_scene_does_not_depend_on_them(kind, monkeypatch):
    check_hidden_truths(scenes, kind, monkeypatch)


def test_at_least_eighty_recordings_of_ten_kinds_most_of_them_small():
    sizes = [size_of(name, number) for name, kind in KINDS.items() for number in range(kind.count)]
    assert len(KINDS) == 10 and len(sizes) >= 80
    assert sizes.count(SMALL) > len(sizes) / 2 and sizes.count(LARGEST) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_model_differs_in_one_thing(kind):
    one = {recording(kind, number, 0).fault: recording(kind, number, 0) for number in range(3)}
    for fault, of in one.items():
        scene, unknowns = wrong_model(of)
        before, after = of.scene.model_dump(), scene.model_dump()
        differs = {key for key in before if before[key] != after[key]}
        assert (
            differs
            == {RATE: {"timing"}, DRAG: set(), SIZE: {"bodies"}, FORCE: differs & {"bodies", "joints", "gravity"}}[
                fault
            ]
        )
        assert (fault == DRAG) == (not differs)
        assert set(unknowns) <= set(of.unknowns)


def test_a_box_that_is_too_large_rests_on_its_incline():
    one = recording("incline", 1, 0)
    scene, _ = wrong_model(one)
    box, up = scene.bodies["box"], np.array(scene.grounds["ground"].normal)
    assert one.fault == SIZE and np.dot(box.position, up) == pytest.approx(box.shape.box.size[2] / 2)
