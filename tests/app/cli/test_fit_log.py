"""`gradsim fit --log`: a log alone and with a video, its page, notes on controllers, and what is refused."""

import json
import math

import numpy as np
import pytest

from gradsim import video
from gradsim.app.cli.main import main
from gradsim.identification import synthetic
from gradsim.identification.engines import EngineModel
from gradsim.physics.model import Model
from gradsim.scene import Scene

LENGTH = 0.6


def rod_scene(**more) -> dict:
    """A rod on a hinge, with a log of its angle and torque."""
    hinge = {"kind": "revolute", "between": ["world", "rod"], "child_point": [0, 0, LENGTH / 2], "axis": [0, 1, 0]}
    return {
        "timing": {"fps": 50, "frames": 40, "integrator": "rk4"},
        "bodies": {"rod": {"shape": {"box": {"size": [0.06, 0.06, LENGTH]}}, "mass": 0.8}},
        "joints": {"hinge": hinge | {"angle": 0.4, "damping": 0.03}},
        "channels": {
            "q": {"joint": "hinge", "quantity": "angle"},
            "tau": {"joint": "hinge", "quantity": "torque", "between": "hold"},
        },
        "camera": {"look_at": {"eye": [0, -2, -0.3], "target": [0, 0, -0.3], "fov": "40 deg"}, "size": [48, 48]},
    } | more


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A scene without a log, a log of 0.5 s more than its frames, and a video of the same motion."""
    path = tmp_path_factory.mktemp("rod")
    times = np.arange(0, 1.3, 0.01)
    torque = 1.5 * np.sin(5 * times)
    write = lambda angle: (path / "log.csv").write_text(
        "time,q,tau\n" + "".join(f"{t:.3f},{q:.9f},{u:.9f}\n" for t, q, u in zip(times, angle, torque, strict=True))
    )
    write(0 * times)
    scene = Scene.parse(rod_scene(log={"file": str(path / "log.csv")}))
    fine = scene.model_copy(update={"timing": scene.timing.model_copy(update={"fps": 100, "frames": len(times)})})
    motion = Model(fine, substeps=16).rollout()
    write(
        motion.joint("hinge")["angle"][0].detach().numpy() + 1e-3 * np.random.default_rng(0).standard_normal(len(times))
    )
    film = Model(scene, substeps=32).rollout()
    video.write(path / "film.webm", synthetic.noisy_8bit(synthetic.render_video(scene, film), 1 / 255, 0), 50)
    Scene.parse(rod_scene()).save(path / "rod.yaml")
    return path


UNKNOWNS = ("--unknown", "joints.hinge.damping:0.005:0.2", "channels.q.delay:-0.02:0.02", "--starts", "3")


def fit(folder, *words) -> tuple[int, dict]:
    code = main(["fit", str(folder / "rod.yaml"), *words])
    out = folder / words[words.index("--out") + 1] if "--out" in words else None
    return code, json.loads((out / "result.json").read_text()) if out and (out / "result.json").exists() else {}


def test_a_log_alone(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    code, result = fit(folder, "--log", "log.csv", *UNKNOWNS, "--out", "alone")
    damping = result["unknowns"]["joints.hinge.damping"]
    assert code == 0 and abs(damping["value"] - 0.03) < 4 * damping["std"]
    assert result["sensors"]["q"]["chi2_per_n"] == pytest.approx(1.0, abs=0.5)
    assert any("timing.frames: 65" in note for note in result["notes"])  # of the whole log
    page = (folder / "alone/report.html").read_text()
    assert "Sensors of the log" in page and (folder / "alone/log.png").exists()
    assert "log: q" in capsys.readouterr().out.replace("\n", " ")
    code, again = fit(folder, "--log", "log.csv", *UNKNOWNS, "--out", "alone", "--resume")
    assert again == result


def test_a_log_with_a_video(folder, monkeypatch):
    monkeypatch.chdir(folder)
    code, result = fit(folder, "--log", "log.csv", "--video", "film.webm", *UNKNOWNS, "--out", "both")
    damping = result["unknowns"]["joints.hinge.damping"]
    assert code == 0 and abs(damping["value"] - 0.03) < 4 * damping["std"]
    assert (folder / "both/overlay.webm").exists() and (folder / "both/log.png").exists()


def test_a_wrong_model_is_a_mismatch_in_words_of_a_log(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (folder / "heavy.yaml").write_text((folder / "rod.yaml").read_text().replace("mass: 0.8", "mass: 1.2"))
    assert main(["fit", "heavy.yaml", "--log", "log.csv", *UNKNOWNS, "--out", "wrong"]) == 3
    assert "plot of the log" in " ".join(capsys.readouterr().out.split())


def test_unknowns_that_a_controller_shares_are_named(folder, monkeypatch):
    monkeypatch.chdir(folder)
    content = rod_scene(log={"file": str(folder / "log.csv")})
    content["joints"]["hinge"] |= {"stiffness": 20.0}
    content["channels"] = content["channels"] | {"goal": {"joint": "hinge", "quantity": "target", "column": "tau"}}
    Scene.parse(content).save(folder / "servo.yaml")
    main(["fit", "servo.yaml", "--log", "log.csv", *UNKNOWNS, "--out", "servo"])
    notes = json.loads((folder / "servo/result.json").read_text())["notes"]
    assert any("D gain of the controller" in note for note in notes)


@pytest.mark.parametrize(
    "words, message",
    [
        (["--log", "none.csv"], "none.csv does not exist"),
        (["--log", "log.csv", "--noise", "auto"], "needs a video alone"),
        (["--log", "log.csv", "--background", "median"], "is of a video"),
        (["--log", "log.csv", "--window", "5"], "is of one clip"),
        (["--log", "rod.yaml"], "expected a file that ends in .csv"),
    ],
)
def test_what_does_not_go_together_is_refused(folder, monkeypatch, capsys, words, message):
    monkeypatch.chdir(folder)
    assert main(["fit", "rod.yaml", *words, "--unknown", "rod.mass:0.2:2", "--out", "refused"]) == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not (folder / "refused").exists()


def test_mujoco_keeps_constant_motors_beside_those_of_a_log(folder):
    mujoco = pytest.importorskip("gradsim.identification.engines.mujoco")
    pytest.importorskip("mujoco")
    content = rod_scene(log={"file": str(folder / "log.csv")})
    content["bodies"]["other"] = content["bodies"]["rod"]
    content["joints"]["other"] = content["joints"]["hinge"] | {"between": ["world", "other"], "torque": 1.5}
    scene = Scene.parse(content)
    theirs, ours = EngineModel(scene, mujoco.MuJoCo(1e-3)).rollout(), Model(scene, substeps=16).rollout()
    for name in ("hinge", "other"):
        assert (theirs.joint(name)["angle"] - ours.joint(name)["angle"]).abs().max() < 1e-6


def test_mujoco_follows_a_log(folder):
    """The same motion as ours, without contact and dry friction, and rates of its own."""
    mujoco = pytest.importorskip("gradsim.identification.engines.mujoco")
    pytest.importorskip("mujoco")
    scene = Scene.parse(rod_scene(log={"file": str(folder / "log.csv")}))
    theirs, ours = EngineModel(scene, mujoco.MuJoCo(1e-3)).rollout(), Model(scene, substeps=16).rollout()
    for key, bound in (("angle", 1e-6), ("rate", 1e-5)):
        assert (theirs.joint("hinge")[key] - ours.joint("hinge")[key]).abs().max() < bound
    start = EngineModel(scene, mujoco.MuJoCo(1e-3)).rollout(frames=1)  # without a step
    assert start.joint("hinge")["angle"].item() == pytest.approx(0.4)
    assert math.isfinite(theirs["rod"]["v"].abs().max()) and theirs["rod"]["l"].abs().max() > 0
