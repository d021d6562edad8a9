"""Gradient descent through rollouts: one iteration, and the state that the next one depends on."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler

from gradsim.control.training import optimizers
from gradsim.control.training.history import History, Iteration
from gradsim.control.training.settings import TrainingConfig
from gradsim.physics.model import Divergence

DIVERGED_LOSS = 1e30  # loss of diverged rollouts inside a line search, which then takes a shorter step

ParameterSource = Mapping[str, Tensor] | Callable[[int], Mapping[str, Tensor] | None] | None


@dataclass(frozen=True)
class _Evaluation:
    """Result of one rollout forward and backward of all worlds."""

    loss: float
    gradient_norm: float
    distance: float
    position_error: float
    worlds: int


class Descent:
    """Training in progress; `state` and `resume` hold all that changes. Arguments as for `training.train`."""

    def __init__(
        self, plant, policy: nn.Module, goal, config: TrainingConfig, overrides: ParameterSource = None, worlds: int = 1
    ):
        self.plant, self.policy, self.goal, self.config = plant, policy, goal, config
        self.overrides, self.worlds = overrides, worlds
        self.project: Callable[[], None] = getattr(policy, "project", lambda: None)
        self.parameters = [p for p in policy.parameters() if p.requires_grad]
        self.optimizer = optimizers.make_optimizer(
            config.optimizer, self.parameters, config.learning_rate, config.options
        )
        self.schedule = None
        if config.schedule is not None:
            self.schedule = optimizers.make_schedule(config.schedule, self.optimizer, config.iterations)
        self.history = History()
        self.began: Tensor | None = None  # parameters before the last step, whose gradient was finite

    @property
    def finished(self) -> bool:
        entries = self.history.iterations
        return len(entries) >= self.config.iterations or bool(entries and entries[-1].loss <= self.config.target_loss)

    def iterate(self) -> Iteration:
        """Run one iteration, including its step."""
        start, k, total = time.process_time(), len(self.history), self.plant.frames
        model_parameters = self.overrides(k) if callable(self.overrides) else self.overrides
        frames = self.config.horizon.frames(k, total) if self.config.horizon else total
        stage = getattr(self.goal, "stage", lambda iteration: "")(k)
        if self.history.iterations and self.history.iterations[-1].kind != (stage, frames):
            getattr(self.optimizer, "forget", lambda: None)()
        before = {name: value.detach().clone() for name, value in self.policy.state_dict().items()}
        theta = nn.utils.parameters_to_vector(self.parameters).detach().clone()
        rate, evaluations = self.optimizer.param_groups[0]["lr"], []

        def closure() -> float:
            evaluations.append(self._evaluate(k, frames, model_parameters, tolerant=bool(evaluations)))
            return evaluations[-1].loss

        try:
            self.optimizer.step(closure)
            self.began = theta
            self.project()
        except Divergence:
            if self.config.not_finite == "raise" or self.began is None:
                raise
            nn.utils.vector_to_parameters((self.began + theta) / 2, self.parameters)
            self.history.retreats += 1
            evaluations.append(
                _Evaluation(math.nan, math.nan, math.nan, math.nan, _worlds(model_parameters, self.worlds))
            )
        first, rollouts = evaluations[0], sum(one.worlds for one in evaluations)
        entry = Iteration(
            loss=first.loss,
            gradient_norm=first.gradient_norm,
            seconds=time.process_time() - start,
            rollouts=rollouts,
            steps=rollouts * (frames - 1) * self.plant.model.substeps,
            distance=first.distance,
            position_error=first.position_error,
            frames=frames,
            stage=stage,
            rate=rate,
        )
        self._slow_down(first.loss)
        self.history.add(entry, before)
        if k == self.config.iterations // 2:
            self.history.keep_middle()
        return entry

    def state(self) -> dict[str, Any]:
        """All that the next iterations depend on."""
        return {
            "policy": self.policy.state_dict(),
            "optimiser": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict() if self.schedule else None,
            "history": self.history.json(),
            "policies": self.history.policies,
            "began": self.began,
            "random": torch.get_rng_state(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimiser"])
        if self.schedule is not None:
            self.schedule.load_state_dict(state["schedule"])
        self.history = History.parse(state["history"])
        self.history.policies = state["policies"]
        self.began = state["began"]
        torch.set_rng_state(state["random"])

    def _evaluate(self, k: int, frames: int, overrides, tolerant: bool) -> _Evaluation:
        """Simulate forward and backward, and store the clipped gradients.

        Args:
            k: Iteration.
            frames: Frames of the episode.
            overrides: Parameters of the model in this iteration.
            tolerant: If it diverges, return the loss `DIVERGED_LOSS` instead of raising.
        """
        self.optimizer.zero_grad()
        try:
            episode = self.plant.rollout(self.policy, overrides, frames=frames, worlds=self.worlds)
            losses = self.goal.loss(episode, k)
            loss = losses.mean()
            norm = self._backward(loss)
        except Divergence as error:
            if not tolerant:
                raise Divergence(f"iteration {k}: {error}") from error
            for p in self.parameters:
                p.grad = torch.zeros_like(p)
            return _Evaluation(DIVERGED_LOSS, math.nan, math.nan, math.nan, _worlds(overrides, self.worlds))
        self.project()
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
        with torch.no_grad():
            distance, error = (self._figure(name, episode) for name in ("distance", "position_error"))
        return _Evaluation(loss.item(), norm, distance, error, len(losses))

    def _backward(self, loss: Tensor) -> float:
        """Compute the gradients and return their norm."""
        if loss.requires_grad:
            loss.backward()
        gradients = [p.grad.norm() for p in self.parameters if p.grad is not None]
        norm = torch.stack(gradients).norm().item() if gradients else 0.0
        if not (math.isfinite(norm) and math.isfinite(loss.item())):
            what = "its gradient" if math.isfinite(loss.item()) else "the loss"
            raise Divergence(
                f"{what} is not finite (loss {loss.item():.4g}, norm of the gradient {norm:.4g}). Take a smaller rate, a "
                "shorter initial horizon or more substeps; or not_finite='halve', which halves such a step."
            )
        return norm

    def _figure(self, name: str, episode) -> float:
        values = getattr(self.goal, name)(episode)
        return math.nan if values is None else values.mean().item()

    def _slow_down(self, loss: float) -> None:
        """Advance the schedule of the learning rate."""
        if self.schedule is not None:
            self.schedule.step(*([loss] if isinstance(self.schedule, lr_scheduler.ReduceLROnPlateau) else []))


def _worlds(overrides: Mapping[str, Tensor] | None, worlds: int) -> int:
    return max([worlds, *(len(value) for value in (overrides or {}).values())])
