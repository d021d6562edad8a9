"""Baselines: rows of the paper's tables other than its own.

A row is a function of test numbers, seed, folder, progress, `quick` and the names of the unknowns to identify (the others
are known). It returns for every sample that it takes part in: `number`, `object`, `truth` and `values` by name, and
`cpu_seconds`; finished ones are kept in the folder.

    rows = ROWS["cma"](test_numbers(10), seed=0, out=Path("runs/table1"), unknowns=("body.mass",))
"""

from gradsim_reproduction.baselines import convnet, pybullet, rows
from gradsim_reproduction.baselines.cma_search import cma
from gradsim_reproduction.baselines.reinforce import pybullet_landscape

ROWS = {  # name in the tables: how it is made
    "average": rows.average,
    "random": rows.random,
    "convnet": convnet.rows,
    "pybullet": pybullet.rows,
    "cma": cma,
}

__all__ = ["ROWS", "pybullet_landscape"]
