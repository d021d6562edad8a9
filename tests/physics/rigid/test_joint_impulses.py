"""Impulses on bodies that joints hold: joints pass them on at once, and every number has its derivative."""

import pytest
import torch

from gradsim import Model, Scene

ROD = {"shape": {"box": {"size": [0.6, 0.1, 0.1]}}, "mass": 1.0}
IMPULSE, LEVER = 0.05, 0.6  # [N s] at the far end of the rod, [m] from the hinge
INERTIA = (0.6**2 + 0.1**2) / 12 + 0.3**2  # about the hinge [kg m²]
BOTH = pytest.mark.parametrize("integrator", ["rk4", "semi-implicit"])


def push(point, impulse, at=0.1) -> list[dict]:
    return [{"impulse": impulse, "point": point, "at": at}]


def hinged(integrator: str, armature: float = 0.0) -> Model:
    """A rod on a hinge to the world, at rest without gravity until its end is hit."""
    hinge = {"kind": "revolute", "between": ["world", "rod"], "axis": [0, 1, 0], "child_point": [-0.3, 0, 0]}
    hinge |= {"armature": armature} if armature else {}
    timing = {"fps": 20, "frames": 5, "substeps": 20, "integrator": integrator}
    bodies = {"rod": {**ROD, "pushes": push([0.3, 0, 0], [0, 0, IMPULSE])}}
    return Model(Scene.parse({"gravity": 0.0, "timing": timing, "bodies": bodies, "joints": {"hinge": hinge}}))


@BOTH
@pytest.mark.parametrize("armature", [0.0, 0.07])
def test_a_hinge_passes_an_impulse_on(integrator, armature):
    """The rate is that of angular momentum about the hinge, in the first frame after it and in all others."""
    rate = hinged(integrator, armature).rollout().joint("hinge")["rate"][0].detach()
    expected = -IMPULSE * LEVER / (INERTIA + armature)
    assert rate[2].abs() < 1e-12  # the impulse falls after this frame
    assert rate[3:].tolist() == pytest.approx(
        [expected] * 2, rel=1e-9 if integrator == "rk4" else 1e-5
    )  # of first order


def chain() -> Scene:
    """Two rods on hinges that fall, the second one hit askew, the first one with an armature; start and end not at rest."""
    upper = {"kind": "revolute", "between": ["world", "upper"], "axis": [0, 1, 0], "child_point": [-0.3, 0, 0]}
    upper |= {"angle": 0.3, "rate": 0.4, "armature": 0.02}
    lower = {"kind": "ball", "between": ["upper", "lower"], "parent_point": [0.3, 0, 0], "child_point": [-0.3, 0.02, 0]}
    bodies = {"upper": {**ROD, "pushes": push([0.1, 0, 0.02], [0.02, 0.01, 0.03], 0.05)}}
    bodies |= {"lower": {**ROD, "mass": 0.7, "pushes": push([0.2, 0.01, 0], [0.03, 0.05, 0.08], 0.05)}}
    timing = {"fps": 40, "frames": 5, "substeps": 8, "integrator": "rk4"}
    return Scene.parse({"timing": timing, "bodies": bodies, "joints": {"upper": upper, "lower": lower}})


def test_momentum_of_free_bodies_is_the_impulse():
    """A ball joint between two free bodies takes none, and its ends keep together."""
    joint = {"kind": "ball", "between": ["a", "b"], "parent_point": [0.3, 0, 0], "child_point": [-0.3, 0, 0]}
    bodies = {"a": {**ROD, "pushes": push([0.1, 0, 0.05], [0.02, 0.01, 0.03])}, "b": {**ROD, "mass": 0.4}}
    timing = {"fps": 20, "frames": 6, "substeps": 20, "integrator": "rk4"}
    model = Model(Scene.parse({"gravity": 0.0, "timing": timing, "bodies": bodies, "joints": {"joint": joint}}))
    states = model.rollout().states
    total = 1.0 * states["a"]["v"] + 0.4 * states["b"]["v"]
    torch.testing.assert_close(
        total[0, 3:].detach(), torch.tensor([[0.02, 0.01, 0.03]] * 3, dtype=torch.float64), rtol=0, atol=1e-12
    )


@pytest.mark.slow
def test_gradients_and_tangents_are_those_of_differences():
    model = Model(chain())
    names = [
        "upper.pushes.0.impulse",
        "lower.pushes.0.impulse",
        "upper.scale",
        "joints.lower.rotation_vector",
        "upper.mass",
    ]
    names += ["lower.mass", "gravity", "joints.upper.armature", "joints.upper.angle", "joints.lower.child_point"]
    weight = torch.randn(3, generator=torch.Generator().manual_seed(0)).double()

    def final(**change):
        states = model.rollout(change).states
        return sum(((y["x"][:, -1] + 0.1 * y["v"][:, -1]) * weight).sum() for y in states.values())

    for name in names:
        base = model.get_parameter(name).detach()[None]
        along = torch.randn(base.shape, generator=torch.Generator().manual_seed(1)).double()
        value = base.clone().requires_grad_()
        (slope,) = torch.autograd.grad(final(**{name: value}), value)
        h = 1e-5
        central = ((final(**{name: base + h * along}) - final(**{name: base - h * along})) / (2 * h)).detach()
        torch.testing.assert_close(
            (slope * along).sum(), central, rtol=1e-7, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}"
        )
        assert (slope * along).sum().abs() > 1e-8, name
        moving = model.tangent(model.values(), {name: along}, 5)[1].states
        total = sum(((y["x"][:, -1] + 0.1 * y["v"][:, -1]) * weight).sum() for y in moving.values())
        torch.testing.assert_close(total, (slope * along).sum(), rtol=1e-9, atol=1e-14)
