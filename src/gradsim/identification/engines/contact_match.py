"""Contact numbers of MuJoCo that make bodies bounce, slide and sink as by the scene's law, found by fitting two trials (extra `engines`).

For each body and ground of a scene, the body alone

    drops    from its start, until it has settled; after a fall of more than 2 s, at the speed of its impact and just above the ground
    slides   from where it came to rest, along the ground, at that speed

by gradsim and by MuJoCo. Stiffness, damping, damping of friction and friction of MuJoCo start at the formula of
`gradsim.scene.exporters.contact` and are fitted by least squares to the height of the first bounce, the length of the path of the drop
along the ground, the depth at rest and the length of the slide; a weak prior keeps those that do not matter where the formula put them.
How far a body tumbles and when it settles jump with every number, so random numbers about that answer are tried in narrower and narrower
surroundings, and the best of all is taken.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.identification.engines.model import EngineModel
from gradsim.identification.engines.mujoco import MuJoCo
from gradsim.physics.model import Model
from gradsim.runtime.optional import require_extra
from gradsim.scene import Scene
from gradsim.scene.exporters.build import twin_of
from gradsim.scene.exporters.contact import contacts, impact_speed
from gradsim.scene.parameters import CONTACT

FPS = 120.0  # frames a second of the trials
SECONDS = 2.5  # of a trial
GAP = 1e-3  # of the drop at its start, after a long fall [m]
LONGEST_FALL = 2.0  # of a drop from the start of the body [s]
SPREADS = (0.4, 0.2, 0.1, 0.05, 0.025)  # spreads of random logarithms of the numbers about the best so far
TRIES_PER_SPREAD = 64  # of each
SLOWEST_SLIDE = 0.5  # [m/s]
PRIOR = 0.02  # residual per factor e of a number
STEP = 0.02  # of derivatives, in logarithms
EVALUATIONS = 15  # of residuals, without those of derivatives
FLOOR_SHARE = 0.02  # of a bounce, or of the size of a body
TRAVEL_SHARE = 0.3  # of that size: how far a body tumbles is sensitive to everything
SMOOTH_KEYS = ("bounce", "depth", "slide")
SETTLED_DISTANCE = 0.05  # from the last place, over the size of the body
FILMED = 4  # frames of a trial for one of its film
VIEW = (240, 180)  # size of the film of a trial [px]
KEYS = ("stiffness", "damping", "sliding", "friction")
BODY_KEYS = ("shape", "mass", "density", "scale", "colour", "collision", "centre_of_mass")
INERTIA_KEYS = ("inertia", "inertia_quat_xyzw", "inertia_log_cholesky")
Poses = tuple[np.ndarray, np.ndarray]  # positions (n, 3) [m] and quaternions (n, 4) of the body in a trial


@dataclass(frozen=True)
class Landing:
    """Result of the two trials.

    Args:
        bounce: Height of the center of mass at the top of the first bounce, over that at rest [m].
        travel: Length of the path of the drop along the ground [m].
        depth: Depth of the lowest vertex at rest [m].
        slide: Length of the slide [m].
        settling: Time after which the drop moves no more [s].
    """

    bounce: float
    travel: float
    depth: float
    slide: float
    settling: float


@dataclass(frozen=True)
class ContactMatch:
    """Contact numbers of a pair, and what is left of the difference.

    Args:
        pair: Names of the ground and the body.
        factors: MuJoCo's numbers over those of the formula, by name.
        ours: By the scene's law.
        formula, matched: In MuJoCo, by the formula and with the factors.
        scenes: The trials, `drop` and `slide`.
    """

    pair: tuple[str, str]
    factors: dict[str, float]
    ours: Landing
    formula: Landing
    matched: Landing
    scenes: dict[str, Scene]

    @property
    def row(self) -> dict:
        """Content of export.json."""
        landings = {"gradsim": self.ours, "formula": self.formula, "matched": self.matched}
        names = dict(zip(("ground", "body"), self.pair, strict=True))
        return names | {"factors": self.factors} | {key: asdict(one) for key, one in landings.items()}


def write_film(match: ContactMatch, timestep: float, path: Path) -> None:
    """Film of the drop, then of the slide: by gradsim on the left, by MuJoCo with the matched numbers on the right.

    Args:
        match: The match.
        timestep: Of MuJoCo [s].
        path: Video to write.
    """
    halves, engine = [], MuJoCo(timestep, contact_factors={match.pair: match.factors})
    for trial in match.scenes.values():
        with torch.no_grad():
            moves = [model.rollout() for model in (Model(trial), EngineModel(trial, engine))]
        halves.append(torch.cat([synthetic.render_video(trial, one) for one in moves], 2)[::FILMED])
    frames = (255 * torch.cat(halves)).round().clamp(0, 255).to(torch.uint8).numpy()
    synthetic.write_video(path, frames, FPS / FILMED)


def match_contacts(
    scene: Scene, timestep: float, report: Callable[[str], None] = lambda stage: None
) -> tuple[list[ContactMatch], list[str]]:
    """Fit MuJoCo's contact numbers of all bodies with the plane grounds of a scene.

    Args:
        scene: The scene.
        timestep: Time step of MuJoCo, by which the numbers hold [s].
        report: Receives stages.

    Returns:
        Matches, and notes on pairs that keep the numbers of the formula.

    Raises:
        InputError: If MuJoCo is not installed, or the scene has no body on a plane ground.
    """
    require_extra("mujoco", "matching contacts", "engines")
    twin, matches, notes = twin_of(scene), [], []
    statics = {static.name: static for static in twin.statics}
    table = contacts(twin)
    if not any(first in statics and statics[first].kind == "plane" for first, _ in table):
        raise InputError(
            "the scene has no rigid body that a plane ground stops, so no contact can be matched; leave it out."
        )
    for pair in table:
        static, words = statics.get(pair[0]), f"contact of `{pair[0]}` with `{pair[1]}`: by the formula, since "
        if static is None or static.kind != "plane":
            notes.append(words + "only contacts with plane grounds are matched.")
            continue
        stage = f"matching the contact of {pair[1]} with {pair[0]}"
        report(stage)
        trials = _Trials(scene, pair, timestep, impact_speed(static, twin.links[pair[1]], twin.gravity))
        if why := trials.unfit:
            notes.append(f"{words}{why}.")
        else:
            matches.append(trials.matched(lambda text, stage=stage: report(f"{stage}: {text}")))
    return matches, notes


class _Trials:
    """A drop and a slide of one body on one ground.

    Args:
        scene: The scene.
        pair: Names of the ground and the body.
        timestep: Of MuJoCo [s].
        speed: Of the impact [m/s].
    """

    def __init__(self, scene: Scene, pair: tuple[str, str], timestep: float, speed: float):
        self.scene, self.pair, self.timestep = scene, pair, timestep
        self.normal = np.array(scene.grounds[pair[0]].normal, np.float64)
        self.normal /= np.linalg.norm(self.normal)
        link = twin_of(scene).links[pair[1]]
        self.points = np.concatenate([form.mesh.vertices + form.centre for form in link.forms])
        self.size = float(np.linalg.norm(np.ptp(self.points, axis=0)))
        gap, down = max(0.0, -self._depth(link.x, link.quat_xyzw)), -float(link.v @ self.normal)
        fall = (math.sqrt(down**2 + 2 * max(self._pull, 0.0) * gap) - down) / max(self._pull, 1e-12)
        place, v = link.x, link.v
        if fall > LONGEST_FALL:
            place = (self._depth(np.zeros(3), link.quat_xyzw) + GAP) * self.normal
            v, fall = v - (v @ self.normal + speed) * self.normal, 0.0
        self.frames = round(FPS * (SECONDS + fall)) + 1
        self.drop = self._alone(place, link.quat_xyzw, v, link.w)
        self.unfit = "gravity does not pull the body to the ground" if self._pull <= 0 else ""
        if not self.unfit:
            self.dropped = x, quat = _ours(self.drop, pair[1])
            up = self._depth(x[-1], quat[-1]) * self.normal  # no scene starts in its ground
            self.slide = self._alone(x[-1] + up, quat[-1], max(speed, SLOWEST_SLIDE) * self._along(link.v))

    @property
    def _pull(self) -> float:
        return float(-np.array(self.scene.gravity) @ self.normal)

    def _depth(self, x: np.ndarray, quat_xyzw: np.ndarray) -> float:
        """Depth of the lowest vertex [m]."""
        heights = (Rotation.from_quat(quat_xyzw).apply(self.points) + x) @ self.normal
        return float(self.scene.grounds[self.pair[0]].height - heights.min())

    def _along(self, v: np.ndarray) -> np.ndarray:
        """Unit vector along the ground: that of a velocity, or any."""
        flat = v - (v @ self.normal) * self.normal
        if np.linalg.norm(flat) < SLOWEST_SLIDE:
            flat = np.cross(self.normal, [0.0, 1.0, 0.0] if abs(self.normal[1]) < 0.9 else [1.0, 0.0, 0.0])
        return flat / np.linalg.norm(flat)

    def _alone(self, x: np.ndarray, quat_xyzw: np.ndarray, v: np.ndarray, w: np.ndarray | None = None) -> Scene:
        """The body by itself on the ground."""
        content = self.scene.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
        body = content["bodies"][self.pair[1]]
        body = {key: body[key] for key in (*BODY_KEYS, *INERTIA_KEYS, *CONTACT) if key in body}
        body |= {"position": x.tolist(), "quat_xyzw": quat_xyzw.tolist(), "velocity": v.tolist()}
        body |= {} if w is None else {"angular_velocity": w.tolist()}
        side = x + 4 * self.size * np.cross(self.normal, self._along(v)) + 1.5 * self.size * self.normal
        camera = {"look_at": {"eye": side.tolist(), "target": x.tolist(), "fov": "40 deg"}, "size": list(VIEW)}
        timing = {"fps": FPS, "frames": self.frames}
        grounds = {self.pair[0]: content["grounds"][self.pair[0]]}
        return Scene.parse(
            {
                "bodies": {self.pair[1]: body},
                "grounds": grounds,
                "gravity": list(self.scene.gravity),
                "timing": timing,
                "camera": camera,
            },
            self.scene.name,
            Path(),
        )

    def matched(self, report: Callable[[str], None]) -> ContactMatch:
        """The fit of MuJoCo's numbers from those of the formula; `report` receives what is tried."""
        ours = self.landing(lambda trial: self.dropped if trial is self.drop else _ours(trial, self.pair[1]))
        # differences hardly count that are small relative to a bounce, or the body
        bounce = FLOOR_SHARE * max(ours.bounce, ours.depth)
        floors = {
            "bounce": bounce,
            "depth": bounce,
            "slide": FLOOR_SHARE * self.size,
            "travel": TRAVEL_SHARE * self.size,
        }

        def residuals(x: np.ndarray, keys: Sequence[str]) -> np.ndarray:
            one = self.landing(self.in_mujoco(_factors(x)))
            return np.array(_log_ratios(one, ours, {key: floors[key] for key in keys}) + (PRIOR * x).tolist())

        x = np.zeros(len(KEYS))
        for keys in (SMOOTH_KEYS, (*SMOOTH_KEYS, "travel")):  # what a body travels by tumbling has many minima
            x = least_squares(residuals, x, args=(keys,), diff_step=STEP, max_nfev=EVALUATIONS).x
        best = _factors(self._refined(x, floors, ours, report))
        formula, matched = (self.landing(self.in_mujoco(one)) for one in ({}, best))
        return ContactMatch(self.pair, best, ours, formula, matched, {"drop": self.drop, "slide": self.slide})

    def _refined(
        self, x: np.ndarray, floors: Mapping[str, float], ours: Landing, report: Callable[[str], None]
    ) -> np.ndarray:
        """The best logarithms of factors among random ones about x (4,), by all quantities."""
        fine = {**floors, "travel": floors["slide"], "settling": 1 / FPS}

        def cost(x: np.ndarray) -> float:
            one = self.landing(self.in_mujoco(_factors(x)))
            return float(np.sum(np.square(_log_ratios(one, ours, fine))) + np.sum(np.square(PRIOR * x)))

        rng, best, least = np.random.default_rng(0), x, cost(x)
        for k, spread in enumerate(SPREADS):
            report(f"{k * TRIES_PER_SPREAD} of {len(SPREADS) * TRIES_PER_SPREAD} random numbers tried")
            for trial in best + spread * rng.standard_normal((TRIES_PER_SPREAD, len(x))):
                if (value := cost(trial)) < least:
                    best, least = trial, value
        return best

    def in_mujoco(self, factors: Mapping[str, float]) -> Callable[[Scene], Poses]:
        """Motion of a trial by MuJoCo, with the formula's contact numbers times factors."""
        engine = MuJoCo(self.timestep, contact_factors={self.pair: factors})
        times = np.arange(self.drop.timing.frames) / FPS

        def move(trial: Scene) -> Poses:
            motion = engine(trial, times)[self.pair[1]]
            return motion.position, motion.quat_xyzw

        return move

    def landing(self, move: Callable[[Scene], Poses]) -> Landing:
        """Result of both trials with some motion."""
        x, quat = move(self.drop)
        slid = move(self.slide)[0]
        slide = slid[-1] - slid[0]
        return Landing(
            **landing_of(x, self.normal, FPS, SETTLED_DISTANCE * self.size),
            depth=self._depth(x[-1], quat[-1]),
            slide=float(np.linalg.norm(slide - slide @ self.normal * self.normal)),
        )


def landing_of(x: np.ndarray, normal: np.ndarray, fps: float, still: float) -> dict[str, float]:
    """`bounce`, `travel` and `settling` of a drop, as of `Landing`.

    Args:
        x: Centers of mass (n, 3) [m].
        normal: Of the ground (3,).
        fps: Rate of these [1/s].
        still: Distance from its last place within which a body has settled [m].
    """
    heights, steps = x @ normal, np.diff(x, axis=0)
    first = int(np.argmax(heights[1:-1] <= heights[2:])) + 1  # the first frame from which it rises
    away = np.linalg.norm(x - x[-1], axis=1) > still
    return {
        "bounce": float(heights[first:].max() - heights[-1]),
        "travel": float(np.linalg.norm(steps - np.outer(steps @ normal, normal), axis=1).sum()),
        "settling": (int(np.flatnonzero(away)[-1]) + 1) / fps if away.any() else 0.0,
    }


def _log_ratios(one: Landing, other: Landing, floors: Mapping[str, float]) -> list[float]:
    """Logarithms of ratios of two landings; differences below the floors hardly count."""
    ends = ((max(getattr(landing, key), 0.0) + floor for landing in (one, other)) for key, floor in floors.items())
    return [math.log(above / below) for above, below in ends]


def _factors(x: np.ndarray) -> dict[str, float]:
    return dict(zip(KEYS, np.exp(x).tolist(), strict=True))


def _ours(trial: Scene, body: str) -> Poses:
    with torch.no_grad():
        states = Model(trial).rollout()[body]
    return states["x"][0].numpy(), states["q"][0].numpy()
