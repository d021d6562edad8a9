"""`gradsim capture --target length:…`: the scale of a scene's camera from two points and their distance.

They may be the ends of a ruler or of the body. One length gives one number: the focal length where the place of the camera is
trusted, or, with --focal or --intrinsics, the distance; see `camera_from_length`.
"""

from pathlib import Path

from gradsim.app.commands.capturing.files import CaptureOptions
from gradsim.app.commands.capturing.scale import Scale, camera_with_focal, write_scale
from gradsim.errors import InputError
from gradsim.identification.camera_calibration import camera_from_length
from gradsim.scene import Scene
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
    camera, focal = camera_with_focal(scene.camera, options, (width, height))
    at = target.position if any(target.position) else None
    known = camera_from_length(camera, target.ends, target.square, "focal" if focal is None else "distance", at)
    name, unit = ("camera.focal", "px") if focal is None else ("camera.translation.z", "m")
    value = known.value if focal is None else float(known.camera.matrices()[2][2])
    scale = Scale(name, float(value), known.std, unit, known.assumes)
    return write_scale(source, out, options, target, scene, known.camera, scale)
