"""What two threads of gradsim (`gradsim.set_threads`) gain in wall time over one: for a machine with at least two cores and nothing else to do.

`fit5` is the fit of five numbers of `fits.py`, `control` an iteration of the gear of `gear.py` (one world, which one thread moves), `control_worlds`
one of a throw of cloth in 32 worlds, `dataset` 60 videos of a data set. One and two threads take turns in one process; speedups are
ratios of the shortest turns. `threads_never_slower` is 1 if two threads are not slower beside as many busy processes as there
are cores, by the medians of turns and to a twentieth, the scatter of such medians; `busy` figures are these ratios. Results are compared to the last bit.
"""

import hashlib
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import torch
from fits import FIVE, SMALL, cube
from gear import iteration

from gradsim.app.figures import figure
from gradsim.control.task.setup import Setup
from gradsim.control.task.task import Task
from gradsim.control.training.train import train
from gradsim.dataset.generate import generate
from gradsim.dataset.layout import DatasetLayout, UnitManifest
from gradsim.identification import synthetic
from gradsim.identification.api import least_squares
from gradsim.runtime.threads import available_cores, threads

VIDEOS, FEW_VIDEOS = 60, 12  # the few beside busy processes
WORLDS = 32  # two registers of single precision
TURNS, BUSY_TURNS = 4, 9
SLACK = 1 / 20
GOAL = 1.7


def fit5() -> Callable[[], object]:
    """The fit; returns its estimates."""
    scene = cube(SMALL)
    model, trajectory = synthetic.simulate(scene, FIVE, synthetic.draw_truth(scene, FIVE, 0))
    masks = synthetic.float_masks(scene, trajectory)
    return lambda: least_squares(scene, masks, FIVE, model=model).unknowns


def control() -> Callable[[], object]:
    """Forward and backward of the gear; returns the hashes of its gradients."""
    run = iteration().run
    return lambda: [hashlib.sha256(gradient.numpy().tobytes()).hexdigest() for gradient in run()]


def control_worlds() -> Callable[[], object]:
    """An iteration in worlds whose gravity differs; returns its loss."""
    setup = Setup.of(Task.load("cloth"), seed=0, quick=True)
    gravity = torch.linspace(9.7, 9.9, WORLDS).double()[:, None] * torch.tensor([0.0, 0.0, -1.0]).double()
    config = replace(setup.config, iterations=1)
    start = {name: value.clone() for name, value in setup.policy.state_dict().items()}

    def run() -> object:
        setup.policy.load_state_dict(start)
        history = train(setup.plant, setup.policy, setup.goal, config, overrides={"gravity": gravity})
        return history.raw("loss")

    return run


def dataset(videos: int = VIDEOS) -> Callable[[], object]:
    """Videos in a folder that is removed; returns the hashes of their bits."""

    def run() -> object:
        with tempfile.TemporaryDirectory() as folder:
            generate("rigid", videos, folder)
            layout = DatasetLayout.open(folder)
            return [UnitManifest.read(layout.manifest(unit)).videos for unit in layout.units(videos)]

    return run


CASES = {"fit5": fit5, "control": control, "control_worlds": control_worlds, "dataset": dataset}
BUSY_CASES = CASES | {"dataset": lambda: dataset(FEW_VIDEOS)}


@contextmanager
def busy_neighbours() -> Iterator[None]:
    """As many processes as cores compute without end."""
    with ExitStack() as stack:
        for _ in range(available_cores()):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def wall_times(run: Callable[[], object], turns: int) -> dict[int, list[float]]:
    """Wall times of turns of one and of two threads [s]; the first turn of each is not counted."""
    times: dict[int, list[float]] = {1: [], 2: []}
    results = []
    for _ in range(turns + 1):
        for count, mine in times.items():
            begin = time.perf_counter()
            with threads(count):
                results.append(run())
            mine.append(time.perf_counter() - begin)
    if any(repr(result) != repr(results[0]) for result in results):
        raise RuntimeError("results of one and of two threads differ")
    return {count: mine[1:] for count, mine in times.items()}


def speedups(names=tuple(CASES)) -> tuple[dict, list[str]]:
    """Figures, and what a reader of them has to know."""
    notes, figures, least = [(__doc__ or "").strip(), f"{available_cores()} cores"], {}, math.inf
    for name in names:
        run = CASES[name]()
        quiet = wall_times(run, TURNS)
        gain = min(quiet[1]) / min(quiet[2])
        figures[f"threads_2_speedup_{name}"] = figure(gain, goal=GOAL, ok=gain >= GOAL)
        with busy_neighbours():
            turns = wall_times(BUSY_CASES[name](), BUSY_TURNS)
        busy = {count: statistics.median(times) for count, times in turns.items()}
        ratio = busy[1] / busy[2]
        figures[f"threads_2_busy_{name}"] = figure(ratio, goal=1.0, ok=ratio >= 1 - SLACK)
        least = min(least, ratio)
        notes.append(
            f"{name}: {min(quiet[1]):.2f} s by one thread, {min(quiet[2]):.2f} by two; beside busy processes {busy[1]:.2f} and {busy[2]:.2f}"
        )
        print(notes[-1], flush=True)
    figures["threads_never_slower"] = figure(float(least >= 1 - SLACK), goal=1.0, ok=least >= 1 - SLACK)
    return figures, notes
