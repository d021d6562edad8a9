"""The command `gradsim capture`. Imports nothing heavy."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, UseAppendAction, arg

from gradsim.app.cli.command import INCONCLUSIVE, Command, flatten, working
from gradsim.errors import InputError, Status


@dataclass(kw_only=True)
class Capture(Command):
    """Calibrate a camera from a board, markers or a sheet of paper in view: lens, pose, and their covariance.

    Needs the extra `capture`. Several views of a board give the lens; one view of a marker or a sheet of known place gives
    the pose of the camera, with the lens of an earlier calibration (--intrinsics).
    """

    source: Annotated[Positional[Path], arg(metavar="VIDEO_OR_IMAGES")]
    """A video, an image, or a folder of images."""
    target: Annotated[
        UseAppendAction[list[list[str]]],
        arg(
            metavar="SPEC ...",
            help="What is in view, of chessboard:10x7:25mm (squares), charuco:7x5:40mm:30mm:4x4_50, aruco:4x4_50:7:12cm "
            "(number, side), apriltag:36h11:0:12cm, a4, letter, sheet:30cmx20cm, length:1m:212,340,401,338 (two points in px; with --scene), ground (textured, with --poses and --scene or a marker), body (the scene's, where it has it, with --mask); its place in the world may follow: "
            "@X,Y,Z[,RX,RY,RZ] in m and deg. Markers may be several.",
        ),
    ] = field(default_factory=list)
    out: Annotated[Path, arg(metavar="DIR")] = Path("runs/capture")
    """Output folder for capture.json, result.json, report.html and pictures."""
    scene: Annotated[Path | None, arg(metavar="SCENE", help_behavior_hint="(default: none)")] = None
    """Scene whose camera is replaced; the new scene is DIR/scene.yaml."""
    model: Literal["pinhole", "fisheye"] = "pinhole"
    """Lens: pinhole with OpenCV's k1 k2 p1 p2 k3, or its fisheye with k1 k2 k3 k4."""
    fix: Annotated[list[str], arg(metavar="NAME ...")] = field(default_factory=list)
    """Numbers of the lens that are not estimated: square (pixels), centre (of the image), k1, k2, p1, p2, k3 (zero)."""
    focal: Annotated[float | None, arg(metavar="PX", help_behavior_hint="(default: estimated)")] = None
    """Known focal length of square pixels, center in the middle, no distortion."""
    intrinsics: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: none)")] = None
    """capture.json of an earlier calibration of the same camera: its lens, with its covariance."""
    views: Annotated[int, arg(metavar="N")] = 20
    """Largest number of views: the sharp and spread ones are chosen."""
    frame: Annotated[int | None, arg(metavar="K", help_behavior_hint="(default: the first with the target)")] = None
    """Frame whose pose is the camera's."""

    mask: Annotated[str | None, arg(metavar="MASK", help_behavior_hint="(with --target body)")] = None
    """Mask of the body, as for `gradsim new`: color:X,Y,W,H, grabcut:X,Y,W,H, or a video of masks."""
    background: Annotated[str, arg(metavar="FILE|median|mog2", help_behavior_hint="(with --target body)")] = "median"
    """Image or video of the empty scene, as for `gradsim new`."""
    poses: bool = False
    """A camera that moves through a clip with the target or a textured ground in view: its pose in each frame, DIR/poses.json; needs the lens (--intrinsics, --focal or the scene's). With --scene also a scene with `camera: {motion: poses.json}`."""

    def run(self, out, err):
        if self.poses:
            return self._poses(out, err)
        from gradsim.app.commands.capturing.capture import CaptureOptions, capture

        names = ("scene", "model", "focal", "intrinsics", "views", "frame", "mask", "background")
        options = CaptureOptions(
            targets=tuple(flatten(self.target)), fix=tuple(self.fix), **{name: getattr(self, name) for name in names}
        )
        with working(err) as progress:
            result, text = capture(self.source, self.out, options, progress)
        out.print(text, highlight=False, soft_wrap=True, markup=False)
        out.print(f"report: {(self.out / 'report.html').resolve()}", highlight=False, soft_wrap=True)
        return INCONCLUSIVE if result["status"] != Status.OK else Status.OK.exit_code

    def _poses(self, out, err) -> int:
        from gradsim.app.commands.tracking.poses import PoseOptions, capture_poses

        if self.frame is not None or self.fix or self.model != "pinhole" or self.mask:
            raise InputError(
                "--frame, --fix, --model and --mask are not for --poses, whose lens is known; leave them out."
            )
        names = ("scene", "focal", "intrinsics")
        options = PoseOptions(targets=tuple(flatten(self.target)), **{name: getattr(self, name) for name in names})
        with working(err) as progress:
            text = capture_poses(self.source, self.out, options, progress)
        out.print(text, highlight=False, soft_wrap=True, markup=False)
        out.print(f"poses: {self.out / 'poses.json'}", highlight=False, soft_wrap=True, markup=False)
        return Status.OK.exit_code
