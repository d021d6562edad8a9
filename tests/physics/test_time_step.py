"""The clock of a video: another rate, and a first frame after the start."""

import pytest
import torch
from checks import error
from model_cases import cube, pendulum

from gradsim.errors import InputError
from gradsim.physics.model import Model
from gradsim.scene import Scene


def timed(scene: Scene, **timing) -> Scene:
    """The same with another clock, and blows only."""
    content = scene.model_dump(exclude_unset=True)
    content["timing"] |= timing
    for body in content["bodies"].values():
        body["pushes"] = body.get("pushes", [])[:1] if "shape" in body else None
    return Scene.parse(content)


SCENES = {"cube": cube(), "pendulum": pendulum()}
FIRST = {"cube": "x", "pendulum": "angle"}


def states(model: Model, given=None, frames: int | None = None) -> torch.Tensor:
    (found,) = model.rollout(given, frames).states.values()
    return torch.cat([y.flatten(2) if y.ndim > 2 else y[..., None] for y in found.values()], 2).detach()


@pytest.mark.parametrize("kind", SCENES)
def test_a_clock_at_half_rate_shows_every_other_frame_of_twice_the_fps(kind):
    fps = SCENES[kind].timing.fps
    slow = states(Model(timed(SCENES[kind], fps=fps, rate=0.5)))
    fast = states(Model(timed(SCENES[kind], fps=2 * fps)))
    assert error(slow, fast) < 1e-12


@pytest.mark.parametrize("kind", SCENES)
def test_an_offset_of_some_frames_leaves_out_these_frames(kind):
    """Given in the scene, or as a parameter of a model of the plain scene, with as many steps."""
    plain = timed(SCENES[kind])
    all_frames = states(Model(plain), frames=9)
    shift = 3 / plain.timing.fps
    assert error(states(Model(timed(plain, offset=shift))), all_frames[:, 3:]) < 1e-12
    given = {"timing.offset": torch.tensor([shift, 0.0], dtype=torch.float64)}
    both = states(Model(plain, lead=3), given)
    assert error(both[0], all_frames[0, 3:]) < 1e-12 and error(both[1, 1:], all_frames[0, 1:6]) < 1e-12
    place = slice(7 if kind == "cube" else 1)  # at the first frame the blow has fallen already
    assert error(both[1, 0, place], all_frames[0, 0, place]) < 1e-12


@pytest.mark.parametrize("kind", SCENES)
def test_forward_sensitivity_by_the_clock_is_that_of_autograd(kind):
    model = Model(timed(SCENES[kind]))
    values = {name: v.detach() for name, v in model.values().items()}
    for name in ("timing.rate", "timing.offset"):
        _, moved = model.tangent(values, {name: torch.ones_like(values[name])}, 6)
        at = values[name].clone().requires_grad_()
        y = next(iter(model.rollout({name: at}).states.values()))[FIRST[kind]]
        along = next(iter(moved.states.values()))[FIRST[kind]]
        for frame in (0, 5):
            (slope,) = torch.autograd.grad(y[0, frame].sum(), at, retain_graph=True)
            assert slope.item() == pytest.approx(along[0, frame].sum().item(), rel=1e-10, abs=1e-14)
        assert along[0, 5].abs().max() > 1e-3


def test_first_frame_moves_with_the_offset_at_the_speed_after_the_blow():
    model = Model(timed(cube(ground=None)))
    offset = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    x = model.rollout({"timing.offset": offset})["cube"]["x"]
    slopes = torch.stack([torch.autograd.grad(c, offset, retain_graph=True)[0][0] for c in x[0, 0]])
    expected = torch.tensor([1.0, 0.2, -1.5]) + torch.tensor([0.5, 0.2, -0.1]) / 2  # v + J/m
    assert error(slopes, expected) < 1e-6


@pytest.mark.parametrize("name", ["timing.rate", "timing.offset"])
def test_pushes_that_an_unknown_clock_would_cut_are_refused(name):
    with pytest.raises(InputError, match=f"with `{name}` unknown, give pushes as blows at 0"):
        Model(cube()).rollout({name: torch.full((1,), 1.1, dtype=torch.float64)})
    Model(cube()).rollout(Model(cube()).values())  # the clock as it is
    with pytest.raises(InputError, match="use them with impulses at time 0 only"):
        content = cube().model_dump(exclude_unset=True)
        content["timing"][name.split(".")[1]] = 0.5
        Scene.parse(content)


def test_a_faster_clock_needs_more_substeps():
    ground = {"stiffness": 1e5, "dissipation": 0.5}
    auto = timed(cube(ground=ground), substeps="auto")
    quick = timed(cube(ground=ground), substeps="auto", rate=3.0)
    assert Model(quick).substeps == pytest.approx(3 * Model(auto).substeps, abs=3)
    with pytest.raises(InputError, match="too large for the stiffness"):
        Model(timed(cube(ground=ground), rate=20.0))


@pytest.mark.parametrize("size", [[0.05, 0.05, 0.5], [0.02, 0.02, 0.5], [0.1, 0.2, 0.3]])
@pytest.mark.parametrize("spin", [[1, 9, 0.3], [0.2, 3, 20], [0, 60, 1]])
def test_free_spin_keeps_its_energy_by_default(size, spin):
    """To 1e-6 in 10 s, with everything left to `auto`; a stick once gained 7 times its energy in 1 s."""
    body = {"shape": {"box": {"size": size}}, "mass": 1.0, "angular_velocity": spin}
    model = Model(Scene.parse({"gravity": 0, "bodies": {"b": body}, "timing": {"fps": 30, "frames": 300}}))
    state = model.rollout()["b"]
    q, l = state["q"].detach(), state["l"].detach()
    energy = 0.5 * (model.systems[0].spin(q, l, model.values()).detach() * l).sum(-1)[0]
    assert (energy / energy[0] - 1).abs().max() < 1e-6
