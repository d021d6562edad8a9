"""The length of a real pendulum's string from a film of it, where nothing but the strength of gravity is known.

The period says how long the string is in metres, the picture how long it is in radii of the ball, and the scale of the
picture follows. Without g the film shows ratios alone, and a second fit here says so.

The film is `pendulum/pendulum.gif` of the real recordings: a ball on a string of 0.500 m, seen from the side (IRIS
benchmark, 2026). `pendulum_film` and `pendulum_measurement` have the method.
"""

from pathlib import Path

from gradsim import video as videos
from gradsim.errors import InputError
from gradsim.identification.fit import Fit
from gradsim.runtime.progress import NullProgress, Progress
from gradsim_reproduction.real.pendulum_measurement import LENGTH, Measurement, measure
from gradsim_reproduction.real.pendulum_problem import Film
from gradsim_reproduction.runner import figure, write_result

COLOUR = (0.42, 0.51, 0.07)  # of the ball where it is well lit
TRUTH = 0.500  # [m] from pivot to ball; only scores the answer
CLOSE, SHARP = 0.02, 0.008  # goals: relative error of the length, its standard deviation [m]


def real_pendulum(out: Path, quick: bool = False, seed: int = 0, progress: Progress | None = None) -> dict:
    """Measure the string in a film into a folder.

    Args:
        out: Gets result.json, history.json, scene.yaml, films and pictures.
        quick: Fewer starts.
        seed: Of starts and bootstrap.
        progress: Is told what happens.

    Returns:
        The content of `result.json`.

    Raises:
        InputError: If the film is not there.
    """
    from gradsim_reproduction.real.cube_recordings import recordings
    from gradsim_reproduction.real.pendulum_plots import draw

    out, progress = Path(out), progress or NullProgress()
    path = recordings() / "pendulum" / "pendulum.gif"
    if not path.is_file():
        raise InputError(f"{path} does not exist; set GRADSIM_REAL_DATA to the folder that holds pendulum/.")
    progress.stage(f"finding the ball in {path.name}")
    film = videos.read(path)
    found = measure(Film.of(film.frames, film.fps, COLOUR), quick, seed, progress)
    progress.stage("drawing films and pictures")
    out.mkdir(parents=True, exist_ok=True)
    fit = found.fit.against({LENGTH: TRUTH})
    fit.save(out)
    found.problem.model.scene.save(out / "scene.yaml")
    pictures = draw(out, found, COLOUR)
    progress.done()
    result = _result(found, fit) | {"pictures": pictures}
    return write_result(out, "reproduce real-pendulum", result, _figures(found, fit))


def _result(found: Measurement, fit: Fit) -> dict:
    free = found.free.result()
    return {
        **fit.result(),
        "title": "The string of a real pendulum",
        "labels": {"unknowns": "gravity known", "unknowns_without_gravity": "gravity unknown too"},
        "unknowns_without_gravity": free["unknowns"],
        "status_without_gravity": free["status"],
        "null_directions_without_gravity": free["null_directions"],
        "same_without_gravity": found.same,
        "identifiability": found.identifiability,
        "frames": found.film.swings.rule,
        "std_by_cause_m": found.budget,
        "checks": found.checks,
    }


def _figures(found: Measurement, fit: Fit) -> dict[str, dict]:
    length = fit.unknowns[LENGTH]
    low, high = length.interval95
    inside = low <= TRUTH <= high
    open_scale = found.free.status == "unidentifiable" and not found.free.unknowns[LENGTH].identifiable
    answer, square_on = found.cost
    return {
        "string_length_m": figure(length.value, goal=TRUTH, ok=abs(length.value / TRUTH - 1) <= CLOSE),
        "std_m": figure(length.std, goal=SHARP),
        "contains_truth": figure(float(inside), goal=1, ok=inside),
        "relative_error": figure(abs(length.value / TRUTH - 1), goal=CLOSE),
        "gravity_unknown_flagged": figure(float(open_scale), goal=1, ok=open_scale),
        "period_s": figure(found.period),
        "drag_per_rad": figure(fit.values.get("bob.drag", 0.0)),
        "damping_per_s": figure(fit.values.get("bob.damping", 0.0)),
        "residual_rms_px": figure(found.residual),
        "frames_used": figure(found.problem.frames),
        "chi2_over_that_of_a_camera_square_on": figure(answer / square_on),
        **{name: figure(value) for name, value in found.checks.items()},
    }
