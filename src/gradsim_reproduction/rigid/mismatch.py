"""Models that lack something: χ²/N has to flag them, and the comparison of models to mend them.

Boxes fall with a known push, bounce with losses, and slide with friction. Each is filmed (8 bit, with noise), and the
video is fitted by three models: the right one, one without friction, and one whose contact is inelastic. Truths and starts
are uniform over the same ranges, and nothing but the video decides which model is chosen.
"""

from pathlib import Path

import numpy as np

from gradsim import video as videos
from gradsim.app.figures import figure
from gradsim.errors import Status
from gradsim.geometry.image_io import to_bytes
from gradsim.identification import synthetic
from gradsim.identification.comparison.folds import GIVEN_MODEL
from gradsim.identification.model_selection import Comparison, compare
from gradsim.identification.observation.from_video import from_video
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Space
from gradsim.runtime.atomic import write_json
from gradsim.runtime.progress import Progress, progress_callback
from gradsim.scene import Scene
from gradsim.visualization.overlay_video import write_videos
from gradsim.visualization.residual_video import write_residuals
from gradsim_reproduction.runner import Outcome, Run, experiment

UNKNOWNS = (
    "cube.mass:2:12",
    "ground.stiffness:2e4:5e5",
    "ground.dissipation:0.2:2",
    "ground.friction:0.2:1",
)
TITLE = "Models that lack friction or elasticity"
WRONG = ("without friction", "without elasticity")
NOISE = 1 / 255  # of a pixel, before rounding to 8 bits
SCENES, QUICK = 8, 1
SCENE_STREAM = 3000  # added to the seed for what is known of a scene


def scene_of(seed: int) -> Scene:
    """A box whose pose and push are drawn, and known."""
    rng = np.random.default_rng(SCENE_STREAM + seed)
    content = Scene.library("cube").model_dump(exclude_unset=True)
    content["timing"]["integrator"] = "semi-implicit"
    cube = content["bodies"]["cube"]
    cube["rotation_vector"] = [float(x) for x in (*rng.uniform(0.05, 0.2, 2) * rng.choice([-1, 1], 2), 0.0)]
    cube["position"] = [-0.7, 0.0, float(rng.uniform(0.34, 0.5))]
    cube["pushes"] = [
        {"impulse": [float(rng.uniform(3, 6)), float(rng.uniform(-1, 1)), 0.0], "point": [-0.3, -0.03, 0.0]}
    ]
    return Scene.parse(content)


@experiment("mismatch", TITLE)
def mismatch(run: Run) -> Outcome:
    """Fit videos by right and wrong models, and compare the models.

    The result is the chosen model's fit of the first scene; figures are over all scenes. Writes finished.jsonl, the
    videos, and videos of the first scene with the chosen model. Quick: one scene with few starts.
    """
    plan = MultistartConfig(starts=4 if run.quick else 8, rounds=2)
    ledger = run.ledger("finished.jsonl", experiment="mismatch", quick=run.quick)
    rows = [
        ledger.once(f"scene {k}", _row, run.out, 100 * run.seed + k, plan, run.progress, k == 0)
        for k in range(QUICK if run.quick else SCENES)
    ]
    wrong = [row["models"][name] for row in rows for name in WRONG]
    right = [row["models"][GIVEN_MODEL] for row in rows]
    flagged = float(np.mean([m["status"] == Status.MISMATCH for m in wrong]))
    false = float(np.mean([m["status"] == Status.MISMATCH for m in right]))
    before = float(np.median([m["mass_error"] for m in wrong]))
    after = [row["models"][row["chosen"]]["mass_error"] for row in rows]
    chosen = float(np.mean([row["chosen"] == GIVEN_MODEL for row in rows]))
    figures = {
        "flagged": figure(flagged, goal=1, ok=flagged == 1),
        "right_models_flagged": figure(false, goal=0),
        "right_model_chosen": figure(chosen, goal=1, ok=chosen == 1),
        "mass_error_before": figure(before),
        "mass_error_after": figure(float(np.median(after)), goal=1e-2),
        "mass_error_after_worst": figure(float(np.max(after)), goal=1e-2),
    }
    result = {**rows[0]["result"], "title": TITLE, "scenes": cached_rows(rows)}
    return result | {"cpu_seconds": sum(row["cpu_seconds"] for row in rows)}, figures


def cached_rows(rows: list[dict]) -> list[dict]:
    """Entries of the scenes in `result.json`."""
    return [{key: row[key] for key in ("truth", "chosen", "words", "models")} for row in rows]


def _row(out: Path, seed: int, plan: MultistartConfig, progress: Progress, first: bool) -> dict:
    """One scene: its video, its models, and the errors, which only this function knows."""
    scene = scene_of(seed)
    truth = synthetic.draw_truth(scene, UNKNOWNS, seed)
    _, trajectory = synthetic.simulate(scene, UNKNOWNS, truth)
    video = synthetic.noisy_8bit(synthetic.render_video(scene, trajectory), NOISE, seed)
    path = synthetic.write_video(out / f"video_{seed}.webm", video, scene.timing.fps)
    evidence = from_video(scene, path, noise=NOISE)
    comparison = compare(
        synthetic.own_steps(scene),
        UNKNOWNS,
        observation=evidence,
        candidates=WRONG,
        plan=plan,
        seed=seed,
        report=progress_callback(progress),
        stage=lambda text: progress.stage(f"scene {seed}: {text}"),
    )
    if first:
        _videos(out, path, comparison, evidence)
    models = {}
    for name, c in comparison.candidates.items():
        error = abs(c.fit.values["cube.mass"] / truth["cube.mass"] - 1)
        left = c.fit.residual_diagnostics.words if c.fit.residual_diagnostics else ""
        models[name] = {"status": c.fit.status, "chi2_per_n": c.fit.chi2_per_n, "delta": c.delta, "mass_error": error}
        models[name] |= {"values": c.fit.values, "left": left}
    chosen = comparison.best.fit.against(truth)
    return {
        "truth": truth,
        "chosen": comparison.chosen,
        "words": comparison.words,
        "models": models,
        "cpu_seconds": sum(c.fit.cpu_seconds for c in comparison.candidates.values()),
        "result": {**chosen.result(), "comparison": comparison.result()},
    }


def _videos(out: Path, path: Path, comparison: Comparison, evidence) -> None:
    """Videos of the chosen model next to the video, and its search."""
    c = comparison.best
    space = Space(c.scene, [f"{n}:{e.low}:{e.high}" for n, e in c.fit.unknowns.items()])
    trajectory = model_for(c.scene, space).rollout(parameter_values(c.scene, c.fit.values))
    frames = to_bytes(synthetic.render_video(c.scene, trajectory))
    mask = synthetic.float_masks(c.scene, trajectory).masks.numpy()
    write_videos(out, videos.read(path).frames, frames, mask, c.scene.timing.fps)
    write_residuals(out, evidence, mask, c.scene.timing.fps)
    comparison.best.scene.save(out / "scene.yaml")
    fit = comparison.best.fit
    write_json(out / "history.json", {"stages": fit.history, "starts": fit.population})
