"""The double pendulum of a scene: what it is made of, what of it shows, and how it is drawn."""

import math

import pytest
import torch
from checks import error
from tolerances import SOLVED, near

import gradsim as gs
from gradsim.physics.pendulum.double import energy
from gradsim.render.silhouettes import Silhouettes


def scene(**changes):
    content = gs.Scene.library("double_pendulum").model_dump()
    content["bodies"]["arms"] |= changes
    content["timing"]["frames"] = 16
    return gs.Scene.parse(content)


@pytest.mark.parametrize("masses", ["points", "rods"])
def test_common_factor_of_masses_damping_and_force_changes_nothing(masses):
    """By no bit where the factor is a power of two."""
    given = {"first_mass": 1.3, "second_mass": 0.7, "damping": 0.03, "force": [0.4, 0.0, 0.2]}
    twice = {k: [2 * x for x in v] if isinstance(v, list) else 2 * v for k, v in given.items()}
    one, other = (gs.Model(scene(masses=masses, **g)).rollout()["arms"] for g in (given, twice))
    assert all(torch.equal(one[k], other[k]) for k in one)
    lone = gs.Model(scene(masses=masses, **given, second_length=0.41)).rollout()["arms"]
    assert not torch.allclose(one["angle"], lone["angle"], rtol=1e-6)


def test_pieces_end_where_the_arms_do():
    model = gs.Model(scene(plane=[1.0, 1.0, 0.0], pivot=[0.3, -0.2, 0.5]))
    trajectory = model.rollout()
    angle, (system,) = trajectory["arms"]["angle"], model.systems
    first, second = system.pieces
    assert (first.name, second.name) == ("arms.first", "arms.second")
    e = lambda a: torch.stack([a.sin() / math.sqrt(2), a.sin() / math.sqrt(2), -a.cos()], -1)
    ends = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64) + torch.stack(
        [0.5 * e(angle[..., 0]), 0.5 * e(angle[..., 0]) + 0.4 * e(angle[..., 1])], 2
    )
    x = trajectory.surface.vertices
    for part, end in zip(system.pieces, ends.unbind(2), strict=True):
        assert error(x[:, :, part.vertices].mean(2).detach(), end.detach()) < 1e-12  # a ball is centred


def test_rods_reach_from_hinge_to_end_and_face_outwards():
    model = gs.Model(scene(masses="rods", rod_radius=0.02, first_radius=0.0))
    trajectory = model.rollout(frames=2)
    (system,) = model.systems
    x = trajectory.surface.vertices.detach()
    rod = x[0, 1, system.pieces[0].vertices]
    ends = system.ends(trajectory["arms"]["angle"], trajectory.values).detach()[0, 1]
    assert torch.linalg.vector_norm(rod - ends[0], dim=1).min() == near(0.02, SOLVED)
    assert torch.linalg.vector_norm(rod, dim=1).min() == near(0.02, SOLVED)
    for part in system.pieces:
        a, b, c = x[0, 1, part.vertices][part.faces].unbind(1)
        assert (torch.linalg.cross(a, b) * c).sum() > 0  # six times the volume


def test_bobs_are_seen_apart_and_hide_one_another():
    shown = gs.Scene.library("double_pendulum")
    trajectory, silhouettes = gs.Model(shown).rollout().at(slice(0, None, 3)), Silhouettes.of(shown)
    masks, union = silhouettes.masks(trajectory.surface).detach(), silhouettes.union(trajectory.surface).detach()
    assert masks.shape[2] == 2
    hidden = masks.sum(2) - union
    met = (hidden > 1e-9).flatten(2).any(2)[0]
    assert 4 < met.sum() < 25 and hidden.min() > -1e-9
    image = silhouettes(trajectory.surface).detach()
    colors = torch.tensor([[0.08, 0.35, 0.65], [0.85, 0.55, 0.15]], dtype=torch.float64)  # of the scene
    for colour in colors:
        assert (image[0, 0] - colour[:, None, None]).abs().amax(0).min() < 1e-12


def test_auto_steps_resolve_the_motion():
    """Of order 8, the steps that `auto` takes leave the energy alone to 1e-9 over a second."""
    content = gs.Scene.library("double_pendulum").model_dump()
    content["timing"] |= {"substeps": "auto", "frames": 31}
    content["bodies"]["arms"]["damping"] = 0.0
    model = gs.Model(gs.Scene.parse(content))
    states, (system,) = model.rollout()["arms"], model.systems
    given = [x[:, None] for x in system.inputs(model.values())[2:6]]
    e = energy(states["angle"], states["rate"], *given)
    assert ((e - e[:, :1]) / e[:, :1]).abs().max() < 1e-9


def test_gradients_reach_every_number_of_the_scene():
    model = gs.Model(scene(rod_radius=0.01, damping=0.02, force=[0.1, 0.0, 0.1]))
    x = model.rollout().surface.vertices
    (x.square() * torch.linspace(1, 2, x.shape[2])[:, None]).sum().backward()
    for name, parameter in model.named_parameters():
        if name.startswith("arms.") or name == "gravity":
            assert parameter.grad is not None and torch.isfinite(parameter.grad).all() and parameter.grad.any(), name


def test_start_of_another_state_goes_on():
    model = gs.Model(scene())
    whole = model.rollout()["arms"]
    begin = {"arms": {key: y[:, 10] for key, y in whole.items()}}
    rest = model.rollout(frames=6, start=begin)["arms"]
    assert all(torch.equal(rest[key], whole[key][:, 10:]) for key in whole)
