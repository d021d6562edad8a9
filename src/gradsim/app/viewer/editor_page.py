"""`gradsim new --view`: the page on which a first scene is moved over its clip until outlines lie on the image.

The page is made by viser (extra `viewer`). It only calls `SceneEditor`: each gizmo, number and button is one of its methods, and
what that refuses is said on the page while the scene stays as it was. All clients see the same scene.
"""

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from gradsim.app.viewer.first_scene_file import write_scene
from gradsim.app.viewer.scene_editor import CAMERA, GROUND, MOTION, SCALE, SceneEditor
from gradsim.app.viewer.server import address, start_server, stop_server, tunnel_command
from gradsim.errors import InputError
from gradsim.identification.scene_refinement import DEFAULT_PARTS, FRAMES, PARTS, STRING
from gradsim.numerics import rotation
from gradsim.scene.body import Pendulum
from gradsim.visualization.viser_scene import Frustum, Stage, add_grounds, stand_back

TICK = 0.2  # [s] between looks at Ctrl-C
MAX_IMAGE = 640  # [px] largest side of the image of the frustum
OPACITY = 0.35  # of the body, through which the clip is seen
FOV = 0.9  # [rad] of the free view
VIEWPOINT_DELAY = 1.0  # [s] after which a viewpoint that was moved to the camera has arrived
MAX_VIEWPOINT_OFFSET = 0.01  # of the distance, that a viewpoint may be off the camera
MAX_VIEWPOINT_ANGLE = 0.01  # [rad] that it may be turned
SHIFT = 0.4  # of the free view, to the left of the panel
GROUND_EXTENT = np.array([8.0, 0.0, 0.0])  # sizes of the body, that the ground is drawn over
GIZMO = 0.6  # length of gizmos over the body's extent, or over a fifth of the distance where that is more
HELP_TEXT = "Drag the gizmos until the outlines lie on the image. Two clicks in the image mark two points."
SET_BY = {"all lengths": SCALE, "the place of the camera": CAMERA}  # that a known distance changes
PLANES = {"the plane of the motion": MOTION, "the ground": GROUND}
NUMBERS = {  # fields: label, unit, property, method
    "size": ("size of the body [m]", "size", "set_size"),
    "height": ("height of the camera [m]", "height", "set_height"),
    "distance": ("distance [m]", "distance", "set_camera_distance"),
    "fov": ("vertical field of view [°]", "field_of_view", "set_field_of_view"),
    "ground": ("height of the ground [m]", "ground_height", "move_ground"),
}
ANGLES = ("pan", "tilt", "roll")


class EditorPage:
    """Server of a page that edits a first scene.

    Attributes:
        url: Address of the page.
        editor: The scene as it is now.
        message: Markdown at the top: the result of the last action, or why it was refused.
        written: Summary of what the page wrote; empty before.
        points: Pixels of the last two clicks.
    """

    def __init__(self, editor: SceneEditor, out: Path, host: str = "127.0.0.1", port: int = 8080):
        """Start the server.

        Args:
            editor: The scene over its clip.
            out: Scene file that the page proposes to write.
            host: Address to listen at; 0.0.0.0 for access from other machines.
            port: Port to listen at; the next free one if it is in use.

        Raises:
            InputError: If viser is not installed, this machine has no such address or port, or the scene cannot be simulated.
        """
        self.editor, self.written, self.points = editor, "", []
        self._lock, self._quiet = threading.RLock(), False
        self._through, self._placed, self._aspect = True, 0.0, 16 / 9
        editor.picture(0)
        self._server, guard = start_server(host, port)
        self.port = self._server.get_port()
        self.url = address(host, self.port, guard.token)
        self._add_panel(out)
        self._add_scene()
        self._server.on_client_connect(self._welcome)
        problem = editor.clip.problem
        self._show(f"**No region was found**: {problem} Place the body by hand." if problem else HELP_TEXT)

    def _add_panel(self, out: Path) -> None:
        gui, last = self._server.gui, len(self.editor.clip.video.frames) - 1
        gui.configure_theme(show_share_button=False, show_logo=False)
        gui.set_panel_label(self.editor.clip.path.name)
        self.message = gui.add_markdown(HELP_TEXT)
        regions = self.editor.clip.regions
        first = 0 if regions is None else int(regions.frames[0])
        self.frame = gui.add_slider("frame", 0, max(last, 1), 1, first)
        self.frame.on_update(lambda _: self._quietly(self._show))
        self.look, self.free = gui.add_button("Look through the camera"), gui.add_button("Free view")
        self.look.on_click(lambda event: self.look_through(True, event.client))
        self.free.on_click(lambda event: self.look_through(False, event.client))
        with gui.add_folder("numbers"):
            self.numbers = {}
            for key, (label, quantity, method) in NUMBERS.items():
                value = getattr(self.editor, quantity)
                if value is not None:
                    self.numbers[key] = gui.add_number(label, round(value, 4), step=1e-4)
                    self._on_number(self.numbers[key], lambda editor, x, method=method: getattr(editor, method)(x))
            self.angles = {name: gui.add_number(f"{name} by [°]", 0.0, step=0.1) for name in ANGLES}
            for name, field in self.angles.items():
                self._on_number(field, lambda editor, x, name=name: editor.turn_camera(**{name: x}))
        with gui.add_folder("known distance"):
            self.clicked = gui.add_text("two clicks", "", disabled=True)
            self.meters = gui.add_number("apart [m]", 1.0, min=0.0, step=1e-3)
            self.plane = gui.add_dropdown("both are on", tuple(PLANES))
            self.changes = gui.add_dropdown("it sets", tuple(SET_BY))
            self.apply = gui.add_button("Set the distance")
            self.apply.on_click(lambda _: self._quietly(self._set_distance))
        with gui.add_folder("refine"):
            pendulum = isinstance(self.editor.body, Pendulum)
            parts = [part for part in PARTS if pendulum or part != STRING]
            chosen = [part for part in DEFAULT_PARTS if part not in self.editor.known]
            self.parts = {part: gui.add_checkbox(part, part in chosen) for part in parts}
            self.frames = gui.add_number("frames", min(FRAMES, last + 1), min=1, max=last + 1, step=1)
            self.refine = gui.add_button("Refine")
            self.refine.on_click(lambda _: self._quietly(self._refine))
        self.out = gui.add_text("scene file", str(out))
        self.write = gui.add_button("Write")
        self.write.on_click(lambda _: self._quietly(self._write))

    def _on_number(self, field, change: Callable[[SceneEditor, float], SceneEditor]) -> None:
        field.on_update(
            lambda _: self._quietly(lambda: self._change(lambda editor: change(editor, float(field.value))))
        )

    def _add_scene(self) -> None:
        place, editor = self._server.scene, self.editor
        place.set_up_direction("+z")
        scale = max(GIZMO * editor.size, editor.distance / 10)
        gizmo = lambda name, **options: place.add_transform_controls(
            f"/gizmos/{name}", scale, depth_test=False, **options
        )
        pendulum = isinstance(editor.body, Pendulum)
        self.gizmos = {"body": gizmo("body", disable_rotations=pendulum), "camera": gizmo("camera")}
        self.gizmos |= {"pivot": gizmo("pivot", disable_rotations=True)} if pendulum else {}
        if editor.ground_height is not None:
            upright = {"active_axes": (False, False, True), "disable_rotations": True, "disable_sliders": True}
            self.gizmos["ground"] = gizmo("ground", **upright)
        for name, node in self.gizmos.items():
            node.on_update(lambda event, name=name: self._dragged(name, getattr(event, "phase", "end")))
        stage = Stage.of(editor.surface(0), editor.camera)
        self._server.initial_camera.fov = FOV
        frustum = Frustum(place, "/frustum", editor.camera, stage, MAX_IMAGE)
        stand_back(self._server.initial_camera, stage, [frustum], SHIFT)
        frustum.node.remove()
        if hasattr(place, "on_click"):
            place.on_click()(self.click)
        else:  # before viser 1.1
            place.on_pointer_event("click")(self.click)

    def _quietly(self, action: Callable[[], None]) -> None:
        """Run an action of a client; fields that it sets start no further actions."""
        with self._lock:
            if self._quiet:
                return
            self._quiet = True
            try:
                action()
            except (InputError, ValueError, ArithmeticError) as error:
                self._show(f"**Not done**: {error}")
            finally:
                self._quiet = False

    def _change(self, change: Callable[[SceneEditor], SceneEditor]) -> None:
        """Change the scene, unless the changed one cannot be drawn."""
        changed = change(self.editor)
        changed.picture(int(self.frame.value))
        self.editor = changed
        self._show(next(reversed([f"{part}: {source}" for part, source in changed.sources.items()])))

    def _dragged(self, name: str, phase: str) -> None:
        if phase != "end":
            return
        node, frame = self.gizmos[name], int(self.frame.value)
        position = tuple(float(x) for x in node.position)
        w, x, y, z = (float(part) for part in node.wxyz)
        turned = torch.tensor([x, y, z, w], dtype=torch.float64)

        def follow(editor: SceneEditor) -> SceneEditor:
            if name == "pivot":
                return editor.move_pivot(position)
            if name == "ground":
                return editor.move_ground(position[2])
            if name == "camera":
                return editor.move_camera(position, _matrix(turned).T)
            rigid = not isinstance(editor.body, Pendulum)
            return editor.move_body(position, turned.tolist() if rigid and frame == 0 else None, frame)

        self._quietly(lambda: self._change(follow))

    def click(self, event) -> None:
        """Mark the pixel of a click; the last two count."""
        self._quietly(lambda: self._click(np.array(event.ray_origin), np.array(event.ray_direction)))

    def _click(self, origin: np.ndarray, direction: np.ndarray) -> None:
        camera = self.editor.camera
        if np.linalg.norm(origin - camera.centre.numpy()) > MAX_VIEWPOINT_OFFSET * self.editor.distance:
            raise InputError("points are clicked in the image: look through the camera first.")
        pixel, depth = camera.project(torch.as_tensor(camera.centre.numpy() + direction))
        if depth <= 0:
            raise InputError("the click is behind the camera; look through the camera first.")
        column, row = pixel.tolist()
        if not (0 <= column <= camera.width and 0 <= row <= camera.height):
            raise InputError("the click is outside the image.")
        self.points = [*self.points[-1:], (column, row)]
        self._show(
            "Click the second point." if len(self.points) < 2 else "Say how far apart the points are, and set it."
        )

    def _set_distance(self) -> None:
        if len(self.points) < 2:
            raise InputError("click two points in the image first.")
        (a, b), plane, changes = self.points, PLANES[self.plane.value], SET_BY[self.changes.value]
        self._change(lambda editor: editor.set_distance(a, b, float(self.meters.value), plane, changes))

    def _refine(self) -> None:
        parts = [part for part, box in self.parts.items() if box.value]
        self._change(lambda editor: editor.refine(parts, int(self.frames.value)))

    def _write(self) -> None:
        self.written = write_scene(self.editor, Path(self.out.value))
        lines = self.written.splitlines()
        self._show(f"Written: `{self.out.value}`. Next:\n\n`{lines[-1].removeprefix('next: ')}`")

    def _show(self, message: str | None = None) -> None:
        """Draw the scene as it is now, with a message."""
        editor, frame = self.editor, int(self.frame.value)
        image = self._with_points(editor.picture(frame))
        with self._server.atomic():
            if message is not None:
                self.message.content = message
            self.clicked.value = "  ".join(f"{x:.1f}, {y:.1f}" for x, y in self.points)
            for key, field in self.numbers.items():
                field.value = round(float(getattr(editor, NUMBERS[key][1])), 4)
            for field in self.angles.values():
                field.value = 0.0
            self._place_gizmos(frame)
            self._draw(image, frame)

    def _place_gizmos(self, frame: int) -> None:
        editor, centre = self.editor, self.editor.position(frame)
        places = {
            "body": (centre, editor.rotation(frame)),
            "camera": (editor.camera.centre.numpy(), editor.camera.R.T.numpy()),
        }
        if "pivot" in self.gizmos:
            places["pivot"] = np.array(editor.body.pivot), np.eye(3)
        if "ground" in self.gizmos:
            places["ground"] = np.array([centre[0], centre[1], editor.ground_height]), np.eye(3)
        for name, (position, R) in places.items():
            node = self.gizmos[name]
            node.position, node.wxyz = position, _wxyz(R)
            node.visible = name != "camera" or not self._through

    def _draw(self, image: np.ndarray, frame: int) -> None:
        """Body as a child of its gizmo, frustum with the image, and the image behind everything while looking through."""
        editor, place = self.editor, self._server.scene
        surface = editor.surface(frame)
        local = (surface.vertices[0, 0].numpy() - editor.position(frame)) @ editor.rotation(frame)
        faces = surface.faces.numpy().astype(np.uint32)
        place.add_mesh_simple(
            "/gizmos/body/mesh", local.astype(np.float32), faces, color=(70, 130, 220), opacity=OPACITY
        )
        frustum = Frustum(place, "/frustum", editor.camera, Stage.of(surface, editor.camera), MAX_IMAGE)
        frustum.node.visible = not self._through
        for node in add_grounds(
            place, editor.scene.grounds, Stage.of(surface, editor.camera).wider(GROUND_EXTENT * editor.size)
        ).values():
            node.visible = not self._through
        frustum.show(image)
        place.set_background_image(frustum.backdrop(image, self._aspect) if self._through else None, format="png")

    def _with_points(self, image: np.ndarray) -> np.ndarray:
        """The image with crosses at the clicked points."""
        from PIL import Image, ImageDraw

        canvas = Image.fromarray(image)
        draw, times = ImageDraw.Draw(canvas), image.shape[1] / self.editor.camera.width
        arm = max(4, image.shape[1] // 120)
        for x, y in ((times * x, times * y) for x, y in self.points):
            draw.line([x - arm, y, x + arm, y], fill=(250, 200, 0), width=2)
            draw.line([x, y - arm, x, y + arm], fill=(250, 200, 0), width=2)
        return np.asarray(canvas)

    def _welcome(self, client) -> None:
        """Put a new client at the camera, and follow its window."""
        client.camera.on_update(lambda _: self._followed(client))
        self.look_through(True, client)

    def look_through(self, on: bool, client=None) -> None:
        """Look through the scene's camera, or from aside; moves the viewpoint of a client."""
        with self._lock:
            self._through, self._placed = on, time.monotonic()
            if client is not None:
                with client.atomic():
                    self._place_viewpoint(client.camera, on)
            self._quietly(self._show)

    def _place_viewpoint(self, eye, on: bool) -> None:
        if not on:
            opening = self._server.initial_camera
            eye.up_direction, eye.position, eye.look_at, eye.fov = (0, 0, 1), opening.position, opening.look_at, FOV
            return
        camera = self.editor.camera
        x, y = camera.width / 2 / float(camera.K[0, 0]), camera.height / 2 / float(camera.K[1, 1])
        self._aspect = eye.aspect
        eye.wxyz, eye.position = _wxyz(camera.R.T.numpy()), camera.centre.numpy()
        eye.fov = 2 * math.atan(max(y, x / eye.aspect))  # a window narrower than the image shows its full width

    def _followed(self, client) -> None:
        """Hide the image behind everything once a client turns away from the camera; fit it to the window's shape."""
        eye, camera = client.camera, self.editor.camera
        if not self._through or time.monotonic() - self._placed < VIEWPOINT_DELAY:
            return
        off = np.linalg.norm(np.array(eye.position) - camera.centre.numpy()) / self.editor.distance
        w, x, y, z = (float(part) for part in eye.wxyz)
        ahead = _matrix(torch.tensor([x, y, z, w], dtype=torch.float64))[:, 2]
        if off > MAX_VIEWPOINT_OFFSET or math.acos(min(1.0, float(ahead @ camera.R[2].numpy()))) > MAX_VIEWPOINT_ANGLE:
            self.look_through(False)
        elif abs(eye.aspect - self._aspect) > 1e-3:
            self.look_through(True, client)

    def serve(self) -> None:
        """Serve until Ctrl-C."""
        while True:
            time.sleep(TICK)

    def stop(self) -> None:
        """Stop the server."""
        stop_server(self._server)

    @property
    def tunnel(self) -> str:
        """SSH command that forwards the port to another machine."""
        return tunnel_command(self.port)


def _wxyz(R: np.ndarray) -> np.ndarray:
    from viser.transforms import SO3

    return SO3.from_matrix(R).wxyz


def _matrix(quat_xyzw: torch.Tensor) -> np.ndarray:
    return rotation.to_matrix(quat_xyzw).numpy()
