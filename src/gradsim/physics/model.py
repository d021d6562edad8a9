"""A scene as a differentiable `torch.nn.Module`: parameters by dotted name, rollouts of many worlds at once."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from html import escape

import torch
from torch import Tensor, nn

from gradsim.engine.forward_mode import derivative
from gradsim.engine.lanes import check_dtype
from gradsim.engine.operation import is_transformed
from gradsim.errors import InputError
from gradsim.physics.dependencies import (
    CLOCK,
    read_by_images,
    read_by_log,
    read_by_motion,
    read_by_tracks,
    require_dependency,
)
from gradsim.physics.divergence import Divergence, check_finite, check_joints  # noqa: F401 -- others import it from here
from gradsim.physics.driven_motors import DrivenMotors
from gradsim.physics.forces.custom import CustomForce
from gradsim.physics.integrators import RIGID
from gradsim.physics.islands import group_into_islands
from gradsim.physics.pendulum.double import DoublePendulumBody
from gradsim.physics.pendulum.simple import PendulumBody
from gradsim.physics.repeated_calls import RepeatedCalls
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.rollout import strides_of
from gradsim.physics.rollout_inputs import RangeCheck, States, check_shape, continued_values, override_tensors
from gradsim.physics.soft.body import SoftBody
from gradsim.physics.soft.cloth import cloth_body
from gradsim.physics.soft.rod import rod_body
from gradsim.physics.soft.rope import springs_body
from gradsim.physics.soft.solid import solid_body
from gradsim.physics.static_geometry import GroundSquare, ObstacleBody
from gradsim.physics.system import Values
from gradsim.physics.time_steps import (
    count_instants,
    delay_range,
    interval_steps,
    intervals_before,
    longest_interval,
    make_trajectory,
    timed_values,
)
from gradsim.physics.trajectory import Trajectory
from gradsim.runtime.html import table
from gradsim.runtime.limits import require_steps
from gradsim.scene.parameters import Parameter, parameters

KINDS: dict[str, Callable] = {
    "rigid": RigidBody,
    "pendulum": PendulumBody,
    "double_pendulum": DoublePendulumBody,
    "solid": solid_body,
    "cloth": cloth_body,
    "springs": springs_body,
    "rod": rod_body,
}
IMPLICIT_SUBSTEPS = 8  # of implicit steps, which nothing stiff limits
MIN_SUBSTEPS_FOR_STRIDES = 64  # substeps of a frame from which on `rigid.rollout.strides_of` has a say in their number
DENSITY = 4  # intervals between two frames whose ends a trajectory has where a camera has a shutter


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
        self._ranges = RangeCheck()
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
            check_shape(name, self.kinds[name], overrides[name])
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
        values, dtype = {}, self.dtype
        may_view = not (torch.compiler.is_compiling() or is_transformed())  # views of the last call may be taken
        for name in self.kinds:
            value = overrides[name] if name in overrides else self._row(name, may_view)
            value = value if value.dtype == dtype else value.to(dtype)
            values[name] = value if value.shape[0] == worlds else value.expand(worlds, *value.shape[1:])
        return values

    def _row(self, name: str, may_view: bool) -> Tensor:
        """A parameter with the dimension of one world; where it has no graph and a view will do, that of the last call."""
        owner, key = self._owners[name]
        parameter = vars(owner)["_parameters"].get(key) if may_view else None
        if parameter is None or (parameter.requires_grad and torch.is_grad_enabled()):
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
        compiles = torch.compiler.is_compiling()
        if not compiles and torch.is_inference_mode_enabled():
            normal = lambda x: x.clone() if isinstance(x, Tensor) else x  # outside of the mode
            with (
                torch.inference_mode(False),
                torch.no_grad(),
            ):  # what is kept for later calls is for those with gradients, too
                numbers = {name: normal(x) for name, x in (overrides or {}).items()}
                begin = start and {body: {key: normal(y) for key, y in s.items()} for body, s in start.items()}
                return self.rollout(numbers, frames, segment, begin)
        if start is None and not compiles:
            trajectory = self._repeated.rollout(self, overrides or {}, frames, segment)
            if trajectory is not None:
                return trajectory
        overrides = override_tensors(self, overrides or {})
        values = self.values(overrides)
        if torch.is_grad_enabled() and not compiles:
            require_dependency(self, [name for name, v in overrides.items() if v.requires_grad])
        frames = frames or self.scene.timing.frames
        lead = intervals_before(self, values, overrides) if start is None else 0
        if start is not None:
            values, start = continued_values(self, values, start)
        steps, states = interval_steps(self, values, frames, lead), {}
        timed = timed_values(self, values, frames, lead, steps)
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
        trajectory = make_trajectory(self, states, values, frames)
        if not compiles:
            if not all(math.isfinite(y.detach().sum().item()) for y in everything):
                check_finite(self, trajectory.states, timed, steps, lead, start)
            check_joints(self, trajectory.states, values, read)
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
            for inner in module._modules.values():
                if inner is not None and inner not in known:
                    modules.append(inner)
                    known.add(inner)

    def rollout_unchecked(self, values: Values, frames: int) -> Trajectory:
        """Rollout of complete `values` (see `values`) outside autograd, not checked for divergence."""
        lead, states = intervals_before(self, values), {}
        steps = interval_steps(self, values, frames, lead).detach()
        timed = timed_values(self, values, frames, lead, steps)
        for group in self.groups:
            inputs = [x.detach() for x in group.bound_inputs(timed)]
            outputs = self._program(group, frames, lead, 1).forward([*inputs, steps])
            states |= _by_body(group, [y[:, lead:].contiguous() for y in outputs] if lead else outputs)
        return make_trajectory(self, states, values, frames)

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
        lead = intervals_before(self, values, direction)
        states, derivatives = {}, {}
        for group in self.groups:

            def inputs_of(some: Values, g=group) -> list[Tensor]:
                along = {**values, **some}
                steps = interval_steps(self, along, frames, lead)
                timed = timed_values(self, along, frames, lead, steps)
                differentiated = [
                    name for name, x in timed.items() if x is not values.get(name)
                ]  # and what is made of them
                return [*g.bound_inputs(timed, differentiated), steps]

            closed = None if lead or self.motors else group.inputs_along(values, direction)
            if closed is None:
                inputs, tangents = derivative(inputs_of, moving, direction)
            else:
                steps = [
                    interval_steps(self, x, frames, lead) if "timing.rate" in x else None for x in (values, direction)
                ]
                inputs, tangents = [*closed[0], steps[0]], [*closed[1], steps[1]]
            pairs = self._program(group, frames, lead, 1).tangent(inputs, tangents)
            for k, target in enumerate((states, derivatives)):
                parts = [pair[k] for pair in pairs]
                target |= _by_body(group, [y[:, lead:].contiguous() for y in parts] if lead else parts)
        return make_trajectory(self, states, values, frames), make_trajectory(self, derivatives, values, frames)

    def recommended_substeps(self, values: Values) -> int:
        """Steps per frame that resolve stiff forces, from `System.recommended_step`."""
        step = min((group.recommended_step(values) for group in self.groups), default=math.inf)
        if not math.isfinite(step):
            return IMPLICIT_SUBSTEPS
        steps = max(1, math.ceil(longest_interval(self, values) / step))
        rigid = [system.name for system in self.systems if isinstance(system, RigidBody)]
        if any(RIGID[self.scene.integrator_of(name)].events for name in rigid):
            while (
                steps >= MIN_SUBSTEPS_FOR_STRIDES and strides_of(steps) < 8
            ):  # a few more, that long steps of flight divide
                steps += 1
        return steps

    def check(self, values: Values) -> None:
        """Raise `InputError` if the step is unstable for these values, or a body starts inside a ground."""
        interval = longest_interval(self, values)
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
        ends = lead + count_instants(self, frames)
        return group.program(ends, self.substeps // self.density, self.dt, segment * self.density)

    def driven(self, values: Values, durations: Tensor) -> Values:
        """Values where motors that the log drives have those of each interval (worlds, intervals, 1).

        Args:
            values: All parameters (worlds, ...).
            durations: Durations of the intervals from the start on (worlds, intervals) [s].
        """
        return {**values, **self.motors.driven(values, durations)} if durations.shape[1] else dict(values)


def _by_body(group, outputs: list[Tensor]) -> dict[str, dict[str, Tensor]]:
    """States by body and name."""
    pairs = zip(group.systems, group.split(outputs), strict=True)
    return {system.name: dict(zip(system.states, states, strict=True)) for system, states in pairs}
