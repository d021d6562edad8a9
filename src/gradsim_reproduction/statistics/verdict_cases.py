"""50 scenes whose verdict is known before any fit: 25 that leave something open, and 25 where one thing more fixes it.

Each pair differs in one thing: a push, a touch, a slide, a swing, a number that is known. The open one has one null
direction, written here with its coefficients over logarithms, or over shares of the range for what may be negative; None
means a coefficient of any size but zero, where it depends on the truth.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gradsim.scene import Scene
from gradsim_reproduction.statistics.verdict_scenes import (
    arm,
    beam,
    box,
    cloth,
    dangle,
    double,
    far,
    paper_box,
    pendulum,
    rope,
)

HALF = 0.5
EQUAL = 2**-0.5
PUSH = {"pushes": [{"impulse": [4.0, 0.0, 1.5], "point": [0.0, 0.05, 0.1], "at": 0}]}
MASS, GRAVITY = "body.mass:2:12", "gravity.z:-14:-6"
STIFFNESS, LOSS = "ground.stiffness:1e4:1e5", "ground.dissipation:0.05:0.5"
CREEP, FRICTION = "ground.friction_stiffness:20:200", "ground.friction:0.2:0.8"
HIGH = {"position": [-0.9, 0.0, 3.0], "velocity": [1.5, 0.0, 2.0]}  # never comes down within the video
STILL = [0.0, 0.0, 0.0]
FLAT = {
    "position": [0.0, 0.0, 0.2],
    "rotation_vector": STILL,
    "velocity": STILL,
    "angular_velocity": STILL,
}  # on a face
RESTS = {**FLAT, "position": [0.0, 0.0, 0.15]}  # on the ground: no drop
# the paper's law sticks below μN; the continuous one goes over smoothly, and so carries some information about μ even there
STICKY = {"law": "paper", "damping": 300, "dissipation": None}
SLIDES = {**FLAT, "velocity": [2.0, 0.0, 0.0], "position": [-0.9, 0.0, 0.16]}
INCLINE, STEEP = [2.0, 0.0, -9.6], [5.0, 0.0, -8.4]  # [m/s²] gravity in the frame of the floor
FREE = {"pinned": []}


@dataclass(frozen=True)
class VerdictCase:
    """One scene and its expected verdict.

    Args:
        name: In words.
        scene: Makes it.
        unknowns: NAME:LOW:HIGH.
        null: The null direction by unknowns; None where all are identifiable.
        words: Text that its explanation contains.
    """

    name: str
    scene: Callable[[], Scene]
    unknowns: tuple[str, ...]
    null: dict[str, float | None] | None = None
    words: str = ""


def _pair(
    open_name, open_scene, unknowns, null, words, known_name, known_scene, known_unknowns=None
) -> tuple[VerdictCase, ...]:
    return (
        VerdictCase(open_name, open_scene, unknowns, null, words),
        VerdictCase(known_name, known_scene, known_unknowns or unknowns),
    )


def _alone(unknown: str) -> dict[str, float | None]:
    return {unknown.partition(":")[0]: 1.0}


FIVE = (
    MASS,
    "ground.stiffness:2e4:5e5",
    "ground.damping:1:200",
    "ground.friction_stiffness:1:200",
    "ground.friction:0.2:1",
)
SCALE = {
    "body.mass": HALF,
    "ground.stiffness": HALF,
    "ground.damping": HALF,
    "ground.friction_stiffness": HALF,
    "ground.friction": 0.0,
}
BOB = "bob.damping:0.05:0.5"
ROPE = ("rope.mass:0.1:0.4", "rope.stiffness:100:400")
BEAM = ("beam.density:500:2000", "beam.young:1e5:4e5")
AIR = ("cloth.air.density:0.6:2.4", "cloth.air.drag:0.5:2")
MASSES = ("arms.first_mass:0.5:2", "arms.second_mass:0.4:1.5")
LENS = ("camera.focal:1740:1930", "camera.translation.z:38:42")
CASES = (
    *_pair(
        "mass in free flight", lambda: box(), (MASS,), _alone(MASS), "push with a known impulse",
        "mass in free flight, with a known push", lambda: box(PUSH),
    ),
    *_pair(
        "five numbers of a contact, no known force", lambda: paper_box(False), FIVE, SCALE, "common factor",
        "the same, with a known push", lambda: paper_box(True), FIVE,
    ),
    *_pair(
        "mass and stiffness, frictionless bounce", lambda: box(ground={"friction": 0.0}), (MASS, STIFFNESS),
        {"body.mass": EQUAL, "ground.stiffness": EQUAL}, "common factor",
        "the same, mass known", lambda: box(ground={"friction": 0.0}), (STIFFNESS,),
    ),
    *_pair(
        "friction, never comes down", lambda: box(HIGH, ground={}), (FRICTION,), _alone(FRICTION), "slides",
        "friction, slides", lambda: box(SLIDES, ground={}),
    ),
    *_pair(
        "friction, drops flat without sliding", lambda: box(FLAT, ground={}), (FRICTION,), _alone(FRICTION), "slides",
        "friction, drops tilted and spinning", lambda: box({"angular_velocity": [0.0, 6.0, 0.0]}, ground={}),
    ),
    *_pair(
        "friction, sticks on a slope", lambda: box(RESTS, ground=STICKY, gravity=INCLINE), ("ground.friction:0.4:0.9",),
        _alone(FRICTION), "slides",
        "friction, slips on a steeper slope", lambda: box(RESTS, ground=STICKY, gravity=STEEP), ("ground.friction:0.1:0.4",),
    ),
    *_pair(
        "creep, drops flat without sliding", lambda: box(FLAT, ground={}), (CREEP,), _alone(CREEP), "creeps",
        "creep on a slope", lambda: box(FLAT, ground={"friction": 0.9}, gravity=INCLINE),
    ),
    *_pair(
        "stiffness of a ground, never touched", lambda: box(HIGH, ground={}), (STIFFNESS,), _alone(STIFFNESS), "bounce",
        "stiffness, bounces", lambda: box(ground={}),
    ),
    *_pair(
        "loss of a bounce, never touched", lambda: box(HIGH, ground={}), (LOSS,), _alone(LOSS), "bounce",
        "loss, bounces", lambda: box(ground={}),
    ),
    *_pair(
        "impulse and mass", lambda: box(PUSH), (MASS, "body.pushes.0.impulse.x:2:8", "body.pushes.0.impulse.z:0.5:3"),
        {"body.mass": None, "body.pushes.0.impulse.x": None, "body.pushes.0.impulse.z": None}, "together",
        "impulse, mass known", lambda: box(PUSH), ("body.pushes.0.impulse.x:2:8", "body.pushes.0.impulse.z:0.5:3"),
    ),
    *_pair(
        "damping of a pendulum at rest", lambda: pendulum(angle=0.0), (BOB,), _alone(BOB), "slows",
        "damping of a pendulum that swings", lambda: pendulum(),
    ),
    *_pair(
        "drag of a pendulum at rest", lambda: pendulum(angle=0.0), ("bob.drag:0.1:1",), {"bob.drag": 1.0}, "air",
        "drag of a pendulum that swings", lambda: pendulum(),
    ),
    *_pair(
        "gravity from a pendulum at rest", lambda: pendulum(angle=0.0), (GRAVITY,), _alone(GRAVITY), "motion",
        "gravity from a pendulum that swings", lambda: pendulum(),
    ),
    *_pair(
        "gravity and the rate of the clock", lambda: pendulum(lossless=True), (GRAVITY, "timing.rate:0.7:1.4"),
        {"gravity.z": None, "timing.rate": None}, "together",
        "rate of the clock, gravity known", lambda: pendulum(lossless=True), ("timing.rate:0.7:1.4",),
    ),
    *_pair(
        "both masses of a double pendulum", double, MASSES, dict.fromkeys(("arms.first_mass", "arms.second_mass"), EQUAL),
        "common factor", "one mass of a double pendulum", double, MASSES[1:],
    ),
    *_pair(
        "mass and stiffness of a rope", lambda: rope(), ROPE, {"rope.mass": EQUAL, "rope.stiffness": EQUAL},
        "common factor", "stiffness of a rope, mass known", lambda: rope(), ROPE[1:],
    ),
    *_pair(
        "stiffness of a rope in free fall", lambda: rope(FREE), ROPE[1:], {"rope.stiffness": 1.0}, "stretches",
        "stiffness of a rope that is stretched in free fall", lambda: rope({**FREE, "rest_length_factor": 0.7}), ROPE[1:],
    ),
    *_pair(
        "elasticity of a solid in free fall", lambda: beam(FREE), BEAM[1:], {"beam.young": 1.0}, "bends",
        "elasticity of a clamped beam", lambda: beam(), BEAM[1:],
    ),
    *_pair(
        "density and elasticity of a beam", lambda: beam(), BEAM, {"beam.density": EQUAL, "beam.young": EQUAL},
        "common factor", "density of a beam, elasticity known", lambda: beam(), BEAM[:1],
    ),
    *_pair(
        "inner damping of a solid in free fall", lambda: beam({**FREE, "damping": 20}), ("beam.damping:10:100",),
        {"beam.damping": 1.0}, "slows",
        "inner damping of a beam that swings", lambda: beam({"damping": 20}), ("beam.damping:10:100",),
    ),
    *_pair(
        "density of a cloth in a vacuum", lambda: cloth(air=False), ("cloth.density:0.1:0.4",), {"cloth.density": 1.0},
        "push with a known impulse", "density of a cloth in known air", lambda: cloth(), ("cloth.density:0.1:0.4",),
    ),
    *_pair(
        "density of the air and drag", lambda: cloth(), AIR, {"cloth.air.density": EQUAL, "cloth.air.drag": -EQUAL}, "s^",
        "drag, density of the air known", lambda: cloth(), AIR[1:],
    ),
    *_pair(
        "damping of a hinge at rest", lambda: dangle(0.0), ("joints.hinge.damping:0.05:0.5",),
        {"joints.hinge.damping": 1.0}, "slows",
        "damping of a hinge that swings", lambda: dangle(1.0), ("joints.hinge.damping:0.05:0.5",),
    ),
    *_pair(
        "mass and spring of a weightless arm", lambda: arm(), ("link.mass:0.5:2", "joints.hinge.stiffness:1:4"),
        {"link.mass": EQUAL, "joints.hinge.stiffness": EQUAL}, "common factor",
        "spring of a weightless arm, mass known", lambda: arm(), ("joints.hinge.stiffness:1:4",),
    ),
    *_pair(
        "focal length and distance of a small ball", lambda: far(), LENS, {"camera.focal": None, "camera.translation.z": None},
        "together", "focal length, distance known", lambda: far(), LENS[:1],
    ),
)  # fmt: skip
