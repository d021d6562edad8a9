"""Films of `reproduce capture`: what is filmed, by what camera, and what the person who fits the film knows.

A cube of known size (but one kind) is thrown, pushed or slides. Motions are closed forms: a parabola with constant spin, since all
axes of a cube have the same moment of inertia, and Coulomb's friction on a floor. Everything is drawn from the number of the film before
any film is fitted; the scene holds guesses from the ranges of the unknowns, never the truth.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np

from gradsim_reproduction.calibration.board_images import CameraTruth
from gradsim_reproduction.calibration.film_images import FilmCamera, Pose

SIZE, FPS = (640, 480), 30
EXPOSURE, READOUT, JITTER = 1 / 60, 0.027, 0.005  # [s]
EXPOSURE_SD, READOUT_SD = 0.02 * EXPOSURE, 0.001  # of a data sheet [s]
CRF, SIGMA = 28, (0.005, 0.012)
COLORS = ((0.7, 0.14, 0.1), (0.1, 0.22, 0.55), (0.08, 0.38, 0.18), (0.5, 0.1, 0.42))
G = 9.81
# damped: on a stiff floor without, a cube that slides rocks from corner to corner, and its motion forgets its parameters
FLOOR = {"law": "constant-restitution", "stiffness": 2e4, "damping": 100, "friction_stiffness": 500}
SCENE, TRUTH, LENS, LOOK, STARTS = range(5)  # streams of random numbers


@dataclass(frozen=True, eq=False)
class Film:
    """One film.

    Attributes:
        kind, number, seed: Which.
        content: Content of the scene, without camera and clock.
        unknowns: With ranges, as words of `gradsim fit`.
        truth: Of the unknowns.
        judged: Unknowns whose errors count.
        pose: Motion of the cube.
        side: Of the cube [m].
        stamps: Times of the frames [s].
        frames: Frames that the fit uses.
    """

    kind: str
    number: int
    seed: int
    content: dict
    unknowns: tuple[str, ...]
    truth: dict[str, float]
    judged: tuple[str, ...]
    pose: Pose
    side: float
    stamps: np.ndarray
    frames: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind} {self.number}"

    def random(self, purpose: int) -> np.random.Generator:
        """Random numbers of this film for one purpose."""
        return stream(self.kind, self.number, self.seed, purpose)


def stream(kind: str, number: int, seed: int, purpose: int) -> np.random.Generator:
    """Random numbers of one film for one purpose."""
    return np.random.default_rng([seed, list(KINDS).index(kind), number, purpose])


@dataclass(frozen=True)
class _Draft:
    """Ranges of the unknowns, and numbers of the scene that are known."""

    ranges: dict[str, tuple[float, float]]
    judged: tuple[str, ...]
    frames: int
    known: dict[str, float]


def _places(x: float, y: float, z: float, reach: float = 0.12) -> dict[str, tuple[float, float]]:
    return {f"cube.position.{axis}": (p - reach, p + reach) for axis, p in zip("xyz", (x, y, z), strict=True)}


TURNS = {f"cube.rotation_vector.{axis}": (-0.25, 0.25) for axis in "xyz"}
SPINS = {f"cube.angular_velocity.{axis}": (-3.0, 3.0) for axis in "xyz"}
THROW = {"cube.velocity.x": (1.6, 2.4), "cube.velocity.y": (-0.3, 0.3), "cube.velocity.z": (2.6, 3.2)}


def _throw(rng: np.random.Generator) -> _Draft:
    """A cube of known size in flight: its velocity, and gravity."""
    ranges = {**THROW, "gravity.z": (-12.0, -8.0), **_places(-0.65, 0.0, 0.5), **TURNS, **SPINS}
    return _Draft(ranges, (*THROW, "gravity.z"), int(rng.integers(14, 18)), {"side": rng.uniform(0.2, 0.28)})


def _size(rng: np.random.Generator) -> _Draft:
    """A cube of unknown size in flight, where gravity is known."""
    ranges = {**THROW, "cube.scale": (0.7, 1.4), **_places(-0.65, 0.0, 0.5), **TURNS, **SPINS}
    return _Draft(ranges, ("cube.scale", *THROW), int(rng.integers(14, 18)), {"side": rng.uniform(0.18, 0.24)})


def _push(rng: np.random.Generator) -> _Draft:
    """A cube that rests on a stand until a known push: its mass. The frame of the push is left out."""
    ranges = {"cube.mass": (0.8, 1.6), **_places(-0.6, 0.0, 0.5), **TURNS}
    known = {
        "side": rng.uniform(0.2, 0.28),
        "x": rng.uniform(1.9, 2.6),
        "y": rng.uniform(-0.3, 0.3),
        "z": rng.uniform(2.4, 3.2),
    }
    return _Draft(ranges, ("cube.mass",), int(rng.integers(15, 19)), known)


def _slide(rng: np.random.Generator) -> _Draft:
    """A cube that slides on a floor: friction and velocity."""
    side = rng.uniform(0.2, 0.3)
    ranges = {"ground.friction": (0.1, 0.5), "cube.velocity.x": (1.5, 2.5), "cube.velocity.y": (-0.3, 0.3)}
    ranges |= {k: v for k, v in _places(-0.6, 0.0, 0.0).items() if k != "cube.position.z"}
    ranges["cube.rotation_vector.z"] = (-0.25, 0.25)
    return _Draft(
        ranges, ("ground.friction", "cube.velocity.x", "cube.velocity.y"), int(rng.integers(16, 20)), {"side": side}
    )


KINDS: dict[str, Callable[[np.random.Generator], _Draft]] = {
    "throw": _throw,
    "push": _push,
    "slide": _slide,
    "size": _size,
}


@cache
def film(kind: str, number: int, seed: int) -> Film:
    """The film of this kind and number."""
    draft = KINDS[kind](stream(kind, number, seed, SCENE))
    hidden, guess = stream(kind, number, seed, TRUTH), stream(kind, number, seed, STARTS)
    truth = {name: float(hidden.uniform(*span)) for name, span in draft.ranges.items()}
    steps = hidden.uniform(-JITTER, JITTER, draft.frames)
    stamps = np.arange(draft.frames) / FPS + steps - steps[0]
    content = _content(kind, draft, {name: float(guess.uniform(*span)) for name, span in draft.ranges.items()})
    unknowns = tuple(f"{name}:{low:g}:{high:g}" for name, (low, high) in draft.ranges.items())
    side = draft.known["side"] * truth.get("cube.scale", 1.0)
    pose = _sliding(truth, side) if kind == "slide" else _flying(truth, draft.known)
    args = (kind, number, seed, content, unknowns, truth, draft.judged, pose, side, stamps)
    return Film(*args, frames="!0" if kind == "push" else "")


def _vector(values: dict[str, float], key: str) -> np.ndarray:
    return np.array([values.get(f"{key}.{axis}", 0.0) for axis in "xyz"])


def _content(kind: str, draft: _Draft, guess: dict[str, float]) -> dict:
    """Scene with guesses, without a camera."""
    side = draft.known["side"]
    cube = {"shape": {"box": {"size": [side] * 3}}, "mass": guess.get("cube.mass", 1.0)}
    for key in ("position", "rotation_vector", "velocity", "angular_velocity"):
        cube[key] = _vector(guess, f"cube.{key}").tolist()
    content = {"gravity": [0, 0, guess.get("gravity.z", -G)], "bodies": {"cube": cube}}
    if kind == "push":
        cube["pushes"] = [{"impulse": [draft.known[axis] for axis in "xyz"]}]
    if kind == "slide":
        cube["position"][2] = side / 2
        content["ground"] = FLOOR | {"friction": guess["ground.friction"]}
    return content


def _turned(start: np.ndarray, spin: np.ndarray, t: np.ndarray) -> np.ndarray:
    """exp(spin t) exp(start), (times, 3, 3), by Rodrigues' formula."""
    size = np.linalg.norm(spin)
    first = cv2.Rodrigues(start)[0]
    if size == 0:
        return np.broadcast_to(first, (len(t), 3, 3))
    x, y, z = spin / size
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    a = (size * t)[:, None, None]
    return (np.eye(3) + np.sin(a) * cross + (1 - np.cos(a)) * cross @ cross) @ first


def _flying(truth: dict[str, float], known: dict[str, float]) -> Pose:
    x, v = _vector(truth, "cube.position"), _vector(truth, "cube.velocity")
    pushed = "cube.mass" in truth
    if pushed:
        v = np.array([known[axis] for axis in "xyz"]) / truth["cube.mass"]
    g = np.array([0, 0, truth.get("gravity.z", -G)])
    turn, spin = _vector(truth, "cube.rotation_vector"), _vector(truth, "cube.angular_velocity")

    def pose(t):
        s = np.maximum(t, 0) if pushed else t  # at rest before the push
        return x + np.outer(s, v) + 0.5 * np.outer(s**2, g), _turned(turn, spin, t)

    return pose


def _sliding(truth: dict[str, float], side: float) -> Pose:
    """x(t) of Coulomb's friction: the speed falls by μ g until it is 0."""
    x, v = _vector(truth, "cube.position") + [0, 0, side / 2], _vector(truth, "cube.velocity")
    speed, brake = float(np.linalg.norm(v)), truth["ground.friction"] * G

    def pose(t):
        s = np.minimum(t, speed / brake)
        return x + np.outer(s - 0.5 * brake / speed * s**2, v), _turned(
            _vector(truth, "cube.rotation_vector"), 0 * v, t
        )

    return pose


@cache
def film_camera(kind: str, number: int, seed: int) -> FilmCamera:
    """The camera of a film: a random lens, about 2.3 m in front of the middle of the scene."""
    rng = stream(kind, number, seed, LENS)
    focal = rng.uniform(560, 720)
    centre = np.array(SIZE) / 2 - 0.5 + rng.uniform(-8, 8, 2)
    K = np.array([[focal, 0, centre[0]], [0, focal * rng.uniform(0.995, 1.005), centre[1]], [0, 0, 1]])
    k1 = rng.uniform(-0.3, 0.1)
    k2 = rng.uniform(0.0, 0.08) if k1 < 0 else rng.uniform(-0.05, 0.05)
    distortion = np.array([k1, k2, *rng.uniform(-1e-3, 1e-3, 2), 0.0])
    eye = np.array([rng.uniform(-0.4, 0.4), rng.uniform(-2.4, -2.1), rng.uniform(0.8, 1.2)])
    target = np.array([rng.uniform(-0.05, 0.05), 0.0, 0.45])
    forward = (target - eye) / np.linalg.norm(target - eye)
    roll = rng.uniform(-0.05, 0.05)
    up = np.array([math.sin(roll), 0.0, math.cos(roll)])
    right = np.cross(forward, up) / np.linalg.norm(np.cross(forward, up))
    R = np.stack([right, np.cross(forward, right), forward])
    return FilmCamera(CameraTruth(SIZE, K, distortion), R, -R @ eye, EXPOSURE, READOUT)
