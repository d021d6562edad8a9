"""The reality league: real recordings predicted by few numbers, compared with trained networks and trivial predictors.

Rows `beam`, `cube` and `hinge` are in files of these names, row `cables` in `cable_row.py`.
"""

from gradsim.errors import InputError
from gradsim_reproduction.reality.beam import beam_row
from gradsim_reproduction.reality.cable_row import cable_rows
from gradsim_reproduction.reality.cube import cube_row
from gradsim_reproduction.reality.hinge import hinge_row
from gradsim_reproduction.runner import Outcome, Run, experiment

PUBLISHED = {1: 10.1, 2: 9.7}  # [mm] of networks trained on 56 runs (Chen et al., CoRL 2024), on their evaluation runs


@experiment("reality", "Real recordings predicted by few numbers", parallel=True)
def reality(run: Run, rows: str = "") -> Outcome:
    """Fit each row to its training recordings and predict the others; writes predictions and plots.

    Quick: cables by two runs and two steps of the fit on their first second; the beam on a coarse mesh; the cube by a short search.

    Args:
        run: The run.
        rows: Names of rows, such as "beam,cables"; by default all whose recordings are there, and why the others are not.

    Raises:
        InputError: If a row does not exist, or if it is named or the only one and its recordings are not there.
    """
    names = [name for name in rows.replace(" ", "").split(",") if name]
    if unknown := sorted(set(names) - set(ROWS)):
        raise InputError(f"rows: got {', '.join(unknown)}; expected some of {', '.join(ROWS)}.")
    parts, skipped = {}, {}
    for name in names or ROWS:
        try:
            parts[name] = ROWS[name](run)
        except InputError as error:
            if names:
                raise
            skipped[name] = str(error)
    if not parts:
        raise InputError(next(iter(skipped.values())))
    result = {
        "rows": [row for part in parts.values() for row in part["rows"]],
        "images": [image for part in parts.values() for image in part["images"]],
        "skipped": skipped,
        "averaged": AVERAGED,
        "published_mm": PUBLISHED,
    }
    return result, {key: value for part in parts.values() for key, value in part["figures"].items()}


ROWS = {"cables": cable_rows, "beam": beam_row, "cube": cube_row, "hinge": hinge_row}
AVERAGED = (
    "mean absolute error over the 3 coordinates, all vertices but the first two and the last two, all frames but the first "
    "two, and all eval_* runs of a cable"
)
