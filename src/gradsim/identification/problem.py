"""A least-squares problem: unknowns in, cost, gradient and Gauss–Newton matrix out, for many starts at once.

    cost = Σ r² + (u − m)ᵀ P (u − m),   A = Jᵀ J + P,   g = Jᵀ r + P (u − m)          r whitened by the noise

with the mean m and the precision P of priors (`priors.py`), 0 without.

J comes from forward sensitivities, in double precision: one rollout for every unknown of every start.
"""

import copy
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, TypeVar

import torch
from torch import Tensor

from gradsim.engine.forward_mode import derivative
from gradsim.engine.numbers import bytes_of
from gradsim.identification.observation.base import Observation, Residual, Sensitivity, sum_squares
from gradsim.identification.sensitivity.columns import Columns
from gradsim.identification.unknowns import Ranges, Space, Unknown
from gradsim.physics.dependencies import require_dependency
from gradsim.physics.model import Model
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory

REMEMBERED = 8  # evaluations at one point that are kept
MOST_REMEMBERED_NUMBERS = 2**18  # of the states and derivatives of one of them: 2 MB

Value = TypeVar("Value")


class Evaluations:
    """The last evaluations at one point: error bars, the time step and the verdict ask for the same ones as the end of the search."""

    def __init__(self):
        self._by_key: OrderedDict[Hashable, tuple] = OrderedDict()
        self.columns = Columns()

    def get(
        self,
        what: str,
        problem: "Problem",
        u: Tensor,
        arguments: Hashable,
        evaluate: Callable[[], Value],
        is_kept: Callable[[Value], bool] = lambda value: True,
    ) -> Value:
        """A value that was made before of the same problem at u, or is made now; it must not be changed.

        Args:
            what: Its name.
            problem: Whose it is.
            u: Unknowns, as a tensor.
            arguments: All else that it depends on.
            evaluate: Makes it.
            is_kept: Says if a value that was made is remembered.
        """
        key = self._key(what, problem, u, arguments)
        if key in self._by_key:
            self._by_key.move_to_end(key)
            return self._by_key[key][0]
        value = evaluate()
        if is_kept(value):
            parts = problem.model, problem.observation, problem.space  # kept, as only then an `id` is of one object
            self._by_key[key] = value, parts
            while len(self._by_key) > REMEMBERED:
                self._by_key.popitem(last=False)
        return value

    def known(self, what: str, problem: "Problem", u: Tensor, arguments: Hashable) -> Any:
        """The value, where it is at hand; otherwise None."""
        return self._by_key.get(self._key(what, problem, u, arguments), (None,))[0]

    @staticmethod
    def _key(what: str, problem: "Problem", u: Tensor, arguments: Hashable) -> Hashable:
        """Model, observation and space tell whether a problem is the same, and numbers of parameters whether the model is."""
        parts = problem.model, problem.observation, problem.space
        numbers = tuple(bytes_of(x) or (x.data_ptr(), x._version) for x in problem.model.parameters())
        return what, *map(id, parts), numbers, u.detach().numpy().tobytes(), u.shape, arguments

    def clear(self) -> None:
        """Forget all, as where a search may be resumed from."""
        self._by_key.clear()
        self.columns.clear()


def _is_small(s: Sensitivity) -> bool:
    """True if states and derivatives are few numbers."""
    states = [
        y for trajectory in (s.trajectory, s.tangent) for state in trajectory.states.values() for y in state.values()
    ]
    return sum(y.numel() for y in states) <= MOST_REMEMBERED_NUMBERS


@dataclass
class Effort:
    """Computing effort so far: rollouts, CPU and wall time.

    `fraction` is called while the posterior is sampled, with what is finished and the total: frames or generations. `evaluations` are
    those at hand.
    """

    rollouts: int = 0
    cpu: float = field(default_factory=time.process_time)
    wall: float = field(default_factory=time.perf_counter)
    fraction: Callable[[int, int], None] = field(default=lambda finished, total: None, repr=False, compare=False)
    evaluations: Evaluations = field(default_factory=Evaluations, repr=False, compare=False)

    @property
    def cpu_seconds(self) -> float:
        return time.process_time() - self.cpu

    @property
    def wall_seconds(self) -> float:
        return time.perf_counter() - self.wall

    def state(self) -> dict:
        """For a `CheckpointStore`."""
        return {"rollouts": self.rollouts, "cpu_seconds": self.cpu_seconds, "wall_seconds": self.wall_seconds}

    def resume(self, state: dict) -> None:
        """Continue from a saved state."""
        self.rollouts = state["rollouts"]
        self.cpu = time.process_time() - state["cpu_seconds"]
        self.wall = time.perf_counter() - state["wall_seconds"]


class Stretch(NamedTuple):
    """Some consecutive frames of a clip: `first` up to, but not including, `last`, and what was observed in them.

    There may be none: nothing was observed then, and the cost is 0.
    """

    first: int
    last: int
    observation: Observation | None


class Priors:
    """Priors of the unknowns of a problem of one clip or several, in solver coordinates."""

    space: Ranges

    @property
    def prior_mean(self) -> Tensor:
        """m (unknowns,)."""
        return self.space.prior_mean

    @property
    def prior_precision(self) -> Tensor:
        """P (unknowns, unknowns)."""
        return self.space.prior_precision

    def prior_cost(self, u: Tensor) -> Tensor:
        """(u − m)ᵀ P (u − m) of the priors (starts,)."""
        return (self.prior_gradient(u) * (u - self.prior_mean)).sum(1)

    def prior_gradient(self, u: Tensor) -> Tensor:
        """P (u − m) of the priors (starts, unknowns)."""
        return (u - self.prior_mean) @ self.prior_precision


class Problem(Priors):
    """One model, one observation, some unknowns.

    Args:
        model: Its step is checked for every corner of the unknowns' ranges.
        observation: Data, with their noise.
        space: The unknowns.

    Raises:
        InputError: If nothing reads an unknown.
    """

    space: Space

    def __init__(self, model: Model, observation: Observation, space: Space):
        self.model, self.observation, self.space = model, observation, space
        require_dependency(model, space.values(space.low[None]))
        self.effort = Effort()

    @property
    def frames(self) -> int:
        return self.observation.frames

    def observation_at(self, u: Tensor) -> Observation:
        """The observation at u (unknowns,)."""
        return self.observation

    @property
    def problems(self) -> list["Problem"]:
        """Problems by clip: itself."""
        return [self]

    @property
    def is_external(self) -> bool:
        """True if another engine moves bodies, where each world takes as long as the one before it."""
        return any(problem.model.is_external for problem in self.problems)

    @property
    def scenes(self) -> list:
        """The one scene."""
        return [self.model.scene]

    def with_unknowns(self, more: Sequence[Unknown]) -> Self:
        """The same problem with further unknowns; it counts the same effort."""
        problem = copy.copy(self)
        problem.space = Space(self.model.scene, [*self.space.unknowns, *more], priors=self.space.priors)
        return problem

    def with_finer_steps(self, factor: int) -> Self:
        """The same problem with `factor` times the steps; it counts the same effort."""
        return self.with_substeps(factor * self.model.substeps)

    def with_substeps(self, substeps: int) -> Self:
        """The same problem with other steps per frame; it counts the same effort."""
        problem = copy.copy(self)
        problem.model = self.model.with_substeps(substeps)
        return problem

    def first_frames(self, frames: int) -> Self:
        """The same problem of the first frames only; it counts the same effort."""
        return self.with_observation(self.observation.slice_frames(0, frames))

    def with_observation(self, observation: Observation) -> Self:
        """The same problem of other data; it counts the same effort."""
        problem = copy.copy(self)
        problem.observation = observation
        return problem

    def cost(self, u: Tensor, frames: int, residual: Residual = "pixels") -> Tensor:
        """Cost (starts,) of u (starts, unknowns) on the first frames; infinite where a rollout diverges."""
        if self._is_kept(u, residual):
            linearized = self.effort.evaluations.known("linearize", self, u, (frames, residual))
            if linearized is not None and linearized[0].isfinite():  # it is not where derivatives alone are not
                return linearized[0].clone()
        values = self.model.values(self.space.values(u))
        self.effort.rollouts += len(u)
        with torch.no_grad():
            trajectory = self.model.rollout_unchecked(values, frames)
            total = self.prior_cost(u) + self.observation.cost(trajectory, frames, residual)
        return torch.where(torch.isfinite(total), total, torch.inf)

    @property
    def ends(self) -> list[int]:
        """Numbers of first frames, with each of which one more is compared; the last is that of all."""
        return self.observation.ends(self.frames)

    def stretch(self, first: int, last: int) -> Stretch:
        """Frames `first` up to `last`, for `costs` and `linearizations`."""
        return Stretch(first, last, self.observation.slice_frames(first, last) if last > first else None)

    def costs(self, u: Tensor, stretches: Sequence[Stretch]) -> list[Tensor]:
        """Costs (starts,) of stretches that begin with the first frame, from one rollout; the first has the prior, too."""
        self.effort.rollouts += len(u)
        with torch.no_grad():
            trajectory = self.model.rollout_unchecked(self.model.values(self.space.values(u)), stretches[-1].last)
            parts = []
            for first, last, observation in stretches:
                stretch = trajectory.at(slice(first, last))
                parts.append(observation.cost(stretch, last - first, "pixels") if observation else _nothing(u)[0])
            parts[0] = parts[0] + self.prior_cost(u)
        return [torch.where(torch.isfinite(part), part, torch.inf) for part in parts]

    def linearizations(self, u: Tensor, stretches: Sequence[Stretch]) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Cost (starts,), A (starts, n, n) and g (starts, n) of each stretch, likewise; not finite where a rollout diverges."""
        with torch.no_grad():
            s, parts = self.sensitivity(u, stretches[-1].last), []
            for first, last, observation in stretches:
                frames = slice(first, last)
                part = replace(s, trajectory=s.trajectory.at(frames), tangent=s.tangent.at(frames))
                cost, g, A = observation.normal(part, last - first, "pixels") if observation else _nothing(u)
                parts.append((cost, A, g))
        cost, A, g = parts[0]
        parts[0] = cost + self.prior_cost(u), A + self.prior_precision, g + self.prior_gradient(u)
        return parts

    def sum_of_squares(self, u: Tensor, residual: Residual = "pixels") -> tuple[Tensor, int]:
        """Σ r² (starts,) over all frames, differentiable by adjoints, and the number of residuals; without priors.

        Raises:
            Divergence: If a rollout leaves the finite numbers.
        """
        self.effort.rollouts += len(u)
        trajectory = self.model.rollout(self.space.values(u), frames=self.frames)
        blocks = list(self.observation.residuals(trajectory, self.frames, residual))
        return sum_squares(iter(blocks)), sum(r.shape[1] for r in blocks)

    def linearize(self, u: Tensor, frames: int, residual: Residual = "pixels") -> tuple[Tensor, Tensor, Tensor]:
        """Cost (starts,), A (starts, n, n) and g (starts, n)."""
        if not self._is_kept(u, residual):
            return self._linearize(u, frames, residual)
        make = lambda: self._linearize(u, frames, residual)
        cost, A, g = self.effort.evaluations.get("linearize", self, u, (frames, residual), make)
        return cost.clone(), A.clone(), g.clone()

    @staticmethod
    def _is_kept(u: Tensor, residual: Residual) -> bool:
        """True if the linearization at u (starts, unknowns) is kept for later calls: of single starts."""
        return len(u) == 1 and isinstance(residual, str)

    def _linearize(self, u: Tensor, frames: int, residual: Residual) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            cost, g, A = self.observation.normal(self.sensitivity(u, frames), frames, residual)
        total = cost + self.prior_cost(u)
        A = A + self.prior_precision
        g = g + self.prior_gradient(u)
        bad = ~torch.isfinite(total) | ~torch.isfinite(A).flatten(1).all(1) | ~torch.isfinite(g).all(1)
        return torch.where(bad, torch.inf, total), A, g

    def linearize_by(self, near: Sensitivity, u: Tensor, frames: int) -> tuple[Tensor, Tensor, Tensor]:
        """`linearize` by the derivatives of a motion near by in place of those at u, for the time of one rollout.

        Args:
            near: That motion with its derivatives, of one start and as many frames.
            u: Unknowns of one start (1, unknowns).
            frames: Number of first frames that count.
        """
        self.effort.rollouts += 1
        with torch.no_grad():
            alone = self.model.rollout_unchecked(self.model.values(self.space.values(u)), frames)
            repeated = lambda x: x.expand(near.unknowns, *x.shape[1:]).contiguous()
            states = {body: {name: repeated(y) for name, y in state.items()} for body, state in alone.states.items()}
            values = {name: repeated(x) for name, x in alone.values.items()}
            motion = replace(near, trajectory=replace(alone, states=states, values=values))
            cost, g, A = self.observation.normal(motion, frames, "pixels")
        return cost + self.prior_cost(u), A + self.prior_precision, g + self.prior_gradient(u)

    def jacobian(self, u: Tensor, frames: int, residual: Residual = "pixels"):
        """Blocks of residuals (starts, m) and their derivatives (starts, m, unknowns)."""
        with torch.no_grad():
            yield from self.observation.linearize(self.sensitivity(u, frames), frames, residual)

    def residuals(self, u: Tensor, frames: int | None = None) -> Tensor:
        """Whitened residuals (starts, m) on the first frames; None: on all."""
        return torch.cat(list(self.residual_blocks(u, frames)), 1)

    def residual_blocks(self, u: Tensor, frames: int | None = None) -> Iterator[Tensor]:
        """The same in blocks (starts, m), of which large films have several."""
        frames = frames or self.frames
        self.effort.rollouts += len(u)
        with torch.no_grad():
            trajectory = self.model.rollout_unchecked(self.model.values(self.space.values(u)), frames)
        blocks = self.observation.residuals(trajectory, frames, "pixels")
        while True:
            with torch.no_grad():  # not around a `yield`, where it would be the caller's
                block = next(blocks, None)
            if block is None:
                return
            yield block

    def sensitivity(self, u: Tensor, frames: int) -> Sensitivity:
        """Trajectories at u (starts, unknowns) of the first frames with their derivatives, one unknown each.

        Those of a single start are kept, where they are few numbers.
        """
        if len(u) > 1 or self.model.is_external:
            return self._sensitivity(u, frames)
        make = lambda: self._sensitivity(u, frames)
        return self.effort.evaluations.get("sensitivity", self, u, frames, make, _is_small)

    def known_sensitivity(self, u: Tensor) -> Sensitivity | None:
        """That of all frames at u (unknowns,), where it is kept, of a motion without states between frames."""
        s = self.effort.evaluations.known("sensitivity", self, u[None], self.frames)
        return None if s is None or s.trajectory.dense is not None else s

    def trajectory(self, u: Tensor) -> Trajectory:
        """Trajectory of all frames at u (unknowns,), of one world."""
        return self.sensitivity(u[None], self.frames).trajectory.of_worlds(slice(1))

    def _sensitivity(self, u: Tensor, frames: int) -> Sensitivity:
        self.effort.rollouts += u.numel()
        values, along = self._directions(u)
        if len(u) == 1 and not self.model.is_external:
            trajectory, tangent = self.effort.evaluations.columns.tangent(self.model, values, along, frames)
        else:
            trajectory, tangent = self.model.tangent(values, along, frames)
        return Sensitivity(trajectory, tangent, along, u.shape[1])

    def _directions(self, u: Tensor) -> tuple[Values, Values]:
        """Parameters of starts · unknowns worlds, and their derivatives by one unknown each, at u (starts, unknowns)."""
        starts, n = u.shape
        if type(self.space).values is Space.values:
            touched, along = self.space.values(u), self.space.slopes(u)
            repeated = {name: x.repeat_interleave(n, 0) for name, x in touched.items()}
            return self.model.values(repeated), {name: x.flatten(0, 1) for name, x in along.items()}
        lanes = u.repeat_interleave(n, 0)
        directions = torch.eye(n, dtype=torch.float64).repeat(starts, 1)
        names = list(self.space.values(lanes[:1]))
        values = lambda inputs: list(self.space.values(inputs["u"]).values())
        numbers, slopes = derivative(values, {"u": lanes}, {"u": directions})
        touched = dict(zip(names, numbers, strict=True))
        along = {
            name: t for name, t in zip(names, slopes, strict=True) if t is not None
        }  # each depends on some unknown
        return self.model.values(touched), along


def _nothing(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cost (starts,), g (starts, n) and A (starts, n, n) of no frames, at u (starts, n)."""
    starts, n = u.shape
    return torch.zeros(starts).double(), torch.zeros(starts, n).double(), torch.zeros(starts, n, n).double()
