"""The one change of a next video after a fit that leaves something open."""

import json

import pytest
from plan_cases import pendulum

import gradsim as gs
from gradsim.app.cli.main import main
from gradsim.errors import Status
from gradsim.identification import synthetic
from gradsim.identification.fit import Fit
from gradsim.planning.quick import is_open, next_video
from gradsim.scene import Scene

DAMPING = "bob.damping:0.05:0.5"
CLOCK = ("gravity.z:-12:-8", "timing.rate:0.8:1.25")


def at_rest() -> Scene:
    """A pendulum that hangs still, whose damping shows nowhere."""
    scene = pendulum()
    bob = scene.bodies["bob"].model_copy(update={"angle": 0.0, "damping": 0.2})
    return scene.model_copy(update={"bodies": {"bob": bob}})


def fit_of(scene: Scene, unknowns, truth) -> Fit:
    _, trajectory = synthetic.simulate(scene, unknowns, truth)
    masks = synthetic.noisy_masks(scene, trajectory, "bob", 1)
    return gs.identify(scene, unknowns, observation=masks, starts=2, known_numbers=False)


@pytest.fixture(scope="module")
def still() -> Fit:
    return fit_of(at_rest(), [DAMPING], {"bob.damping": 0.2})


@pytest.mark.slow
def test_damping_of_a_pendulum_at_rest_shows_once_it_swings(still):
    """The named change makes the next fit `ok`."""
    assert still.status == Status.UNIDENTIFIABLE
    change = next_video(at_rest(), still)
    assert change is not None and change.resolves
    assert set(change.design.settings) == {"bob.angle"} and "set bob.angle" in change.words
    again = fit_of(change.scene, [DAMPING], {"bob.damping": 0.2})
    assert again.status == Status.OK
    predicted = change.design.sd["bob.damping"]
    assert (
        0.2 < again.unknowns["bob.damping"].std / again.values["bob.damping"] / predicted < 5
    )  # samples of the whole range


def test_numbers_that_only_show_together_are_measured():
    """Gravity times the square of the clock: a known clock leaves twice its error, 1 %."""
    fit = fit_of(pendulum(), CLOCK, {"gravity.z": -9.81, "timing.rate": 1.0})
    change = gs.next_video(pendulum(), fit)
    assert change is not None and change.design.weighed == ("timing.rate",)
    assert change.design.sd["gravity.z"] == pytest.approx(0.01, rel=0.01)


def test_a_fit_that_knows_all_needs_no_next_video():
    fit = fit_of(pendulum(), ["bob.string_length:0.4:0.6"], {"bob.string_length": 0.5})
    assert not is_open(fit)


@pytest.mark.slow
def test_a_fit_from_the_command_line_says_what_to_film_next(tmp_path, capsys):
    scene = at_rest()
    scene.save(tmp_path / "bob.yaml")
    _, trajectory = synthetic.simulate(scene, [DAMPING], {"bob.damping": 0.2})
    frames = synthetic.noisy_8bit(synthetic.render_video(scene, trajectory), 1 / 255, 0)
    video = synthetic.write_video(tmp_path / "bob.webm", frames, scene.timing.fps)
    arguments = ["fit", str(tmp_path / "bob.yaml"), "--video", str(video), "--unknown", DAMPING, "--starts", "2"]
    assert main([*arguments, "--noise", "0.004", "--no-known-numbers", "--out", str(tmp_path / "run")]) == 3
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["next_video"]["settings"].keys() == {"bob.angle"}
    assert "next: set bob.angle" in " ".join(capsys.readouterr().out.split())
    assert "What to film next: set bob.angle" in (tmp_path / "run" / "report.html").read_text()
