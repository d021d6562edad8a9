"""`gradsim view`: a motion in three dimensions, in the browser, with its cameras and what they saw.

The page comes from viser (extra `viewer`). Things are shown where they are: the true motion, where it is known, is a
translucent twin of the fit. Looking through a camera puts its picture behind everything, so that film and bodies can be
compared. All who open the page see the same instant.
"""

import contextlib
import getpass
import io
import math
import os
import socket
import threading
import time

import numpy as np

from gradsim.app.viewer.content import Viewable
from gradsim.errors import InputError
from gradsim.geometry.image_io import to_bytes
from gradsim.geometry.surface import Surface
from gradsim.render.camera import Camera
from gradsim.render.shading.shading import Shading
from gradsim.visualization.frames import FrameRenderer, fitting
from gradsim.visualization.viser_scene import TRUTH, Frustum, Stage, actors, add_grounds, stand_back

MOST = 320  # [px] pictures in the page are as large as this, or smaller
TICK = 1 / 30  # [s] between two pictures of a motion that plays
FOV = 0.9  # [rad] of the free view
TWIN = 0.35  # opacity of the truth
LARGER = 1.01  # size of the truth as drawn: equal faces in one place would flicker
ASIDE = 0.4  # to the left of the panel
ROOM = 280  # [px] width of the panel's picture
SPEEDS = ("0.1", "0.25", "0.5", "1", "2")
FILM, MOTION = "film", "motion"


class Viewer:
    """A server whose page shows a motion.

    Attributes:
        url: Its address.
        frame: Slider of the instant that is shown.
        actors: What moves and what stands, by name; `truth` has the twins.
        frusta: Cameras by name.
    """

    def __init__(self, shown: Viewable, host: str = "127.0.0.1", port: int = 8080):
        """Begin to serve.

        Args:
            shown: The motion.
            host: Address to listen at; 0.0.0.0 lets other machines in.
            port: Port to listen at; the next free one if it is taken.

        Raises:
            InputError: If viser is not installed, or this machine has no such address or port.
        """
        self.shown, self._lock = shown, threading.Lock()
        self._server = _started(host, port)
        self.port = self._server.get_port()
        self.url = f"http://{'localhost' if host in ('0.0.0.0', '127.0.0.1') else host}:{self.port}"
        self._through: str | None = None
        self._aspect = 1.0  # of the window that looks through a camera
        self._playing, self._clock = False, 0.0
        self._set_the_stage()
        self._set_the_panel()
        self.show(0)

    def _set_the_stage(self) -> None:
        shown, place = self.shown, self._server.scene
        cameras = {name: shown.camera(name) for name in shown.scene.views}
        self._drawn = _detached(shown.motion.drawn)
        light = (
            fitting(shown.scene, [p.look for p in self._drawn.parts]),
            Shading.of(shown.scene),
            tuple(shown.scene.background),
        )
        self._artists = {n: FrameRenderer(light[0], _thinned(camera), *light[1:]) for n, camera in cameras.items()}
        stage = Stage.of(self._drawn, next(iter(cameras.values()), None), shown.scene.grounds)
        place.set_up_direction("+z")
        self._grounds = add_grounds(place, shown.scene.grounds, stage)
        self.actors = actors(place, "bodies", self._drawn)
        self.truth = {}
        if shown.truth:
            twins = _detached(shown.truth.surface)
            self.truth = actors(place, "truth", twins, colour=TRUTH, path_colour=TRUTH)
        for actor in self.truth.values():
            actor.mesh.opacity, actor.mesh.scale = TWIN, LARGER
        self.frusta = {name: Frustum(place, f"/cameras/{name}", c, stage, MOST) for name, c in cameras.items()}
        for name, frustum in self.frusta.items():
            frustum.node.on_click(lambda event, name=name: self.look_through(name, event.client))
        self._server.initial_camera.fov = FOV
        stand_back(self._server.initial_camera, stage, list(self.frusta.values()), ASIDE)

    def _set_the_panel(self) -> None:
        gui, shown = self._server.gui, self.shown
        gui.configure_theme(show_share_button=False, show_logo=False)
        gui.set_panel_label(shown.title)
        self.frame = gui.add_slider("frame", 0, max(shown.frames - 1, 1), 1, 0)
        self.frame.on_update(lambda _: self.show(int(self.frame.value)))
        self._time = gui.add_text("time", "", disabled=True)
        self._play = gui.add_button("Play")
        self._play.on_click(lambda _: self.play(not self._playing))
        self._speed = gui.add_dropdown("speed", SPEEDS, initial_value="1")
        if self.frusta:
            self._camera_panel(gui)
        with gui.add_folder("show"):
            for name, actor in self.actors.items():
                _switch(gui, name, [actor.mesh])
            for name, node in self._grounds.items():
                _switch(gui, name, [node])
            if self.truth:
                _switch(gui, "truth", [actor.mesh for actor in self.truth.values()])
            _switch(gui, "paths", [a.path for a in (*self.actors.values(), *self.truth.values()) if a.path])
            self._opacity = gui.add_slider("opacity", 0.0, 1.0, 0.05, 1.0)
            self._opacity.on_update(lambda _: self._fade())
        if shown.words:
            with gui.add_folder("known", expand_by_default=len(shown.words) < 12):
                gui.add_markdown("\n".join(f"* {word}" for word in shown.words))

    def _camera_panel(self, gui) -> None:
        names = list(self.frusta)
        with gui.add_folder("cameras"):
            self._chosen = gui.add_dropdown("camera", names, initial_value=names[0])
            self._chosen.on_update(lambda _: self.show(int(self.frame.value)))
            pair = f"{FILM}, left, and {MOTION}, right" if self.shown.films else MOTION
            self._pair = gui.add_image(np.full((2, 2, 3), 255, np.uint8), label=pair, format="png")
            self._source = gui.add_dropdown("in the cameras", [FILM, MOTION], visible=bool(self.shown.films))
            self._source.on_update(lambda _: self.show(int(self.frame.value)))
            through, free = gui.add_button("Appearance through it"), gui.add_button("Free view")
            through.on_click(lambda event: self.look_through(self._chosen.value, event.client))
            free.on_click(lambda event: self.look_through(None, event.client))

    def show(self, frame: int) -> None:
        """Move everything to a frame."""
        frame = min(frame, self.shown.frames - 1)
        with self._lock, self._server.atomic():
            self._clock = frame / self.shown.scene.timing.fps
            self._time.value = f"{self.shown.motion.times[frame].item():.3f} s"
            for actor in (*self.actors.values(), *self.truth.values()):
                if actor.moves:
                    actor.show(frame)
            for name, frustum in self.frusta.items():
                frustum.show(self.picture(name, frame, self._source.value))
            if self.frusta:
                self._pair.image = self._beside(self._chosen.value, frame)
            self._set_background(frame)

    def picture(self, name: str, frame: int, source: str = FILM) -> np.ndarray:
        """What a camera sees (height, width, 3) uint8: its film, if there is one and `source` says so, or a render."""
        film = self.shown.films.get(name)
        if source == FILM and film is not None and frame < len(film):
            return film[frame]
        surface = Surface(self._drawn.vertices[:, frame : frame + 1], self._drawn.parts)
        return to_bytes(next(self._artists[name].draw(surface)))

    def play(self, on: bool) -> None:
        """Begin or stop to play."""
        self._playing, self._play.label = on, "Pause" if on else "Play"

    def look_through(self, name: str | None, client=None) -> None:
        """Bring the viewpoint of a page to a camera; None: back to the free view."""
        self._through = name
        for other, frustum in self.frusta.items():
            frustum.node.visible = other != name  # its own picture would stand before everything
        for node in self._grounds.values():
            node.visible = name is None or name not in self.shown.films
        if client is not None:
            with client.atomic():
                self._stand(client.camera, name)
        self.show(int(self.frame.value))

    def _stand(self, eye, name: str | None) -> None:
        if name is None:
            opening = self._server.initial_camera
            eye.up_direction, eye.position, eye.look_at, eye.fov = (0, 0, 1), opening.position, opening.look_at, FOV
            return
        frustum = self.frusta[name]
        x, y = frustum.tangents
        self._aspect = eye.aspect
        eye.wxyz, eye.position = frustum.node.wxyz, frustum.node.position
        eye.fov = 2 * math.atan(max(y, x / eye.aspect))  # a window that is narrower than the picture shows its width

    def _set_background(self, frame: int) -> None:
        """The film behind everything, for who looks through its camera."""
        if self._through is None or self._through not in self.shown.films:
            self._server.scene.set_background_image(None)
            return
        frustum = self.frusta[self._through]
        (x, y), picture = frustum.tangents, frustum.framed(self.picture(self._through, frame))
        tall = max(y, x / self._aspect)  # tangent of half the window's angle
        wanted = np.array([picture.shape[0] * tall / y, picture.shape[1] * tall * self._aspect / x])
        margin = np.rint((wanted - picture.shape[:2]) / 2).astype(int).clip(0)
        around = np.pad(picture, (*[(m, m) for m in margin.tolist()], (0, 0)), constant_values=255)
        self._server.scene.set_background_image(around, format="png")

    def _beside(self, name: str, frame: int) -> np.ndarray:
        """Film and motion beside one another; the motion alone where there is no film."""
        motion = self.picture(name, frame, MOTION)
        if name not in self.shown.films:
            return _enlarged(motion, ROOM)
        film = self.picture(name, frame)
        rows, columns = (
            np.linspace(0, n - 1, m).round().astype(int) for n, m in zip(film.shape[:2], motion.shape[:2], strict=True)
        )
        pair = [_enlarged(image, ROOM // 2) for image in (film[rows][:, columns], motion)]
        return np.concatenate([pair[0], np.full((len(pair[0]), 4, 3), 255, np.uint8), pair[1]], 1)

    def _fade(self) -> None:
        opacity = self._opacity.value
        for mesh in (actor.mesh for actor in self.actors.values() if hasattr(actor.mesh, "opacity")):
            mesh.opacity = None if opacity == 1 else opacity

    def serve(self) -> None:
        """Play what is to be played, until Ctrl-C."""
        while True:
            time.sleep(TICK)
            if self._playing:
                self.tick(TICK)

    def tick(self, seconds: float) -> None:
        """Let so much time pass; after the last frame comes the first."""
        fps, frames = self.shown.scene.timing.fps, self.shown.frames
        clock = (self._clock + seconds * float(self._speed.value)) % (frames / fps)
        frame = min(int(clock * fps + 1e-6), frames - 1)
        if frame != self.frame.value:
            self.frame.value = frame  # shows it, and sets the clock to its begin
        self._clock = clock

    def stop(self) -> None:
        """End to serve."""
        with contextlib.redirect_stdout(io.StringIO()):
            self._server.stop()

    @property
    def tunnel(self) -> str:
        """What to type on one's own machine, where this one is another."""
        here = os.environ.get("SSH_CONNECTION", "").split()
        host = here[2] if len(here) == 4 else socket.gethostname()
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # nobody has that number
            user = "USER"
        return f"ssh -L {self.port}:localhost:{self.port} {user}@{host}"


def _started(host: str, port: int):
    try:
        import viser
    except ImportError:
        raise InputError('viser is not installed; `pip install "gradsim[viewer]"` brings it.') from None
    if not 0 <= port < 65536:
        raise InputError(f"port is {port}; it lies between 1 and 65535, or is 0 for any that is free.")
    try:  # viser itself would go on to the next port, for ever
        family, kind, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as trial:
            trial.bind(address)
    except OSError as error:
        raise InputError(
            f"cannot listen at {host} ({error.strerror}); use 127.0.0.1, 0.0.0.0 or an address of this machine."
        ) from None
    with contextlib.redirect_stdout(io.StringIO()):  # the command says where it listens, in its own words
        return viser.ViserServer(host=host, port=port, verbose=False)


def _thinned(camera: Camera) -> Camera:
    """The same view by at most so many pixels each way."""
    factor = min(1.0, MOST / max(camera.width, camera.height))
    return camera.resized(max(1, round(camera.width * factor)), max(1, round(camera.height * factor)))


def _detached(surface: Surface) -> Surface:
    return Surface(surface.vertices.detach(), surface.parts)


def _enlarged(image: np.ndarray, width: int) -> np.ndarray:
    """Whole pixels of a small picture, so many times that it is about as wide as that."""
    times = max(1, width // image.shape[1])
    return image.repeat(times, 0).repeat(times, 1)


def _switch(gui, name: str, nodes: list) -> None:
    """A checkbox that shows and hides nodes."""
    box = gui.add_checkbox(name, True)

    def flip(_) -> None:
        for node in nodes:
            node.visible = box.value

    box.on_update(flip)
