"""Fits of the library's cube to a film of 24 frames: CPU time of one thread, and peak memory of a fresh process.

`fit_1` and `fit_5` are fits of one and of five numbers to float masks of 64² pixels, and `fit_8bit` that of one number to an 8-bit film with noise, each
the second in its process; `fit_1_first` is a process from its start to the end of the first fit, with kernels built. `fit_vga_8bit` is the
fit of one number to 640×480 pixels, and `read_vga_120` the reading of 120 such frames. `hd_300` is a whole fit of four numbers to 300 frames of
1920×1080 pixels, from the file on, the first in its process, with a stated noise, and `hd_300_auto` the same as a user fits it, whose noise is estimated:
status and errors over error bars are among the notes, of a film that seven steps a frame put 0.05 px aside at its end. Films are made by gradsim, lossless but
for that in HD, which is H.264, so what is found is no figure here: it is in `docs/experiments`.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch

from gradsim.app.figures import figure
from gradsim.identification import synthetic
from gradsim.identification.api import least_squares
from gradsim.identification.observation.from_video import from_video
from gradsim.physics.trajectory import Trajectory
from gradsim.render.coverage.coverage import coverage
from gradsim.render.silhouettes import Silhouettes
from gradsim.runtime.threads import set_threads
from gradsim.scene import Scene

FEW, MANY, LONG = 24, 120, 300  # frames
SMALL, VGA, HD = (64, 64), (640, 480), (1920, 1080)
NOISE = 1 / 255
LONGEST = 600.0  # [s] of a case, of which there is no figure then
ONE = ("cube.mass:2:12",)
FIVE = (*ONE, "ground.stiffness:2e4:5e5", "ground.friction:0.2:1", "ground.dissipation:0.3:2", "cube.velocity:-1:1")
FOUR = FIVE[:4]
GROUND = "stiffness", "friction", "dissipation"  # of these
CAMERA = {"crf": "18", "preset": "ultrafast"}  # of the codec of the long film
GOALS = {
    "fit_1": 0.15,
    "fit_5": 0.4,
    "fit_1_first": 4.0,
    "fit_8bit": 1.0,
    "fit_vga_8bit": 6.0,
    "read_vga_120": 5.0,
    "hd_300": 90.0,
    "hd_300_peak_gb": 1.5,
    "hd_300_auto": 90.0,
    "hd_300_auto_peak_gb": 1.5,
}


def cube(size: tuple[int, int], frames: int = FEW) -> Scene:
    """The library's cube in pictures of a size; more frames are closer in time."""
    scene = Scene.library("cube")
    assert scene.camera is not None
    timing = {"frames": frames, "fps": scene.timing.fps * frames / scene.timing.frames}
    return scene.model_copy(
        update={
            "camera": scene.camera.model_copy(update={"size": size}),
            "timing": scene.timing.model_copy(update=timing),
        }
    )


def write_film(scene: Scene, path: Path) -> None:
    """An 8-bit film of the scene with another mass, and noise: lossless, or as a camera writes it where it is long."""
    _, trajectory = synthetic.simulate(scene, ONE, synthetic.draw_truth(scene, ONE, 0))
    if scene.timing.frames == LONG:
        write_long_film(scene, trajectory, path)
        return
    frames = synthetic.noisy_8bit(synthetic.render_video(scene, trajectory), NOISE, 0)
    synthetic.write_video(path, frames, scene.timing.fps)


def write_long_film(scene: Scene, trajectory: Trajectory, path: Path) -> None:
    """The same in H.264, one frame at a time; its noise is one picture that is moved about."""
    import av

    screen, (part,) = Silhouettes.of(scene, "camera").image_vertices(trajectory.surface, trajectory.values)
    width, height = HD
    random = np.random.default_rng(0)
    noise = (255 * NOISE * random.standard_normal((height, width, 3))).astype(np.float32)
    body, background = (255 * np.array(color, np.float32) for color in (scene.bodies["cube"].colour, scene.background))
    with av.open(str(path), "w") as container:
        stream = container.add_stream(
            "libx264", rate=Fraction(scene.timing.fps).limit_denominator(1000), options=CAMERA
        )
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for k in range(LONG):
            with torch.no_grad():
                mask = coverage(screen[:, k : k + 1], part.faces, height, width)[0, 0, ..., None].float().numpy()
            image = (
                np.roll(noise, tuple(random.integers(0, (height, width))), (0, 1))
                + background
                + mask * (body - background)
            )
            frame = av.VideoFrame.from_ndarray(np.clip(np.rint(image), 0, 255).astype(np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def cpu_seconds(run: Callable[[], object]) -> float:
    """CPU time of a call [s]."""
    begin = time.process_time()
    run()
    return time.process_time() - begin


class Case(NamedTuple):
    """What a case takes and finds.

    Args:
        seconds: Of two parts [s].
        status: Of the fit.
        errors: Of its unknowns, over their error bars.
    """

    seconds: list[float]
    status: str = ""
    errors: Mapping[str, float | None] = MappingProxyType({})


def of_float_masks(unknowns: tuple[str, ...]) -> Case:
    """CPU seconds of two fits, one after the other."""
    scene = cube(SMALL)
    model, trajectory = synthetic.simulate(scene, unknowns, synthetic.draw_truth(scene, unknowns, 0))
    masks = synthetic.float_masks(scene, trajectory)
    return Case([cpu_seconds(lambda: least_squares(scene, masks, unknowns, model=model)) for _ in range(2)])


def of_film(size: tuple[int, int], path: Path) -> Case:
    """The same of a film, which is read once."""
    scene = cube(size)
    observation = from_video(scene, path, noise=NOISE)
    return Case([cpu_seconds(lambda: least_squares(scene, observation, ONE)) for _ in range(2)])


def of_reading(path: Path) -> Case:
    """CPU seconds of reading a film twice."""
    scene = cube(VGA, MANY)
    return Case([cpu_seconds(lambda: from_video(scene, path, noise=NOISE)) for _ in range(2)])


def of_long_film(path: Path, noise: float | None = NOISE) -> Case:
    """CPU seconds of reading a long film, and of that and its fit, and what is found; noise None is that of outlines."""
    scene, begin = cube(HD, LONG), time.process_time()
    observation = from_video(scene, path, noise=noise, outlines_by_default=noise is None)
    reading = time.process_time() - begin
    fit = least_squares(scene, observation, FOUR)
    seconds = [reading, time.process_time() - begin]
    ground = {f"ground.{key}": float(getattr(scene.grounds["ground"], key)) for key in GROUND}
    fit = fit.against(ground | synthetic.draw_truth(scene, ONE, 0))
    return Case(seconds, fit.status, {name: estimate.z for name, estimate in fit.unknowns.items()})


CASES: dict[str, Callable[[Path], Case]] = {
    "fit_1": lambda path: of_float_masks(ONE),
    "fit_5": lambda path: of_float_masks(FIVE),
    "fit_8bit": lambda path: of_film(SMALL, path),
    "fit_vga_8bit": lambda path: of_film(VGA, path),
    "read_vga_120": of_reading,
    "hd_300": of_long_film,
    "hd_300_auto": lambda path: of_long_film(path, None),
}
FILMS = {
    "fit_8bit": (SMALL, FEW),
    "fit_vga_8bit": (VGA, FEW),
    "read_vga_120": (VGA, MANY),
    "hd_300": (HD, LONG),
    "hd_300_auto": (HD, LONG),
}


def in_fresh_process(name: str, folder: Path) -> dict:
    """What `main` prints of a case, whose film another process writes; nothing of one that takes too long."""
    path = str(folder / f"{name}{'.mp4' if FILMS.get(name, SMALL)[0] == HD else '.webm'}")
    start = lambda *words: subprocess.run(
        [sys.executable, __file__, *words, path], check=True, capture_output=True, text=True, timeout=LONGEST
    )
    if name in FILMS:
        start("write", name)
    try:
        return json.loads(start("time", name).stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {}


def fits() -> tuple[dict, list[str]]:
    """Figures, and what a reader of them has to know."""
    notes, figures = [(__doc__ or "").strip()], {}
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES:
            case = in_fresh_process(name, Path(folder))
            if not case:
                figures[name] = figure(None, goal=GOALS[name])
                notes.append(f"{name}: not done after {LONGEST:.0f} s")
                continue
            first, second = case["seconds"]
            figures[name] = figure(second, goal=GOALS[name])
            if name == "fit_1":
                figures["fit_1_first"] = figure(case["process"] - second, goal=GOALS["fit_1_first"])
            if f"{name}_peak_gb" in GOALS:
                figures[f"{name}_peak_gb"] = figure(case["peak"], goal=GOALS[f"{name}_peak_gb"])
            if case["status"]:
                notes.append(f"{name}: status {case['status']}, errors over error bars {case['errors']}")
            notes.append(f"{name}: {first:.2f} and {second:.2f} CPU-s; the process had {case['peak']:.2f} GB at most")
            print(notes[-1], flush=True)
    return figures, notes


def main() -> None:
    """Write the film of a case, or print what it takes, as JSON: seconds, those of the process, and the peak of its memory [GB]."""
    torch.set_num_threads(1)
    set_threads(1)
    work, name, path = sys.argv[1:]
    if work == "write":
        write_film(cube(*FILMS[name]), Path(path))
        return
    case = CASES[name](Path(path))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                **case._asdict(),
                "errors": dict(case.errors),
                "process": time.process_time(),
                "peak": usage.ru_maxrss / 1e6,
            }
        )
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
