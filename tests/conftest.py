"""Settings of all tests."""

import gc
import os
import pathlib

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when PyTorch is imported: two workers have a core each
os.environ.setdefault("GRADSIM_THREADS", "1")

import pytest

# Of objects that live until the tests end, such as modules and their syntax trees, the garbage collector finds none.
gc.disable()

LONGEST = (  # tests that begin before all others, so that no worker is left with one of them at the end; the longest first
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
    "physics/rigid/test_pair_rollouts.py",
    "identification/test_scene_fits.py",
    "physics/soft/test_implicit.py",
    "identification/fields/test_answer.py",
    "physics/rigid/test_events.py",
)


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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    place = {name: k for k, name in enumerate(LONGEST)}
    here = pathlib.Path(__file__).parent
    if gone := [name for name in LONGEST if not (here / name).is_file()]:
        raise pytest.UsageError(f"tests/conftest.py: LONGEST names {', '.join(gone)}, which do not exist")
    items.sort(key=lambda item: place.get(item.path.relative_to(here).as_posix(), len(place)))


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


@pytest.fixture(scope="module", autouse=True)
def young_heap():
    """Garbage collection looks at the objects of one file of tests: at those of all it takes a second."""
    yield
    gc.collect()
    gc.freeze()
