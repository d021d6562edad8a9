"""A data set has the same bits however it was made."""

import contextlib
import json
import os
import shutil
import signal
import time

import pytest
from dataset_cases import COUNT, SIZES, UNIT

from gradsim.dataset import generate as module
from gradsim.dataset.generate import generate
from gradsim.dataset.layout import DatasetLayout
from gradsim.dataset.verify import verify
from gradsim.errors import InputError
from gradsim.runtime.threads import threads


def hashed(folder):
    found = verify(folder)
    assert found.whole, found.faults
    return found.count, found.content_hash


def test_a_run_that_failed_goes_on_and_makes_nothing_twice(made, tmp_path, monkeypatch):
    videos = module.render_sample

    def failing(drawn, sizes):
        if drawn.number == 3:
            raise KeyboardInterrupt
        return videos(drawn, sizes)

    monkeypatch.setattr(module, "render_sample", failing)
    with pytest.raises(KeyboardInterrupt):
        generate("rigid", COUNT, tmp_path, sizes=SIZES, unit=UNIT)
    assert verify(tmp_path).units == [1, 2]
    first = DatasetLayout.open(tmp_path).manifest(0).read_bytes()
    monkeypatch.setattr(module, "render_sample", videos)
    record = generate("rigid", COUNT, tmp_path, sizes=SIZES, unit=UNIT)
    assert record["videos"] == COUNT - UNIT
    assert DatasetLayout.open(tmp_path).manifest(0).read_bytes() == first
    assert hashed(tmp_path) == hashed(made)


def test_shares_in_any_order_make_the_whole(made, tmp_path):
    for share in (2, 1):
        generate("rigid", COUNT, tmp_path, sizes=SIZES, unit=UNIT, shard=(share, 2))
    assert hashed(tmp_path) == hashed(made)


@pytest.mark.slow
def test_more_videos_keep_the_first(made, tmp_path):
    """Three videos fill one unit and begin the second, which is made anew with all of its videos."""
    generate("rigid", 3, tmp_path, sizes=SIZES, unit=UNIT)
    before = DatasetLayout.open(tmp_path).manifest(0).read_bytes()
    generate("rigid", COUNT, tmp_path, sizes=SIZES, unit=UNIT)
    assert DatasetLayout.open(tmp_path).manifest(0).read_bytes() == before
    assert hashed(tmp_path) == hashed(made)


def test_fewer_videos_change_nothing(made, tmp_path):
    shutil.copytree(made, tmp_path / "D")
    assert generate("rigid", 2, tmp_path / "D", sizes=SIZES, unit=UNIT)["videos"] == 0
    assert hashed(tmp_path / "D") == hashed(made)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("seed: 0 then, 3 now", {"seed": 3}),
        ("sizes", {"sizes": (32,)}),
        ("unit: 2 then, 50 now", {"unit": 50}),
        ("sizes: got 48", {"sizes": (48,)}),
        ("expected 1/2 to 2/2", {"shard": (3, 2)}),
        ("n: got 0", {"count": 0}),
        ("unknown kind 'gas'", {"kind": "gas"}),
    ],
)
def test_what_does_not_go_is_refused(made, words, given):
    wanted = {"kind": "rigid", "count": COUNT, "sizes": SIZES, "unit": UNIT} | given
    with pytest.raises(InputError, match=words):
        generate(out=made, **wanted)


def test_videos_drawn_by_another_recipe_are_not_mixed(made, tmp_path):
    shutil.copytree(made, tmp_path / "D")
    path = tmp_path / "D" / "dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"recipe": "0"}))
    with pytest.raises(InputError, match="recipe"):
        generate("rigid", COUNT, tmp_path / "D", sizes=SIZES, unit=UNIT)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("engine", "workers"), [("processes", 1), ("processes", 2), ("ray", 2)])
def test_every_engine_makes_the_same_bits(made, tmp_path, engine, workers):
    generate("rigid", COUNT, tmp_path, sizes=SIZES, unit=UNIT, engine=engine, workers=workers)
    assert hashed(tmp_path) == hashed(made)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_threads_makes_the_same_bits(made, tmp_path, count):
    """All videos are of one unit: `map_in_threads` makes the first alone, and the others by several threads."""
    with threads(count):
        generate("rigid", COUNT, tmp_path, sizes=SIZES, unit=COUNT)
    assert hashed(tmp_path) == hashed(made)


def test_a_record_that_a_killed_run_was_writing_is_removed(tmp_path):
    draft = tmp_path / "runs" / ".20200101T000000-01234567.json.abcdefgh.part"
    draft.parent.mkdir()
    draft.touch()
    os.utime(draft, (1e9, 1e9))
    generate("rigid", COUNT, tmp_path, sizes=SIZES, unit=UNIT)
    assert not draft.exists()


def test_kill_9_loses_nothing_that_was_finished(made, tmp_path):
    """At any moment: here, as soon as the first unit counts, and again a little later."""
    for finished in (1, 2):
        process = os.fork()  # which has imported everything, and has the kernels
        if process == 0:
            try:
                generate("rigid", COUNT, tmp_path, sizes=SIZES, unit=UNIT)
            finally:
                os._exit(0)
        while len(list((tmp_path / "units").glob("0*.json"))) < finished and os.waitpid(process, os.WNOHANG)[0] == 0:
            time.sleep(0.001)
        time.sleep(0.02 * finished)  # into the next unit
        with contextlib.suppress(ProcessLookupError):  # it was faster
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
    kept = DatasetLayout.open(tmp_path).manifest(0).read_bytes()
    generate("rigid", COUNT, tmp_path, sizes=SIZES, unit=UNIT)
    assert DatasetLayout.open(tmp_path).manifest(0).read_bytes() == kept
    assert not list(tmp_path.rglob("*.part"))
    assert hashed(tmp_path) == hashed(made)
