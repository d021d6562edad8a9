"""Closed loops compared with open ones: the walker under unobserved disturbances.

Every run draws a mass anew (all points alike, U(0.8, 1.2) times the model's) and two or three pushes, at which all
points of the walker change their velocity by 1 m/s, any way in its plane. Draws of the 20 runs are of another seed than
those of training, and all controllers get the same.

    open           the paper's controller, trained on the undisturbed walker from one image of the goal
    open, trained  the same, trained further on disturbed walkers
    closed         `Gait`, from the open loop's weights, trained on disturbed walkers by short pieces (`ApproachGoal`)
    mpc            plans 0.8 s ahead with the undisturbed model from the state, in each interval

The image is all that any of them knows of the goal: those that look see where they are from the place that its
silhouette's middle shows in the walker's plane. They see the walker's state as it is. Reached is as for the walker: the
centre of mass in the last frame within 5 % of the goal's distance from the goal's.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from gradsim.app.figures import figure
from gradsim.control.goals.base import Truth
from gradsim.control.goals.image import ImageGoal
from gradsim.control.goals.state import ApproachGoal
from gradsim.control.impulses import RandomImpulses, instants, split
from gradsim.control.mpc import Mpc, run_mpc
from gradsim.control.observations import StateObservation
from gradsim.control.plant import Control, Episode, Plant
from gradsim.control.policies import Gait, Sinusoids, mirror_weights
from gradsim.control.task.setup import place_body
from gradsim.control.training.history import History
from gradsim.control.training.randomization import DomainRandomization
from gradsim.control.training.settings import TrainingConfig
from gradsim.control.training.train import train, train_truncated
from gradsim.physics.model import Model
from gradsim.physics.soft.body import SoftBody
from gradsim.render.camera import Camera
from gradsim.render.silhouettes import Silhouettes
from gradsim.runtime.checkpoint import Ledger
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.scene import Scene
from gradsim_reproduction.control.closed_loop_plots import draw, video

LENGTH = 2.25  # of the walker [m]
WAY = 1.5 * LENGTH  # from the start to the goal [m]
CLOSE, NEAR = 0.05, 0.10  # shares of the way: reached, and nearly
MASS, KICK, AXES = 0.2, 1.0, (0, 2)  # share; [m/s]; in the plane y = 0
INTERVAL = 3  # frames: the rhythm below has 6.3 intervals
FREQUENCY = 10.0  # [rad/s]; at the paper's 2.5 the walker takes two steps in 5 s
SPEED = 1.0  # wanted of those that look [m/s]
PIECE, AHEAD = 10, 8  # intervals: of a piece in training; of a plan
PLANS = 5  # iterations of each plan
RUNS, WORLDS, ITERATIONS, OPEN = 20, 16, 60, 12
MORE = 100  # further runs of the policies: 20 leave a success of 0.9 open by ± 0.07
QUICK = {"runs": 4, "worlds": 4, "iterations": 3, "open": 5, "planned": 1, "more": 4}
SEARCH = TrainingConfig("adam", rate=3e-3, clip=1.0, schedule="cosine_annealing")
KEYS = {"open": "open_loop", "open, trained": "open_loop_trained", "closed": "closed_loop", "mpc": "mpc"}
HARDER = (0.0, 0.5, 1.0, 1.5, 2.0)  # sizes of kicks [m/s] for the curve
OTHERS = (LENGTH, -LENGTH, 2 * LENGTH)  # ways [m] that the closed loop was not trained for


def closed_loop(folder: Path, quick: bool = False, seed: int = 0, progress: Progress | None = None) -> dict:
    """Run the experiment into a folder; what is finished is kept there.

    Args:
        folder: Gets a ledger, images and a video.
        quick: A few runs and iterations.
        seed: Seed of start weights and disturbances.
        progress: Receives stages and shares.

    Returns:
        `figures`, `curves` (paths of all runs by controller, training, success by size of kicks) and `images`.
    """
    folder, progress = Path(folder), progress or NullProgress()
    full = {"runs": RUNS, "worlds": WORLDS, "iterations": ITERATIONS, "open": OPEN, "planned": RUNS, "more": MORE}
    settings = QUICK if quick else full
    done = Ledger(folder / "closed.jsonl", {"seed": seed, **settings})
    walk = walker()
    policies = train_policies(walk, done, settings, seed, progress)
    worlds = disturbances(walk, settings["runs"], 2 * seed + 1)(0)
    paths = {name: cached_path(done, f"runs of {name}", walk, policies[name], worlds) for name in policies}
    progress.stage("fig6, closed loops: planning ahead")
    plans = []
    for k in range(settings["planned"]):
        item = done.once(f"plans of run {k}", lambda k=k: plan_record(walk, policies["open"], single_world(worlds, k)))
        plans.append(item)
        progress.fraction(k + 1, settings["planned"])
    paths["mpc"] = torch.tensor([item["path"] for item in plans])
    curves = {
        "paths": {name: path.tolist() for name, path in paths.items()},
        "goal": walk.truth.centre.tolist(),
        "place_in_the_image": walk.place.tolist(),
        "training": {name: done.get(f"training of {name}")["history"] for name in policies},  # type: ignore[index]
        "success_by_kick": by_kick(walk, policies, settings["runs"], 2 * seed + 1, done),
        "success_by_way": by_way(policies["closed"], settings["runs"], 2 * seed + 1, done),
    }
    figures = summary(walk, paths, curves)
    others = disturbances(walk, settings["more"], 2 * seed + 1)(3)
    for name, policy in policies.items():
        reached = misses(cached_path(done, f"more runs of {name}", walk, policy, others), walk) < CLOSE
        figures[f"{KEYS[name]}_success_of_more"] = figure(reached.double().mean().item())
    figures["mpc_seconds_per_run"] = figure(sum(item["seconds"] for item in plans) / len(plans))
    return {"figures": figures, "curves": curves, "images": _images(folder, walk, policies, worlds, paths, curves)}


def _images(folder: Path, walk: "Walk", policies: Mapping[str, nn.Module], worlds, paths, curves) -> list[dict]:
    usual = int(misses(paths["open"], walk).argsort()[len(paths["open"]) // 2])  # the median of the open loop
    plant, first = walk.plant, single_world(worlds, usual)
    scene = plant.model.scene
    fps = scene.timing.fps
    sheets = draw(folder, paths, walk.truth.centre, CLOSE * abs(walk.way), fps, curves["success_by_kick"])
    motions = {name: run(walk, policy, first).trajectory for name, policy in policies.items()}
    motions["mpc"] = plan(walk, policies["open"], first)[0].trajectory
    impulses = [INTERVAL * k for k in instants(split(first, plant.model)[1])]
    at_goal = place_body(plant.model, "walker", None, (walk.way, 0.0, 0.0))[0]
    return [*sheets, video(folder / "closed_loop.webm", scene, motions, at_goal, impulses)]


@dataclass(frozen=True)
class Walk:
    """The walker, and its goal.

    Args:
        plant: With senses of the state, seen from
        place: where the image shows the goal (3,) [m].
        image: The goal's silhouette.
        goal: Training goal of the open loop.
        approach: Goal of the other controllers.
        truth: For figures.
        way: From the start to the goal [m], to the right.
    """

    plant: Plant
    place: Tensor
    image: Tensor
    goal: ImageGoal
    approach: ApproachGoal
    truth: Truth
    way: float


def walker(way: float = WAY) -> Walk:
    """The library's walker with a goal so far to the right [m]."""
    scene = Scene.library("walker")
    model = Model(scene, dtype=torch.float32)
    sees = Silhouettes.of(scene)
    at_goal, truth = place_body(model, "walker", None, (way, 0.0, 0.0))
    image = sees.union(at_goal.surface)[0, 0]
    place = goal_position(image, sees.camera)
    plant = Plant(
        model,
        [Control("walker.activation", -0.2, 0.2)],
        INTERVAL,
        StateObservation(model, 12, target=place, detached=True),
    )
    approach = ApproachGoal("walker", place, SPEED, axes=(0,), truth=truth)
    return Walk(plant, place, image, ImageGoal(sees, image, loss="cdf", truth=truth), approach, truth, way)


def goal_position(silhouette: Tensor, camera: Camera) -> Tensor:
    """The place (3,) [m] in the plane y = 0 that the middle of a silhouette (height, width) shows."""
    share = silhouette.double() / silhouette.double().sum()
    column = (share.sum(0) * (torch.arange(camera.width) + 0.5)).sum()
    row = (share.sum(1) * (torch.arange(camera.height) + 0.5)).sum()
    pixel = torch.stack([column, row, torch.ones_like(row)])
    eye, ray = -camera.R.mT @ camera.t, camera.R.mT @ torch.linalg.solve(camera.K, pixel)
    return eye - ray * (eye[1] / ray[1])


def disturbances(walk: Walk, worlds: int, seed: int, kick: float = KICK) -> DomainRandomization:
    """Masses and pushes."""
    impulses = RandomImpulses("walker", kick, walk.plant.intervals, axes=AXES)
    return DomainRandomization(
        walk.plant.model, {"walker.density": MASS}, worlds=worlds, seed=seed, impulses=[impulses]
    )


def train_policies(
    walk: Walk, done: Ledger, settings: Mapping[str, int], seed: int, progress: Progress
) -> dict[str, nn.Module]:
    """The policies, by name; from the ledger where they are there."""
    plant, disturbed = walk.plant, disturbances(walk, settings["worlds"], 2 * seed)
    further = {**vars(SEARCH), "iterations": settings["iterations"]}
    open_loop = Sinusoids(plant.outputs, frequency=FREQUENCY, seed=seed, start=0.03)

    def search_open() -> History:
        # a Gauss-Newton step of the loss, at most 3 long: 832 weights
        search = TrainingConfig(
            "polyak", rate=2.0, iterations=settings["open"], options={"bound": 0.1, "deflect": False}
        )
        return train(plant, open_loop, walk.goal, search, progress)

    learn(done, "open", open_loop, search_open, progress, best=True)
    robust = Sinusoids(plant.outputs, frequency=FREQUENCY)
    robust.load_state_dict(open_loop.state_dict())
    learn(
        done,
        "open, trained",
        robust,
        lambda: train(plant, robust, walk.goal, TrainingConfig(**further), progress, overrides=disturbed),
        progress,
    )
    back = mirror_weights(open_loop.weight.detach(), middles(plant))
    closed = Gait(plant.observation.size, open_loop, back, seed=seed)  # type: ignore[union-attr]
    learn(
        done,
        "closed",
        closed,
        lambda: train_truncated(
            plant, closed, walk.approach, TrainingConfig(**further), PIECE, disturbed, progress=progress
        ),
        progress,
    )
    return {"open": open_loop, "open, trained": robust, "closed": closed}


def learn(done: Ledger, name: str, policy: nn.Module, search, progress: Progress, best: bool = False) -> None:
    """Train a policy in place, or take it from the ledger: the best by the loss, or the last."""

    def make() -> dict:
        progress.stage(f"fig6, closed loops: training, {name}")
        history = search()
        if best:
            policy.load_state_dict(history.policies["best"])
        weights = {key: value.tolist() for key, value in policy.state_dict().items()}
        raw = {key: history.raw(key) for key in ("loss", "gradient_norm", "seconds", "distance", "steps")}
        return {"weights": weights, "history": raw}

    item = done.once(f"training of {name}", make)
    policy.load_state_dict({key: torch.tensor(value, dtype=torch.float64) for key, value in item["weights"].items()})


def middles(plant: Plant) -> Tensor:
    """Centres of the triangles relative to the centre of mass (outputs, 3) [m]."""
    body = plant.model.systems[0]
    assert isinstance(body, SoftBody)
    return body.rest[body.part.faces[: plant.outputs]].mean(1)


@torch.no_grad()
def run(walk: Walk, policy: nn.Module, worlds: Mapping[str, Tensor]) -> Episode:
    """Episodes in disturbed worlds."""
    return walk.plant.rollout(policy, worlds)  # type: ignore[arg-type]


def single_world(worlds: Mapping[str, Tensor], k: int) -> dict[str, Tensor]:
    """The k-th world alone."""
    return {name: value[k : k + 1] for name, value in worlds.items()}


def cached_path(done: Ledger, key: str, walk: Walk, policy: nn.Module, worlds: Mapping[str, Tensor]) -> Tensor:
    """Centres of mass (runs, frames, 3) [m]."""
    return torch.tensor(done.once(key, lambda: {"path": run(walk, policy, worlds).centre().tolist()})["path"])


def plan(walk: Walk, start: nn.Module, worlds: Mapping[str, Tensor]) -> tuple[Episode, History]:
    """One run of a controller that plans, from the open loop."""
    search = TrainingConfig("polyak", rate=1.0, iterations=PLANS, options={"bound": 0.1})
    # without the height in its goal, a plan ends on its knees
    goal = ApproachGoal("walker", walk.place, SPEED, axes=(0, 2), truth=walk.truth)
    return run_mpc(Mpc(walk.plant, goal, AHEAD, search, start=start), walk.plant, goal, worlds)


def plan_record(walk: Walk, start: nn.Module, worlds: Mapping[str, Tensor]) -> dict:
    """Its path, and what it cost."""
    begun = time.process_time()
    episode, history = plan(walk, start, worlds)
    seconds = time.process_time() - begun
    return {"path": episode.centre()[0].tolist(), "seconds": seconds, "rollouts": history.total()[-1]}


def misses(path: Tensor, walk: Walk) -> Tensor:
    """Distances (runs,) from the goal in the last frame, as shares of the way."""
    return torch.linalg.vector_norm(path[:, -1] - walk.truth.centre, dim=1) / abs(walk.way)


def by_kick(walk: Walk, policies: Mapping[str, nn.Module], runs: int, seed: int, done: Ledger) -> dict:
    """Success of each policy with kicks of other sizes."""
    success: dict = {"kick": list(HARDER), **{name: [] for name in policies}}
    for size in HARDER:
        worlds = disturbances(walk, runs, seed, size)(1)
        for name, policy in policies.items():
            path = cached_path(done, f"{name}, kicks of {size} m/s", walk, policy, worlds)
            success[name].append((misses(path, walk) < CLOSE).double().mean().item())
    return success


def by_way(policy: nn.Module, runs: int, seed: int, done: Ledger) -> dict:
    """Success of the closed loop with other goals, as it is."""
    results: dict = {"way": list(OTHERS), "success": [], "miss": []}
    for way in OTHERS:
        walk = walker(way)
        miss = misses(cached_path(done, f"closed, {way} m", walk, policy, disturbances(walk, runs, seed)(2)), walk)
        results["success"].append((miss < CLOSE).double().mean().item())
        results["miss"].append(miss.mean().item())
    return results


def summary(walk: Walk, paths: Mapping[str, Tensor], curves: Mapping) -> dict[str, dict]:
    """Success, and how far from the goal."""
    figures = {}
    for name, path in paths.items():
        miss, key = misses(path, walk), KEYS[name]
        success = (miss < CLOSE).double().mean().item()
        looks = name in ("closed", "mpc")
        figures[f"{key}_success"] = figure(success, goal=0.9 if looks else None, ok=success >= 0.9 if looks else None)
        figures[f"{key}_success_10"] = figure((miss < NEAR).double().mean().item())
        figures[f"{key}_miss"] = figure(miss.mean().item())
        figures[f"{key}_miss_m"] = figure(miss.mean().item() * walk.way)
    timing = walk.plant.model.scene.timing
    duration = (timing.frames - 1) / timing.fps
    figures["kick"] = figure(KICK)
    figures["kick_over_walking_speed"] = figure(KICK / (walk.way / duration))
    for way, success in zip(*(curves["success_by_way"][key] for key in ("way", "success")), strict=True):
        figures[f"closed_loop_success_at_{way:g}_m"] = figure(success)
    for name in ("open", "open, trained", "closed"):
        seconds = curves["training"][name]["seconds"]
        figures[f"{KEYS[name]}_training_seconds"] = figure(sum(seconds))
    return figures
