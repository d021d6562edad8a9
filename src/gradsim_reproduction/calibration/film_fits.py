"""Making and fitting one film of `reproduce capture`, with the camera as it is and, for comparison, as a pinhole.

A user reads the shutter from the camera's menu and the readout from a table, each with an uncertainty: both are priors, and what they
state is off by a draw of that uncertainty. Lens and place are a prior of `gradsim capture`. Masks are what has the colors inside a
rectangle around the body in one frame, in front of a film of the empty scene.
"""

import json
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from gradsim.errors import InputError, Status
from gradsim.identification.api import identify
from gradsim.identification.fit import Fit
from gradsim.identification.observation.clip import Clip
from gradsim.runtime.atomic import atomic_path
from gradsim.scene import Scene, yaml_io
from gradsim.video.h264 import write_h264
from gradsim_reproduction.calibration.film_boards import calibrated
from gradsim_reproduction.calibration.film_images import frame
from gradsim_reproduction.calibration.film_scenes import (
    COLORS,
    CRF,
    EXPOSURE,
    EXPOSURE_SD,
    FPS,
    LENS,
    LOOK,
    READOUT,
    READOUT_SD,
    SIGMA,
    SIZE,
    STARTS,
    Film,
    film,
    film_camera,
)
from gradsim_reproduction.clips.videos import planes, texture

FAR = 5.0  # standard deviations of a silent failure
EMPTY_FRAMES, MARGIN = 8, 10  # of the film of the empty scene; of the rectangle around the body [px]
START_COUNT = 8
NAIVE = 4  # each fourth film of a kind is also fitted with a pinhole
NOMINAL = {"size": list(SIZE), "look_at": {"eye": [0, -2.2, 1], "target": [0, 0, 0.4]}, "focal": 640.0}


def fit_film(job: tuple[str, int, int, str]) -> dict:
    """Record of one film: kind, number, seed, and the folder of the run."""
    kind, number, seed, out = job
    one, begun = film(kind, number, seed), time.process_time()
    folder = Path(out) / "films" / one.name.replace(" ", "_")
    folder.mkdir(parents=True, exist_ok=True)
    record = {"kind": kind, "number": number, "k1": float(film_camera(kind, number, seed).lens.distortion[0])}
    try:
        path, calibration = make_film(one, folder)
        record |= {"corner_rms": calibration["corner_rms"], "made_in": time.process_time() - begun}
        rectangle = rectangle_of(one)
        fit = identify(
            as_it_is(one, path), one.unknowns, clip_of(one, folder / "film.mp4", rectangle), seed=seed, **FIT_OPTIONS
        )
        naive = None
        if number % NAIVE == 0:
            video = clip_of(one, folder / "uniform.mp4", rectangle)
            naive = fit_record(identify(as_pinhole(path), one.unknowns, video, seed=seed, **FIT_OPTIONS), one)
    except (InputError, ArithmeticError, RuntimeError, ValueError) as error:
        return record | {
            "status": "failed",
            "message": f"{type(error).__name__}: {error}",
            "unknowns": {},
            "naive": None,
        }
    return record | fit_record(fit, one) | {"message": "", "naive": naive}


FIT_OPTIONS = {"starts": START_COUNT, "known_numbers": False}  # what known numbers would do is not looked at


def make_film(one: Film, folder: Path, gamma: float = 1.0) -> tuple[Path, dict]:
    """Write the film, the same frames at a constant rate, and the empty scene; scene with the calibrated camera, and result.json of its capture.

    A film that is there already stays.

    Args:
        one: The film.
        folder: Where to.
        gamma: Response of the sensor: values of pixels are light to the power of 1/gamma.
    """
    if (folder / "camera" / "result.json").exists():
        return folder / "camera" / "scene.yaml", json.loads((folder / "camera" / "result.json").read_text())
    camera, look = film_camera(one.kind, one.number, one.seed), one.random(LOOK)
    sigma, background, darkness = look.uniform(*SIGMA), texture(SIZE, look), look.uniform(0.15, 0.35)
    color = np.array(COLORS[look.integers(len(COLORS))])
    noisy = lambda light: (
        np.rint(255 * (light ** (1 / gamma) + sigma * look.standard_normal(light.shape))).clip(0, 255).astype(np.uint8)
    )
    images = [noisy(frame(camera, one.pose, one.side, t, background, color, darkness)) for t in one.stamps]
    encode(folder / "film.mp4", images, one.stamps)
    encode(folder / "uniform.mp4", images, np.arange(len(images)) / FPS)
    encode(folder / "empty.mp4", [noisy(background) for _ in range(EMPTY_FRAMES)], np.arange(EMPTY_FRAMES) / FPS)
    scene = Scene.parse(one.content | {"camera": NOMINAL, "timing": {"fps": FPS, "frames": len(one.stamps)}})
    path = folder / "scene.yaml"
    path.write_text(yaml_io.as_text(scene, folder, brief=True), encoding="utf-8")
    return calibrated(camera, one.random(LENS + 10), path, folder)


def encode(path: Path, images: list[np.ndarray], stamps: np.ndarray) -> None:
    """Write an h264 video of frames at any times."""
    clock = Fraction(1, 90000)
    frames, ticks = np.stack([planes(image) for image in images]), [round(t / clock) for t in stamps]
    with atomic_path(path) as draft:
        write_h264(draft, frames, Fraction(FPS), {"crf": str(CRF)}, True, ticks, clock)


def as_it_is(one: Film, path: Path) -> Scene:
    """Scene with lens and pose of the calibration, and shutter and readout as they are stated, all with their uncertainties."""
    stated = one.random(STARTS + 10)
    readout = READOUT + READOUT_SD * stated.standard_normal()
    exposure = EXPOSURE + EXPOSURE_SD * stated.standard_normal()
    content = Scene.load(path).model_dump(exclude_unset=True, by_alias=True)
    content["camera"] |= {"prior": str(path.parent / "capture.json"), "readout": readout, "exposure": exposure}
    priors = {"camera.readout": f"{readout} ± {READOUT_SD}", "camera.exposure": f"{exposure} ± {EXPOSURE_SD}"}
    return Scene.parse(content | {"priors": priors})


def as_pinhole(path: Path) -> Scene:
    """Scene with focal length, principal point and pose of the calibration, taken as exact, and no lens or shutter."""
    content = Scene.load(path).model_dump(exclude_unset=True, by_alias=True)
    for key in ("distortion", "prior"):
        content["camera"].pop(key, None)
    return Scene.parse(content)


def rectangle_of(one: Film) -> str:
    """Mask of the colors in a rectangle that a user draws around the body in the first frame that is used."""
    first = 1 if one.frames else 0
    x, R = one.pose(one.stamps[first : first + 1])
    corners = x[0] + one.side * np.array(np.meshgrid(*[[-0.5, 0.5]] * 3)).reshape(3, -1).T @ R[0].T
    pixels = film_camera(one.kind, one.number, one.seed).project(corners)
    low = np.maximum(np.floor(pixels.min(0)) - MARGIN, 0).astype(int)
    high = np.minimum(np.ceil(pixels.max(0)) + MARGIN, np.array(SIZE)).astype(int)
    return f"color:{low[0]},{low[1]},{high[0] - low[0]},{high[1] - low[1]}@{first}"


def clip_of(one: Film, video: Path, rectangle: str) -> Clip:
    return Clip(video, mask=rectangle, background=video.parent / "empty.mp4", noise="auto", frames=one.frames)


def fit_record(fit: Fit, one: Film) -> dict:
    """Status, errors of the judged unknowns, and effort of a fit."""
    rows = {}
    for name in one.judged:
        e, true = fit.unknowns[name], one.truth[name]
        off = e.value - true
        rows[name] = {"truth": true, "value": e.value, "std": e.std, "z": off / e.std, "relative": off / abs(true)}
        rows[name]["inside"] = bool(e.interval95[0] <= true <= e.interval95[1])
    claimed = fit.status in (Status.OK, Status.APPROXIMATE)
    return {
        "status": fit.status,
        "unknowns": rows,
        "silent": bool(claimed and any(not abs(u["z"]) <= FAR for u in rows.values())),
        "outline": {key: fit.outline[key] for key in ("offset", "size", "shift", "excess", "memory", "words")},
        "notes": [note for note in fit.notes if "adds nothing" not in note],
        "converged": fit.starts["converged"],
        "cpu_seconds": fit.cpu_seconds,
    }
