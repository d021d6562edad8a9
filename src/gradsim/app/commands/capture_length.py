"""`gradsim capture --target length:…`: the scale of a scene's camera from two points and their distance.

They may be the ends of a ruler or of the body. One length gives one number: the focal length where the place of the camera is
trusted, or, with --focal or --intrinsics, the distance; see `camera_from_length`.
"""

from pathlib import Path

import numpy as np

from gradsim.app.commands.capture_files import CaptureOptions, leading_comments, read_capture
from gradsim.app.figures import write_result
from gradsim.app.report.report import write_report
from gradsim.errors import InputError, Status
from gradsim.identification.camera_calibration import camera_from_length
from gradsim.identification.priors import CAPTURE
from gradsim.numerics.formatting import with_error
from gradsim.runtime.atomic import atomic_write, write_json
from gradsim.runtime.provenance import versions
from gradsim.scene import Scene, yaml_io
from gradsim.video.calibration.frames import read_frames
from gradsim.video.calibration.target import Target


def capture_length(
    source: Path, out: Path, options: CaptureOptions, target: Target, scene: Scene | None
) -> tuple[dict, str]:
    """Calibrate focal length or distance; writes capture.json, result.json, report.html and scene.yaml.

    Args:
        source: Images in which the points are.
        out: Output folder.
        options: Of the command.
        target: The length; its position, if it is not 0, is a world point at its depth.
        scene: The scene.

    Raises:
        InputError: If the scene has no camera, or one of another size than the images; or as `camera_from_length`.
    """
    if scene is None or scene.camera is None or options.scene is None:
        raise InputError(
            f"--target {target.text} needs --scene SCENE with a `camera`: one length gives one of its numbers."
        )
    height, width = next(iter(read_frames(Path(source)))).color.shape[:2]
    if tuple(scene.camera.size) != (width, height):
        w, h = scene.camera.size
        raise InputError(
            f"the frames are {width} × {height} px, `camera.size` of {options.scene} is {w} × {h}; resize them, or change it."
        )
    focal = options.focal
    if options.intrinsics:
        focal = float(read_capture(options.intrinsics)["K"][0][0])
    camera = scene.camera
    if focal is not None:
        content = camera.model_dump(exclude_none=True, exclude_unset=True, exclude={"K", "focal"})
        content.get("look_at", {}).pop("fov", None)
        camera = type(camera).model_validate({**content, "focal": focal})
    at = target.position if any(target.position) else None
    known = camera_from_length(camera, target.ends, target.square, "focal" if focal is None else "distance", at)
    K, R, t = known.camera.matrices()
    name, value, unit = ("camera.focal", known.value, "px") if focal is None else ("camera.translation.z", t[2], "m")
    content = {
        "schema": CAPTURE,
        "names": [name],
        "mean": [float(value)],
        "sd": [known.std],
        "covariance": [[known.std**2]],
        "units": [unit],
        "size": [width, height],
        "model": "pinhole",
        "fixed": ["square", "centre", "k1", "k2", "p1", "p2", "k3"] + ([] if focal is None else ["focal"]),
        "K": K.tolist(),
        "distortion": [0.0] * 5,
        "R": R.tolist(),
        "t": t.tolist(),
        "position": (-R.T @ t).tolist(),
        "position_sd": [0.0] * 3 if focal is None else np.abs(R[2] * known.std).tolist(),
        "corner_rms": 0.0,
        "views": 1,
        "frames": [0],
        "targets": [target.text],
        "versions": versions(),
    }
    write_json(out / "capture.json", content)
    comment = (
        f"#   camera: {known.name} {with_error(known.value, known.std)} {unit} from {target.text} in {source.name}"
    )
    text = yaml_io.as_text(scene.model_copy(update={"camera": known.camera}), out.absolute(), brief=True)
    with atomic_write(out / "scene.yaml", "w") as file:
        file.write("\n".join([*leading_comments(options.scene), comment, text]))
    row = {"name": name, "value": float(value), "sd": known.std, "unit": unit}
    result = {
        "title": f"Camera from {target.text}",
        "status": Status.OK,
        "video": str(source),
        "notes": [known.assumes],
    }
    result |= {"estimates": [row], "images": []}
    result |= {key: content[key] for key in ("size", "model", "views", "corner_rms", "K", "R", "t", "position")}
    result = write_result(out, "capture", result, {})
    write_report(out)
    return result, f"{name}: {with_error(row['value'], row['sd'])} {unit}\nnote: {known.assumes}"
