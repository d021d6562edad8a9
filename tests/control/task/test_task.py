"""Task files: what they make ready, what a seed changes, and mistakes before any work."""

from pathlib import Path

import goal_cases
import numpy as np
import pytest
import torch
from checks import error
from PIL import Image

from gradsim.control.goals.base import Reward
from gradsim.control.goals.image import ImageGoal
from gradsim.control.policies import Feedback, PiecewiseConstant, Sinusoids, Spline
from gradsim.control.task.nodes import schedule
from gradsim.control.task.setup import Setup
from gradsim.control.task.task import Task, library
from gradsim.control.training.train import train
from gradsim.errors import InputError
from gradsim.geometry.image_io import to_bytes
from gradsim.render.silhouettes import Silhouettes

LIBRARY = ["cloth", "gear", "jellyfish", "throw", "walker"]


def content(**changes) -> dict:
    """A task of the beam of `goal_cases`; changes by dotted key, None takes one away."""
    found = {
        "name": "bend",
        "scene": goal_cases.scene().model_dump(exclude_none=True),
        "controls": {"beam.activation": [-0.2, 0.3]},
        "policy": {"kind": "sinusoids"},
        "goal": {"place": [0.1, 0.0, 0.15]},
        "loss": [{"loss": "cdf", "iterations": 2}, {"loss": "mse", "blur": [6, 2], "iterations": 3}, {"loss": "iou"}],
        "search": {"optimiser": "adam", "iterations": 2},
        "draws": {"right": {"low": 0.05, "high": 0.15, "into": {"goal.place.0": 1}}},
        "quick": {"scene.timing.frames": 3, "search.iterations": 1},
    }
    for place, value in changes.items():
        at, keys = found, place.split("__")
        for key in keys[:-1]:
            at = at[key]
        at[keys[-1]] = value
    return found


def task(**changes) -> Task:
    return Task.parse(content(**changes))


def refusal(**changes) -> str:
    with pytest.raises(InputError) as error:
        task(**changes)
    return str(error.value)


def test_a_task_makes_all_that_training_needs():
    ready = Setup.of(task(), seed=2)
    assert isinstance(ready.policy, Sinusoids) and ready.plant.outputs == 10
    assert [(c.name, c.low, c.high) for c in ready.plant.controls] == [("beam.activation", -0.2, 0.3)]
    goal = ready.goal
    assert isinstance(goal, ImageGoal) and [goal.stage(k) for k in (0, 2, 9)] == ["cdf", "mse blurred by 6 px", "iou"]
    history = train(ready.plant, ready.policy, goal, ready.config)
    assert len(history) == 2


def test_a_seed_draws_the_goal_and_the_policy():
    places = [Setup.of(task(), seed).task.goal.place for seed in (0, 1, 0)]
    assert places[0] == places[2] != places[1] and all(p and 0.05 < p[0] <= 0.15 for p in places)
    a, b, c = (Setup.of(task(), 0, policy_seed=k).policy.state_dict()["weight"] for k in (None, 0, 1))
    assert torch.equal(a, b) and not torch.equal(a, c)


def test_a_quick_task_is_what_the_file_says():
    ready = Setup.of(task(), 0, quick=True)
    assert ready.plant.frames == 3 and ready.config.iterations == 1
    assert Setup.of(task(), 0).plant.frames == 6


def test_the_images_of_a_placed_goal_are_those_of_the_undeformed_body():
    ready = Setup.of(task(goal={"place": [0.1, 0, 0.15], "cameras": ["camera", "side"], "frames": [2, -1]}), 0)
    goal, at_goal = ready.goal, ready.at_goal
    assert isinstance(goal, ImageGoal) and at_goal is not None and goal.truth is not None
    assert goal.frames == [2, -1, 2, -1] and goal.truth.frame == -1
    for sees, target in zip(goal.renderers, goal.targets, strict=True):
        assert isinstance(sees, Silhouettes)
        assert error(target, sees.union(at_goal.surface, at_goal.values)[0, 0]) == 0
    assert [tuple(p.shape) for p in ready.images] == [(3, 40, 48), (3, 24, 20)]


def test_the_place_is_told_to_a_baseline_and_a_image_of_ones_own_has_none(tmp_path):
    ready = Setup.of(task(), 0)
    truth = ready.goal.truth
    assert truth is not None and torch.equal(ready.state_goal().place, truth.centre)
    assert ready.state_goal(all_frames=True).frames is None
    path = tmp_path / "goal.png"
    Image.fromarray(np.moveaxis(to_bytes(ready.images[0]), 0, -1)).save(path)
    own = Setup.of(task(), 0, goal=path)
    episode = own.plant.rollout(own.policy)  # pyright: ignore[reportArgumentType] -- a policy is a module
    assert own.goal.truth is None and own.goal.distance(episode) is None
    with pytest.raises(InputError, match="the goal has no 3-D position, only an image"):
        own.state_goal()
    made, known = own.goal, ready.goal
    assert isinstance(made, ImageGoal) and isinstance(known, ImageGoal)
    # exact but for 8 bits, and for the few pixels where the beam, the ground and what is behind meet
    assert (made.targets[0] - known.targets[0]).abs().mean() < 5e-3
    assert (own.images[0] - ready.images[0]).abs().max() < 0.5 / 255 + 1e-9


def test_a_goal_of_ones_own_stands_in():
    reward = Reward(lambda episode: episode.centre()[:, -1, 0])
    assert Setup.of(task(), 0, goal=reward).goal is reward
    mask = torch.zeros(40, 48)
    mask[10:20, 10:30] = 1
    goal = Setup.of(task(), 0, goal=mask).goal
    assert isinstance(goal, ImageGoal) and torch.equal(goal.targets[0], mask)
    two = task(goal={"place": [0.1, 0, 0.15], "cameras": ["camera", "side"], "frames": [2, -1]})
    masks = [0.5 * torch.ones(s) for s in ((40, 48), (24, 20))]
    goal = Setup.of(two, 0, goal=masks).goal
    assert isinstance(goal, ImageGoal) and goal.frames == [2, -1, 2, -1]
    assert [(s.camera.width, t.shape) for s, t in zip(goal.renderers, goal.targets, strict=True)] == [
        (m.shape[1], m.shape) for m in masks for _ in range(2)
    ]
    goal = Setup.of(two, 0, goal=[masks[0], 0.1 * masks[0], masks[1], 0.1 * masks[1]]).goal
    assert isinstance(goal, ImageGoal) and [t.max().item() for t in goal.targets] == pytest.approx([0.5, 0.05] * 2)
    with pytest.raises(InputError, match="the goal has 2 images; the task has 1 cameras"):
        Setup.of(task(), 0, goal=[mask, mask])


def test_policies_are_made_for_their_plant():
    assert isinstance(Setup.of(task(policy={"kind": "spline", "knots": 5}), 0).policy, Spline)
    launch = Setup.of(task(policy={"kind": "free"}, controls={"beam.velocity": [-2, 2]}), 0)
    assert isinstance(launch.policy, PiecewiseConstant) and launch.plant.launched and launch.plant.outputs == 3
    closed = Setup.of(
        task(policy={"kind": "feedback", "hidden": [4], "senses": {"points": 2, "target": [0.1, 0, 0]}}), 0
    )
    assert isinstance(closed.policy, Feedback) and closed.plant.observation is not None
    assert closed.policy.inputs == closed.plant.observation.size
    train(closed.plant, closed.policy, closed.goal, closed.config)
    seeing = {"kind": "feedback", "senses": {"kind": "image", "size": [6, 5], "camera": "side", "lag": 0.02}}
    ready = Setup.of(task(policy=seeing), 0)
    episode = ready.plant.rollout(ready.policy)  # pyright: ignore[reportArgumentType] -- a policy is a module
    assert episode.actions.shape == (1, 5, 10)


def test_a_file_comes_back_with_its_scene_inside(tmp_path):
    task().save(tmp_path / "bend.yaml")
    assert Task.load(tmp_path / "bend.yaml") == task()


def test_a_scene_is_found_beside_the_task(tmp_path):
    goal_cases.scene().save(tmp_path / "beam.yaml")
    task().save(tmp_path / "task.yaml")
    text = (tmp_path / "task.yaml").read_text()
    first, last = text.index("scene:"), text.index("controls:")
    (tmp_path / "task.yaml").write_text(f"{text[:first]}scene: beam.yaml\n{text[last:]}")
    assert Task.load(tmp_path / "task.yaml").scene.bodies == task().scene.bodies


def test_the_tasks_of_the_library_load():
    assert [path.stem for path in library()] == LIBRARY
    for name in LIBRARY:
        assert Task.load(name).draws


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARY)
def test_every_task_of_the_library_trains(name):
    """Its quick form: an iteration has a finite gradient, and the goal and the start are in view for other seeds too."""
    ready = Setup.of(Task.load(name), 0, quick=True)
    history = train(ready.plant, ready.policy, ready.goal, ready.config)
    assert all(0 < entry.gradient_norm < float("inf") for entry in history.iterations)


def test_names_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(InputError, match="unknown task `walkr`; did you mean `walker`"):
        Task.load("walkr")
    with pytest.raises(InputError, match="the task file .*walk.yaml does not exist; did you mean|give the path"):
        Task.load(tmp_path / "walk.yaml")
    (tmp_path / "empty.yaml").write_text("")
    with pytest.raises(InputError, match="is empty; a task needs at least `scene` and `controls` and `goal`"):
        Task.load(tmp_path / "empty.yaml")
    (tmp_path / "line.yaml").write_text("scene: beam\ncontrols: {beam.activation: [0, 0.1]}\ngoal: {place: [0, 0]}\n")
    with pytest.raises(InputError, match=r"goal.place \(line 3\): got \[0, 0\]; expected a list of 3 numbers \[m\]"):
        Task.load(tmp_path / "line.yaml")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"controls": {"beam.actvation": [0, 1]}},
            "controls.beam.actvation: the scene has no parameter `beam.actvation`",
        ),
        ({"controls": {"beam.activation": [1, 0]}}, "goes from 1 to 0; low has to be below high"),
        ({"controls": {"beam.activation": 1}}, "expected a list of 2 numbers: the ends of its range"),
        ({"controls": {}}, "controls: is empty"),
        ({"policy": {"kind": "sinusoid"}}, "got kind 'sinusoid'; did you mean `sinusoids`"),
        ({"policy": {"kind": "spline", "knots": 3}}, "policy.knots: got 3; expected a whole number from 4 to 10000"),
        ({"goal": {}}, "goal: got none; give exactly one of `place`, `shift`, `images`"),
        ({"goal": {"place": [0, 0, 1], "shift": [1, 0, 0]}}, "got `place` and `shift`"),
        (
            {"goal": {"place": [0, 0, 1], "body": "bean"}},
            "goal.body: the scene has no body `bean`; did you mean",
        ),
        (
            {"goal": {"place": [0, 0, 1], "cameras": ["sied"]}},
            "goal.cameras.0: the scene has no camera `sied`; did you",
        ),
        ({"goal": {"place": [0, 0, 1], "frames": [6]}}, "goal.frames.0: got 6; the scene has frames 0 to 5"),
        ({"goal": {"image": "none.png"}}, f"goal.images.0: the file {Path('none.png').resolve()} does not exist"),
        ({"loss": [{"loss": "mze"}]}, "loss.0.loss: got 'mze'; did you mean `mse`"),
        (
            {"loss": [{"loss": "mse"}, {"loss": "cdf"}]},
            "loss.0.iterations: is missing; only the last stage may omit it",
        ),
        ({"loss": [{"loss": "mse", "blur": [4, 1]}]}, "give `iterations`, the number of iterations that takes"),
        ({"loss": [{"loss": "mse", "blur": 0}]}, "loss.0.blur: got 0; expected a number above 0"),
        ({"search": {"optimizer": "adam"}}, "search.optimizer: unknown key; did you mean `optimiser`"),
        ({"search": {"optimiser": "adm"}}, "search: unknown optimiser 'adm'; did you mean `adam`"),
        ({"draws": {"r": {"low": 0, "high": 1, "into": {"gaol.place": 1}}}}, "unknown key `gaol.place`; did you"),
        ({"quick": {"scene.timming.frames": 3}}, "unknown key `scene.timming.frames`; did you mean `timing`"),
        ({"scene": "beem"}, "scene: the library has no scene `beem`; did you mean `beam`"),
        ({"scene": 3}, "scene: got 3; expected a scene: its name in the library, a path, or its content"),
        ({"scene__bodies__beam__density": -1}, "scene.bodies.beam.density: got -1"),
        ({"gaol": {}}, "gaol: unknown key; did you mean `goal`"),
    ],
)
def test_mistakes_are_told_by_their_place(changes, words):
    assert words in refusal(**changes)


def test_all_mistakes_are_told_at_once():
    found = refusal(controls={"beam.x": [1, 0]}, goal={"place": [0, 0, 1], "frames": [9]})
    assert "has 3 mistakes" in found


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"goal__place": [2, 0, 0.2], "draws": {}},
            r"`beam` is not in view of the camera `camera` at the goal: its middle",
        ),
        ({"goal__place": [0, -3, 0.2], "draws": {}}, "at the goal: it reaches behind the camera"),
        ({"scene__bodies__beam__position": [9, 0, 9]}, "`beam` is not in view of the camera `camera` at the start"),
    ],
)
def test_what_is_not_in_view_is_refused_before_any_work(changes, words):
    with pytest.raises(InputError, match=words):
        Setup.of(task(**changes), 0)


def test_a_number_that_is_drawn_out_of_range_is_told_with_its_seed():
    wrong = task(draws={"d": {"low": -3, "high": -2, "into": {"scene.bodies.beam.density": 1}}})
    with pytest.raises(InputError, match="the task bend of seed 4 has a mistake:\n  scene.bodies.beam.density: got -2"):
        Setup.of(wrong, 4)
    with pytest.raises(InputError, match=r"the seed is 9223372036854775808; .* below 2\^63"):
        Setup.of(task(), seed=2**63)
    with pytest.raises(InputError, match="the seed is -1; expected an integer from 0"):
        Setup.of(task(), -1)


def test_losses_of_a_file_are_a_schedule():
    one = schedule(task(loss="moments").loss)
    assert one is not None and one.at(0).name == "moments"
    assert schedule(task(loss=[]).loss) is None


def test_a_task_says_in_which_precision_it_computes():
    assert Setup.of(task()).plant.model.dtype == torch.float64
    assert Setup.of(task(precision="float32")).plant.model.dtype == torch.float32


def test_free_numbers_over_time_stay_in_their_range_and_those_of_a_launch_need_not():
    assert Setup.of(task(policy={"kind": "free", "intervals": 3})).policy.bounded
    assert not Setup.of(Task.load("throw")).policy.bounded


def test_the_task_file_of_the_docs_reaches_its_goal(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "guides" / "control.md").read_text(encoding="utf-8")
    (tmp_path / "toss.yaml").write_text(
        "name: toss\n" + page.split("name: toss\n")[1].split("```")[0], encoding="utf-8"
    )
    setup = Setup.of(Task.load(tmp_path / "toss.yaml"), 0, quick=True)
    history = train(setup.plant, setup.policy, setup.goal, setup.config)
    assert history.raw("distance")[-1] < 0.05 * history.raw("distance")[0]
