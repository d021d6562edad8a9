"""The command `gradsim plan`. Imports nothing heavy."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, UseAppendAction, arg

from gradsim.app.cli.command import DONE, ThreadedCommand, flatten, working
from gradsim.errors import InputError


@dataclass(kw_only=True)
class Plan(ThreadedCommand):
    """Find what to film next, so that it tells most about what is wanted: camera, clock, start, push, or a number to measure."""

    subject: Annotated[Positional[Path], arg(metavar="SCENE|RUN")]
    """Scene file (YAML), name of a library scene, or folder made by `gradsim fit`: its scene, unknowns and noise, about its answer."""
    want: Annotated[UseAppendAction[list[list[str]]], arg(metavar="NAME[:ACCURACY] ...")]
    """Unknown that is wanted, with the standard deviation that is enough: ground.friction:5% or ground.friction:0.02; repeatable."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("runs/plan")
    """Output folder for result.json, report.html, films and plots."""
    choose: Annotated[
        UseAppendAction[list[list[str]]],
        arg(metavar="NAME=LOW:HIGH|A,B[@COST] ...", help_behavior_hint="(default: none)"),
    ] = field(default_factory=list)
    """Number that can be chosen: of the scene (body.velocity.x=0:3), timing.fps=30,60, timing.frames, camera.size, camera.position, camera.azimuth, camera.elevation, camera.distance, camera.second=none,side,above, or a push BODY.push.x; @COST of a change. Repeatable."""
    weigh: Annotated[
        UseAppendAction[list[list[str]]], arg(metavar="NAME±SD[@COST] ...", help_behavior_hint="(default: none)")
    ] = field(default_factory=list)
    """Unknown that can be measured besides, by a scale or a ruler: cube.mass±0.001 or cube.mass±1%; repeatable."""
    mark: Annotated[
        UseAppendAction[list[list[str]]],
        arg(metavar="BODY:X,Y,Z±PX[@COST] ...", help_behavior_hint="(default: none)"),
    ] = field(default_factory=list)
    """Marker that could be put on a rigid body and tracked besides the masks: place from its center in m, noise in px; repeatable."""
    unknown: Annotated[
        UseAppendAction[list[list[str]]],
        arg(metavar="NAME[:LOW:HIGH] ...", help_behavior_hint="(default: those of the run; what is wanted)"),
    ] = field(default_factory=list)
    """All that a fit would solve for; repeatable."""
    prior: Annotated[
        UseAppendAction[list[list[str]]],
        arg(metavar="NAME=MEAN±SD|FILE ...", help_behavior_hint="(default: those of run and scene)"),
    ] = field(default_factory=list)
    """Number that is known with an uncertainty, as for `gradsim fit`."""
    after: Annotated[Path | None, arg(metavar="RUN", help_behavior_hint="(default: none)")] = None
    """Folder of a fit whose information counts: the next film, given what that one tells."""
    among: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: none)")] = None
    """Folder of recordings, scene files or folders with a scene.yaml: which of them to fit first; in place of --choose."""
    batch: Annotated[int, arg(metavar="K")] = 1
    """Number of films, chosen one after the other."""
    noise: Annotated[
        str | None, arg(metavar="SIGMA|auto[:PX]", help_behavior_hint="(default: that of the run, or 1/255)")
    ] = None
    """Standard deviation of a pixel's noise, for pixels in [0, 1]; auto: outlines are off, by 0.15 px or by PX."""
    criterion: Literal["sd", "A", "D"] = "sd"
    """What a good design makes small: the largest standard deviation of what is wanted (over its accuracy), their sum of squares, or the determinant."""
    budget: Annotated[float, arg(metavar="COST", help_behavior_hint="(default: unlimited)")] = math.inf
    """Largest cost of a design."""
    map: Annotated[tuple[str, ...], arg(metavar="NAME NAME", help_behavior_hint="(default: the first two)")] = ()
    """Two choices over which a map is drawn."""
    samples: int = 8
    """Samples of the unknowns at which designs are judged."""
    seed: int = 0
    """Seed of samples and designs."""
    json: bool = False
    """Print result.json instead of text."""

    def run(self, out, err):
        from gradsim.app.plan_run import write_plan

        if self.map and len(self.map) != 2:
            raise InputError(f"--map has {len(self.map)} names; expected two, such as --map camera.azimuth timing.fps.")
        names = ("out", "after", "among", "batch", "noise", "criterion", "budget", "samples", "seed")
        options = {name: getattr(self, name) for name in names}
        lists = {name: flatten(getattr(self, name)) for name in ("want", "choose", "weigh", "mark", "unknown", "prior")}
        with working(err) as progress:
            result = write_plan(self.subject, **lists, **options, plane=self.map, progress=progress)
        if self.json:
            print(json.dumps(result, indent=1))
        else:
            from gradsim.app.cli.console import show_plan

            show_plan(out, result["plan"])
            out.print(f"report: {(self.out / 'report.html').resolve()}", highlight=False, soft_wrap=True, markup=False)
        return DONE
