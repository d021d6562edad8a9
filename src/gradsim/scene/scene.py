"""A scene: what moves, under which forces, and who watches. Data only; SI units; z up."""

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from gradsim.errors import InputError
from gradsim.scene.bodies import Body
from gradsim.scene.camera import Camera
from gradsim.scene.ground import Ground
from gradsim.scene.quantities import Colour, Strict, positive, vector
from gradsim.units import parse

LIBRARY = Path(__file__).parent / "library"
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$")]
RESERVED = {"gravity", "camera", "timing", "background", "systems", "scene"}


class Timing(Strict):
    """Frames and steps.

    Args:
        fps: Frames per second.
        frames: Their number; frame 0 is the start.
        substeps: Steps per frame, or auto: as the stability bound asks.
        integrator: "semi-implicit" (Euler) or "rk4".
    """

    fps: positive("Hz") = 30.0
    frames: Annotated[int, Field(ge=1, le=100_000)] = 60
    substeps: Annotated[int, Field(ge=1, le=1_000_000)] | Literal["auto"] = "auto"
    integrator: Literal["semi-implicit", "rk4"] = "semi-implicit"


def _gravity(value: Any) -> Any:
    return (0.0, 0.0, -parse(value, "m/s^2")) if isinstance(value, int | float | str) else value


class Scene(Strict):
    """Bodies, grounds, camera and timing.

    Args:
        name: For people.
        gravity: Acceleration [m/s²]; a number g stands for (0, 0, −g).
        timing: Frames and steps.
        bodies: By name.
        grounds: By name; `ground: {...}` stands for one of that name.
        camera: Needed to see anything.
        background: RGB in [0, 1].

    Raises:
        InputError: From `load` and `parse`, with all errors at once.
    """

    name: str = "scene"
    gravity: Annotated[vector("m/s^2"), BeforeValidator(_gravity)] = (0.0, 0.0, -9.81)
    timing: Timing = Timing()
    bodies: Annotated[dict[Name, Body], Field(min_length=1)]
    grounds: dict[Name, Ground] = {}
    camera: Camera | None = None
    background: Colour = (0.9, 0.9, 0.9)

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, given):
        if not isinstance(given, dict):
            return given
        given = dict(given)
        if "ground" in given:
            if given.get("grounds"):
                raise InputError("give `ground` or `grounds`, not both.")
            given["grounds"] = {"ground": given.pop("ground")}
        bodies = given.get("bodies")
        if isinstance(bodies, dict):
            rigid = lambda b: {"kind": "rigid", **b} if isinstance(b, dict) else b  # noqa: E731
            given["bodies"] = {name: rigid(body) for name, body in bodies.items()}
        return given

    @field_validator("bodies", "grounds")
    @classmethod
    def _names(cls, given):
        for name in given:
            if name in RESERVED:
                raise InputError(f"{name!r} is the name of a part of the scene; choose another.")
        return given

    @model_validator(mode="after")
    def _distinct(self):
        if both := set(self.bodies) & set(self.grounds):
            raise InputError(f"{', '.join(sorted(both))} names a body and a ground; choose different names.")
        return self

    @classmethod
    def parse(cls, content: Any, source: str = "the scene", folder: Path | None = None) -> "Scene":
        """From plain data; mesh files are found relative to `folder`."""
        if not isinstance(content, dict):
            raise InputError(f"{source} is not a mapping of keys; start with `bodies:`.")
        if folder is not None:
            content = _located(content, folder)
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            lines = [_line(item) for item in error.errors()]
            raise InputError(f"{source} has {len(lines)} error{'s' * (len(lines) > 1)}:\n  " + "\n  ".join(lines)) from None

    @classmethod
    def load(cls, path: str | Path) -> "Scene":
        """From a YAML file, read safely.

        Raises:
            InputError: If the file is missing or no YAML, or with every error in it, by its path.
        """
        path = Path(path)
        if not path.is_file():
            raise InputError(f"scene file {path} does not exist.")
        try:
            content = yaml.load(path.read_text(), _Loader)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is not YAML: {error}") from None
        return cls.parse(content, str(path), path.resolve().parent)

    @classmethod
    def library(cls, name: str) -> "Scene":
        """One of the scenes that come with gradsim."""
        path = LIBRARY / f"{name}.yaml"
        if not path.is_file():
            raise InputError(f"no scene {name!r} in the library; there are {', '.join(p.stem for p in sorted(LIBRARY.glob('*.yaml')))}.")  # fmt: skip
        return cls.load(path)

    def save(self, path: str | Path) -> Path:
        """Write as YAML that loads to an equal scene; the file appears whole or not at all."""
        path = Path(path)
        draft = path.with_name(f".{path.name}.part")
        content = self.model_dump(mode="json", exclude_none=True, by_alias=True)
        draft.write_text(yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=120))
        draft.replace(path)
        return path


class _Loader(yaml.SafeLoader):
    """Safe, and a key that stands twice is an error."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict:
    loader.flatten_mapping(node)
    pairs: dict = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in pairs:
            raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", key_node.start_mark)
        pairs[key] = loader.construct_object(value_node, deep=True)
    return pairs


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _located(content: dict, folder: Path) -> dict:
    """Mesh files relative to the scene's folder."""
    bodies = content.get("bodies")
    if not isinstance(bodies, dict):
        return content
    found = {}
    for name, body in bodies.items():
        try:
            file = Path(body["shape"]["mesh"]["file"])
        except (TypeError, KeyError):
            found[name] = body
            continue
        shape = {**body["shape"], "mesh": {**body["shape"]["mesh"], "file": folder / file}}
        found[name] = {**body, "shape": shape}
    return {**content, "bodies": found}


def _line(item) -> str:
    """One error of pydantic in our words: path: what, got, way out."""
    place = [p for p in item["loc"] if p not in ("rigid", "pendulum")]
    path = ".".join(str(p) for p in place)
    if item["type"] == "extra_forbidden":
        known = _fields(place[:-1])
        close = difflib.get_close_matches(str(place[-1]), known, 1)
        hint = f"did you mean `{close[0]}`?" if close else f"known are {', '.join(known)}."
        return f"{path}: unknown key; {hint}"
    if item["type"] == "missing":
        return f"{path}: missing."
    if item["type"] == "union_tag_invalid":
        return f"{path}.kind: {item['input'].get('kind')!r} is not a kind of body; use rigid or pendulum."
    message = item["msg"].removeprefix("Value error, ")
    shown = "" if isinstance(item["input"], dict) or item["type"] == "value_error" else f" (got {item['input']!r})"
    return f"{path or 'scene'}: {message}{shown}"


def _fields(place: list) -> list[str]:
    """Keys that are known at a path into a scene."""
    from gradsim.scene import bodies, shape

    if not place:
        return [*Scene.model_fields, "ground"]
    here: Any = {"timing": Timing, "camera": Camera, "grounds": Ground}.get(place[0])
    if place[0] == "camera" and "look_at" in place:
        from gradsim.scene.camera import LookAt

        here = LookAt
    if place[0] == "bodies":
        here = bodies.RigidBody
        if "pushes" in place:
            here = bodies.Push
        elif "shape" in place:
            kind = place[place.index("shape") + 1 :]
            here = {n: f.annotation.__args__[0] for n, f in shape.Shape.model_fields.items()}.get(kind[0]) if kind else shape.Shape  # fmt: skip
            here = here or shape.MeshFile
        elif len(place) == 2:
            return [*{**bodies.RigidBody.model_fields, **bodies.Pendulum.model_fields}]
    return list(here.model_fields) if here else []
