"""Actuation over time: a value for each frame interval, and rollouts that go on from a state."""

import implicit_cases
import particle_cases as cases
import pytest
import soft_cases
import torch
from checks import dot_product_errors, error, gradients, weights

from gradsim.engine.lanes import Lane, native_width
from gradsim.engine.mapping import InElements, Threads, Worlds
from gradsim.errors import InputError
from gradsim.physics.model import Divergence, Model
from gradsim.physics.rollout_inputs import RangeCheck

name = lambda mapping: f"{mapping.name} {mapping.lane.name}"
NARROW = Worlds(Lane("float64", 1))  # nothing chooses it by itself
MAPPINGS = [
    pytest.param(NARROW, marks=pytest.mark.slow, id=name(NARROW)),
    Worlds(Lane("float64", native_width("float64"))),
    InElements(Lane("float64", native_width("float64"))),
    Threads(Lane("float64", 1)),
    InElements(Lane("float32", native_width("float32"))),
]
ACTIVATION, NORMAL = 7, 8  # places among the inputs
WITHIN = {"float64": 1e-12, "float32": 1e-4}


def timed(given: list[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """A value of the activation and of μ for each interval and element, and of the ground's normal for each interval."""
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    intervals, found = given[-1].shape[1], list(given)
    found[4] = given[4][:, None] * (1 + 0.1 * normal(3, intervals, given[4].shape[1]).abs())
    found[ACTIVATION] = 0.05 * normal(3, intervals, given[ACTIVATION].shape[1])
    found[NORMAL] = torch.nn.functional.normalize(given[NORMAL][:, None] + 0.1 * normal(3, intervals, 1, 3), dim=-1)
    return found


def one_by_one(program, given: list[torch.Tensor]) -> list[torch.Tensor]:
    """The same rollout of three worlds as a chain of rollouts over one interval each."""
    states, frames = given[:2], [given[:2]]
    for k in range(given[-1].shape[1]):
        each = list(given[2:-1])
        for place in (4, ACTIVATION, NORMAL):
            each[place - 2] = given[place][:, k] if given[place].ndim > (3 if place == NORMAL else 2) else given[place]
        states = [y[:, -1] for y in program.run(*states, *each, given[-1][:, k : k + 1])]
        frames.append(states)
    return [torch.stack(y, 1) for y in zip(*frames, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True], ids=["own values", "one for all elements"])
@pytest.mark.parametrize("mapping", MAPPINGS, ids=name)
def test_values_in_time_act_each_in_its_interval(mapping, shared):
    to = lambda ys: [y.to(getattr(torch, mapping.lane.dtype)) for y in ys]
    given = to(timed(cases.inputs(3, seed=2, shared=shared), seed=3))
    chain = lambda *ys: one_by_one(cases.program(mapping, frames=2), list(ys))
    program = cases.program(mapping)
    expected = chain(*given)
    adjoints = weights(expected, seed=4)
    within = WITHIN[mapping.lane.dtype]
    assert max(error(a, b) for a, b in zip(program.run(*given), expected, strict=True)) < within
    found, slopes = gradients(program.run, given, adjoints), gradients(chain, given, adjoints)
    assert slopes[ACTIVATION].any() and slopes[NORMAL].any(), "a state that shows nothing"
    assert max(error(a, b) for a, b in zip(found, slopes, strict=True)) < within


@pytest.mark.parametrize("mapping", MAPPINGS[:4], ids=name)
def test_adjoint_of_values_in_time_is_the_transpose_of_the_tangent(mapping):
    given, program = timed(cases.inputs(3, seed=4), seed=5), cases.program(mapping)
    adjoints = weights(program.forward(given), seed=6)
    gradient = program.backward(given, program.forward(given), adjoints)
    tangent = lambda x, v: [t for _, t in program.tangent(x, v)]
    assert max(dot_product_errors(tangent, gradient, given, adjoints, seed=7)) < 1e-12


@pytest.mark.slow
def test_values_in_time_of_implicit_steps_act_each_in_its_interval():
    given = implicit_cases.inputs(3, seed=2)
    generator = torch.Generator().manual_seed(8)
    intervals = given[-1].shape[1]
    given[ACTIVATION] = 0.05 * torch.randn(3, intervals, 1, generator=generator, dtype=torch.float64)
    mapping = InElements(Lane("float64", native_width("float64")))  # whose kernels other tests need, too
    chain = lambda *ys: one_by_one(implicit_cases.program(mapping, frames=2), list(ys))
    run = implicit_cases.program(mapping).run
    expected = chain(*given)
    adjoints = weights(expected, seed=9)
    assert max(error(a, b) for a, b in zip(run(*given), expected, strict=True)) < 1e-9  # of the solves
    pairs = zip(gradients(run, given, adjoints), gradients(chain, given, adjoints), strict=True)
    assert max(error(a, b) for a, b in pairs) < 1e-8


@pytest.mark.parametrize("kind", ["solid", "cloth", "net"])
def test_model_goes_on_from_a_state(kind):
    key = {"solid": "activation", "cloth": "bending_activation", "net": "rest_length_factor"}[kind]
    scene = getattr(soft_cases, kind)()
    model, (body,) = Model(scene), scene.bodies
    frames, key = scene.timing.frames, f"{body}.{key}"
    generator = torch.Generator().manual_seed(1)
    shape = (2, frames - 1, model.kinds[key].elements)
    value = 1.0 * (kind == "net") + 0.1 * torch.randn(shape, generator=generator, dtype=torch.float64)
    whole = model.rollout({key: value})[body]
    states = {body: {y: whole[y][:, 0] for y in ("x", "v")}}
    for k in range(frames - 1):
        one = model.rollout({key: value[:, k : k + 1]}, frames=2, start=states)
        states = {body: {y: one[body][y][:, -1] for y in ("x", "v")}}
    for y in ("x", "v"):
        assert error(states[body][y], whole[y][:, -1]) < 1e-12
    still = model.rollout({key: value[:, :1].expand(shape)})[body]
    assert error(still["x"][:, -1], whole["x"][:, -1]) > 1e-6, "values that show nothing"


def test_a_clock_that_begins_before_the_first_frame_begins_with_the_first_value():
    scene = soft_cases.solid()
    model, (body,) = Model(scene), scene.bodies
    key, frames = f"{body}.activation", scene.timing.frames
    value = torch.linspace(-0.1, 0.1, frames - 1, dtype=torch.float64)[None, :, None]
    offset = {"timing.offset": torch.tensor([0.5 / scene.timing.fps], dtype=torch.float64)}
    late = model.rollout({key: value, **offset}, frames)[body]["x"]
    early = model.rollout({key: value[:, :1].expand(-1, 1, -1), **offset}, 2)[body]["x"]
    assert error(late[:, 1], early[:, 1]) < 1e-12


def test_values_in_time_of_another_number_of_intervals_are_refused():
    scene = soft_cases.solid()
    model, (body,) = Model(scene), scene.bodies
    with pytest.raises(InputError, match=rf"is given for 2 frame intervals; {scene.timing.frames} frames have"):
        model.rollout({f"{body}.activation": torch.zeros(1, 2, 1, dtype=torch.float64)})


def test_values_in_time_of_what_is_no_actuation_are_refused():
    scene = soft_cases.solid()
    model, (body,) = Model(scene), scene.bodies
    with pytest.raises(InputError, match="density` is given with shape"):
        model.rollout({f"{body}.density": torch.ones(1, scene.timing.frames - 1, 1, dtype=torch.float64)})


def test_divergence_under_values_in_time_names_the_step(monkeypatch):
    monkeypatch.setattr(RangeCheck, "check", lambda *_: None)  # none of its range diverges
    scene = soft_cases.solid()
    model, (body,) = Model(scene), scene.bodies
    value = torch.zeros(1, scene.timing.frames - 1, 1, dtype=torch.float64)
    value[:, 1:] = 1e200
    with pytest.raises(Divergence) as raised:
        model.rollout({f"{body}.activation": value})
    step = int(str(raised.value).split("from step ")[1].split()[0])
    assert model.substeps < step <= 2 * model.substeps


def test_a_start_that_is_not_finite_is_told_under_values_in_time():
    scene = soft_cases.solid()
    model, (body,) = Model(scene), scene.bodies
    value = torch.zeros(1, 2, 1, dtype=torch.float64)
    states = {body: {y: z[:, 0].clone() for y, z in model.rollout(frames=1)[body].items()}}
    states[body]["v"][0, 3, 1] = torch.nan
    with pytest.raises(Divergence, match="from step 0 on"):
        model.rollout({f"{body}.activation": value}, 3, start=states)


def test_a_start_alone_takes_values_in_time_of_no_interval():
    scene = soft_cases.solid()
    model, (body,) = Model(scene), scene.bodies
    value = torch.zeros(2, 0, model.kinds[f"{body}.activation"].elements, dtype=torch.float64)
    assert error(model.rollout({f"{body}.activation": value}, 1)[body]["x"], model.rollout(frames=1)[body]["x"]) == 0


def test_a_start_of_other_worlds_than_are_given_is_refused():
    scene = soft_cases.solid()
    model, (body,) = Model(scene), scene.bodies
    states = {body: {y: z[:, 0].expand(2, -1, -1) for y, z in model.rollout(frames=1)[body].items()}}
    given = {f"{body}.activation": torch.zeros(3, 2, 1, dtype=torch.float64)}
    with pytest.raises(InputError, match=rf"for 3 worlds, and `{body}.x` for 2"):
        model.rollout(given, 3, start=states)
