"""A first scene from a clip: camera, place and speed of one body, from its outline and two known lengths.

A body of mean projected area Ā (a quarter of the surface of a convex body, Cauchy 1841) covers A pixels at

    distance = focal length · √(Ā/A)

so two of size, focal length and distance give the third. The camera looks level along y; the body moves in the plane y = 0,
where a pixel is distance/focal length wide. A parabola through the first centres gives place and velocity at the first frame; of a
pendulum, `first_pendulum` has the motion.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsim.errors import InputError
from gradsim.identification.first_pendulum import first_pendulum, pendulum_unknowns
from gradsim.scene import Scene
from gradsim.scene.body import Pendulum, Rigid
from gradsim.scene.contact import Contact
from gradsim.scene.restitution import damping
from gradsim.scene.shape import Shape
from gradsim.video.mask_faults import BODY_COVERAGE

PHONE = 0.75  # focal length of a phone's main camera over the longer side of its video: 67° wide
GRAVITY = 9.81  # m/s²
PARABOLA_FRAMES = 8  # frames that the parabola goes through
HIDDEN_AREA_SHARE = 0.25  # of the median area, below which a body is partly hidden
MARGIN = 0.5 * math.sqrt(math.pi)  # change of √area by half a pixel all round [px]
REST_HEIGHT = 1e-3  # height at which a body that rests in the first frame starts [m]
BOUNCE_RATIO = 2.0  # change of a fall to a rise within two frames, over that by gravity, above which it is a bounce
RESTITUTION = 0.7  # coefficient of restitution of a bounce that is seen, before it is fitted
RESTITUTION_RANGE = (0.95, 0.5)  # and its range
LEVEL_ROWS = 2.0  # by which the lowest point of a body that slides goes up and down [px]
SLIDE_WAY = 0.5  # of its size, that it slides at least
CONTACT_TIME = 1e-3  # of half a period of the contact [s]: in it a body at 3 m/s moves by 3 mm
SPIN_RANGE = "-10:10"  # of a body other than a ball [rad/s]
DIRECTIONS = 500  # from which a body may be seen
DEFAULT_BODY_WIDTH = 0.1  # of the height of the image, that a body is wide which is not found
DEFAULT_STRING_LENGTH = 0.5  # of the height of the image, that a pendulum is long whose ball is not found
FACET_DEPTH = (
    0.153  # of its radius, over 4^subdivisions: of the outline of a ball's mesh within the ball's, in the mean
)
MAX_FACET_DEPTH = 0.15  # [px]
FINEST_SUBDIVISIONS = 4  # 5 120 triangles
LENGTHS = ("radius", "size", "height", "tube_radius", "scale")  # of shapes


@dataclass(frozen=True)
class Regions:
    """The largest moving region of each frame.

    Args:
        frames: Indices of the frames where it is whole.
        centre: Columns and rows (frames, 2) [px].
        area: (frames,) [px²].
        lowest: Row of its lowest point (frames,) [px].
    """

    frames: np.ndarray
    centre: np.ndarray
    area: np.ndarray
    lowest: np.ndarray


def largest_region(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (height, width) of the largest region of a mask, and its coverage with its soft edge; nothing if it has none."""
    from scipy import ndimage

    labels = np.zeros(mask.shape, np.int64)
    ndimage.label(mask > BODY_COVERAGE, output=labels)
    areas = np.bincount(labels.ravel())[1:]
    largest = labels == 1 + int(areas.argmax()) if len(areas) else np.zeros(mask.shape, bool)
    return largest, np.where(ndimage.binary_dilation(largest), mask.clip(0, 1), 0.0)


def regions(masks: np.ndarray) -> Regions:
    """Regions of masks (frames, height, width) that do not touch the border and are not much smaller than most.

    Raises:
        InputError: If there are fewer than 3.
    """
    rows = []
    for k, mask in enumerate(masks):
        largest, cover = largest_region(mask)
        if not largest.any():
            continue
        if largest[0].any() or largest[-1].any() or largest[:, 0].any() or largest[:, -1].any():
            continue
        y, x = np.nonzero(cover)
        weight = cover[y, x]
        bottom = y[weight > BODY_COVERAGE].max() + 1.0
        rows.append((k, (x + 0.5) @ weight / weight.sum(), (y + 0.5) @ weight / weight.sum(), weight.sum(), bottom))
    area = np.array([row[3] for row in rows])
    whole = [row for row in rows if row[3] > HIDDEN_AREA_SHARE * np.median(area)]
    if len(whole) < 3:
        raise InputError(
            f"a moving body is whole and off the border in {len(whole)} of {len(masks)} frames; expected 3 or more. Give a "
            "background (--background) or masks (--mask), or film from farther away."
        )
    table = np.array(whole)
    return Regions(table[:, 0].astype(int), table[:, 1:3], table[:, 3], table[:, 4])


@dataclass(frozen=True)
class FirstScene:
    """A scene, and where its numbers come from.

    Args:
        scene: The scene.
        sources: One sentence for each part.
    """

    scene: Scene
    sources: dict[str, str]


def first_scene(
    start: Mapping[str, Any],
    regions: Regions,
    size: tuple[int, int],
    fps: float,
    frames: int,
    body_size: float | None = None,
    focal: float | None = None,
    distance: float | None = None,
    grounded: bool = True,
) -> FirstScene:
    """Place the body of a scene as it is in a clip.

    Args:
        start: Content of a scene file with one rigid body, whose shape, mass and ground are kept, or one pendulum.
        regions: Where the body is.
        size: Width and height of the clip [px].
        fps: Frames per second.
        frames: Number of frames.
        body_size: Longest side of the body, diameter of the ball of a pendulum [m]; None: as in `start`, or from focal length and
            distance if both are given, or, of a pendulum, from gravity and its period.
        focal: Focal length [px]; None: from size and distance, or that of a phone.
        distance: From the camera to the plane of the motion [m]; None: from size and focal length.
        grounded: Whether the lowest point that the body comes to is the ground, z = 0; else the lower edge of the picture is.

    Raises:
        InputError: If the scene has no single rigid body or pendulum, a length is not above 0, or a pendulum does not swing.
    """
    for option, value in (("size", body_size), ("focal length", focal), ("distance", distance)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise InputError(f"the {option} is {value}; it must be above 0.")
    name, body = _body(start)
    if body.get("kind") == "pendulum":
        outlines = (regions.frames, regions.centre, regions.area)
        lengths = (body_size, focal, distance, PHONE * max(size))
        pendulum, lens, sources = first_pendulum(body, *outlines, size, fps, *lengths)
        content = _content(start, {name: pendulum}, size, fps, frames, *lens)
        return FirstScene(Scene.parse(_without_ground(content)), sources)
    sources = {}
    off = np.hypot(*(regions.centre - np.array(size) / 2).T)
    slant = np.cos(np.arctan(off / (focal or PHONE * max(size))))  # a ball off the axis covers 1/cos as much
    typical = math.sqrt(float(np.median(regions.area * slant)))  # px
    body = {**body, "shape": round_enough(body["shape"], typical / math.sqrt(math.pi))}
    shape = Shape.model_validate(body["shape"])
    extent = float(np.ptp(shape.mesh().vertices, axis=0).max())
    rough = f"± {100 * MARGIN / typical:.1g} %, if masks are half a pixel wide"
    if (sides := _unevenness(shape)) > MARGIN / typical:
        rough = f"± {100 * sides:.1g} %, by the side that it shows"
    complete = None not in (body_size, focal, distance)
    if body_size is None and focal is not None and distance is not None:
        factor = typical * distance / focal / _projected(shape)
        sources["size"] = f"{factor * extent:.3g} m, from focal length, distance and outline: {rough}"
    else:
        factor = (body_size or extent) / extent
        sources["size"] = f"{factor * extent:.3g} m, " + ("as given" if body_size else "A GUESS: measure it (--size)")
    across = factor * _projected(shape)  # m
    if focal is None:
        focal = typical * distance / across if distance is not None else PHONE * max(size)
        guess = "A GUESS, as of a phone: give --focal, or --distance"
        sources["focal length"] = f"{focal:.4g} px, " + (
            f"from size, distance and outline: {rough}" if distance is not None else guess
        )
    else:
        sources["focal length"] = f"{focal:.4g} px, as given"
    sources["distance"] = "as given" if distance is not None else f"from size, focal length and outline: {rough}"
    distance = focal * across / typical if distance is None else distance
    sources["distance"] = f"{distance:.3g} m, {sources['distance']}"
    if complete:
        measured = typical * distance / focal / across - 1
        sources["scale"] = f"outlines say {100 * measured:+.1f} % of size, focal length and distance as given; {rough}"
    pixel = distance / focal
    low = float(regions.lowest.max()) if grounded else float(size[1])
    height = (low - size[1] / 2) * pixel
    sources["ground"] = "z = 0 is " + (
        "the lowest point that the body comes to" if grounded else "the picture's lower edge"
    )
    place, velocity = _launch(regions, size, fps, pixel, height)
    lift = -factor * float(shape.mesh().vertices[:, 2].min())  # of the center, where the body touches the ground
    if grounded and shape.sphere is None and slides(regions):
        height, place[2], velocity[2] = height + lift - place[2], math.ceil(1e6 * lift) / 1e6, 0.0
        sources["slide"] = "the body stays on the ground, so its friction is an unknown, and gravity is 9.81 m/s²"
    elif grounded and lift > place[2]:  # outlines are off, and a body must not start in the ground
        height, place[2] = height + lift - place[2] + REST_HEIGHT, round(lift + REST_HEIGHT, 4)
    sources["place"] = (
        f"of frame 0, from a parabola through the {min(PARABOLA_FRAMES, len(regions.frames))} first centres"
    )
    if shape.sphere is None:
        sources["turn"] = "of frame 0, A GUESS: none" + (
            "" if "slide" in sources else "; its spin is an unknown of the fit"
        )
    moving = {key: value for key, value in body.items() if key not in ("velocity", "rotation_vector", "colour")} | {
        "shape": scaled_shape(body["shape"], factor),
        "position": place,
        "velocity": velocity,
    }
    content = _content(start, {name: moving}, size, fps, frames, focal, distance, height)
    if not grounded:
        content = _without_ground(content)
    elif "slide" in sources and not content.get("grounds"):
        content.setdefault("ground", {})
    elif bounces(regions, fps, pixel):
        mass = _mass(Scene.parse(content))
        ground = content.pop("ground", None) or next(iter(content.pop("grounds", {}).values()), {})
        content["ground"] = _bouncing(ground, mass)
        sources["bounce"] = (
            f"keeps the same share of the speed at every impact, {RESTITUTION:g} is A GUESS; it lasts {1e3 * CONTACT_TIME:g} ms"
        )
    return FirstScene(Scene.parse(content), sources)


def resting_scene(
    start: Mapping[str, Any],
    size: tuple[int, int],
    fps: float,
    frames: int,
    body_size: float | None = None,
    focal: float | None = None,
    distance: float | None = None,
    grounded: bool = True,
) -> FirstScene:
    """A scene whose body is at rest in the middle of the image, for a clip in which nothing is found; arguments as for `first_scene`.

    Raises:
        InputError: As `first_scene`.
    """
    name, body = _body(start)
    guess = {"place": "A GUESS, the middle of the image"}
    if body.get("kind") != "pendulum":
        count, side = min(frames, 3), DEFAULT_BODY_WIDTH * size[1]
        centre = np.tile(np.array(size) / 2, (count, 1))
        middle = Regions(np.arange(count), centre, np.full(count, side**2), centre[:, 1] + side / 2)
        first = first_scene(start, middle, size, fps, frames, body_size, focal, distance, grounded)
        return FirstScene(first.scene, first.sources | guess)
    ball = Pendulum.model_validate(body)
    factor = body_size / 2 / ball.radius if body_size else 1.0
    changes = {"radius": factor * ball.radius, "string_length": factor * ball.string_length}
    reach = changes["string_length"] + changes["radius"]
    lens = focal or PHONE * max(size)
    depth = distance or lens * reach / (DEFAULT_STRING_LENGTH * size[1])
    content = _content(start, {name: dict(body) | changes}, size, fps, frames, lens, depth, ball.pivot[2] - reach / 2)
    return FirstScene(Scene.parse(_without_ground(content)), guess)


def _content(
    start: Mapping[str, Any],
    bodies: Mapping[str, Any],
    size: tuple[int, int],
    fps: float,
    frames: int,
    focal: float,
    distance: float,
    height: float,
) -> dict[str, Any]:
    """Content of a scene with a level camera that looks along y."""
    return {key: value for key, value in start.items() if key != "background"} | {
        "name": start.get("name", "clip"),
        "timing": {"fps": fps, "frames": frames},
        "bodies": dict(bodies),
        "camera": {
            "size": list(size),
            "focal": round(focal, 2),
            "look_at": {"eye": [0.0, round(-distance, 4), round(height, 4)], "target": [0.0, 0.0, round(height, 4)]},
        },
    }


def _without_ground(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key not in ("ground", "grounds")}


def bounces(regions: Regions, fps: float, pixel: float) -> bool:
    """True if the body's centre turns from falling to rising within two frames, by far more than it moves otherwise.

    Args:
        regions: Where the body is.
        fps: Frames per second.
        pixel: Of the image in the plane of the motion [m].
    """
    if len(regions.frames) < 4:
        return False
    fall = np.diff(regions.centre[:, 1]) / np.diff(regions.frames)  # [px a frame]
    turn = fall[:-2] - fall[2:]
    by_gravity = 2 * GRAVITY / fps**2 / pixel  # that gravity alone changes in two frames, the other way
    return bool(((fall[:-2] > 0) & (fall[2:] < 0) & (turn > BOUNCE_RATIO * by_gravity)).any())


def slides(regions: Regions) -> bool:
    """True if the body moves across the image while its lowest point stays on a level.

    Args:
        regions: Where the body is.
    """
    way = np.ptp(regions.centre[:, 0])
    return bool(np.ptp(regions.lowest) <= LEVEL_ROWS and way > SLIDE_WAY * math.sqrt(float(np.median(regions.area))))


def _bouncing(ground: Mapping[str, Any], mass: float) -> dict[str, Any]:
    """Content of a ground on which a body bounces as filmed bodies do."""
    contact = Contact.model_validate({key: ground[key] for key in ("friction", "friction_stiffness") if key in ground})
    stiffness = float(f"{mass * (math.pi / CONTACT_TIME) ** 2:.2g}")
    return {
        "law": "constant-restitution",
        "stiffness": stiffness,
        "damping": float(f"{damping(RESTITUTION, stiffness, mass, 'constant-restitution'):.3g}"),
        "friction": contact.friction,
        "friction_stiffness": contact.friction_stiffness,
    } | ({"visible": ground["visible"]} if "visible" in ground else {})


def bounce_unknowns(scene: Scene) -> list[str]:
    """Unknowns of a ground that `first_scene` made for a bouncing body, with ranges; none of others."""
    ground = scene.grounds.get("ground")
    if ground is None or ground.law != "constant-restitution":
        return []
    low, high = (damping(e, ground.stiffness, _mass(scene), ground.law) for e in RESTITUTION_RANGE)
    return [f"ground.damping:{low:.3g}:{high:.3g}", "ground.height:-0.1:0.1"]


def first_unknowns(scene: Scene, known: Collection[str] = ()) -> list[str]:
    """Unknowns of a first fit of a scene, with ranges.

    Args:
        scene: Scene of one rigid body or one pendulum.
        known: Which of "size", "focal" and "distance" are known.
    """
    (name, body), known = next(iter(scene.bodies.items())), set(known)
    if isinstance(body, Pendulum):
        focal = float(scene.view().matrices()[0][0, 0])
        by_gravity = not ("size" in known or {"focal", "distance"} <= known)
        return pendulum_unknowns(name, body, focal, by_gravity, "size" in known)
    if not isinstance(body, Rigid):
        raise InputError(f"{name} is neither a rigid body nor a pendulum; name the unknowns of its fit yourself.")
    across = lambda vector: [(axis, y) for axis, y in zip("xyz", vector, strict=True) if axis != "y"]
    if body.shape.sphere is None and _lies(scene, body):  # as `first_scene` writes one that slides
        (x, *_), (v, *_) = body.position, body.velocity
        free = [("position", x, 0.2), ("velocity", v, 2.0)]
        return [
            *(f"{name}.{key}.x:{y - r:.2f}:{y + r:.2f}" for key, y, r in free),
            f"{next(iter(scene.grounds))}.friction:0.01:1.5",
        ]
    return [
        *(f"{name}.position.{axis}:{x - 0.2:.2f}:{x + 0.2:.2f}" for axis, x in across(body.position)),
        *(f"{name}.velocity.{axis}:{v - 2:.2f}:{v + 2:.2f}" for axis, v in across(body.velocity)),
        *([] if body.shape.sphere else [f"{name}.angular_velocity.{axis}:{SPIN_RANGE}" for axis in "xyz"]),
        "gravity.z:-15:-5",
        *bounce_unknowns(scene),
    ]


def _lies(scene: Scene, body: Rigid) -> bool:
    """True if a body begins on a level ground, without a speed up or down."""
    lowest = float(body.shape.mesh().vertices[:, 2].min()) + body.position[2]
    return not body.velocity[2] and any(
        abs(lowest - ground.height) < 0.1 * REST_HEIGHT for ground in scene.grounds.values()
    )


def _mass(scene: Scene) -> float:
    """Mass of the one body [kg]; 1 where the scene gives its density."""
    (body,) = scene.bodies.values()
    return float(getattr(body, "mass", None) or 1.0)


def _body(start: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    bodies = start.get("bodies", {})
    fits = lambda body: body.get("kind") == "pendulum" or (body.get("kind", "rigid") == "rigid" and "shape" in body)
    fitting = [name for name, body in bodies.items() if fits(body)]
    if len(bodies) != 1 or len(fitting) != 1:
        raise InputError(
            f"the scene to start from has the bodies {', '.join(bodies) or 'none'}; expected one rigid body, as in `ball` or "
            "`cube`, or one `pendulum`. Add others to the file that is written."
        )
    return fitting[0], bodies[fitting[0]]


def _projected(shape: Shape) -> float:
    """√ of the mean projected area of a shape's convex hull [m]: a quarter of its surface."""
    from scipy.spatial import ConvexHull

    return math.sqrt(ConvexHull(shape.mesh().vertices).area / 4)


def _unevenness(shape: Shape) -> float:
    """Standard deviation of √ of a shape's projected area over all directions, relative to its mean: 0 of a ball."""
    from scipy.spatial import ConvexHull

    hull = ConvexHull(shape.mesh().vertices)
    corners = hull.points[hull.simplices]
    faces = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    directions = np.random.default_rng(0).standard_normal((DIRECTIONS, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    root = np.sqrt(np.abs(directions @ faces.T).sum(1))
    return float(root.std() / root.mean())


def round_enough(shape: Mapping[str, Any], radius: float) -> dict[str, Any]:
    """Content of a shape whose outline, if it is a ball's, is nearer than `MAX_FACET_DEPTH` to a circle of a radius [px]: a mesh is within its ball."""
    plain = Shape.model_validate(shape)
    if plain.sphere is None:
        return dict(shape)
    subdivisions = plain.sphere.subdivisions
    while subdivisions < FINEST_SUBDIVISIONS and radius * FACET_DEPTH / 4**subdivisions > MAX_FACET_DEPTH:
        subdivisions += 1
    sphere = plain.sphere.model_dump(exclude_unset=True)
    return {"sphere": sphere | ({"subdivisions": subdivisions} if subdivisions > plain.sphere.subdivisions else {})}


def scaled_shape(shape: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Content of a shape whose lengths are `factor` times as large."""
    times = lambda y: [times(part) for part in y] if isinstance(y, list | tuple) else float(f"{factor * y:.6g}")
    plain = Shape.model_validate(shape).model_dump(exclude_none=True, exclude_unset=True)
    return {
        kind: {key: times(value) if key in LENGTHS else value for key, value in lengths.items()}
        for kind, lengths in plain.items()
    }


def _launch(regions: Regions, size: tuple[int, int], fps: float, pixel: float, height: float) -> tuple[list, list]:
    """Position [m] and velocity [m/s] at frame 0."""
    first = slice(0, PARABOLA_FRAMES)
    t = regions.frames[first] / fps
    x = (regions.centre[first, 0] - size[0] / 2) * pixel
    z = height - (regions.centre[first, 1] - size[1] / 2) * pixel
    line = np.stack([np.ones_like(t), t], 1)
    falls = lambda y: float(np.sum((y - line @ np.linalg.lstsq(line, y)[0]) ** 2))
    fall = GRAVITY / 2 * t**2
    free = falls(z + fall) < falls(z)  # a body that rests or rolls does not fall
    (x0, vx), (z0, vz) = (np.linalg.lstsq(line, y)[0] for y in (x, z + fall if free else z))
    return [round(float(x0), 4), 0.0, round(float(z0), 4)], [round(float(vx), 3), 0.0, round(float(vz), 3)]
