"""The demo: mass, stiffness and friction of a bouncing, sliding cube with a known push, from its video.

First from float frames, which tests that nothing is lost on the way there and back; then from an 8-bit lossless video
with noise, read back from disk. Truth and starts are uniform over the same ranges.
"""

from pathlib import Path

from gradsim import video as videos
from gradsim.geometry.image_io import to_bytes
from gradsim.identification import synthetic
from gradsim.identification.api import least_squares, placed
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.from_video import from_video
from gradsim.runtime.atomic import write_json
from gradsim.runtime.progress import NullProgress, Progress, reporting
from gradsim.scene import Scene
from gradsim.visualization.overlay_video import write_films
from gradsim.visualization.player import write_player
from gradsim.visualization.residual_video import write_residuals

UNKNOWNS = ("cube.mass:2:12", "ground.stiffness:2e4:5e5", "ground.friction:0.2:1")
NOISE = 1 / 255  # of a pixel, before rounding to 8 bits


def demo(out: Path, seed: int = 0, progress: Progress | None = None) -> dict:
    """Run the demo into a folder.

    Args:
        out: Gets truth-free `video.webm`, `result.json`, `history.json` and films.
        seed: Of truth, noise and starts.
        progress: Is told what happens.

    Returns:
        The content of `result.json`: the float fit under `unknowns`, that of the video under `unknowns_8bit`.
    """
    out, progress = Path(out), progress or NullProgress()
    scene = Scene.library("cube")
    truth = synthetic.draw_truth(scene, UNKNOWNS, seed)
    progress.stage("simulating and filming the cube")
    model, trajectory = synthetic.simulate(scene, UNKNOWNS, truth)
    clean = synthetic.film(scene, trajectory)
    path = synthetic.write_video(out / "video.webm", synthetic.noisy_8bit(clean, NOISE, seed), scene.timing.fps)

    progress.stage("fit to float frames (self-consistency)")
    exact = least_squares(
        scene,
        synthetic.float_masks(scene, trajectory),
        UNKNOWNS,
        seed=seed,
        report=reporting(progress),
        model=model,
    ).against(truth)
    progress.stage(f"fit to {path.name} (8 bit, noise {NOISE:.4f})")
    evidence = from_video(scene, path, noise=NOISE)
    noisy = least_squares(scene, evidence, UNKNOWNS, seed=seed, report=reporting(progress), model=model).against(truth)
    progress.done()
    return save(out, scene, model, evidence, exact, noisy)


def save(out: Path, scene, model, evidence: Masks, exact: Fit, noisy: Fit) -> dict:
    """Write results and films of both fits."""
    fitted = model.rollout(placed(scene, noisy.values))
    frames = synthetic.film(scene, fitted)
    observed = videos.read(out / "video.webm").frames
    mask = synthetic.float_masks(scene, fitted).masks.numpy()
    write_films(out, observed, to_bytes(frames), mask, scene.timing.fps)
    write_residuals(out, evidence, mask, scene.timing.fps)
    truth = model.rollout(placed(scene, {name: e.truth for name, e in noisy.unknowns.items()}))
    write_player(out / "player.html", scene, fitted.drawn, observed, truth.drawn)
    scene.save(out / "scene.yaml")
    second = noisy.result()
    result = {**exact.result(), "command": "demo", "title": "Mass, stiffness and friction of a cube, from its video"}
    keys = ("unknowns", "status", "chi2_per_n", "starts", "null_directions", "residual_diagnostics")
    result |= {f"{key}_8bit": second[key] for key in keys}
    result["z_8bit"] = {name: e.z for name, e in noisy.unknowns.items()}
    result["cpu_seconds"] += second["cpu_seconds"]
    result["wall_seconds"] += second["wall_seconds"]
    result["worst_relative_error"] = synthetic.worst_relative_error(exact)
    noisy.save(out)  # its history is the one that the report shows
    write_json(out / "result.json", result)
    return result
