"""`gradsim capture --target body`: the scale of a scene's camera from the outline of its body, whose shape and size are known.

One outline gives where the body is in the image, and how large: the aim of the camera, and one number, the focal length where the place of
the camera is trusted, or, with --focal or --intrinsics, the distance. Least squares on the coverage of pixels (`scene_refinement`).
"""

from pathlib import Path

from gradsim.app.clip import read_clip
from gradsim.app.commands.capturing.files import CaptureOptions
from gradsim.app.commands.capturing.scale import Scale, camera_with_focal, write_scale
from gradsim.errors import InputError
from gradsim.identification.scene_refinement import AIM, DISTANCE, FOCAL, NOISE, refine_scene
from gradsim.runtime.progress import Progress
from gradsim.scene import Scene
from gradsim.video.calibration.target import Target

FRAMES = 3  # in which the body has to be whole; the first one counts


def capture_body(
    source: Path, out: Path, options: CaptureOptions, target: Target, scene: Scene | None, progress: Progress
) -> tuple[dict, str]:
    """Calibrate focal length or distance; writes capture.json, result.json, report.html and scene.yaml.

    Args:
        source: Clip whose first frame (or `options.frame`) shows the body where the scene has it.
        out: Output folder.
        options: Of the command.
        target: The body.
        scene: The scene.
        progress: Receives stages.

    Raises:
        InputError: If the scene has no camera, or one of another size than the clip, or a lens with distortion, or another number of
            bodies than one, no mask is left, or the outline does not tell the numbers.
    """
    if scene is None or scene.camera is None or options.scene is None:
        raise InputError(
            f"--target {target.text} needs --scene SCENE with a `camera` and the body: one outline gives one of its numbers."
        )
    if scene.camera.distortion or scene.camera.fisheye:
        raise InputError(
            f"--target {target.text}: the camera of {options.scene} has a lens that bends outlines; leave `distortion` or `fisheye` out where the body is near "
            "the middle of the image, or calibrate by a board."
        )
    frame, mask = options.frame or 0, Path(options.mask) if options.mask else None
    try:
        clip = read_clip(source, mask, options.background, "", f"{frame}:{frame + FRAMES}", progress)
    except InputError as error:
        if "--frames" not in str(error):
            raise
        raise InputError(
            f"--frame is {frame}; the body has to be whole in {FRAMES} frames from there on: choose an earlier one."
        ) from error
    if clip.regions is None:
        raise InputError(clip.problem)
    height, width = clip.coverage.shape[1:]
    with_focal, focal = camera_with_focal(scene.camera, options, (width, height))
    scene = scene.model_copy(update={"camera": with_focal})
    progress.stage("least squares on the outline")
    part = FOCAL if focal is None else DISTANCE
    result = refine_scene(scene, clip.coverage, clip.regions, (AIM, part), 1)
    sd = result.sd[f"camera.{part}"]
    t = result.scene.view().matrices()[2]
    value = result.changes["camera.focal"][1] if focal is None else float(t[2])
    assumes = (
        f"assumes the shape, size and place of the body as the scene has them in frame {frame}, and a mask whose outline is off by {NOISE} px everywhere alike; it is "
        f"{result.error:.2g} px off after the fit. {'The place of the camera' if focal is None else 'The focal length'} is taken as known."
    )
    scale = Scale(
        "camera.focal" if focal is None else "camera.translation.z", value, sd, "px" if focal is None else "m", assumes
    )
    camera = result.scene.camera
    assert camera is not None
    return write_scale(source, out, options, target, scene, camera, scale)
