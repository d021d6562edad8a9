"""The length of a real pendulum's string from a video of it, where nothing but the strength of gravity is known.

The period gives the string length in metres, the image gives it in radii of the ball, and the scale of the
image follows. Without g the video shows ratios alone, and a second fit shows that.

The video is `pendulum/pendulum.gif` of the real recordings: a ball on a string of 0.500 m, seen from the side (IRIS
benchmark, 2026). `pendulum_problem.py` and `pendulum_measurement.py` have the method.
"""

from gradsim import video as videos
from gradsim.app.figures import figure
from gradsim.errors import InputError, Status
from gradsim.identification.fit import Fit
from gradsim_reproduction.real.pendulum_measurement import LENGTH, Measurement, measure
from gradsim_reproduction.real.pendulum_problem import PendulumVideo
from gradsim_reproduction.runner import Outcome, Run, experiment

COLOR = (0.42, 0.51, 0.07)  # of the ball where it is well lit
TRUTH = 0.500  # [m] from pivot to ball; only scores the answer
CLOSE, SHARP = 0.02, 0.008  # goals: relative error of the length, its standard deviation [m]


@experiment("real-pendulum", "The string of a real pendulum")
def real_pendulum(run: Run) -> Outcome:
    """Measure the string in a video; writes history.json, scene.yaml, videos and plots. Quick: fewer starts.

    Raises:
        InputError: If the video is missing.
    """
    from gradsim_reproduction.real.cube_recordings import recordings
    from gradsim_reproduction.real.pendulum_plots import draw

    path = recordings() / "pendulum" / "pendulum.gif"
    if not path.is_file():
        raise InputError(f"{path} does not exist; set GRADSIM_REAL_DATA to the folder that holds pendulum/.")
    run.progress.stage(f"finding the ball in {path.name}")
    video = videos.read(path)
    measurement = measure(PendulumVideo.of(video.frames, video.fps, COLOR), run.quick, run.seed, run.progress)
    run.progress.stage("videos and plots")
    fit = measurement.fit.against({LENGTH: TRUTH})
    fit.save(run.out)
    measurement.problem.model.scene.save(run.out / "scene.yaml")
    images = draw(run.out, measurement, COLOR)
    return _result(measurement, fit) | {"images": images}, _figures(measurement, fit)


def _result(measurement: Measurement, fit: Fit) -> dict:
    free = measurement.free.result()
    return {
        **fit.result(),
        "labels": {"unknowns": "gravity known", "unknowns_without_gravity": "gravity unknown too"},
        "unknowns_without_gravity": free["unknowns"],
        "status_without_gravity": free["status"],
        "null_directions_without_gravity": free["null_directions"],
        "same_without_gravity": measurement.same,
        "identifiability": measurement.identifiability,
        "frames": measurement.video.swings.rule,
        "std_by_cause_m": measurement.budget,
        "checks": measurement.checks,
    }


def _figures(measurement: Measurement, fit: Fit) -> dict[str, dict]:
    length = fit.unknowns[LENGTH]
    low, high = length.interval95
    inside = low <= TRUTH <= high
    open_scale = measurement.free.status == Status.UNIDENTIFIABLE and not measurement.free.unknowns[LENGTH].identifiable
    answer, square_on = measurement.cost
    return {
        "string_length_m": figure(length.value, goal=TRUTH, ok=abs(length.value / TRUTH - 1) <= CLOSE),
        "std_m": figure(length.std, goal=SHARP),
        "contains_truth": figure(float(inside), goal=1, ok=inside),
        "relative_error": figure(abs(length.value / TRUTH - 1), goal=CLOSE),
        "gravity_unknown_flagged": figure(float(open_scale), goal=1, ok=open_scale),
        "period_s": figure(measurement.period),
        "drag_per_rad": figure(fit.values.get("bob.drag", 0.0)),
        "damping_per_s": figure(fit.values.get("bob.damping", 0.0)),
        "residual_rms_px": figure(measurement.residual),
        "frames_used": figure(measurement.problem.frames),
        "chi2_over_that_of_a_camera_square_on": figure(answer / square_on),
        **{name: figure(value) for name, value in measurement.checks.items()},
    }
