"""Row `spin` of `reproduce capture`: the spin of textured balls from the colors of h264 videos, with nothing known of the texture.

Each ball flies in front of clutter, over its shadow, with a drifting exposure and a light that nobody states (`spin_videos`). It is fitted as
`gradsim fit SCENE --video FILE --background mog2 --observe pictures` does, with place, velocity, gravity and spin unknown, and once by outlines
alone, for which the spin has to be `unidentifiable`. Plain balls, which have nothing that shows a spin, must not be `ok`.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gradsim.app.figures import Figures, figure
from gradsim.errors import InputError, Status
from gradsim.identification.api import identify
from gradsim.identification.fit import Fit
from gradsim.identification.observation.clip import Clip
from gradsim.scene import Scene
from gradsim_reproduction.calibration.spin_videos import FPS, RADIUS, SIZE, SpinTruth, draw_spin, write_spin
from gradsim_reproduction.runner import Run

BALLS, QUICK, PLAIN = 20, 2, 2  # balls with a texture, and without
WIDE = 5.0  # standard deviations beyond which an `ok` is a silent failure
RANGE = 30.0  # rad/s, of each component of the spin
STARTS = 8
Z95 = 1.96
REFUSED = {
    "status": "refused",
    "z": {},
    "std": {},
    "spin_known": False,
    "spin_error": None,
    "colors": {},
    "cpu_seconds": 0.0,
}


def spin_row(run: Run) -> tuple[list[dict], Figures]:
    """Records of all balls, and their figures."""
    count = run.scenes or (QUICK if run.quick else BALLS)
    plain = min(count, 1 if run.quick else PLAIN)
    folder = str(run.out / "balls")
    jobs = {f"ball {k} seed {run.seed}": (k, run.seed, "", folder) for k in range(count)}
    jobs |= {f"plain ball {k} seed {run.seed}": (k, run.seed, "plain", folder) for k in range(plain)}
    records = run.records(run.ledger("balls.jsonl", experiment="spin"), jobs, fit_spin, "balls")
    row = spin_summary(records)
    many = count >= 20  # fewer do not tell coverage
    return records, {
        "spin_error_median": figure(row["spin_error_median"], goal=0.01),
        "spin_z_largest": figure(row["spin_z_largest"], goal=3.0),
        "spin_z_rms": figure(row["spin_z_rms"]),
        "spin_coverage95": figure(
            row["spin_coverage95"], goal=0.9, ok=not many or (row["spin_coverage95"] or 0) >= 0.9
        ),
        "spin_ok_share": figure(row["ok"] / count, goal=0.9, ok=not many or row["ok"] >= 0.9 * count),
        "spin_silent_failures": figure(row["silent_failures"], goal=0),
        "spin_outlines_say_unidentifiable": figure(
            row["outlines_say_unidentifiable"], goal=len(records), ok=row["outlines_say_unidentifiable"] == len(records)
        ),
    }


def scene_of(truth: SpinTruth) -> Scene:
    """Scene of a video: the size of the ball and the camera are known; the rest is not."""
    ball = {"kind": "rigid", "shape": {"sphere": {"radius": RADIUS}}, "mass": 0.4}
    return Scene.parse(
        {
            "name": "spinning ball",
            "timing": {"fps": FPS, "frames": truth.frames},
            "gravity": [0, 0, -9.81],
            "camera": {
                "size": list(SIZE),
                "look_at": {"eye": list(truth.eye), "target": [0, 0, truth.eye[2]]},
                "focal": f"{truth.focal} px",
            },
            "bodies": {"ball": ball},
        }
    )


def unknowns_of(truth: SpinTruth) -> dict[str, tuple[float, float, float]]:
    """Range and true value of each unknown."""
    (x, _, z), (vx, _, vz) = truth.position, truth.velocity
    others = {"ball.position.x": (x, 0.2), "ball.position.z": (z, 0.2)}
    others |= {"ball.velocity.x": (vx, 2.0), "ball.velocity.z": (vz, 2.0)}
    ranges = {name: (value - 0.7 * width, value + 1.3 * width, value) for name, (value, width) in others.items()}
    ranges["gravity.z"] = (-15.0, -5.0, -9.81)
    spins = zip("xyz", truth.spin, strict=True)
    return ranges | {f"ball.angular_velocity.{axis}": (-RANGE, RANGE, value) for axis, value in spins}


def fit_spin(job: tuple[int, int, str, str]) -> dict:
    """Record of one ball: number, seed, texture ("" for that of its number) and folder of the videos."""
    number, seed, texture, folder = job
    truth = draw_spin(number, seed, texture or None)
    path = write_spin(truth, Path(folder) / f"{truth.texture} {number}.mp4")
    record = {"texture": truth.texture, "spin": truth.spin, "crf": truth.crf}
    for observe in ("pictures", "outlines"):
        try:
            record[observe] = _record(_fit(truth, path, observe, seed), truth)
        except InputError as error:
            record[observe] = REFUSED | {"notes": [str(error)]}
    return record


def _fit(truth: SpinTruth, path: Path, observe: str, seed: int) -> Fit:
    named = [f"{name}:{low!r}:{high!r}" for name, (low, high, _) in unknowns_of(truth).items()]
    clip = Clip(path, background="mog2", noise="auto")
    return identify(scene_of(truth), named, clip, starts=STARTS, seed=seed, known_numbers=False, observe=observe)


def _record(fit: Fit, truth: SpinTruth) -> dict:
    values = {name: true for name, (*_, true) in unknowns_of(truth).items()}
    z = {name: (e.value - values[name]) / e.std if e.std else None for name, e in fit.unknowns.items()}
    spins = [name for name in values if "angular" in name]
    error = np.linalg.norm([fit.unknowns[name].value - values[name] for name in spins])
    return {
        "status": fit.status,
        "z": z,
        "std": {name: e.std for name, e in fit.unknowns.items()},
        "spin_known": all(fit.unknowns[name].identifiable for name in spins),
        "spin_error": float(error / np.linalg.norm(truth.spin)),
        "notes": list(fit.notes),
        "colors": dict(fit.evidence.get("colors", {})),
        "cpu_seconds": fit.cpu_seconds,
    }


def spin_summary(records: Sequence[dict]) -> dict:
    """Errors, coverage and verdicts over all balls."""
    textured = [r for r in records if r["texture"] != "plain"]
    plain = [r for r in records if r["texture"] == "plain"]
    good = [r["pictures"] for r in textured if r["pictures"]["status"] == Status.OK]
    z = np.array([[v for name, v in r["z"].items() if "angular" in name] for r in good]).reshape(-1, 3)
    others = np.array([[v for name, v in r["z"].items() if "angular" not in name] for r in good])
    errors = [r["spin_error"] for r in good]
    silent = [r for r in good if any(abs(v) > WIDE for v in r["z"].values())]
    return {
        "balls": len(textured),
        "ok": len(good),
        "spin_error_median": float(np.median(errors)) if errors else float("inf"),
        "spin_error_rms": float(np.sqrt(np.mean(np.square(errors)))) if errors else None,
        "spin_error_largest": max(errors, default=None),
        "spin_z_rms": float(np.sqrt(np.mean(z**2))) if z.size else None,
        "spin_z_largest": float(np.abs(z).max()) if z.size else float("inf"),
        "spin_coverage95": float(np.mean(np.abs(z) < Z95)) if z.size else None,
        "other_z_rms": float(np.sqrt(np.mean(others**2))) if others.size else None,
        "silent_failures": len(silent)
        + sum(r["pictures"]["spin_known"] for r in plain if r["pictures"]["status"] == Status.OK),
        "outlines_say_unidentifiable": sum(not r["outlines"]["spin_known"] for r in records),
        "plain": [r["pictures"]["status"] for r in plain],
        "statuses": [r["pictures"]["status"] for r in textured],
        "cpu_seconds": float(np.median([r["pictures"]["cpu_seconds"] for r in records])),
    }
