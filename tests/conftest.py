"""Settings of all tests."""

import gc
import os
import pathlib
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when PyTorch is imported: two workers have a core each
os.environ.setdefault("GRADSIM_THREADS", "1")

import pytest

# Of objects that live until the tests end, such as modules and their syntax trees, the garbage collector finds none.
gc.disable()

SAME_BITS = (  # files with a test that begins before any other loads a kernel, see `optimized_reverse_sweeps`
    "physics/rigid/test_pair_rollouts.py",
    "physics/coupled/test_rollout.py",
)
LONGEST = (  # tests that begin before all others, so that no worker is left with one of them at the end; the longest first
    *SAME_BITS,
    "reproduction/differentiability/test_check.py",
    "physics/soft/test_body.py",
    "physics/forces/test_actuation.py",
    "app/commands/test_control.py",
    "physics/soft/test_integrators.py",
    "test_docs.py",
    "test_examples.py",
    "identification/uncertainty/test_outline.py",
    "physics/contact/test_impact.py",
    "identification/gradients/test_api.py",
    "identification/test_scene_fits.py",
    "physics/soft/test_implicit.py",
    "identification/fields/test_answer.py",
    "physics/rigid/test_events.py",
)


# Files of kernels whose reverse sweeps, Warp modules of their own, are compiled without optimization, in two fifths of the time: tests run
# them for a few steps. Forward sweeps take up to twenty times as long so, and run more often; so do reverse sweeps of single bodies.
SWEEPS = (
    "coupled.implicit_adjoint_kernels",
    "coupled.kernels",
    "rigid.event_rollout_kernels",
    "rigid.multibody_kernels",
    "soft.implicit_adjoint_kernels",
)
UNOPTIMIZED = {"reverse": tuple(f"gradsim.physics.{file}_float" for file in SWEEPS)}


def configure_warp():
    """Options of Warp's compiler, which is what most of the time of the tests on a fresh clone is about: there are some three hundred modules."""
    import warp as wp

    wp.config.log_level = wp.LOG_WARNING  # otherwise one line for each module that Warp loads

    # Without Warp's inlining thresholds (9000), which save a tenth of a rollout and cost a third of its compilation.
    wp.config.cpu_compiler_flags = "-march=native"

    # Takes a fifth from the time of the compiler, and adds a hundredth to that of the tests: their kernels run for a fifth of it.
    wp.config.optimization_level = 1

    def resolve_options(module, *args, resolve=wp._src.context.Module.resolve_options, **kwargs) -> dict:
        """Options of a module; the compiler makes no pass over one that is not to be optimized, which halves its time."""
        options = resolve(module, *args, **kwargs)
        if module.name.startswith(UNOPTIMIZED["reverse"]) and not module.name.endswith("_forward"):
            options["optimization_level"] = 0
        if options["optimization_level"] == 0:
            options["cpu_compiler_flags"] = f"{options['cpu_compiler_flags']} -disable-llvm-passes"
        return options

    wp._src.context.Module.resolve_options = resolve_options


def pytest_runtest_setup(item):
    """Let tests by random numbers draw subnormal ones: a library with fast math, loaded by another test, flushes them to zero."""
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        import torch

        torch.set_flush_denormal(False)


class SlowCases:
    """Marks the cases that slow_cases.txt names, before `-m` leaves out what is marked."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config, items):
        folder = pathlib.Path(__file__).parent
        lines = (folder / "slow_cases.txt").read_text().splitlines()
        cases = {f"{folder.name}/{line}" for line in lines if line and not line.startswith("#")}
        for item in items:
            if item.nodeid in cases:
                item.add_marker(pytest.mark.slow)
        gone = cases - {item.nodeid for item in items}
        if gone and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
            raise pytest.UsageError(f"tests/slow_cases.txt names {', '.join(sorted(gone))}, which do not exist")


def pytest_configure(config):
    config.pluginmanager.register(SlowCases())
    if not config.getoption(
        "numprocesses", None
    ):  # not where workers run the tests, which then begin two seconds earlier
        configure_warp()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    """On a fresh clone two workers rewrite the assertions of half of the files each: all of them take one a quarter of a minute.

    The second worker does so from the last file on, until it comes to one that the first has read.
    """
    of_all = session.config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if not of_all or os.environ.get("PYTEST_XDIST_WORKER") != "gw1" or sys.dont_write_bytecode:
        return
    try:
        from _pytest.assertion.rewrite import PYC_TAIL, _rewrite_test, _write_pyc, assertstate_key, get_cache_dir
    except ImportError:  # each worker rewrites what it reads
        return
    state = session.config.stash.get(assertstate_key, None)
    if state is None:  # assertions stay plain
        return
    for path in sorted(pathlib.Path(__file__).parent.rglob("test_*.py"), reverse=True):
        folder = get_cache_dir(path)
        cached = folder / f"{path.stem}{PYC_TAIL}"
        if cached.exists():
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            digest, code = _rewrite_test(path, session.config)
        except (OSError, SyntaxError, Warning):  # which pytest reports with the file
            return
        _write_pyc(state, code, digest, cached)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    place = {name: k for k, name in enumerate(LONGEST)}
    here = pathlib.Path(__file__).parent
    if gone := [name for name in LONGEST if not (here / name).is_file()]:
        raise pytest.UsageError(f"tests/conftest.py: LONGEST names {', '.join(gone)}, which do not exist")
    file = lambda item: place.get(item.path.relative_to(here).as_posix(), len(place))
    items.sort(key=lambda item: (file(item), file(item) < len(place) and not compares_bits(item)))


def compares_bits(item) -> bool:
    """True for a test that has to be the first of its file to load a kernel."""
    return "optimized_reverse_sweeps" in getattr(item, "fixturenames", ())


def pytest_collection_finish():
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # from 700, 10, 10
    gc.enable()


@pytest.fixture
def unoptimized_kernels(monkeypatch):
    """Kernels that a test is the first to need take a third of the time to compile; for tests that run them little.

    They stay so for the process: not for kernels that fits and pictures of other files share, nor for tests that compare bits
    of two modules, which optimization rounds differently.
    """
    import warp as wp

    monkeypatch.setattr(wp.config, "optimization_level", 0)


@pytest.fixture
def optimized_reverse_sweeps(monkeypatch):
    """Reverse sweeps are compiled as forward sweeps are, and compute the same bits; for tests of files of `SAME_BITS`.

    Without optimization no product is fused with a sum.
    """
    monkeypatch.setitem(UNOPTIMIZED, "reverse", ())


@pytest.fixture(scope="module", autouse=True)
def young_heap():
    """Garbage collection looks at the objects of one file of tests: at those of all it takes a second."""
    yield
    gc.collect()
    gc.freeze()
