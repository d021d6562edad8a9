"""A scene as a differentiable `torch.nn.Module`: parameters by dotted name, rollouts of many worlds at once."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gradsim.engine.forward import derivative
from gradsim.errors import InputError
from gradsim.physics.pendulum_body import PendulumBody
from gradsim.physics.rigid_body import RigidBody
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory
from gradsim.scene.parameters import parameters

KINDS = {"rigid": RigidBody, "pendulum": PendulumBody}
RESOLVED = 0.2  # proposed step over the largest stable one: a contact of half a period then spans about 8 steps


class Divergence(InputError, ArithmeticError):
    """A rollout left the finite numbers; the message names step, body and quantity."""


class Model(nn.Module):
    """A scene that moves.

    Its parameters are those of the scene, by the same names (`model.get_parameter("cube.mass")`), and start at the
    scene's values.

    Args:
        scene: A `gradsim.Scene`.
        substeps: Steps per frame; None takes the scene's, and `auto` there means as many as `propose` says.
        dtype: torch.float64 or torch.float32.
        device: Any device of PyTorch that Warp knows too.

    Raises:
        InputError: If a body starts inside a ground, or the time step is too large for the stiffness.
    """

    def __init__(self, scene, substeps: int | None = None, dtype: torch.dtype = torch.float64, device="cpu"):
        super().__init__()
        self.scene, self.dtype = scene, dtype
        self.kinds = parameters(scene)
        for name, parameter in self.kinds.items():
            self._place(name, nn.Parameter(torch.tensor(parameter.value, dtype=dtype, device=device)))
        systems, first = [], 0
        for name, body in scene.bodies.items():
            system = KINDS[body.kind](name, body, scene, first, dtype, torch.device(device))
            first = system.part.vertices.stop
            systems.append(system)
        self.systems = tuple(systems)
        start = self.values()
        chosen = substeps or (None if scene.timing.substeps == "auto" else scene.timing.substeps)
        self.substeps = chosen or self.propose(start)
        self.check(start)

    @property
    def dt(self) -> float:
        """Time step [s]."""
        return 1 / (self.scene.timing.fps * self.substeps)

    def values(self, given: Mapping[str, Tensor] | None = None) -> Values:
        """All parameters with a leading dimension of worlds; `given` replaces some of them.

        Args:
            given: Tensors (worlds, ...) by name. All have the same number of worlds, or 1.
        """
        given = given or {}
        for name in given:
            if name not in self.kinds:
                raise InputError(f"the scene has no parameter `{name}`; it has {', '.join(self.kinds)}.")
        worlds = max((len(v) for v in given.values()), default=1)
        values = {}
        for name in self.kinds:
            value = given[name] if name in given else self.get_parameter(name)[None]
            values[name] = value.to(self.dtype).expand(worlds, *value.shape[1:])
        return values

    def rollout(
        self, given: Mapping[str, Tensor] | None = None, frames: int | None = None, segment: int = 1
    ) -> Trajectory:
        """Move all worlds through time; differentiable by every parameter.

        Args:
            given: Parameters that differ from the model's own, (worlds, ...) by name.
            frames: Number of frames, frame 0 being the start; None takes the scene's.
            segment: Frames between two checkpoints of the backward pass: memory against recomputation.

        Raises:
            Divergence: If a state is no longer finite (not checked inside `torch.compile`).
        """
        values = self.values(given)
        frames = frames or self.scene.timing.frames
        states = {}
        for system in self.systems:
            outputs = system.program(frames, self.substeps, self.dt, segment).run(*system.inputs(values))
            states[system.name] = dict(zip(system.states, outputs, strict=True))
        if not torch.compiler.is_compiling():
            self._check_finite(states, values)
        return Trajectory(self._times(frames), states, values, self.systems)

    def unchecked(self, values: Values, frames: int) -> Trajectory:
        """Rollout of complete `values` (see `values`) outside autograd, not checked for divergence."""
        states = {}
        for system in self.systems:
            inputs = [x.detach() for x in system.inputs(values)]
            outputs = system.program(frames, self.substeps, self.dt, 1).forward(inputs)
            states[system.name] = dict(zip(system.states, outputs, strict=True))
        return Trajectory(self._times(frames), states, values, self.systems)

    def tangent(self, values: Values, along: Values, frames: int) -> tuple[Trajectory, Trajectory]:
        """Rollout of every world, and its exact derivative along one direction per world.

        Args:
            values: All parameters (worlds, ...), see `values`.
            along: Directions (worlds, ...) for some of them.
            frames: Number of frames.

        Returns:
            Trajectory, and a trajectory that holds derivatives in place of states. Neither is checked for divergence.
        """
        fixed = {name: v for name, v in values.items() if name not in along}
        moving = {name: values[name] for name in along}
        states, derivatives = {}, {}
        for system in self.systems:
            inputs, tangents = derivative(lambda some, s=system: s.inputs({**fixed, **some}), moving, along)
            pairs = system.program(frames, self.substeps, self.dt, 1).tangent(inputs, tangents)
            states[system.name] = {name: p[0] for name, p in zip(system.states, pairs, strict=True)}
            derivatives[system.name] = {name: p[1] for name, p in zip(system.states, pairs, strict=True)}
        times = self._times(frames)
        own = Trajectory(times, states, values, self.systems)
        return own, Trajectory(times, derivatives, values, self.systems)

    def propose(self, values: Values) -> int:
        """Steps per frame that resolve every contact: a fifth of the largest stable step, or less."""
        step = min((system.stable_step(values) for system in self.systems), default=math.inf)
        return max(1, math.ceil(1 / (self.scene.timing.fps * RESOLVED * step))) if math.isfinite(step) else 8

    def check(self, values: Values) -> None:
        """Raise `InputError` if the step is unstable for these values, or a body starts inside a ground."""
        for system in self.systems:
            limit = system.stable_step(values)
            if self.dt > limit:
                fps = self.scene.timing.fps
                raise InputError(
                    f"time step {self.dt:.3g} s is too large for the stiffness and damping that `{system.name}` "
                    f"meets: it needs at most {limit:.3g} s. Set timing.substeps to {math.ceil(1 / (fps * limit))} "
                    f"or more ({self.propose(values)} resolves the contact), or to auto."
                )
            system.check(values)

    def _place(self, name: str, parameter: nn.Parameter) -> None:
        *path, last = name.split(".")
        if path and path[0] not in self._modules and hasattr(self, path[0]):
            raise InputError(f"{path[0]!r} is a name that PyTorch's modules use themselves; rename it in the scene.")
        owner: nn.Module = self
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, nn.Module())
            owner = owner.get_submodule(part)
        owner.register_parameter(last, parameter)

    def _times(self, frames: int) -> Tensor:
        return torch.arange(frames, dtype=torch.float64) / self.scene.timing.fps

    def _check_finite(self, states, values: Values) -> None:
        for system in self.systems:
            for quantity, y in states[system.name].items():
                bad = ~torch.isfinite(y.detach()).reshape(*y.shape[:2], -1).all(2)
                if bad.any():
                    frame = int(bad.any(0).nonzero()[0])
                    world = int(bad[:, frame].nonzero()[0])
                    step = self._diverging_step(system, values, world, frame)
                    raise Divergence(
                        f"`{system.name}` diverges: {quantity} is not finite from step {step} on "
                        f"(time {step * self.dt:.4g} s, world {world}). Use more substeps than {self.substeps}, "
                        f"or look for extreme values of its parameters."
                    )

    def _diverging_step(self, system, values: Values, world: int, frame: int) -> int:
        """First step whose state is not finite: one rollout with a frame for each step."""
        one = {name: v[world : world + 1].detach() for name, v in values.items()}
        program = system.program(frame * self.substeps + 1, 1, self.dt, 1)
        finite = torch.stack(
            [torch.isfinite(y[0]).reshape(len(y[0]), -1).all(1) for y in program.run(*system.inputs(one))]
        ).all(0)
        return int((~finite).nonzero()[0]) if not finite.all() else frame * self.substeps
