"""Contact numbers of a scene in the words of MuJoCo.

Ours, for each contact point of depth C and sliding velocity u_t (`gradsim.physics.contact`):

    f_n = k_e C (1 + a Ċ)  or  k_e C + k_d Ċ          f_t = −min(μ f_n/|u_t|, k_f) u_t

MuJoCo (documentation, "Computation", "Solver parameters") solves for the force of each contact, with A the inverse of its
effective mass, a₀ the acceleration without contact, and  the estimate of A by the inverse mass of the bodies:

    f (A + Â (1 − d)/d) = −b Ċ' − κ r − a₀          d: impedance; solref (−K, −D): κ = K d(r)/d_max², b = D/d_max

With a constant, small d the term of  is all that counts, and f → (K C + D Ċ)/Â: a spring and a damper in parallel, whose
numbers are those of solref times the mass m = 1/Â (1/Â = m₁ m₂/(m₁ + m₂) of two bodies), whatever the point's lever. So

    solref = (−k_e/m, −c/m)    solreffriction = (0, −k_f/(i m))    solimp = (d, d, …)    friction = μ    cone = elliptic

A contact that slides has its force projected to the cone, in the metric of the regularization R, which raises the normal one:

    λ = (f_n + μ k_f |u_t|/i) / (1 + μ²/i)          i = R_n/R_t: `impratio`

With i = 1, MuJoCo's default, a box that slides as it lands is thrown up, so i = 100. The damper of friction is divided by i, for R_t is.

The damper c is k_d, or, for the laws whose loss is not of this form (Hunt–Crossley; constant restitution), the one with the
same coefficient of restitution of one contact point at the speed at which the body first meets the surface
(`gradsim.scene.restitution`). How far drops and slides are from ours is measured by `gradsim reproduce twin`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim.scene import restitution
from gradsim.scene.contact import LAWS, Contact
from gradsim.scene.exporters.solids import Lumps
from gradsim.scene.exporters.twin import Link, Static, Twin

IMPEDANCE = 1e-4  # d: the relative error of stiffness and damping; MuJoCo's least
IMPRATIO = 100.0  # R_n/R_t: sliding adds 1/100 of k_f u to the normal force, and k_f is off by 100 d, as much
LEAST_SPEED = 0.1  # [m/s] of an impact whose restitution is matched: of bodies that start at rest on the ground
NUMBERS = ("stiffness", "dissipation", "damping", "friction_stiffness", "friction")
MIN_RESTITUTION = 1e-3  # least restitution that is matched: a contact without bounce has the damper of this one


@dataclass(frozen=True)
class Law:
    """Contact numbers of one pair of bodies, ours.

    Attributes:
        law: Name of the contact law.
        stiffness: k_e [N/m].
        loss: Dissipation a [s/m] of the law `continuous`, damping k_d [N s/m] of others.
        friction_stiffness: k_f [N s/m].
        friction: μ.
        margin: Distance at which contact begins [m].
        rolling, spinning: Levers of rolling and spinning friction [m].
    """

    law: str
    stiffness: float
    loss: float
    friction_stiffness: float
    friction: float
    margin: float = 0.0
    rolling: float = 0.0
    spinning: float = 0.0


@dataclass(frozen=True)
class Soft:
    """Contact numbers of one pair of bodies, MuJoCo's.

    Attributes:
        stiffness: K of solref [1/s²].
        damping: D of solref [1/s].
        sliding: Its D of the directions of friction [1/s].
        friction: μ.
        impedance: d of solimp.
        margin: Distance at which contact begins [m].
        speed: Speed of the impact whose restitution is that of the scene [m/s].
        restitution: That restitution, of one contact point.
        rolling, spinning: Levers of rolling and spinning friction [m].
    """

    stiffness: float
    damping: float
    sliding: float
    friction: float
    impedance: float = IMPEDANCE
    margin: float = 0.0
    speed: float = 0.0
    restitution: float = 1.0
    rolling: float = 0.0
    spinning: float = 0.0

    @property
    def dimensions(self) -> str:
        """`condim` of a `pair` element: with spin and rolling where there is friction of them."""
        return "6" if self.rolling else "4" if self.spinning else "3"

    @property
    def attributes(self) -> dict[str, tuple[float, ...]]:
        """Attributes of a `pair` element."""
        return {
            "friction": (self.friction, self.friction, self.spinning, self.rolling, self.rolling),
            "solref": (-self.stiffness, -self.damping),
            "solreffriction": (0.0, -self.sliding / IMPRATIO),
            "solimp": (self.impedance, self.impedance, 1e-3, 0.5, 1.0),
            "margin": (self.margin,),
        }


def law_of(static: Static, link: Link | Lumps) -> Law:
    """Contact law of a link, or a vertex of a solid, with a ground or obstacle, with the overrides of the body."""
    contact = static.contact
    numbers = {key: getattr(contact, key) for key in NUMBERS} | link.contact
    levers = {"rolling": contact.rolling_friction or 0.0, "spinning": contact.spinning_friction or 0.0}
    return replace(_law(contact.law, numbers, contact.margin), **levers)


def in_words(contact: Contact) -> str:
    """Law and numbers of a surface."""
    loss = contact.dissipation if contact.dissipation is not None else contact.damping
    named = {"rolling": contact.rolling_friction, "spinning": contact.spinning_friction}
    levers = "".join(f", {name} friction {lever:g} m" for name, lever in named.items() if lever)
    return (
        f"contact law {contact.law}, stiffness {contact.stiffness:g}, loss {loss or 0:g}, friction {contact.friction:g}, friction "
        f"stiffness {contact.friction_stiffness:g}{levers}"
    )


def law_of_pair(numbers: Mapping[str, float]) -> Law:
    """Contact law between two links."""
    return _law("continuous", numbers, 0.0)


def impact_speed(static: Static, link: Link, gravity: np.ndarray) -> float:
    """Speed [m/s] at which a link that falls freely from its start first meets a plane or the level of an obstacle."""
    R = Rotation.from_quat(link.quat_xyzw)
    points = [R.apply(form.mesh.vertices + form.centre) + link.x for form in link.forms]
    return fall_speed(static, np.concatenate(points or [link.x[None]]), link.x, link.v, gravity)


def normal_of(static: Static, centre: np.ndarray) -> np.ndarray:
    """Unit normal of a plane, or the direction from an obstacle to a point (3,)."""
    if static.kind == "plane":
        return Rotation.from_quat(static.quat_xyzw).apply([0.0, 0.0, 1.0])
    away = centre - static.position
    return away / max(float(np.linalg.norm(away)), 1e-12)


def fall_speed(static: Static, points: np.ndarray, centre: np.ndarray, v: np.ndarray, gravity: np.ndarray) -> float:
    """Speed [m/s] at which points (n, 3) that fall freely first meet a plane or the level of an obstacle.

        v² = u² + 2 g h      u: towards the surface at the start, h: gap of the lowest point, g: gravity towards the surface

    At least `LEAST_SPEED`, for bodies that start at rest on the ground.
    """
    normal = normal_of(static, centre)
    reach = 0.0 if static.kind == "plane" else 0.5 * max(static.size) if static.kind == "box" else static.size[0]
    gap = max(0.0, float(((points - static.position) @ normal).min()) - reach - static.contact.margin)
    squared = min(v @ normal, 0.0) ** 2 + 2 * max(-gravity @ normal, 0.0) * gap
    return max(math.sqrt(squared), LEAST_SPEED)


def softened(law: Law, mass: float, speed: float) -> Soft:
    """MuJoCo's numbers of a contact law.

    Args:
        law: Ours.
        mass: 1/Â [kg]: of a body on a static surface its mass, of two bodies m₁ m₂/(m₁ + m₂).
        speed: Of the impact whose restitution is matched [m/s].
    """
    if law.law == "continuous":
        e = restitution.of_dissipation(law.loss, speed)
        damper = restitution.damping(max(e, MIN_RESTITUTION), law.stiffness, mass)
    else:
        e = restitution.of_damping(law.loss, law.stiffness, mass, law.law)
        damper = law.loss if law.law == "paper" else restitution.damping(max(e, MIN_RESTITUTION), law.stiffness, mass)
    return Soft(
        law.stiffness / mass,
        damper / mass,
        law.friction_stiffness / mass,
        law.friction,
        margin=law.margin,
        speed=speed,
        restitution=e,
        rolling=law.rolling,
        spinning=law.spinning,
    )


def contacts(twin: Twin) -> dict[tuple[str, str], tuple[Law, Soft]]:
    """Both sets of contact numbers, for all pairs of a static surface or a link, and a link, that collide; MuJoCo's times their factors."""
    table: dict[tuple[str, str], tuple[Law, Soft]] = {}
    solid = {name: link for name, link in twin.links.items() if any(form.collides for form in link.forms)}
    for static in twin.statics:
        for name, link in solid.items():
            law = law_of(static, link)
            table[static.name, name] = law, softened(law, link.mass, impact_speed(static, link, twin.gravity))
    for first, second, numbers in twin.pairs:
        if first in solid and second in solid:
            law, (a, b) = law_of_pair(numbers), (twin.links[first], twin.links[second])
            speed = max(float(np.linalg.norm(a.v - b.v)), LEAST_SPEED)
            table[first, second] = law, softened(law, a.mass * b.mass / (a.mass + b.mass), speed)
    for pair, factors in twin.contact_factors.items():
        law, soft = table[pair]
        table[pair] = law, replace(soft, **{key: getattr(soft, key) * factor for key, factor in factors.items()})
    return table


def _law(name: str, numbers: Mapping[str, float | None], margin: float) -> Law:
    loss = numbers["damping" if LAWS.get(name) == "damping" else "dissipation"]
    return Law(
        name,
        float(numbers["stiffness"] or 0.0),
        float(loss or 0.0),
        float(numbers["friction_stiffness"] or 0.0),
        float(numbers["friction"] or 0.0),
        margin,
    )
