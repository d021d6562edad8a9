"""Fit of one clip of one camera: can be interrupted and resumed."""

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from gradsim import video as videos
from gradsim.app.commands.fit_job import FitJob, require_starts, write_clip_videos, write_residual_video
from gradsim.app.job import FitArguments, open_scene
from gradsim.app.report.report import write_report
from gradsim.app.run_directory import RunDirectory
from gradsim.errors import Status
from gradsim.identification.api import solve
from gradsim.identification.engines.model import EngineModel
from gradsim.identification.engines.registry import chosen_engine
from gradsim.identification.estimators import estimator_named
from gradsim.identification.fit import SCHEMA, Fit
from gradsim.identification.observation.base import Masks, Observation
from gradsim.identification.observation.from_video import from_video, with_stamps
from gradsim.identification.observation.labelled_masks import LabelledMasks
from gradsim.identification.observation.observability import require_observable
from gradsim.identification.priors import priors_of
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.uncertainty.discretization import at_answer
from gradsim.identification.uncertainty.profile_likelihood import with_profiles
from gradsim.identification.unknowns import Space, Unknown
from gradsim.planning.quick import is_open, next_video
from gradsim.runtime.atomic import write_json
from gradsim.runtime.progress import CheckpointStore, Progress, progress_callback
from gradsim.runtime.provenance import versions
from gradsim.video.mask_faults import MaskFaults
from gradsim.visualization.mask_sheet import FILE, write_mask_sheet
from gradsim.visualization.player import write_player


class ClipFit(FitJob):
    """Fit of one clip.

    Args:
        arguments: Arguments of the command.
    """

    def __init__(self, arguments: FitArguments):
        self.arguments, scene = arguments, open_scene(arguments.scene)
        scene = scene if arguments.log is None else scene.with_log(arguments.log)
        self.scene = with_stamps(scene, arguments.video) if arguments.video else scene
        self.title = self.scene.name
        require_starts(arguments.starts)
        estimator_named(arguments.estimator)  # raises on an unknown name
        self.engine = chosen_engine(arguments.engine, arguments.estimator, arguments.observe)
        priors, self.unused = priors_of([self.scene], arguments.stated_priors)
        self.space = Space(self.scene, [Unknown.parse(text) for text in arguments.unknowns], priors=priors)
        self.observation = self.observe()

    @property
    def video_file(self) -> Path:
        """The video that is fitted; a fit of tracks alone has none."""
        assert self.arguments.video is not None
        return self.arguments.video

    def observe(self) -> Observation:
        """Read what is fitted."""
        arguments = self.arguments
        return from_video(
            self.scene,
            self.video_file,
            arguments.mask,
            arguments.noise,
            **arguments.video_options,
            outlines_by_default=True,
            textured=arguments.observe == "pictures",
        )

    def finished_result(self, directory):
        if not directory.is_finished:
            return None
        directory.require_same_inputs(self.arguments, self.scene)
        return directory.result()

    def build(self):
        model = EngineModel(self.scene, self.engine) if self.engine else model_for(self.scene, self.space)
        self.problem = Problem(model, self.observation.within(self.space.ranges), self.space)

    @contextlib.contextmanager
    def open(self, directory: RunDirectory, resume: bool) -> Iterator[CheckpointStore]:
        with directory.open(self.arguments, self.scene, resume) as checkpoint:
            self.scene.save(directory.path / "scene.yaml")
            if self.faults.words:
                write_mask_sheet(
                    directory.path / FILE,
                    videos.read_with_clock(self.video_file, self.scene.timing.fps).frames,
                    self.faults,
                )
            yield checkpoint

    def search(self, checkpoint: CheckpointStore, progress: Progress) -> Fit:
        saved = checkpoint.load("search")
        origin = f", on from {saved['history'][-1]['frames']} frames" if saved else ""
        frames = self.observation.frames
        for text in self.unused:
            progress.stage(text)
        if self.faults.words:
            progress.stage(f"{'; '.join(self.faults.words)}: see {FILE}")
        progress.stage(f"fitting {', '.join(self.space.names)} to {frames} frames{origin}")
        require_observable(self.problem.model, self.observation, self.space.values(self.space.low[None]))
        config = MultistartConfig(starts=self.arguments.starts)
        fit = solve(
            self.problem,
            config,
            self.arguments.seed,
            report=progress_callback(progress),
            stage=progress.stage,
            fraction=progress.fraction,
            checkpoint=checkpoint,
            estimator=self.arguments.estimator,
            known_numbers=self.arguments.known_numbers,
            discrepancy=self.arguments.discrepancy,
        )
        fit = replace(fit, notes=[*fit.notes, *self.unused])
        self.problem = at_answer(self.problem, fit.discretization)
        if self.arguments.profile and fit.status != Status.FAILED:
            progress.stage("profile likelihood of the two weakest directions")
            fit = with_profiles(fit, self.problem)
        return self.with_next_video(fit, progress)

    def with_next_video(self, fit: Fit, progress: Progress) -> Fit:
        """The fit with the one change of a next video that would tell most of what it leaves open."""
        if self.engine or not (self.arguments.plan and is_open(fit)):
            return fit
        progress.stage("what to film next")
        change = next_video(self.scene, fit, self.arguments.stated_priors)
        return fit if change is None else replace(fit, next_video=change.result())

    def write_videos(self, folder: Path, fit: Fit) -> dict:
        values = parameter_values(self.scene, fit.values)
        with torch.no_grad():
            fitted = self.problem.model.rollout(values, frames=self.observation.frames)
        arguments = self.arguments
        observed, mask = write_clip_videos(folder, self.scene, fitted, self.video_file, arguments.frames)
        assert isinstance(self.observation, Masks | LabelledMasks)  # of one camera: what `observe` reads from a video
        write_residual_video(folder, self.observation, fitted, mask, self.scene.timing.fps)
        write_player(folder / "player.html", self.scene, fitted.scene_surface, observed)
        return {"video": RunDirectory(folder).recorded_argument("video")} | self._mask_image()

    @property
    def faults(self) -> MaskFaults:
        """Masks that cannot be right; none where each color has its own mask."""
        return getattr(self.observation, "mask_faults", None) or MaskFaults({}, {})

    def _mask_image(self) -> dict:
        """Entry of result.json for the picture of masks that cannot be right."""
        if not self.faults.words:
            return {}
        caption = f"{'; '.join(self.faults.words)}. Pink: the outline of the mask. Try {self.faults.advice}."
        return {"images": [{"file": FILE, "title": "Masks that cannot be right", "caption": caption}]}

    def write_interrupted(self, folder: Path, checkpoint: CheckpointStore) -> dict:
        """Write result.json (status "interrupted"), history.json and report.html from the last checkpoint.

        Returns:
            Content of result.json: the values of the best start so far, without error bars.
        """
        state = checkpoint.load("search") or {}
        stages = state.get("history", [])
        effort = (checkpoint.load("sample") or state).get("effort", {})
        write_json(folder / "history.json", {"stages": stages, "starts": {}})
        result = {
            "schema": SCHEMA,
            "command": self.command,
            "title": self.title,
            "video": RunDirectory(folder).recorded_argument("video"),
            "status": Status.INTERRUPTED,
            "resume": f"gradsim fit --resume {shlex.quote(str(folder))}",
            "unknowns": _without_errors(self.space, stages[-1]["values"] if stages else {}),
            "stages": len(stages),
            "iterations": stages[-1]["iteration"] if stages else 0,
            **{key: effort.get(key, 0) for key in ("rollouts", "cpu_seconds", "wall_seconds")},
            "seed": self.arguments.seed,
            "versions": versions(),
        }
        write_json(folder / "result.json", result)
        write_report(folder)
        return result


def _without_errors(space: Space, values: dict[str, float]) -> dict[str, dict]:
    """Unknowns of result.json before their error bars are known."""
    unknowns = {}
    for k, (name, unit) in enumerate(zip(space.names, space.units, strict=True)):
        low, high = space.range(k)
        unknowns[name] = {
            "value": values.get(name),
            "std": None,
            "interval95": None,
            "identifiable": False,
            "truth": None,
            "unit": unit,
            "low": low,
            "high": high,
        }
    return unknowns
