"""What is told of a data set in the terminal."""

from rich.console import Console
from rich.table import Table

from gradsim.dataset.verify import Verdict


def show_verdict(out: Console, verdict: Verdict) -> None:
    """Print what a data set holds and what is wrong with it."""
    table = Table(box=None, show_header=False)
    table.add_row("videos", f"{verdict.count} of {verdict.expected}")
    table.add_row("content", verdict.content_hash)
    for name, size in verdict.bytes.items():
        table.add_row(name, f"{size / 1e6:.1f} MB, {size / max(1, verdict.count) / 1e3:.1f} kB each")
    table.add_row("made in", f"{verdict.cpu_s:.0f} CPU-s, {verdict.cpu_s / max(1, verdict.count):.3f} each")
    out.print(table)
    for fault in verdict.faults:
        out.print(f"{fault.file}: {fault.why}", highlight=False, soft_wrap=True, markup=False)
    for draft in verdict.leftovers:
        out.print(f"{draft}: left by a run that was killed, or is going on", highlight=False, markup=False)
    out.print("whole" if verdict.whole else "not whole: gradsim dataset repair makes these units again")
