"""Files of `gradsim capture`: the content of capture.json, and a scene with its camera."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim.errors import InputError
from gradsim.identification.priors import CAPTURE
from gradsim.numerics.formatting import with_error
from gradsim.runtime.atomic import atomic_write
from gradsim.runtime.provenance import versions
from gradsim.scene import Scene, yaml_io
from gradsim.video.calibration.estimate import Calibration
from gradsim.video.calibration.lens import COEFFICIENTS, KEYS, cross_matrix

REPLACED_CAMERA_KEYS = ("size", "look_at", "R", "t", "K", "focal", "centre", "distortion", "fisheye", "prior")


@dataclass(frozen=True, kw_only=True)
class CaptureOptions:
    """Options of `capture`.

    Attributes:
        targets: Texts of `parse_target`.
        scene: Scene whose camera is replaced; None: none.
        model: "pinhole" or "fisheye".
        fix: Numbers of the lens that are not estimated; see `make_lens`.
        focal: Known focal length [px]; None: estimated.
        intrinsics: capture.json of an earlier calibration.
        views: Largest number of views.
        frame: Frame whose pose is the camera's; None: the first with the target.
        mask, background: Of the target `body`, as for `read_clip`.
    """

    targets: tuple[str, ...]
    scene: Path | None = None
    model: str = "pinhole"
    fix: tuple[str, ...] = ()
    focal: float | None = None
    intrinsics: Path | None = None
    views: int = 20
    frame: int | None = None
    mask: str | None = None
    background: str = "median"


def read_capture(path: Path) -> dict:
    """Content of a capture.json.

    Raises:
        InputError: If the file is missing or is another one.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); give a capture.json of `gradsim capture`.") from None
    if not isinstance(content, Mapping) or content.get("schema") != CAPTURE:
        raise InputError(f"{path} is not a capture.json of `gradsim capture` (schema {CAPTURE}).")
    return dict(content)


def leading_comments(path: Path) -> list[str]:
    """Comments at the top of a scene file; none of a library scene."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return list(itertools.takewhile(lambda line: line.startswith("#"), lines))


def capture_content(calibration: Calibration, size: Sequence[int], targets: Sequence[str]) -> dict:
    """Content of capture.json.

    The pose is that of the first view: x_c = R x + t, R = exp(rotation_vector) R of the file, so that the rotation vector, in the
    axes of the camera, has the mean 0. The position of the camera is -Rᵀ t.

    Args:
        calibration: The estimate.
        size: Width and height [px].
        targets: Their texts.
    """
    mean, covariance = calibration.camera(0)
    names, numbers = calibration.camera_names(), calibration.numbers
    R, t = calibration.R[0], calibration.t[0]
    # position = -Rᵀ exp(-ω) t, so that its derivatives are -Rᵀ by t and, by ω, -Rᵀ [t]×
    J = np.concatenate([-R.T @ cross_matrix(t), -R.T], 1)
    spread = J @ covariance[-6:, -6:] @ J.T
    model = calibration.lens.model
    estimated = "".join(calibration.lens.names)
    fixed = [name for name in COEFFICIENTS[model] if f".{name}" not in estimated]
    fixed += [word for word in ("centre", "focal") if f".{word}" not in estimated]
    fixed += ["square"] if "camera.focal" in names else []
    K = [[numbers[0], 0.0, numbers[2]], [0.0, numbers[1], numbers[3]], [0.0, 0.0, 1.0]]
    return {
        "schema": CAPTURE,
        "names": list(names),
        "mean": mean.tolist(),
        "sd": np.sqrt(np.diag(covariance)).tolist(),
        "covariance": covariance.tolist(),
        "units": [_unit(name) for name in names],
        "size": list(size),
        "model": model,
        "fixed": fixed,
        "K": [[float(x) for x in row] for row in K],
        KEYS[model]: numbers[4:].tolist(),
        "R": R.tolist(),
        "t": t.tolist(),
        "position": (-R.T @ t).tolist(),
        "position_sd": np.sqrt(np.diag(spread)).tolist(),
        "corner_rms": calibration.corner_rms,
        "corner_noise": calibration.noise.tolist(),
        "corner_shared": calibration.shared.variance,
        "corners": [int(used.sum()) for used in calibration.used],
        "views": len(calibration.views),
        "frames": [view.frame for view in calibration.views],
        "targets": list(targets),
        "conventions": "x_c = R x + t; R = exp(rotation_vector) R; px with pixel centers at +0.5; m; rad",
        "versions": versions(),
    }


def _unit(name: str) -> str:
    units = {"focal": "px", "centre": "px", "rotation_vector": "rad", "translation": "m"}
    return units.get(name.split(".")[1], "")


def camera_content(content: Mapping) -> dict[str, tuple[object, str]]:
    """Keys of a scene's camera with their values and comments.

    Args:
        content: Content of capture.json.
    """
    table = {
        name: with_error(x, sd) for name, x, sd in zip(content["names"], content["mean"], content["sd"], strict=True)
    }
    say = lambda key: ", ".join(f"{n.removeprefix('camera.')} {text}" for n, text in table.items() if f".{key}" in n)
    lens = "; ".join(text for text in (say("focal"), say("centre")) if text)
    entries = {
        "size": (content["size"], ""),
        "K": (content["K"], f"[px] {lens}" if lens else "as given"),
        "R": (content["R"], f"[rad] {say('rotation_vector')} about the axes of the camera"),
        "t": (content["t"], f"[m] {say('translation')}"),
    }
    key = KEYS[content["model"]]
    if any(content[key]):
        entries[key] = (content[key], say(key))
    return entries


def write_scene(
    path: Path, scene: Scene, comments: Sequence[str], entries: Mapping[str, tuple[object, str]], source: Path
) -> None:
    """Write a scene with its camera replaced, standard deviations as comments.

    Args:
        path: File to write.
        scene: The scene.
        comments: Lines at the top.
        entries: Of `camera_content`.
        source: Name of the images, for the comment.
    """
    rest = (
        scene.camera.model_dump(exclude_unset=True, exclude_none=True, exclude={*REPLACED_CAMERA_KEYS})
        if scene.camera
        else {}
    )
    entries = {**entries, **{key: (value, "") for key, value in rest.items()}}  # such as a shutter
    entries["prior"] = ("capture.json", "its errors are part of those of a fit; without this line the camera is exact")
    lines = [f"camera:  # by gradsim capture from {source.name}; ± is one standard deviation"]
    for key, (value, comment) in entries.items():
        lines.append(f"  {key}: {_flow(value)}{f'  # {comment}' if comment else ''}")
    folder = path.absolute().parent
    text = yaml_io.as_text(scene, folder, brief=True)
    parts = _without_camera(text)
    with atomic_write(path, "w") as file:
        file.write("\n".join([*comments, parts.rstrip("\n"), *lines]) + "\n")
    try:
        Scene.load(path)
    except InputError as error:
        raise InputError(f"the camera does not fit the scene: {error}") from None


def _without_camera(text: str) -> str:
    """Text of a scene without the top-level key `camera`."""
    lines, inside = [], False
    for line in text.splitlines():
        if line and not line[0].isspace():
            inside = line.startswith("camera:")
        if not inside:
            lines.append(line)
    return "\n".join(lines)


def _flow(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_flow(x) for x in value)}]"
    return f"{value:.10g}" if isinstance(value, float) else str(value)
