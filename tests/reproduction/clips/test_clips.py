import math
from pathlib import Path

import pytest

from gradsim.runtime.progress import NullProgress
from gradsim_reproduction.clips import clips as experiment
from gradsim_reproduction.clips.figures import coverage, summary
from gradsim_reproduction.clips.scenes import KINDS
from gradsim_reproduction.runner import Run


def record(status="ok", z=(0.0,), fault="", kind="ball", number=0, ratio=1.0):
    unknowns = {f"u{k}": {"z": value, "inside": abs(value) < 1.96} for k, value in enumerate(z)}
    one = {"kind": kind, "number": number, "fault": fault, "status": status, "unknowns": unknowns, "cpu_seconds": 1.0}
    one |= {"sharpness": dict.fromkeys(unknowns, ratio), "background": "median"}
    return one | {"silent": status == "ok" and any(not abs(value) <= 5 for value in z)}


def value(records, key):
    return summary(records)[key]["value"]


def run(quick=False, scenes=None):
    return Run(Path(), quick, 0, NullProgress(), scenes)


def test_every_recording_is_fitted_with_the_right_and_a_wrong_model():
    jobs = experiment.plan(run())
    assert len(jobs) == len(set(jobs)) == 2 * sum(kind.count for kind in KINDS.values())
    assert {name for name, _, _ in experiment.plan(run(scenes=24))} == set(KINDS)
    assert len(experiment.plan(run(scenes=20))) == 40
    assert {name for name, _, wrong in experiment.plan(run(quick=True)) if not wrong} == set(KINDS)


def test_intervals_count_where_a_right_model_claims_them():
    records = [record(z=(1.0, 3.0)), record("mismatch", z=(100.0,)), record(z=(50.0,), fault="rate")]
    assert value(records, "coverage") == 0.5 and value(records, "z_rms") == pytest.approx(math.sqrt(5))
    assert value(records, "silent_failures") == 0 and value(records, "wrong_models_silent") == 1


def test_intervals_of_one_video_go_together_in_the_standard_error():
    """Of 4 videos with two intervals each, half of the videos wrong: √(4 · 1)/8 and not √(0.25/8)."""
    inside, error = coverage([record(z=(0.0, 0.0))] * 2 + [record(z=(3.0, 3.0))] * 2)
    assert inside == 0.5 and error == pytest.approx(0.25)


def test_refused_videos_are_not_ok_and_wrong_models_count_by_their_status():
    records = [record(), {**record("refused", z=()), "silent": False}]
    records += [record("mismatch", fault="rate"), record("ok", fault="size")]
    assert value(records, "ok_share") == 0.5 and value(records, "wrong_models_flagged") == 0.5
    assert value(records, "wrong_models_flagged (rate)") == 1 and value(records, "ok_share (ball)") == 0.5


def test_videos_of_cameras_and_of_libraries_count_by_themselves():
    """Chroma of videos that a library encodes from RGB is off by up to half a pixel."""
    records = [record(z=(0.0,), number=1), record(z=(4.0,), number=2)]
    assert value(records, "coverage (camera)") == 1 and value(records, "coverage (library)") == 0


def test_few_intervals_are_not_judged():
    assert summary([record(z=(3.0,))] * 14)["coverage"]["goal"] is None
    assert summary([record(z=(3.0,))] * 100)["coverage"]["ok"] is False


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_quick_form_writes_figures_and_goes_on_where_it_ended(tmp_path):
    result = experiment.clips(tmp_path, quick=True)
    assert {"coverage", "z_rms", "silent_failures", "sharpness", "wrong_models_flagged"} <= set(result["figures"])
    assert all((tmp_path / image["file"]).exists() for image in result["images"])
    assert experiment.clips(tmp_path, quick=True)["records"] == result["records"]


def test_every_kind_has_its_plot(tmp_path):
    from gradsim_reproduction.clips import plots

    record = lambda kind: {"kind": kind, "fault": "", "status": "ok", "unknowns": {"x": {"z": 0.5}}}
    figure = plots._scores([record(kind) for kind in KINDS])
    assert [ax.get_title() for ax in figure.axes] == list(KINDS)
    assert plots._videos(tmp_path, [], 0).axes  # no records, no pictures
