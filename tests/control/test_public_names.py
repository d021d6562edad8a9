"""The room under its public name."""

import importlib
import subprocess
import sys

import gradsim as gs


def test_control_is_found_under_the_roof():
    room = importlib.import_module("gradsim.control")
    assert gs.control is room and "control" in dir(gs)
    assert all(getattr(gs.control, name) is not None for name in gs.control.__all__)


def test_importing_the_roof_does_not_import_the_room():
    code = "import sys, gradsim; assert 'gradsim.control' not in sys.modules and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
