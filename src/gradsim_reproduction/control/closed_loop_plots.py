"""Plots of closed and open loops: all runs, success by the size of pushes, and a video of one run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from PIL import Image, ImageDraw
from torch import Tensor

from gradsim import video as videos
from gradsim.geometry.image_io import to_bytes
from gradsim.geometry.surface import Surface
from gradsim.render.camera import from_scene
from gradsim.render.shading.shading import Shading
from gradsim.visualization.frames import FrameRenderer, default_renderer
from gradsim.visualization.overlay_video import EDGE
from gradsim_reproduction.plotting import new_figure, write_figures

COLORS = {"open": "#64748b", "open, trained": "#b45309", "closed": "#15803d", "mpc": "#1d5fd0"}
NAMES = {
    "open": "open loop",
    "open, trained": "open loop, trained on disturbances",
    "closed": "feedback",
    "mpc": "planning (MPC)",
}
TIMES = 2  # the camera's image is enlarged in the video
MARKED = 8  # frames for which a push is labelled


def draw(
    folder: Path, paths: Mapping[str, Tensor], goal: Tensor, close: float, fps: float, by_kick: dict
) -> list[dict]:
    """Write the plots; returns their entries for `result.json`.

    Args:
        folder: Gets them.
        paths: Centres of mass (runs, frames, 3) [m] by controller.
        goal: Goal of the centre of mass (3,) [m].
        close: Within which it counts as reached [m].
        fps: Frames per second.
        by_kick: Success by the size of pushes, of controllers by name.
    """
    return write_figures(
        folder,
        {
            "closed_paths": (
                lambda: _paths(paths, goal, close, fps),
                "Walkers under disturbances",
                "Centre of mass of every run. Band: within 5 % of the way to the goal; runs that end there have a dot, others a cross.",
            ),
            "closed_kicks": (
                lambda: _kicks(by_kick),
                "Success by the size of pushes",
                "Masses vary by ± 20 %; trained at 1 m/s.",
            ),
        },
    )


def video(path: Path, scene, motions: Mapping[str, Any], goal: Any, kicks: Sequence[int]) -> dict:
    """Write one run of each controller, one over another, and the goal below; returns its entry for `result.json`.

    Args:
        path: Path of the video.
        scene: The scene.
        motions: Trajectories by controller.
        goal: One frame at the goal.
        kicks: Frames at which the body is pushed.
    """
    small = from_scene(scene.camera)
    camera = small.resized(TIMES * small.width, TIMES * small.height)
    still = _images(scene, camera, goal)
    edge = _outline(scene, camera, goal)
    rows = []
    for name, motion in motions.items():
        frames = [np.where(edge[..., None], EDGE, frame) for frame in _images(scene, camera, motion)]
        pushed = [any(k <= t < k + MARKED for k in kicks) for t in range(len(frames))]
        rows.append([_labelled(f, NAMES[name], "push" if now else "") for f, now in zip(frames, pushed, strict=True)])
    rows.append([_labelled(still[0], "goal", "")] * len(rows[0]))
    videos.write_preview(
        path, np.stack([np.concatenate(column) for column in zip(*rows, strict=True)]), scene.timing.fps
    )
    text = "The run in which the open loop is as near as in the median: the same mass and pushes for all, the goal outlined."
    return {"file": path.name, "title": "One run of each controller, and the goal", "caption": text}


def _paths(paths: Mapping[str, Tensor], goal: Tensor, close: float, fps: float) -> Figure:
    figure = new_figure(2.3 * len(paths) + 0.4, 2.6)
    for ax, (name, path) in zip(
        figure.subplots(1, len(paths), sharey=True, squeeze=False)[0], paths.items(), strict=True
    ):
        seconds, colour = np.arange(path.shape[1]) / fps, COLORS[name]
        reached = torch.linalg.vector_norm(path[:, -1] - goal, dim=1) < close
        ax.axhspan(goal[0] - close, goal[0] + close, color="#fde68a", lw=0)
        for x, good in zip(path[..., 0].numpy(), reached.tolist(), strict=True):
            ax.plot(seconds, x, color=colour, alpha=0.45, lw=0.8)
            ax.plot(seconds[-1], x[-1], "o" if good else "x", color=colour, ms=4, clip_on=False)
        ax.set_title(f"{NAMES[name]}\n{int(reached.sum())} of {len(path)}".replace(", ", ",\n"), fontsize=9)
        ax.set_xlabel("t [s]")
    figure.axes[0].set_ylabel("x of the centre of mass [m]")
    return figure


def _kicks(by_kick: dict) -> Figure:
    figure = new_figure(4.2, 3.4)
    ax = figure.subplots()
    for name in (name for name in COLORS if name in by_kick):
        ax.plot(by_kick["kick"], by_kick[name], "o-", color=COLORS[name], label=NAMES[name], clip_on=False)
    ax.set(xlabel="change of velocity by each push [m/s]", ylabel="share that reach the goal", ylim=(0, 1))
    figure.legend(loc="outside upper center", ncols=1)
    return figure


def _renderer(scene, camera, trajectory) -> FrameRenderer:
    looks = [part.appearance for part in trajectory.scene_surface.parts]
    return FrameRenderer(default_renderer(scene, looks), camera, Shading.of(scene, None), scene.background)


def _first_world(trajectory) -> Surface:
    return Surface(trajectory.scene_surface.vertices[:1].detach(), trajectory.scene_surface.parts)


def _images(scene, camera, trajectory) -> list[np.ndarray]:
    images = _renderer(scene, camera, trajectory).draw(_first_world(trajectory))
    return [to_bytes(image) for image in images]


def _outline(scene, camera, goal) -> np.ndarray:
    """Pixels (height, width) just outside the body at the goal."""
    (share,) = _renderer(scene, camera, goal).share(_first_world(goal), list(scene.bodies))
    inside = share.numpy() > 0.5
    grown = inside.copy()
    for axis, shift in ((0, 1), (0, -1), (1, 1), (1, -1)):
        grown |= np.roll(inside, shift, axis)
    return grown & ~inside


def _labelled(frame: np.ndarray, left: str, right: str) -> np.ndarray:
    image = Image.fromarray(frame)
    pen = ImageDraw.Draw(image)
    pen.text((4, 2), left, fill=(30, 30, 30))
    pen.text((image.width - 4, 2), right, fill=(190, 20, 20), anchor="ra")
    return np.asarray(image)
