"""What is told of a data set in the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from gradsim.dataset.generate import Plan
from gradsim.dataset.labels import truth_of
from gradsim.dataset.verify import Verdict


def show_verdict(out: Console, verdict: Verdict) -> None:
    """Print what a data set holds and what is wrong with it."""
    each = max(1, verdict.count)
    rows = [("videos", f"{verdict.count} of {verdict.expected}"), ("content", verdict.content_hash)]
    rows += [(name, f"{n / 1e6:.1f} MB, {n / each / 1e3:.1f} kB each") for name, n in verdict.bytes.items()]
    rows += [
        ("made in", f"{verdict.cpu_s:.0f} CPU-s, {verdict.cpu_s / each:.3f} each; runs took {verdict.made_s:.0f} s")
    ]
    _show(out, rows)
    for fault in verdict.faults:
        out.print(f"{fault.file}: {fault.why}", highlight=False, soft_wrap=True, markup=False)
    for draft in verdict.leftovers:
        out.print(f"{draft}: left by a run that was killed, or is going on", highlight=False, markup=False)
    out.print("whole" if verdict.whole else "not whole: gradsim dataset repair makes these units again")


def show_plan(out: Console, plan: Plan, kind: str, sizes: str) -> None:
    """Print what so many videos take."""
    rows = [
        ("measured", f"{plan.measured} {kind} videos at {sizes}: {plan.cpu_s_each:.3f} CPU-s each"),
        ("use of a core", f"{plan.use:.0%}"),
        ("planned", f"{plan.videos} videos"),
        ("CPU time", f"{plan.cpu_hours:.1f} h"),
        (f"on {plan.cores} cores", f"{plan.hours:.1f} h"),
        *((name, f"{plan.videos * n / 1e9:.2f} GB, {n / 1e3:.1f} kB each") for name, n in plan.bytes_each.items()),
        ("on disk", f"{plan.bytes / 1e9:.1f} GB in {plan.files} files"),
        ("as jobs", f"--shard 1/{plan.shards} to {plan.shards}/{plan.shards}"),
    ]
    _show(out, rows)


def show_label(out: Console, label: Mapping[str, Any]) -> None:
    """Print what is known of a video."""
    rows = [("video", f"{label['number']}, {label['object']}, for {label['split']}ing")]
    rows += [(name, f"{value:.6g}") for name, value in truth_of(label).items()]
    if label["impulse"]:
        rows += [("impulse [N s]", ", ".join(f"{x:.4g}" for x in label["impulse"]))]
    _show(out, rows)


def _show(out: Console, rows: list[tuple[str, str]]) -> None:
    table = Table(box=None, show_header=False)
    for row in rows:
        table.add_row(*row)
    out.print(table)
