"""`gradsim explain`: which gradients of a scene or a fit can be trusted, and why."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from gradsim.app.report import gradient_plots, plots
from gradsim.app.report.report import write_report
from gradsim.app.run_files import read_result
from gradsim.errors import InputError, Status
from gradsim.identification.fit import SCHEMA
from gradsim.identification.gradients.api import Explanation, explain_gradients
from gradsim.identification.observation.from_video import from_video
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.sensitivity.directions import of_model
from gradsim.identification.unknowns import Space, Unknown
from gradsim.physics.model import Model
from gradsim.runtime.atomic import atomic_path, write_json
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.runtime.provenance import versions
from gradsim.scene import Scene
from gradsim.scene.parameters import parameters, resolve


def explain(
    path: Path,
    out: Path,
    unknowns: Sequence[str] = (),
    video: Path | None = None,
    mask: Path | str | None = None,
    noise: float | str | None = None,
    reading: Mapping | None = None,
    progress: Progress | None = None,
) -> tuple[dict, Explanation]:
    """Explain the gradients of a scene at its own values, or of a fit at its estimates.

    Args:
        path: Scene file, or run folder of `gradsim fit`.
        out: Output folder of scene.yaml, result.json, report.html and plots.
        unknowns: NAME or NAME:LOW:HIGH; none: those of the fit, or all masses, stiffnesses and other positive quantities.
        video: Video whose pixels are differentiated; unknowns need ranges then.
        mask: Masks, as in `from_video`; None: silhouettes from the colors.
        noise: Standard deviation of a pixel's noise in [0, 1], as in `from_video`.
        reading: Further arguments of `from_video`.
        progress: Receives stages.

    Returns:
        Content of result.json, and the explanation.

    Raises:
        InputError: If an argument is wrong.
    """
    path, out, progress = Path(path), Path(out), progress or NullProgress()
    scene, numbers, selected = _subject(path, unknowns)
    progress.stage("simulating step by step, with a tangent for every unknown")
    if video is not None:
        space = Space(scene, selected or [d.name for d in of_model(Model(scene), None, {})])
        problem = Problem(model_for(scene, space), from_video(scene, video, mask, noise, **reading or {}), space)
        explanation = explain_gradients(
            problem, overrides={n: numbers.get(n, _scene_value(scene, n)) for n in space.names}
        )
    elif numbers:
        space = Space(scene, selected)
        values = {n: numbers.get(n, _scene_value(scene, n)) for n in space.names}
        explanation = explain_gradients(Model(scene), overrides=_values(scene, space, values))
    else:
        explanation = explain_gradients(Model(scene), unknowns=[u.name for u in selected] or None)
    progress.stage("writing the report")
    out.mkdir(parents=True, exist_ok=True)
    scene.save(out / "scene.yaml")
    result = {"schema": SCHEMA, "command": "explain", "status": Status.OK, "title": f"Gradients of {scene.name}"}
    result |= {"video": None if video is None else str(video), **explanation.result(), "versions": versions()}
    result["images"] = _plots(out, result)
    write_json(out / "result.json", result)
    write_report(out)
    progress.done()
    return result, explanation


def _subject(path: Path, unknowns: Sequence[str]) -> tuple[Scene, dict[str, float], list[Unknown]]:
    """The scene, the estimates of a fit if there is one, and the unknowns."""
    selected = [Unknown.parse(text) for text in unknowns]
    if not path.is_dir():
        scene, numbers = Scene.load(path), {}
    elif not (path / "scene.yaml").is_file():
        raise InputError(f"{path} holds no scene.yaml; give a scene file, or a folder made by `gradsim fit`.")
    else:
        scene = Scene.load(path / "scene.yaml")
        fitted = read_result(path).get("unknowns") or {}
        numbers = {name: u["value"] for name, u in fitted.items() if u["value"] is not None}
        selected = selected or [Unknown(name, u["low"], u["high"]) for name, u in fitted.items()]
    for unknown in selected:
        for name in unknown.names:
            resolve(scene, name)
    return scene, numbers, selected


def _scene_value(scene: Scene, label: str) -> float:
    """Value of an unknown in the scene."""
    name, index = resolve(scene, Unknown(label).names[0])
    value = parameters(scene)[name].value
    return float(value if index is None else value[index])


def _values(scene: Scene, space: Space, numbers: Mapping[str, float]):
    import torch

    inner = space.inner(torch.tensor([[numbers[name] for name in space.names]], dtype=torch.float64))
    return space.values(inner)


def _plots(out: Path, result: Mapping) -> list[dict[str, str]]:
    plot_functions = {
        "sensitivity": ("Sensitivity of the trajectory to each unknown", gradient_plots.sensitivity),
        "growth": ("Growth of errors in the initial state", gradient_plots.growth),
    }
    if result["audit"]:
        plot_functions["audit"] = ("Range of validity of each tangent", gradient_plots.audit)
    images = []
    for name, (title, draw) in plot_functions.items():
        with atomic_path(out / f"{name}.png") as draft:
            draft.write_bytes(plots.png(lambda draw=draw: draw(result)))
        images.append({"file": f"{name}.png", "title": title, "caption": gradient_plots.CAPTIONS[name]})
    return images
