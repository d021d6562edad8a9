"""How the documentation is built: `make docs`."""

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version as installed
from pathlib import Path
from xml.etree import ElementTree

project = "gradsim"
author = "The gradsim contributors"
version = release = installed("gradsim")

extensions = ["myst_nb"]
myst_enable_extensions = ["amsmath", "dollarmath", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"
exclude_patterns = ["_build", "_generated"]

html_theme = "furo"
html_title = f"gradsim {version}"

ROOT = Path(__file__).parents[1]
CELLS = "tests/reproduction/differentiability/test_check.py"


def measure_gradients(app) -> None:
    """Run the tests of the differentiability table, and write what they measured as the page's tables."""
    from gradsim_reproduction.differentiability.cells import from_tests
    from gradsim_reproduction.differentiability.page import markdown

    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "tests.xml"
        run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", CELLS]
        said = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)  # what fails is a cross
        if said.returncode not in (0, 1):
            raise RuntimeError(f"{' '.join(run)}\n{said.stdout}{said.stderr}")
        subject_slopes = {}
        for case in ElementTree.parse(report).iter("testcase"):
            for kept in case.iter("property"):
                subject_slopes[case.get("name", "").partition("[")[2].rstrip("]")] = json.loads(kept.get("value", ""))
    target = ROOT / "docs" / "_generated" / "differentiability.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text(markdown(from_tests(subject_slopes)), encoding="utf-8")


def setup(app) -> None:
    app.connect("builder-inited", measure_gradients)
