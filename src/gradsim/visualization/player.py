"""3-D player of trajectories as one self-contained HTML page (a viser recording).

For synthetic data the truth is drawn to the right of the fit, as seen by the camera. Grounds are planes with grid lines,
and the frustum of the camera contains the video.
"""

import contextlib
import io
from pathlib import Path

import numpy as np

from gradsim.geometry.surface import Surface
from gradsim.render.camera import from_scene
from gradsim.runtime.atomic import atomic_path
from gradsim.video.aligned import AlignedFrames
from gradsim.visualization.viser_scene import FIT, TRUTH, Actor, Frustum, Stage, actors, add_grounds, stand_back

LIGHT = "darkMode:false"  # of viser's page
AS_THE_READER = 'darkMode:matchMedia("(prefers-color-scheme: dark)").matches'
FRUSTUM_PIXELS = 160  # [px] the video in the frustum is thinned to about this


def write_player(
    path: str | Path,
    scene,
    fitted: Surface,
    video: np.ndarray | AlignedFrames | None = None,
    truth: Surface | None = None,
    name: str = "fit",
) -> Path | None:
    """Write the page.

    Args:
        path: The file, .html.
        scene: Scene with camera, grounds and timing.
        fitted: Fitted trajectory, with or without obstacles; its first world is shown.
        video: Observed frames (frames, height, width, 3) uint8, or one at a time.
        truth: True trajectory, for synthetic data.
        name: Label of the fitted trajectory.

    Returns:
        The file; None if viser is not installed (`pip install "gradsim[viewer]"`).
    """
    try:
        import viser
    except ImportError:
        return None
    camera = from_scene(scene.camera) if scene.camera else None
    stage = Stage.of(fitted, camera, scene.grounds)
    offset = stage.right * (1.3 * stage.width if truth is not None else 0.0)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its address
        server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    try:
        place, wide = server.scene, stage.wider(offset)
        place.set_up_direction("+z")
        add_grounds(place, scene.grounds, wide)
        moving = list(_named(place, name, fitted, stage, np.zeros(3), FIT))
        moving += _named(place, "truth", truth, stage, offset, TRUTH) if truth is not None else []
        frusta = [Frustum(place, "/camera", camera, stage, FRUSTUM_PIXELS)] if camera else []
        stand_back(server.initial_camera, wide, frusta)
        recording = server.get_scene_serializer()
        for frame in range(fitted.vertices.shape[1]):
            for actor in moving:
                actor.show(frame)
            if video is not None:
                for frustum in frusta:
                    frustum.show(video[min(frame, len(video) - 1)])
            recording.insert_sleep(1 / scene.timing.fps)
        page = recording.as_html().replace(LIGHT, AS_THE_READER)
    finally:
        with contextlib.redirect_stdout(io.StringIO()):
            server.stop()
    path = Path(path)
    with atomic_path(path) as draft:
        draft.write_text(page, encoding="utf-8")
    return path


def _named(place, name: str, surface: Surface, stage: Stage, shift: np.ndarray, color) -> list[Actor]:
    """Actors of the moving parts of a labelled trajectory."""
    x, y, _ = stage.centre + shift
    place.add_label(f"/{name} label", name, position=(x, y, stage.high[2] + shift[2]), anchor="bottom-center")
    added = actors(place, name, surface, shift, path_color=color)
    return [actor for actor in added.values() if actor.moves]
