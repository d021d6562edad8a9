"""Independent jobs over processes of this machine or over a Ray cluster.

Each job is one call of a function of one argument. Where and in which order they run changes no result: a worker has
one thread, and takes nothing from the job before. A worker that dies (out of memory, killed) is replaced, and its job
is run again; an error that a job raises is the caller's.
"""

import logging
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from gradsim.errors import InputError
from gradsim.runtime.allocator import reuse_freed_memory
from gradsim.runtime.threads import VARIABLE, available_cores, set_threads

ENGINES = ("serial", "processes", "ray")
THREADS = tuple(f"{library}_NUM_THREADS" for library in ("OMP", "MKL", "OPENBLAS"))  # read when a library is loaded
JOBS_PER_CORE = 2  # jobs given to Ray for each of its cores, so that none waits for the next


class WorkerError(RuntimeError):
    """A job whose workers died, again and again."""


def run_jobs(
    function: Callable[[Any], Any],
    items: Sequence,
    engine: str = "serial",
    workers: int | None = None,
    retries: int = 2,
    report: Callable[[int, int], None] = lambda finished, total: None,
) -> Iterator[tuple[int, Any]]:
    """Call `function` on every item; yields (index, result) as they come.

        for k, area in run_jobs(measure, files, engine="processes"):
            print(files[k], area)

    Args:
        function: Function at the top level of a module, so that another process can import it.
        items: Arguments; they and the results must be picklable.
        engine: "serial" (here, in order), "processes" (of this machine) or "ray" (the cluster that `RAY_ADDRESS` names,
            or else this machine; the extra `ray`).
        workers: Largest number of parallel workers; by default the number of cores of this machine or the cluster.
        retries: Number of times that a job is repeated if its worker died.
        report: Called with the number of finished jobs and their total.

    Raises:
        InputError: If the engine is unknown, the number of workers is below 1, or ray is not installed.
        WorkerError: If the workers of one job died more often than `retries`.
    """
    check_engine(engine, workers)
    runs = {"serial": _serial, "processes": _processes, "ray": _ray}[engine](function, items, workers, retries)
    return _counted(runs, len(items), report)


def check_engine(engine: str, workers: int | None) -> None:
    """Check the executor before work begins; arguments and errors as of `run_jobs`."""
    if engine not in ENGINES:
        raise InputError(f"no engine {engine!r}; there are {', '.join(ENGINES)}.")
    if workers is not None and workers < 1:
        raise InputError(f"workers: got {workers}; expected at least 1.")
    if engine == "serial" and (workers or 1) > 1:
        raise InputError(f"workers: got {workers} with the engine 'serial'; give --engine processes or ray.")


def _counted(runs: Iterator, total: int, report: Callable[[int, int], None]) -> Iterator[tuple[int, Any]]:
    for finished, (index, result) in enumerate(runs, 1):
        yield index, result
        report(finished, total)


def _serial(function, items, workers, retries):
    yield from ((k, function(item)) for k, item in enumerate(items))


def _processes(function, items, workers, retries):
    count = max(1, min(workers or available_cores(), len(items)))
    waiting, tries = list(range(len(items)))[::-1], [0] * len(items)
    while waiting:
        # Spawned, not forked: the threads of PyTorch and the runtime of Warp do not survive a fork.
        pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin_worker)
        running: dict[Future, int] = {}
        try:
            while waiting or running:
                while waiting and len(running) < count:  # no more than there are workers: these are lost with one
                    k = waiting[-1]
                    running[pool.submit(function, items[k])] = k  # a pool that broke meanwhile takes nothing
                    waiting.pop()
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    result = future.result()
                    yield running.pop(future), result
        except BrokenProcessPool:
            for k in sorted(running.values(), reverse=True):
                tries[k] += 1
                if tries[k] > retries:
                    raise WorkerError(_died(k, items[k], tries[k])) from None
                waiting.append(k)
        finally:
            pool.shutdown(wait=not running, cancel_futures=True)


def _begin_worker() -> None:
    """One thread, freed memory reused; and no life after the parent's, which may be killed while this worker waits."""
    _one_thread()
    reuse_freed_memory()
    parent = multiprocessing.parent_process()

    def follow(parent):
        parent.join()
        os._exit(1)

    if parent:
        threading.Thread(target=follow, args=(parent,), daemon=True).start()


def _ray(function, items, workers, retries):
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise InputError('engine: "ray" needs Ray; install it: pip install "gradsim[ray]"') from error
    begun = not ray.is_initialized()
    ours = begun and not os.environ.get("RAY_ADDRESS")
    if begun:
        local = {"num_cpus": workers or available_cores(), "include_dashboard": False} if ours else {}
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **local)
    try:
        # Ours has as many cores as workers; a cluster of others runs at once whatever it is given.
        ahead = workers if workers and not ours else JOBS_PER_CORE * int(ray.cluster_resources().get("CPU", 1))
        task = ray.remote(num_cpus=1, max_retries=retries)(_on_ray)
        call, running, waiting = ray.put(function), {}, list(range(len(items)))[::-1]
        while waiting or running:
            while waiting and len(running) < ahead:
                k = waiting.pop()
                running[task.remote(call, items[k])] = k
            for done in ray.wait(list(running))[0]:
                k = running.pop(done)
                try:
                    yield k, ray.get(done)
                except ray.exceptions.RayTaskError as error:
                    raise (error.cause if isinstance(error.cause, Exception) else error) from None
                except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
                    raise WorkerError(_died(k, items[k], retries + 1)) from error
    finally:
        if begun:
            ray.shutdown()


def _on_ray(function, item):
    _one_thread()
    reuse_freed_memory()
    return function(item)


def _one_thread() -> None:
    for name in (*THREADS, VARIABLE):
        os.environ[name] = "1"
    set_threads(1)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def default_to_one_thread() -> None:
    """Let libraries that are not imported yet use one thread, or as many as OMP_NUM_THREADS says.

    Fits are made of many small operations, which further threads of PyTorch slow down: they wait for each other.
    """
    threads = os.environ.get(THREADS[0], "1")
    for name in THREADS:
        os.environ.setdefault(name, threads)


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch has one thread within, and as many as before afterwards; a context or a decorator."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _died(index: int, item: object, times: int) -> str:
    text = repr(item)
    excerpt = text if len(text) < 80 else text[:77] + "..."
    return f"job {index} ({excerpt}): its worker died {times} times; is there enough memory? Use fewer workers."
