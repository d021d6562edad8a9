"""Launches that are recorded and replayed."""

import gc
import weakref

import pytest
import torch
import warp as wp

from gradsim.engine.launch import array, recorded, replay


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
