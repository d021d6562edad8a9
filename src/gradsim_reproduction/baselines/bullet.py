"""A scene in PyBullet: its own simulator and its own renderer, with what the two engines have in common.

Mesh, centre of mass, inertia, start, push, gravity, ground, camera and colour are the scene's. What touches is the convex
hull, which a plane meets where it meets the mesh. PyBullet takes the stiffness and damping of the paper's law, and the
friction; it knows neither `friction_stiffness` nor our laws, so that the same mass moves otherwise here than in gradSim.
240 steps a second, a frame every eighth (paper, H.1); TinyRenderer, without shadows, which leaves the background white.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from gradsim.errors import InputError
from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.physics.rigid.body import RigidBody
from gradsim.runtime.optional import require_extra
from gradsim.scene import Scene
from gradsim.scene.camera import CameraSpec

RATE = 240  # steps a second (paper, H.1), PyBullet's default
NEAR, FAR = 0.05, 100.0  # [m] between these the image shows
AWAY = (0.0, 0.0, -10 * FAR)  # [m] where the ground's own image is hidden: the scene shows none


@contextmanager
def bullet(scene: Scene) -> Iterator["Bullet"]:
    """A PyBullet of its own that holds a scene.

        with bullet(scene) as world:
            frames = world.film(5.0)

    Args:
        scene: One rigid body, one level ground, pushes at the start.

    Raises:
        InputError: If PyBullet is not installed, or the scene is another.
    """
    world = Bullet(scene)
    try:
        yield world
    finally:
        world.engine.disconnect(world.client)


class Bullet:
    """See `bullet`, which makes and ends it."""

    def __init__(self, scene: Scene):
        self.engine = require_extra("pybullet", "this baseline", "baselines")
        self.body, self.ground = _supported(scene)
        self.timing, self.size = scene.timing, scene.view("camera").size
        model = Model(scene)
        self.system, self.values = model.systems[0], model.values()
        assert isinstance(self.system, RigidBody)
        _, axes = torch.linalg.eigh(self.system.inertia(self.values)[0].detach())
        self.axes = axes * torch.linalg.det(axes).sign()  # principal ones, in the body's frame
        self.points = (self.system.rest @ self.axes * self.values[f"{self.system.name}.scale"]).tolist()
        self.faces = self.system.part.faces.flatten().tolist()
        self.client = self.engine.connect(self.engine.DIRECT)
        self.camera = dict(zip(("viewMatrix", "projectionMatrix"), matrices(scene.view("camera")), strict=True))

    def video(self, mass: float, frames: int | None = None) -> np.ndarray:
        """Frames (frames, height, width, 3) in [0, 1] of the motion with a mass [kg]; frame 0 is the start."""
        return np.stack([self._image() for _ in self.run(mass, frames)])

    def run(self, mass: float, frames: int | None = None) -> Iterator[int]:
        """Simulate; yields the number of PyBullet's body at each frame.

        All is built anew each time, so that contacts of an earlier run leave no trace.
        """
        body = self._build(mass)
        for k in range(frames or self.timing.frames):
            for _ in range(round(RATE / self.timing.fps) if k else 0):
                self.engine.stepSimulation(physicsClientId=self.client)
            yield body

    @torch.no_grad()
    def _build(self, mass: float) -> int:
        engine, to = self.engine, {"physicsClientId": self.client}
        x, q, v, spin, moments = self._start(mass)
        engine.resetSimulation(**to)
        engine.setTimeStep(1 / RATE, **to)
        engine.setGravity(*self.values["gravity"][0].tolist(), **to)
        hidden = engine.createVisualShape(engine.GEOM_SPHERE, radius=1e-3, visualFramePosition=AWAY, **to)
        plane = engine.createCollisionShape(engine.GEOM_PLANE, planeNormal=[0, 0, 1], **to)
        ground = engine.createMultiBody(0, plane, hidden, basePosition=[0, 0, self.ground.height], **to)
        hull = engine.createCollisionShape(engine.GEOM_MESH, vertices=self.points, **to)
        colour = [*self.body.colour, 1.0]
        look = engine.createVisualShape(
            engine.GEOM_MESH, vertices=self.points, indices=self.faces, rgbaColor=colour, **to
        )
        body = engine.createMultiBody(mass, hull, look, basePosition=x, baseOrientation=q, **to)
        contact = {}
        if self.ground.damping is not None:  # else PyBullet's own, which is stiff
            contact = {"contactStiffness": self.ground.stiffness, "contactDamping": self.ground.damping}
        still = {"linearDamping": 0.0, "angularDamping": 0.0, "rollingFriction": 0.0, "spinningFriction": 0.0}
        engine.changeDynamics(ground, -1, lateralFriction=1.0, **to)  # the product of both counts
        engine.changeDynamics(
            body, -1, lateralFriction=self.ground.friction, localInertiaDiagonal=moments, **contact, **still, **to
        )
        engine.resetBaseVelocity(body, v, spin, **to)
        return body

    def _start(self, mass: float) -> list[list[float]]:
        """Position, orientation of the principal axes, velocity and spin after the pushes, and principal moments."""
        values = {**self.values, f"{self.system.name}.mass": torch.tensor([mass], dtype=torch.float64)}
        x, q, v, l = self.system.start(values)
        for push in self.body.pushes:
            impulse = torch.tensor(push.impulse, dtype=x.dtype)[None]
            v = v + impulse / mass
            l = l + rotation.cross(rotation.rotate(q, torch.tensor(push.point, dtype=x.dtype)[None]), impulse)
        turned = rotation.from_matrix(rotation.to_matrix(q) @ self.axes)
        moments = (self.axes.T @ self.system.inertia(values)[0] @ self.axes).diagonal()[None]
        return [part[0].tolist() for part in (x, turned, v, self.system.spin(q, l, values), moments)]

    def _image(self) -> np.ndarray:
        engine, (width, height) = self.engine, self.size
        plain = {"shadow": 0, "flags": engine.ER_NO_SEGMENTATION_MASK, "renderer": engine.ER_TINY_RENDERER}
        image = engine.getCameraImage(width, height, **self.camera, **plain, physicsClientId=self.client)
        return np.reshape(image[2], (height, width, 4))[..., :3] / 255


def matrices(camera: CameraSpec) -> tuple[list[float], list[float]]:
    """OpenGL's view and projection matrices of a camera, column by column."""
    (K, R, t), (width, height) = camera.matrices(), camera.size
    view = np.eye(4)
    view[:3] = np.diag([1, -1, -1]) @ np.column_stack([R, t])  # OpenGL looks along -z, with y up
    projection = np.array(
        [
            [2 * K[0, 0] / width, 0, 1 - 2 * K[0, 2] / width, 0],
            [0, 2 * K[1, 1] / height, 2 * K[1, 2] / height - 1, 0],
            [0, 0, (FAR + NEAR) / (NEAR - FAR), 2 * FAR * NEAR / (NEAR - FAR)],
            [0, 0, -1, 0],
        ]
    )
    return view.T.ravel().tolist(), projection.T.ravel().tolist()


def squared_error(video: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Mean square over pixels and channels of each frame (frames,)."""
    return np.square(video - target).mean((1, 2, 3))


def reward_of(errors: np.ndarray) -> np.ndarray:
    """Minus the sum over frames of their L2 distances (paper, H.1), from squared errors (..., frames)."""
    return -np.sqrt(errors).sum(-1)


def _supported(scene: Scene):
    """The body and the ground of a scene that PyBullet can play."""
    bodies, grounds = list(scene.bodies.values()), list(scene.grounds.values())
    if len(bodies) != 1 or bodies[0].kind != "rigid" or len(grounds) != 1 or scene.obstacles:
        raise InputError("this baseline takes a scene of one rigid body and one ground; this scene is another.")
    body, ground = bodies[0], grounds[0]
    if tuple(np.sign(ground.normal)) != (0, 0, 1):
        raise InputError(f"the ground's normal is {list(ground.normal)}; this baseline takes a level one, [0, 0, 1].")
    if any(push.after_start or push.impulse is None for push in body.pushes):
        raise InputError("this baseline takes pushes at the start alone: give each an `impulse` at 0.")
    if RATE % scene.timing.fps:
        raise InputError(f"timing.fps is {scene.timing.fps:g}; this baseline takes a divisor of {RATE}.")
    return body, ground
