"""Rods that meet and hold rigid bodies: closed forms, momenta, and exact derivatives in batched worlds."""

import math

import pytest
import torch
from checks import error, weights

import gradsim as gs
from gradsim.errors import InputError

G = 9.81
CABLE = {
    "kind": "rod",
    "density": 0.02,
    "stretching": 500,
    "bending": 1e-5,
    "twisting": 1e-5,
    "stretching_time": 1e-4,
    "twisting_time": 1e-4,
    "radius": 0.004,
}
INTEGRATORS = ["semi-implicit", "midpoint", "implicit"]
SLOW = [
    "semi-implicit",
    *(pytest.param(name, marks=pytest.mark.slow) for name in INTEGRATORS[1:]),
]  # minutes to compile


def _line(start, end, segments: int) -> dict:
    share = torch.linspace(0, 1, segments + 1, dtype=torch.float64)[:, None]
    a, b = torch.tensor([start, end], dtype=torch.float64)
    return {"points": (a + share * (b - a)).tolist()}


def _hanging(
    integrator: str, start=(0, 0, 0), end=(0, 0, -1.0), segments=8, mass=0.5, frames=51, substeps="auto", **rod
):
    """A weight on a cable; the vertex is at its center, so that it does not turn with the cable."""
    return gs.Scene.parse(
        {
            "timing": {"fps": 50, "frames": frames, "substeps": substeps, "integrator": integrator},
            "bodies": {
                "cable": {**CABLE, "shape": _line(start, end, segments), "pinned": [{"vertices": [0]}], **rod},
                "bob": {"shape": {"sphere": {"radius": 0.05}}, "mass": mass, "position": list(end)},
            },
            "attachments": {
                "hook": {
                    "body": "cable",
                    "to": "bob",
                    "region": {"vertices": [segments]},
                    "stiffness": 5000,
                    "damping": 1,
                }
            },
        }
    )


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_weight_stretches_a_cable_by_its_length_over_the_stiffness(integrator):
    """Σ l T/(E A) of the edges, each under the weight below; m g L/(E A) but for that of the cable; and m g/k of the hook."""
    scene = _hanging(integrator, stretching_time=0.03)
    model = gs.Model(scene)
    with torch.no_grad():
        states = model.rollout().states
    x, masses = states["cable"]["x"][0, -1], model.systems[0].mass(model.values())[0].detach()
    below = masses[1:9].flip(0).cumsum(0).flip(0) + masses[9:].flip(0).cumsum(0).flip(0) - masses[9:] / 2
    expected = ((0.5 + below) * G / 8 / 500).sum()
    assert abs(expected / (0.5 * G / 500) - 1) < 0.03
    assert abs((-1.0 - x[8, 2]) - expected) < 1e-3 * expected
    assert abs((x[8, 2] - states["bob"]["x"][0, -1, 2]) - 0.5 * G / 5000) < 1e-3 * 0.5 * G / 5000


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_a_heavy_bob_on_a_light_cable_swings_with_the_period_of_its_length(integrator):
    """2π √(L/g) (1 + a²/16); the cable is 1/50 of the bob, which changes the period by 1/600."""
    angle, length = 0.2, 1.0
    end = [length * math.sin(angle), 0, -length * math.cos(angle)]
    scene = _hanging(integrator, end=end, mass=1.0, frames=81, stretching=5000)
    with torch.no_grad():
        x = gs.Model(scene).rollout()["bob"]["x"][0, :, 0]
    k = int((x[1:] * x[:-1] < 0).nonzero()[1])  # the second time that it passes the lowest place
    period = (k + (x[k] / (x[k] - x[k + 1])).item()) / 50 / 0.75
    long = length * (1 + G / 5000) + G / 5000
    # linear between frames: within 1e-3 of a period
    assert abs(period / (2 * math.pi * math.sqrt(long / G) * (1 + angle**2 / 16)) - 1) < 4e-3


@pytest.mark.parametrize("integrator", INTEGRATORS[:2])
def test_a_ball_on_a_clamped_cable_turns_to_and_fro_by_the_twist(integrator):
    """ω² = G J/(7.1 l I): seven vertices twist, and what holds the frame of the last edge is ten times as stiff as one."""
    twisting, rate, segments, mass, radius = 1e-3, 0.3, 8, 0.05, 0.05
    scene = gs.Scene.parse(
        {
            "gravity": 0,
            "timing": {"fps": 50, "frames": 51, "integrator": integrator},
            "bodies": {
                "cable": {
                    **CABLE, "shape": _line([0, 0, 0], [0, 0, -1], segments), "pinned": [{"vertices": [0, 1]}],
                    "twisting": twisting, "bending": 1e-3,
                },
                "ball": {
                    "shape": {"sphere": {"radius": radius}}, "mass": mass, "position": [0, 0, -1],
                    "angular_velocity": [0, 0, rate],
                },
            },
            "attachments": {
                "clamp": {"body": "cable", "to": "ball", "region": {"vertices": [7, 8]}, "stiffness": 5000, "damping": 1}
            },
        }
    )  # fmt: skip
    with torch.no_grad():
        q = gs.Model(scene).rollout()["ball"]["q"][0]
    omega = math.sqrt(twisting / (7.1 / segments * 0.4 * mass * radius**2))
    time = torch.arange(51, dtype=torch.float64) / 50
    wanted = rate / omega * torch.sin(omega * time)
    assert (
        error(2 * torch.atan2(q[:, 2], q[:, 3]), wanted) < 0.01
    )  # twisting_time takes 1 % of the energy, frames have none


def test_stiff_stretch_sets_explicit_steps_alone():
    steps = {
        (integrator, stretching): gs.Model(_hanging(integrator, stretching=stretching)).substeps
        for integrator in ("semi-implicit", "auto")
        for stretching in (500, 5e6)
    }
    assert steps["auto", 500] == steps["auto", 5e6] < steps["semi-implicit", 500] < steps["semi-implicit", 5e6]


def _thrown(integrator: str, gravity=0.0, **changes) -> gs.Scene:
    """A cable, clamped to a box, meets a ball; the ball turns."""
    law = {"stiffness": 200, "friction_stiffness": 0.5, "friction": 0.4, "dissipation": 0.2}
    return gs.Scene.parse(
        {
            "gravity": gravity,
            "timing": {
                "fps": 100,
                "frames": 6,
                "substeps": 100 if integrator == "semi-implicit" else 7,
                "integrator": integrator,
            },
            "bodies": {
                "cable": {**CABLE, "shape": _line([0, 0, 0.1], [0.4, 0.03, 0.1], 6), "velocity": [0, 0.1, -1]},
                "ball": {
                    "shape": {"sphere": {"radius": 0.08}},
                    "mass": 0.05,
                    "position": [0.21, 0, 0],
                    "angular_velocity": [3, 9, 1],
                },
                "box": {"shape": {"box": {"size": [0.06, 0.08, 0.1]}}, "mass": 0.04, "position": [0, 0.01, 0.1]},
            },
            "contacts": {"hit": {"between": ["cable", "ball"], **law}},
            "attachments": {
                "grip": {"body": "cable", "to": "box", "region": {"vertices": [0, 1]}, "stiffness": 300, "damping": 0.1}
            },
            **changes,
        }
    )


@pytest.mark.parametrize("integrator", SLOW)
def test_a_cable_and_free_bodies_keep_their_momenta(integrator):
    """With contact, friction, an attachment and a clamp."""
    model = gs.Model(_thrown(integrator))
    values = model.values()
    with torch.no_grad():
        states = model.rollout().states
    linear, angular, alone = 0, 0, []
    for system in model.systems:
        mass, y = system.mass(values).detach(), states[system.name]
        x, v = (y[key] if y[key].ndim == 4 else y[key][:, :, None] for key in "xv")
        p = mass.reshape(1, 1, -1, 1) * v
        linear, angular = linear + p.sum(2), angular + torch.linalg.cross(x, p).sum(2) + y.get("l", 0)
        alone.append((p.sum(2)[0, -1] - p.sum(2)[0, 0]).norm().item())
    assert min(alone) > 1e-3
    # a solve has the error 1e-11; backward Euler keeps no angular momentum of vertices
    tolerance = 1e-12 if integrator == "semi-implicit" else 35e-11
    for momentum in (linear,) if integrator == "implicit" else (linear, angular):
        assert (momentum[0, -1] - momentum[0, 0]).norm() < tolerance * momentum[0].norm(dim=-1).max()


NAMES = (
    *("cable.stretching", "cable.bending", "cable.twisting", "cable.radius", "cable.density", "cable.velocity"),
    *("cable.twisting_time", "contacts.hit.stiffness", "contacts.hit.friction", "contacts.hit.dissipation"),
    *("attachments.grip.stiffness", "attachments.grip.damping", "ball.mass", "ball.angular_velocity", "box.mass"),
    *("box.position", "gravity"),
)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_tangents_are_transposes_of_gradients_and_both_are_secants(integrator):
    """In two worlds unlike one another; lanes of implicit steps are in `test_implicit.py`, and compile for minutes."""
    model, worlds = gs.Model(_thrown(integrator, G)), 2 if integrator == "semi-implicit" else 1
    generator = torch.Generator().manual_seed(3)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    given, along = {}, {}
    for name in NAMES:
        y = model.get_parameter(name).detach()
        size = y.abs().max()
        given[name] = (y + 0.01 * size * draw(worlds, *y.shape)).requires_grad_()
        along[name] = size * draw(worlds, *y.shape)
    flat = lambda states: [y for own in states.values() for y in own.values()]
    outputs = flat(model.rollout(given).states)
    adjoints = weights(outputs, seed=5)
    slopes = dict(zip(NAMES, torch.autograd.grad(outputs, list(given.values()), adjoints), strict=True))
    assert all(slope.any() for slope in slopes.values())
    fixed = {name: y.detach() for name, y in given.items()}
    for name in NAMES:
        _, tangent = model.tangent(model.values(fixed), {name: along[name]}, 6)
        terms = torch.cat([(t * w).flatten() for t, w in zip(flat(tangent.states), adjoints, strict=True)])
        backward = (along[name] * slopes[name]).sum()
        assert abs(terms.sum() - backward) < 1e-9 * terms.abs().sum(), name  # whose sum may nearly cancel
    _, tangent = model.tangent(model.values(fixed), along, 6)
    ends = []
    for step in (1e-7, -1e-7):
        with torch.no_grad():
            ends.append(flat(model.rollout({name: fixed[name] + step * along[name] for name in NAMES}).states))
    for after, before, t in zip(*ends, flat(tangent.states), strict=True):
        assert error((after - before) / 2e-7, t) < 1e-5


def test_what_rods_cannot_meet_is_named():
    other = {**CABLE, "shape": _line([0, 0, 1], [1, 0, 1], 4)}
    motion = {"vertices": [6], "times": [0, 1], "positions": [[[0.4, 0.03, 0.1]], [[0.5, 0.03, 0.1]]]}
    bodies = _thrown("auto").model_dump()["bodies"]
    for contact in (["cable", "other"], ["cable"]):
        with pytest.raises(InputError, match="contacts.a: is between `cable`.* no triangles"):
            _thrown("auto", bodies=bodies | {"other": other}, contacts={"a": {"between": contact, "thickness": 0.01}})
    bodies["cable"] = {**bodies["cable"], "motion": motion}
    with pytest.raises(InputError, match="bodies.cable.motion: is given for a body that a contact or attachment links"):
        _thrown("auto", bodies=bodies)


def test_a_cable_that_starts_within_its_radius_of_a_body_is_refused():
    bodies = _thrown("auto").model_dump()["bodies"]
    bodies["ball"] = {**bodies["ball"], "position": [0.2, 0, 0.018]}
    with pytest.raises(InputError, match="`cable` starts 0.00.* m inside `ball`"):
        gs.Model(_thrown("auto", bodies=bodies))


def test_a_cable_slides_over_a_ball_as_the_capstan_says():
    """Pulls of 1 and 4 N on ends of mass m: a = (F₂ - F₁ e)/(m (1 + e)), e = ((1 + μ tan φ/2)/(1 - μ tan φ/2))^n → exp(μ π).

    n vertices touch, each where the cable turns by φ = π/n; the ball is too heavy to move. The cable adds 3 % of inertia.
    """
    pull, mass, friction, radius, count, hanging = (1.0, 4.0), 0.1, 0.3, 0.196, 24, 0.3
    density = 5e-3
    turn = math.pi / count
    angles = turn * (torch.arange(count, dtype=torch.float64) + 0.5)
    arc = torch.stack([-torch.cos(angles), 0 * angles, torch.sin(angles)], 1) * (radius + 0.004)
    edge = (arc[1] - arc[0]).norm().item()
    down = edge * torch.arange(int(hanging / edge), 0, -1, dtype=torch.float64)
    left = torch.stack([0 * down + arc[0, 0], 0 * down, arc[0, 2] - down], 1)
    right = torch.stack([0 * down + arc[-1, 0], 0 * down, arc[-1, 2] - down], 1).flip(0)
    points = torch.cat([left, arc, right])
    end = lambda k, force: {
        "shape": {"sphere": {"radius": 0.02}}, "mass": mass, "position": points[k].tolist(),
        "pushes": [{"force": [0, 0, -force], "window": [0, 0.2]}],
    }  # fmt: skip
    cable = {**CABLE, "density": density, "bending": 1e-7, "twisting": 1e-7, "shape": {"points": points.tolist()}}
    scene = {
        "gravity": 0,
        "timing": {"fps": 100, "frames": 19, "integrator": "semi-implicit"},
        "bodies": {
            "cable": {**cable, "stretching": 2e3, "roll": math.pi / 2},
            "first": end(0, pull[0]),
            "last": end(-1, pull[1]),
            "ball": {"shape": {"sphere": {"radius": radius}}, "mass": 1e6},
        },
        "contacts": {
            "over": {"between": ["cable", "ball"], "stiffness": 5000, "friction": friction, "friction_stiffness": 20}
        },
        "attachments": {
            name: {"body": "cable", "to": name, "region": {"vertices": [k]}, "stiffness": 2000, "damping": 10}
            for name, k in (("first", 0), ("last", len(points) - 1))
        },
    }
    with torch.no_grad():
        states = gs.Model(gs.Scene.parse(scene)).rollout().states
    speed = (states["first"]["v"][0, :, 2] - states["last"]["v"][0, :, 2]) / 2
    measured = ((speed[18] - speed[8]) / 0.1).item()
    rise = ((1 + friction * math.tan(turn / 2)) / (1 - friction * math.tan(turn / 2))) ** count
    assert abs(rise / math.exp(friction * math.pi) - 1) < 2e-3
    before, over, after = (density * edge * k for k in (len(left), count - 1, len(right)))
    inertia = mass + after + rise * (mass + before) + over * (rise - 1) / math.log(rise)
    expected = (pull[1] - pull[0] * rise) / inertia
    assert abs(measured / expected - 1) < 0.03  # ends swing on the cable, which stretches as they are let go
