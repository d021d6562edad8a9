from typing import Any

import numpy as np
import torch

from gradsim.physics.model import Model
from gradsim.scene import Scene
from gradsim_reproduction.foreign.linkage_trajectory import Chain, Link, double_pendulum, pendulum

TIMES = np.arange(16) / 30


def rollout(name, substeps, **timing):
    content = Scene.library(name).model_dump(exclude_unset=True)
    content["timing"] |= {"frames": len(TIMES), **timing}
    with torch.no_grad():
        return Model(Scene.parse(content), substeps=substeps).rollout()


def test_a_pendulum_with_drag_is_the_limit_of_the_products_steps():
    """Its rk4 at 1/3840 s is off by 1e-11."""
    node: Any = Scene.library("pendulum").bodies["bob"]
    mine = pendulum(TIMES, node.angle, node.rate, node.string_length, node.radius, node.damping, node.drag)
    assert np.abs(mine - rollout("pendulum", 128)["bob"]["angle"][0].numpy()).max() < 1e-10


def test_a_pendulum_may_turn_more_than_once_between_two_frames():
    fine = np.linspace(0, 2, 201)
    numbers = 1.0, 0.0, 0.05, 0.02, 0.1, 0.3  # a period of half a second
    assert np.abs(pendulum(fine[::80], *numbers) - pendulum(fine, *numbers)[::80]).max() < 1e-10


def test_two_points_on_rods_are_the_products_double_pendulum():
    node: Any = Scene.library("double_pendulum").bodies["arms"]
    start = [node.first_angle, node.second_angle], [node.first_rate, node.second_rate]
    lengths, masses = np.array([node.first_length, node.second_length]), [node.first_mass, node.second_mass]
    mine = double_pendulum(TIMES, *start, lengths, masses, node.damping)
    assert np.abs(mine - rollout("double_pendulum", 8)["arms"]["angle"][0].numpy()).max() < 1e-10


def test_a_chain_in_its_angles_is_the_limit_of_bodies_held_by_multipliers():
    """rk4: half the step, a sixteenth of the difference."""
    scene: Any = Scene.library("arm")
    links = []
    for (_, node), joint in zip(scene.bodies.items(), scene.joints.values(), strict=True):
        keys = ("angle", "rate", "stiffness", "target", "damping", "torque")
        numbers = {key: getattr(joint, key) for key in keys}
        places = joint.parent_point, joint.child_point, joint.axis
        links.append(Link(node.shape.box.size, node.mass, *places, **numbers))
    hand = Chain(links).trajectory(TIMES)[2][0]
    off = [np.abs(rollout("arm", n, integrator="rk4")["hand"]["x"][0].numpy() - hand).max() for n in (8, 16)]
    assert 12 < off[0] / off[1] < 20 and off[1] < 1e-7
