"""Speed, as ratios of CPU time measured side by side in one run: `python benchmarks/run.py NAME|all --out DIR`.

`precision` and `implicit` have the error of a rollout in addition, and draw both. `result.json` is written after each case, so
that a run that was interrupted or failed goes on where it stopped, given again with the same folder.
"""

import argparse
import json
import sys
from collections.abc import Callable
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
from gradsim.runtime.provenance import provenance
from gradsim.runtime.threads import set_threads
from gradsim.scene import Scene

Case = Callable[[], tuple[dict, list[str]]]


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


CASES: dict[str, Case] = {
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


def unfinished(out: Path, command: str) -> tuple[dict, dict]:
    """Figures and notes, by case, of an earlier run of the same command, commit and machine in that folder; empty if there is none.

    Nor of code that is in no commit: it may have changed since.
    """
    path = out / "result.json"
    if path.is_file():
        earlier = json.loads(path.read_text(encoding="utf-8"))
        is_committed = not str(provenance()["commit"]).endswith("+")
        is_alike = (earlier.get("command"), earlier.get("made_by")) == (command, provenance())
        if is_committed and is_alike and earlier.get("complete") is False:
            return earlier["figures"], earlier["notes"]
    return {}, {}


def run(cases: dict[str, Case], out: Path, command: str) -> dict:
    """Run cases, write `result.json` after each, and return all figures.

    Args:
        cases: By name.
        out: Folder of the run.
        command: As it was given.
    """
    figures, notes = unfinished(out, command)
    for name, case in cases.items():
        if name in notes:
            print(f"{name}: in {out} from the run before", flush=True)
            continue
        print(f"{name} …", flush=True)
        more, notes[name] = case()
        figures |= more
        print(*notes[name], sep="\n", flush=True)
        write_result(out, command, {"notes": notes, "complete": len(notes) == len(cases)}, figures)
    return figures


def line(name: str, f: dict) -> str:
    """One figure beside its goal."""
    words = [f"{name:<48}", "not measured" if f["value"] is None else f"{f['value']:.4g}"]
    words += [f"original or paper {f['paper']:g}"] if f["paper"] else []
    words += [f"goal {f['goal']:g}: {'met' if f['ok'] else 'missed'}"] if f["goal"] is not None else []
    return "   ".join(words)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*CASES, "precision", "implicit", "all"])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    cases = CASES | {"precision": lambda: precision(options.out), "implicit": lambda: implicit(options.out)}
    torch.set_num_threads(1)
    set_threads(1)
    names = cases if options.name == "all" else {options.name: cases[options.name]}
    figures = run(names, options.out, f"benchmarks {options.name}")
    print(*(line(name, f) for name, f in figures.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
