import math
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fit_cases import THROW, THROW_TRUTH, recorded, throw, thrown

from gradsim.identification.observation.base import Masks, NoiseFloor, States
from gradsim.identification.observation.thinned import EveryNth
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import parameter_values
from gradsim.identification.solvers import leaps, multistart, restarts, thresholds
from gradsim.identification.solvers.de_mcmc import sample
from gradsim.identification.solvers.levenberg_marquardt import NEGLIGIBLE_SHARE, Population
from gradsim.identification.solvers.multistart import MultistartConfig, _stages, search
from gradsim.physics.model import Model
from gradsim.scene import Scene

PLAN = MultistartConfig(starts=4, first=4, grow=2)


class Memory:
    """Keeps what is saved, and pulls the plug after some saves."""

    def __init__(self, plug: int = 1000):
        self.parts, self.left = {}, plug

    def load(self, part):
        return pickle.loads(self.parts[part]) if part in self.parts else None

    def save(self, part, state):
        self.parts[part] = pickle.dumps(state)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("kind", "plug"), [("clean", 1), ("clean", 2), ("clean", 3), ("noisy", 1), ("noisy", 2), ("fast", 1), ("fast", 2)]
)
def test_an_interrupted_search_goes_on_to_the_same_answer_bit_for_bit(kind, plug):
    clip = {"clean": thrown, "noisy": thrown_in_noise, "fast": filmed_fast}[kind]
    whole = search(clip(), PLAN, np.random.default_rng(5))
    memory = Memory(plug)
    with pytest.raises(KeyboardInterrupt):
        search(clip(), PLAN, np.random.default_rng(5), checkpoint=memory)
    problem = clip()
    again = search(problem, PLAN, np.random.default_rng(99), checkpoint=memory)  # restores the generator, too
    assert torch.equal(again.best, whole.best) and again.best_cost == whole.best_cost
    assert torch.equal(again.cost, whole.cost) and torch.equal(again.initial, whole.initial)
    assert again.iterations == whole.iterations and again.history == whole.history


def filmed_fast(noise: float = 0.02) -> Problem:
    """A film of 90 frames, twenty times as close in time as those of `throw`."""
    scene = throw(frames=90)
    scene = scene.model_copy(update={"timing": scene.timing.model_copy(update={"fps": 400.0, "substeps": 1})})
    problem = recorded(scene, THROW, THROW_TRUTH)
    masks = problem.observation
    assert isinstance(masks, Masks)
    normal = torch.randn(masks.masks.shape, generator=torch.Generator().manual_seed(4)).double()
    return problem.with_observation(Masks(masks.masks + noise * normal, max(noise, 1e-3), masks.silhouettes))


def test_a_search_in_frames_close_in_time_compares_some_and_ends_at_the_minimum_of_all(monkeypatch):
    compared, normal = [], Masks.normal
    monkeypatch.setattr(
        Masks, "normal", lambda self, s, frames, *rest: compared.append(frames) or normal(self, s, frames, *rest)
    )
    problem = filmed_fast()
    outcome = search(problem, MultistartConfig(starts=4), np.random.default_rng(0))
    some = sum(n for n in compared if n < problem.frames)
    del compared[:]
    monkeypatch.setattr(multistart, "thinned", lambda problem: problem)
    expected = search(filmed_fast(), MultistartConfig(starts=4), np.random.default_rng(0))
    assert 0 < some < sum(n for n in compared if n < problem.frames) / 3
    assert outcome.best_cost == pytest.approx(expected.best_cost, abs=0.02)  # χ²: a seventh of an error bar
    for entry in outcome.history:
        u = torch.tensor(entry["u"]).double()[None]
        assert entry["cost"] == pytest.approx(problem.cost(u, entry["frames"]).item(), rel=1e-8)


def test_all_frames_are_compared_where_there_is_no_noise_or_bodies_move_far_between_them():
    assert isinstance(multistart.thinned(filmed_fast()).observation, EveryNth)
    for problem in (filmed_fast(noise=0.0), thrown_in_noise()):
        assert multistart.thinned(problem) is problem


def test_interrupted_sampling_goes_on_to_the_same_samples_bit_for_bit():
    start, scale = thrown().space.inner(torch.tensor([[3.1, 0.9]]))[0], torch.diag(torch.tensor([1e-3, 1e-3]).double())
    draw = lambda memory, seed: sample(
        thrown(), start, scale, np.random.default_rng(seed), chains=6, generations=120, checkpoint=memory
    )
    whole, memory = draw(None, 3), Memory(2)
    with pytest.raises(KeyboardInterrupt):
        draw(memory, 3)
    again = draw(memory, 4)
    assert torch.equal(again.u, whole.u) and again.accepted == whole.accepted


def test_states_whose_noise_nothing_tells_are_descended_on_at_every_stage():
    """A float image has a noise that the pixels tell; states have not. Their starts rest in minima, not at once."""
    problem = thrown()
    with torch.no_grad():
        states = problem.model.rollout(parameter_values(problem.model.scene, THROW_TRUTH))["cube"]
    seen = Problem(problem.model, States("cube", states["x"][0], states["q"][0], 1e-3, 1e-2), problem.space)
    outcome = search(seen, PLAN, np.random.default_rng(5))
    assert outcome.history[0]["stage"] == "curriculum"
    assert outcome.history[0]["cost"] < 0.01 * NEGLIGIBLE_SHARE  # of the decrease that counts in a stage
    assert outcome.best_cost < 1e-12


def test_a_coarse_search_of_a_noisy_video_ends_within_its_noise_for_fewer_rollouts():
    """Neither stirred nor polished, and at rest at a millionth: a fraction of a standard deviation from the long way."""
    long, short = (thrown_in_noise() for _ in range(2))
    best = search(long, PLAN, np.random.default_rng(5))
    coarse = replace(PLAN, rounds=0, explore=False, polish=0, rtol=1e-6)
    near = search(short, coarse, np.random.default_rng(5))
    assert near.best_cost < best.best_cost + 0.1  # in χ²: a third of a standard deviation
    assert short.effort.rollouts < 0.7 * long.effort.rollouts


def test_starts_that_are_one_go_to_the_end_of_a_clip_with_noise_at_once():
    """A flight has one valley: its first frames say where, and samples about the end find no other."""
    problem = thrown_in_noise()
    outcome = search(problem, PLAN, np.random.default_rng(5))
    assert [(e["stage"], e["frames"]) for e in outcome.history] == [("curriculum", 8), ("pixels", 8)]
    assert outcome.history[0]["leapt"]
    assert outcome.converged() == PLAN.starts


def test_a_better_valley_at_the_end_of_a_clip_with_noise_brings_back_the_frames_between(monkeypatch):
    explored = restarts.explore

    def better(problem, iterates, who, frames, rng, **options):
        iterates, who, count = explored(problem, iterates, who, frames, rng, **options)
        return iterates, torch.where(torch.tensor(frames == problem.frames), -1, who), count

    for module in (multistart, leaps):
        monkeypatch.setattr(module, "explore", better)
    outcome = search(thrown_in_noise(), PLAN, np.random.default_rng(5))
    assert [e["frames"] for e in outcome.history if e["stage"] == "curriculum"] == [4, 6]
    assert not any(e.get("leapt") for e in outcome.history)


@pytest.mark.parametrize("smooth", [True, False])
def test_samples_look_for_valleys_only_where_chi2_is_not_smooth_about_starts_that_are_one(monkeypatch, smooth):
    """Then eight places go on for twelve starts, and all of these count as come to the answer."""
    explored, looked = restarts.explore, []

    def listening(problem, iterates, who, frames, rng, **options):
        looked.append(frames)
        return explored(problem, iterates, who, frames, rng, **options)

    monkeypatch.setattr(multistart, "explore", listening)
    monkeypatch.setattr(multistart, "leap_with_noise", lambda *more: (0, None))
    if not smooth:
        monkeypatch.setattr(multistart, "is_quadratic", lambda *more: False)
    outcome = search(thrown_in_noise(), replace(PLAN, starts=12), np.random.default_rng(5))
    stages = [entry for entry in outcome.history if entry["stage"] == "curriculum"]
    assert looked == ([] if smooth else [entry["frames"] for entry in stages])
    assert [entry["population"] for entry in stages] == len(stages) * [8 if smooth else 12]
    assert outcome.converged() == 12


def test_places_go_on_for_starts_that_are_one():
    """The best that are starts, in turn; those that were drawn later speak for none."""
    people = Population.at(torch.arange(11.0).double()[:, None])
    people.cost = torch.arange(11.0).double()
    who, speaker = torch.tensor([-1, 0, 1, 2, 3, 4, 5, 6, -1, 7, 8]), torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 8, 8])
    fewer, places, speaker = multistart._represented(people, who, speaker)
    assert places.tolist() == [0, 1, 2, 3, 4, 5, 6, 7] and fewer.u[:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7, 9]
    assert speaker.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 0, 0]


def test_a_leap_ends_once_a_start_rests_above_the_best(monkeypatch):
    """Its cost will not fall, and that of the best does not rise: they are not one any more, whatever the others do."""
    conditions, descended = [], leaps.descend

    def listening(p, start, frames, *more, ends, **options):
        if frames == p.frames:  # not of the descents before
            conditions.append(ends)
        return descended(p, start, frames, *more, ends=ends, **options)

    monkeypatch.setattr(leaps, "descend", listening)
    search(thrown_in_noise(), PLAN, np.random.default_rng(5))
    (ends,), alike = conditions, 0.5 * thresholds.SAME_COST
    for costs, active, over in (
        ([1.0, 1.5], [True, False], True),
        ([1.0, 1.5], [False, True], False),
        ([1.0, 1.0 + alike], [False, False], False),
    ):
        people = Population.at(torch.zeros(2, 1).double())
        people.cost = torch.tensor(costs).double()
        assert ends(people, torch.tensor(active)) == over


def thrown_in_noise() -> Problem:
    clean = thrown()
    assert isinstance(clean.observation, Masks)
    noise = torch.randn(clean.observation.masks.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    seen = Masks(clean.observation.masks + 0.01 * noise, 0.01, clean.observation.silhouettes)
    return Problem(clean.model, seen, clean.space)


@pytest.mark.parametrize("few_tell_all", [True, False])
def test_a_solved_start_goes_to_the_end_of_a_clip_without_noise_at_once_or_in_strides(monkeypatch, few_tell_all):
    """In strides where it does not explain all of it from where the first frames put it."""
    seen = []
    problem, descended = recorded(throw(frames=30, size=24), THROW, THROW_TRUTH), multistart.descend

    def listening(p, start, frames, *more, **options):
        seen.append(frames)
        after, count = descended(p, start, frames, *more, **options)
        if frames == PLAN.first and not few_tell_all:
            after.u = after.u + 1e-7  # explains the first frames as well as any
        return after, count

    for module in (multistart, leaps):
        monkeypatch.setattr(module, "descend", listening)
    outcome = search(problem, PLAN, np.random.default_rng(5))
    assert (6 in seen) != few_tell_all  # the first stride, which tells enough
    assert {9, 14, 21}.isdisjoint(seen)
    truth = problem.space.inner(torch.tensor(list(THROW_TRUTH.values()), dtype=torch.float64))
    assert (outcome.best - truth).abs().max() < 1e-9
    assert outcome.converged() == PLAN.starts  # a free flight has one valley


def test_starts_that_explain_a_clip_elsewhere_are_at_its_end():
    """Two like balls: the same silhouettes if they change places, and half of the starts are on either side."""
    ball = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1.0, "velocity": [0, 0, 2]}
    content = {
        "bodies": {name: ball | {"position": [x, 0, 1]} for name, x in (("a", -0.4), ("b", 0.35))},
        "camera": {"look_at": {"eye": [0, -4, 1], "target": [0, 0, 1], "fov": "40 deg"}, "size": [32, 24]},
        "timing": {"fps": 30, "frames": 8, "substeps": 2},
    }
    places = {"a.position.x": -0.4, "b.position.x": 0.35}
    problem = recorded(Scene.parse(content), ["a.position.x:-1:1", "b.position.x:-1:1"], places)
    outcome = search(problem, replace(PLAN, starts=8), np.random.default_rng(0))
    truth = torch.tensor(list(places.values())).double()
    assert outcome.history[0]["leapt"]
    for order in (truth, truth.flip(0)):
        assert ((outcome.ends - order).abs().amax(1) < 1e-6).any()
    assert thresholds.SAME_COST > problem.cost(outcome.ends, problem.frames).max()


def test_a_clip_without_noise_is_strode_through_once_a_later_stage_explains_what_the_first_did_not(monkeypatch):
    """Its first frames find no start: that is not noise, though nothing else explains them until more frames come."""
    problem, descended = recorded(throw(frames=30, size=24), THROW, THROW_TRUTH), multistart.descend

    def blind(p, start, frames, *more, **options):
        if frames > PLAN.first:
            return descended(p, start, frames, *more, **options)
        start.cost = p.cost(start.u, frames)
        return start, 0

    for module in (multistart, leaps):
        monkeypatch.setattr(module, "descend", blind)
    outcome = search(problem, replace(PLAN, rounds=0), np.random.default_rng(5))
    assert [(e["frames"], e.get("leapt", False)) for e in outcome.history[:2]] == [(4, False), (6, True)]
    assert len(outcome.history) == 4  # nothing but pixels and polish is left
    truth = problem.space.inner(torch.tensor(list(THROW_TRUTH.values()), dtype=torch.float64))
    assert (outcome.best - truth).abs().max() < 1e-9


def sliding() -> Problem:
    """A cube whose first frames tell little of the ground."""
    names = ["cube.mass:2:12", "ground.stiffness:2e4:5e5", "ground.friction:0.2:1", "ground.dissipation:0.3:2"]
    truth = {"cube.mass": 7.0, "ground.stiffness": 3e5, "ground.friction": 0.58, "ground.dissipation": 0.65}
    scene = Scene.library("cube")
    camera = scene.camera.model_copy(update={"size": (48, 48)})
    return recorded(scene.model_copy(update={"camera": camera}), names, truth)


@pytest.mark.parametrize("explained", [True, False])
def test_starts_that_slide_in_the_first_frames_go_to_the_end_of_a_clip_without_noise_early(monkeypatch, explained):
    """Most of them follow the best; where that explains no clip, they go on in the first frames."""
    problem, lead = sliding(), leaps._lead
    nobody = Population.at(torch.zeros(0, 4).double()), torch.zeros(0, dtype=torch.int64), 0
    tried: list[int] = []

    def leading(*more):
        tried.append(1)
        return lead(*more) if explained or len(tried) > 1 else nobody

    monkeypatch.setattr(leaps, "_lead", leading)
    outcome = search(problem, MultistartConfig(), np.random.default_rng(0))
    assert outcome.history[0]["leapt"] and len(tried) == (1 if explained else 2)
    assert (problem.effort.rollouts < 800) == explained
    assert outcome.converged() == int(outcome.cost.isfinite().sum()) > (16 // 2 if explained else 1)
    assert problem.cost(outcome.best[None], problem.frames) < thresholds.solved_cost(problem, problem.frames)


@pytest.mark.parametrize(
    ("u", "costs", "slides"),
    [([0.0, 0.1, 0.2], [0, 0, 0], True), ([0.0, 0.01, 0.0], [0, 0, 0], False), ([0.0, 0.1, 0.2], [0, 0, 1], False)],
    ids=["open", "one place", "two"],
)
def test_starts_slide_where_several_nearly_explain_frames_at_different_places(u, costs, slides):
    problem = thrown()
    people = Population.at(torch.tensor([*u, 0.5], dtype=torch.float64)[:, None] * problem.space.unit)
    people.cost = torch.tensor([*costs, 5.0]).double()
    assert leaps.slide(problem, 4)(people) == slides


def test_a_cost_that_rounding_makes_is_told_from_one_that_the_unknowns_make():
    problem = thrown()
    truth = problem.space.inner(torch.tensor(list(THROW_TRUTH.values()), dtype=torch.float64))
    for u in (truth, truth + 1e-5):
        least = thresholds.rounding_cost(problem, u, problem.frames)
        # one unit in the last place of a logarithm near 1 is 2e-16; pixels move by some hundred of their σ for each unit
        assert 0 < least < (1e5 * 4e-16) ** 2 * problem.frames * 24**2
    assert problem.cost((truth + 1e-5)[None], problem.frames)[0] > 1e6 * least


@pytest.mark.parametrize("level", [1.0, 4.0], ids=["noise as stated", "noise of twice the stated"])
def test_a_start_whose_chi2_is_half_as_much_again_as_noise_makes_is_not_solved(level):
    """χ² of N = 4000 residuals is N ± √(2N) of noise alone: 1.5 N is 22 standard deviations above, and 15 of its own."""
    n, floor = 4000, 9e5
    observation = SimpleNamespace(noise_floor=lambda frames: NoiseFloor(floor, n, level))
    target = thresholds.solved_cost(SimpleNamespace(observation=observation), 8)

    def solved(chi2: float) -> bool:
        people = Population.at(torch.zeros(1, 2).double())
        people.cost[0] = floor + level * chi2
        return bool(thresholds.are_solved(people, target))

    drawn = np.random.default_rng(0).chisquare(n, 300)
    assert all(solved(chi2) for chi2 in drawn)
    assert all(solved(n + k * math.sqrt(2 * n)) for k in (-3, 3))
    assert not any(solved(1.5 * chi2) for chi2 in drawn)


def test_a_start_in_as_few_residuals_as_a_first_stage_has_is_solved_by_noise():
    """χ² of 40 residuals exceeds 1.15 N in a quarter of the cases, and 5 √(2N) more in 8e-6 of them."""
    observation = SimpleNamespace(noise_floor=lambda frames: NoiseFloor(0.0, 40, 1.0))
    drawn = np.random.default_rng(0).chisquare(40, 1000)
    assert drawn.max() < thresholds.solved_cost(SimpleNamespace(observation=observation), 4)


def test_stages_grow_by_frames_or_by_a_ratio():
    plain, fast = MultistartConfig(first=4, grow=2), MultistartConfig(first=4, grow=2, ratio=1.5)
    assert _stages(plain, 11) == [4, 6, 8, 10] and _stages(fast, 30) == [4, 6, 9, 14, 21]
    assert _stages(plain, 3) == [] and _stages(MultistartConfig(curriculum=False), 30) == []


def test_two_starts_that_are_one_do_not_make_a_polish_needless():
    people = Population.at(torch.zeros(1, 2).double())
    people.cost = torch.ones(1).double()
    agree = lambda starts, count: multistart._agree(
        people, torch.tensor([0]), torch.tensor([0] * count + [*range(count, starts)])
    )
    assert agree(4, 3) and not agree(4, 2) and not agree(2, 2)


@pytest.mark.parametrize(("count", "rows"), [(1, [0, 1]), (2, [0, 1]), (4, [0, 1, 1, 1])])
def test_copies_of_the_best_fill_up_to_a_number_that_more_starts_may_exceed(count, rows):
    """One start alone becomes two where samples find a better place, and both go on where both are solved."""
    people = Population.at(torch.tensor([[0.0], [1.0]]).double())
    people.cost = torch.tensor([2.0, 1.0]).double()
    copied, who = restarts.copied(people, torch.tensor([0, -1]), count)
    assert copied.u[:, 0].tolist() == rows and who.tolist() == [0, -1, *[-1] * (len(rows) - 2)]


@pytest.mark.parametrize(("fps", "first", "grow", "stages"), [(20, 4, 2, [4, 6, 8]), (300, 25, 16, [25, 41, 57])])
def test_stages_last_as_long_as_a_body_needs_to_move(fps, first, grow, stages):
    """r = 0.354 m falls by itself in τ = √(2 r/g) = 0.268 s: 0.3 τ and 0.2 τ are 24 and 16 intervals of 1/300 s, and 1 of 1/20 s."""
    scene = throw()
    scene = scene.model_copy(update={"timing": scene.timing.model_copy(update={"fps": fps})})
    plan = multistart._paced(Problem(Model(scene), thrown().observation, thrown().space), PLAN)
    assert (plan.first, plan.grow) == (first, grow)
    assert _stages(plan, stages[-1] + 1) == stages


def test_starts_that_are_one_in_the_first_frames_do_not_leap_into_a_tooth_of_the_whole_clip(monkeypatch):
    """Teeth of the whole clip, each with a smooth bottom wider than its own error bars, and narrower than those of the first frames.

    Descents from one place all end in one of them; from all over the error bars of the first frames they end in several.
    """
    problem = thrown_in_noise()
    truth = problem.space.inner(torch.tensor(list(THROW_TRUTH.values()), dtype=torch.float64))
    A = {k: problem.linearize(truth[None], k)[1][0] for k in (PLAN.first, problem.frames)}
    A[problem.frames] *= 1e4  # as where contact lets errors grow a hundredfold
    apart = 10 / A[problem.frames][0, 0].sqrt()  # of the whole clip's error bars
    assert 3 / A[PLAN.first][0, 0].sqrt() > apart
    nearest = lambda u: truth + torch.tensor([1.0, 0.0]) * apart * ((u - truth)[:, :1] / apart).round()

    def cost(u, frames, residual="pixels"):
        off = u - (nearest(u) if frames == problem.frames else truth)
        return torch.einsum("ki,ij,kj->k", off, A.get(frames, A[problem.frames]), off) + floor(frames)

    def linearize(u, frames, residual="pixels"):
        off, matrix = u - (nearest(u) if frames == problem.frames else truth), A.get(frames, A[problem.frames])
        return cost(u, frames), matrix.expand(len(u), -1, -1), off @ matrix

    floor = lambda frames: problem.observation.noise_floor(frames).cost
    monkeypatch.setattr(problem, "cost", cost)
    monkeypatch.setattr(problem, "linearize", linearize)
    monkeypatch.setattr(leaps, "secant_fisher", lambda problem, u, fisher: (fisher, False))
    here = Population.at((truth + torch.tensor([apart, 0.0])).expand(4, -1))
    here.cost = cost(here.u, PLAN.first)
    leap = lambda: leaps.leap_with_noise(
        problem, here, torch.ones(4, dtype=torch.bool), PLAN.first, 1e-9, False, np.random.default_rng(0)
    )[1]
    assert leap() is None
    monkeypatch.setattr(leaps, "_spread", lambda problem, iterates, frames, rng: iterates)
    assert leap() is not None  # all in one tooth
