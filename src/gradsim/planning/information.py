"""Expected information of a film: its Fisher matrix at samples of the unknowns, and the covariance it would leave.

    F = Σ Jᵀ Σ⁻¹ J over the frames and cameras of the film,      C = (F + P)⁻¹

with J from forward sensitivities and the noise of `noise`. P has priors and ranges, so C is what is known after the film (Bayesian
linear design: Chaloner, Verdinelli 1995); the rows of C of what is wanted have all else integrated out, which is the Schur complement of F + P.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.observation.points import Points
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.uncertainty.expected_outline import expected_information
from gradsim.identification.uncertainty.fisher import secant_fisher
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory
from gradsim.planning.noise import VideoNoise, observation_of
from gradsim.planning.question import Marking, Question
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim.scene.interactions import Marker

MARK = "mark"  # name of a marker in a scene of its own
ROUNDING = 1e-12  # eigenvalue over the largest below which information is rounding


@dataclass
class Recording:
    """A film that could be made.

    Args:
        problem: Its model and cameras.
        places: Samples of the unknowns in it (samples, unknowns): what the design sets has moved with the design.
    """

    problem: Problem
    places: Tensor

    def trajectory(self, u: Tensor) -> Trajectory:
        """Motion at one place (unknowns,) of the unknowns."""
        problem, space = self.problem, self.problem.space
        assert isinstance(space, Space)  # of one scene
        with torch.no_grad():
            return problem.model.rollout_unchecked(problem.model.values(space.values(u[None])), problem.frames)

    def fisher(self) -> Tensor:
        """F (samples, unknowns, unknowns) from tangents; 0 where a rollout diverges."""
        _, A, _ = self.problem.linearize(self.places, self.problem.frames)
        A = A - self.problem.prior_precision
        return torch.where(torch.isfinite(A).flatten(1).all(1)[:, None, None], A, 0.0)

    def marked(self, marking: Marking) -> Tensor:
        """F (samples, unknowns, unknowns) of the track of a marker by all cameras, tangents alone."""
        scene, frames = self.problem.model.scene, self.problem.frames
        marker = {MARK: Marker(body=marking.body, point=marking.point)}
        model = Model(scene.model_copy(update={"markers": marker}), substeps=self.problem.model.substeps)
        total = torch.zeros(len(self.places), len(self.problem.space), len(self.problem.space)).double()
        for name in scene.views:
            blank = torch.zeros(frames, 1, 2).double()
            points = Points(marker, blank, marking.sd, Silhouettes.of(scene, name))
            tracked = self.problem.with_observation(points)
            tracked.model = model
            _, A, _ = tracked.linearize(self.places, frames)
            A = A - self.problem.prior_precision
            total += torch.where(torch.isfinite(A).flatten(1).all(1)[:, None, None], A, 0.0)
        return total

    def secants(self, fisher: Tensor) -> tuple[Tensor, Tensor]:
        """F from secants as wide as the error bars where contact kinks the likelihood, and whether it does (samples,)."""
        P, parts = self.problem.prior_precision, []
        for u, F in zip(self.places, fisher, strict=True):
            wide, kinked = secant_fisher(self.problem, u, F + P)
            parts.append((wide - P, kinked))
        matrices, flags = zip(*parts, strict=True)
        return torch.stack(matrices), torch.tensor(flags)

    def outlines(self, noise: VideoNoise) -> Tensor:
        """F (samples, unknowns, unknowns) of masks whose outlines are off."""
        assert noise.outline is not None  # the caller has looked
        size, total = (
            noise.outline,
            torch.zeros(len(self.places), len(self.problem.space), len(self.problem.space)).double(),
        )
        for part in self.problem.observation.parts.values():
            problem = self.problem.with_observation(part)
            for k, u in enumerate(self.places):
                total[k] += expected_information(problem, u, size.size, size.shift, size.correlation)
        return torch.where(torch.isfinite(total).flatten(1).all(1)[:, None, None], total, 0.0)


def recording_of(question: Question, scene: Scene, noise: VideoNoise, steps_per_second: float) -> Recording:
    """The film of another scene with the same unknowns.

    Args:
        question: Unknowns and samples.
        scene: The scene of the film.
        noise: Its noise.
        steps_per_second: Least rate of time steps, where the scene leaves them open.

    Raises:
        InputError: If nothing in the scene depends on an unknown.
    """
    space = Space(scene, question.space.unknowns[: _stated(question.space)], priors=question.space.priors)
    substeps = None
    if scene.timing.substeps == "auto":
        substeps = max(1, math.ceil(steps_per_second / scene.timing.fps - 1e-9))
    model = Model(scene, substeps=substeps)
    shift = _shift(question, space)
    places = question.places + shift
    space.low, space.high, space.prior_mean = space.low + shift, space.high + shift, space.prior_mean + shift
    if substeps is not None:
        needed = model.recommended_substeps(model.values(space.values(places)))
        model = model.with_substeps(needed) if needed > substeps else model
    return Recording(Problem(model, observation_of(scene, noise), space), places)


def _stated(space: Space) -> int:
    """Number of unknowns that are not made by priors alone."""
    return sum(space.is_drawn(k) for k in range(len(space)))


def steps_per_second(question: Question) -> float:
    """Rate of time steps that the present scene needs over all of the ranges."""
    return model_for(question.scene, question.space).substeps * question.scene.timing.fps


def _shift(question: Question, space: Space) -> Tensor:
    """Shift of the unknowns (unknowns,) whose values a scene sets anew: by the difference, or the ratio."""
    before, after = (_values(s) for s in (question.space, space))
    shift = torch.where(before == after, 0.0, space.inner(after) - space.inner(before))
    return torch.where(torch.isfinite(shift), shift, 0.0)


def _values(space: Space) -> Tensor:
    """Values of the unknowns that a scene states (unknowns,)."""
    numbers = []
    for places in space.places:
        name, index = places[0]
        value = space.kinds[name].value
        numbers.append(float(value if index is None else value[index]))
    return torch.tensor(numbers, dtype=torch.float64)


def covariance(information: Tensor) -> Tensor:
    """Inverse (…, n, n) of symmetric matrices, balanced: units do not matter."""
    scale = information.diagonal(dim1=-2, dim2=-1).clamp(min=1e-300).rsqrt()
    inverse = torch.linalg.pinv(information * scale[..., :, None] * scale[..., None, :], hermitian=True, rtol=1e-14)
    return inverse * scale[..., :, None] * scale[..., None, :]


def posterior_covariance(fisher: Tensor, precision: Tensor) -> Tensor:
    """(F + P)⁻¹ (…, n, n), where F may be singular and much larger than P.

    In units of P, eigenvalues of F below the rounding of the largest are 0: else they would outweigh P where the video tells nothing.

    Args:
        fisher: F (…, n, n).
        precision: P (…, n, n), with a diagonal above 0.
    """
    unit = precision.diagonal(dim1=-2, dim2=-1).rsqrt()
    scaled = lambda M: M * unit[..., :, None] * unit[..., None, :]
    eigenvalues, axes = torch.linalg.eigh(scaled(fisher))
    eigenvalues = torch.where(eigenvalues > ROUNDING * eigenvalues.amax(-1, keepdim=True), eigenvalues, 0.0)
    inner = torch.diag_embed(eigenvalues) + axes.mT @ scaled(precision) @ axes
    return scaled(axes @ covariance(inner) @ axes.mT)


def shared_information(question: Question, fisher: Tensor) -> Tensor:
    """Information of a film on what further films share (samples, unknowns, unknowns): the rest is integrated out.

    Args:
        question: Unknowns and priors.
        fisher: F (samples, unknowns, unknowns).
    """
    n, shared = len(question.space), question.shared
    rest = [k for k in range(n) if k not in shared]
    out, alone = torch.zeros_like(fisher), torch.zeros(n).double()
    if not shared:
        return out
    alone[rest] = 1.0
    inner = fisher + alone[:, None] * question.precision * alone  # priors of what the film alone has count for it
    block = lambda a, b: inner[..., a, :][..., :, b]
    left = block(shared, shared)
    if rest:
        left = left - block(shared, rest) @ covariance(block(rest, rest)) @ block(rest, shared)
    at = torch.tensor(shared)
    out[..., at[:, None], at] = left
    return out


def require_possible(scene: Scene) -> None:
    """Raise `InputError` unless masks of a scene by all of its cameras can be observed."""
    if any(camera.motion is not None for camera in scene.views.values()):
        raise InputError("a camera of the scene moves (`motion`); a plan needs cameras that stand still.")
