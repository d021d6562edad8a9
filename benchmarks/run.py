"""Speed, as ratios of CPU time measured side by side in one run: `python benchmarks/run.py NAME|all --out DIR`.

`precision` and `implicit` have the error of a rollout in addition, and draw both.
"""

import argparse
import sys
from pathlib import Path

import torch
from calls import calls
from chain import chain
from cloth import cloth
from cold_start import cold_start
from fits import fits
from gear import gear
from implicit import implicit
from links import links
from misfit import misfit
from pile import pile
from precision import precision
from renderer import render
from rigid import rigid
from rod import rod
from smoke import smoke
from solid import solid
from threads import speedups

from gradsim.app.commands.demo import UNKNOWNS
from gradsim.app.figures import figure, write_result
from gradsim.identification import synthetic
from gradsim.identification.api import least_squares
from gradsim.runtime.threads import set_threads
from gradsim.scene import Scene


def identify() -> tuple[dict, list[str]]:
    """The demo's fit to float frames: what it costs and how near it comes."""
    scene = Scene.library("cube")
    truth = synthetic.draw_truth(scene, UNKNOWNS, 0)
    model, trajectory = synthetic.simulate(scene, UNKNOWNS, truth)
    fit = least_squares(scene, synthetic.float_masks(scene, trajectory), UNKNOWNS, model=model).against(truth)
    figures = {
        "fit_cpu_seconds": figure(fit.cpu_seconds),
        "fit_rollouts": figure(fit.rollouts),
        "fit_worst_relative_error": figure(synthetic.worst_relative_error(fit), paper=2.87e-4, goal=1e-6),
    }
    return figures, []


CASES = {
    "calls": calls,
    "rigid": rigid,
    "solid": solid,
    "cloth": cloth,
    "gear": gear,
    "smoke": smoke,
    "chain": chain,
    "links": links,
    "pile": pile,
    "rod": rod,
    "identify": identify,
    "fits": fits,
    "misfit": misfit,
    "render": render,
    "threads": speedups,
    "cold_start": cold_start,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*CASES, "precision", "implicit", "all"])
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    cases = CASES | {"precision": lambda: precision(given.out), "implicit": lambda: implicit(given.out)}
    torch.set_num_threads(1)
    set_threads(1)
    figures, notes = {}, {}
    for name in cases if given.name == "all" else [given.name]:
        print(f"{name} …", flush=True)
        more, notes[name] = cases[name]()
        figures |= more
        print(*notes[name], sep="\n")
    write_result(given.out, f"benchmarks {given.name}", {"notes": notes}, figures)
    for name, f in figures.items():
        print(f"{name:<48} {f['value']:.4g}" + (f"   original or paper {f['paper']:g}" if f["paper"] else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
