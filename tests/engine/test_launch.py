"""Launches that are recorded and replayed."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import warp as wp

from gradsim.engine import launch
from gradsim.engine.launch import array, recorded, replay
from gradsim.runtime.threads import threads


@wp.kernel(enable_backward=False)
def double(x: wp.array[wp.float64], y: wp.array[wp.float64]):
    i = wp.tid()
    y[i] = wp.float64(2.0) * x[i]


def test_a_replayed_launch_takes_new_arrays_of_another_size():
    for n in (3, 5, 0):
        x, y = torch.arange(n).double(), torch.zeros(n).double()
        replay(double, n, [array(wp.float64, x), array(wp.float64, y)], "cpu")
        assert torch.equal(y, 2 * x)


@pytest.mark.parametrize("launches", [1, 2])
def test_a_launch_lets_its_arrays_go(launches):
    for _ in range(launches):
        x, y = torch.ones(4).double(), torch.zeros(4).double()
        replay(double, 4, [array(wp.float64, x), array(wp.float64, y)], "cpu")
    gone = weakref.ref(x), weakref.ref(y)
    del x, y
    gc.collect()
    assert [g() for g in gone] == [None, None]


def test_an_array_keeps_the_copy_that_it_describes():
    x, y = torch.arange(8).double()[::2], torch.zeros(4).double()
    described = array(wp.float64, x)  # not contiguous: of a copy
    gc.collect()
    replay(double, 4, [described, array(wp.float64, y)], "cpu")
    assert torch.equal(y, 2 * x)


def test_a_recorded_launch_reads_what_its_arrays_hold_now():
    x, y = torch.arange(4).double(), torch.zeros(4).double()
    arguments = [array(wp.float64, x), array(wp.float64, y)]
    run, nothing = recorded(double, 4, arguments, "cpu"), recorded(double, 0, arguments, "cpu")
    for factor in (1, 3):
        x.mul_(factor)
        nothing()
        run()
        assert torch.equal(y, 2 * x)


@wp.kernel(enable_backward=False)
def count_up(offset: int, x: wp.array2d[wp.float64], y: wp.array2d[wp.float64]):
    i, j = wp.tid()
    i += offset
    y[i, j] = y[i, j] + x[i, j]


@pytest.mark.parametrize("rows", [1, 2, 7, 100])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_threads_share_a_launch_whose_kernel_has_an_offset(count, rows, monkeypatch):
    """Every index is run once, at the first launch and later."""
    monkeypatch.setattr(launch, "SHORTEST_PIECE", 1)  # every launch is worth sharing
    x = torch.arange(3.0 * rows).double().reshape(rows, 3)
    for _ in range(3):
        y = torch.zeros_like(x)
        with threads(count):
            replay(count_up, (rows, 3), [array(wp.float64, x), array(wp.float64, y)], "cpu")
        assert torch.equal(y, x)


def test_a_launch_is_shared_only_where_it_takes_long_enough(monkeypatch):
    parts = []
    monkeypatch.setattr(launch, "run_pieces", lambda pieces: parts.append(len(pieces)) or [piece() for piece in pieces])
    x, y = torch.ones(64, 3).double(), torch.zeros(64, 3).double()
    args = [array(wp.float64, x), array(wp.float64, y)]
    with threads(2):
        for _ in range(3):
            replay(count_up, (64, 3), args, "cpu")  # 192 sums take some hundred nanoseconds
        assert parts[1:] == [1, 1]
        monkeypatch.setattr(launch, "SHORTEST_PIECE", 1)
        replay(count_up, (64, 3), args, "cpu")
    assert parts[3:] == [2 * launch.PIECES_PER_THREAD]


def test_python_threads_may_launch_at_the_same_time(monkeypatch):
    """Each has launches of its own, and all have the same helpers."""
    monkeypatch.setattr(launch, "SHORTEST_PIECE", 1)

    def sums(k: int) -> bool:
        x, y = torch.full((50, 3), float(k)).double(), torch.zeros(50, 3).double()
        with threads(2):
            for _ in range(20):
                replay(count_up, (50, 3), [array(wp.float64, x), array(wp.float64, y)], "cpu")
        return torch.equal(y, 20 * x)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(sums, range(16)))
