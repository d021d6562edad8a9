"""The command `gradsim track`. Imports nothing heavy."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, UseAppendAction, arg

from gradsim.app.cli.command import DONE, Command, flatten, working


@dataclass(kw_only=True)
class Track(Command):
    """Track points of a video by their texture, with the noise and the drift of each position, for `gradsim fit --tracks`.

    Needs the extra `capture`. The points are stated (--points), chosen by their texture (--auto), or the markers of a scene at its start.
    """

    video: Annotated[Positional[Path], arg(metavar="VIDEO")]
    """Video: mp4, webm, gif or a folder of png."""
    points: Annotated[
        UseAppendAction[list[list[str]]],
        arg(metavar="NAME=U,V ...", help_behavior_hint="(default: the markers of --scene)"),
    ] = field(default_factory=list)
    """Points in the first frame in px, (0.5, 0.5) in the middle of the first pixel; named as the markers of the scene."""
    auto: Annotated[int | None, arg(metavar="N", help_behavior_hint="(in place of --points)")] = None
    """Choose up to N points by their texture; with --scene, those on its bodies, which become markers of DIR/scene.yaml."""
    region: Annotated[str, arg(metavar="X,Y,W,H", help_behavior_hint="(default: the image)")] = ""
    """Rectangle in px from which --auto chooses."""
    scene: Annotated[Path | None, arg(metavar="SCENE", help_behavior_hint="(default: none)")] = None
    """Scene whose markers are tracked from where they are at its start."""
    frame: Annotated[int, arg(metavar="K")] = 0
    """First frame."""
    click: Annotated[float, arg(metavar="PX")] = 0.5
    """Standard deviation of the places of --points. With --scene, priors of its markers of these names, in DIR/scene.yaml; else a part of `drift`."""
    radius: Annotated[int, arg(metavar="PX")] = 8
    """Patches are squares of 2 PX + 1; larger ones for little texture, smaller ones for small or curved bodies."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("runs/track")
    """Output folder for tracks.csv and overlay.webm."""

    def run(self, out, err):
        from gradsim.app.commands.tracking.track import TrackOptions, track_video

        names = ("auto", "region", "scene", "frame", "radius", "click")
        options = TrackOptions(points=tuple(flatten(self.points)), **{name: getattr(self, name) for name in names})
        with working(err) as progress:
            text = track_video(self.video, self.out, options, progress)
        out.print(text, highlight=False, soft_wrap=True, markup=False)
        out.print(f"tracks: {self.out / 'tracks.csv'}", highlight=False, soft_wrap=True, markup=False)
        return DONE
