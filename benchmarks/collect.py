"""Keep the results of the fullest runs: `python benchmarks/collect.py RUN... [--out benchmarks/results]`.

Of each run folder, NAME.json gets everything but long records, and results.md one section: command, commit, machine, the
paper's table beside ours, and the figures with their goals.
"""

import argparse
import json
from pathlib import Path

from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_path
from gradsim_reproduction.tables import markdown, short

LONG = 60_000  # characters of one entry beyond which it stays in its run folder


def kept(run: Path) -> dict:
    """What is kept of a run folder.

    Raises:
        InputError: If it holds no result, or one without figures.
    """
    path = run / "result.json"
    if not path.is_file():
        raise InputError(
            f"{run} holds no result.json; give folders made by `gradsim reproduce` or `benchmarks/run.py`."
        )
    result = json.loads(path.read_text(encoding="utf-8"))
    if not result.get("figures"):
        raise InputError(f"{path} has no figures; give folders made by `gradsim reproduce` or `benchmarks/run.py`.")
    if result.get("complete") is False:
        raise InputError(f"{path} is of a run that did not end; give the command again, which goes on.")
    left_out = [key for key, value in result.items() if len(json.dumps(value)) > LONG and key != "figures"]
    return {key: value for key, value in result.items() if key not in (*left_out, "images")} | {"left_out": left_out}


def section(name: str, result: dict) -> str:
    """A run as Markdown."""
    made = result.get("made_by", {})
    command = result["command"]
    command = f"benchmarks/run.py {command.split()[1]}" if command.startswith("benchmarks ") else f"gradsim {command}"
    machine = f"{made.get('processor')}, {made.get('cores')} cores"
    lines = [
        f"## {name}",
        "",
        f"`{command}`, seed {result.get('seed', 0)}; commit {made.get('commit')}; {machine}.",
        "",
    ]
    for table in [*([result["table"]] if result.get("table") else []), *result.get("tables", ())]:
        lines += ["#" + markdown(table)]
    lines += ["| figure | value | paper | goal | met |", "|---|---:|---:|---:|---|"]
    for key, f in result["figures"].items():
        met = "–" if f["ok"] and f["goal"] is None else "yes" if f["ok"] else "**no**"
        lines.append(f"| `{key}` | {short(f['value'])} | {short(f['paper'])} | {short(f['goal'])} | {met} |")
    return "\n".join(lines) + "\n"


def collect(runs: list[Path], out: Path) -> Path:
    """Write NAME.json of each run, and results.md over all that are kept in `out`; returns the latter."""
    for run in runs:
        result = kept(run)
        with atomic_path(out / f"{run.name}.json") as draft:
            draft.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    files = sorted(out.glob("*.json"))
    sections = [section(file.stem, json.loads(file.read_text(encoding="utf-8"))) for file in files]
    page = out / "results.md"
    with atomic_path(page) as draft:
        draft.write_text("# Results of the fullest runs\n\n" + "\n".join(sections), encoding="utf-8")
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    print(collect(given.runs, given.out))


if __name__ == "__main__":
    main()
