"""Samples of posteriors whose moments or valleys are known."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from given_costs import CENTER as CENTRE
from given_costs import COVARIANCE, PRECISION, Costs, gaussian, parabolas, problem

from gradsim.identification.solvers.de_mcmc import Samples
from gradsim.identification.uncertainty import smc
from gradsim.identification.uncertainty.importance import COPIES, StudentMixture, systematic
from gradsim.identification.uncertainty.smc import anneal
from gradsim.identification.uncertainty.valleys import Valleys

u = torch.full((4, 1), 0.25).double()
NO_MIXTURE: Any = None


def moved(where, n=2):
    """The Gaussian about CENTRE + where."""
    return problem(lambda u: gaussian(u - where), lambda u: gaussian(u - where) / 100, n)


FAR = torch.tensor([128.0, -64.0]).double()  # hundreds of σ; powers of 2, so that sums round little


def test_a_cloud_moves_alike_wherever_zero_is():
    """Proposals are differences, and their jitter is a share of the cloud's spread about its mean."""
    clouds = []
    for where in (torch.zeros(2).double(), FAR):
        rng = np.random.default_rng(8)
        begun = CENTRE + 10 * torch.tensor(rng.standard_normal((32, 2)))
        clouds.append(anneal(moved(where), begun + where, torch.eye(2).double(), 1, rng).samples().u - where)
    # rounding of 1e-14 grows to 1e-10 over the generations; a jitter of 1e-3 about 0 would be 0.1
    assert torch.allclose(*clouds, atol=1e-6)


def test_a_cloud_is_led_from_a_wide_part_to_the_whole():
    """The part is 10 times as wide. 4800 correlated samples tell mean and σ to 20 %."""
    rng = np.random.default_rng(3)
    wide = lambda u: gaussian(u) / 100
    begun = CENTRE + torch.tensor(rng.standard_normal((240, 2))) @ (10 * torch.linalg.cholesky(COVARIANCE)).T
    cloud = anneal(problem(gaussian, wide), begun, torch.eye(2).double(), 1, rng)
    found, followed = cloud.samples(), cloud.followed
    size = COVARIANCE.diagonal().sqrt()
    assert followed == 1.0
    assert ((found.u.mean(0) - CENTRE).abs() < 0.2 * size).all()
    assert ((found.u.std(0) / size - 1).abs() < 0.2).all()


def test_two_valleys_that_explain_a_clip_alike_are_both_sampled():
    """Valleys at −6 and 6, σ = 1 and 1/2, equally deep: masses 2 : 1. One is 12 σ from the other, so no step leads over."""
    valleys = lambda u: -2 * torch.logaddexp(-((u[:, 0] + 6) ** 2) / 2, -2 * (u[:, 0] - 6) ** 2)
    wide = lambda u: (u[:, 0] / 8) ** 2
    rng = np.random.default_rng(4)
    begun = torch.tensor(8 * rng.standard_normal((160, 1)))
    found = anneal(problem(valleys, wide, 1), begun, torch.ones(1, 1).double(), 1, rng).samples()
    assert abs((found.u > 0).double().mean().item() - 1 / 3) < 0.12
    low, high = torch.quantile(found.u[:, 0], torch.tensor([0.025, 0.975]).double()).tolist()
    assert low < -6 and high > 6


def test_two_valleys_that_part_on_the_way_are_both_led_to_the_end():
    """Wide on the first frame, parted on the second, and a tenth as narrow on the third."""
    parted = lambda u: ((u[:, 0].abs() - 6) ** 2).nan_to_num()
    clip: Any = Costs(lambda u: (u[:, 0] / 8) ** 2, parted, lambda u: 100 * parted(u), n=1)
    rng = np.random.default_rng(4)
    begun = torch.tensor(8 * rng.standard_normal((160, 1)))
    cloud = anneal(clip, begun, torch.ones(1, 1).double(), 1, rng)
    found, followed = cloud.samples(), cloud.followed
    assert followed == 1.0 and abs((found.u > 0).double().mean().item() - 0.5) < 0.15
    assert abs((found.u.abs() - 6).std().item() - 0.1) < 0.02


def test_a_cloud_begins_with_all_of_the_ranges(monkeypatch):
    monkeypatch.setattr(smc, "anneal", lambda problem, cloud, axes, frames, rng: (cloud, frames))
    clip = problem(gaussian, n=1)
    clip.space.low, clip.space.high = torch.tensor([2.0]).double(), torch.tensor([6.0]).double()
    begun, first = smc._explore(clip, torch.eye(1).double(), np.random.default_rng(0))
    # uniform in 2 … 6: the mean of 32 is known to 0.2
    assert first == 0 and begun.min() > 2 and begun.max() < 6 and begun.mean().item() == pytest.approx(4, abs=0.6)


def test_a_cloud_over_the_ranges_comes_to_a_narrow_valley():
    """Ranges of 400 in two unknowns, and one frame with a Gaussian of σ = 1 to 1.4: 2e-5 of their area."""
    rng = np.random.default_rng(7)
    begun = torch.tensor(rng.uniform(-200, 200, (96, 2)))
    cloud = anneal(problem(gaussian), begun, torch.eye(2).double(), 0, rng)
    found, size = cloud.samples(), COVARIANCE.diagonal().sqrt()
    assert cloud.followed == 1
    # 96 samples resampled on the way tell a mean to some 0.2 σ and σ to 15 %
    assert ((found.u.mean(0) - CENTRE).abs() < 0.5 * size).all() and ((found.u.std(0) / size - 1).abs() < 0.4).all()


def teeth(u, frames):
    """χ² of frames, of which each cuts the valley that the one before has left into teeth, and is three times as steep.

    Frame k has the residuals 2·3ᵏ (sin 3ᵏu − sin 3ᵏū) of each of two unknowns, as chaos has.
    """
    truth, scale = torch.tensor([0.4, -0.7]).double(), [3**k for k in range(frames)]
    return sum((2 * a * (torch.sin(a * u) - torch.sin(a * truth))).square().sum(1) for a in scale)


@pytest.mark.slow
def test_frames_that_come_in_one_by_one_lead_to_the_valley_of_all_of_them(monkeypatch):
    """Where all six come in at once, clouds end in teeth that the last frames have: χ² of 5 to 300."""
    monkeypatch.setattr(smc, "RENEWED_VARIANCE", 0.0)  # to the end
    clip: Any = Costs(*(lambda u, k=k: teeth(u, k) for k in range(1, 7)))
    clip.space.low, clip.space.high = torch.full((2,), -1.5).double(), torch.full((2,), 1.5).double()
    for seed in range(5):
        rng = np.random.default_rng(seed)
        begun = torch.tensor(rng.uniform(-1.5, 1.5, (64, 2)))
        assert anneal(clip, begun, torch.eye(2).double(), 0, rng).best_cost < 1


@pytest.mark.slow
def test_a_cloud_that_moves_cannot_renew_keeps_to_the_frames_before():
    """Teeth of the last frames are 1/3⁹ apart, and their steepness picks one: clouds led on end in teeth without the truth."""
    clip: Any = Costs(*(lambda u, k=k: teeth(u, k) for k in range(1, 11)))
    clip.space.low, clip.space.high = torch.full((2,), -1.5).double(), torch.full((2,), 1.5).double()
    for seed in range(5):
        rng = np.random.default_rng(seed)
        cloud = anneal(clip, torch.tensor(rng.uniform(-1.5, 1.5, (64, 2))), torch.eye(2).double(), 0, rng)
        assert 0.2 < cloud.followed < 1 and not cloud.frozen and cloud.holds(torch.tensor([0.4, -0.7]).double())


def test_a_cloud_holds_what_999_of_1000_normal_clouds_hold():
    """χ² of two degrees of freedom is below 13.8 in 99.9 %: 3.7 σ, along an axis that is 1e-6 as long as the other, too."""
    rng = np.random.default_rng(18)
    size = torch.tensor([1e-3, 1e3]).double()
    cloud = smc.Cloud(problem(gaussian), size * torch.tensor(rng.standard_normal((4000, 2))), torch.eye(2), 1, 2, rng)
    for k in range(2):
        off = torch.zeros(2).double()
        off[k] = size[k]
        assert cloud.holds(3.4 * off) and not cloud.holds(4.0 * off)


@pytest.mark.parametrize("followed, share", [(0.5, 1), (0.1, 1), (1.0, 0.3)])
def test_samples_renewed_are_told_by_how_far_they_went(followed, share):
    """Of samples that are drawn anew the mean square of their way is twice the variance: along every direction, the least counts."""
    rng = np.random.default_rng(19)
    before, after = (torch.tensor(rng.standard_normal((20_000, 2))) for _ in range(2))
    stay = torch.tensor(rng.random((20_000, 1)) > followed)
    turned = torch.tensor([[0.6, -0.8], [0.8, 0.6]]).double()
    way = torch.where(stay, before, after)
    way[:, 1] = before[:, 1] * math.sqrt(1 - share**2) + share * way[:, 1] if share < 1 else way[:, 1]
    expected = followed if share == 1 else 1 - math.sqrt(1 - share**2)
    cloud = smc.Cloud(problem(gaussian), way @ turned, torch.eye(2), 1, 2, rng)
    assert cloud._renewed(before @ turned) == pytest.approx(expected, rel=0.15)  # the least of two, of 2 000 draws


def test_as_many_frames_come_in_at_once_as_leave_half_of_the_cloud(monkeypatch):
    """Of a normal cloud a share of √(1 + 2s)/(1 + s) counts where s u² comes in: half at s = 6.46, and each frame adds 1/4."""
    clip: Any = Costs(*(lambda u, k=k: k * (u[:, 0] / 2) ** 2 for k in range(60)), n=1)
    normal = torch.special.ndtri((torch.arange(4000).double() + 0.5) / 4000)[:, None]
    cloud = smc.Cloud(clip, normal, torch.eye(1).double(), 1, 2, np.random.default_rng(0))
    monkeypatch.setattr(smc, "MAX_NEW_FRAMES", 100)
    cloud.take_in()
    assert cloud.goal == 1 + 25


def test_a_direction_that_nothing_tells_is_filled_though_the_cloud_began_thin():
    """Along the second unknown the cost is flat; axes are 5 wide there, and some 20 moves walk as far as √20/2 of them."""
    rng = np.random.default_rng(5)
    flat = lambda u: u[:, 0] ** 2
    begun = torch.tensor(rng.standard_normal((64, 2))) * torch.tensor([1.0, 1e-3])
    found = anneal(problem(flat), begun, torch.diag(torch.tensor([1.0, 5.0])).double(), 1, rng).samples()
    assert found.u[:, 1].std() > 3


def test_a_likelihood_that_cannot_be_explored_keeps_the_width_it_came_to():
    """A needle 1e-20 wide. A step that leaves half of a cloud in a plane counting makes χ² 3.4 times as steep, 40 of them
    1e21 times, but 1e42 times is asked for."""
    needle = lambda u: 1e40 * gaussian(u)
    wide = lambda u: gaussian(u) / 100
    rng = np.random.default_rng(6)
    begun = CENTRE + 10 * torch.tensor(rng.standard_normal((64, 2)))
    cloud = anneal(problem(needle, wide), begun, torch.eye(2).double(), 1, rng)
    found, followed = cloud.samples(), cloud.followed
    assert followed < 1 and found.u.std(0).min() > 1e-18


def bent(u):
    """χ² of residuals u₀ and 100 (u₁ − u₀²): a valley of length 1, σ = 0.01 wide, that bends."""
    return u[:, 0] ** 2 + (100 * (u[:, 1] - u[:, 0] ** 2)) ** 2


def test_a_narrow_valley_that_bends_is_sampled_along_its_whole_length(monkeypatch):
    """E u₀² = 1 and E u₁ = 1, exactly. Without Langevin steps differences leave the valley, and the cloud shrinks."""
    monkeypatch.setattr(smc, "RENEWED_VARIANCE", 0.0)  # to the end
    monkeypatch.setattr(smc, "CLOUD_SIZE", (32, 32))
    rng = np.random.default_rng(9)
    u0, moments = torch.tensor(3 * rng.standard_normal((96, 1))), []
    begun = torch.cat([u0, u0**2 + 3 * torch.tensor(rng.standard_normal((96, 1)))], 1)
    for _ in range(4):
        cloud = anneal(problem(bent, lambda u: bent(u) / 1e4), begun, torch.eye(2).double(), 1, rng)
        found, followed = cloud.samples(), cloud.followed
        assert followed == 1
        moments.append([found.u[:, 0].square().mean().item(), found.u[:, 1].mean().item()])
    # 96 samples tell a variance to √(2/96) = 14 %, four such clouds to 7 %, and resampling makes many of them alike
    assert np.mean(moments, 0) == pytest.approx([1, 1], abs=0.3)


def test_langevin_steps_count_the_change_of_their_metric():
    """r = 3 (eᵘ − 1): the information 9 e²ᵘ varies by 30 within the posterior, p(u) = exp(−r²/2) is integrated by sums."""
    whole = lambda u: 9 * torch.expm1(u[:, 0]) ** 2
    line = torch.linspace(-4, 1.5, 20_001).double()[:, None]
    weight = torch.softmax(-whole(line) / 2, 0)
    mean = (weight @ line).item()
    cloud = smc.Cloud(problem(whole, n=1), line[systematic(weight, 400, np.random.default_rng(1))], torch.eye(1), 1, 2,
                       np.random.default_rng(2))  # fmt: skip
    cloud.power = 0.0  # all of χ² is in the part
    for propose in ("_difference", "_along_axis"):
        setattr(cloud, propose, lambda *_: cloud.u)
    draws = torch.cat(cloud.move(40))
    assert draws.mean().item() == pytest.approx(mean, abs=0.05)


def test_the_value_stated_with_samples_is_central_and_one_of_them():
    """Two valleys: the mean lies on the ridge between, the deepest point in a tail."""
    rng = np.random.default_rng(3)
    valleys = torch.cat([torch.tensor(rng.normal(at, 0.1, (500, 1))) for at in (-1.0, 2.0)])
    best = torch.tensor([2.4]).double()
    value = smc.central(valleys, best)
    assert (valleys == value).all(1).any() and abs(value - valleys.mean(0)) < 1.5
    whole = torch.tensor(rng.standard_normal((500, 2))) @ torch.tensor([[1.0, 0.999], [0.0, 0.04]]).double()
    assert torch.equal(smc.central(whole, whole.mean(0)), whole.mean(0))  # the minimum, where that is central


def test_explorations_that_disagree_make_error_bars_that_hold_the_truth():
    """Ends of four explorations scatter with 1 about a truth, their clouds with 0.01: 95 % of 400 intervals hold it."""
    rng, hits = np.random.default_rng(11), []
    for _ in range(400):
        ends = torch.tensor(rng.standard_normal((4, 1)))
        scatter = lambda end: end + 0.01 * torch.tensor(rng.standard_normal((1000, 1)))
        clouds = [Samples(scatter(end), end, 0.0, 0.5) for end in ends[1:]]
        found = smc.pool(clouds, ends[:1], rng)
        low, high = torch.quantile(found.u[:, 0], torch.tensor([0.025, 0.975]).double()).tolist()
        hits.append(low < 0 < high)
    # 400 tell a share to 1.1 %; Student's prediction is of a further end, the truth is their mean: it holds more often
    assert not found.agreed and 0.95 - 0.03 < np.mean(hits) <= 1


class GivenCloud:
    """A cloud about a place, that came to a point of some cost there."""

    def __init__(self, place, least, rng, followed=1.0, doubtful=False):
        self.followed, self.least, self.best_cost, self.doubtful = followed, least, least, doubtful
        self.u, self.best = place + torch.tensor(rng.standard_normal((100, 2))), place
        self.problem = problem(gaussian)

    def passed(self):
        return self.u

    def meet(self, u, cost):
        self.best_cost = min(self.best_cost, cost.min().item())

    holds = smc.Cloud.holds

    def restart(self, u):
        self.u = u

    def samples(self, valleys=None):
        return Samples(self.u, self.best, self.best_cost, 0.5)


FIRST, SECOND = (torch.tensor(at).double() for at in ((1.0, -2.0), (40.0, -2.0)))


@pytest.mark.parametrize("clouds, search, count, agreed", [
    ([(FIRST, 0.5)], 0.0, 1, True),  # about the minimum of the search
    ([(FIRST, 9.0)], 0.0, 1, True),  # it met a better one besides, of the same teeth
    ([(SECOND, 0.1)], 0.0, 3, False),  # as good, and elsewhere
    ([(SECOND, 40.0), (SECOND, 39.5)], 0.0, 2, True),  # the search was stuck, and another cloud came where the first did
    ([(SECOND, -40.0), (FIRST, 0.3)], 0.0, 2, True),  # the first was stuck
    ([(SECOND, -40.0)], 0.0, 3, False),
    ([(SECOND, 40.0), (FIRST, 39.0), (FIRST, 39.0)], 0.0, 3, False),  # none holds both
])  # fmt: skip
def test_more_clouds_are_drawn_until_one_holds_what_others_came_to(monkeypatch, clouds, search, count, agreed):
    """Place of each cloud, the last one for all that follow, and how far below the answer of the search its minimum is."""
    made: list[GivenCloud] = []

    def explore(clip, axes, rng):
        place, depth = clouds[min(len(made), len(clouds) - 1)]
        made.append(GivenCloud(place, search - depth, rng))
        return made[-1]

    def find(clip, starts):
        ends = [(FIRST, search)] if len(starts) < 100 else []
        ends += [(one.u[0], one.least) for one in (made if len(starts) < 100 else made[-1:])]
        u, cost = torch.stack([end for end, _ in ends]), torch.tensor([c for _, c in ends]).double()
        rows = cost.argsort()
        return Valleys(u[rows], cost[rows], PRECISION.expand(len(u), 2, 2), torch.ones(len(u)))

    clip = problem(gaussian)
    monkeypatch.setattr(smc, "_explore", explore)
    monkeypatch.setattr(smc, "find_valleys", find)
    samples, followed = smc.posterior(clip, FIRST, torch.eye(2).double(), np.random.default_rng(0))
    assert len(made) == count and samples.agreed is agreed and followed == 1


def test_a_cloud_that_ends_early_is_believed_if_it_holds_what_another_exploration_met(monkeypatch):
    cloud = GivenCloud(FIRST, 0.5, np.random.default_rng(0), followed=0.5)
    monkeypatch.setattr(smc, "_explore", lambda *_: cloud)
    monkeypatch.setattr(
        smc, "find_valleys", lambda *_: Valleys(FIRST[None], torch.zeros(1), PRECISION[None], torch.ones(1))
    )
    samples, followed = smc.posterior(problem(gaussian), FIRST, torch.eye(2).double(), np.random.default_rng(0))
    assert samples.agreed and followed == 0.5


@pytest.mark.parametrize("followed, count", [(1.0, 1), (0.5, 3)])
def test_a_valley_that_a_cloud_lists_is_explored_where_its_samples_are_of_the_whole_clip(monkeypatch, followed, count):
    """The search ended in the valley FIRST, about as deep; the cloud is about SECOND, and least squares from it come to both."""
    made: list[GivenCloud] = []

    def explore(*_):
        made.append(GivenCloud(SECOND, 0.0, np.random.default_rng(0), followed))
        return made[-1]

    both = Valleys(torch.stack([SECOND, FIRST]), torch.tensor([0.0, 1.0]), PRECISION.expand(2, 2, 2), torch.ones(2))
    monkeypatch.setattr(smc, "_explore", explore)
    monkeypatch.setattr(smc, "find_valleys", lambda *_: both)
    samples, _ = smc.posterior(problem(gaussian), FIRST, torch.eye(2).double(), np.random.default_rng(0))
    assert len(made) == count and samples.agreed is (count == 1)


@pytest.mark.parametrize("narrow, count", [(1e3, 2), (1.0, 3)])
def test_no_cloud_has_to_know_a_valley_without_mass(monkeypatch, narrow, count):
    """The search was stuck. The first cloud also lists FIRST, as deep as SECOND, where the second cloud is and which it alone lists."""
    made: list[GivenCloud] = []

    def explore(*_):
        made.append(GivenCloud(SECOND, -50.0, np.random.default_rng(0)))
        return made[-1]

    def find(clip, starts):
        rows = 2 if len(made) == 1 or len(starts) < 100 else 1
        information = torch.stack([PRECISION, narrow**2 * PRECISION])
        return Valleys(
            torch.stack([SECOND, FIRST])[:rows], torch.full((rows,), -50.0), information[:rows], torch.ones(rows)
        )

    monkeypatch.setattr(smc, "_explore", explore)
    monkeypatch.setattr(smc, "find_valleys", find)
    samples, _ = smc.posterior(problem(gaussian), CENTRE, torch.eye(2).double(), np.random.default_rng(0))
    assert len(made) == count and samples.agreed is (count == 2)


@pytest.mark.parametrize("doubtful, count", [((True, False), 2), ((True, True), 2), ((False, False), 1)])
def test_a_cloud_that_was_not_renewed_on_its_way_needs_another_one_to_confirm_it(monkeypatch, doubtful, count):
    """The minimum of the search may be where the cloud was trapped, for it met the same teeth."""
    made: list[GivenCloud] = []

    def explore(*_):
        made.append(GivenCloud(FIRST, 0.5, np.random.default_rng(0), followed=0.5, doubtful=doubtful[len(made)]))
        return made[-1]

    monkeypatch.setattr(smc, "_explore", explore)
    monkeypatch.setattr(
        smc, "find_valleys", lambda *_: Valleys(FIRST[None], torch.zeros(1), PRECISION[None], torch.ones(1))
    )
    samples, _ = smc.posterior(problem(gaussian), FIRST, torch.eye(2).double(), np.random.default_rng(0))
    assert samples.agreed and len(made) == count


def test_clouds_are_larger_while_frames_are_few():
    clip: Any = Costs(*[gaussian] * 24)
    assert [smc.cloud_size(clip, k) for k in (1, 4, 12, 24)] == [384, 384, 128, 64]


def test_a_valley_that_the_cloud_loses_on_the_way_has_its_share(monkeypatch):
    """The part favours the left one of two valleys by χ² = 8, so that few of the cloud are in the narrower right one, which has half of
    the mass at the end."""
    left, right = (-0.6, 0.1), (0.6, 0.05)
    part = lambda u: parabolas(u, (*left, 0), (*right, 8))
    clip = problem(lambda u: parabolas(u, (*left, 10 * np.log(2)), (*right, 0)), part, 5)
    rng, alone, joined = np.random.default_rng(12), [], []

    def explore(clip, axes, rng):
        right = torch.arange(96)[:, None] < 2
        begun = torch.where(right, 0.6, -0.6) + torch.where(right, 0.05, 0.1) * torch.tensor(
            rng.standard_normal((96, 5))
        )
        cloud = anneal(clip, begun, axes, 1, rng)
        alone.append((cloud.u[:, 0] > 0).double().mean().item())
        return cloud

    monkeypatch.setattr(smc, "_explore", explore)
    for _ in range(4):
        found, _ = smc.posterior(clip, torch.full((5,), -0.6).double(), 100 * torch.eye(5).double(), rng)
        joined.append((found.u[:, 0] > 0).double().mean().item())
    assert np.abs(np.subtract(joined, 0.5)).max() < 0.12 and np.abs(np.subtract(alone, 0.5)).max() > 0.12


def test_jumps_give_valleys_their_masses_where_the_cloud_has_none_of_one():
    """Samples of the left valley only, and no move but jumps leads to the right one, which has a third of the mass."""
    clip = problem(lambda u: parabolas(u, (-60, 1, 5), (60, 0.5, 5)), n=1)
    rng = np.random.default_rng(13)
    begun = -60 + torch.tensor(rng.standard_normal((300, 1)))
    cloud = smc.Cloud(clip, begun, torch.eye(1).double(), 1, 2, rng)
    mixture = StudentMixture(
        torch.tensor([0.5, 0.5]).double(),
        torch.tensor([[-60.0], [60.0]]).double(),
        torch.tensor([[[1.5]], [[0.5]]]).double(),
    )
    draws = cloud.move(12, mixture)
    assert (torch.cat(draws[-20:]) > 0).double().mean().item() == pytest.approx(1 / 3, abs=0.08)
    assert (torch.cat(cloud.move(2)) > 0).double().mean().item() == pytest.approx(1 / 3, abs=0.08)


def test_draws_about_the_valleys_that_count_well_are_the_samples():
    """Of a Gaussian half of 800 draws of Student's t count: moments to some 10 %, and its interval to 0.3 σ. No move is made."""
    cloud = smc.Cloud(problem(gaussian), CENTRE.repeat(50, 1), torch.eye(2).double(), 1, 2, np.random.default_rng(15))
    cloud.move = lambda *_: pytest.fail("a move was made")
    mixture = StudentMixture.single(CENTRE, torch.linalg.cholesky(COVARIANCE))
    found = smc._Mapped(cloud, mixture).samples(np.random.default_rng(16))
    size = COVARIANCE.diagonal().sqrt()
    assert len(found.u) == COPIES * smc.VALLEY_DRAWS and found.best_cost < 0.1
    assert ((found.u.mean(0) - CENTRE).abs() < 0.2 * size).all()
    ends = torch.quantile((found.u - CENTRE) / size, torch.tensor([0.025, 0.975]).double(), dim=0)
    assert (ends.abs() - 1.96).abs().max() < 0.4


def test_draws_that_count_badly_are_moved(monkeypatch):
    """No draws count so well as is asked for."""
    cloud = smc.Cloud(problem(gaussian), CENTRE.repeat(50, 1), torch.eye(2).double(), 1, 2, np.random.default_rng(17))
    moves = []
    move = cloud.move
    cloud.move = lambda *a: moves.append(a) or move(*a)
    monkeypatch.setattr(smc, "ENOUGH_VALLEY_EFFECTIVE", 2.0)
    mixture = StudentMixture.single(CENTRE, torch.linalg.cholesky(COVARIANCE))
    found = smc._Mapped(cloud, mixture).samples(np.random.default_rng(16))
    assert moves and len(found.u) > smc.VALLEY_DRAWS


@pytest.mark.parametrize("agreed", [True, False])
def test_samples_of_fine_steps_come_from_the_valleys_of_coarse_ones(monkeypatch, agreed):
    """Coarse steps move two valleys by 1, a hundred of their σ, and turn their masses 1 : 2 about; fine ones have 2 : 1."""
    places = (-40, 0.01, 1e-9), (40, 0.02, 1e-9)
    fine = problem(lambda u: parabolas(u, *places), n=1)
    coarse = problem(lambda u: parabolas(u, (-39, 0.02, 1e-9), (41, 0.01, 1e-9)), n=1)
    rng = np.random.default_rng(14)

    def explore(clip, axes, rng):
        assert clip is coarse
        begun = torch.where(torch.arange(96) < 48, -39.0, 41.0)[:, None] + 0.01 * torch.tensor(
            rng.standard_normal((96, 1))
        )
        cloud = anneal(clip, begun, axes, 1, rng)
        if not agreed:
            cloud.power = 0.5
        return cloud

    monkeypatch.setattr(smc, "_explore", explore)
    found, followed = smc.posterior(fine, torch.tensor([40.0]).double(), 1e4 * torch.eye(1).double(), rng, coarse)
    right = found.u[:, 0] > 0
    assert (found.u[right] - 40).abs().max() < 0.2 and (found.u[~right] + 40).abs().max() < 0.2
    if agreed:
        assert followed == 1 and right.double().mean().item() == pytest.approx(2 / 3, abs=0.1)
    else:
        assert followed == 0.75 and found.best.item() == 40.0 and found.best_cost == pytest.approx(1e-9)


def test_weights_sample_the_valley_that_several_starts_came_to():
    """400 draws from Student's t about the minimum tell mean and σ to 20 %."""
    ends = CENTRE + 0.01 * torch.tensor(np.random.default_rng(2).standard_normal((4, 2)))
    found = smc.confirmed_posterior(problem(gaussian), ends, 4, np.random.default_rng(3))
    size = COVARIANCE.diagonal().sqrt()
    assert found is not None and found.agreed and found.best_cost < 1e-4
    assert ((found.u.mean(0) - CENTRE).abs() < 0.2 * size).all()
    assert ((found.u.std(0) / size - 1).abs() < 0.2).all()


def test_weights_do_not_speak_for_a_valley_that_few_came_to_nor_for_teeth():
    rng, ends = np.random.default_rng(3), CENTRE.expand(4, 2)
    assert smc.confirmed_posterior(problem(gaussian), ends, smc.MIN_FINDERS - 1, rng) is None
    teeth = lambda u: gaussian(u) + 60 * (30 * u[:, 0]).sin().square()
    assert smc.confirmed_posterior(problem(teeth), ends, 4, rng) is None


def test_a_cloud_says_how_far_it_is():
    said, clip = [], problem(gaussian, lambda u: gaussian(u) / 100)
    clip.effort.fraction = lambda finished, total: said.append((finished, total))
    rng = np.random.default_rng(3)
    anneal(clip, CENTRE + 10 * torch.tensor(rng.standard_normal((64, 2))), torch.eye(2).double(), 0, rng)
    assert said == [(1, 2)]
