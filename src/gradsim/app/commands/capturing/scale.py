"""Files of `gradsim capture` where one number of a scene's camera was measured: a known length, or a body of known size."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim.app.commands.capturing.files import CaptureOptions, leading_comments, read_capture
from gradsim.app.figures import write_result
from gradsim.app.report.report import write_report
from gradsim.errors import InputError, Status
from gradsim.identification.priors import CAPTURE
from gradsim.numerics.formatting import with_error
from gradsim.runtime.atomic import atomic_write, write_json
from gradsim.runtime.provenance import versions
from gradsim.scene import Scene, yaml_io
from gradsim.scene.camera import CameraSpec
from gradsim.video.calibration.target import Target


@dataclass(frozen=True)
class Scale:
    """A measured number of a camera.

    Attributes:
        name: "camera.focal" or "camera.translation.z".
        value: The number [px or m].
        std: Its standard deviation.
        unit: "px" or "m".
        assumes: What it assumes, as a sentence.
    """

    name: str
    value: float
    std: float
    unit: str
    assumes: str


def camera_with_focal(
    camera: CameraSpec, options: CaptureOptions, size: tuple[int, int]
) -> tuple[CameraSpec, float | None]:
    """The camera of the scene with the stated focal length, or that of an earlier calibration, and this length [px]; None: it is unknown.

    Args:
        camera: The camera.
        options: Of the command.
        size: Width and height of the frames [px].

    Raises:
        InputError: If the frames have another size.
    """
    if tuple(camera.size) != size:
        w, h = camera.size
        raise InputError(
            f"the frames are {size[0]} × {size[1]} px, `camera.size` of {options.scene} is {w} × {h}; resize them, or change it."
        )
    focal = options.focal
    if options.intrinsics:
        focal = float(read_capture(options.intrinsics)["K"][0][0])
    if focal is None:
        return camera, None
    content = camera.model_dump(exclude_none=True, exclude_unset=True, exclude={"K", "focal"})
    content.get("look_at", {}).pop("fov", None)
    return CameraSpec.model_validate({**content, "focal": focal}), focal


def write_scale(
    source: Path, out: Path, options: CaptureOptions, target: Target, scene: Scene, camera: CameraSpec, scale: Scale
) -> tuple[dict, str]:
    """Write capture.json, result.json, report.html and scene.yaml.

    Args:
        source: Images in which the target is.
        out: Output folder.
        options: Of the command.
        target: The target.
        scene: The scene.
        camera: Its camera with the number.
        scale: The number.

    Returns:
        Content of result.json, and the number in words.
    """
    assert options.scene is not None  # whose camera this is
    K, R, t = camera.matrices()
    is_focal = scale.name == "camera.focal"
    content = {
        "schema": CAPTURE,
        "names": [scale.name],
        "mean": [scale.value],
        "sd": [scale.std],
        "covariance": [[scale.std**2]],
        "units": [scale.unit],
        "size": list(camera.size),
        "model": "pinhole",
        "fixed": ["square", "centre", "k1", "k2", "p1", "p2", "k3"] + ([] if is_focal else ["focal"]),
        "K": K.tolist(),
        "distortion": [0.0] * 5,
        "R": R.tolist(),
        "t": t.tolist(),
        "position": (-R.T @ t).tolist(),
        "position_sd": [0.0] * 3 if is_focal else np.abs(R[2] * scale.std).tolist(),
        "corner_rms": 0.0,
        "views": 1,
        "frames": [options.frame or 0],
        "targets": [target.text],
        "versions": versions(),
    }
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "capture.json", content)
    number = f"{with_error(scale.value, scale.std)} {scale.unit}"
    text = yaml_io.as_text(scene.model_copy(update={"camera": camera}), out.absolute(), brief=True)
    comment = f"#   camera: {scale.name.removeprefix('camera.')} {number} from {target.text} in {source.name}"
    with atomic_write(out / "scene.yaml", "w") as file:
        file.write("\n".join([*leading_comments(options.scene), comment, text]))
    row = {"name": scale.name, "value": scale.value, "sd": scale.std, "unit": scale.unit}
    result = {
        "title": f"Camera from {target.text}",
        "status": Status.OK,
        "video": str(source),
        "notes": [scale.assumes],
        "estimates": [row],
        "images": [],
    }
    result |= {key: content[key] for key in ("size", "model", "views", "corner_rms", "K", "R", "t", "position")}
    result = write_result(out, "capture", result, {})
    write_report(out)
    return result, f"{scale.name}: {number}\nnote: {scale.assumes}"
