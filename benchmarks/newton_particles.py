"""Vertices under Newton's SolverSemiImplicit, step by step and as a recorded graph; the jobs make the models."""

import itertools
from collections.abc import Callable
from typing import Any

import newton
import numpy as np
import warp as wp
from cloth_sheet import BENDING, DAMPING, DRAG, LIFT, STIFFNESS, ClothSheet
from soft_box import SoftBox


def solid(box: SoftBox) -> Any:
    """The soft box on the ground. The rest shape is where the vertices are when an element is added."""
    scene = newton.ModelBuilder()
    add_vertices(scene, box.shape, box.v, box.inverse_mass)
    materials = zip(box.mu.tolist(), box.lam.tolist(), box.damping.tolist(), strict=True)
    for (i, j, k, m), (mu, lam, damping) in zip(box.tets.tolist(), materials, strict=True):
        scene.add_tetrahedron(i, j, k, m, mu, lam, damping)
    scene.particle_q = rows(box.x)
    ke, kd, kf, mu = box.ground.values()
    scene.add_ground_plane(cfg=newton.ModelBuilder.ShapeConfig(ke=ke, kd=kd, kf=kf, mu=mu))
    model = finished(scene)
    model.soft_contact_ke, model.soft_contact_kd, model.soft_contact_kf, model.soft_contact_mu = ke, kd, kf, mu
    return model


def cloth(sheet: ClothSheet) -> Any:
    """The sheet, in no contact."""
    scene, m = newton.ModelBuilder(), len(sheet.triangles)
    add_vertices(scene, sheet.shape, sheet.v, sheet.inverse_mass)
    numbers = {"tri_ke": STIFFNESS, "tri_ka": STIFFNESS, "tri_kd": DAMPING, "tri_drag": DRAG, "tri_lift": LIFT}
    scene.add_triangles(*sheet.triangles.T.tolist(), **{name: [value] * m for name, value in numbers.items()})
    edges, count = sheet.hinges.T.tolist(), len(sheet.hinges)
    scene.add_edges(*edges, rest=[0.0] * count, edge_ke=[BENDING] * count, edge_kd=[0.0] * count)
    scene.particle_q = rows(sheet.x)
    return finished(scene)


def add_vertices(scene: newton.ModelBuilder, x: np.ndarray, v: np.ndarray, inverse_mass: np.ndarray) -> None:
    """Vertices without size, so that they touch where they are."""
    scene.default_particle_radius = 0.0
    scene.add_particles(rows(x), rows(v), [1.0 / w for w in inverse_mass.tolist()])


def rows(vectors: np.ndarray) -> list[Any]:
    """As the builder wants them."""
    vector: Any = wp.vec3
    return [vector(*row) for row in vectors.tolist()]


def finished(scene: newton.ModelBuilder) -> Any:
    """The model, with nothing between its vertices but the elements, and no limit on speed."""
    model = scene.finalize(device="cpu", requires_grad=True)
    model.particle_grid, model.particle_max_velocity = None, 1e9
    return model


class NewtonParticles:
    """A rollout of a model, and the gradient of Σ weights · x after the last step. Every step has a state of its own.

    Args:
        model: See `finished`.
        steps: How many.
        dt: Step [s].
        weights: (vertices, 3).
        collide: Whether contacts are found anew in each step, as in Newton's example of a soft body, or once before
            the clock starts, with a range that takes in every vertex.
        activation: Of each tetrahedron, or None.
    """

    def __init__(
        self,
        model: Any,
        steps: int,
        dt: float,
        weights: np.ndarray,
        collide: bool = False,
        activation: np.ndarray | None = None,
    ):
        self.model, self.steps, self.dt, self.collide = model, steps, dt, collide
        self.solver = newton.solvers.SolverSemiImplicit(model, enable_tri_contact=False)
        self.states: list[Any] = [model.state() for _ in range(steps + 1)]
        self.control: Any = model.control()
        if activation is not None:
            self.control.tet_activations.assign(activation.astype(np.float32))
        self.contacts: Any = None
        if model.shape_count:
            gap = 1e-3 if collide else 1e3
            options = {"broad_phase": "explicit", "soft_contact_gap": gap, "requires_grad": True}
            self.pipeline = newton.CollisionPipeline(model, **options)
            self.contacts = self.pipeline.contacts()
            self.pipeline.collide(self.states[0], self.contacts)
        self.weights = wp.array(weights.astype(np.float32), dtype=wp.vec3)
        self.tape = wp.Tape()

    def forward(self) -> np.ndarray:
        """All steps; positions after the last one (vertices, 3)."""
        for before, after in itertools.pairwise(self.states):
            before.clear_forces()
            contacts = self.contacts
            if self.collide:
                contacts = self.pipeline.contacts()
                self.pipeline.collide(before, contacts)
            self.solver.step(before, after, self.control, contacts, self.dt)
        return self.states[-1].particle_q.numpy()

    def forward_backward(self) -> None:
        """All steps on a tape, and the gradients."""
        self.tape.zero()
        self.tape = wp.Tape()
        with self.tape:
            self.forward()
        wp.copy(self.states[-1].particle_q.grad, self.weights)
        self.tape.backward()

    def recorded(self) -> Callable[[], object]:
        """`forward_backward` as a recording, which is made here, outside the time."""
        self.forward_backward()  # loads the kernels, which a recording cannot
        with wp.ScopedCapture(device="cpu") as capture:
            self.forward_backward()
        graph: Any = capture.graph
        return lambda: wp.capture_launch(graph)

    def gradients(self) -> dict[str, np.ndarray]:
        """By start, inverse mass, material of tetrahedra, and activation, as `SoftBox` names them."""
        start, found = self.states[0], {}
        found["x"], found["v"] = start.particle_q.grad.numpy(), start.particle_qd.grad.numpy()
        found["inverse_mass"] = self.model.particle_inv_mass.grad.numpy()
        if self.model.tet_count:
            found |= zip(("mu", "lam", "damping"), self.model.tet_materials.grad.numpy().T, strict=True)
            found["activation"] = self.control.tet_activations.grad.numpy()
        return found
