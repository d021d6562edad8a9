"""Run folders: what simulate and fit write, and that bad input leaves nothing behind."""

import json
from pathlib import Path

import numpy as np
import pytest
from fit_cases import THROW, THROW_TRUTH
from run_cases import write_inputs

from gradsim import video as videos
from gradsim.app.commands import fit as command
from gradsim.app.commands.render import render
from gradsim.app.commands.simulate import simulate
from gradsim.app.job import FitArguments
from gradsim.errors import InputError

pytestmark = pytest.mark.usefixtures("blank_plots")

SCHEMA = {
    "schema": str,
    "command": str,
    "status": str,
    "unknowns": dict,
    "sigma_reference": float,
    "chi2_per_n": float,
    "rank": int,
    "null_directions": list,
    "starts": dict,
    "iterations": int,
    "rollouts": int,
    "cpu_seconds": float,
    "wall_seconds": float,
    "seed": int,
    "estimator": str,
    "versions": dict,
}
ESTIMATE = {"value", "std", "interval95", "unit", "low", "high", "identifiable", "truth"}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    """scene.yaml and a noisy video.webm of a thrown box whose mass and speed are not those of the scene."""
    return write_inputs(tmp_path_factory.mktemp("inputs"))


def fit(inputs: Path, out: Path, unknowns=THROW, video="video.webm", scene="scene.yaml", **options) -> dict:
    resume = options.pop("resume", False)
    arguments = FitArguments(scene=inputs / scene, video=inputs / video, unknowns=tuple(unknowns), **options)
    return command.fit(arguments, out, resume)


@pytest.fixture(scope="module")
def done(inputs, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("fit") / "deep" / "run"
    fit(inputs, out, starts=4, seed=3)
    return out


def test_result_has_every_key_of_the_schema(done):
    result = json.loads((done / "result.json").read_text())
    for key, kind in SCHEMA.items():
        assert isinstance(result[key], kind), key
    assert set(result["unknowns"]) == {"cube.mass", "cube.velocity.x"}
    assert all(set(e) >= ESTIMATE for e in result["unknowns"].values())
    assert result["starts"].keys() >= {"count", "converged"} and result["starts"]["count"] == 4
    assert result["command"] == "fit" and result["status"] == "ok" and result["seed"] == 3
    assert result["unknowns"]["cube.mass"]["unit"] == "kg" and result["unknowns"]["cube.mass"]["truth"] is None


def test_a_video_gives_its_physics_within_four_bars(done):
    unknowns = json.loads((done / "result.json").read_text())["unknowns"]
    for name, truth in THROW_TRUTH.items():
        assert abs(unknowns[name]["value"] - truth) < 4 * unknowns[name]["std"]
        assert unknowns[name]["std"] < 0.05 * truth


def test_the_report_and_its_videos_are_written(done):
    names = {p.name for p in done.iterdir()}
    assert names >= {"result.json", "report.html", "history.json", "scene.yaml", "side_by_side.webm", "overlay.webm"}
    assert "cube.mass" in (done / "report.html").read_text()
    assert not [n for n in names if n.startswith(".") or n.endswith(".part")]


def _on_ground(content: str, ground: str) -> str:
    assert content.count("grounds: {}") == 1
    return content.replace("grounds: {}", f"ground: {ground}")


def broken(inputs: Path, tmp_path: Path) -> dict[str, dict]:
    frames = videos.read(inputs / "video.webm").frames
    content = (inputs / "scene.yaml").read_text()
    (tmp_path / "empty.webm").write_bytes(b"")
    (tmp_path / "text.webm").write_text("no video")
    (tmp_path / "inside.yaml").write_text(_on_ground(content, "{height: 0.7, stiffness: 1.0e+3}"))
    (tmp_path / "typo.yaml").write_text(content.replace("mass:", "mas:"))
    (tmp_path / "negative.yaml").write_text(content.replace("mass: 4.0", "mass: -4.0"))
    (tmp_path / "pickle.yaml").write_text("name: !!python/object/apply:os.getcwd []\n")
    videos.write(tmp_path / "wide.webm", np.pad(frames, ((0, 0), (0, 0), (0, 8), (0, 0))), 20)
    videos.write(tmp_path / "fast.webm", frames, 60)
    videos.write(tmp_path / "blank.webm", np.full_like(frames, 255), 20)
    videos.write(tmp_path / "inverted.webm", 255 - frames, 20)
    videos.write(tmp_path / "black.webm", np.zeros_like(frames), 20)
    video_names = ("missing", "empty", "text", "wide", "fast", "blank", "inverted")
    scenes = ("absent", "inside", "typo", "negative", "pickle")
    names = {
        "misspelt": ["cube.mas:1:8"],
        "wrong way round": ["cube.mass:8:1"],
        "not a number": ["cube.mass:a:b"],
        "no unknown": [],
    }
    cases: dict[str, dict] = {f"{name} video": {"video": tmp_path / f"{name}.webm"} for name in video_names}
    cases |= {f"{name} scene": {"scene": tmp_path / f"{name}.yaml"} for name in scenes}
    cases |= {name: {"unknowns": unknowns} for name, unknowns in names.items()}
    cases |= {"black mask": {"mask": tmp_path / "black.webm"}, "missing mask": {"mask": tmp_path / "missing.webm"}}
    return cases | {"no starts": {"starts": 0}, "no noise": {"noise": 0.0}, "no estimator": {"estimator": "magic"}}


MESSAGES = {  # what each refusal has to name: the mistake, not one that happens to come first
    "missing video": "missing.webm",
    "empty video": "empty.webm",
    "text video": "text.webm",
    "wide video": "32",
    "fast video": "60",
    "blank video": "no pixel of a body",
    "inverted video": "colours",
    "absent scene": "absent.yaml",
    "inside scene": "inside `ground`",
    "typo scene": "mas",
    "negative scene": "mass",
    "pickle scene": "pickle.yaml",
    "misspelt": "cube.mass",
    "wrong way round": "wrong way round",
    "not a number": "LOW:HIGH",
    "no unknown": "at least one",
    "black mask": "mask",
    "missing mask": "missing.webm",
    "no starts": "starts",
    "no noise": "noise",
    "no estimator": "least-squares, gradient-descent",
}


def test_bad_input_is_refused_and_leaves_no_folder(inputs, tmp_path):
    for name, options in broken(inputs, tmp_path).items():
        out = tmp_path / "out"
        with pytest.raises((InputError, FileNotFoundError)) as caught:
            fit(inputs, out, **options)
        assert MESSAGES[name] in str(caught.value), name
        assert not out.exists(), name


@pytest.mark.slow
def test_gradient_descent_gives_what_least_squares_does_within_the_bars(inputs, done, tmp_path):
    least_squares = json.loads((done / "result.json").read_text())
    result = fit(inputs, tmp_path / "out", starts=2, estimator="gradient-descent")
    assert (least_squares["estimator"], result["estimator"]) == ("least-squares", "gradient-descent")
    for name, estimate in result["unknowns"].items():
        assert abs(estimate["value"] - least_squares["unknowns"][name]["value"]) < estimate["std"], name


def test_a_step_too_large_is_refused_before_work(inputs, tmp_path):
    content = (inputs / "scene.yaml").read_text()
    (tmp_path / "stiff.yaml").write_text(_on_ground(content, "{height: -5, stiffness: 1.0e+9}"))
    with pytest.raises(InputError, match="substeps"):
        fit(inputs, tmp_path / "out", scene=tmp_path / "stiff.yaml")
    assert not (tmp_path / "out").exists()


def test_a_fit_to_the_mask_of_a_rendered_run_gives_its_own_values(inputs, tmp_path):
    simulate(inputs / "scene.yaml", tmp_path / "run")
    render(tmp_path / "run")
    video_names = {"video": tmp_path / "run" / "video.webm", "mask": tmp_path / "run" / "mask.webm"}
    found = fit(inputs, tmp_path / "out", ["cube.mass:1:8"], starts=2, **video_names)
    e = found["unknowns"]["cube.mass"]
    assert e["interval95"][0] < 4.0 < e["interval95"][1] and e["std"] < 0.1


@pytest.mark.slow
def test_masks_that_cannot_be_right_are_named_and_shown(inputs, tmp_path):
    frames = videos.read(inputs / "video.webm").frames
    mask = (frames.min(-1, keepdims=True) < 128).repeat(3, -1) * np.uint8(255)
    mask[[2, 5]] = 0
    videos.write(tmp_path / "mask.webm", mask, 20)
    result = fit(inputs, tmp_path / "run", starts=2, mask=tmp_path / "mask.webm", noise=0.2)
    assert result["mask_faults"] == ["the mask is empty in frames 2, 5"]
    assert [p["file"] for p in result["images"]] == ["masks.png"] and (tmp_path / "run" / "masks.png").is_file()
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Warning: the mask is empty in frames 2, 5." in page and "Masks that cannot be right" in page
    assert f"For the masks, try {result['mask_advice']}." in page
