"""`gradsim control`: what a run leaves behind, how it goes on, what it refuses."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tolerances import ROUNDING, near

from gradsim import video
from gradsim.app.cli import main
from gradsim.app.commands import control as command
from gradsim.app.commands.control import control
from gradsim.app.commands.control_goal import Reach, goal_overlays, write_goal
from gradsim.app.commands.control_search import run_policy, set_up
from gradsim.app.commands.export import open_source
from gradsim.app.job import POLICIES, ControlArguments
from gradsim.app.run_directory import RunDirectory
from gradsim.app.viewer.content import view_content
from gradsim.control.goals.image import ImageGoal
from gradsim.control.task.setup import Setup
from gradsim.control.task.task import Task, library
from gradsim.control.training.history import History
from gradsim.errors import InputError
from gradsim.geometry.image_io import to_bytes
from gradsim.physics.model import Model
from gradsim.runtime.progress import NullProgress
from gradsim.scene import Scene
from gradsim.visualization.control_video import Screen

pytestmark = pytest.mark.usefixtures("blank_plots")

TASK = """
name: step
scene: walker
controls: {walker.activation: [-0.2, 0.2]}
policy: {kind: sinusoids}
goal: {shift: [0.5, 0, 0]}
loss: cdf
search: {optimiser: adam, rate: 0.3, iterations: 4}
quick: {search.iterations: 2, scene.timing.frames: 9, scene.camera.size: [40, 16]}
"""
FILES = {
    *(
        "job.json",
        "task.yaml",
        "scene.yaml",
        "goal.png",
        "policy.pt",
        "controls.npz",
        "history.json",
        "result.json",
        "report.html",
    ),
    *("convergence.png", "stages.png", *(f"{name}.webm" for name in POLICIES)),
}
TIMES = ("cpu_seconds", "wall_seconds", "cpu_seconds_per_iteration", "physics_seconds", "image_seconds", "figures")


class Killed(BaseException):
    """Ends a run at once, as a signal does that cannot be caught."""


class Ending(NullProgress):
    """Ends a run in an iteration, which is not saved any more; the last one before it is."""

    def __init__(self, iteration: int, how: type[BaseException]):
        self.iteration, self.how = iteration, how

    def update(self, iteration, loss, values):
        assert {"gradient norm", "distance [m]", "CPU [s]"} <= set(values)
        if iteration == self.iteration:
            raise self.how


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("task") / "step.yaml"
    path.write_text(TASK)
    return path


@pytest.fixture(scope="module")
def job(task) -> ControlArguments:
    return ControlArguments(task=task, quick=True, iterations=4, seed=3)


@pytest.fixture(scope="module")
def run(job, tmp_path_factory) -> tuple[Path, dict]:
    """A run that came to its end, and its result."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    return out, control(job, out)


def answer(out: Path) -> tuple[dict, list, dict]:
    """result.json and history.json but for times, and the policies."""
    result, history = (json.loads((out / name).read_text()) for name in ("result.json", "history.json"))
    entries = [{k: v for k, v in entry.items() if k != "seconds"} for entry in history["iterations"]]
    return {k: v for k, v in result.items() if k not in TIMES}, entries, torch.load(out / "policy.pt")


def is_same(a: tuple[dict, list, dict], b: tuple[dict, list, dict]) -> bool:
    policies = all(torch.equal(a[2][name][key], x) for name, own in b[2].items() for key, x in own.items())
    return a[:2] == b[:2] and policies


def test_the_command_leaves_all_its_files_and_its_exit_code_says_that_the_goal_is_missed(task, tmp_path, capsys):
    assert main.main(["control", str(task), "--quick", "--out", str(tmp_path / "run"), "--json"]) == 3
    out, err = capsys.readouterr()
    assert json.loads(out)["status"] == "missed"
    assert "searching: gradient, 2 iterations" in err and "gradient norm" in err
    assert FILES <= {p.name for p in (tmp_path / "run").iterdir()} and not (tmp_path / "run" / "checkpoint").exists()


def test_figures_are_those_of_the_raw_history(run):
    out, result = run
    history = History.parse(json.loads((out / "history.json").read_text()))
    assert len(history) == 4 == result["iterations"] and result["rollouts"] == 4
    rows = {row["name"]: row for row in result["policies"]}
    assert [rows[name]["iteration"] for name in POLICIES] == [0, 2, history.best, 3]
    for row in rows.values():
        assert row["position_error"] == history.raw("position_error")[row["iteration"]]
        assert result["figures"][f"position_error_{row['name']}"]["value"] == row["position_error"]
        # the film is of the policy of that iteration: replayed, it ends where it ended
        assert result["reach"]["away"][row["name"]] == near(row["distance"], ROUNDING)
    assert result["reach"]["way"] == pytest.approx(0.5) and result["reach"]["bound"] == pytest.approx(0.025)
    assert result["steps"] == 4 * result["steps_per_rollout"]
    assert result["physics_seconds"] > 0 and result["image_seconds"] > 0


def test_the_policy_in_the_folder_is_the_best_one(run, job):
    out, result = run
    setup = Setup.of(Task.load(job.task), job.seed, job.quick)
    setup.policy.load_state_dict(torch.load(out / "policy.pt")["best"])
    episode = run_policy(setup, setup.policy)
    assert setup.goal.loss(episode, 0).item() == min(row["loss"] for row in result["policies"])


def test_other_commands_move_the_body_as_the_best_policy_does(run, job, tmp_path):
    out, _ = run
    setup = Setup.of(Task.load(job.task), job.seed, job.quick)
    setup.policy.load_state_dict(torch.load(out / "policy.pt")["best"])
    wanted = run_policy(setup, setup.policy).trajectory["walker"]["x"]
    assert torch.equal(view_content(out).trajectory["walker"]["x"], wanted)
    still = Model(setup.task.scene).rollout()["walker"]["x"]
    assert (wanted - still).abs().max() > 1e-3  # it does move


def test_videos_show_the_motion_and_the_goal_without_loss(run):
    out, _ = run
    videos = {name: video.read(out / f"{name}.webm") for name in POLICIES}
    first, last = videos["first"].frames, videos["last"].frames
    assert first.shape == last.shape and len(first) == 9
    height = (first.shape[1] - 8) // 2  # the picture is wide, so the goal is below, and there is a gap of 8 px
    goal = np.asarray(Image.open(out / "goal.png")).repeat(12, 0).repeat(12, 1)
    assert all((frame[-height:] == goal).all() for frame in first)  # bit for bit
    assert (first[0] == last[0]).all() and (first[-1] != last[-1]).any()


def test_a_video_of_fewer_images_keeps_the_clock_and_the_end(run, job):
    setup = Setup.of(Task.load(job.task), job.seed, job.quick)
    assert isinstance(setup.goal, ImageGoal)
    motion = run_policy(setup, setup.policy).trajectory  # 9 frames
    camera, goals = goal_overlays(setup, setup.goal)
    whole, thin = (Screen(setup.task.scene, camera, goals, most) for most in (None, 4))
    assert np.array_equal(thin.video(motion), whole.video(motion)[2::3]) and thin.fps == whole.fps / 3


def test_the_page_stands_alone_and_says_what_the_result_says(run):
    out, result = run
    page = (out / "report.html").read_text()
    before = page[: page.index('<iframe class="player"')] if "<iframe" in page else page
    addresses = re.findall(r'(?:src|href|srcset|poster)="(.*?)"', before)
    assert sum(a.startswith("data:video/webm") for a in addresses) == 4
    assert all(a.startswith("data:") for a in addresses) and "<script" not in before
    assert result["verdict"]["title"] in page and f"iteration {result['best']}, ends" in page


def test_stopped_then_killed_then_resumed_is_as_never_stopped(run, job, tmp_path):
    out = tmp_path / "stopped"
    stopped = control(job, out, progress=Ending(1, KeyboardInterrupt))
    assert stopped["status"] == "interrupted" and stopped["iterations"] == 1
    assert f"gradsim control --resume {out}" in (out / "report.html").read_text() and RunDirectory(out).is_unfinished
    assert set(torch.load(out / "policy.pt")) == {"best", "last"}
    with pytest.raises(InputError, match=f"gradsim control --resume {out}"):
        control(job, out)
    with pytest.raises(InputError, match=r"seed: 3 then, 4 now"):
        control(replace(job, seed=4), out, resume=True)
    with pytest.raises(Killed):
        control(job, out, resume=True, progress=Ending(3, Killed))
    assert len(json.loads((out / "history.json").read_text())["iterations"]) == 1  # of the time before
    again = control(ControlArguments.load(out), out, resume=True)
    assert is_same(answer(out), answer(run[0])) and RunDirectory(out).is_finished
    written = (out / "result.json").stat().st_mtime_ns
    assert control(job, out, resume=True) == json.loads(json.dumps(again))  # is done, and says so
    assert (out / "result.json").stat().st_mtime_ns == written


def test_a_run_that_is_killed_while_it_videos_goes_on_there(run, job, tmp_path, monkeypatch):
    out = tmp_path / "killed"
    with monkeypatch.context() as context:
        context.setattr(command, "write_policy_videos", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            control(job, out)
    assert RunDirectory(out).is_unfinished and not (out / "result.json").exists()
    control(job, out, resume=True, progress=Ending(0, Killed))  # searches no more
    assert is_same(answer(out), answer(run[0]))


def test_a_silhouette_of_ones_own_is_judged_in_pixels(task, tmp_path):
    setup = Setup.of(Task.load(task), quick=True)
    assert isinstance(setup.goal, ImageGoal) and setup.goal.truth is not None
    Image.fromarray(to_bytes(setup.goal.targets[0])).save(tmp_path / "mine.png")
    result = control(
        ControlArguments(task=task, quick=True, goal=tmp_path / "mine.png", iterations=1), tmp_path / "run"
    )
    there = setup.goal.truth.centre
    pixels, _ = setup.goal.renderers[0].camera.project(torch.stack([there, there - there.new_tensor([0.5, 0, 0])]))
    # what covers a share s of a pixel counts at its middle, off by s (1 - s)/2 <= 1/8 px: four edges 5 px high, of 20 px²
    assert result["reach"]["way"] == pytest.approx((pixels[0] - pixels[1]).norm().item(), abs=4 * 5 / 8 / 20)
    assert result["reach"]["unit"] == "px" and result["iterations_to_reach"] is None
    assert result["policies"][0]["distance"] is None
    assert np.array_equal(
        np.asarray(Image.open(tmp_path / "run/goal.png")), np.asarray(Image.open(tmp_path / "mine.png"))
    )


def test_in_pixels_the_way_begins_at_the_start_and_the_rest_at_the_end():
    setup = Setup.of(Task.load("cloth"), quick=True)
    seen = setup.goal
    assert isinstance(seen, ImageGoal) and seen.truth is not None
    episode = run_policy(setup, setup.policy)
    goal = ImageGoal(seen.renderers, seen.targets)  # whose place nobody knows
    centers = torch.stack([episode.centre()[0, 0], episode.centre()[0, -1], seen.truth.centre])
    start, end, there = seen.renderers[0].camera.project(centers)[0]
    reach = Reach.of(goal, episode)
    # silhouettes' edges count by pixels, see above: four edges of 10 px, of 100 px²; and the sheet has a perspective
    assert reach.initial == pytest.approx((start - there).norm().item(), abs=0.1)
    assert reach.final_distance(goal, episode) == pytest.approx((end - there).norm().item(), abs=0.1)
    assert (start - end).norm() > 1


def test_the_goal_in_a_run_folder_can_be_given_again(run, task, tmp_path):
    result = control(ControlArguments(task=task, quick=True, goal=run[0] / "goal.png", iterations=1), tmp_path)
    assert (
        result["reach"]["unit"] == "px" and (tmp_path / "goal.png").read_bytes() == (run[0] / "goal.png").read_bytes()
    )


def test_a_goal_out_of_view_is_refused_and_leaves_no_folder(task, tmp_path):
    (tmp_path / "far.yaml").write_text(TASK.replace("0.5, 0, 0", "10, 0, 0"))
    with pytest.raises(InputError, match="not in view"):
        control(ControlArguments(task=tmp_path / "far.yaml", quick=True), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["control"], "missing: TASK"),
        (["control", "wlaker", "--out", "x"], "did you mean `walker`"),
        (["control", "walker", "--out", "x", "--iterations", "0"], "iterations is 0"),
        (["control", "walker", "--out", "x", "--goal", "nowhere.png", "--quick"], "nowhere.png"),
        (["control", "walker", "--out", "x", "--goal", "small.png", "--quick"], "9 × 7 px"),
        (["control", "walker", "--out", "x", "--seed", "-1"], "seed is -1"),
        (["control", "cloth", "--out", "x", "--method", "mpc", "--quick"], "act at the start only"),
        (
            ["control", "walker", "--out", "x", "--method", "diffphysics", "--goal", "fits.png", "--quick"],
            "only an image",
        ),
        (["control", "--resume", "x"], "the run folder x does not exist"),
        (["control", "--resume", "."], "holds no job.json"),
    ],
)
def test_bad_input_is_told_before_any_work(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.new("L", (9, 7), 255).save(tmp_path / "small.png")
    fits = Task.load("walker").with_seed(0, quick=True).scene.view("camera").size
    fitting = Image.new("L", fits)
    fitting.paste(255, (4, 4, 9, 9))
    fitting.save(tmp_path / "fits.png")
    assert main.main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in " ".join(err.replace("│", " ").split())
    assert {p.name for p in tmp_path.iterdir()} == {"small.png", "fits.png"}


@pytest.mark.parametrize("method", ["diffphysics", "random", "cma", "reinforce", "ppo", "mpc"])
def test_every_method_searches_and_what_it_found_can_be_recorded(method, task, tmp_path, monkeypatch):
    for module in {"cma": ["cma"], "ppo": ["gymnasium", "stable_baselines3"]}.get(method, []):
        pytest.importorskip(module)
    monkeypatch.setattr("gradsim.app.commands.control_search.WORLDS", 4)
    result = control(ControlArguments(task=task, quick=True, method=method, iterations=2), tmp_path)
    assert result["status"] == "missed" and len(result["videos"]) == (1 if method == "mpc" else 4)
    # the policy that is filmed ends where the history says that this iteration ended
    for row in result["policies"]:
        assert result["reach"]["away"][row["name"]] == pytest.approx(row["distance"], rel=1e-6)


def test_no_iteration_of_a_plan_is_said_to_reach_the_goal(task, tmp_path, monkeypatch):
    monkeypatch.setattr("gradsim.app.commands.control_goal.REACHED_FRACTION", 10.0)  # all that moves
    result = control(ControlArguments(task=task, quick=True, method="mpc", iterations=2), tmp_path)
    assert result["status"] == "ok" and result["iterations_to_reach"] is None
    assert "The first iteration" not in result["verdict"]["words"]


def test_images_of_several_cameras_say_which_camera_sees_them(tmp_path):
    listed = write_goal(tmp_path, Setup.of(Task.load("jellyfish"), quick=True))
    assert [each["text"] for each in listed] == ["goal_1.png, camera `camera`", "goal_2.png, camera `side`"]


def test_an_actor_has_the_numbers_that_the_task_shares():
    pytest.importorskip("stable_baselines3")
    job = ControlArguments(task="gear", quick=True, method="ppo")
    setup = set_up(job)
    assert setup.plant.outputs == set_up(replace(job, method="gradient")).plant.outputs == 288


LAUNCH = """
name: throw
scene: throw
controls: {ball.velocity: [-3, 3]}
policy: {kind: free, intervals: 1}
goal: {shift: [0.3, 0, 0]}
loss: whereabouts
search: {optimiser: adam, rate: 0.5, iterations: 3}
quick: {scene.timing.frames: 6, scene.camera.size: [40, 24]}
"""


def test_a_launch_that_was_found_is_told_and_leaves_for_another_engine(tmp_path, monkeypatch, capsys):
    (tmp_path / "throw.yaml").write_text(LAUNCH)
    out, twin = tmp_path / "run", tmp_path / "twin"
    result = control(ControlArguments(task=tmp_path / "throw.yaml", quick=True), out)
    velocity = result["answer"]["ball.velocity"]
    assert np.load(out / "controls.npz")["ball.velocity"].tolist() == velocity and np.any(velocity)
    assert f"Found: ball.velocity = ({velocity[0]:.4g}, " in result["verdict"]["words"]
    assert list(Scene.load(out / "answer.yaml").bodies["ball"].velocity) == velocity
    words = ["export", str(out), "--to", "mjcf", "--out", str(twin)]
    (out / "result.json").write_text(json.dumps(result | {"status": "missed"}))
    assert main.main(words) == 2 and "--anyway" in capsys.readouterr().err
    (out / "result.json").write_text(json.dumps(result | {"status": "ok"}))
    assert main.main(words) == 0
    text = (twin / "model.xml").read_text()
    assert f'qvel="{velocity[0]!r} {velocity[1]!r} {velocity[2]!r} ' in text
    assert "bound every unknown" not in text and "ends" in text  # the words of the goal, and none of a fit


def test_controls_over_time_are_listed_by_an_export(run, tmp_path):
    out, result = run
    source = open_source(out, anyway=True)
    assert source.notes == (
        "`walker.activation`: its values over time, which are in controls.npz; apply them step by step.",
    )
    assert "answer" not in result and not (out / "answer.yaml").exists()


@pytest.mark.slow
def test_what_an_actor_does_in_a_launch_can_be_recorded(tmp_path, monkeypatch):
    pytest.importorskip("stable_baselines3")
    monkeypatch.setattr("gradsim.app.commands.control_search.WORLDS", 4)
    result = control(ControlArguments(task="cloth", quick=True, method="ppo", iterations=2), tmp_path)
    (row,) = result["policies"]
    assert row["name"] == "best" and result["reach"]["away"]["best"] == pytest.approx(row["distance"], rel=1e-6)


BRIEF = ("cloth", "jellyfish")  # a launch; muscles seen by two cameras. The others run in `test_task.py`, without films
TASKS = [pytest.param(p.stem, marks=[pytest.mark.slow] * (p.stem not in BRIEF)) for p in library()]


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_the_quick_form_of_every_task_runs(name, tmp_path):
    result = control(ControlArguments(task=name, quick=True), tmp_path)
    assert result["status"] in ("ok", "missed") and (tmp_path / "report.html").is_file()
    assert result["cpu_seconds_per_iteration"] * result["iterations"] < 30  # the whole command takes less than a minute
