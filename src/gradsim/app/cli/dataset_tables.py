"""Terminal tables of data sets."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from gradsim.dataset.generate import GenerationPlan
from gradsim.dataset.labels import truth_of
from gradsim.dataset.verify import VerificationReport


def show_verdict(out: Console, verdict: VerificationReport) -> None:
    """Print content and faults of a data set."""
    count = max(1, verdict.count)
    rows = [("videos", f"{verdict.count} of {verdict.expected}"), ("content", verdict.content_hash)]
    rows += [(name, f"{n / 1e6:.1f} MB, {n / count / 1e3:.1f} kB each") for name, n in verdict.bytes.items()]
    rows += [
        (
            "generated in",
            f"{verdict.cpu_s:.0f} CPU-s, {verdict.cpu_s / count:.3f} each; runs took {verdict.made_s:.0f} s",
        )
    ]
    _show(out, rows)
    for fault in verdict.faults:
        out.print(f"{fault.file}: {fault.why}", highlight=False, soft_wrap=True, markup=False)
    for draft in verdict.leftovers:
        out.print(f"{draft}: draft of a run that was killed or is still running", highlight=False, markup=False)
    out.print("complete" if verdict.whole else "incomplete: gradsim dataset repair generates these units again")


def show_plan(out: Console, plan_generation: GenerationPlan, kind: str, sizes: str) -> None:
    """Print time and size of a planned data set."""
    rows = [
        (
            "measured",
            f"{plan_generation.measured} {kind} videos at {sizes}: {plan_generation.cpu_s_each:.3f} CPU-s each",
        ),
        ("utilization of a core", f"{plan_generation.use:.0%}"),
        ("planned", f"{plan_generation.videos} videos"),
        ("CPU time", f"{plan_generation.cpu_hours:.1f} h"),
        (f"on {plan_generation.cores} cores", f"{plan_generation.hours:.1f} h"),
        *(
            (name, f"{plan_generation.videos * n / 1e9:.2f} GB, {n / 1e3:.1f} kB each")
            for name, n in plan_generation.bytes_each.items()
        ),
        ("on disk", f"{plan_generation.bytes / 1e9:.1f} GB in {plan_generation.files} files"),
        ("as shards", f"--shard 1/{plan_generation.shards} to {plan_generation.shards}/{plan_generation.shards}"),
    ]
    _show(out, rows)


def show_label(out: Console, label: Mapping[str, Any]) -> None:
    """Print the label of a video."""
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
