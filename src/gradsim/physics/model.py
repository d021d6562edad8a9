"""A scene as a differentiable `torch.nn.Module`: parameters by dotted name, rollouts of many worlds at once."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor

from gradsim.engine.forward_mode import derivative
from gradsim.engine.lanes import check_dtype
from gradsim.engine.numbers import bytes_of
from gradsim.engine.operation import is_transformed
from gradsim.errors import InputError
from gradsim.physics.dependencies import (
    read_by_images,
    read_by_log,
    read_by_motion,
    read_by_tracks,
    require_dependency,
)
from gradsim.physics.driven_motors import DrivenMotors
from gradsim.physics.forces.custom import CustomForce
from gradsim.physics.integrators import RIGID
from gradsim.physics.islands import group_into_islands
from gradsim.physics.pendulum.double import DoublePendulumBody
from gradsim.physics.pendulum.simple import PendulumBody
from gradsim.physics.repeated_calls import RepeatedCalls
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.rollout import strides_of
from gradsim.physics.soft.body import SoftBody
from gradsim.physics.soft.cloth import cloth_body
from gradsim.physics.soft.rod import rod_body
from gradsim.physics.soft.rope import springs_body
from gradsim.physics.soft.solid import solid_body
from gradsim.physics.static_geometry import GroundSquare, ObstacleBody
from gradsim.physics.system import Values
from gradsim.physics.trajectory import DenseOutput, Trajectory
from gradsim.runtime.html import table
from gradsim.runtime.limits import require_steps
from gradsim.scene.parameters import MIN_DELAY, Parameter, camera_prefix, parameters, resolve

KINDS: dict[str, Callable] = {
    "rigid": RigidBody,
    "pendulum": PendulumBody,
    "double_pendulum": DoublePendulumBody,
    "solid": solid_body,
    "cloth": cloth_body,
    "springs": springs_body,
    "rod": rod_body,
}
END_SLACK = 1e-3  # beyond the end of a range, for differences about it, such as a friction of 0
WITHOUT_ENDS = ".margin"  # a number whose formulas hold below 0, so that differences about 0 have two sides
IMPLICIT_SUBSTEPS = 8  # of implicit steps, which nothing stiff limits
MIN_SUBSTEPS_FOR_STRIDES = 64  # substeps of a frame from which on `rigid.rollout.strides_of` has a say in their number
CLOCK = ("timing.rate", "timing.offset")
DENSITY = 4  # intervals between two frames whose ends a trajectory has where a camera has a shutter
DELAY_ROUNDING = 1e-9  # of a frame
States = Mapping[str, Mapping[str, Tensor]]  # (worlds, ...) by body and name


class Divergence(InputError, ArithmeticError):
    """A rollout left the finite numbers; the message names step, body and quantity."""


class Model(nn.Module):
    """A scene that moves.

    Its parameters are those of the scene, by the same names (`model.get_parameter("cube.mass")`), and start at the
    scene's values. `model.to(torch.float32)`, `float()`, `double()` and `to(device)` convert the whole model, which rolls
    out in that dtype on that device from then on, with the steps it had; parameters are rounded, the scene is not.

    Args:
        scene: A `gradsim.Scene`.
        substeps: Steps per frame; None takes the scene's, and `auto` there takes `recommended_substeps`. Where a camera has a
            shutter, they are rounded up to a multiple of `DENSITY`; where a log drives motors, of the samples of a frame.
        dtype: torch.float64 or torch.float32.
        device: Any device of PyTorch that Warp knows too.
        forces: The user's forces on soft bodies by dotted name, as {"flag.wind": CustomForce(Force.load("wind.py"), ...)}.
            Their parameters are the model's: `flag.wind.drag`. The bound of the time step knows nothing of them.
        delays: Least and largest delay of cameras behind the scene's clock [s], which states between frames cover; None: those of the scene.
        lead: Number of substeps of each interval into which `timing.offset` is cut, where it is not 0; None: as long
            as a frame, by the scene's offset.

    Raises:
        InputError: If a body starts inside a ground, the time step is too large for the stiffness, or the dtype is another
            (also of `to`, which leaves the model unchanged then).
    """

    is_external = False  # whether another engine moves the bodies, by time steps that are not ours

    def __init__(
        self,
        scene,
        substeps: int | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
        lead: int | None = None,
        forces: Mapping[str, CustomForce] | None = None,
        delays: tuple[float, float] | None = None,
    ):
        super().__init__()
        self.scene, self.forces = scene, dict(forces or {})
        self._rows: dict[str, tuple[Tensor, Tensor]] = {}  # parameters and their views, see `_row`
        self._checked: dict[str, tuple[torch.dtype, bytes | None] | None] = {}  # numbers that were in their range
        check_dtype(dtype)
        self._build(dtype, torch.device(device))
        self.delays = delays or delay_range(scene)
        self.has_shutter = any(camera.has_shutter for camera in scene.views.values())
        self.motors = DrivenMotors(scene.log, scene.channels, scene.timing.fps)
        least = DENSITY if self.has_shutter else 1
        self.density = least * math.ceil(self.motors.density / least)
        self.lead = lead or max(1, math.ceil(scene.timing.offset * scene.timing.fps))
        self._late = [
            n for n, body in scene.bodies.items() if any(push.after_start for push in getattr(body, "pushes", ()))
        ]
        for name, parameter in self.kinds.items():  # after what a body's name may not replace
            self._place(name, nn.Parameter(torch.tensor(parameter.value, dtype=dtype, device=device)))
        start = self.values()
        chosen = substeps or (None if scene.timing.substeps == "auto" else scene.timing.substeps)
        chosen = chosen or self.recommended_substeps(start)
        self.substeps = self.density * math.ceil(chosen / self.density)
        require_steps(scene.timing.frames, self.substeps)
        self.check(start)

    def __repr__(self) -> str:
        steps = f"{self.scene.timing.frames} frames of {self.substeps} steps"
        return f"Model({', '.join(self.scene.bodies)}; {steps}, {self.dtype}; {len(self.kinds)} parameters)"

    def _repr_html_(self) -> str:
        """Parameters by name with their values, for notebooks."""
        values = ((name, x, x.ndim == 0 or x.numel() <= 4) for name, x in self.named_parameters())
        rows = ((name, tuple(x.shape), x.tolist() if small else "…") for name, x, small in values)
        return f"<p><b>{escape(repr(self))}</b></p>" + table(("parameter", "shape", "value"), rows)

    def with_substeps(self, substeps: int) -> "Model":
        """The same model, with its parameters as they are, at another number of steps per frame."""
        device = self.get_parameter("gravity").device
        model = Model(self.scene, substeps, self.dtype, device, self.lead, self.forces, self.delays)
        model.load_state_dict(self.state_dict())
        model.systems, model.groups, model.scenery = self.systems, self.groups, self.scenery  # with what they know
        if "unused_parameters" in vars(self):
            vars(model)["unused_parameters"] = self.unused_parameters
        return model

    @property
    def dt(self) -> float:
        """Time step [s] where the clock of the video is that of the motion."""
        return 1 / (self.scene.timing.fps * self.substeps)

    @cached_property
    def unused_parameters(self) -> frozenset[str]:
        """Parameters that no trajectory, surface or image depends on; they have no gradient."""
        elsewhere = read_by_images(self.scene) | read_by_tracks(self.scene) | read_by_log(self.scene)
        return frozenset(self.kinds) - read_by_motion(self) - elsewhere

    @cached_property
    def _owners(self) -> dict[str, tuple[nn.Module, str]]:
        """Module and attribute of each parameter: `get_parameter` looks them up again at each call."""
        modules: dict[str, nn.Module] = {"": self}
        owners = {}
        for name in self.kinds:
            path, _, key = name.rpartition(".")
            if path not in modules:
                modules[path] = self.get_submodule(path)
            owners[name] = modules[path], key
        return owners

    def values(self, overrides: Mapping[str, Tensor] | None = None) -> Values:
        """All parameters with a leading dimension of worlds; `overrides` replaces some of them.

        Args:
            overrides: Tensors (worlds, ...) by name. All have the same number of worlds, or 1. A number of a soft body's
                material may have one for each of its elements, (worlds, elements); its actuation (`activation`,
                `bending_activation`, `rest_length_factor`) also one for each frame interval and element, or all of
                them, (worlds, frames - 1, elements or 1).
        """
        overrides = overrides or {}
        for name in overrides:
            if name not in self.kinds:
                raise InputError(f"the scene has no parameter `{name}`; it has {', '.join(self.kinds)}.")
            if name in self.motors:
                channel = f"channels.{self.motors.channel(name)}"
                raise InputError(
                    f"`{name}` is driven by the log; give `{channel}.scale` or `{channel}.offset`, or a scene without the log."
                )
            self._check_shape(name, overrides[name])
            if name in CLOCK and self._late and (overrides[name].detach() != float(self.kinds[name].value)).any():
                raise InputError(
                    f"`{self._late[0]}` gets a push after the start or over a window, and steps of unknown length would "
                    f"cut it wrongly: with `{name}` unknown, give pushes as blows at 0, or leave the clock as it is."
                )
        worlds = max([1, *(v.shape[0] for v in overrides.values())])  # the compiler knows no `default`
        for name, value in overrides.items():
            if value.shape[0] not in (1, worlds):
                most = next(n for n in overrides if len(overrides[n]) == worlds)
                raise InputError(
                    f"`{name}` is given for {len(value)} worlds, `{most}` for {worlds}; give both for as many, or for 1."
                )
        values = {}
        for name in self.kinds:
            value = overrides[name] if name in overrides else self._row(name)
            value = value if value.dtype == self.dtype else value.to(self.dtype)
            values[name] = value if value.shape[0] == worlds else value.expand(worlds, *value.shape[1:])
        return values

    def _row(self, name: str) -> Tensor:
        """A parameter with the dimension of one world; where it has no graph, the view of the last call."""
        owner, key = self._owners[name]
        parameter = None if torch.compiler.is_compiling() else vars(owner)["_parameters"].get(key)
        if parameter is None or is_transformed() or (parameter.requires_grad and torch.is_grad_enabled()):
            return (getattr(owner, key) if parameter is None else parameter).unsqueeze(0)
        known, row = self._rows.get(name, (None, parameter))
        same = known is parameter and row.data_ptr() == parameter.data_ptr() and row.shape[1:] == parameter.shape
        if not same or row.dtype != parameter.dtype or row.requires_grad:  # as a caller may have set it
            row = parameter.detach()[None]
            self._rows[name] = parameter, row
        return row

    def rollout(
        self,
        overrides: Mapping[str, Tensor | float | Sequence] | None = None,
        frames: int | None = None,
        segment: int = 1,
        start: States | None = None,
    ) -> Trajectory:
        """Move all worlds through time; differentiable by every parameter.

        Args:
            overrides: Parameters that differ from the model's own by name: tensors, arrays or lists (worlds, ...), or numbers of
                one world, such as {"cube.mass": [3.0, 4.0], "cube.velocity": [1, 0, 0]}; components by their letter, such as
                {"cube.velocity.x": 1.0}.
            frames: Number of frames, frame 0 being the start; None takes the scene's.
            segment: Frames between two checkpoints of the backward pass: memory against recomputation.
            start: States (worlds, ...) by body and name to continue from, such as those of a frame of another rollout;
                None begins as the scene does. The clock has no offset then.

        Raises:
            InputError: If a name is unknown, a number is not finite or outside of its range, or of another shape; if a body
                that continues from a state has pushes or a `motion`, which count from the scene's start, or
                `start` is not of all bodies, or of another number of worlds, or something given requires a gradient and
                nothing reads it.
            Divergence: If a state becomes non-finite, or a joint has come apart at the last frame (not checked inside
                `torch.compile`).
        """
        if not torch.compiler.is_compiling() and torch.is_inference_mode_enabled():
            normal = lambda x: x.clone() if isinstance(x, Tensor) else x  # outside of the mode
            with (
                torch.inference_mode(False),
                torch.no_grad(),
            ):  # what is kept for later calls is for those with gradients, too
                numbers = {name: normal(x) for name, x in (overrides or {}).items()}
                begin = start and {body: {key: normal(y) for key, y in s.items()} for body, s in start.items()}
                return self.rollout(numbers, frames, segment, begin)
        if start is None:
            trajectory = self._repeated.rollout(self, overrides or {}, frames, segment)
            if trajectory is not None:
                return trajectory
        overrides = self._tensors(overrides or {})
        values = self.values(overrides)
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            require_dependency(self, [name for name, v in overrides.items() if v.requires_grad])
        frames = frames or self.scene.timing.frames
        lead = self._intervals_before(values, overrides) if start is None else 0
        if start is not None:
            values, start = self._continued(values, start)
        steps, states = self._steps(values, frames, lead), {}
        timed = self._timed(values, frames, lead, steps)
        everything: list[Tensor] = []
        read: list[tuple[Sequence[Tensor], Sequence[Tensor]]] = []
        for group in self.groups:
            program = self._program(group, frames, lead, segment)
            if start is None:
                outputs, inputs = group.roll_out(program, timed, steps)
            else:
                inputs = group.begin(group.bound_inputs(timed), start)
                outputs = program.run(*inputs, steps)
            outputs = [y[:, lead:] for y in outputs] if lead else list(outputs)
            everything += outputs
            read.append((inputs, [y[:, self.density * (frames - 1)] for y in outputs]))
            states |= _by_body(group, outputs)
        trajectory = self._trajectory(states, values, frames)
        if not torch.compiler.is_compiling():
            if not all(math.isfinite(y.detach().sum().item()) for y in everything):
                self._check_finite(trajectory.states, timed, steps, lead, start)
            self._check_joints(trajectory.states, values, read)
        return trajectory

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As of `torch.nn.Module`, without the walk by names that takes a tenth of a small rollout."""
        if not set_to_none:
            return super().zero_grad(set_to_none)
        modules: list[nn.Module] = [self]
        known: set[nn.Module] = {self}
        for module in modules:  # which grow
            for parameter in module._parameters.values():
                if parameter is not None:
                    parameter.grad = None
            fresh = [inner for inner in module._modules.values() if inner is not None and inner not in known]
            modules += fresh
            known.update(fresh)

    def rollout_unchecked(self, values: Values, frames: int) -> Trajectory:
        """Rollout of complete `values` (see `values`) outside autograd, not checked for divergence."""
        lead, states = self._intervals_before(values), {}
        steps = self._steps(values, frames, lead).detach()
        timed = self._timed(values, frames, lead, steps)
        for group in self.groups:
            inputs = [x.detach() for x in group.bound_inputs(timed)]
            outputs = self._program(group, frames, lead, 1).forward([*inputs, steps])
            states |= _by_body(group, [y[:, lead:].contiguous() for y in outputs])
        return self._trajectory(states, values, frames)

    def tangent(self, values: Values, direction: Values, frames: int) -> tuple[Trajectory, Trajectory]:
        """Rollout of every world, and its exact derivative along one direction per world.

        Args:
            values: All parameters (worlds, ...), see `values`.
            direction: Directions (worlds, ...) for some of them.
            frames: Number of frames.

        Returns:
            Trajectory, and a trajectory of derivatives instead of states. Neither is checked for divergence.

        Raises:
            InputError: If nothing reads a parameter of `direction`.
        """
        require_dependency(self, direction)
        moving = {name: values[name] for name in direction}
        lead = self._intervals_before(values, direction)
        states, derivatives = {}, {}
        for group in self.groups:

            def inputs_of(some: Values, g=group) -> list[Tensor]:
                along = {**values, **some}
                steps = self._steps(along, frames, lead)
                timed = self._timed(along, frames, lead, steps)
                differentiated = [
                    name for name, x in timed.items() if x is not values.get(name)
                ]  # and what is made of them
                return [*g.bound_inputs(timed, differentiated), steps]

            closed = None if lead or self.motors else group.inputs_along(values, direction)
            if closed is None:
                inputs, tangents = derivative(inputs_of, moving, direction)
            else:
                steps = [self._steps(x, frames, lead) if "timing.rate" in x else None for x in (values, direction)]
                inputs, tangents = [*closed[0], steps[0]], [*closed[1], steps[1]]
            pairs = self._program(group, frames, lead, 1).tangent(inputs, tangents)
            for k, target in enumerate((states, derivatives)):
                target |= _by_body(group, [pair[k][:, lead:].contiguous() for pair in pairs])
        return self._trajectory(states, values, frames), self._trajectory(derivatives, values, frames)

    def recommended_substeps(self, values: Values) -> int:
        """Steps per frame that resolve stiff forces, from `System.recommended_step`."""
        step = min((group.recommended_step(values) for group in self.groups), default=math.inf)
        if not math.isfinite(step):
            return IMPLICIT_SUBSTEPS
        steps = max(1, math.ceil(self._longest(values) / step))
        rigid = [system.name for system in self.systems if isinstance(system, RigidBody)]
        if any(RIGID[self.scene.integrator_of(name)].events for name in rigid):
            while (
                steps >= MIN_SUBSTEPS_FOR_STRIDES and strides_of(steps) < 8
            ):  # a few more, that long steps of flight divide
                steps += 1
        return steps

    def check(self, values: Values) -> None:
        """Raise `InputError` if the step is unstable for these values, or a body starts inside a ground."""
        interval = self._longest(values)
        for group in self.groups:
            limit, names = group.stable_step(values), "` and `".join(system.name for system in group.systems)
            if interval / self.substeps > limit:
                raise InputError(
                    f"time step {interval / self.substeps:.3g} s is too large for the stiffness and damping that "
                    f"`{names}` {'meets' if len(group.systems) == 1 else 'meet'}: it needs at most {limit:.3g} s. "
                    f"Set timing.substeps to {math.ceil(interval / limit)} or more ({self.recommended_substeps(values)} resolves "
                    f"the motion), or to auto."
                )
            group.check(values)

    def _build(self, dtype: torch.dtype, device: torch.device) -> None:
        """Make the bodies, with their forces, and all that stands still, of tensors of this dtype on this device."""
        self.dtype, self.kinds, first, systems = dtype, parameters(self.scene), 0, []
        self._repeated = RepeatedCalls()
        for name, body in self.scene.bodies.items():
            system = KINDS[body.kind](name, body, self.scene, first, dtype, device)
            first = system.parts[-1].vertices.stop
            systems.append(system)
        self.systems = tuple(systems)
        self.groups = group_into_islands(self.systems, self.scene)
        for name, acting in self.forces.items():
            self._add(name, acting)
        self.scenery = tuple(
            kind(name, node, dtype, device)
            for kind, nodes in ((GroundSquare, self.scene.grounds), (ObstacleBody, self.scene.obstacles))
            for name, node in nodes.items()
            if kind is ObstacleBody or node.visible
        )

    def _apply(self, fn, recurse=True):
        """Convert all tensors by `fn`; PyTorch calls this for `to`, `float`, `cuda` and the like."""
        before = self.get_parameter("gravity")
        after = fn(before.detach().clone())
        check_dtype(after.dtype)
        converted = (after.dtype, after.device) != (before.dtype, before.device)
        super()._apply(fn, recurse)
        if converted:
            self._build(after.dtype, after.device)
        return self

    def _add(self, name: str, custom_force: CustomForce) -> None:
        """Let a force of the user's act; its parameters join those of the scene."""
        owner, _, suffix = name.partition(".")
        soft = {system.name: system for system in self.systems if isinstance(system, SoftBody)}
        if owner not in soft or not suffix.isidentifier():
            known = f"its soft bodies are {', '.join(soft)}" if soft else "it has no soft body"
            raise InputError(f"the force `{name}` needs a name such as BODY.wind of a soft body of the scene; {known}.")
        body = soft[owner]
        elements, numbers, counts = custom_force.on(name, len(body.rest))
        taken = [key for key in self.kinds if key == name or key.startswith(f"{name}.")]
        if taken:
            raise InputError(f"the force `{name}` has the name of the scene's `{taken[0]}`; choose another.")
        body.acting[name] = custom_force
        body.own.append(elements)
        for key, value in numbers.items():
            row_of = "" if counts[key] else "element"
            self.kinds[key] = Parameter(value.numpy(), "", False, -math.inf, math.inf, row_of, counts[key])

    def _tensors(self, overrides: Mapping[str, Tensor | float | Sequence]) -> dict[str, Tensor]:
        """Parameters (worlds, ...) by name of what `rollout` is given: tensors, numbers and arrays, and components such as `ball.velocity.x`.

        Raises:
            InputError: If a name is unknown or given twice, or a number is outside of its range or not finite.
        """
        tensors: dict[str, Tensor] = {}
        columns: dict[str, dict[int, Tensor]] = {}
        value: Any
        for name, value in overrides.items():
            parameter, index = (name, None) if name in self.kinds else resolve(self.scene, name, self.kinds)
            shape = self.kinds[parameter].value.shape if index is None else ()
            if isinstance(value, int | float | list | tuple | np.ndarray):
                value = self._as_worlds(value, shape, self.get_parameter(parameter).device)
            if index is None:
                self._check_shape(name, value)
                tensors[name] = value
                continue
            if not isinstance(value, Tensor) or value.ndim != 1:
                got = f"with shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"as {value!r:.60}"
                raise InputError(f"`{name}` is given {got}; expected a number, or a tensor (worlds).")
            columns.setdefault(parameter, {})[index] = value
        for name, by_index in columns.items():
            if name in tensors:
                raise InputError(f"`{name}` is given as a vector and by component; give one of them.")
            fixed = self.get_parameter(name)
            parts = [by_index.get(k, fixed[k : k + 1].to(self.dtype)) for k in range(len(fixed))]
            tensors[name] = torch.stack(torch.broadcast_tensors(*parts), -1)
        if not torch.compiler.is_compiling():
            self._check_ranges(tensors)
        return tensors

    @staticmethod
    def _as_worlds(value, shape: tuple[int, ...], device: torch.device):
        """Numbers of one world, or of several, as a tensor (worlds, ...); as they are where they have another shape."""
        try:
            numbers = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            return value
        if numbers.shape == shape:
            numbers = numbers[None]
        return torch.as_tensor(numbers, device=device) if numbers.shape[1:] == shape and numbers.ndim else value

    def _check_ranges(self, tensors: Mapping[str, Tensor]) -> None:
        """Refuse numbers that are not finite or outside of what a scene file may have."""
        for name, value in tensors.items():
            kind, numbers = self.kinds[name], value.detach()
            known = None if is_functorch_wrapped_tensor(numbers) else (numbers.dtype, bytes_of(numbers))
            if known and known[1] and self._checked.get(name) == known:
                continue
            low, high = (end.item() for end in numbers.aminmax()) if numbers.numel() else (0.0, 0.0)
            inside = kind.lower - END_SLACK <= low and high <= kind.upper + END_SLACK
            if math.isfinite(low + high) and (inside or name.endswith(WITHOUT_ENDS)):
                self._checked[name] = known
                continue
            legal = torch.isfinite(numbers)
            if not name.endswith(WITHOUT_ENDS):
                legal = legal & (numbers >= kind.lower - END_SLACK) & (numbers <= kind.upper + END_SLACK)
            if legal.all():
                continue
            world, number = int((~legal).nonzero()[0, 0]), numbers[~legal][0].item()
            span = "that is finite"
            if math.isfinite(kind.lower):
                span = f"of at least {kind.lower:g}"
            if math.isfinite(kind.upper):
                span = f"from {kind.lower:g} to {kind.upper:g}"
            raise InputError(f"`{name}` of world {world} is {number:g}; expected a number {span}.")

    def _check_shape(self, name: str, value: Tensor) -> None:
        kind = self.kinds[name]
        per_element = (kind.elements, *kind.value.shape)
        tensor = isinstance(value, Tensor)
        if tensor and value.ndim and value.shape[1:] in (kind.value.shape, *([per_element] if kind.elements else [])):
            return
        if tensor and kind.timed and value.ndim == 3 and value.shape[2] in (1, kind.elements):
            return  # and `_timed` looks at the intervals
        shapes = [("worlds", *kind.value.shape), *([("worlds", *per_element)] if kind.elements else [])]
        shapes += [("worlds", "frames - 1", *per_element)] if kind.timed else []
        expected = " or ".join(f"({', '.join(map(str, shape))})" for shape in shapes)
        got = f"with shape {tuple(value.shape)}" if tensor else f"as {value!r:.60}"
        column = tensor and value.ndim == 2 and value.shape[1] == 1 and not kind.value.shape
        hint = ": drop its last dimension by `squeeze(1)`" if column else ""
        raise InputError(f"`{name}` is given {got}; expected a tensor {expected}{hint}.")

    def _place(self, name: str, parameter: nn.Parameter) -> None:
        *path, last = name.split(".")
        is_new = bool(path) and path[0] not in self._modules
        if is_new and (hasattr(self, path[0]) or hasattr(type(self), path[0]) or path[0] in ("substeps", "lead")):
            raise InputError(
                f"{path[0]!r} is a name that the model or PyTorch's modules use themselves; rename it in the scene."
            )
        owner: nn.Module = self
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, nn.Module())
            inner = owner._modules[part]
            assert inner is not None
            owner = inner
        owner.register_parameter(last, parameter)

    def _program(self, group, frames: int, lead: int, segment: int):
        """Rollout of a group; its frames are the ends of all intervals."""
        return group.program(lead + self._ends(frames), self.substeps // self.density, self.dt, segment * self.density)

    def _ends(self, frames: int) -> int:
        """Number of instants that a rollout returns: frames, or those of dense output, for which two frames are the fewest."""
        return frames if self.density == 1 else self.density * (max(1, frames - 1) + self._frames_after) + 1

    @property
    def _frames_after(self) -> int:
        """Frames after the last one that a delayed camera sees."""
        return max(0, math.ceil(self.delays[1] * self.scene.timing.fps - DELAY_ROUNDING))

    @property
    def _frames_before(self) -> int:
        """Frames after a stamp at which its window begins: those that no camera sees any more."""
        return max(0, math.floor(self.delays[0] * self.scene.timing.fps))

    def _trajectory(self, states, values: Values, frames: int) -> Trajectory:
        intervals = self._intervals(frames)
        times = torch.cat([intervals.new_zeros(1), intervals.cumsum(0)]) if intervals is not None else None
        times = torch.arange(frames, dtype=torch.float64) / self.scene.timing.fps if times is None else times
        if self.density == 1:
            return Trajectory(times, states, values, self.systems, self.scenery)
        m, ends = self.density, self._ends(frames)
        select = lambda which: {b: {k: y[:, which] for k, y in state.items()} for b, state in states.items()}
        if not (self.has_shutter or self.motors.has_samples_between_frames):
            return Trajectory(times, select(m * torch.arange(frames)), values, self.systems, self.scenery)
        parts = (self._durations(max(frames, 2) + self._frames_after) / m).repeat_interleave(m)
        instants = torch.cat([parts.new_zeros(1), parts.cumsum(0)])
        first, length = m * self._frames_before - m // 2, m * (1 + self._frames_after - self._frames_before)
        begin = (m * torch.arange(frames) + first).clamp(0, ends - 1 - length)
        window = begin[:, None] + torch.arange(length + 1)
        dense = DenseOutput(instants[window] - times[:, None], select(window), self.has_shutter)
        return Trajectory(times, select(m * torch.arange(frames)), values, self.systems, self.scenery, dense)

    def _intervals(self, frames: int) -> Tensor | None:
        """Durations between frames (frames - 1,) by the clock of the video [s]; None where all are equal."""
        if self.scene.timing.stamps is None:
            return None
        times = torch.tensor([self.scene.timing.time(k) for k in range(frames)], dtype=torch.float64)
        return times.diff()

    def _durations(self, frames: int) -> Tensor:
        """The same of at least one interval, in any case."""
        count = max(frames, 2)
        intervals = self._intervals(count)
        return (
            torch.full((count - 1,), 1 / self.scene.timing.fps, dtype=torch.float64) if intervals is None else intervals
        )

    def _intervals_before(self, values: Values, touched: Collection[str] = ()) -> int:
        """Intervals between the start and the first frame: none where the first frame shows the start."""
        lead = self.lead * self.density
        if self._late:  # their windows count from the first frame; an offset is refused
            return 0
        if "timing.offset" in touched:
            return lead
        if torch.compiler.is_compiling():
            return lead if self.scene.timing.offset else 0
        return lead if values["timing.offset"].any() else 0

    def _steps(self, values: Values, frames: int, lead: int) -> Tensor:
        """Time step in each interval (worlds, lead + ends - 1) [s]."""
        rate, count = values["timing.rate"], self._ends(frames) - 1
        intervals = self._intervals(count // self.density + 1)
        if intervals is None:
            steps = (rate * self.dt)[:, None].expand(-1, count)
        else:
            steps = rate[:, None] * (intervals.to(rate) / self.substeps).repeat_interleave(self.density)
        if not lead:
            return steps
        before = values["timing.offset"] / (lead * self.substeps // self.density)
        return torch.cat([before[:, None].expand(-1, lead), steps], 1)

    def _continued(self, values: Values, start: States) -> tuple[Values, States]:
        """Both for as many worlds."""
        if self.scene.timing.stamps is not None:
            raise InputError(
                "`start` is given and the scene has `timing.stamps`, which count from its start; remove one of them."
            )
        for system in self.systems:
            if system.name not in start or set(start[system.name]) != set(system.states):
                raise InputError(
                    f"`start` has no {', '.join(system.states)} of `{system.name}`; give those of all bodies."
                )
            if getattr(system, "windows", ()):
                raise InputError(
                    f"`{system.name}` has pushes, which count from the scene's start, so it cannot start from a state; "
                    f"give it a `velocity` in their place."
                )
            if self.motors:
                raise InputError(
                    "the scene has a log, whose times count from its start, so it cannot start from a state; leave `log` out of it."
                )
            if getattr(system, "motion", ()):
                raise InputError(
                    f"`{system.name}` has a `motion`, whose times count from the scene's start, so it cannot start from "
                    "a state; give a motion that begins there in the scene, or roll out from the scene's start."
                )
        for name in [name for name, joint in self.scene.joints.items() if joint.motion is not None]:
            raise InputError(
                f"the joint `{name}` has a `motion`, whose times count from the scene's start, so bodies cannot start from "
                "a state; roll out from the scene's start."
            )
        named = {f"{s.name}.{k}": start[s.name][k] for s in self.systems for k in s.states}
        worlds = max(len(values["gravity"]), *(len(y) for y in named.values()))
        for name, count in {"overrides": len(values["gravity"]), **{name: len(y) for name, y in named.items()}}.items():
            if count not in (1, worlds):
                raise InputError(
                    f"`start` and `overrides` are for {worlds} worlds, and `{name}` for {count}; give as many, or 1."
                )
        expand = lambda y: y.to(self.dtype).expand(worlds, *y.shape[1:])
        states = {s.name: {k: expand(named[f"{s.name}.{k}"]) for k in s.states} for s in self.systems}
        return {name: v.expand(worlds, *v.shape[1:]) for name, v in values.items()}, states

    def _timed(self, values: Values, frames: int, lead: int, steps: Tensor) -> Values:
        """Values where those that have one for each frame interval also have those of the lead, that of the first, and motors
        what the log drives them with.
        """
        timed = self.driven(values, steps * (self.substeps // self.density))
        for name, kind in self.kinds.items():
            if kind.timed and values[name].ndim == 3 and name not in self.motors:
                if frames == 1 and not values[name].shape[1]:  # of a start alone
                    timed[name] = self.get_parameter(name).expand(len(values[name]))
                    continue
                if values[name].shape[1] != frames - 1:
                    entries = f"{kind.elements} or 1" if kind.elements > 1 else "1"
                    raise InputError(
                        f"`{name}` is given for {values[name].shape[1]} frame intervals; {frames} frames have "
                        f"{frames - 1}: give (worlds, {frames - 1}, {entries})."
                    )
                if self.density > 1:
                    held = values[name][:, -1:].expand(-1, self._frames_after, -1)
                    timed[name] = torch.cat([values[name], held], 1).repeat_interleave(self.density, 1)
                if lead:
                    timed[name] = torch.cat([values[name][:, :1].expand(-1, lead, -1), timed[name]], 1)
        return timed

    def driven(self, values: Values, durations: Tensor) -> Values:
        """Values where motors that the log drives have those of each interval (worlds, intervals, 1).

        Args:
            values: All parameters (worlds, ...).
            durations: Durations of the intervals from the start on (worlds, intervals) [s].
        """
        return {**values, **self.motors.driven(values, durations)} if durations.shape[1] else dict(values)

    def _longest(self, values: Values) -> float:
        """Longest interval that is cut into substeps [s]."""
        longest = max(self.scene.timing.intervals or (1 / self.scene.timing.fps,))
        between = values["timing.rate"].max().item() * longest
        return max(between, values["timing.offset"].max().item() / self.lead)

    def _check_finite(self, states, values: Values, steps: Tensor, lead: int, start: States | None) -> None:
        for system in self.systems:
            for quantity, y in states[system.name].items():
                if math.isfinite(y.detach().sum().item()):
                    continue
                bad = ~torch.isfinite(y.detach()).reshape(*y.shape[:2], -1).all(2)
                if bad.any():  # else the sum alone overflows
                    frame = int(bad.any(0).nonzero()[0])
                    world = int(bad[:, frame].nonzero()[0])
                    before = [z[world : world + 1, frame - 1].detach() for z in states[system.name].values()]
                    end = lead + frame * self.density
                    step, vertex = self._diverging_step(system, values, steps, world, end, before, start)
                    where = f" of vertex {vertex}" if y.ndim == 4 else ""
                    raise Divergence(
                        f"`{system.name}` diverges: {quantity}{where} is not finite from step {step} on "
                        f"(time {step * self.dt:.4g} s, world {world}). {self._advice(values, world)}"
                    )

    def _check_joints(self, states, values: Values, read: Sequence[tuple[Sequence[Tensor], Sequence[Tensor]]]) -> None:
        """Raise `Divergence` where steps were so long that a joint no longer holds, though all is finite.

        Args:
            states: Those of the trajectory.
            values: All parameters.
            read: Inputs of each group, and its states of the last frame.
        """
        for group, (inputs, last) in zip(self.groups, read, strict=True):
            if said := group.open_joint_message(states, values, inputs, last):
                other = self.scene.timing.integrator == "semi-implicit"
                way = "Set timing.integrator to rk4, or more substeps" if other else "Use more substeps"
                raise Divergence(f"{said}: steps are too long for it. {way} than {self.substeps}.")

    def _advice(self, values: Values, world: int) -> str:
        """Advice for a world that diverges: which values are beyond their range, else smaller steps."""
        beyond = []
        for name, value in values.items():
            low, high, x = self.kinds[name].lower, self.kinds[name].upper, value[world].detach().flatten()
            wrong = x[~((x >= low) & (x <= high))]
            if len(wrong):
                span = (
                    f"{low:g} to {high:g}" if high < math.inf else f"at least {low:g}" if low > -math.inf else "finite"
                )
                beyond.append(f"`{name}` is {wrong[0].item():.4g}; expected {span}.")
            elif name.startswith("joints.") and name.endswith(".axis") and not x.any():
                beyond.append(f"`{name}` is a direction of length 0; expected one such as (0, 0, 1).")
        steps = f"Use more substeps than {self.substeps}, or look for extreme values of its parameters."
        return " ".join(beyond) or steps

    def _diverging_step(
        self, system, values: Values, steps: Tensor, world: int, end: int, before: list[Tensor], start=None
    ) -> tuple[int, int]:
        """First step whose state is not finite, and which vertex of a soft body was fastest then: a frame for each step.

        It begins at the state `before` the interval that ends last, but where pushes or recordings count from the start.
        """
        substeps = self.substeps // self.density
        one = {name: v[world : world + 1].detach() for name, v in values.items()}
        group = next(g for g in self.groups if system in g.systems)
        recorded = getattr(group, "recorded", ()) or any(getattr(s, "motion", ()) for s in group.systems)
        alone = len(group.systems) == 1 and end > self.density and not self._late and not recorded
        first = end - self.density if alone and all(torch.isfinite(y).all() for y in before) else 0
        for name, kind in self.kinds.items():
            if kind.timed and one[name].ndim == 3:  # a value for each step; any where the start is not finite
                repeated = one[name][:, first:end].repeat_interleave(substeps, 1)
                one[name] = repeated if end else one[name][:, 0]
        inputs = group.inputs(one)
        if first:
            inputs = group.begin(inputs, {system.name: dict(zip(system.states, before, strict=True))})
        elif start is not None:
            inputs = group.begin(
                inputs, {n: {k: y[world : world + 1].detach() for k, y in s.items()} for n, s in start.items()}
            )
        program = group.program((end - first) * substeps + 1, 1, self.dt, 1)
        repeated = steps[world : world + 1, first:end].detach().repeat_interleave(substeps, 1)
        states = group.split(program.run(*inputs, repeated))[group.systems.index(system)]
        finite = torch.stack([torch.isfinite(y[0]).reshape(len(y[0]), -1).all(1) for y in states]).all(0)
        step = int((~finite).nonzero()[0]) if not finite.all() else (end - first) * substeps
        speed = torch.linalg.vector_norm(states[-1][0, max(step - 1, 0)].nan_to_num(0.0), dim=-1)
        broken = [(~torch.isfinite(y[0, step]).flatten(1).all(1)).nonzero()[:, 0] for y in states if y.ndim == 4]
        fastest = [int(rows[speed[rows].argmax()]) for rows in broken if len(rows)]  # the others follow it
        return first * substeps + step, next(iter(fastest), 0)


def delay_range(scene, others: Mapping[str, tuple[float, float]] | None = None) -> tuple[float, float]:
    """Least and largest delay of a scene's cameras that have a shutter [s]; (0, 0) without any.

    Args:
        scene: The scene.
        others: Ranges by the name of a parameter, such as `cameras.side.delay`, in place of the scene's delays.

    Raises:
        InputError: If a camera would see what was before the start.
    """
    ranges = [(0.0, 0.0)]
    for name, camera in scene.views.items():
        if camera.has_shutter:
            parameter, delay = f"{camera_prefix(name)}.delay", camera.delay or 0.0
            low, high = (others or {}).get(parameter, (delay, delay))
            if low * scene.timing.fps < MIN_DELAY - DELAY_ROUNDING:
                raise InputError(
                    f"`{parameter}` comes down to {low:g} s: the camera would see what is before the start of the simulation. Delays begin at 0 (half a frame "
                    "before it at most): let the clock be that of the camera that begins first, or give all other cameras a delay, too."
                )
            ranges.append((low, high))
    lows, highs = zip(*(ranges[1:] or ranges), strict=True)
    return min(lows), max(highs)


def _by_body(group, outputs: list[Tensor]) -> dict[str, dict[str, Tensor]]:
    """States by body and name."""
    pairs = zip(group.systems, group.split(outputs), strict=True)
    return {system.name: dict(zip(system.states, states, strict=True)) for system, states in pairs}
