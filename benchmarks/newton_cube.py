"""The cubes of `rigid.py` in Newton's SolverSemiImplicit, step by step and as a recorded graph."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import newton
import numpy as np
import warp as wp
from torch import Tensor


class NewtonCube:
    """Cubes on one ground, each in a world of its own, that start without a turn.

    Contacts are found once, and buffers hold just these. Every step has a state of its own, as a tape needs it.

    Args:
        values: Parameters of the scene in `rigid.py`, (worlds, ...) by name.
        steps: How many.
        dt: Step [s].
        size: Edge of the cube [m].
        stiffness: Of each corner [N/m].
        friction_stiffness: Of each corner [N s/m].
        friction: Coefficient.
    """

    def __init__(
        self,
        values: Mapping[str, Tensor],
        steps: int,
        dt: float,
        size: float,
        stiffness: float,
        friction_stiffness: float,
        friction: float,
    ):
        x, v, spin = (values[f"cube.{key}"].numpy() for key in ("position", "velocity", "angular_velocity"))
        mass, worlds = float(values["cube.mass"][0]), len(v)
        self.steps, self.dt = steps, dt
        material = newton.ModelBuilder.ShapeConfig(
            density=0.0, ke=stiffness, kd=0.0, kf=friction_stiffness, mu=friction
        )
        moment = mass * size**2 / 6
        one = newton.ModelBuilder()
        body = one.add_body(mass=mass, inertia=wp.mat33(moment, 0, 0, 0, moment, 0, 0, 0, moment))
        one.add_shape_box(body, hx=size / 2, hy=size / 2, hz=size / 2, cfg=material)
        scene = newton.ModelBuilder()
        scene.replicate(one, worlds)
        scene.add_ground_plane(cfg=material)
        model = scene.finalize(device="cpu", requires_grad=True)
        self.solver = newton.solvers.SolverSemiImplicit(model, angular_damping=0.0)
        self.control = model.control()
        self.states: list[Any] = [model.state() for _ in range(steps + 1)]
        upright = np.tile([0.0, 0.0, 0.0, 1.0], (worlds, 1))
        self.states[0].body_q.assign(np.concatenate([np.broadcast_to(x, v.shape), upright], 1).astype(np.float32))
        self.states[0].body_qd.assign(np.concatenate([v, spin], 1).astype(np.float32))
        pipeline = newton.CollisionPipeline(model, rigid_contact_max=4 * worlds)
        self.contacts: Any = pipeline.contacts()
        pipeline.collide(self.states[0], self.contacts)
        found = int(self.contacts.rigid_contact_count.numpy()[0])
        if found != 4 * worlds:
            raise RuntimeError(f"Newton found {found} contacts, but {worlds} cubes lie on four corners each")

    def forward(self) -> np.ndarray:
        """All steps; position, then orientation (x, y, z, w) at the end, (worlds, 7)."""
        for before, after in itertools.pairwise(self.states):
            before.clear_forces()
            self.solver.step(before, after, self.control, self.contacts, self.dt)
        return self.states[-1].body_q.numpy()

    def forward_backward(self) -> None:
        """All steps on a tape, and the gradient of the sum of the last state, in the arrays' `grad`."""
        tape = wp.Tape()
        with tape:
            self.forward()
        self.states[-1].body_q.grad.fill_(1.0)
        self.states[-1].body_qd.grad.fill_(1.0)
        tape.backward()
        tape.zero()

    def eager(self) -> dict[str, tuple[int, Callable[[], object]]]:
        """Steps and run, by kind."""
        return {"forward": (self.steps, self.forward), "forward_backward": (self.steps, self.forward_backward)}

    def graphs(self) -> dict[str, tuple[int, Callable[[], object]]]:
        """The same as recordings, which are made here, outside the time."""
        found = {}
        for kind, (steps, run) in self.eager().items():
            if not found:
                run()  # loads the kernels, which a recording cannot
            with wp.ScopedCapture(device="cpu") as capture:
                run()
            graph: Any = capture.graph
            found[kind] = steps, lambda graph=graph: wp.capture_launch(graph)
        return found
