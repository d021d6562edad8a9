"""Threads of this process that share independent work, whose number changes no result.

    set_threads(2)
    run_pieces([piece.launch for piece in pieces])

The caller takes piece after piece, and so does each helper thread once it is awake. A helper that a busy machine does
not wake in time costs nothing: its pieces are done by then. Pieces must not depend on one another, and should let go of
Python's lock, as kernels do. No thread waits by spinning.
"""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

from gradsim.errors import InputError

VARIABLE = "GRADSIM_THREADS"  # number of threads unless `set_threads` names one
MOST_THREADS = 1024
LONGEST_WAIT = (
    0.1  # [s] before the caller looks again whether helpers have ended, should Ctrl-C have lost their message
)

Piece = Callable[[], object]
Item = TypeVar("Item")
Result = TypeVar("Result")


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count() -> int:
    """Number of threads that share the work of this thread.

    Raises:
        InputError: If GRADSIM_THREADS is read and is not a whole number from 1 to 1024.
    """
    count = getattr(_of_this_thread, "count", None) or _settings.get("count")
    if count is None:
        count = _settings["count"] = _parse(os.environ.get(VARIABLE), VARIABLE)
    return count


def set_threads(count: int | None = None) -> None:
    """Set the number of threads that share the kernels of one call: worlds, starts of a fit, frames.

        gradsim.set_threads(1)

    Results are the same to the last bit for any number. PyTorch's own threads are others, see `torch.set_num_threads`.

    Args:
        count: From 1 to 1024; None for GRADSIM_THREADS of the environment, or else all cores that this process may use.

    Raises:
        InputError: If the number is not one of these.
    """
    _settings["count"] = _parse(os.environ.get(VARIABLE), VARIABLE) if count is None else _parse(count, "threads")


@contextmanager
def threads(count: int) -> Iterator[None]:
    """This thread has a number of threads within; a context or a decorator.

    Args:
        count: As for `set_threads`.

    Raises:
        InputError: As `set_threads`.
    """
    before = getattr(_of_this_thread, "count", None)
    _of_this_thread.count = _parse(count, "threads")
    try:
        yield
    finally:
        _of_this_thread.count = before


def _parse(count: int | str | None, name: str) -> int:
    if count is None or count == "":
        return available_cores()
    try:
        number = int(count)
    except (TypeError, ValueError):
        number = 0
    if not 1 <= number <= MOST_THREADS or isinstance(count, bool | float):
        raise InputError(
            f"{name}: got {count!r}; expected a whole number from 1 to {MOST_THREADS}. Leave it out for all cores."
        )
    return number


def run_pieces(pieces: Sequence[Piece]) -> None:
    """Call each piece once, on this thread and on helpers, in any order; returns when all have ended.

    After an error no further piece begins, and one error is raised. So it is with Ctrl-C: pieces that run are waited for,
    since their memory is the caller's.
    """
    helpers = min(thread_count(), len(pieces)) - 1
    shared = _Shared(pieces)
    try:
        if helpers > 0:
            _wake(shared, helpers)
        shared.work()
    finally:
        shared.finish()
    if shared.errors:
        raise shared.errors[0]


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Results of a function for each item, in order; several items at a time, each by one thread.

    For work between whose steps Python's lock is free often: kernels, and PyTorch's operations on large tensors. The first item
    is done alone, since it loads kernels.

    Args:
        function: A function that may be called in several threads at once.
        items: Its arguments.
    """
    count = min(thread_count(), len(items) - 1)
    if count < 2:
        yield from map(function, items)
        return
    yield function(items[0])
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(count, "gradsim", _be_one_thread) as pool:
        try:
            for item in items[1:]:
                waiting.append(pool.submit(function, item))
                if len(waiting) > count:  # no more results wait than there are threads
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _be_one_thread() -> None:
    _of_this_thread.count = 1


class _Shared:
    """Pieces that are left, and the helpers at work on them.

    No lock guards them, which Ctrl-C could leave closed: each step is one operation on a deque, a list or a queue.
    """

    def __init__(self, pieces: Sequence[Piece]):
        self.left: deque[Piece] = deque(pieces)
        self.begun: list[int] = []  # helpers that may have a piece, and those of them that have none any more
        self.ended: list[int] = []
        self.errors: list[BaseException] = []
        self.wake: queue.SimpleQueue[int] = queue.SimpleQueue()

    def work(self) -> None:
        """Take pieces until none is left."""
        while self.left:
            try:
                piece = self.left.popleft()
            except IndexError:  # another thread was faster
                return
            piece()

    def help(self, helper: int) -> None:
        """The same on a helper, whose errors are the caller's."""
        self.begun.append(helper)  # before it takes a piece
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 -- raised by `run_pieces`
            self.left.clear()
            self.errors.append(error)
        finally:
            self.ended.append(helper)
            self.wake.put(helper)

    def finish(self) -> None:
        """Let no further piece begin, and wait for those that run, through any Ctrl-C."""
        interrupt = None
        while True:
            try:
                self.left.clear()  # helpers that begin after it find nothing
                while len(self.ended) < len(self.begun):
                    with suppress(queue.Empty):
                        self.wake.get(timeout=LONGEST_WAIT)
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt


def _wake(shared: _Shared, helpers: int) -> None:
    """Give the pieces to as many helper threads, which are made when first needed."""
    with _making:
        while len(_helpers) < helpers:
            helper = threading.Thread(target=_help, args=(_waiting,), name="gradsim helper", daemon=True)
            helper.start()
            _helpers.append(helper)
    for _ in range(helpers):
        _waiting.put(shared)


def _help(waiting: "queue.SimpleQueue[_Shared]") -> None:
    _be_one_thread()
    while True:
        shared = waiting.get()
        shared.help(threading.get_ident())
        del shared  # else the arrays of its pieces would live until the next


def _forget_helpers() -> None:
    """A forked process has none of its parent's threads."""
    global _waiting, _making
    _helpers.clear()
    _waiting, _making = queue.SimpleQueue(), threading.Lock()


_settings: dict[str, int] = {}
_of_this_thread = threading.local()
_helpers: list[threading.Thread] = []
_waiting: "queue.SimpleQueue[_Shared]" = queue.SimpleQueue()
_making = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)
