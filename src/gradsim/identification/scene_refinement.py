"""Least squares on the outlines of a clip's first frames: finishes a camera and a first scene that are roughly placed.

Numbers of one body and of the camera are moved until the body covers the pixels that its masks do. First the centroids and
square roots of areas of the outlines are matched, which needs no overlap; then coverage, pixel by pixel, by Gauss–Newton steps
with central differences. The camera is moved by

    x_c = exp(turn) (R x + t) + (0, 0, distance)

There is neither a noise model nor a search for other minima, as there is in `gradsim fit`, which comes after it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import least_squares
from scipy.spatial import ConvexHull, QhullError
from torch import Tensor

from gradsim.errors import InputError
from gradsim.geometry.surface import Surface
from gradsim.identification.camera_calibration import posed, rounded
from gradsim.identification.first_scene import Regions, largest_region, scaled_shape
from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.render.coverage.coverage import coverage
from gradsim.render.silhouettes import whole
from gradsim.scene import Scene
from gradsim.scene.body import Pendulum, Rigid

FRAMES = 8  # that are looked at by default
STEP = 0.02  # of the central differences [px]
STEP_RTOL, MAX_STEPS = 1e-7, 40  # relative change of the squares that ends the steps, and most of them
DIAMETERS = 0.75  # of the body, around its outlines, that are rendered
NOISE = 0.3  # of the outline of a mask [px]
WAVE = 5.0  # [px] of an outline along which its errors are alike
# Standard deviation of a number, in widths of the image by which it moves outlines, above which it is open
OPEN_SD = 0.05
NAMED_COMPONENT = 0.3  # component of an open direction from which a number is named
PLACE, MOTION, DISTANCE, TURN, AIM, FOCAL, SIZE, STRING = (
    "place",
    "motion",
    "distance",
    "turn",
    "aim",
    "focal",
    "size",
    "string",
)
PARTS = (
    PLACE,
    MOTION,
    STRING,
    SIZE,
    DISTANCE,
    TURN,
    AIM,
    FOCAL,
)  # of a scene that can be refined; aim: turn without roll
DEFAULT_PARTS = (PLACE, MOTION, STRING, DISTANCE)  # a body of known size before a camera of known lens and direction


@dataclass(frozen=True)
class Refinement:
    """A refined scene.

    Args:
        scene: The scene.
        frames: Frames (n,) that it was refined on.
        before: Mean distance between outlines of body and masks before [px].
        error: And after.
        changes: Numbers by name, before and after.
        sd: Standard deviation of each number after, where masks are off by `NOISE` everywhere alike, and by what is left over `WAVE`.
    """

    scene: Scene
    frames: np.ndarray
    before: float
    error: float
    changes: dict[str, tuple[float, float]]
    sd: dict[str, float]


def refine_scene(
    scene: Scene, masks: np.ndarray, regions: Regions, parts: Sequence[str] = DEFAULT_PARTS, frames: int = FRAMES
) -> Refinement:
    """Refine the numbers of a scene on the first frames in which its body is whole.

    Args:
        scene: A scene of one rigid body or pendulum, with a camera.
        masks: Coverage (frames, height, width) by the body.
        regions: Its regions, in frames that count.
        parts: Names of `PARTS` to refine; those that the body does not have are left out.
        frames: Number of frames, from the first in `regions` on.

    Raises:
        InputError: If a part is unknown, none is left, the body is not in view, or outlines do not tell the parts from one another.
    """
    unknown = [part for part in parts if part not in PARTS]
    if unknown or not parts:
        raise InputError(f"the parts to refine are {', '.join(parts) or 'none'}; choose from {', '.join(PARTS)}.")
    if frames < 1:
        raise InputError(f"the number of frames to refine on is {frames}; it must be 1 or more.")
    chosen = regions.frames[:frames]
    if len(chosen) < 2:
        parts = [part for part in parts if part != MOTION]
    numbers = _numbers(scene, parts, chosen)
    problem = _Outlines(scene, numbers, masks[chosen], chosen)
    start = np.zeros(len(numbers))
    slope: Any = problem.slope_of(problem.features)  # SciPy's stubs know no functions here
    rough = least_squares(problem.features, start, slope)
    problem.check_known(rough.jac)
    slope = problem.slope_of(problem.pixels)
    fine = least_squares(problem.pixels, rough.x, slope, ftol=STEP_RTOL, max_nfev=MAX_STEPS)
    best = min((start, rough.x, fine.x), key=problem.error)
    changes = {n.name: (n.value, n.value + n.unit * float(y)) for n, y in zip(numbers, best, strict=True)}
    after = _with_changes(scene, {name: value for name, (_, value) in changes.items()})
    spread = np.sqrt(np.diag(problem.covariance(best)))
    sd = {n.name: float(n.unit * s) for n, s in zip(numbers, spread, strict=True)}
    return Refinement(after, chosen, problem.error(start), problem.error(best), changes, sd)


@dataclass(frozen=True)
class _Number:
    """An unknown: dotted name, value at the start, and the change that moves outlines by about 1 px."""

    name: str
    value: float
    unit: float


def _numbers(scene: Scene, parts: Sequence[str], frames: np.ndarray) -> list[_Number]:
    """Unknowns of the parts."""
    (name, body), camera = _body(scene), scene.view()
    K, R, t = camera.matrices()
    focal = float(K[0, 0])
    pendulum = isinstance(body, Pendulum)
    place = body.pivot if pendulum else body.position
    depth = float((R @ np.array(place) + t)[2])
    pixel = depth / focal
    duration = max(float(np.ptp(frames)), 1.0) / scene.timing.fps
    extent = 2 * body.radius if pendulum else float(np.ptp(body.shape.mesh().vertices, axis=0).max()) * body.scale
    many = extent / pixel  # px
    reach = (body.string_length + body.radius) / pixel if pendulum else many
    vector = lambda key, at, unit: [_Number(f"{name}.{key}.{axis}", at[k], unit) for k, axis in ((0, "x"), (2, "z"))]
    number = lambda key, at, unit: [_Number(f"{name}.{key}", at, unit)]
    swing = []
    if pendulum:
        swings = math.sqrt((body.string_length + body.radius) / max(math.hypot(*scene.gravity), 1e-9))  # s a radian
        swing = number("angle", body.angle, 1 / reach) + number("rate", body.rate, 1 / reach / min(duration, swings))
        swing += number("drag", body.drag, 1 / reach) if len(frames) > FRAMES else []  # in less, drag does little
    table = {
        PLACE: vector("pivot", place, pixel) if pendulum else vector("position", place, pixel),
        MOTION: swing if pendulum else vector("velocity", body.velocity, pixel / duration),
        STRING: number("string_length", body.string_length, pixel) if pendulum else [],
        SIZE: number("radius", body.radius, pixel) if pendulum else number("scale", body.scale, body.scale / many),
        DISTANCE: [_Number("camera.distance", 0.0, depth / many)],
        TURN: [_Number(f"camera.turn.{axis}", 0.0, 1 / focal) for axis in "xyz"],
        AIM: [_Number(f"camera.turn.{axis}", 0.0, 1 / focal) for axis in "xy" if TURN not in parts],
        FOCAL: [_Number("camera.focal", focal, focal / many)],
    }
    return [number for part in PARTS if part in parts for number in table[part]]


def _body(scene: Scene) -> tuple[str, Rigid | Pendulum]:
    name, body = next(iter(scene.bodies.items()))
    if len(scene.bodies) != 1 or not isinstance(body, Rigid | Pendulum):
        raise InputError(
            f"the scene has the bodies {', '.join(scene.bodies)}; outlines can be refined of one rigid body or one pendulum."
        )
    return name, body


class _Outlines:
    """Outlines of a scene's body in some frames, against masks (frames, height, width)."""

    def __init__(self, scene: Scene, numbers: list[_Number], masks: np.ndarray, frames: np.ndarray):
        self.model, self.numbers, self.frames = Model(scene), numbers, frames
        self.K, self.R, self.t = (torch.as_tensor(x, dtype=torch.float64) for x in scene.view().matrices())
        masks = np.stack([largest_region(mask)[1] for mask in masks])
        if not masks.any((1, 2)).all():
            raise InputError("no region is left in these frames; give other masks, or place the body by hand.")
        height, width = masks.shape[1:]
        self.width = width
        side = math.sqrt(4 / math.pi * float(masks.sum((1, 2)).max()))
        self.observed = np.stack([_moments(mask) for mask in masks])
        extent = max(float(np.ptp(np.nonzero(mask), axis=1).max()) for mask in masks)
        half = int((extent + 1) / 2 + DIAMETERS * side)
        self.window = min(2 * half, height), min(2 * half, width)
        limits = np.array([width - self.window[1], height - self.window[0]])
        self.corner = (
            (self.observed[:, :2] - half).round().clip(0, limits).astype(int)
        )  # column, row of each frame's window
        parts = [
            mask[top : top + self.window[0], left : left + self.window[1]]
            for mask, (left, top) in zip(masks, self.corner, strict=True)
        ]
        self.masks, self.observed = np.stack(parts), self.observed.ravel()
        self.perimeter = math.pi * float(np.sqrt(4 / math.pi * self.masks.sum((1, 2))).sum())

    @torch.no_grad()
    def screen(self, y: np.ndarray) -> tuple[Tensor, Surface]:
        """Vertices (worlds, frames, n, 2) [px] at numbers (worlds, unknowns), and the surface that they are of."""
        worlds = len(y)
        values = {n.name: torch.as_tensor(n.value + n.unit * y[:, k]) for k, n in enumerate(self.numbers)}
        camera = {name: values.pop(name) for name in list(values) if name.startswith("camera.")}
        overrides = {}
        for name, value in values.items():
            base, _, axis = name.rpartition(".")
            if axis in "xyz":
                start = self.model.get_parameter(base).detach().expand(worlds, 3)
                overrides.setdefault(base, start.clone())[:, "xyz".index(axis)] = value
            else:
                overrides[name] = value
        surface = self.model.rollout_unchecked(self.model.values(overrides), int(self.frames.max()) + 1).surface
        x = surface.vertices[:, torch.as_tensor(self.frames)].expand(worlds, -1, -1, -1) @ self.R.T + self.t
        turn = torch.stack([camera.get(f"camera.turn.{axis}", torch.zeros(worlds)) for axis in "xyz"], 1).double()
        x = torch.einsum("wij,wfnj->wfni", rotation.to_matrix(rotation.exponential(turn)), x)
        depth = x[..., 2] + camera.get("camera.distance", torch.zeros(worlds))[:, None, None]
        factor = camera.get("camera.focal", self.K[0, 0].expand(worlds)) / self.K[0, 0]
        focal = factor[:, None] * torch.stack([self.K[0, 0], self.K[1, 1]])
        pixels = focal[:, None, None] * x[..., :2] / depth[..., None] + self.K[:2, 2]
        return torch.where(depth[..., None] > 0, pixels, torch.nan), surface

    def features(self, y: np.ndarray) -> np.ndarray:
        """Differences (unknowns → 3 frames) of centroid and square root of area [px]."""
        return self._features(np.atleast_2d(y))[0]

    def _features(self, y: np.ndarray) -> np.ndarray:
        screen = self.screen(y)[0].numpy()
        if not np.isfinite(screen).all():
            raise InputError("the body is behind the camera; move one of them.")
        rows = [np.concatenate([_hull_moments(points) for points in world]) for world in screen]
        return np.stack(rows) - self.observed

    def pixels(self, y: np.ndarray) -> np.ndarray:
        """Differences of coverage (pixels)."""
        return self._pixels(np.atleast_2d(y))[0]

    def _pixels(self, y: np.ndarray) -> np.ndarray:
        screen, surface = self.screen(y)
        screen = whole(screen - torch.as_tensor(self.corner)[:, None])
        images = [coverage(world[None], surface.faces, *self.window, surface.convex)[0].numpy() for world in screen]
        return np.stack([(image - self.masks).ravel() for image in images])

    def slope_of(self, residual):
        """Jacobian of `features` or `pixels` by central differences, in one rollout of all."""
        batch = self._features if residual == self.features else self._pixels

        def slope(y: np.ndarray) -> np.ndarray:
            steps = STEP * np.eye(len(y))
            values = batch(np.concatenate([y + steps, y - steps]))
            return ((values[: len(y)] - values[len(y) :]) / (2 * STEP)).T

        return slope

    def error(self, y: np.ndarray) -> float:
        """Mean distance between outlines [px]: the area between them over their length."""
        return float(np.abs(self.pixels(y)).sum()) / self.perimeter

    def covariance(self, y: np.ndarray) -> np.ndarray:
        """Covariance of the numbers at a minimum: of masks that are wider or narrower everywhere, and of what is left, which is alike over `WAVE`."""
        J, r = self.slope_of(self.pixels)(y), self.pixels(y)
        image = r.reshape(self.masks.shape) + self.masks
        # change of the coverage by an outline that is 1 px farther out: the size of its slope
        wider = np.stack([np.hypot(*np.gradient(one)) for one in image]).ravel()
        inverse = np.linalg.pinv(J.T @ J)
        common = NOISE * inverse @ (J.T @ wider)
        left = WAVE * (r @ r) / max(1, np.count_nonzero(wider > 0.05)) * inverse
        return np.outer(common, common) + left

    def check_known(self, slope: np.ndarray) -> None:
        """Raise if outlines do not tell some numbers from one another; `slope` is that of `features`."""
        _, size, directions = np.linalg.svd(slope, full_matrices=True)
        weakest = size[-1] if len(size) == len(self.numbers) else 0.0
        if OPEN_SD * self.width * weakest >= NOISE:
            return
        names = [n.name for n, part in zip(self.numbers, directions[-1], strict=True) if abs(part) > NAMED_COMPONENT]
        raise InputError(
            f"the outlines of these frames do not tell {' from '.join(names)}: refine fewer parts, or on more frames."
            if len(names) > 1
            else f"the outlines of these frames say nothing about {names[0]}: refine without it, or on more frames."
        )


def _moments(mask: np.ndarray) -> np.ndarray:
    """Centroid, column and row, and square root of the area (3,) of a mask [px]."""
    area = max(float(mask.sum()), 1e-9)
    column, row = (mask.sum(axis) @ (np.arange(mask.shape[1 - axis]) + 0.5) / area for axis in (0, 1))
    return np.array([column, row, math.sqrt(area)])


def _hull_moments(points: np.ndarray) -> np.ndarray:
    """Centroid and square root of the area (3,) of the convex hull of points (n, 2) [px]."""
    try:
        x, y = points[ConvexHull(points).vertices].T
    except QhullError:  # all on one line
        return np.array([*points.mean(0), 0.0])
    cross = x * np.roll(y, -1) - np.roll(x, -1) * y
    area = cross.sum() / 2
    centre = [((c + np.roll(c, -1)) @ cross) / (6 * area) for c in (x, y)]
    return np.array([*centre, math.sqrt(abs(area))])


def _with_changes(scene: Scene, numbers: dict[str, float]) -> Scene:
    """The scene with new values of numbers."""
    name, _ = _body(scene)
    camera = scene.view()
    content = scene.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    body = dict(content["bodies"][name])
    turn, distance = np.zeros(3), 0.0
    for key, value in numbers.items():
        owner, _, rest = key.partition(".")
        base, _, axis = rest.partition(".")
        if owner == "camera":
            turn = turn + np.eye(3)["xyz".index(axis)] * value if base == "turn" else turn
            distance = value if base == "distance" else distance
        elif axis:
            vector = list(body.get(base, (0.0, 0.0, 0.0)))
            vector["xyz".index(axis)] = round(value, 6)
            body[base] = vector
        elif base == "scale":
            body["shape"] = scaled_shape(body["shape"], value / body.pop("scale", 1.0))
        else:
            body[base] = round(max(value, 0.0) if base == "drag" else value, 6)
    _, R, t = camera.matrices()
    turned = rotation.to_matrix(rotation.exponential(torch.as_tensor(turn))).numpy()
    R, t = turned @ R, turned @ t + [0.0, 0.0, distance]
    content["bodies"] = {name: body}
    if any(key.startswith("camera.") for key in numbers):
        moved_camera = rounded(posed(camera, R, t, numbers.get("camera.focal")))
        content["camera"] = moved_camera.model_dump(exclude_none=True, exclude_unset=True)
    return Scene.parse(content)
