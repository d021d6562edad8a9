"""Row `hand_held` of `reproduce capture`: a thrown card, filmed by hand over a textured ground, without a marker in the film.

The camera turns and moves with the hand that holds it. Its lens comes from a board in the hand, its pose in the first frame from a board
at a known place; then `gradsim capture --poses --target ground` follows the texture of the ground, `gradsim track` nine points of
its print, and the fit is of these tracks. Images go through OpenCV's lens, sensor noise and h264; the motion is a closed form.

For comparison the same tracks are fitted by a camera that rests at its first pose.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import cv2
import numpy as np
from scipy.ndimage import map_coordinates
from scipy.spatial.transform import Rotation

from gradsim.app.commands.tracking.poses import PoseOptions, capture_poses
from gradsim.app.commands.tracking.track import TrackOptions, track_video
from gradsim.app.figures import Figures, figure
from gradsim.errors import InputError, Status
from gradsim.geometry.camera_poses import read_poses
from gradsim.identification.api import identify
from gradsim.identification.fit import Fit
from gradsim.identification.observation.tracks import read_tracks
from gradsim.scene import Scene, yaml_io
from gradsim_reproduction.calibration.board_images import SUBSAMPLES, CameraTruth
from gradsim_reproduction.calibration.film_boards import calibrated
from gradsim_reproduction.calibration.film_images import OPTICS_BLUR, FilmCamera
from gradsim_reproduction.calibration.film_scenes import FPS, SIGMA, SIZE
from gradsim_reproduction.clips.videos import encode
from gradsim_reproduction.runner import Run

FILMS, QUICK, FRAMES = 16, 1, 24
CRF = 20  # of h264: about what phones write
SIDE, THICKNESS = 0.3, 0.004  # of the card [m]
MARKS = {
    f"{row}{column}": (0.09 * x, 0.09 * z)
    for row, z in zip("abc", (-1, 0, 1), strict=True)
    for column, x in enumerate((-1, 0, 1))
}  # x, z on the card [m]
TEXELS, CARD_TEXELS = 400.0, 600  # of the ground, per meter; of the card, per side
CLICK_SD = 0.5  # [px] of a click
LEAVES = 0.0  # the film ends where the card's middle falls below this height [m]
FAR = 5.0  # standard deviations of a silent failure
JUDGED = ("card.velocity.x", "card.velocity.y", "card.velocity.z", "gravity.z")
RANGES = {
    "card.velocity.x": (0.8, 1.6),
    "card.velocity.y": (-0.3, 0.3),
    "card.velocity.z": (2.4, 3.2),
    "gravity.z": (-12.0, -8.0),
    **{f"card.position.{axis}": (p - 0.1, p + 0.1) for axis, p in zip("xyz", (-0.5, 0.0, 0.6), strict=True)},
    **{f"card.rotation_vector.{axis}": (-0.25, 0.25) for axis in "xyz"},
    **{f"card.angular_velocity.{axis}": (-3.0, 3.0) for axis in "xyz"},
}


@cache
def truth(number: int, seed: int) -> dict[str, float]:
    """True numbers of a film. The card turns about its own normal, so that the spin stays."""
    rng = np.random.default_rng([seed, number, 70])
    values = {name: float(rng.uniform(*span)) for name, span in RANGES.items() if "angular" not in name}
    R = Rotation.from_rotvec([values[f"card.rotation_vector.{axis}"] for axis in "xyz"])
    spin = R.apply([0, rng.uniform(-2.5, 2.5), 0])
    return values | {f"card.angular_velocity.{axis}": float(w) for axis, w in zip("xyz", spin, strict=True)}


def pose(values: dict[str, float], t: float) -> tuple[np.ndarray, np.ndarray]:
    """Middle (3,) and rotation (3, 3) of the card at a time."""
    vector = lambda key: np.array([values[f"card.{key}.{axis}"] for axis in "xyz"])
    x = vector("position") + vector("velocity") * t + 0.5 * np.array([0, 0, values["gravity.z"]]) * t**2
    R = Rotation.from_rotvec(vector("angular_velocity") * t) * Rotation.from_rotvec(vector("rotation_vector"))
    return x, R.as_matrix()


def hand(number: int, seed: int) -> tuple[FilmCamera, np.ndarray, np.ndarray]:
    """The camera in the first frame, and R (frames, 3, 3) and t (frames, 3) of all."""
    rng = np.random.default_rng([seed, number, 71])
    focal = rng.uniform(560, 700)
    centre = np.array(SIZE) / 2 - 0.5 + rng.uniform(-8, 8, 2)
    K = np.array([[focal, 0, centre[0]], [0, focal, centre[1]], [0, 0, 1]])
    distortion = np.array([rng.uniform(-0.3, 0.1), rng.uniform(0, 0.05), *rng.uniform(-1e-3, 1e-3, 2), 0.0])
    eye, target = np.array([rng.uniform(-0.4, 0.4), -2.3, rng.uniform(1.0, 1.4)]), np.array([0, 0, 0.45])
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, [0, 0, 1]) / np.linalg.norm(np.cross(forward, [0, 0, 1]))
    t = np.arange(FRAMES)[:, None] / FPS
    # a hand: slow drifts of some degrees and centimeters, and a tremor of a third of it
    waves = np.zeros((FRAMES, 6))
    for size, rates in ((1.0, (2, 6)), (0.35, (8, 16))):
        waves += size * np.sin(rng.uniform(*rates, 6) * t + rng.uniform(0, 2 * np.pi, 6))
    motion = (waves - waves[0]) * [0.02, 0.03, 0.02, 0.03, 0.03, 0.03]
    R = Rotation.from_rotvec(motion[:, :3]).as_matrix() @ np.stack([right, np.cross(forward, right), forward])
    shift = -np.einsum("nij,nj->ni", R, eye + motion[:, 3:])
    return FilmCamera(CameraTruth(SIZE, K, distortion), R[0], shift[0], 0.0, 0.0), R, shift


def ground_texture(rng: np.random.Generator, texels: int = 2048) -> np.ndarray:
    """Brightness (texels, texels) of a ground with spots of all sizes."""
    image = np.full((texels, texels), 0.5, np.float32)
    for size, amplitude in ((3, 0.1), (8, 0.1), (25, 0.12), (80, 0.08)):
        noise = cv2.GaussianBlur(rng.standard_normal((texels, texels)).astype(np.float32), (0, 0), size)
        image += amplitude * noise / noise.std()
    return image.clip(0.05, 0.95)


def card_texture(rng: np.random.Generator) -> np.ndarray:
    """Brightness (CARD_TEXELS, CARD_TEXELS) of a printed card."""
    image = np.full((CARD_TEXELS, CARD_TEXELS), 0.5, np.float32)
    for size, amplitude in ((16, 0.12), (40, 0.12), (100, 0.15)):
        noise = cv2.GaussianBlur(rng.standard_normal(image.shape).astype(np.float32), (0, 0), size)
        image += amplitude * noise / noise.std()
    return image.clip(0.05, 0.95)


def sample(texture: np.ndarray, column: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Brightness at texels, of any shape."""
    at = np.stack([row.ravel(), column.ravel()])
    return map_coordinates(texture, at, order=1, mode="reflect").reshape(column.shape)


def image_of(
    rays: np.ndarray,
    R: np.ndarray,
    t: np.ndarray,
    ground: np.ndarray,
    card: np.ndarray,
    x: np.ndarray,
    turn: np.ndarray,
) -> np.ndarray:
    """Image (height, width) in [0, 1] of the ground and, in front of it, the card, by their textures: R, t of the camera, x and turn of the card."""
    eye = -R.T @ t
    directions = np.concatenate([rays, np.ones_like(rays[..., :1])], -1) @ R
    depth = np.where(directions[..., 2] < -1e-3, -eye[2] / np.minimum(directions[..., 2], -1e-3), 0)
    place = eye + depth[..., None] * directions
    image = sample(ground, *(place[..., k] * TEXELS + ground.shape[0] / 2 for k in range(2)))
    image = np.where(depth > 0, image, 0.6)
    normal = turn[:, 1]  # the face with the marks looks along −y of the card
    front = (x - eye - normal * THICKNESS / 2) @ normal / (directions @ normal)
    local = (eye + front[..., None] * directions - x) @ turn
    on_card = (np.abs(local[..., 0]) < SIDE / 2) & (np.abs(local[..., 2]) < SIDE / 2) & (front > 0)
    x_texel, z_texel = (((local[..., k] / SIDE).clip(-0.5, 0.5) + 0.5) * CARD_TEXELS - 0.5 for k in (0, 2))
    image = np.where(on_card, sample(card, x_texel, z_texel), image)
    height, width = (n // SUBSAMPLES for n in image.shape)
    return cv2.GaussianBlur(image.reshape(height, SUBSAMPLES, width, SUBSAMPLES).mean((1, 3)), (0, 0), OPTICS_BLUR)


def make_film(number: int, seed: int, folder: Path) -> Path:
    """Write the film and the scene with the calibrated first camera; returns the scene. What is there stays."""
    scene = folder / "camera" / "scene.yaml"
    if scene.exists():
        return scene
    values, rng = truth(number, seed), np.random.default_rng([seed, number, 72])
    camera, R, t = hand(number, seed)
    sigma, ground, card, rays = rng.uniform(*SIGMA), ground_texture(rng), card_texture(rng), camera.lens.rays()
    frames = []
    for k in range(FRAMES):
        x, turn = pose(values, k / FPS)
        if x[2] < LEAVES:
            break
        light = image_of(rays, R[k], t[k], ground, card, x, turn)[..., None] * np.ones(3)
        frames.append(np.rint(255 * (light + sigma * rng.standard_normal(light.shape))).clip(0, 255).astype(np.uint8))
    encode(folder / "film.mp4", np.array(frames), FPS, CRF, True)
    guess = np.random.default_rng([seed, number, 73])
    content = scene_content({name: float(guess.uniform(*span)) for name, span in RANGES.items()}, len(frames))
    path = folder / "scene.yaml"
    path.write_text(yaml_io.as_text(Scene.parse(content), folder, brief=True), encoding="utf-8")
    return calibrated(camera, rng, path, folder)[0]


def scene_content(guess: dict[str, float], frames: int) -> dict:
    """Scene with guesses of the unknowns."""
    vector = lambda key: [guess[f"card.{key}.{axis}"] for axis in "xyz"]
    card = {"shape": {"box": {"size": [SIDE, THICKNESS, SIDE]}}, "mass": 0.1}
    card |= {key: vector(key) for key in ("position", "rotation_vector", "velocity", "angular_velocity")}
    return {
        "timing": {"fps": FPS, "frames": frames},
        "gravity": [0, 0, guess["gravity.z"]],
        "bodies": {"card": card},
        "markers": {name: {"body": "card", "point": [x, -THICKNESS / 2, z]} for name, (x, z) in MARKS.items()},
        "camera": {"size": list(SIZE), "look_at": {"eye": [0, -2.3, 1.2], "target": [0, 0, 0.45]}, "focal": 640.0},
    }


def clicks(number: int, seed: int) -> tuple[str, ...]:
    """Clicks on points of the print in the first frame."""
    camera, _, _ = hand(number, seed)
    x, turn = pose(truth(number, seed), 0.0)
    rng = np.random.default_rng([seed, number, 74])
    points = np.array([[u, -THICKNESS / 2, v] for u, v in MARKS.values()]) @ turn.T + x
    pixels = camera.project(points) + CLICK_SD * rng.standard_normal((len(points), 2))
    return tuple(f"{name}={u:.1f},{v:.1f}" for name, (u, v) in zip(MARKS, pixels, strict=True))


def fit_hand_held(job: tuple[int, int, str]) -> dict:
    """Record of one film: number, seed, and the folder of the run."""
    number, seed, out = job
    folder = Path(out) / "films" / f"hand_held_{number}"
    folder.mkdir(parents=True, exist_ok=True)
    record: dict = {"number": number}
    try:
        scene = make_film(number, seed, folder)
        film = folder / "film.mp4"
        track_video(film, folder / "tracks", TrackOptions(points=clicks(number, seed), scene=scene, click=CLICK_SD))
        marked = folder / "tracks" / "scene.yaml"
        capture_poses(film, folder / "poses", PoseOptions(targets=("ground",), scene=marked))
        record |= pose_errors(number, seed, folder)
        unknowns = [f"{name}:{low:g}:{high:g}" for name, (low, high) in RANGES.items()]
        for name, path in (("moving", folder / "poses" / "scene.yaml"), ("at rest", marked)):
            camera = Scene.load(path)
            # as `--robust cauchy`: tracks that jump count less
            observation = read_tracks(camera, folder / "tracks" / "tracks.csv", loss="cauchy")
            fit = identify(camera, unknowns, observation=observation, seed=seed, known_numbers=False)
            record[name] = fit_record(fit, number, seed)
    except (InputError, ArithmeticError, RuntimeError, ValueError) as error:
        return record | {"status": Status.FAILED, "message": f"{type(error).__name__}: {error}"}
    return record | {"status": record["moving"]["status"], "message": ""}


def pose_errors(number: int, seed: int, folder: Path) -> dict:
    """Errors of the poses (frames, 6), of ω and t, and their covariance."""
    _, R, t = hand(number, seed)
    poses = read_poses(folder / "poses" / "poses.json")
    at = np.rint(poses.times * FPS).astype(int)
    errors = [
        np.concatenate([Rotation.from_matrix(R[k] @ poses.R[i].T).as_rotvec(), t[k] - poses.t[i]])
        for i, k in enumerate(at)
    ]
    return {"frames": len(at), "error": np.array(errors).tolist(), "covariance": poses.covariance.tolist()}


def fit_record(fit: Fit, number: int, seed: int) -> dict:
    """Status and errors of the judged unknowns."""
    rows = {}
    for name in JUDGED:
        e, true = fit.unknowns[name], truth(number, seed)[name]
        rows[name] = {
            "truth": true,
            "value": e.value,
            "std": e.std,
            "z": (e.value - true) / e.std,
            "off": e.value - true,
        }
        rows[name]["inside"] = bool(e.interval95[0] <= true <= e.interval95[1])
    claimed = fit.status in (Status.OK, Status.APPROXIMATE)
    silent = bool(claimed and any(not abs(u["z"]) <= FAR for u in rows.values()))
    return {"status": fit.status, "unknowns": rows, "silent": silent, "cpu_seconds": fit.cpu_seconds}


def hand_held_row(run: Run) -> list[dict]:
    """Records of all films; writes hand_held.jsonl."""
    count = QUICK if run.quick else FILMS
    jobs = {f"hand held {k} seed {run.seed}": (k, run.seed, str(run.out)) for k in range(count)}
    return run.records(
        run.ledger("hand_held.jsonl", experiment="capture hand held"), jobs, fit_hand_held, "hand-held films"
    )


def hand_held_summary(records: Sequence[dict]) -> dict:
    """Coverage of fits that are `ok`, and errors of poses."""
    fits = [r["moving"] for r in records if "moving" in r]
    resting = [r["at rest"] for r in records if "at rest" in r]
    good = [u for fit in fits if fit["status"] == Status.OK for u in fit["unknowns"].values()]
    rms = lambda values: float(np.sqrt(np.mean(np.square(values)))) if len(values) else None
    errors = [np.array(r["error"])[1:] - r["error"][0] for r in records if "error" in r]
    errors = np.concatenate(errors) if errors else np.zeros((0, 6))
    return {
        "films": len(records),
        "ok": sum(fit["status"] == Status.OK for fit in fits),
        "silent": sum(fit["silent"] for fit in fits),
        "intervals": len(good),
        "coverage": float(np.mean([u["inside"] for u in good])) if good else None,
        "z_rms": rms([u["z"] for fit in fits for u in fit["unknowns"].values()]),
        "pose_z_rms": rms(pose_z(records)),
        "turn_error_mrad": 1e3 * (rms(errors[:, :3]) or 0.0),
        "place_error_mm": 1e3 * (rms(errors[:, 3:]) or 0.0),
        "relative_error_median": float(np.median([abs(u["off"] / u["truth"]) for u in good])) if good else None,
        "at_rest_ok": sum(fit["status"] == Status.OK for fit in resting),
        "at_rest_z_rms": rms([u["z"] for fit in resting for u in fit["unknowns"].values()]),
    }


def pose_z(records: Sequence[dict]) -> list[float]:
    """√(eᵀ C⁻¹ e / 6) of every pose but the first of each film, with e the error less that of the first, which is the scene's."""
    out = []
    for record in records:
        errors, covariance = np.array(record.get("error", [])), np.array(record.get("covariance", []))
        for e, C in zip(errors[1:] - errors[:1], covariance[1:], strict=True):
            out.append(float(np.sqrt(e @ np.linalg.solve(C, e) / 6)))
    return out


def hand_held_figures(row: dict) -> Figures:
    """Figures of the row."""
    figures = {
        "hand_held: silent_failures": figure(row["silent"], goal=0),
        "hand_held: at_rest_ok": figure(row["at_rest_ok"], goal=0),
        "hand_held: ok": figure(row["ok"]),
    }
    for name in ("coverage", "z_rms", "pose_z_rms", "turn_error_mrad", "place_error_mm", "at_rest_z_rms"):
        if row[name] is not None:
            figures[f"hand_held: {name}"] = figure(row[name])
    return figures
