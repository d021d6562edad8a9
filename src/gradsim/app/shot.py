"""What `gradsim render` is asked for, and what of that cannot be."""

from dataclasses import dataclass

from gradsim.errors import InputError

FORMATS = ("webm", "mp4", "gif", "png")
BUFFERS = ("depth", "normals", "ids", "flow")
MOST = 16384  # [px] largest width or height
LAYOUTS = ("turntable", "sheet", "strip")


@dataclass(frozen=True, kw_only=True)
class Shot:
    """Pictures of a motion. Without `frame` and a layout: a film of all of it.

    Args:
        camera: Which of the scene's cameras.
        format: Of films: "webm", "mp4", "gif", or "png" for folders.
        preview: Films that every player shows, enlarged, not exact.
        renderer: See `gradsim.visualization.frames`; None takes exact coverage with flat colours, or "aa" where the scene has
            textures, lights to be shaded by, or visible grounds.
        spp: Samples per pixel of Mitsuba.
        shading: Law of shading in place of the scene's.
        size: Width and height [px] in place of the camera's.
        frame: One frame alone; of a turntable, the one that it goes round.
        turntable: So many views from all around.
        sheet: Rows and columns of a contact sheet.
        strip: So many instants in one picture.
        buffers: Of "depth", "normals", "ids" and "flow", those to be written too.
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
        """ "film", "frame", "turntable", "sheet" or "strip"."""
        return next(
            (name for name in LAYOUTS if getattr(self, name) is not None), "film" if self.frame is None else "frame"
        )

    def check(self, frames: int) -> None:
        """Raise `InputError` if it cannot be, of a motion of so many frames."""
        if self.format not in FORMATS or (self.preview and self.format == "png"):
            fit = FORMATS[: -1 if self.preview else None]
            raise InputError(f"format is {self.format!r}; use one of {', '.join(fit)}.")
        asked = [f"--{name}" for name in LAYOUTS if getattr(self, name) is not None]
        if len(asked) > 1:
            raise InputError(f"got {' and '.join(asked)}; ask for one of them at a time.")
        if self.frame is not None and self.layout in ("sheet", "strip"):
            raise InputError(f"--frame is one instant, and --{self.layout} shows several; leave one of them out.")
        if self.preview and self.layout not in ("film", "turntable"):
            raise InputError(f"--preview is for films, not for a {self.layout}; leave it out.")
        if self.buffers and (self.layout not in ("film", "frame") or self.preview):
            raise InputError("depth, normals, ids and flow go with the exact film or with --frame K.")
        if self.frame is not None and not 0 <= self.frame < frames:
            raise InputError(f"--frame is {self.frame}; the motion has frames 0 to {frames - 1}.")
        if "flow" in self.buffers and (frames < 2 or self.frame == frames - 1):
            raise InputError("flow goes from a frame to the next one, and there is none after the last.")
        if self.size and not all(1 <= n <= MOST for n in self.size):
            raise InputError(f"--size is {self.size[0]}x{self.size[1]}; both lie between 1 and {MOST} px.")
        if self.turntable is not None and self.turntable < 2:
            raise InputError(f"--turntable is {self.turntable}; it takes at least 2 views.")
        if self.sheet and not (min(self.sheet) >= 1 and self.sheet[0] * self.sheet[1] <= frames):
            raise InputError(
                f"--sheet is {self.sheet[0]}x{self.sheet[1]}; it needs at least 1x1 and at most the {frames} frames there "
                "are."
            )
        if self.strip is not None and not 2 <= self.strip <= frames:
            raise InputError(
                f"--strip is {self.strip}; it takes between 2 and {frames} instants, the frames there are."
            )


def pair(text: str | None, option: str, what: str) -> tuple[int, int] | None:
    """Two whole numbers with an x between.

    Raises:
        InputError: If the text has another form.
    """
    if text is None:
        return None
    first, cross, second = text.lower().partition("x")
    if not (cross and first.isdecimal() and second.isdecimal()):
        raise InputError(f"{option} is {text!r}; it needs two whole numbers with an x between, {what}.")
    return int(first), int(second)
