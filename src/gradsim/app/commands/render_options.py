"""Options of `gradsim render`, and which of them exclude each other."""

from dataclasses import dataclass

from gradsim.errors import InputError

FORMATS = ("webm", "mp4", "gif", "png")
BUFFERS = ("depth", "normals", "ids", "flow")
MAX_SIZE = 16384  # [px] of width and height
LAYOUTS = ("turntable", "sheet", "strip")


@dataclass(frozen=True, kw_only=True)
class RenderOptions:
    """Selection, layout and format of renderings. Without `frame` and a layout: a video of all frames.

    Args:
        camera: Name of the scene's camera.
        format: Format of videos: "webm", "mp4", "gif", or "png" for folders.
        preview: Videos that every player shows: enlarged, lossy.
        renderer: See `gradsim.visualization.frames`; None: exact coverage with flat colors, or "aa" for scenes with
            textures, shading or visible grounds.
        spp: Samples per pixel of Mitsuba.
        shading: Shading law that replaces the scene's.
        size: Width and height [px] that replace the camera's.
        frame: A single frame; of a turntable, the frame that it shows.
        turntable: Number of views from all around.
        sheet: Rows and columns of a contact sheet.
        strip: Number of instants in one image.
        buffers: Further outputs: "depth", "normals", "ids", "flow".
    """

    camera: str = "camera"
    format: str = "webm"
    preview: bool = False
    renderer: str | None = None
    spp: int = 64
    shading: str | None = None
    size: tuple[int, int] | None = None
    frame: int | None = None
    turntable: int | None = None
    sheet: tuple[int, int] | None = None
    strip: int | None = None
    buffers: tuple[str, ...] = ()

    @property
    def layout(self) -> str:
        """ "video", "frame", "turntable", "sheet" or "strip"."""
        default = "video" if self.frame is None else "frame"
        return next((name for name in LAYOUTS if getattr(self, name) is not None), default)

    def check(self, frames: int) -> None:
        """Raise `InputError` if an option is wrong for a trajectory of `frames` frames."""
        if self.format not in FORMATS or (self.preview and self.format == "png"):
            allowed = FORMATS[: -1 if self.preview else None]
            raise InputError(f"--format is {self.format!r}; use one of {', '.join(allowed)}.")
        layouts = [f"--{name}" for name in LAYOUTS if getattr(self, name) is not None]
        if len(layouts) > 1:
            raise InputError(f"{' and '.join(layouts)} exclude each other; use one of them at a time.")
        if self.frame is not None and self.layout in ("sheet", "strip"):
            raise InputError(f"--frame is one instant, and --{self.layout} shows several; leave one of them out.")
        if self.preview and self.layout not in ("video", "turntable"):
            raise InputError(f"--preview is for videos, not for a {self.layout}; leave it out.")
        if self.buffers and (self.layout not in ("video", "frame") or self.preview):
            raise InputError("--depth, --normals, --ids and --flow need a lossless video of all frames, or --frame K.")
        if self.frame is not None and not -frames <= self.frame < frames:
            raise InputError(
                f"--frame is {self.frame}; the trajectory has frames 0 to {frames - 1}, and -1 is the last."
            )
        if "flow" in self.buffers and (frames < 2 or self.frame in (frames - 1, -1)):
            raise InputError("--flow is the motion to the next frame; there is none after the last.")
        if self.size and not all(1 <= n <= MAX_SIZE for n in self.size):
            raise InputError(f"--size is {self.size[0]}x{self.size[1]}; use 1 to {MAX_SIZE} px each.")
        if self.turntable is not None and self.turntable < 2:
            raise InputError(f"--turntable is {self.turntable}; it needs at least 2 views.")
        if self.sheet and not (min(self.sheet) >= 1 and self.sheet[0] * self.sheet[1] <= frames):
            raise InputError(
                f"--sheet is {self.sheet[0]}x{self.sheet[1]}; use at least 1x1 and at most the {frames} frames of the "
                "trajectory."
            )
        if self.strip is not None and not 2 <= self.strip <= frames:
            raise InputError(
                f"--strip is {self.strip}; use between 2 and {frames} instants, the frames of the trajectory."
            )


def parse_pair(text: str | None, option: str, meaning: str) -> tuple[int, int] | None:
    """Two whole numbers from "AxB".

    Raises:
        InputError: If the text has another form.
    """
    if text is None:
        return None
    first, cross, second = text.lower().partition("x")
    if not (cross and first.isdecimal() and second.isdecimal()):
        raise InputError(f"{option} is {text!r}; it needs two whole numbers with an x between, {meaning}.")
    return int(first), int(second)
