"""The motion in three dimensions, on a page that plays it and needs nothing else (viser's recordings as one file).

The fit moves where the scene has it; for made-up data the truth moves beside it, to the right as the camera sees it.
Obstacles stand where they are, grounds are planes with grid lines, and the camera has the film in its picture.
"""

import contextlib
import io
from pathlib import Path

import numpy as np

from gradsim.geometry.surface import Surface
from gradsim.render.camera import from_scene
from gradsim.runtime.atomic import atomic_path
from gradsim.visualization.viser_scene import FIT, TRUTH, Actor, Frustum, Stage, actors, add_grounds, stand_back

SMALL = 160  # [px] the film in the camera's picture is thinned to about this


def write_player(
    path: str | Path,
    scene,
    fitted: Surface,
    film: np.ndarray | None = None,
    truth: Surface | None = None,
    name: str = "fit",
) -> Path | None:
    """Write the page.

    Args:
        path: Ends in .html.
        scene: Its camera, grounds and clock.
        fitted: The motion that was found, with or without obstacles; its first world is shown.
        film: What was observed (frames, height, width, 3) uint8.
        truth: The true motion, for made-up data.
        name: Of the motion, above it.

    Returns:
        The page; None where viser is not installed (`pip install "gradsim[viewer]"`).
    """
    try:
        import viser
    except ImportError:
        return None
    camera = from_scene(scene.camera) if scene.camera else None
    stage = Stage.of(fitted, camera, scene.grounds)
    beside = stage.right * (1.3 * stage.width if truth is not None else 0.0)
    with contextlib.redirect_stdout(io.StringIO()):  # it says where it listens, which nobody needs
        server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    try:
        place, wide = server.scene, stage.wider(beside)
        place.set_up_direction("+z")
        add_grounds(place, scene.grounds, wide)
        moving = list(_named(place, name, fitted, stage, np.zeros(3), FIT))
        moving += _named(place, "truth", truth, stage, beside, TRUTH) if truth is not None else []
        frusta = [Frustum(place, "/camera", camera, stage, SMALL)] if camera else []
        stand_back(server.initial_camera, wide, frusta)
        recording = server.get_scene_serializer()
        for frame in range(fitted.vertices.shape[1]):
            for actor in moving:
                actor.show(frame)
            if film is not None:
                for frustum in frusta:
                    frustum.show(film[min(frame, len(film) - 1)])
            recording.insert_sleep(1 / scene.timing.fps)
        page = recording.as_html()
    finally:
        with contextlib.redirect_stdout(io.StringIO()):
            server.stop()
    path = Path(path)
    with atomic_path(path) as draft:
        draft.write_text(page, encoding="utf-8")
    return path


def _named(place, name: str, surface: Surface, stage: Stage, shift: np.ndarray, colour) -> list[Actor]:
    """A motion with its name above it: of its parts, those that move."""
    x, y, _ = stage.centre + shift
    place.add_label(f"/{name} label", name, position=(x, y, stage.high[2] + shift[2]), anchor="bottom-center")
    found = actors(place, name, surface, shift, path_colour=colour)
    return [actor for actor in found.values() if actor.moves]
