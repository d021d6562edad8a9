"""A chain of four hinged links from one URDF file: gradsim beside Newton's SolverFeatherstone, in one run.

Both take semi-implicit steps of 1/1600 s, gradsim in float64 by rows and multipliers, Newton in float32 by joint angles.
Newton's steps are replayed from a recording, or launched one by one. Times are CPU time of one thread per step of all
worlds, the fastest of five.
"""

import tempfile
from pathlib import Path

from gradsim_reproduction.contact import articulated
from gradsim_reproduction.contact.chain import has_newton


def chain() -> tuple[dict, list[str]]:
    """Figures, and what a reader of them has to know."""
    if not has_newton():
        return {}, ['Newton is not installed, so nothing is compared with it: pip install "gradsim[newton]".']
    with tempfile.TemporaryDirectory() as folder:
        return articulated.newton_figures(articulated.compare(Path(folder))), [(__doc__ or "").strip()]
