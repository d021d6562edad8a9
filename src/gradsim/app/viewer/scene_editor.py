"""A first scene over its clip, edited by hand: all that the page of `gradsim new --view` can do, without a browser.

Every change is a function of the scene: `SceneEditor` is immutable, and its methods return another. Pixels are columns and
rows, with corners of pixels at whole numbers. The plane of the motion is y = y of the body.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from gradsim.app.clip import ObservedClip
from gradsim.errors import InputError
from gradsim.geometry.surface import Surface
from gradsim.identification.camera_calibration import posed, rounded
from gradsim.identification.first_scene import scaled_shape
from gradsim.identification.scene_refinement import DEFAULT_PARTS, DISTANCE, FRAMES, Refinement, refine_scene
from gradsim.numerics import rotation as rotations
from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory
from gradsim.render.camera import Camera, from_scene
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim.scene.body import Pendulum
from gradsim.visualization.overlay_video import factor, overlay

MOTION, GROUND = "motion", "ground"  # planes that a pixel can be on
SCALE, CAMERA = "scale", "camera"  # that a known length changes
MIN_POINT_DISTANCE = 2.0  # [px] of two points whose distance is known, at least
ROTATION_ROUNDING = 1e-5  # difference of rotation matrices that is rounding
NEAR_DEPTH = 0.02  # [m] in front of the camera from which lines are drawn
CHUNK = 8  # frames by which a trajectory is extended
GROUND_COLOR = (20, 150, 90)  # of lines on the ground
HALF_GRID, CELLS = 4, 8  # lines of the grid of the ground on each side, and cells of a body's extent


@dataclass(frozen=True, eq=False)
class SceneEditor:
    """A scene of one body, over the clip that it is of.

    Args:
        clip: The clip.
        scene: The scene.
        sources: One sentence on where each part is from.
        start: Library scene or scene file that it started as.
        known: Which of "size", "focal" and "distance" are known.
    """

    clip: ObservedClip
    scene: Scene
    sources: Mapping[str, str]
    start: str
    known: frozenset[str] = frozenset()
    refinement: Refinement | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Name of the body."""
        return next(iter(self.scene.bodies))

    @property
    def body(self) -> Any:
        """The body's node."""
        return self.scene.bodies[self.name]

    @property
    def camera(self) -> Camera:
        """The camera."""
        return from_scene(self.scene.view())

    @property
    def size(self) -> float:
        """Longest side of the body; diameter of the ball of a pendulum [m]."""
        if isinstance(self.body, Pendulum):
            return 2 * self.body.radius
        return float(np.ptp(self.body.shape.mesh().vertices, axis=0).max()) * self.body.scale

    @property
    def ground_height(self) -> float | None:
        """Height of the first ground [m]; None without one."""
        ground = next(iter(self.scene.grounds.values()), None)
        return None if ground is None else ground.height

    @property
    def height(self) -> float:
        """Height of the camera over the ground, or over z = 0 without one [m]."""
        return float(self.camera.centre[2]) - (self.ground_height or 0.0)

    @property
    def distance(self) -> float:
        """Depth of the body in frame 0, along the axis of the camera [m]."""
        return float(self.camera.project(torch.as_tensor(self.position(0)))[1])

    @property
    def field_of_view(self) -> float:
        """Vertical field of view [deg]."""
        camera = self.camera
        return math.degrees(2 * math.atan(camera.height / 2 / float(camera.K[1, 1])))

    @cached_property
    def _rollouts(self) -> list[Trajectory]:
        """The longest trajectory so far; none at first."""
        return []

    def trajectory(self, frame: int) -> Trajectory:
        """Trajectory of one frame.

        Raises:
            InputError: If the scene cannot be simulated, for instance because the body is in the ground.
        """
        if not self._rollouts or frame >= len(self._rollouts[-1].times):
            count = CHUNK * math.ceil(frame / CHUNK) + 1
            with torch.no_grad():
                self._rollouts.append(Model(self.scene).rollout(frames=count))
        return self._rollouts[-1].at([frame])

    @torch.no_grad()
    def surface(self, frame: int) -> Surface:
        """Surface of the body in a frame, one world and one frame; errors as for `trajectory`."""
        return self.trajectory(frame).surface

    def position(self, frame: int) -> np.ndarray:
        """Center of mass of the body in a frame, center of the ball of a pendulum (3,) [m]."""
        body = self.body
        if not isinstance(body, Pendulum):
            return np.array(body.position) if frame == 0 else self.trajectory(frame)[self.name]["x"][0, 0].numpy()
        angle = body.angle if frame == 0 else float(self.trajectory(frame)[self.name]["angle"][0, 0])
        along = np.array(body.plane) / np.linalg.norm(body.plane)
        reach = body.string_length + body.radius
        return np.array(body.pivot) + reach * (math.sin(angle) * along - [0.0, 0.0, math.cos(angle)])

    def rotation(self, frame: int) -> np.ndarray:
        """Rotation of a rigid body in a frame, body to world (3, 3); of a pendulum the identity."""
        if isinstance(self.body, Pendulum):
            return np.eye(3)
        if frame:
            return rotations.to_matrix(self.trajectory(frame)[self.name]["q"][0, 0]).numpy()
        theta, quat = (torch.tensor(x, dtype=torch.float64) for x in (self.body.rotation_vector, self.body.quat_xyzw))
        return rotations.to_matrix(rotations.multiply(rotations.exponential(theta), quat)).numpy()

    def mask(self, frame: int) -> np.ndarray:
        """Coverage (height, width) by the body in a frame."""
        with torch.no_grad():
            return Silhouettes.of(self.scene).union(self.surface(frame))[0, 0].numpy()

    def picture(self, frame: int) -> np.ndarray:
        """A frame of the clip with the outlines of body and ground, (rows, columns, 3) uint8, enlarged where it is small."""
        from PIL import Image, ImageDraw

        video = self.clip.video.frames[frame][None]
        image = Image.fromarray(overlay(video, self.mask(frame)[None])[0])
        draw, times = ImageDraw.Draw(image), factor(video)
        for (a, b), width in self.ground_lines():
            draw.line([*(times * a), *(times * b)], fill=GROUND_COLOR, width=width)
        return np.asarray(image)

    def ground_lines(self) -> list[tuple[np.ndarray, int]]:
        """Lines on the ground in the image: ends (2, 2) [px] and width.

        The first, twice as wide, is where the ground meets the plane of the motion; the others are a grid. Without a ground
        there are none.
        """
        ground = next(iter(self.scene.grounds.values()), None)
        if ground is None:
            return []
        normal = np.array(ground.normal) / np.linalg.norm(ground.normal)
        centre = self.position(0)
        foot = centre + (ground.height - normal @ centre) * normal
        along = np.cross([0.0, 1.0, 0.0], normal)
        if np.linalg.norm(along) < 1e-6:  # a wall that is parallel to the plane of the motion
            along = np.array([1.0, 0.0, 0.0])
        along /= np.linalg.norm(along)
        deep = np.cross(normal, along)
        cell = CELLS / 4 * self.size
        reach = HALF_GRID * cell
        lines = [(foot - 10 * reach * along, foot + 10 * reach * along)]
        for k in range(-HALF_GRID, HALF_GRID + 1):
            lines.append((foot + k * cell * along - reach * deep, foot + k * cell * along + reach * deep))
            lines.append((foot + k * cell * deep - reach * along, foot + k * cell * deep + reach * along))
        pixels = [self._segment(*line) for line in lines]
        return [(ends, 2 if k == 0 else 1) for k, ends in enumerate(pixels) if ends is not None]

    def _segment(self, start: np.ndarray, end: np.ndarray) -> np.ndarray | None:
        """Ends (2, 2) [px] of what of a line is in front of the camera; None if nothing is."""
        camera = self.camera
        points = torch.as_tensor(np.stack([start, end]))
        depth = camera.project(points)[1].numpy()
        if depth.max() <= NEAR_DEPTH:
            return None
        if depth.min() < NEAR_DEPTH:
            share = (NEAR_DEPTH - depth[0]) / (depth[1] - depth[0])
            points[int(depth.argmin())] = points[0] + share * (points[1] - points[0])
        return camera.project(points)[0].numpy()

    def point(self, pixel: Sequence[float], plane: str = MOTION) -> np.ndarray:
        """Point (3,) [m] in the plane of the motion, or on the ground, that is seen in a pixel.

        Raises:
            InputError: If the pixel is outside the image, its ray does not meet the plane, or the scene has no ground.
        """
        camera, (column, row) = self.camera, (float(x) for x in pixel)
        if not (0 <= column <= camera.width and 0 <= row <= camera.height):
            raise InputError(
                f"the point {column:.0f}, {row:.0f} is outside the image of {camera.width} × {camera.height} px."
            )
        if plane == GROUND:
            ground = next(iter(self.scene.grounds.values()), None)
            if ground is None:
                raise InputError("the scene has no ground; choose points in the plane of the motion.")
            normal, height = np.array(ground.normal) / np.linalg.norm(ground.normal), ground.height
        elif plane == MOTION:
            normal, height = np.array([0.0, 1.0, 0.0]), float(self.position(0)[1])
        else:
            raise InputError(f"the plane is {plane!r}; it is {MOTION} or {GROUND}.")
        ray = camera.R.T.numpy() @ np.linalg.solve(camera.K.numpy(), [column, row, 1.0])
        eye = camera.centre.numpy()
        slope, gap = normal @ ray, height - normal @ eye
        along = gap / slope if slope else -1.0
        if not (along > 0 and math.isfinite(along)):
            beyond = "is at or above the horizon of the ground" if plane == GROUND else "does not meet that plane"
            raise InputError(f"the point {column:.0f}, {row:.0f} {beyond}; choose another, or turn the camera.")
        return eye + along * ray

    def move_body(
        self, position: Sequence[float], quat_xyzw: Sequence[float] | None = None, frame: int = 0
    ) -> "SceneEditor":
        """Move the body to a position (3,) [m].

        In frame 0 that is its start. In a later frame its start stays, and its velocity becomes the one with which, in free
        flight, it comes to the position. The ball of a pendulum changes angle and length of its string, in frame 0 alone.

        Args:
            position: Center of mass, or center of a pendulum's ball [m].
            quat_xyzw: Orientation of a rigid body in frame 0.
            frame: The frame.

        Raises:
            InputError: If the position is not finite, the frame of a pendulum is not 0, or its ball would reach the pivot.
        """
        place = _vector(position, "position")
        if isinstance(self.body, Pendulum):
            return self._move_ball(place, frame)
        if frame == 0:
            turned = {} if quat_xyzw is None else self._turned(quat_xyzw)
            drop = ("rotation_vector",) if turned else ()
            return self._with_body({"position": place} | turned, drop, place="of frame 0, as placed by hand")
        time = self.scene.timing.time(frame) * self.scene.timing.rate
        velocity = np.array(self.body.velocity) + (np.array(place) - self.position(frame)) / time
        return self._with_body(
            {"velocity": velocity.round(6).tolist()}, velocity=f"from the place in frame {frame}, as placed by hand"
        )

    def _turned(self, quat_xyzw: Sequence[float]) -> dict[str, list[float]]:
        """Content of an orientation; none if the body has it already."""
        quat = torch.tensor([float(x) for x in quat_xyzw], dtype=torch.float64)
        same = np.abs(rotations.to_matrix(quat).numpy() - self.rotation(0)).max() < ROTATION_ROUNDING
        return {} if same else {"quat_xyzw": quat.numpy().round(6).tolist()}

    def _move_ball(self, place: list[float], frame: int) -> "SceneEditor":
        if frame:
            raise InputError("the ball of a pendulum is moved in frame 0; set its rate, or refine, for later frames.")
        body = self.body
        off = np.array(place) - body.pivot
        along = float(off @ body.plane) / float(np.linalg.norm(body.plane))
        reach = math.hypot(along, off[2])
        if reach <= 1.001 * body.radius:
            raise InputError(f"the ball would be {reach:.3g} m from its pivot, less than its radius; move it away.")
        changes = {"angle": round(math.atan2(along, -off[2]), 6), "string_length": round(reach - body.radius, 6)}
        return self._with_body(changes, angle="of frame 0, as placed by hand")

    def move_pivot(self, position: Sequence[float]) -> "SceneEditor":
        """Move the pivot of a pendulum, and its ball with it, to a position (3,) [m].

        Raises:
            InputError: If the body is not a pendulum, or the position is not finite.
        """
        if not isinstance(self.body, Pendulum):
            raise InputError(f"{self.name} is not a pendulum; it has no pivot.")
        return self._with_body({"pivot": _vector(position, "pivot")}, pivot="as placed by hand")

    def move_ground(self, height: float) -> "SceneEditor":
        """Set the height of the first ground [m].

        Raises:
            InputError: If there is none, or the height is not finite.
        """
        if not self.scene.grounds:
            raise InputError("the scene has no ground to move; start without --no-ground.")
        name = next(iter(self.scene.grounds))
        content = self._content()
        ground = {k: v for k, v in content["grounds"][name].items() if k != "point"}
        content["grounds"] = content["grounds"] | {name: ground | {"height": _number(height, "height of the ground")}}
        return self._edited(content, ground=f"z = {height:.4g} m, as placed by hand")

    def move_camera(self, position: Sequence[float], R: np.ndarray | None = None) -> "SceneEditor":
        """Move the camera to a position (3,) [m], and turn it to R (3, 3), world → camera.

        Raises:
            InputError: If a number is not finite.
        """
        eye = np.array(_vector(position, "position of the camera"))
        R = self.camera.R.numpy() if R is None else np.asarray(R, np.float64)
        if not np.isfinite(R).all():
            raise InputError("the direction of the camera is not finite.")
        return self._with_camera(R, -R @ eye, camera="as placed by hand")

    def turn_camera(self, pan: float = 0.0, tilt: float = 0.0, roll: float = 0.0) -> "SceneEditor":
        """Turn the camera about itself by angles [deg]: to the right, upwards, and clockwise about its axis."""
        x, y, z = (math.radians(_number(a, "angle")) for a in (tilt, pan, roll))
        camera = self.camera
        R = _rotation(2, -z) @ _rotation(0, -x) @ _rotation(1, -y) @ camera.R.numpy()
        return self._with_camera(R, -R @ camera.centre.numpy(), camera="as turned by hand")

    def set_size(self, size: float) -> "SceneEditor":
        """Set the longest side of the body, or the diameter of the ball of a pendulum [m]; its center stays.

        Raises:
            InputError: If it is not above 0, or a pendulum's string would vanish.
        """
        size = _positive(size, "size")
        source = {"size": f"{size:.4g} m, as given"}
        if isinstance(self.body, Pendulum):
            string = self.body.string_length + self.body.radius - size / 2
            if string <= 0:
                raise InputError(f"a ball of {size:.3g} m reaches the pivot; make the string longer first.")
            changes = {"radius": size / 2, "string_length": round(string, 6)}
            return replace(self._with_body(changes, **source), known=self.known | {"size"})
        shape = scaled_shape(self._content()["bodies"][self.name]["shape"], size / self.size * self.body.scale)
        edited = self._with_body({"shape": shape}, ("scale",), **source)
        return replace(edited, known=self.known | {"size"})

    def set_height(self, height: float) -> "SceneEditor":
        """Move the camera up or down to a height over the ground [m]; it looks in the same direction."""
        centre = self.camera.centre.numpy().copy()
        centre[2] += _number(height, "height") - self.height
        return self.move_camera(centre.tolist())

    def set_camera_distance(self, distance: float) -> "SceneEditor":
        """Move the camera along its axis until the body of frame 0 is at a depth [m]."""
        camera = self.camera
        shift = _positive(distance, "distance") - self.distance
        edited = self._with_camera(
            camera.R.numpy(), camera.t.numpy() + [0, 0, shift], distance=f"{distance:.4g} m, as given"
        )
        return replace(edited, known=edited.known | {"distance"})

    def set_field_of_view(self, degrees: float) -> "SceneEditor":
        """Set the vertical field of view [deg], in (0.1, 179)."""
        if not 0.1 < _number(degrees, "field of view") < 179:
            raise InputError(f"the field of view is {degrees:g}°; it is between 0.1 and 179.")
        camera = self.camera
        focal = camera.height / (2 * math.tan(math.radians(degrees) / 2))
        edited = self._with_camera(
            camera.R.numpy(), camera.t.numpy(), focal, **{"focal length": f"{focal:.4g} px, as given"}
        )
        return replace(edited, known=edited.known | {"focal"})

    def set_distance(
        self,
        pixel_a: Sequence[float],
        pixel_b: Sequence[float],
        meters: float,
        plane: str = MOTION,
        changes: str = SCALE,
    ) -> "SceneEditor":
        """Make the distance of two points that are seen in two pixels a known one.

        Args:
            pixel_a, pixel_b: The pixels.
            meters: Their distance [m].
            plane: "motion": the points are in the plane of the motion; "ground": on the ground.
            changes: "scale": all lengths of the scene change alike about the origin, and the image of frame 0 stays as it is;
                "camera": the camera moves along the line to the middle between the points, and the body keeps its size.

        Raises:
            InputError: If a point does not meet the plane, the points are less than 2 px apart, or the distance is not above 0.
        """
        meters = _positive(meters, "distance of the points")
        apart = math.dist(tuple(map(float, pixel_a)), tuple(map(float, pixel_b)))
        if apart < MIN_POINT_DISTANCE:
            raise InputError(
                f"the two points are {apart:.2g} px apart; click two points that are far from one another."
            )
        a, b = self.point(pixel_a, plane), self.point(pixel_b, plane)
        ratio = meters / float(np.linalg.norm(b - a))
        words = f"pixels {_pair(pixel_a)} and {_pair(pixel_b)} are {meters:g} m apart"
        if changes == SCALE:
            return replace(self._scaled(ratio, words), known=self.known | {"size", "distance"})
        if changes != CAMERA:
            raise InputError(f"a known distance changes {changes!r}; it is {SCALE} or {CAMERA}.")
        camera, middle = self.camera, (a + b) / 2
        eye = middle + ratio * (camera.centre.numpy() - middle)
        edited = self._with_camera(camera.R.numpy(), -camera.R.numpy() @ eye, distance=words)
        return replace(edited, known=edited.known | {"distance"})

    def _scaled(self, ratio: float, words: str) -> "SceneEditor":
        """All lengths of body, ground and camera times `ratio`."""
        times = lambda x: [round(ratio * float(y), 6) for y in x]
        content, body = self._content(), self.body
        changed = dict(content["bodies"][self.name])
        if isinstance(body, Pendulum):
            changed |= {
                "pivot": times(body.pivot),
                "radius": round(ratio * body.radius, 6),
                "string_length": round(ratio * body.string_length, 6),
            }
        else:
            changed |= {"shape": scaled_shape(changed["shape"], ratio), "position": times(body.position)}
            changed |= {"velocity": times(body.velocity)} if "velocity" in changed else {}
        content["bodies"] = {self.name: changed}
        if self.scene.grounds:
            content["grounds"] = {
                name: {k: v for k, v in content["grounds"][name].items() if k != "point"}
                | {"height": ratio * ground.height}
                for name, ground in self.scene.grounds.items()
            }
        camera = self.camera
        content["camera"] = _camera_content(self.scene, camera.R.numpy(), ratio * camera.t.numpy(), None)
        return self._edited(content, scale=words)

    def refine(self, parts: Sequence[str] = DEFAULT_PARTS, frames: int = FRAMES) -> "SceneEditor":
        """Least squares on the outlines of the first frames; see `refine_scene`.

        Raises:
            InputError: If no moving region is known, or as `refine_scene`.
        """
        clip = self.clip
        if clip.regions is None:
            raise InputError(f"there are no masks to refine on: {clip.problem}")
        result = refine_scene(self.scene, clip.coverage, clip.regions, parts, frames)
        edited = replace(self, scene=result.scene, refinement=result)
        sources = {DISTANCE: f"{edited.distance:.4g} m, refined"} if DISTANCE in parts else {}
        sources["refined"] = (
            f"least squares of {', '.join(parts)} on {len(result.frames)} frames: outlines are {result.error:.2g} px apart, "
            f"were {result.before:.2g} px"
        )
        return replace(edited, sources=self._sources(sources))

    def _sources(self, new: Mapping[str, str]) -> dict[str, str]:
        """Sources with some that are new, which are last."""
        return {part: source for part, source in self.sources.items() if part not in new} | dict(new)

    def _content(self) -> dict[str, Any]:
        return self.scene.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)

    def _edited(self, content: Mapping[str, Any], **sources: str) -> "SceneEditor":
        edited = replace(self, scene=Scene.parse(content), sources=self._sources(sources))
        if edited.distance <= NEAR_DEPTH:
            raise InputError(f"{self.name} would not be in front of the camera; move or turn one of them less.")
        return edited

    def _with_body(self, changes: Mapping[str, Any], drop: Sequence[str] = (), **sources: str) -> "SceneEditor":
        content = self._content()
        body = {k: v for k, v in content["bodies"][self.name].items() if k not in drop}
        return self._edited(content | {"bodies": {self.name: body | dict(changes)}}, **sources)

    def _with_camera(self, R: np.ndarray, t: np.ndarray, focal: float | None = None, **sources: str) -> "SceneEditor":
        return self._edited(self._content() | {"camera": _camera_content(self.scene, R, t, focal)}, **sources)


def _camera_content(scene: Scene, R: np.ndarray, t: np.ndarray, focal: float | None) -> dict[str, Any]:
    return rounded(posed(scene.view(), R, t, focal)).model_dump(exclude_none=True, exclude_unset=True)


def _rotation(axis: int, angle: float) -> np.ndarray:
    """Rotation matrix (3, 3) about a coordinate axis by an angle [rad]."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R = np.eye(3)
    R[[i, i, j, j], [i, j, i, j]] = math.cos(angle), -math.sin(angle), math.sin(angle), math.cos(angle)
    return R


def _vector(x: Sequence[float], label: str) -> list[float]:
    numbers = [float(part) for part in x]
    if len(numbers) != 3 or not np.isfinite(numbers).all():
        raise InputError(f"the {label} is {numbers}; expected three finite numbers in m.")
    return [round(number, 6) for number in numbers]


def _number(x: float, label: str) -> float:
    if not math.isfinite(float(x)):
        raise InputError(f"the {label} is {x}; expected a finite number.")
    return float(x)


def _positive(x: float, label: str) -> float:
    if not _number(x, label) > 0:
        raise InputError(f"the {label} is {x}; it must be above 0.")
    return float(x)


def _pair(pixel: Sequence[float]) -> str:
    return ",".join(f"{float(x):.0f}" for x in pixel)
