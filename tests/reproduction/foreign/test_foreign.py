import math
from pathlib import Path

import pytest

from gradsim.runtime.progress import NullProgress
from gradsim_reproduction.foreign import foreign as experiment
from gradsim_reproduction.runner import Run


def record(mode, status="ok", error=0.0, z=0.0, number=0, kind="three", seconds=1.0, identifiable=True):
    unknown = {"truth": 1.0, "value": 1 + error, "error": error, "z": z, "inside": abs(z) < 1.96}
    one = {"kind": kind, "number": number, "mode": mode, "status": status, "cpu_seconds": seconds}
    one |= {"unknowns": {"cube.mass": unknown}, "identifiable": identifiable}
    return one | {"silent": mode != "own" and status == "ok" and experiment.wrong(one["unknowns"], mode)}


def value(records, key):
    return experiment.summary(records)[key]["value"]


def run(quick=False, scenes=None):
    return Run(Path(), quick, 0, NullProgress(), scenes)


def test_ninety_recordings_are_fitted_twice_and_some_in_their_own_video():
    fits = experiment.plan(run())
    modes = [mode for _, _, mode in fits]
    assert modes.count("float") == modes.count("8bit") == 90 and modes.count("own") == 30
    assert len(set(fits)) == len(fits)
    assert {name for name, _, _ in experiment.plan(run(quick=True))} == set(experiment.KINDS)
    assert sum(mode == "8bit" for _, _, mode in experiment.plan(run(scenes=30))) == 30


@pytest.mark.parametrize(
    ("one", "count"),
    [
        (record("8bit", z=5.1), 1),
        (record("8bit", z=-5.1), 1),
        (record("8bit", z=4.9, error=0.5), 0),  # a wide error bar excuses it
        (record("8bit", z=math.nan), 1),
        (record("8bit", z=50.0, status="mismatch"), 0),  # not silent
        (record("float", error=0.011), 1),
        (record("float", error=0.009, z=80.0), 0),  # no noise: what the error bar says is nominal
        (record("float", error=0.5, status="unidentifiable"), 0),
        (record("own", z=50.0, error=1.0), 0),
    ],
)
def test_a_silent_failure_is_ok_and_far_off(one, count):
    assert value([one], "silent_failures") == count


def test_the_ok_share_is_of_what_can_be_known():
    noisy = [record("8bit"), record("8bit", "mismatch"), record("8bit", "unidentifiable", identifiable=False)]
    assert value(noisy, "ok_share") == 0.5
    assert value(noisy, "identifiable_share") == pytest.approx(2 / 3)


def test_intervals_count_where_the_fit_claims_them():
    noisy = [record("8bit", z=1.0), record("8bit", z=3.0), record("8bit", "mismatch", z=100.0)]
    assert value(noisy, "coverage") == 0.5
    assert value(noisy, "z_rms") == pytest.approx(math.sqrt(5))


def test_few_intervals_are_not_judged():
    """Of 14 intervals, one more or less is 7 %."""
    assert experiment.summary([record("8bit", z=3.0)] * 14)["coverage"]["goal"] is None
    many = experiment.summary([record("8bit", z=3.0)] * 100)
    assert many["coverage"]["ok"] is False and many["z_rms"]["ok"] is False


def test_cpu_time_is_compared_on_the_same_recordings():
    fits = [record("8bit", number=0, seconds=6.0), record("8bit", number=1, seconds=100.0)]
    assert value([*fits, record("own", number=0, seconds=4.0)], "cpu_ratio") == 1.5


def test_what_was_the_default_is_semi_implicit_and_does_not_refine():
    timing = experiment.as_before(experiment.recording("three", 1, 0).scene).timing
    assert timing.integrator == "semi-implicit" and timing.substeps == "auto" and timing.tolerance == math.inf


def test_other_engines_count_by_themselves():
    tosses = [record("8bit", kind="mujoco", z=9.0), record("8bit", "mismatch", kind="mujoco", z=9.0)]
    figures = experiment.engine_figures(tosses)
    assert figures["other_engines_silent_failures"]["value"] == 1
    assert not experiment.engine_figures([])


@pytest.mark.slow
def test_the_quick_form_writes_figures_and_goes_on_where_it_ended(tmp_path):
    result = experiment.foreign(tmp_path, quick=True)
    assert {"silent_failures", "ok_share", "rel_err_median", "coverage", "cpu_ratio"} <= set(result["figures"])
    assert all((tmp_path / image["file"]).exists() for image in result["images"])
    again = experiment.foreign(tmp_path, quick=True)
    assert again["records"] == result["records"]
