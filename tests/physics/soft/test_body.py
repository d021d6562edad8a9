"""Soft bodies in a model: derivatives by every parameter and array, masses, blows, pins, steps, refusals."""

import itertools
import math
import re

import pytest
import soft_cases
import torch
from checks import central_difference, directions, gradients, weights
from tolerances import ROUNDING, SOLVED, assert_near, near

from gradsim.engine.lanes import Lane
from gradsim.engine.mapping import Worlds
from gradsim.errors import InputError
from gradsim.numerics import rotation
from gradsim.physics.model import Divergence, Model
from gradsim.physics.rollout_inputs import RangeCheck
from gradsim.physics.soft import rollout, rollout_buffers
from gradsim.render.camera import from_scene
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene

SCENES = {
    "solid": soft_cases.solid(),
    "lame": soft_cases.solid(young=None, poisson=None, mu=1500, lam=4000, regions={}),
    "quadratic": soft_cases.solid(
        elements="quadratic", collision="none", shape={"box": {"size": [0.3, 0.12, 0.1], "cells": [1, 1, 1]}}
    ),
    "cloth": soft_cases.cloth(),
    "plane stress": soft_cases.cloth(mu=None, lam=None, young=2e5, poisson=0.3, thickness=4e-4),
    "net": soft_cases.net(),
    "density": soft_cases.net(mass=None, density=0.02),
}
OTHER = {
    "lame": ("mu", "lam"),
    "quadratic": ("young", "density", "vertex_mass_factor", "mu_factor", "activation"),
    "plane stress": ("young", "poisson", "thickness"),
    "density": ("density",),
}
NARROW = ["narrow quadratic"]  # one number at a time: full registers of this law take 15 to 60 s to compile
SCENES["narrow quadratic"], OTHER["narrow quadratic"] = SCENES["quadratic"], OTHER["quadratic"]
UNREAD = [(kind, f"{name}.friction") for kind in ("solid", "cloth") for name in ("ground", "post")]
WIDER = {
    ("net", "post.friction"): 1e-3
}  # a post barely touched: rounding of 1e-14 of the states over 1e-5 is all one would see
MOVING = [
    pytest.param(kind, name, marks=[pytest.mark.slow] * (kind == "quadratic"))
    for kind, scene in SCENES.items()
    for name in Model(scene).kinds
    if not name.startswith(("camera.", "timing.offset"))
    and (kind not in OTHER or name.split(".")[-1] in OTHER[kind])
    and (kind, name) not in UNREAD
]


def _values(kind: str):
    return Model(SCENES[kind]).values()


@pytest.fixture
def narrow(monkeypatch, request):
    """Called, makes rollouts work on one number at a time, by kernels that are not optimized."""
    one = lambda worlds, dtype, device, dual: Worlds(Lane("float64", 1, dual))

    def choose():
        for module in (rollout, rollout_buffers):
            monkeypatch.setattr(module, "mapping_for", one)
        request.getfixturevalue("unoptimized_kernels")

    return choose


@pytest.mark.parametrize("kind, name", MOVING)
def test_adjoint_of_every_parameter_matches_central_differences(kind, name, narrow):
    """100 steps with contact; states and vertices of all frames. Acceptance: 1e-7 in float64."""
    if kind in NARROW:
        narrow()
    model = Model(SCENES[kind])
    value = model.values()[name].detach()

    def observed(given):
        trajectory = model.rollout({name: given})
        (states,) = trajectory.states.values()
        return [*states.values(), trajectory.surface.vertices]

    along, adjoints = directions([value], 1), weights(observed(value), 2)
    (gradient,) = gradients(observed, [value], adjoints)
    secant = central_difference(observed, [value], along, WIDER.get((kind, name), 1e-5))
    terms = torch.cat([(w * s).flatten() for w, s in zip(adjoints, secant, strict=True)])
    assert terms.abs().max() > 0
    assert abs((gradient * along[0]).sum() - terms.sum()) <= 1e-7 * terms.abs().sum()


@pytest.mark.parametrize("kind", ("solid", "cloth", "net"))
def test_nothing_reads_friction_that_a_body_has_of_its_own(kind):
    assert Model(SCENES[kind]).unused_parameters == {name for own, name in UNREAD if own == kind}


def test_material_given_one_by_one_is_that_of_the_body_and_has_a_gradient_for_each_tetrahedron():
    model = Model(soft_cases.solid(regions={}))
    count = model.kinds["beam.young"].elements
    assert count == len(model.systems[0].matter.tets)
    keys = ("density", "young", "poisson", "damping", "activation")
    given = {f"beam.{k}": model.get_parameter(f"beam.{k}").detach().expand(1, count).clone() for k in keys}
    given = {name: value.requires_grad_() for name, value in given.items()}
    ours, single = model.rollout(given)["beam"]["x"], model.rollout()["beam"]["x"]
    assert_near(ours, single, ROUNDING)
    grads = torch.autograd.grad(ours.square().sum(), list(given.values()))
    whole = torch.autograd.grad(single.square().sum(), [model.get_parameter(name) for name in given])
    for one, all_, name in zip(grads, whole, given, strict=True):
        assert (one.abs() > 0).sum() > 1, name
        assert one.sum().item() == near(all_.item(), SOLVED), name


def test_an_array_of_another_size_is_refused_with_the_shapes_that_fit():
    model = Model(SCENES["solid"])
    with pytest.raises(
        InputError, match=r"`beam.young` is given with shape \(1, 3\); expected a tensor \(worlds\) or \(worlds, 10\)"
    ):
        model.rollout({"beam.young": torch.ones(1, 3).double()})
    with pytest.raises(
        InputError, match=r"`beam.vertex_velocity` is given with shape \(1, 3\); expected a tensor \(worlds, 12, 3\)"
    ):
        model.rollout({"beam.vertex_velocity": torch.ones(1, 3).double()})


def test_a_region_has_its_own_material_and_the_rest_that_of_the_body():
    """One brick of three is the tip; what the region does not give is the body's."""
    shape = {"box": {"size": [0.3, 0.12, 0.1], "cells": [3, 1, 1]}}
    tip = {"box": [[0.05, -1, -1], [1, 1, 1]], "density": 600, "young": 2500}
    model = Model(soft_cases.solid(shape=shape, regions={"tip": tip}))
    mass, matter = model.systems[0].mass(model.values()), model.systems[0].matter
    assert mass.sum().item() == near((2 * 900 + 600) / 3 * 0.3 * 0.12 * 0.1, ROUNDING)
    inside = matter.rest[matter.tets].mean(1)[:, 0] > 0.05
    mu = matter.moduli(model.values())[0][0].detach()
    assert torch.allclose(mu[inside] / mu[~inside][:1], torch.tensor(2500 / 4000).double())
    assert torch.allclose(mu[~inside], mu[~inside][:1])


def test_all_masses_together_are_density_times_volume():
    model = Model(SCENES["solid"])
    mass = model.systems[0].mass(model.values())
    assert mass.sum().item() == near((900 + 600) / 2 * 0.3 * 0.12 * 0.1, ROUNDING)
    heavier = model.systems[0].mass(model.values({"beam.vertex_mass_factor": torch.full((1, 12), 2.0)}))
    assert torch.equal(heavier, 2 * mass)


def test_a_free_body_flies_with_the_momentum_of_its_blows_and_its_start():
    """Σ m v = m V + m ω × (x − c) + J + m g t, to the rounding of 100 steps; the first blow is shared by all mass."""
    model = Model(soft_cases.solid(pinned=[], collision="none", angular_velocity=[0, 0, 0]))
    mass = model.systems[0].mass(model.values()).detach()[0]
    momentum = (mass[:, None] * model.rollout()["beam"]["v"][0].detach()).sum(1)
    t = torch.arange(6).double()[:, None] / 50
    velocity, g = (model.get_parameter(name).detach() for name in ("beam.velocity", "gravity"))
    expected = mass.sum() * (velocity + g * t) + torch.tensor([0.2, 0.4, -0.2], dtype=torch.float64)
    assert torch.allclose(momentum, expected, rtol=1e-11, atol=1e-13)


def test_a_blow_off_the_centre_turns_the_body_by_arm_times_impulse_and_bends_nothing():
    """Σ m r × v = R p × J about the centre of mass, Σ m v = J, and (x_i − x_j) · (v_i − v_j) = 0 for all vertices."""
    blow = {"impulse": [0.2, 0.1, -0.4], "point": [0.05, -0.02, 0.03]}
    still = {"velocity": [0, 0, 0], "angular_velocity": [0, 0, 0], "pinned": [], "collision": "none"}
    model = Model(soft_cases.solid(pushes=[blow], **still))
    body, states = model.scene.bodies["beam"], model.rollout(frames=1)["beam"]
    x, v = states["x"][0, 0].detach(), states["v"][0, 0].detach()
    mass = model.systems[0].mass(model.values()).detach()[0, :, None]
    arm = x - (mass * x).sum(0) / mass.sum()
    J, p = (torch.tensor(blow[key]).double() for key in ("impulse", "point"))
    q = rotation.multiply(
        rotation.exponential(torch.tensor(body.rotation_vector).double()), torch.tensor(body.quat_xyzw).double()
    )
    assert torch.allclose((mass * torch.linalg.cross(arm, v)).sum(0), torch.linalg.cross(rotation.rotate(q, p), J))
    assert torch.allclose((mass * v).sum(0), J)
    rates = ((x[:, None] - x) * (v[:, None] - v)).sum(-1)
    assert rates.abs().max() < 1e-14  # [m²/s] rounding of 0.3 m times some m/s


def test_a_blow_off_the_centre_of_a_line_is_refused():
    with pytest.raises(InputError, match=r"pushes.0 has a `point`, and its vertices lie in a line"):
        edge = {"impulse": [1, 0, 0], "region": "-x-y", "point": [0, 0, 0.01]}
        Model(soft_cases.solid(pinned=[], pushes=[edge]))


def test_pinned_vertices_stay_and_others_move():
    states = Model(SCENES["solid"]).rollout()["beam"]
    held = [k for k, v in enumerate(states["v"][0].detach().abs().amax((0, 2)).tolist()) if v == 0]
    assert len(held) == 2
    x = states["x"][0].detach()
    assert torch.equal(x[:, held], x[:1, held].expand(6, -1, -1))
    assert ((x[-1] - x[0]).norm(dim=-1) > 1e-3).sum() == 10


def test_the_place_and_spin_at_the_start_are_those_of_the_scene():
    model = Model(soft_cases.solid(pinned=[], pushes=[], regions={}))
    states, mass = model.rollout(frames=1)["beam"], model.systems[0].mass(model.values())[0]
    x, v = states["x"][0, 0].detach(), states["v"][0, 0].detach()
    volume = model.systems[0].matter.volume
    centre = (x[model.systems[0].matter.tets].mean(1) * volume[:, None]).sum(0) / volume.sum()
    assert torch.allclose(centre, torch.tensor([0.02, -0.01, 0.1], dtype=torch.float64), atol=1e-15)
    omega = torch.tensor([2.0, 1.0, -3.0]).double()
    assert torch.allclose(v, torch.tensor([0.5, 0.2, -1.5]) + torch.linalg.cross(omega.expand_as(x), x - centre))
    assert mass.min() > 0


def test_young_and_poisson_are_those_of_small_strains():
    """E = μ (3 λ + 2 μ)/(λ + μ) and ν = λ/(2 (λ + μ)) of the moduli that the law has for small strains: ¾ μ, λ − ⅝ μ."""
    model = Model(SCENES["solid"])
    mu, lam = (x.detach()[0, 0] for x in model.systems[0].matter.moduli(model.values()))
    shear, bulk = 0.75 * mu, lam - 0.625 * mu
    assert (shear * (3 * bulk + 2 * shear) / (bulk + shear)).item() in (pytest.approx(4000), pytest.approx(2500))
    assert (bulk / (2 * (bulk + shear))).item() == pytest.approx(0.3)


def _is_stable(model: Model, step: float) -> bool:
    """Whether a tremor of 1 µm/s about rest stays one for 600 steps."""
    (system,) = model.systems
    inputs = [x.detach() for x in system.inputs(model.values())]
    inputs[1] = 1e-6 * torch.randn(inputs[1].shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    _, v = system.program(4, 200, step).forward([*inputs, inputs[0].new_zeros(1, 0)])
    return bool((v[:, 2:].abs() < 1e-4).all())


SOLIDS = list(itertools.product((0.0, 0.3, 0.45), (0.0, 30.0), ("linear", *NARROW, "quadratic")))
BRIEF = [solid for solid in SOLIDS if solid[2] == "linear"] + [(0.0, 30.0, *NARROW), (0.45, 0.0, *NARROW)]


@pytest.mark.parametrize(
    ("poisson", "damping", "elements"),
    [pytest.param(*solid, marks=[pytest.mark.slow] * (solid not in BRIEF)) for solid in SOLIDS],
)
def test_the_largest_stable_step_is_stable_and_not_half_of_what_is(poisson, damping, elements, narrow):
    """h² k/m + 2 h c/m < 4 with a bound from each tetrahedron alone, which is above the true limit of the mesh."""
    if elements in NARROW:
        narrow()
        elements = "quadratic"
    changes = {"poisson": poisson, "damping": damping, "activation": 0, "regions": {}, "pushes": [], "pinned": []}
    shape = {"box": {"size": [0.3, 0.12, 0.1], "cells": [3, 2, 2]}}
    scene = soft_cases.solid(shape=shape, collision="none", elements=elements, **changes)
    model = Model(scene, substeps=2000)
    limit = model.systems[0].stable_step(model.values({"gravity": torch.zeros(1, 3)}))
    model.get_parameter("gravity").data.zero_()
    assert _is_stable(model, limit)
    assert not _is_stable(model, 2 * limit)


STILL = {"pushes": [], "pinned": [], "anchors": [], "collision": "none"}
LIGHT = {"activation": 0, "bending_activation": 0, "air": None}


@pytest.mark.parametrize(
    "scene",
    [
        soft_cases.cloth(**STILL, **LIGHT, mu=30, lam=40),
        soft_cases.cloth(**STILL, **LIGHT, mu=0.3, lam=0.3, damping=0, bending=0.3, bending_damping=0),
        soft_cases.cloth(**STILL, **LIGHT, mu=0.3, lam=0.3, damping=0, bending=0.01, bending_damping=5e-4),
        soft_cases.cloth(**{**STILL, "anchors": [{"region": "+x", "stiffness": 900}]}, **LIGHT),
        soft_cases.net(**STILL, rest_length_factor=1),
        soft_cases.net(**STILL, rest_length_factor=1, damping=0),
    ],
    ids=["membrane", "bending", "damped folds", "anchors", "net", "undamped net"],
)
def test_the_step_of_sheets_and_nets_is_stable_and_not_a_third_of_what_is(scene):
    model = Model(scene)
    model.get_parameter("gravity").data.zero_()
    limit = model.systems[0].stable_step(model.values())
    assert _is_stable(model, limit)
    assert not _is_stable(model, 3 * limit)


def test_young_poisson_and_thickness_are_those_of_plane_stress():
    """E t = 4 μ (λ + μ)/(λ + 2 μ) and ν = λ/(λ + 2 μ) in two dimensions, of the moduli ⅔ μ and λ − 4/9 μ of small strains."""
    mu, lam = (
        x.detach()[0, 0] for x in Model(SCENES["plane stress"]).systems[0].matter.moduli(_values("plane stress"))
    )
    shear, bulk = 2 / 3 * mu, lam - 4 / 9 * mu
    assert (4 * shear * (bulk + shear) / (bulk + 2 * shear)).item() == pytest.approx(2e5 * 4e-4)
    assert (bulk / (bulk + 2 * shear)).item() == pytest.approx(0.3)


def test_masses_of_sheets_and_nets_are_density_times_size():
    total = {
        kind: Model(SCENES[kind]).systems[0].mass(_values(kind)).sum().item() for kind in ("cloth", "net", "density")
    }
    length = 3 * 0.3 + 4 * 0.2 + 12 * math.hypot(0.1, 0.1)  # rows, columns, diagonals
    assert total == near({"cloth": 0.5 * 0.06, "net": 0.05, "density": 0.02 * length}, ROUNDING)


def test_an_anchor_holds_its_vertex_at_its_point():
    """At rest, k (point − x) carries the weight of each end of a rope of one spring, which stays as long as it was."""
    scene = soft_cases.net(
        shape={"rope": {"length": 0.1, "segments": 1}},
        **{
            **STILL,
            "anchors": [{"region": {"vertices": [0, 1]}, "stiffness": 40, "damping": 1, "offset": [0.01, 0.02, 0.03]}],
        },
        rest_length_factor=1,
    )
    model = Model(scene)
    x = model.rollout(frames=100)["net"]["x"][0].detach()
    stretch = x[0] + torch.tensor([0.01, 0.02, 0.03], dtype=torch.float64) - x[-1]
    weight = 0.025 * model.get_parameter("gravity").detach()
    assert torch.allclose(40 * stretch, -weight.expand(2, 3), rtol=1e-6)


def test_a_step_too_large_for_the_material_names_the_substeps_that_it_needs():
    scene = soft_cases.solid(young=4e6)
    with pytest.raises(InputError, match=r"too large for the stiffness and damping .*`beam`") as caught:
        Model(scene, substeps=1)
    needed = int(re.search(r"substeps to (\d+)", str(caught.value))[1])  # pyright: ignore[reportOptionalSubscript]
    Model(scene, substeps=needed)
    with pytest.raises(InputError, match="too large"):
        Model(scene, substeps=needed - 1)


def test_a_light_vertex_needs_smaller_steps():
    model = Model(SCENES["solid"])
    light = torch.ones(1, 12).double()
    light[0, 3] = 0.01
    small = model.systems[0].stable_step(model.values({"beam.vertex_mass_factor": light}))
    assert small < 0.2 * model.systems[0].stable_step(model.values())


def test_divergence_names_step_body_quantity_and_vertex():
    model = Model(SCENES["solid"])
    push = torch.zeros(2, 12, 3).double()
    push[1, 7] = 1e200
    with pytest.raises(Divergence) as caught:
        model.rollout({"beam.vertex_velocity": push})
    found = re.fullmatch(
        r"`beam` diverges: \w of vertex (\d+) is not finite from step (\d+) on \(time .* s, world 1\)\. Use more .*",
        str(caught.value),
    )
    assert found
    given = {n: v[1:] for n, v in model.values({"beam.vertex_velocity": push}).items()}
    system, step = model.systems[0], int(found[2])
    inputs = [*(x.detach() for x in system.inputs(given)), torch.full((1, step), model.dt).double()]
    finite = torch.stack([torch.isfinite(y[0]).all(-1) for y in system.program(step + 1, 1, model.dt).forward(inputs)])
    assert finite[:, :step].all() and not finite[:, step, int(found[1])].all()


def test_divergence_names_the_vertex_that_ran_away(monkeypatch):
    """Not the pinned one, which has no speed but comes first; not smaller steps, where a number is impossible."""
    model = Model(SCENES["solid"])
    assert 0 in model.systems[0].pinned
    with pytest.raises(Divergence, match=r"of vertex (?!0 )\d+ is not finite .* Use more substeps"):
        model.rollout({"beam.young": torch.tensor([1e8]).double()})
    impossible = {"beam.poisson": torch.tensor([0.6]).double()}
    with pytest.raises(InputError, match=r"`beam.poisson` of world 0 is 0\.6; expected a number from 0 to 0\.4999"):
        model.rollout(impossible, frames=60)
    monkeypatch.setattr(RangeCheck, "check", lambda *_: None)
    with pytest.raises(Divergence, match=r"`beam.poisson` is 0\.6; expected 0 to 0\.4999\.$"):
        model.rollout(impossible, frames=60)


def test_moduli_that_collapse_are_refused():
    """At rest the bulk modulus is K = λ − ⅝ μ + ⅔ (¾ μ) = λ − μ/8."""
    own = {"young": None, "poisson": None, "regions": {}}
    soft_cases.solid(mu=800.0, lam=101.0, **own)
    with pytest.raises(InputError, match="bodies.beam.lam: got 100 Pa with μ 800 Pa; it must be above μ/8"):
        soft_cases.solid(mu=800.0, lam=100.0, **own)


def test_a_body_that_starts_inside_the_ground_is_refused_with_its_depth_and_vertex():
    level = {"rotation_vector": [0, 0, 0], "pinned": []}
    scene = soft_cases.solid(position=[0, 0, 0.1], **level)
    flat = scene.grounds["ground"].model_copy(update={"normal": (0.0, 0.0, 1.0), "height": 0.08})
    with pytest.raises(InputError, match=r"`beam` starts 0\.034 m inside `ground` \(its vertex 0\); move one of them"):
        Model(scene.model_copy(update={"grounds": {"ground": flat}}))
    with pytest.raises(InputError, match=r"`beam` starts 0\.\d+ m inside `post`"):
        Model(soft_cases.solid(position=[0.05, 0, -0.1], **level).model_copy(update={"grounds": {}}))


def test_a_blow_on_pinned_vertices_alone_is_refused():
    with pytest.raises(InputError, match=r"bodies.beam.pushes.0 strikes pinned vertices only"):
        Model(soft_cases.solid(pinned=["-x"], pushes=[{"impulse": [1, 0, 0], "region": "-x"}]))


def test_a_quadratic_body_weighs_and_looks_as_its_linear_one():
    linear, bent = (Model(soft_cases.solid(elements=e)).systems[0] for e in ("linear", "quadratic"))
    masses = [
        system.mass(_values("solid") | {"beam.vertex_mass_factor": torch.ones(1, n)}).sum()
        for system, n in ((linear, 12), (bent, len(bent.rest)))
    ]
    assert_near(masses[0], masses[1], ROUNDING)
    assert bent.matter.mesh.volume == near(linear.matter.mesh.volume, ROUNDING)
    assert len(bent.matter.mesh.faces) == 4 * len(linear.matter.mesh.faces)
    assert len(bent.contact.points) == len(bent.matter.outer) - len(bent.pinned)


def test_what_is_seen_of_it_has_a_gradient_by_its_stiffness():
    model = Model(SCENES["solid"])
    trajectory = model.rollout()
    silhouettes = Silhouettes(from_scene(model.scene.camera), (1.0, 1.0, 1.0))
    mask = silhouettes.union(trajectory.surface)[0]
    assert (mask.sum((1, 2)) > 10).all()
    (gradient,) = torch.autograd.grad(mask[-1].sum(), model.get_parameter("beam.young"))
    assert gradient.abs() > 0


def test_its_surface_is_closed_and_faces_outwards():
    """The volume inside the moving surface is that of its tetrahedra (the divergence theorem)."""
    model = Model(SCENES["solid"])
    trajectory = model.rollout()
    surface, x = trajectory.surface, trajectory["beam"]["x"][0, -1]
    a, b, c = surface.vertices[0, -1][surface.faces].unbind(1)
    corners = x[model.systems[0].matter.tets]
    volume = torch.linalg.det(corners[:, 1:] - corners[:, :1]).sum() / 6
    assert ((a * torch.linalg.cross(b, c)).sum() / 6).item() == near(volume.item(), ROUNDING)


def test_cloth_may_be_built_without_autograd():
    with torch.no_grad():
        x = Model(SCENES["cloth"]).rollout()["flag"]["x"]
    assert not x.requires_grad and x.isfinite().all()


def test_steps_follow_a_soft_body_that_spins():
    """Vertices go straight in a step: of 2 rad it would tear the block apart. A quiet one takes one step a frame."""
    block = {
        "kind": "solid",
        "shape": {"box": {"size": [6.9, 3.5, 4.4], "cells": [2, 1, 2]}},
        "density": 516,
        "young": 1.6e4,
        "poisson": 0.29,
    }
    model = lambda spin: Model(
        Scene.parse({"timing": {"fps": 14, "frames": 5}, "bodies": {"block": block | {"angular_velocity": spin}}})
    )
    assert model([0, 0, 0]).substeps == 1
    spinning = model([-21, 4, -23])
    assert spinning.substeps >= 31 / 14 / 0.2
    states = spinning.rollout()["block"]
    assert states["v"].norm(dim=-1).max() < 10 * states["v"][:, 0].norm(dim=-1).max()
