"""Settings of all tests."""

import gc
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when PyTorch is imported: two workers have a core each

import pytest
import warp as wp

wp.config.log_level = wp.LOG_WARNING  # otherwise one line for each module that Warp loads

# Without Warp's inlining thresholds (9000), which save a tenth of a rollout and cost a third of its compilation: the time of
# the tests on a fresh clone is that of some two hundred modules.
wp.config.cpu_compiler_flags = "-march=native"


def pytest_collection_finish():
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def young_heap():
    """Garbage collection looks at the objects of one file of tests: at those of all it takes a second."""
    yield
    gc.collect()
    gc.freeze()
