"""`gradsim view`: a trajectory in 3-D, in the browser, with its cameras and their videos.

The page is made by viser (extra `viewer`). The true trajectory, where it is known, is a translucent copy at its true
place. Looking through a camera puts its image behind everything, so that video and bodies can be compared. All clients
see the same instant.
"""

import math
import threading
import time

import numpy as np

from gradsim.app.viewer.content import ViewContent
from gradsim.app.viewer.server import address, start_server, stop_server, tunnel_command
from gradsim.geometry.image_io import to_bytes
from gradsim.geometry.surface import Surface
from gradsim.render.camera import Camera
from gradsim.render.shading.shading import Shading
from gradsim.visualization.frames import FrameRenderer, default_renderer
from gradsim.visualization.viser_scene import TRUTH, Frustum, Stage, actors, add_grounds, stand_back

MAX_IMAGE = 320  # [px] largest width or height of images in the page
TICK = 1 / 30  # [s] between updates while playing
FOV = 0.9  # [rad] of the free view
TRUTH_OPACITY = 0.35  # opacity of the truth
TRUTH_SCALE = 1.01  # coincident faces would flicker
SHIFT = 0.4  # of the view, to the left of the panel
PANEL_WIDTH = 280  # [px] of the panel's image
SPEEDS = ("0.1", "0.25", "0.5", "1", "2")
VIDEO, TRAJECTORY = "video", "trajectory"


class Viewer:
    """Server of a page that shows a trajectory.

    Attributes:
        url: Address of the page.
        frame: Slider of the current frame.
        actors: Bodies and obstacles by name.
        truth: Bodies of the true trajectory by name.
        frusta: Cameras by name.
    """

    def __init__(self, content: ViewContent, host: str = "127.0.0.1", port: int = 8080):
        """Start the server.

        Args:
            content: What to show.
            host: Address to listen at; 0.0.0.0 for access from other machines.
            port: Port to listen at; the next free one if it is in use.

        Raises:
            InputError: If viser is not installed, or this machine has no such address or port.
        """
        self.content, self._lock = content, threading.Lock()
        self._server, guard = start_server(host, port)
        self.port = self._server.get_port()
        self.url = address(host, self.port, guard.token)
        self._through: str | None = None
        self._aspect = 1.0  # of the window that looks through a camera
        self._playing, self._clock = False, 0.0
        self._add_scene()
        self._add_panel()
        self.show(0)

    def _add_scene(self) -> None:
        content, place = self.content, self._server.scene
        cameras = {name: content.camera(name) for name in content.scene.views}
        self._drawn = _detached(content.trajectory.scene_surface)
        look = (
            default_renderer(content.scene, [p.appearance for p in self._drawn.parts]),
            Shading.of(content.scene),
            tuple(content.scene.background),
        )
        self._renderers = {n: FrameRenderer(look[0], _reduced(camera), *look[1:]) for n, camera in cameras.items()}
        stage = Stage.of(self._drawn, next(iter(cameras.values()), None), content.scene.grounds)
        place.set_up_direction("+z")
        self._grounds = add_grounds(place, content.scene.grounds, stage)
        self.actors = actors(place, "bodies", self._drawn)
        self.truth = {}
        if content.truth:
            truth = _detached(content.truth.surface)
            self.truth = actors(place, "truth", truth, color=TRUTH, path_color=TRUTH)
        for actor in self.truth.values():
            actor.mesh.opacity, actor.mesh.scale = TRUTH_OPACITY, TRUTH_SCALE
        self.frusta = {name: Frustum(place, f"/cameras/{name}", c, stage, MAX_IMAGE) for name, c in cameras.items()}
        for name, frustum in self.frusta.items():
            frustum.node.on_click(lambda event, name=name: self.look_through(name, event.client))
        self._server.initial_camera.fov = FOV
        stand_back(self._server.initial_camera, stage, list(self.frusta.values()), SHIFT)

    def _add_panel(self) -> None:
        gui, content = self._server.gui, self.content
        gui.configure_theme(show_share_button=False, show_logo=False)
        gui.set_panel_label(content.title)
        self.frame = gui.add_slider("frame", 0, max(content.frames - 1, 1), 1, 0)
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
            self._opacity.on_update(lambda _: self._set_opacity())
        if content.notes:
            with gui.add_folder("values", expand_by_default=len(content.notes) < 12):
                gui.add_markdown("\n".join(f"* {note}" for note in content.notes))

    def _camera_panel(self, gui) -> None:
        names = list(self.frusta)
        with gui.add_folder("cameras"):
            self._chosen = gui.add_dropdown("camera", names, initial_value=names[0])
            self._chosen.on_update(lambda _: self.show(int(self.frame.value)))
            pair = f"{VIDEO}, left, and {TRAJECTORY}, right" if self.content.videos else TRAJECTORY
            self._pair = gui.add_image(np.full((2, 2, 3), 255, np.uint8), label=pair, format="png")
            self._source = gui.add_dropdown("camera images", [VIDEO, TRAJECTORY], visible=bool(self.content.videos))
            self._source.on_update(lambda _: self.show(int(self.frame.value)))
            through, free = gui.add_button("Look through it"), gui.add_button("Free view")
            through.on_click(lambda event: self.look_through(self._chosen.value, event.client))
            free.on_click(lambda event: self.look_through(None, event.client))

    def show(self, frame: int) -> None:
        """Show a frame."""
        frame = min(frame, self.content.frames - 1)
        with self._lock, self._server.atomic():
            self._clock = frame / self.content.scene.timing.fps
            self._time.value = f"{self.content.trajectory.times[frame].item():.3f} s"
            for actor in (*self.actors.values(), *self.truth.values()):
                if actor.moves:
                    actor.show(frame)
            for name, frustum in self.frusta.items():
                frustum.show(self.image(name, frame, self._source.value))
            if self.frusta:
                self._pair.image = self._image_pair(self._chosen.value, frame)
            self._set_background(frame)

    def image(self, name: str, frame: int, source: str = VIDEO) -> np.ndarray:
        """Image of a camera (height, width, 3) uint8: of its video, if there is one and `source` is `VIDEO`, or rendered."""
        video = self.content.videos.get(name)
        if source == VIDEO and video is not None and frame < len(video):
            return video[frame]
        surface = Surface(self._drawn.vertices[:, frame : frame + 1], self._drawn.parts)
        return to_bytes(next(self._renderers[name].draw(surface)))

    def play(self, on: bool) -> None:
        """Start or pause."""
        self._playing, self._play.label = on, "Pause" if on else "Play"

    def look_through(self, name: str | None, client=None) -> None:
        """Move the viewpoint of a client to a camera; None: back to the free view."""
        self._through = name
        for other, frustum in self.frusta.items():
            frustum.node.visible = other != name  # its own image would hide the scene
        for node in self._grounds.values():
            node.visible = name is None or name not in self.content.videos
        if client is not None:
            with client.atomic():
                self._place_viewpoint(client.camera, name)
        self.show(int(self.frame.value))

    def _place_viewpoint(self, eye, name: str | None) -> None:
        if name is None:
            opening = self._server.initial_camera
            eye.up_direction, eye.position, eye.look_at, eye.fov = (0, 0, 1), opening.position, opening.look_at, FOV
            return
        frustum = self.frusta[name]
        x, y = frustum.tangents
        self._aspect = eye.aspect
        eye.wxyz, eye.position = frustum.node.wxyz, frustum.node.position
        eye.fov = 2 * math.atan(max(y, x / eye.aspect))  # a window narrower than the image shows its full width

    def _set_background(self, frame: int) -> None:
        """Put the video behind everything while looking through its camera."""
        if self._through is None or self._through not in self.content.videos:
            self._server.scene.set_background_image(None)
            return
        frustum = self.frusta[self._through]
        padded = frustum.backdrop(self.image(self._through, frame), self._aspect)
        self._server.scene.set_background_image(padded, format="png")

    def _image_pair(self, name: str, frame: int) -> np.ndarray:
        """Video and rendered trajectory side by side; without a video the trajectory alone."""
        rendered = self.image(name, frame, TRAJECTORY)
        if name not in self.content.videos:
            return _enlarged(rendered, PANEL_WIDTH)
        observed = self.image(name, frame)
        rows, columns = (
            np.linspace(0, n - 1, m).round().astype(int)
            for n, m in zip(observed.shape[:2], rendered.shape[:2], strict=True)
        )
        pair = [_enlarged(image, PANEL_WIDTH // 2) for image in (observed[rows][:, columns], rendered)]
        return np.concatenate([pair[0], np.full((len(pair[0]), 4, 3), 255, np.uint8), pair[1]], 1)

    def _set_opacity(self) -> None:
        opacity = self._opacity.value
        for mesh in (actor.mesh for actor in self.actors.values() if hasattr(actor.mesh, "opacity")):
            mesh.opacity = None if opacity == 1 else opacity

    def serve(self) -> None:
        """Serve until Ctrl-C."""
        while True:
            time.sleep(TICK)
            if self._playing:
                self.tick(TICK)

    def tick(self, seconds: float) -> None:
        """Advance by some seconds; the first frame follows the last."""
        fps, frames = self.content.scene.timing.fps, self.content.frames
        clock = (self._clock + seconds * float(self._speed.value)) % (frames / fps)
        frame = min(int(clock * fps + 1e-6), frames - 1)
        if frame != self.frame.value:
            self.frame.value = frame  # also shows it and resets the clock
        self._clock = clock

    def stop(self) -> None:
        """Stop the server."""
        stop_server(self._server)

    @property
    def tunnel(self) -> str:
        """SSH command that forwards the port to another machine."""
        return tunnel_command(self.port)


def _reduced(camera: Camera) -> Camera:
    """The camera with at most `MAX_IMAGE` pixels each way."""
    factor = min(1.0, MAX_IMAGE / max(camera.width, camera.height))
    return camera.resized(max(1, round(camera.width * factor)), max(1, round(camera.height * factor)))


def _detached(surface: Surface) -> Surface:
    return Surface(surface.vertices.detach(), surface.parts)


def _enlarged(image: np.ndarray, width: int) -> np.ndarray:
    """An image enlarged by a whole factor to about this width [px]."""
    times = max(1, width // image.shape[1])
    return image.repeat(times, 0).repeat(times, 1)


def _switch(gui, name: str, nodes: list) -> None:
    """A checkbox that shows and hides nodes."""
    box = gui.add_checkbox(name, True)

    def flip(_) -> None:
        for node in nodes:
            node.visible = box.value

    box.on_update(flip)
