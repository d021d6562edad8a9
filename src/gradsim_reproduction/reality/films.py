"""Films of predictions over recordings: lines in a parallel projection, a panel for each run, as GIF."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageColor, ImageDraw

from gradsim.video.write import write_preview
from gradsim_reproduction.plotting import DATA, FIT, GREY

PANEL = (320, 240)  # [px]
COLUMNS = 2
MARGIN, TITLE = 14, 18  # [px] free at the edges, and above
CORNERS = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
EDGES = [(i, j) for i in range(8) for j in range(i) if np.abs(CORNERS[i] - CORNERS[j]).sum() == 1]


@dataclass(frozen=True, eq=False)
class Clip:
    """A run of a film.

    Args:
        title: Title of its panel.
        recorded: Lines (frames, lines, points, 3) [m].
        predicted: The same of the prediction, as many frames.
        view: Azimuth and elevation from which they are seen [rad].
        floor: Height of a plane whose horizon is drawn [m]; None: none.
    """

    title: str
    recorded: np.ndarray
    predicted: np.ndarray
    view: tuple[float, float] = (-np.pi / 2, 0.15)
    floor: float | None = None

    def projected(self, lines: np.ndarray) -> np.ndarray:
        """Points (..., 2) of lines (..., 3) along the view: to the right and up [m]."""
        azimuth, elevation = self.view
        right = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
        up = np.array([-np.sin(elevation) * np.cos(azimuth), -np.sin(elevation) * np.sin(azimuth), np.cos(elevation)])
        return np.stack([lines @ right, lines @ up], -1)


def box_edges(x: np.ndarray, turns: np.ndarray, size: Sequence[float]) -> np.ndarray:
    """Edges (frames, 12, 2, 3) of a box of some size at positions x (frames, 3) with rotation matrices (frames, 3, 3)."""
    corners = np.einsum("tij,cj->tci", turns, CORNERS * np.asarray(size)) + x[:, None]
    return np.stack([corners[:, [i, j]] for i, j in EDGES], 1)


def write_film(path: Path, clips: Sequence[Clip], fps: float, title: str, caption: str) -> dict[str, str]:
    """Write a film of several runs at once; a shorter one stays at its last frame.

    Args:
        path: A .gif file.
        clips: The runs.
        fps: Frames per second, of the film.
        title, caption: Of the film on the page.

    Returns:
        File, title and caption, as `result.json` lists images.
    """
    rows = -(-len(clips) // COLUMNS)
    frames = []
    for k in range(max(len(clip.recorded) for clip in clips)):
        sheet = Image.new("RGB", (PANEL[0] * min(COLUMNS, len(clips)), PANEL[1] * rows), "white")
        for j, clip in enumerate(clips):
            sheet.paste(
                _panel(clip, min(k, len(clip.recorded) - 1)), (PANEL[0] * (j % COLUMNS), PANEL[1] * (j // COLUMNS))
            )
        frames.append(np.asarray(sheet))
    write_preview(path, np.stack(frames), fps)
    return {"file": path.name, "title": title, "caption": caption}


def _panel(clip: Clip, frame: int) -> Image.Image:
    image = Image.new("RGB", PANEL, "white")
    pen = ImageDraw.Draw(image)
    both = clip.projected(np.concatenate([clip.recorded.reshape(-1, 3), clip.predicted.reshape(-1, 3)]))
    both = both[np.isfinite(both).all(1)]
    low, high = both.min(0), both.max(0)
    if clip.floor is not None:
        low[1] = min(low[1], clip.projected(np.array([0.0, 0.0, clip.floor]))[1])
    room = np.array([PANEL[0] - 2 * MARGIN, PANEL[1] - 2 * MARGIN - TITLE])
    scale = float((room / np.clip(high - low, 1e-9, None)).min())
    middle = (low + high) / 2
    place = lambda y: np.array([PANEL[0] / 2, (PANEL[1] + TITLE) / 2]) + scale * (y - middle) * [1, -1]
    if clip.floor is not None and clip.view[1] == 0:
        height = place(clip.projected(np.array([0.0, 0.0, clip.floor])))[1]
        pen.line([0, height, PANEL[0], height], fill=ImageColor.getrgb(GREY), width=1)
    for lines, color, width in ((clip.recorded, DATA, 4), (clip.predicted, FIT, 2)):
        for points in place(clip.projected(lines[frame])):
            if np.isfinite(points).all():
                pen.line([tuple(p) for p in points.tolist()], fill=ImageColor.getrgb(color), width=width)
                if len(points) == 1:
                    (x, y), r = points[0].tolist(), 2.0 * width
                    pen.ellipse([x - r, y - r, x + r, y + r], outline=ImageColor.getrgb(color), width=2)
    pen.text((MARGIN, 4), clip.title, fill=ImageColor.getrgb(GREY))
    return image
