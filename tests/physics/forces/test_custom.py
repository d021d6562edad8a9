"""Forces of a user's own file, added to a body of a scene."""

import pytest
import soft_cases
import torch
from checks import central_difference, directions, gradients, weights
from tolerances import ROUNDING, SOLVED, assert_near

from gradsim.errors import InputError
from gradsim.physics import CustomForce, Force, Model

pytestmark = pytest.mark.usefixtures("unoptimized_kernels")

HEAD = "import warp as wp\nfrom gradsim.engine.lanes import *\n\n\n@wp.func(inline=True)\n"
FALL = HEAD + "def forces(x0: Vec3, v0: Vec3, k: Real):\n"
WIND = HEAD + "def forces(x0: Vec3, v0: Vec3, wind: Vec3, drag: Real):\n    return (wind - v0) * drag\n"
RUBBER = HEAD + (
    "def forces(x0: Vec3, x1: Vec3, v0: Vec3, v1: Vec3, stiffness: Real):\n"
    "    f = (x1 - x0) * stiffness\n"
    "    return f, neg(f)\n"
)
EDGES = [[0, 7], [3, 11], [2, 5]]


@pytest.fixture
def load(tmp_path):
    def write(text: str, name: str = "own.py") -> Force:
        (tmp_path / name).write_text(text)
        return Force.load(tmp_path / name)

    return write


def _free():
    """Springs without anchors, pins and contact, so that nothing else changes momentum."""
    scene = soft_cases.net(pinned=[], anchors=[], collision="none")
    timing = scene.timing.model_copy(update={"integrator": "semi-implicit"})  # one force for each step
    return scene.model_copy(update={"timing": timing})


def test_wind_adds_its_momentum_to_a_body(load):
    """Σ m dv = h Σ (wind − v) drag in one step; each vertex has a drag of its own."""
    drag = torch.linspace(0.1, 0.4, 12).double()
    still = Model(_free(), substeps=300)
    windy = Model(_free(), substeps=300, forces={"net.air": CustomForce(load(WIND), wind=[3.0, 1.0, -2.0], drag=drag)})
    system, step = windy.systems[0], torch.full((1, 1), windy.dt, dtype=torch.float64)
    before = system.inputs(windy.values())[1].detach()[0]
    change = []
    for model in (still, windy):
        (body,) = model.systems
        v = body.program(2, 1, model.dt).forward([*(x.detach() for x in body.inputs(model.values())), step])[1][0, 1]
        change.append((body.mass(model.values()).detach()[0, :, None] * v).sum(0))
    expected = windy.dt * ((torch.tensor([3.0, 1.0, -2.0]) - before) * drag[:, None]).sum(0)
    assert_near(change[1] - change[0], expected, SOLVED)


def test_own_forces_go_with_a_model_to_another_dtype(load):
    forces = {"net.air": CustomForce(load(WIND), wind=[3.0, 1.0, -2.0], drag=0.3)}
    model, single = Model(_free(), forces=forces), Model(_free(), forces=forces, dtype=torch.float32)
    torch.nn.ModuleDict({"motion": model}).float()
    assert list(model.kinds) == list(single.kinds) and len(model.systems[0].own) == 1
    assert torch.equal(model.rollout(frames=2)["net"]["x"], single.rollout(frames=2)["net"]["x"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["beam.air.wind", "beam.air.drag", "beam.band.stiffness"])
def test_adjoint_of_each_parameter_of_own_forces_matches_central_differences(name, load):
    """100 steps with contact. Acceptance: 1e-7 in float64."""
    forces = {
        "beam.air": CustomForce(load(WIND, "wind.py"), wind=[3.0, 1.0, -2.0], drag=torch.linspace(0.1, 0.4, 12)),
        "beam.band": CustomForce(load(RUBBER, "rubber.py"), EDGES, stiffness=40.0),
    }
    model = Model(soft_cases.solid(), forces=forces)
    value = model.values()[name].detach()
    observed = lambda given: list(model.rollout({name: given})["beam"].values())
    along, adjoints = directions([value], 1), weights(observed(value), 2)
    (gradient,) = gradients(observed, [value], adjoints)
    secant = central_difference(observed, [value], along, 1e-5)
    terms = torch.cat([(w * s).flatten() for w, s in zip(adjoints, secant, strict=True)])
    forward = model.tangent(model.values(), {name: along[0]}, 6)[1]["beam"].values()
    exact = sum((w * t).sum() for w, t in zip(adjoints, forward, strict=True))
    assert terms.abs().max() > 0
    assert abs((gradient * along[0]).sum() - exact) <= 1e-12 * terms.abs().sum()
    assert abs((gradient * along[0]).sum() - terms.sum()) <= 1e-7 * terms.abs().sum()


@pytest.mark.slow
def test_a_number_of_own_forces_may_be_given_for_each_element_and_world(load):
    model = Model(_free(), forces={"net.band": CustomForce(load(RUBBER), EDGES, stiffness=40.0)})
    each = torch.tensor([[40.0, 40, 40], [10, 20, 30]]).double()
    x = model.rollout({"net.band.stiffness": each})["net"]["x"]
    alike = model.rollout({"net.band.stiffness": torch.full((2, 1), 40.0).double().expand(2, 3)})["net"]["x"]
    assert torch.equal(x[0], alike[0]) and not torch.equal(x[0], x[1])
    # one world may go by elements, where sums over them have another order
    assert_near(x[0], model.rollout()["net"]["x"][0], ROUNDING)
    with pytest.raises(InputError, match=r"shape \(1, 5\); expected a tensor \(worlds\) or \(worlds, 3\)"):
        model.rollout({"net.band.stiffness": torch.ones(1, 5)})


def test_an_edited_file_is_another_force(load):
    first, second = load(RUBBER), load(RUBBER.replace("* stiffness", "* (2.0 * stiffness)"))
    assert first != second
    ends = [
        Model(_free(), forces={"net.band": CustomForce(force, EDGES, stiffness=k)}).rollout()["net"]["x"]
        for force, k in ((first, 80.0), (second, 40.0))
    ]
    assert torch.allclose(*ends, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "text, message",
    [
        ("x = 1\n", "has no function `forces`"),
        (HEAD + "def forces(v0: Vec3, x0: Vec3):\n    return v0\n", r"has v0: Vec3, x0: Vec3; expected x0: Vec3"),
        (HEAD + "def forces(x0: Vec3, v0: Vec3:\n    return v0\n", "own.py, line 6: "),
        (FALL + "    if k > 0.0:\n        return x0 * k\n    return v0\n", "own.py, line 7, has `if`; write where"),
        (FALL + "    m = where(k > v0, k, k)\n    return x0 * m\n", "line 7, has a comparison; write less"),
        (FALL + "    return x0 * (k * 0.1)\n", r"line 7, has 0.1, which .* write spread\(Scalar\(0.1\)\)"),
        (FALL + "    return x0 * sqr(k)\n", "line 7, has `sqr`, which is not an operator"),
        (FALL + "    return x0 * k**2\n", "line 7, has a power; write products"),
        (HEAD + "def forces(x0: Vec3, v0: Vec3, k: float):\n    return v0\n", "`k` of `forces` .* has no kind"),
    ],
)
def test_a_file_that_states_no_force_is_refused(text, message, load):
    with pytest.raises(InputError, match=message):
        load(text)


def test_a_force_that_does_not_fit_is_refused(load, tmp_path):
    wind, scene = load(WIND, "wind.py"), soft_cases.solid()
    with pytest.raises(InputError, match=r"the force wind has parameters wind, drag; got wind\."):
        CustomForce(wind, wind=[1, 0, 0])
    with pytest.raises(InputError, match=r"acts on 2 vertices; give `index` \(m, 2\)"):
        CustomForce(load(RUBBER), stiffness=1.0)
    for name, acting, message in (
        ("bem.air", CustomForce(wind, wind=[1, 0, 0], drag=1), "its soft bodies are beam"),
        ("beam.velocity", CustomForce(wind, wind=[1, 0, 0], drag=1), "has the name of the scene's `beam.velocity`"),
        ("beam.air", CustomForce(wind, [[12]], wind=[1, 0, 0], drag=1), "names vertex 12; the body has 12"),
        (
            "beam.air",
            CustomForce(wind, wind=[1, 0], drag=1),
            r"`beam.air.wind` has shape \(2,\); expected \(3,\) or \(12, 3\)",
        ),
    ):
        with pytest.raises(InputError, match=message):
            Model(scene, forces={name: acting})
    with pytest.raises(InputError, match="does not exist"):
        Force.load(tmp_path / "none.py")
