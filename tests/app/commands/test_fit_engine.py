"""`gradsim fit --engine`: a video of MuJoCo's motion, fitted in MuJoCo."""

import json

import pytest

from gradsim.app.cli import main
from gradsim.identification.engines import EngineModel, engine_named
from gradsim.identification.synthetic import noisy_8bit, render_video, write_video
from gradsim.scene import Scene
from gradsim.scene.exporters.substitution import with_values

TRUTH = {"upper.mass": 1.2, "joints.shoulder.damping": 0.04}
UNKNOWNS = ["--unknown", "upper.mass:0.6:2", "--unknown", "joints.shoulder.damping:0.01:0.2"]
FRAMES = 10


@pytest.mark.slow
def test_mass_and_damping_of_an_arm_in_mujoco(tmp_path):
    pytest.importorskip("mujoco", reason='MuJoCo is not installed: pip install "gradsim[engines]"')
    content = Scene.library("arm").model_dump(exclude_unset=True)
    content["timing"]["frames"] = FRAMES
    scene, engine = Scene.parse(content), engine_named("mujoco")
    assert engine is not None
    scene.save(tmp_path / "arm.yaml")
    motion = EngineModel(with_values(scene, TRUTH), engine).rollout()
    video = write_video(tmp_path / "v.webm", noisy_8bit(render_video(scene, motion), 1 / 255, 5), scene.timing.fps)
    words = ["fit", str(tmp_path / "arm.yaml"), "--video", str(video), *UNKNOWNS, "--starts", "2", "--no-known-numbers"]
    words += ["--engine", "mujoco", "--out", str(tmp_path / "run")]
    main.main(words)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["engine"].startswith("MuJoCo") and (tmp_path / "run" / "overlay.webm").exists()
    for name, value in TRUTH.items():
        number = result["unknowns"][name]
        assert abs(number["value"] - value) < 4 * number["std"]
    out = tmp_path / "twin"
    assert main.main(["export", str(tmp_path / "run"), "--to", "mjcf", "--out", str(out), "--anyway"]) == 0
    assert f'mass="{result["unknowns"]["upper.mass"]["value"]!r}"' in (out / "model.xml").read_text()


def test_unknown_engines_and_what_they_cannot_do_are_refused_before_work(tmp_path, capsys):
    out, video = tmp_path / "run", tmp_path / "clip.webm"
    video.write_bytes(b"")  # it is not read
    words = ["fit", "arm", "--video", str(video), *UNKNOWNS, "--out", str(out)]
    assert main.main([*words, "--engine", "havok"]) == 2
    assert "choose one of gradsim, mujoco" in " ".join(capsys.readouterr().err.split())
    assert main.main([*words, "--engine", "mujoco", "--observe", "pictures"]) == 2
    assert "least squares" in " ".join(capsys.readouterr().err.split())
    assert main.main([*words, "--engine", "mujoco", "--window", "5"]) == 2
    assert "--engine mujoco" in " ".join(capsys.readouterr().err.split()) and not out.exists()
