"""Threads share work without changing it, and survive errors, Ctrl-C and forks."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from gradsim.errors import InputError
from gradsim.runtime.threads import (
    VARIABLE,
    available_cores,
    map_in_threads,
    run_pieces,
    set_threads,
    thread_count,
    threads,
)

SEVERAL = 3
LONG = 30.0  # [s] that a test waits at most for what should be there at once


@pytest.fixture(autouse=True)
def the_number_of_threads_is_as_before():
    yield
    set_threads()


@pytest.mark.parametrize("count", [1, 2, SEVERAL])
def test_every_piece_runs_once(count):
    numbers: list[int] = []
    with threads(count):
        run_pieces([lambda k=k: numbers.append(k) for k in range(100)])
    assert sorted(numbers) == list(range(100))


def test_pieces_run_at_the_same_time():
    """Each of two pieces waits for the other; one after the other they would wait forever."""
    meeting = threading.Barrier(2)
    with threads(2):
        run_pieces([lambda: meeting.wait(LONG)] * 2)


def test_one_thread_runs_all_pieces_itself_in_order():
    places: list[tuple[int, int]] = []
    with threads(1):
        run_pieces([lambda k=k: places.append((k, threading.get_ident())) for k in range(5)])
    assert places == [(k, threading.get_ident()) for k in range(5)]


def test_pieces_of_a_piece_stay_on_its_thread():
    """Else helpers would wait for one another."""
    meeting, counts = threading.Barrier(2), []

    def piece():
        meeting.wait(LONG)  # so that a helper has one of the two
        if threading.current_thread() is not threading.main_thread():
            counts.append(thread_count())

    with threads(2):
        run_pieces([piece] * 2)
    assert counts == [1]


@pytest.mark.parametrize("place", ["caller", "helper"])
def test_an_error_is_the_callers_and_the_next_pieces_run(place):
    meeting = threading.Barrier(2)

    def fail():
        meeting.wait(LONG)
        if (threading.current_thread() is threading.main_thread()) == (place == "caller"):
            raise InputError("this piece is wrong")

    with threads(2):
        with pytest.raises(InputError, match="this piece is wrong"):
            run_pieces([fail] * 2)
        test_pieces_run_at_the_same_time()


@pytest.fixture
def heard():
    """Ctrl-C is not ignored, as it is in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_ctrl_c_waits_for_pieces_that_run_and_begins_no_other():
    """The memory that a piece writes to is free after the call."""
    meeting, ends, late = threading.Barrier(2), [], []

    def piece():
        meeting.wait(LONG)
        if threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.2)
        ends.append(threading.get_ident())

    with threads(2):
        with pytest.raises(KeyboardInterrupt):
            run_pieces([piece, piece, lambda: late.append(1)])
        assert len(ends) == 1 and not late
        test_pieces_run_at_the_same_time()


@pytest.mark.usefixtures("heard")
def test_ctrl_c_while_the_caller_waits_for_a_helper_is_raised_after_its_piece():
    meeting, ends = threading.Barrier(2), []

    def piece():
        meeting.wait(LONG)
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.2)  # the caller waits by now
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)
            ends.append(1)

    with threads(2):
        with pytest.raises(KeyboardInterrupt):
            run_pieces([piece] * 2)
        assert ends
        test_pieces_run_at_the_same_time()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_makes_helpers_of_its_own():
    program = """
import os, threading
from gradsim.runtime.threads import run_pieces, set_threads
set_threads(2)
def meet():
    meeting = threading.Barrier(2)
    run_pieces([lambda: meeting.wait(20)] * 2)
meet()
child = os.fork()
meet()
if child:
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0


@pytest.mark.parametrize("count", [1, 2, SEVERAL])
def test_results_come_in_the_order_of_items(count):
    with threads(count):
        assert list(map_in_threads(lambda k: k * k, range(20))) == [k * k for k in range(20)]


def test_items_are_worked_on_at_the_same_time_each_by_one_thread():
    meeting = threading.Barrier(2)

    def work(k: int) -> int:
        if k:  # the first is done alone
            meeting.wait(LONG)
            return thread_count()
        return 1

    with threads(2):
        assert list(map_in_threads(work, range(5))) == [1] * 5


def test_an_error_of_an_item_is_the_callers():
    def work(k: int) -> None:
        if k == 2:
            raise InputError("2 is wrong")

    with threads(2), pytest.raises(InputError, match="2 is wrong"):
        list(map_in_threads(work, range(50)))


def test_by_default_all_cores_share_the_work(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    set_threads()
    assert thread_count() == available_cores()


def test_the_environment_has_the_number_of_threads_unless_a_call_names_one(monkeypatch):
    monkeypatch.setenv(VARIABLE, "3")
    set_threads()
    assert thread_count() == 3
    set_threads(2)
    assert thread_count() == 2
    with threads(1):
        assert thread_count() == 1
    assert thread_count() == 2


@pytest.mark.parametrize("count", [0, -1, 1025, 1.5, True, "many"])
def test_an_impossible_number_of_threads_is_refused(count):
    with pytest.raises(InputError, match=r"threads: got .*; expected a whole number from 1 to 1024\. Leave it out"):
        set_threads(count)


@pytest.mark.parametrize("text", ["0", "two", "1.5"])
def test_an_impossible_number_in_the_environment_is_refused(monkeypatch, text):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(InputError, match=f"{VARIABLE}: got '{text}'"):
        set_threads()
