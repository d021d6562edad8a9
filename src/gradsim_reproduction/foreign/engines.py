"""Boxes that MuJoCo and PyBullet toss: trajectories by contact laws that are not ours, drawn as the other videos.

Gravity, friction, start and box are given to the engine; of its own are how it integrates and what a contact is: MuJoCo's soft
constraints (Todorov 2014), PyBullet's impulses. Velocities and gravity mean the same to all, and so does the friction of
Coulomb's cone, but not a stiffness: no engine has ours, so it has no truth. Every third video ends before the box lands.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim.runtime.optional import require_extra
from gradsim.scene import Scene
from gradsim_reproduction.foreign.area_coverage import coverage, project
from gradsim_reproduction.foreign.scenes import BACKGROUND, BLUE, SCENE, TRUTH

RATE = 9600  # steps of the engines per second
FPS, SIZE, FRAMES = 30, 64, 16
FLIGHT = 3  # one in this number ends before it lands
COUNT = 20
QUICK = FLIGHT - 1  # which one the quick form has: a flight, which costs least
FREE = ("box.velocity.x:0.5:3", "box.velocity.z:-1:3", "gravity.z:-12:-8")
CONTACT = ("ground.friction:0.1:1", "ground.stiffness:2e3:5e5")


@dataclass(frozen=True)
class Toss:
    """One toss: what a fit may know, and the truth."""

    scene: Any  # a Scene with one rigid box
    unknowns: tuple[str, ...]
    truth: dict[str, float]
    friction: float  # also where no unknown


def toss(engine: str, number: int, seed: int) -> Toss:
    """The toss of this number."""
    index = list(ENGINES).index(engine)
    known, hidden = (np.random.default_rng([seed, 100 + index, number, stream]) for stream in (SCENE, TRUTH))
    flies = number % FLIGHT == FLIGHT - 1
    size = known.uniform(0.25, 0.5, 3)
    truth = {
        "box.velocity.x": hidden.uniform(0.5, 3),
        "box.velocity.z": hidden.uniform(0.5 if flies else -1, 3),
        "gravity.z": hidden.uniform(-12, -8),
    }
    friction = float(hidden.uniform(0.1, 1))
    truth |= {} if flies else {"ground.friction": friction}
    low = np.linalg.norm(size) / 2 + (1.2 if flies else known.uniform(0.02, 0.15))
    body = {
        "shape": {"box": {"size": size.tolist()}},
        "mass": 3.0,
        "position": [-0.8, 0.0, float(low)],
        "rotation_vector": known.uniform(-1, 1, 3).tolist(),
        "angular_velocity": known.uniform(-2, 2, 3).tolist(),
        "colour": BLUE,
    }
    eye, target = [known.uniform(-1, 1), -4.6, 1.2], [0.1, 0.0, 1.1 if flies else 0.5]
    content = {
        "name": f"{engine} {number}",
        "timing": {"fps": FPS, "frames": FRAMES},
        "bodies": {"box": body},
        "ground": {"stiffness": 2e4, "dissipation": 1.0, "friction_stiffness": 100, "friction": 0.5},
        "camera": {"size": [SIZE, SIZE], "look_at": {"eye": eye, "target": target, "fov": 0.8}},
        "background": BACKGROUND,
    }
    if flies:
        del content["ground"]
    return Toss(Scene.parse(content), FREE if flies else (*FREE, *CONTACT), truth, friction)


def masks(engine: str, one: Toss) -> np.ndarray:
    """Exact coverage (frames, height, width) of the engine's trajectory."""
    x, R = ENGINES[engine](one)
    mesh = one.scene.bodies["box"].shape.mesh()
    look, size = one.scene.camera.look_at, one.scene.camera.size
    points = project(x[:, None] + mesh.vertices @ R.transpose(0, 2, 1), look.eye, look.target, look.fov, size)
    return np.stack([coverage(frame, mesh.faces, size) for frame in points])


def mujoco_trajectory(one: Toss) -> tuple[np.ndarray, np.ndarray]:
    """x (frames, 3) and R (frames, 3, 3) by MuJoCo's fourth-order steps, its contacts at their defaults."""
    mujoco = require_extra("mujoco", "this comparison", "engines")
    node = one.scene.bodies["box"]
    half = " ".join(str(edge / 2) for edge in node.shape.box.size)
    friction = f'friction="{one.friction} 0 0"'
    ground = f'<geom type="plane" size="50 50 1" {friction}/>' if one.scene.grounds else ""
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{1 / RATE}" integrator="RK4" cone="elliptic" gravity="0 0 {one.truth["gravity.z"]}"/>'
        f'<worldbody>{ground}<body><freejoint/><geom type="box" size="{half}" mass="{node.mass}" {friction}/></body>'
        "</worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    turn = Rotation.from_rotvec(node.rotation_vector)
    data.qpos[:] = [*node.position, *np.roll(turn.as_quat(), 1)]
    data.qvel[:] = [*_velocity(one), *turn.inv().apply(node.angular_velocity)]  # its spin is in the body's axes
    poses = []
    for frame in range(one.scene.timing.frames):
        for _ in range(RATE // FPS if frame else 0):
            mujoco.mj_step(model, data)
        poses.append(data.qpos.copy())
    poses = np.array(poses)
    return poses[:, :3], Rotation.from_quat(np.roll(poses[:, 3:], -1, 1)).as_matrix()


def pybullet_trajectory(one: Toss) -> tuple[np.ndarray, np.ndarray]:
    """The same by PyBullet, whose contacts are at their defaults; without its damping of the air."""
    bullet = require_extra("pybullet", "this comparison", "engines")
    node, gravity = one.scene.bodies["box"], one.truth["gravity.z"]
    client = bullet.connect(bullet.DIRECT)
    to = {"physicsClientId": client}
    try:
        bullet.setTimeStep(1 / RATE, **to)
        bullet.setGravity(0, 0, gravity, **to)
        if one.scene.grounds:
            plane = bullet.createCollisionShape(bullet.GEOM_PLANE, planeNormal=[0, 0, 1], **to)
            ground = bullet.createMultiBody(0, plane, **to)
            bullet.changeDynamics(ground, -1, lateralFriction=1.0, **to)  # the product of both counts
        half = [edge / 2 for edge in node.shape.box.size]
        hull = bullet.createCollisionShape(bullet.GEOM_BOX, halfExtents=half, **to)
        turn = Rotation.from_rotvec(node.rotation_vector)
        box = bullet.createMultiBody(node.mass, hull, -1, node.position, turn.as_quat().tolist(), **to)
        still = {"linearDamping": 0, "angularDamping": 0, "rollingFriction": 0, "spinningFriction": 0}
        bullet.changeDynamics(box, -1, lateralFriction=one.friction, **still, **to)
        v = _velocity(one)
        v[2] -= gravity / (2 * RATE)  # its steps of Euler then pass through the points of the parabola
        bullet.resetBaseVelocity(box, v.tolist(), list(node.angular_velocity), **to)
        poses = []
        for frame in range(one.scene.timing.frames):
            for _ in range(RATE // FPS if frame else 0):
                bullet.stepSimulation(**to)
            poses.append(bullet.getBasePositionAndOrientation(box, **to))
    finally:
        bullet.disconnect(client)
    x, q = (np.array(part) for part in zip(*poses, strict=True))
    return x, Rotation.from_quat(q).as_matrix()


def _velocity(one: Toss) -> np.ndarray:
    return np.array([one.truth["box.velocity.x"], 0.0, one.truth["box.velocity.z"]])


ENGINES: dict[str, Callable[[Toss], tuple[np.ndarray, np.ndarray]]] = {
    "mujoco": mujoco_trajectory,
    "pybullet": pybullet_trajectory,
}
