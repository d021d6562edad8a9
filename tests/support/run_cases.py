"""A scene file and a noisy video of a thrown box, whose mass and speed are not those of the scene."""

from pathlib import Path

from fit_cases import THROW, THROW_TRUTH, throw

from gradsim.identification import synthetic


def write_inputs(folder: Path, frames: int = 8) -> Path:
    """Write scene.yaml and video.webm into a folder."""
    scene = throw(frames)
    _, trajectory = synthetic.simulate(scene, THROW, THROW_TRUTH)
    noisy = synthetic.noisy_8bit(synthetic.render_video(scene, trajectory), 1 / 255, 0)
    synthetic.write_video(folder / "video.webm", noisy, scene.timing.fps)
    scene.save(folder / "scene.yaml")
    return folder
