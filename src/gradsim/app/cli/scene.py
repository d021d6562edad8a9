"""The commands `gradsim scenes`, `examples`, `new`, `import`, `export`, `simulate`, `render` and `view`. Imports nothing heavy."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from gradsim.app.cli.command import DONE, Command, ThreadedCommand, working


@dataclass(kw_only=True)
class Scenes(Command):
    """List the scenes of the library, or print one as a start: `gradsim scenes cube > my.yaml`."""

    name: Annotated[Positional[str | None], arg(metavar="NAME", help_behavior_hint="(default: list all)")] = None
    """Scene whose file is printed."""
    json: bool = False
    """Print the list, or the entry of one scene with its text, as JSON."""
    schema: bool = False
    """Print the JSON schema of scene files, for editors."""

    def run(self, out, err):
        from gradsim.app.commands import scenes

        if self.schema or self.json or self.name:
            out.file.write(scenes.as_text(self.name, as_json=self.json, schema=self.schema))
        else:
            out.print(scenes.table(scenes.library_scenes()))
        return DONE


@dataclass(kw_only=True)
class Examples(Command):
    """List the examples, print one, or copy them: `gradsim examples --out examples`, `gradsim examples arm > arm.py`."""

    name: Annotated[Positional[str | None], arg(metavar="NAME", help_behavior_hint="(default: all)")] = None
    """Example that is printed, or copied with --out."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: none)")] = None
    """Folder that the files are copied into."""

    def run(self, out, err):
        from gradsim.app import example_copies as examples

        if self.out is not None:
            for path in examples.copy(self.out, self.name):
                out.print(str(path), highlight=False, soft_wrap=True, markup=False)
        elif self.name is not None:
            out.file.write(examples.find(self.name).read_text(encoding="utf-8"))
        else:
            out.print(examples.table())
        return DONE


@dataclass(kw_only=True)
class New(Command):
    """Write a first scene file for a clip of one moving body, and a picture of it over the clip.

    Two of --size, --focal and --distance give the third; what is not given is guessed, and the file says so. With --view
    all of it can be moved by hand in the browser before it is written.
    """

    video: Annotated[Positional[Path], arg(metavar="VIDEO")]
    """The clip: the camera stands still and level, the body moves across the picture."""
    out: Annotated[Path, arg(metavar="SCENE")]
    """Scene file (YAML) to write; the picture SCENE.png goes next to it."""
    start: Annotated[str, arg(name="from", metavar="SCENE")] = "ball"
    """Library scene or scene file with the body's shape and ground, or a pendulum."""
    size: Annotated[float | None, arg(metavar="METERS", help_behavior_hint="(default: as in the scene)")] = None
    """Longest side of the body, or diameter of the ball of a pendulum."""
    focal: Annotated[float | None, arg(metavar="PX", help_behavior_hint="(default: a phone's)")] = None
    """Focal length."""
    distance: Annotated[
        float | None, arg(metavar="METERS", help_behavior_hint="(default: from size and focal length)")
    ] = None
    """From the camera to the plane of the motion."""
    background: Annotated[str, arg(metavar="FILE|median|mog2")] = "median"
    """Image or video of the empty scene; or, of the clip itself, its median, or mog2, which shadows do not fool."""
    mask: Annotated[
        Path | None, arg(metavar="MASK", help_behavior_hint="(default: what differs from the background)")
    ] = None
    """Masks of the body: a video, COCO annotations, grabcut:X,Y,W,H[@K] or color:X,Y,W,H[@K], as for `gradsim fit`."""
    category: Annotated[str, arg(metavar="NAME", help_behavior_hint="(default: the only one)")] = ""
    """Category of COCO annotations that is the body."""
    ground: bool = True
    """The lowest point that the body comes to is the ground; --no-ground: there is none in view."""
    frames: Annotated[str, arg(metavar="A:B", help_behavior_hint="(default: all)")] = ""
    """Frames that count: those in which the body moves freely and nobody holds it."""
    view: bool = False
    """Show the scene over the clip in the browser, to be moved by hand and written there; needs the extra `viewer`."""
    host: str = "127.0.0.1"
    """With --view: address to listen at; 0.0.0.0 for access from other machines."""
    port: int = 8080
    """With --view: port to listen at; the next free one if it is in use."""
    open: bool = False
    """With --view: open the page in this machine's browser."""

    def run(self, out, err):
        from gradsim.app.commands.new import edit, new

        names = ("start", "mask", "category", "background", "size", "focal", "distance", "ground", "frames")
        options = {name: getattr(self, name) for name in names}
        with working(err) as progress:
            if self.view:
                page = edit(self.video, self.out, self.host, self.port, **options, progress=progress)
            else:
                text = new(self.video, self.out, **options, progress=progress)
        if self.view:
            serve(page, self.open, out)
            text = page.written or f"nothing was written to {self.out}"
        out.print(text, highlight=False, soft_wrap=True, markup=False)
        return DONE


@dataclass(kw_only=True)
class Import(Command):
    """Convert an MJCF, URDF or USD file to a scene file; needs the extra `newton`."""

    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """MJCF (.xml, .mjcf), URDF (.urdf) or USD (.usd, .usda, .usdc, .usdz)."""
    out: Annotated[Path, arg(metavar="SCENE")]
    """Scene file (YAML) to write; meshes go into a folder next to it."""
    skip: bool = False
    """Skip what a scene cannot represent, instead of refusing the file."""
    fixed_base: bool = False
    """Fix the root of a URDF to the world; by default it floats."""

    def run(self, out, err):
        from gradsim.scene.importers import newton

        with working(err):
            meshes = self.out.with_name(f"{self.out.stem}_meshes")
            imported = newton.load(self.file, meshes, self.skip, self.fixed_base)
        imported.scene.save(self.out)
        for note in imported.notes:
            err.print(f"note: {note}", highlight=False, soft_wrap=True, markup=False)
        out.print(f"scene: {self.out}", highlight=False, soft_wrap=True, markup=False)
        return DONE


@dataclass(kw_only=True)
class Export(Command):
    """Write a scene, or a fit at its estimates, as a model of MuJoCo (MJCF), as URDF or as USD; needs no extra."""

    target: Annotated[Positional[Path], arg(metavar="RUN|SCENE")]
    """Folder made by `gradsim fit` (at its estimates), a scene file (YAML), or the name of a library scene."""
    to: Literal["mjcf", "urdf", "usd"]
    """Format: mjcf (MuJoCo), urdf (a file for each tree of joints), or usd (a stage of UsdPhysics: Isaac, Newton)."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("runs/export")
    """Output folder: the model, its meshes, and export.json with all that the format cannot say."""
    anyway: bool = False
    """Also a fit that is a mismatch, unidentifiable, unconverged, failed or unfinished; the model carries that word."""
    clip: Annotated[int, arg(metavar="N")] = 1
    """Number of the clip in a fit of several clips."""
    samples: Annotated[int | None, arg(metavar="N")] = None
    """Also N models with numbers drawn from the posterior of a fit (samples/000, ...), and the numbers as samples.csv."""
    seed: int = 0
    """Random seed of the samples."""
    match_contact: bool = False
    """Fit MuJoCo's contact numbers to a drop and a slide of each body (extra engines); films of both go to contact_BODY.webm."""

    def run(self, out, err):
        from gradsim.app.commands.export import export

        with working(err) as progress:
            models = export(
                self.target,
                self.to,
                self.out,
                self.anyway,
                self.clip,
                self.samples or 0,
                self.seed,
                self.match_contact,
                progress=progress,
            )
        for note in models.notes:
            err.print(f"not in the model: {note}", highlight=False, soft_wrap=True, markup=False)
        if models.record.get("contact"):
            from gradsim.app.cli.console import contact_table

            out.print(contact_table(models.record["contact"]))
        for path in models.files:
            out.print(f"model: {path}", highlight=False, soft_wrap=True, markup=False)
        return DONE


@dataclass(kw_only=True)
class Simulate(ThreadedCommand):
    """Simulate a scene; the trajectory goes to trajectory.npz."""

    scene: Annotated[Positional[Path], arg(metavar="SCENE")]
    """Scene file (YAML) or name of a library scene, such as cube."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/NAME OF THE SCENE FILE)")] = None
    """Run folder."""

    def run(self, out, err):
        from gradsim.app.commands.simulate import simulate

        folder = self.out or Path("runs") / self.scene.stem
        with working(err) as progress:
            simulate(self.scene, folder, progress=progress)
        out.print(f"run: {folder}", highlight=False, soft_wrap=True, markup=False)
        return DONE


@dataclass(kw_only=True)
class Render(ThreadedCommand):
    """Render a run or a scene to a lossless video, an image, a turntable, a contact sheet or a strip of instants."""

    target: Annotated[Positional[Path], arg(metavar="RUN|SCENE")]
    """Folder made by `gradsim simulate` or `gradsim fit` (at its estimates), or a scene to simulate first."""
    out: Annotated[
        Path | None, arg(metavar="DIR", help_behavior_hint="(default: the run folder; runs/NAME OF THE SCENE FILE)")
    ] = None
    """Output folder."""
    camera: Annotated[str, arg(metavar="NAME")] = "camera"
    """Camera of the scene; files of camera `side` are side.webm and side_mask.webm."""
    format: Literal["webm", "mp4", "gif", "png"] = "webm"
    """Video format; png makes folders. All are bit-exact, gif up to 256 colors per frame."""
    preview: bool = False
    """Write only preview.FORMAT: enlarged, lossy, for every player."""
    renderer: Annotated[
        str | None,
        arg(
            metavar="NAME",
            help="coverage: exact, flat colors, used by fits; aa: with depth and shading; softras, dibr: those of the paper; "
            "mitsuba: path tracing with shadows, slow (extra `mitsuba`). An unknown name lists all.",
            help_behavior_hint="(default: coverage; aa for textures, shading, visible grounds)",
        ),
    ] = None
    spp: Annotated[int, arg(metavar="N")] = 64
    """Samples per pixel of mitsuba; the noise falls with the square root."""
    shading: Annotated[
        Literal["colour", "lambert", "phong", "blinn-phong"] | None, arg(help_behavior_hint="(default: the scene's)")
    ] = None
    """Shading law of surfaces."""
    size: Annotated[str | None, arg(metavar="WxH", help_behavior_hint="(default: the camera's)")] = None
    """Width and height in px; the field of view stays."""
    frame: Annotated[int | None, arg(metavar="K", help_behavior_hint="(default: all)")] = None
    """A single image, of frame K, -1 being the last; with --turntable, the frame that is shown."""
    turntable: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: none)")] = None
    """A video of N views from all around."""
    sheet: Annotated[str | None, arg(metavar="ROWSxCOLUMNS", help_behavior_hint="(default: none)")] = None
    """A contact sheet of equidistant frames."""
    strip: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: none)")] = None
    """N instants in one image, earlier ones fainter."""
    depth: bool = False
    """Also depth along the camera's axis, as images and in buffers.npz [m]."""
    normals: bool = False
    """Also normals."""
    ids: bool = False
    """Also the id of the visible part."""
    flow: bool = False
    """Also optical flow to the next frame [px]."""

    def run(self, out, err):
        from gradsim.app.commands.render import render
        from gradsim.app.commands.render_options import BUFFERS, RenderOptions, parse_pair

        names = ("camera", "format", "preview", "renderer", "spp", "shading", "frame", "turntable", "strip")
        options = RenderOptions(
            **{name: getattr(self, name) for name in names},
            size=parse_pair(self.size, "--size", "width and height in px"),
            sheet=parse_pair(self.sheet, "--sheet", "rows and columns"),
            buffers=tuple(name for name in BUFFERS if getattr(self, name)),
        )
        with working(err) as progress:
            rendered = render(self.target, options, self.out, progress=progress)
        quality = "lossless" if rendered.lossless else "lossy, not for fits"
        for name, path in rendered.files.items():
            line = f"video: {path} ({quality})" if name == "video" else f"{name}: {path}"
            out.print(line, highlight=False, soft_wrap=True, markup=False)
        return DONE


@dataclass(kw_only=True)
class View(Command):
    """Show a trajectory in 3-D in the browser, until Ctrl-C; needs the extra `viewer`."""

    target: Annotated[Positional[Path], arg(metavar="RUN|SCENE")]
    """Folder made by `gradsim simulate`, `fit` or `demo`, a scene file (YAML), or the name of a library scene."""
    host: str = "127.0.0.1"
    """Address to listen at; 0.0.0.0 for access from other machines."""
    port: int = 8080
    """Port to listen at; the next free one if it is in use."""
    open: bool = False
    """Open the page in this machine's browser."""
    clip: Annotated[int, arg(metavar="N")] = 1
    """Number of the clip in a fit of several clips."""

    def run(self, out, err):
        from gradsim.app.viewer.content import view_content
        from gradsim.app.viewer.viewer import Viewer

        with working(err) as progress:
            progress.stage(f"simulating {self.target}")
            viewer = Viewer(view_content(self.target, self.clip), self.host, self.port)
        serve(viewer, self.open, out)
        return DONE


def serve(page, show: bool, out) -> None:
    """Print the address of a page and serve it until Ctrl-C; `show`: in this machine's browser."""
    for line in (page.url, f"from another machine: {page.tunnel}", "Ctrl-C stops the server."):
        out.print(line, highlight=False, soft_wrap=True, markup=False)
    if show:
        import webbrowser

        webbrowser.open(page.url)
    with contextlib.suppress(KeyboardInterrupt):
        page.serve()
    page.stop()
