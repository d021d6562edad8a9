"""Two clips of one box: one flies after a known push, the other slides. Only both tell mass and friction."""

import numpy as np
import pytest
import torch
from checks import error
from tolerances import ROUNDING, SOLVED, near

from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.identification.api import identify
from gradsim.identification.multi_clip import JointProblem, SharedSpace, clip_values, identify_many, joint_problem
from gradsim.identification.uncertainty.fisher import KNOWN, analyze
from gradsim.identification.unknowns import Unknown
from gradsim.scene import Scene

BOX = {"shape": {"box": {"size": [0.5, 0.4, 0.3]}}, "mass": 4.0, "colour": [0.1, 0.2, 0.6]}
SEEN = {
    "camera": {"size": [24, 24], "look_at": {"eye": [0.2, -4, 0.8], "target": [0.2, 0, 0.6], "fov": 0.7}},
    "background": [1, 1, 1],
}
PUSH = {"impulse": [2, 0.5, 6], "point": [-0.2, 0.1, 0.05]}
MASS, FRICTION = "cube.mass:1:8", "ground.friction:0.1:1"
TRUTH = {"cube.mass": 3.1, "ground.friction": 0.31}


def flight(frames: int = 8) -> Scene:
    cube = {**BOX, "position": [-0.4, 0, 0.6], "pushes": [PUSH]}
    return Scene.parse({**SEEN, "timing": {"fps": 20, "frames": frames, "substeps": 8}, "bodies": {"cube": cube}})


def slide(frames: int = 12) -> Scene:
    cube = {**BOX, "position": [-0.6, 0, 0.1501], "velocity": [2.4, 0, 0]}
    ground = {"stiffness": 2e5, "dissipation": 1, "friction_stiffness": 200, "friction": 0.4}
    timing = {"fps": 20, "frames": frames, "substeps": 60}
    return Scene.parse({**SEEN, "timing": timing, "bodies": {"cube": cube}, "ground": ground})


def recorded(scenes, unknowns, truth) -> list:
    """Float silhouettes of each clip with the true values."""
    found = []
    for k, scene in enumerate(scenes):
        mine = clip_values(scene, truth, k + 1)
        found.append(synthetic.float_masks(scene, synthetic.simulate(scene, _ranges(unknowns, mine), mine)[1]))
    return found


def _ranges(unknowns, mine) -> list[str]:
    """The unknowns of one clip, as text."""
    ranges = {u.partition(":")[0].partition("@")[0]: u.partition(":")[2] for u in unknowns}
    return [f"{name}:{ranges.get(name) or ranges[name.rpartition('.')[0]]}" for name in mine]


@pytest.fixture(scope="module")
def both() -> JointProblem:
    scenes = [flight(), slide()]
    return joint_problem(scenes, recorded(scenes, [MASS, FRICTION], TRUTH), SharedSpace(scenes, [MASS, FRICTION]))


def inner(problem: JointProblem, truth) -> torch.Tensor:
    return problem.space.inner(torch.tensor([[truth[n] for n in problem.space.names]]).double())


def test_neither_clip_alone_identifies_mass_and_friction_but_both_do(both):
    free, sliding = (problem.observation for problem in both.problems)
    second = both.problems[1]
    alone = analyze(second.space, second.linearize(inner(both, TRUTH), 12)[1][0], has_push=False)
    assert alone.relative[0] > KNOWN > alone.relative[1] and alone.rank == 1
    with pytest.raises(InputError, match="no parameter `ground.friction`"):  # nothing to slide on
        identify(flight(), [MASS, FRICTION], observation=free)
    fit = identify_many([flight(), slide()], [MASS, FRICTION], observations=[free, sliding], starts=4)
    assert fit.status == "ok" and fit.starts["converged"] >= 3
    assert fit.values == near(TRUTH, SOLVED)


def test_cost_and_derivatives_are_those_of_the_residuals_of_both_clips(both):
    u = inner(both, TRUTH) + torch.tensor([[0.1, -0.2], [-0.05, 0.1]]).double()
    cost, A, g = both.linearize(u, both.frames)
    r, J = (torch.cat(part, 1) for part in zip(*both.jacobian(u, both.frames), strict=True))
    assert r.shape[1] == (8 + 12) * 24 * 24 and torch.equal(
        J[:, : 8 * 24 * 24, 1], torch.zeros(2, 8 * 24 * 24).double()
    )
    assert error(r, both.residuals(u)) < 1e-9
    assert error(cost, r.square().sum(1)) < 1e-9 and error(both.cost(u, both.frames), cost) < 1e-9
    assert error(A, J.mT @ J) < 1e-9 and error(g, (J.mT @ r[..., None])[..., 0]) < 1e-9


def test_a_clip_that_is_over_does_not_grow(both):
    u = inner(both, TRUTH) + 0.1
    first, second = both.problems
    assert both.cost(u, 10).item() == near((first.cost(u[:, :1], 8) + second.cost(u, 10)).item(), ROUNDING)


def test_a_prior_counts_once(both):
    scenes, prior = [flight(), slide()], Unknown("cube.mass", 1, 8, (1.0, 0.1))
    space = SharedSpace(scenes, [prior, FRICTION])
    with_prior = JointProblem(both.problems, space)
    u = inner(both, TRUTH) + 0.2
    pull = (u[0, 0].item() - 1.0) / 0.1
    assert (with_prior.cost(u, 12) - both.cost(u, 12)).item() == pytest.approx(pull**2)
    for own, bare, added in zip(
        with_prior.linearize(u, 12), both.linearize(u, 12), (pull**2, 100, pull / 0.1), strict=True
    ):
        assert (own - bare).flatten()[0].item() == pytest.approx(added, rel=1e-6)


def test_what_follows_the_at_says_whose_the_unknown_is():
    scenes = [flight(), slide(), flight()]
    space = SharedSpace(scenes, [MASS, "cube.velocity@each:-3:3", "cube.position.x@2:-1:1", FRICTION])
    velocities = [f"cube.velocity.{axis}@{k}" for k in (1, 2, 3) for axis in "xyz"]
    assert space.names == ["cube.mass", *velocities, "cube.position.x@2", "ground.friction"]
    assert [own.names for own in space.by_clip] == [
        ["cube.mass", "cube.velocity.x", "cube.velocity.y", "cube.velocity.z"],
        ["cube.mass", "cube.velocity.x", "cube.velocity.y", "cube.velocity.z", "cube.position.x", "ground.friction"],
        ["cube.mass", "cube.velocity.x", "cube.velocity.y", "cube.velocity.z"],
    ]
    assert [c.tolist() for c in space.columns] == [[0, 1, 2, 3], [0, 4, 5, 6, 10, 11], [0, 7, 8, 9]]
    values = dict(zip(space.names, range(12), strict=True))
    assert clip_values(scenes[1], values, 2) == dict(
        zip(space.by_clip[1].names, space.columns[1].tolist(), strict=True)
    )


def test_ties_hold_within_a_clip():
    space = SharedSpace([flight(), slide()], ["cube.position.x=cube.position.y@each:-1:1"])
    assert space.names == ["cube.position.x=cube.position.y@1", "cube.position.x=cube.position.y@2"]


@pytest.mark.parametrize(
    ("unknowns", "words"),
    [
        (["cube.mas"], r"no parameter `cube.mas`; did you mean `cube.mass`\?"),
        (["cube.velocity@3:-1:1"], r"names no clip: write cube.velocity@1 to cube.velocity@2, cube.velocity@each for"),
        (["cube.velocity@slide:-1:1"], "names no clip"),
        ([FRICTION], "clip 1 has no unknown"),
        ([MASS, "cube.mass@2"], "`cube.mass` is named twice"),
        (["cube.velocity@each"], r"`cube.velocity.x` needs a range|cube.velocity"),
    ],
)
def test_unknowns_of_several_clips_that_are_wrong(unknowns, words):
    with pytest.raises(InputError, match=words):
        SharedSpace([flight(), slide()], unknowns)


def test_clips_that_do_not_match_their_scenes_are_refused():
    with pytest.raises(InputError, match="2 scenes and 1 clips"):
        identify_many([flight(), slide()], [MASS], clips=["a.webm"])
    with pytest.raises(InputError, match="exactly one of"):
        identify_many([flight()], [MASS])


def test_starts_are_drawn_over_all_ranges():
    space = SharedSpace([flight(), flight()], [MASS, "cube.velocity.x@each:-3:3"])
    drawn = space.numbers(space.draw(np.random.default_rng(0), 400))
    assert drawn.shape == (400, 3)
    low, high = torch.tensor([[1, -3, -3], [8, 3, 3]]).double()
    assert ((drawn > low) & (drawn < high)).all() and (
        (drawn.mean(0) - (low + high) / 2).abs() < 0.1 * (high - low)
    ).all()
