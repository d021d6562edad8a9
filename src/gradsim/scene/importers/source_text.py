"""Content that Newton's importers ignore: cameras, MuJoCo's gravity, and elements that would be dropped silently.

Cameras of MJCF and USD look along −z with y up, as in OpenGL; a scene's cameras look along z with y down.
"""

import importlib
import re
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim.errors import InputError
from gradsim.scene.importers.bodies import plain_name

MUJOCO_SIZE = (640, 480)  # [px] default image size
MUJOCO_FOVY = 45.0  # [deg]
USD_WIDTH = 640  # [px]; USD has no image size
OBLONG = 1e-6  # relative rounding of the single precision of USD's apertures
REFUSED_SECTIONS = {  # sections of an MJCF file that change the motion
    "tendon": "tendon",
    "equality": "equality constraint",
    "deformable": "deformable",
}
MOTORS = {  # actuators of MJCF that become parameters of a joint
    "motor": "its control is the torque or force of joint `{}`, 0 by default{}.",
    "position": "a spring and damper of joint `{}`; its control is the joint's target{}.",
    "velocity": "a damper of joint `{}`; its target rate is 0{}.",
}
IGNORED_ELEMENTS = {  # elements without effect on the motion: path in the file, and name
    "mjcf": {"sensor/*": "sensor", "keyframe/key": "keyframe", "contact/*": "contact rule", ".//light": "light"},
    "urdf": {"transmission": "transmission", "gazebo": "gazebo extension", ".//sensor": "sensor"},
}
DECLARED_ENTITY = re.compile(r"<!ENTITY", re.IGNORECASE)
INCLUDED_FILE = re.compile(r"<include\b[^>]*\bfile\s*=\s*[\"']([^\"']+)[\"']")
DEEPEST_INCLUDE = 16  # files in files
MEDIUM = ("density", "viscosity", "wind")
UNREAD_LENS = ("focal", "focalpixel", "principal", "principalpixel", "sensorsize")


@dataclass
class Extras:
    """Content of a file that Newton does not import.

    Attributes:
        gravity: Gravity [m/s²], if Newton does not read it.
        cameras: Cameras by name, as in a scene file.
        faults: Unsupported content.
        notes: Omissions and assumptions.
    """

    gravity: list[float] | None = None
    cameras: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def extras(path: Path, kind: str) -> Extras:
    """Read the content that Newton does not import.

    Args:
        path: File.
        kind: "mjcf", "urdf" or "usd".

    Raises:
        InputError: If the text cannot be read.
    """
    if kind == "usd":
        return _usd(path)
    result = Extras()
    roots = list(_roots(path))
    for pattern, words in IGNORED_ELEMENTS[kind].items():
        names = [e.get("name") or e.tag for root in roots for e in root.findall(pattern)]
        if names:
            result.notes.append(f"left out: {words} {', '.join(f'`{n}`' for n in names)}.")
    if kind == "mjcf":
        _mjcf(roots, result)
    return result


def refuse_entities(path: Path, above: tuple[Path, ...] = ()) -> None:
    """Refuse XML that declares entities, in the file and those it includes: a few of them expand to more than any memory.

    Args:
        path: File.
        above: Files that include it.

    Raises:
        InputError: If one does.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return  # its reader says why
    if DECLARED_ENTITY.search(text):
        raise InputError(
            f"{path} declares XML entities (<!ENTITY …>), which are not read, since they can expand without bound; write their values in their place "
            "(xmllint --noent)."
        )
    for name in INCLUDED_FILE.findall(text):
        included = path.parent / name
        if included.resolve() not in above and len(above) < DEEPEST_INCLUDE:
            refuse_entities(included, (*above, path.resolve()))


def camera_content(pose: np.ndarray, focal: float, size: tuple[int, int]) -> dict[str, Any]:
    """Camera of a scene from a camera-to-world pose (4, 4) of OpenGL and a focal length [px]."""
    R = np.diag([1.0, -1.0, -1.0]) @ pose[:3, :3].T
    return {"size": list(size), "R": R.tolist(), "t": (-R @ pose[:3, 3]).tolist(), "focal": float(focal)}


def _roots(path: Path) -> Iterator[xml.Element]:
    """Roots of the file and of included files."""
    try:
        root = xml.parse(path).getroot()
    except (OSError, xml.ParseError) as error:
        raise InputError(f"{path} is not valid XML: {error}; export it again.") from error
    yield root
    for include in root.iter("include"):
        if include.get("file"):
            yield from _roots(path.parent / str(include.get("file")))


def _mjcf(roots: list[xml.Element], result: Extras) -> None:
    for section, words in REFUSED_SECTIONS.items():
        for element in [e for root in roots for part in root.findall(section) for e in part]:
            name = element.get("name") or element.tag
            result.faults.append(f"{words} `{name}` ({element.tag}); gradsim does not support it.")
    for element in [e for root in roots for part in root.findall("actuator") for e in part]:
        name, joint, gear = element.get("name") or element.tag, element.get("joint"), _floats(element.get("gear"))
        if element.tag in MOTORS and joint:
            geared = f"; apply the file's gear of {gear[0]:g} yourself" if gear and gear[0] != 1 else ""
            result.notes.append(f"actuator `{name}`: {MOTORS[element.tag].format(plain_name(joint), geared)}")
        else:
            result.faults.append(
                f"actuator `{name}` ({element.tag}); gradsim's joints have motors, springs and dampers."
            )
    for joint in [j for root in roots for j in root.iter("joint")]:
        if joint.get("type") == "ball" and joint.get("range"):  # which Newton does not read
            name = joint.get("name", "of a body")
            result.faults.append(
                f"joint `{plain_name(name)}` is a ball joint with limits, which gradsim does not support."
            )
    for option in [o for root in roots for o in root.findall("option")]:
        if option.get("gravity"):
            result.gravity = _floats(option.get("gravity"))
        moving = [key for key in MEDIUM if any(_floats(option.get(key)))]
        if moving:
            result.faults.append(f"a medium ({', '.join(moving)} in `option`); bodies of gradsim move in a vacuum.")
    compiler = {k: v for root in roots for c in root.findall("compiler") for k, v in c.attrib.items()}
    size = MUJOCO_SIZE
    for screen in [g for root in roots for g in root.findall("visual/global")]:
        size = int(screen.get("offwidth", size[0])), int(screen.get("offheight", size[1]))
    for root in roots:
        for number, camera in enumerate(root.findall("worldbody/camera")):
            _mjcf_camera(camera, f"camera_{number}", size, compiler, result)
        for camera in root.findall("worldbody//body//camera"):
            result.notes.append(f"left out: camera `{camera.get('name')}`, which moves with a body.")


def _mjcf_camera(camera: xml.Element, default: str, size: tuple[int, int], compiler: dict, result: Extras) -> None:
    name = plain_name(camera.get("name", default), taken=result.cameras)
    unread = [key for key in UNREAD_LENS if camera.get(key)]
    if unread or camera.get("mode", "fixed") != "fixed" or camera.get("orthographic") == "true":
        why = ", ".join(unread) or camera.get("mode", "orthographic")
        result.notes.append(f"left out: camera `{name}` ({why}); gradsim reads fixed cameras with `fovy`.")
        return
    resolution = [int(v) for v in _floats(camera.get("resolution"))]
    width, height = (resolution[0], resolution[1]) if len(resolution) == 2 and min(resolution) > 1 else size
    if (width, height) == MUJOCO_SIZE:
        result.notes.append(f"camera `{name}`: the image is 640 × 480 px, MuJoCo's default; set `camera.size`.")
    fovy = np.radians(float(camera.get("fovy", MUJOCO_FOVY)))
    pose = np.eye(4)
    pose[:3, :3] = _turn(camera, compiler).as_matrix()
    pose[:3, 3] = _floats(camera.get("pos")) or (0.0, 0.0, 0.0)
    result.cameras[name] = camera_content(pose, height / (2 * np.tan(fovy / 2)), (width, height))


def _turn(element: xml.Element, compiler: dict) -> Rotation:
    """Orientation of an MJCF element in any of MuJoCo's five notations."""
    degrees = compiler.get("angle", "degree") == "degree"
    if element.get("quat"):
        w, x, y, z = _floats(element.get("quat"))
        return Rotation.from_quat([x, y, z, w])
    if element.get("axisangle"):
        *axis, angle = _floats(element.get("axisangle"))
        return Rotation.from_rotvec(np.array(axis) / np.linalg.norm(axis) * (np.radians(angle) if degrees else angle))
    if element.get("euler"):
        return Rotation.from_euler(
            compiler.get("eulerseq", "xyz").swapcase(), _floats(element.get("euler")), degrees=degrees
        )
    if element.get("xyaxes"):
        x, y = np.array(_floats(element.get("xyaxes"))).reshape(2, 3)
        x = x / np.linalg.norm(x)
        y = y - x * (x @ y)
        y = y / np.linalg.norm(y)
        return Rotation.from_matrix(np.stack([x, y, np.cross(x, y)], 1))
    if element.get("zaxis"):  # the shortest turn from z
        axis = np.array(_floats(element.get("zaxis")))
        return Rotation.align_vectors([axis / np.linalg.norm(axis)], [[0.0, 0.0, 1.0]])[0]
    return Rotation.identity()


def _floats(text: str | None) -> list[float]:
    return [float(v) for v in text.split()] if text else []


def _usd(path: Path) -> Extras:
    # by name, since the package writes its names only when it is loaded
    Usd, UsdGeom = importlib.import_module("pxr.Usd"), importlib.import_module("pxr.UsdGeom")
    result = Extras()
    stage = Usd.Stage.Open(str(path))
    if UsdGeom.GetStageMetersPerUnit(stage) != 1:
        result.faults.append(
            f"metersPerUnit {UsdGeom.GetStageMetersPerUnit(stage):g}; Newton reads stages in metres only, so scale it."
        )
    upright = np.eye(4)
    if UsdGeom.GetStageUpAxis(stage) == UsdGeom.Tokens.y:  # y up → z up
        upright[:3, :3] = Rotation.from_euler("x", 90, degrees=True).as_matrix()
    for prim in [p for p in stage.Traverse() if p.IsA(UsdGeom.Camera)]:
        name, camera = plain_name(prim.GetName(), taken=result.cameras), UsdGeom.Camera(prim).GetCamera()
        if camera.projection != camera.Perspective:
            result.notes.append(f"left out: camera `{name}`, which is orthographic.")
            continue
        wide, tall = camera.horizontalAperture, camera.verticalAperture
        stated = prim.GetAttribute("gradsim:imageSize")
        width, height = map(int, stated.Get()) if stated else (USD_WIDTH, round(USD_WIDTH * tall / wide))
        if not stated:
            result.notes.append(f"camera `{name}`: USD has no image size; {width} × {height} px is assumed.")
        pose = upright @ np.array(camera.transform).T  # USD's matrices act on rows
        pose[:3, :3] /= np.linalg.norm(pose[:3, :3], axis=0)
        fx, fy = camera.focalLength / wide * width, camera.focalLength / tall * height
        content = camera_content(pose, fx, (width, height))
        shift = camera.horizontalApertureOffset / wide * width, camera.verticalApertureOffset / tall * height
        centre = [width / 2 - shift[0], height / 2 + shift[1]]
        if stated and abs(fy / fx - 1) > OBLONG:
            content["K"] = [[fx, 0.0, centre[0]], [0.0, fy, centre[1]], [0.0, 0.0, 1.0]]
            del content["focal"]
        elif max(map(abs, shift)) > OBLONG * width:
            content["centre"] = centre
        result.cameras[name] = content
    return result
