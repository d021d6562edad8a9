"""Choices of an experimenter: numbers of a scene that the next film may have otherwise, and scenes with other values.

Names are those of `gradsim.scene.parameters`, such as `cube.position.z` or `body.pushes.0.impulse.x`, and these:

    timing.fps          frames per second; the duration stays, unless `timing.frames` is chosen, too
    timing.frames       number of frames
    camera.size         width of the image [px]; the height and the focal length keep their ratio to it
    camera.position.x   place of the camera [m] (y, z alike); it continues to look at its target
    camera.azimuth      angle of the camera about the vertical through its target [rad], 0 on the side of +x
    camera.elevation    angle of the camera above its target [rad]
    camera.distance     distance of the camera from its target [m]
    camera.second       a further camera: none, side (turned by 90° about the vertical), behind, or above
    BODY.push.x         impulse [N s] at the start on the body's center of mass (y, z alike), besides those of the scene

`cameras.NAME.…` in place of `camera.…` is a further camera. The target is that of `look_at`, or else the point on the optical axis
that is nearest to the bodies.
"""

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradsim.errors import InputError
from gradsim.scene import Scene
from gradsim.scene.exporters.substitution import with_values
from gradsim.scene.parameters import component_letters, parameters, resolve

POSE = ("position.x", "position.y", "position.z", "azimuth", "elevation", "distance")
SPECIAL_CHOICES = ("timing.fps", "timing.frames", "camera.size", "camera.second")
SECOND_CAMERAS = ("none", "side", "behind", "above")
SECOND_NAME = "second"  # of the further camera in the scene
MAX_ELEVATION = math.radians(89.9)  # elevation above which `up` is along the view
MAX_WIDTH = 4096  # [px] width of an image
Value = float | str


@dataclass(frozen=True)
class Choice:
    """One number, or one of a few options, that the experimenter can choose.

    Args:
        name: See the module.
        low: Lower end of a range.
        high: Upper end.
        values: A list in place of a range.
        cost: Cost of another value than the present one, in units of the budget.
    """

    name: str
    low: float | None = None
    high: float | None = None
    values: tuple[Value, ...] = ()
    cost: float = 0.0

    @property
    def is_continuous(self) -> bool:
        """True for a range."""
        return not self.values

    @classmethod
    def parse(cls, text: str) -> "Choice":
        """From NAME=LOW:HIGH or NAME=A,B,C, with @COST at the end if a change costs something.

        Raises:
            InputError: If it is neither.
        """
        head, at, cost = text.partition("@")
        name, equals, values = head.rpartition("=")
        expected = (
            f"choice {text!r} is not NAME=LOW:HIGH or NAME=A,B,C, such as camera.azimuth=0:3.1 or timing.fps=30,60,120"
        )
        if not (equals and name.strip() and values.strip()):
            raise InputError(f"{expected}.")
        try:
            price = float(cost) if at else 0.0
            if ":" in values:
                low, high = map(float, values.split(":"))
                return cls(name.strip(), low, high, cost=price)._checked()
            return cls(name.strip(), values=tuple(map(_value, values.split(","))), cost=price)._checked()
        except InputError:
            raise
        except ValueError:
            raise InputError(f"{expected}; the numbers of it cannot be read.") from None

    def _checked(self) -> "Choice":
        numbers = [x for x in (self.low, self.high, *self.values, self.cost) if isinstance(x, int | float)]
        if not np.isfinite(numbers).all() or self.cost < 0:
            raise InputError(f"choice `{self.name}` has {numbers}; expected finite numbers, and a cost of at least 0.")
        if self.is_continuous and not (self.low is not None and self.high is not None and self.low < self.high):
            raise InputError(f"choice `{self.name}` has the range {self.low} to {self.high}; expected LOW below HIGH.")
        return self

    def at(self, share: float) -> Value:
        """The value at a share in [0, 1] of the range, or of the list."""
        if self.values:
            return self.values[min(len(self.values) - 1, int(share * len(self.values)))]
        assert self.low is not None and self.high is not None  # of a range
        return float(self.low + share * (self.high - self.low))

    def share(self, value: Value) -> float:
        """The share in [0, 1] of a value, clamped; of a list the middle of its part."""
        if self.values:
            k = self.values.index(value) if value in self.values else 0
            return (k + 0.5) / len(self.values)
        assert self.low is not None and self.high is not None  # of a range
        return min(1.0, max(0.0, (float(value) - self.low) / (self.high - self.low)))


def _value(text: str) -> Value:
    try:
        return float(text)
    except ValueError:
        return text.strip()


def read_choices(scene: Scene, stated: Sequence["str | Choice"] | Mapping[str, object]) -> list[Choice]:
    """Choices as `plan` takes them; a vector means its components, each with that range.

    Args:
        scene: The present scene.
        stated: Texts, `Choice`s, or {NAME: (LOW, HIGH) or [A, B, C]}.

    Raises:
        InputError: On a name that the scene lacks, twice the same, options that do not exist, or angle and position of one camera.
    """
    if isinstance(stated, Mapping):
        stated = [_from_pair(name, values) for name, values in stated.items()]
    choices: list[Choice] = []
    for item in stated:
        one = Choice.parse(item) if isinstance(item, str) else item._checked()
        choices += [Choice(name, one.low, one.high, one.values, one.cost) for name in _components(scene, one.name)]
    names = [c.name for c in choices]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise InputError(f"`{twice[0]}` is chosen twice; give it once.")
    for prefix in {camera for name in names if (camera := _camera_of(name)[0])}:
        kinds = {_camera_of(n)[1].partition(".")[0] for n in names if _camera_of(n)[0] == prefix}
        if "position" in kinds and kinds & {"azimuth", "elevation", "distance"}:
            raise InputError(f"`{prefix}` is chosen by position and by angles or distance; give one of the two.")
    for choice in choices:
        present_value(scene, choice.name)
        for value in choice.values or (choice.low, choice.high):
            assert value is not None  # of a range
            try:
                with_settings(scene, {choice.name: value})
            except InputError as error:
                raise InputError(f"choice `{choice.name}`: the value {value} is not possible: {error}") from None
    return choices


def _from_pair(name: str, values: object) -> Choice:
    if isinstance(values, tuple) and len(values) == 2 and all(isinstance(x, int | float) for x in values):
        return Choice(name, float(values[0]), float(values[1]))
    if isinstance(values, list) and values:
        return Choice(name, values=tuple(x if isinstance(x, str) else float(x) for x in values))
    raise InputError(f"choice `{name}` is {values!r}; expected a range (LOW, HIGH), or a list of values.")


def _components(scene: Scene, name: str) -> list[str]:
    """The name, or those of the components of a vector."""
    prefix, key = _camera_of(name)
    if prefix and key == "position":
        return [f"{name}.{axis}" for axis in "xyz"]
    if _pushed(scene, name) or is_special(scene, name):
        return [name]
    try:
        known, index = resolve(scene, name)
    except InputError as error:
        pushes = [f"{body}.push.{axis}" for body in scene.bodies for axis in "xyz"]
        near = difflib.get_close_matches(name, [*SPECIAL_CHOICES, *(f"camera.{key}" for key in POSE), *pushes], 1, 0.8)
        raise InputError(f"`{name}` is not a choice; did you mean `{near[0]}`?") if near else error from None
    kind = parameters(scene)[known]
    if kind.row_of:
        raise InputError(f"`{known}` is an array of a soft body; choose numbers.")
    if index is None and kind.value.ndim:
        return [f"{name}.{axis}" for axis in component_letters(name)[: kind.value.size]]
    return [name]


def _camera_of(name: str) -> tuple[str, str]:
    """Prefix and key of a choice of a camera's pose; empty of others."""
    for key in (*POSE, "position"):
        prefix = name.removesuffix(f".{key}")
        if prefix != name and (prefix == "camera" or prefix.startswith("cameras.")):
            return prefix, key
    return "", ""


def _pushed(scene: Scene, name: str) -> str:
    """Body of a choice BODY.push.x; "" of others."""
    body, _, rest = name.partition(".")
    return body if body in scene.bodies and rest in ("push.x", "push.y", "push.z") else ""


def is_special(scene: Scene, name: str) -> bool:
    """True for a choice that is not a parameter of the scene."""
    return name in SPECIAL_CHOICES or bool(_camera_of(name)[0]) or bool(_pushed(scene, name))


def present_value(scene: Scene, name: str) -> Value:
    """Value of a choice in the present scene.

    Raises:
        InputError: If the scene has no such number.
    """
    prefix, key = _camera_of(name)
    if (prefix or name.startswith("camera.")) and scene.camera is None:
        raise InputError(f"`{name}` is chosen, and the scene has no camera.")
    if name == "camera.second":
        return "none"
    if name == "camera.size":
        return float(scene.view("camera").size[0])
    if name in ("timing.fps", "timing.frames"):
        return float(getattr(scene.timing, name.partition(".")[2]))
    if prefix:
        return _pose(scene, prefix)[key]
    if body := _pushed(scene, name):
        if not hasattr(scene.bodies[body], "pushes"):
            raise InputError(f"`{name}`: a {scene.bodies[body].kind} takes no push; choose its start.")
        return 0.0
    known, index = resolve(scene, name)
    value = parameters(scene)[known].value
    return float(value if index is None else value[index])


def with_settings(scene: Scene, settings: Mapping[str, Value]) -> Scene:
    """The scene of a film with these settings.

    Args:
        scene: The present scene.
        settings: Values by the names of choices.

    Raises:
        InputError: If a value is impossible.
    """
    scene = _with_clock(scene, settings)
    scene = _with_size(scene, settings)
    poses: dict[str, dict[str, float]] = {}
    numbers: dict[str, float] = {}
    pushes: dict[str, list[float]] = {}
    for name, value in settings.items():
        prefix, key = _camera_of(name)
        if prefix:
            poses.setdefault(prefix, {})[key] = float(value)
        elif body := _pushed(scene, name):
            pushes.setdefault(body, [0.0, 0.0, 0.0])["xyz".index(name[-1])] = float(value)
        elif not is_special(scene, name):
            numbers[name] = float(value)
    if numbers:
        scene = with_values(scene, numbers)
    for prefix, keys in poses.items():
        scene = _with_pose(scene, prefix, keys)
    for body, impulse in pushes.items():
        if any(impulse):
            scene = _with_push(scene, body, impulse)
    second = settings.get("camera.second", "none")
    return scene if second == "none" else _with_second(scene, str(second))


def _changed(scene: Scene, **sections: object) -> Scene:
    return Scene.parse(scene.model_dump(by_alias=True, exclude_none=True, exclude_unset=True) | sections, scene.name)


def _with_clock(scene: Scene, settings: Mapping[str, Value]) -> Scene:
    """The scene with another frame rate or number of frames; a fixed number of steps keeps the time step."""
    fps, frames = settings.get("timing.fps"), settings.get("timing.frames")
    old = scene.timing
    if fps is None and frames is None:
        return scene
    if old.stamps is not None:
        raise InputError(
            "the scene has `timing.stamps`, of frames at a varying rate; remove them to choose another clock."
        )
    rate = old.fps if fps is None else float(fps)
    if not rate > 0:
        raise InputError(f"timing.fps is {rate:g}; expected a number above 0.")
    count = round((old.frames - 1) * rate / old.fps) + 1 if frames is None else round(float(frames))
    if count < 2:
        raise InputError(f"timing.frames is {count}; a fit needs at least 2.")
    timing = old.model_dump(by_alias=True, exclude_unset=True) | {"fps": rate, "frames": count}
    if isinstance(old.substeps, int):
        timing["substeps"] = max(1, math.ceil(old.substeps * old.fps / rate - 1e-9))
    return _changed(scene, timing=timing)


def _with_size(scene: Scene, settings: Mapping[str, Value]) -> Scene:
    if "camera.size" not in settings:
        return scene
    camera, width = scene.view("camera"), round(float(settings["camera.size"]))
    if not 4 <= width <= MAX_WIDTH:
        raise InputError(f"camera.size is {width}; expected a width from 4 to {MAX_WIDTH} px.")
    ratio = width / camera.size[0]
    content = camera.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    content["size"] = [width, max(1, round(camera.size[1] * ratio))]
    for key in ("focal", "centre"):
        if key in content:
            content[key] = (np.array(content[key]) * ratio).tolist()
    if "K" in content:
        content["K"] = [*(np.array(content["K"])[:2] * ratio).tolist(), [0, 0, 1]]
    return _changed(scene, camera=content)


def _middle(scene: Scene) -> np.ndarray:
    """Mean place of the bodies at the start [m]."""
    places = [kind.value for name, kind in parameters(scene).items() if name.endswith((".position", ".pivot"))]
    places = [place for place in places if place.shape == (3,)]
    return np.mean(places, 0) if places else np.zeros(3)


def target_of(scene: Scene, prefix: str = "camera") -> np.ndarray:
    """Point that a camera looks at [m] (3,): of `look_at`, or the one of its axis nearest to the bodies."""
    camera = scene.view(prefix.removeprefix("cameras."))
    if camera.look_at is not None:
        return np.array(camera.look_at.target)
    _, R, t = camera.matrices()
    eye = -R.T @ t
    depth = float(R[2] @ (_middle(scene) - eye))
    return eye + R[2] * max(depth, 1e-3)


def _pose(scene: Scene, prefix: str) -> dict[str, float]:
    """Position, angles and distance of a camera, by key."""
    camera = scene.view(prefix.removeprefix("cameras."))
    if camera.motion is not None:
        raise InputError(f"`{prefix}` moves (`motion`), so its place cannot be chosen.")
    _, R, t = camera.matrices()
    eye = np.array(camera.look_at.eye) if camera.look_at else -R.T @ t
    away = eye - target_of(scene, prefix)
    distance = float(np.linalg.norm(away))
    angles = {"azimuth": math.atan2(away[1], away[0]), "elevation": math.asin(away[2] / distance)}
    return {f"position.{axis}": float(x) for axis, x in zip("xyz", eye, strict=True)} | angles | {"distance": distance}


def _with_pose(scene: Scene, prefix: str, keys: Mapping[str, float]) -> Scene:
    pose, target = _pose(scene, prefix), target_of(scene, prefix)
    if any(key.startswith("position") for key in keys):
        eye = np.array([keys.get(f"position.{axis}", pose[f"position.{axis}"]) for axis in "xyz"])
    else:
        azimuth, elevation, distance = (keys.get(key, pose[key]) for key in ("azimuth", "elevation", "distance"))
        if distance <= 0:
            raise InputError(f"{prefix}.distance is {distance:g}; expected a distance above 0.")
        flat = math.cos(elevation)
        eye = target + distance * np.array([flat * math.cos(azimuth), flat * math.sin(azimuth), math.sin(elevation)])
    return _looking(scene, prefix, eye, target)


def _looking(scene: Scene, prefix: str, eye: np.ndarray, target: np.ndarray, name: str | None = None) -> Scene:
    """The scene with a camera moved, or with a copy of it under another name."""
    camera = scene.view(prefix.removeprefix("cameras."))
    content = camera.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    view = dict(content.pop("look_at", None) or {})
    if "fov" not in view and "focal" not in content and "K" not in content:
        content["focal"] = float(camera.matrices()[0][1, 1])
    content.pop("R", None)
    content.pop("t", None)
    away = eye - target
    steep = abs(away[2]) > math.sin(MAX_ELEVATION) * np.linalg.norm(away)
    up = view.get("up", (0.0, 0.0, 1.0))
    content["look_at"] = view | {"eye": eye.tolist(), "target": target.tolist(), "up": [0.0, 1.0, 0.0] if steep else up}
    key = (name or prefix).removeprefix("cameras.")
    if key == "camera":
        return _changed(scene, camera=content)
    others = {n: c.model_dump(by_alias=True, exclude_none=True, exclude_unset=True) for n, c in scene.cameras.items()}
    return _changed(scene, cameras=others | {key: content})


def _with_second(scene: Scene, where: str) -> Scene:
    """The scene with a further camera like the first, turned about its target."""
    if where not in SECOND_CAMERAS:
        raise InputError(f"camera.second is {where!r}; expected one of {', '.join(SECOND_CAMERAS)}.")
    pose, target = _pose(scene, "camera"), target_of(scene, "camera")
    azimuth, elevation = pose["azimuth"], pose["elevation"]
    azimuth += {"side": math.pi / 2, "behind": math.pi}.get(where, 0.0)
    elevation = math.pi / 2 if where == "above" else elevation
    flat = math.cos(elevation) if where != "above" else 0.0
    away = np.array([flat * math.cos(azimuth), flat * math.sin(azimuth), math.sin(elevation)])
    return _looking(scene, "camera", target + pose["distance"] * away, target, SECOND_NAME)


def _with_push(scene: Scene, body: str, impulse: Sequence[float]) -> Scene:
    content = scene.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    bodies = dict(content["bodies"])
    node = dict(bodies[body])
    node["pushes"] = [*(node.get("pushes") or ()), {"impulse": list(impulse)}]
    return _changed(scene, bodies=bodies | {body: node})
