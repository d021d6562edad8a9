"""`gradsim simulate`: the trajectory of a scene."""

from pathlib import Path

import numpy as np

from gradsim.app.job import open_scene
from gradsim.errors import Status
from gradsim.identification.fit import SCHEMA
from gradsim.physics.convergence import converged
from gradsim.physics.energy import energy_increases
from gradsim.physics.model import Model
from gradsim.runtime.atomic import atomic_write, write_json
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.runtime.provenance import versions

MANY_SUBSTEPS = 50  # steps per frame above which the message names the cause
STIFF = (
    "N/m",
    "N s/m",
    "s/m",
    "Pa",
    "Pa s",
    "N m/rad",
    "N m s/rad",
    "N/m^3",
    "1/s",
)  # units of numbers that shorten steps
TENTH, SHORTENED = 0.1, 0.8  # of a number, and of the steps, from which on it counts as the cause


def simulate(scene_path: Path, out: Path, progress: Progress | None = None) -> dict:
    """Simulate a scene; writes scene.yaml, trajectory.npz and result.json.

    With `substeps: auto`, the step is halved until that moves no vertex by more than 1e-4 of the radius of its body, or
    twice; `discretization` in result.json says how far half the step still moves one [m]. `notes` there name bodies whose
    steps make energy.

    Args:
        scene_path: Scene file, or name of a library scene.
        out: Run folder.
        progress: Receives stages.

    Returns:
        Content of result.json.

    Raises:
        InputError: If the scene is wrong.
        Divergence: If a state becomes infinite or NaN.
    """
    progress = progress or NullProgress()
    scene = open_scene(Path(scene_path))
    progress.stage("building the model")
    model = Model(scene)
    progress.stage(f"simulating {scene.timing.frames} frames of {model.substeps} steps{_stiffest(model)}")
    steps = converged(model)
    model, trajectory = steps.model, steps.trajectory
    moves = f"half the step moves no vertex by more than {steps.shift:.2g} m"
    progress.stage(f"{scene.timing.frames} frames of {model.substeps} steps: {moves}")
    notes = [rise.words for rise in energy_increases(model, trajectory)]
    for note in notes:
        progress.stage(note)
    arrays = {f"{body}.{k}": y[0].numpy() for body, states in trajectory.states.items() for k, y in states.items()}
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    scene.save(out / "scene.yaml")
    with atomic_write(out / "trajectory.npz") as file:
        np.savez(file, **{"time": trajectory.times.numpy(), **arrays})  # pyright: ignore[reportArgumentType]
    result = {
        "schema": SCHEMA,
        "command": "simulate",
        "status": Status.OK,
        "frames": scene.timing.frames,
        "substeps": model.substeps,
        "time_step": model.dt,
        "discretization": {"shift": steps.shift, "relative": steps.relative, "converged": steps.converged},
        "notes": notes,
        "final": {name: a[-1].tolist() for name, a in arrays.items()},
        "versions": versions(),
    }
    write_json(out / "result.json", result)
    progress.done()
    return result


def _stiffest(model: Model) -> str:
    """Words on the number that makes an automatic time step short, if there are many steps per frame."""
    if model.scene.timing.substeps != "auto" or model.substeps < MANY_SUBSTEPS:
        return ""
    values = model.values()
    name = min(model.systems, key=lambda system: system.recommended_step(values)).name
    steps = {
        key: model.recommended_substeps(values | {key: TENTH * values[key]})
        for key, kind in model.kinds.items()
        if kind.unit in STIFF and not kind.row_of
    }
    key = min(steps, key=steps.__getitem__, default=None)
    if key is None or steps[key] > SHORTENED * model.substeps:
        return f": `{name}` or its contact is stiff or strongly damped for its mass"
    unit = model.kinds[key].unit
    return f", most for `{key}` ({values[key].max():.4g} {unit}): a tenth of it would take {steps[key]}"
