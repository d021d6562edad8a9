"""A twin as USD, with the schemas of UsdPhysics.

Links are prims of one level, at their places at the start: the frame of each has its origin at the center of mass and the axes of the
body of the scene. A tree of joints is an articulation. The frame of a joint has the axis of the joint as its z axis, in the parent A
and in the child Qᵀ A, with Q the orientation of the child in the parent where the coordinate is 0.

What UsdPhysics has no place for is written with the names that engines have for it, where they are equivalent:

    newton:armature, friction, limitStiffness      of joints; physxJoint:armature and physxLimit:…:stiffness for PhysX
    newton:contactStiffness, …Damping, …FrictionGain      of materials: a spring law of contact like that of the scene
    newton:inertia      the full inertia tensor in double precision; the attributes of UsdPhysics are single
    state:…:physics:position, velocity      coordinate of a joint at the start, and its rate (PhysX, Newton)

Friction and restitution belong to materials in USD and to pairs here, so two numbers are those of a pair only if both materials have
them; engines average them or take the least or the largest.
"""

from collections.abc import Mapping

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim.geometry.mesh import Mesh
from gradsim.scene.exporters.contact import Law, Soft, contacts, in_words, law_of
from gradsim.scene.exporters.mjcf import ROUND_SHAPE, header
from gradsim.scene.exporters.orientation import turn_to
from gradsim.scene.exporters.solids import Lumps
from gradsim.scene.exporters.text import numbers, real_first
from gradsim.scene.exporters.twin import Form, Hinge, Link, Static, Twin, View
from gradsim.scene.exporters.usda import Prim, identifier, stage

TYPES = {
    "revolute": "PhysicsRevoluteJoint",
    "prismatic": "PhysicsPrismaticJoint",
    "ball": "PhysicsSphericalJoint",
    "fixed": "PhysicsFixedJoint",
}
FOCAL_LENGTH = 35.0  # of cameras, in the unit of their apertures: only ratios count
CLIPPING_RANGE = (0.01, 1000.0)  # of cameras [m]
CONVENTIONS = (
    "Units: m, kg, s; angles of joints, their rates, and angular velocities in degrees, torques per degree. z is up; quaternions are "
    "(w, x, y, z). Frames of bodies: origin at the center of mass, axes as in the scene; velocities of bodies are in their own axes."
)


def usd(
    twin: Twin, timestep: float, provenance: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, Mesh], list[str]]:
    """Text of a stage of a twin by file name, no mesh files, and notes on what it cannot say.

    Args:
        twin: The twin.
        timestep: Time step [s].
        provenance: Texts by key, written as documentation and custom data of the layer.
    """
    name = identifier(twin.name)
    writer = _Writer(twin, Prim("Xform", name, f"/{name}"))
    writer.write(timestep)
    notes = list(dict.fromkeys(writer.notes))
    text = stage(writer.root, header(provenance, CONVENTIONS, notes), provenance)
    return {"model.usda": text}, {}, notes


class _Writer:
    """A stage in progress."""

    def __init__(self, twin: Twin, root: Prim):
        self.twin = twin
        self.root = root
        self.notes = list(twin.notes)
        self.laws = contacts(twin)
        self.materials: Prim | None = None
        self.bodies: dict[str, Prim] = {}

    def write(self, timestep: float) -> None:
        """Write everything."""
        self._physics(timestep)
        for static in self.twin.statics:
            self._static(static)
        for top in self.twin.children(None):
            tree = self.twin.below(top)
            jointed = top in self.twin.tree or len(tree) > 1
            parent = self.root.child("Xform", f"{top}_tree", ["PhysicsArticulationRootAPI"]) if jointed else self.root
            for name in tree:
                self._link(parent, self.twin.links[name])
            for name in [name for name in tree if name in self.twin.tree]:
                self._joint(parent, self.twin.tree[name])
        for loop in self.twin.loops:
            self._joint(self.root, loop, closes_loop=True)
        self._filter()
        for lumps in self.twin.solids.values():
            if lumps.is_sheet:
                self.notes.append(f"`{lumps.name}`: a sheet; left out.")
            else:
                self._solid(lumps)
        for view in self.twin.views:
            _camera(self.root, view)
        self.notes += [f"`{name}`: a soft body of kind {body.kind}; left out." for name, body in self.twin.soft.items()]
        self.notes += [
            f"`{force.name}`: a constant force of {numbers(force.force)} N on `{force.link}` at {numbers(force.point)}."
            for force in self.twin.forces
        ]

    def _physics(self, timestep: float) -> None:
        scene = self.root.child("PhysicsScene", "physics", ["NewtonSceneAPI"])
        strength = float(np.linalg.norm(self.twin.gravity))
        down = self.twin.gravity / strength if strength else np.array([0.0, 0.0, -1.0])
        scene.set("vector3f", "physics:gravityDirection", down)
        scene.set("float", "physics:gravityMagnitude", strength)
        scene.set("uniform int", "newton:timeStepsPerSecond", round(1 / timestep))

    def _link(self, parent: Prim, link: Link) -> None:
        body = parent.child("Xform", link.name, ["PhysicsRigidBodyAPI", "PhysicsMassAPI", "NewtonMassAPI"])
        self.bodies[link.name] = body
        body.place(link.x, link.quat_xyzw)
        turn = Rotation.from_quat(link.quat_xyzw)
        if link.name not in self.twin.tree and (np.any(link.v) or np.any(link.w)):
            body.set("vector3f", "physics:velocity", turn.inv().apply(link.v))
            body.set("vector3f", "physics:angularVelocity", np.degrees(turn.inv().apply(link.w)))
        moments, axes = np.linalg.eigh(link.inertia)
        axes[:, 2] *= np.sign(np.linalg.det(axes))
        body.set("float", "physics:mass", link.mass)
        body.set("point3f", "physics:centerOfMass", np.zeros(3))
        body.set("float3", "physics:diagonalInertia", moments)
        body.set("quatf", "physics:principalAxes", real_first(Rotation.from_matrix(axes).as_quat()))
        I = link.inertia
        body.set("double[]", "newton:inertia", [I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]])
        material = self._material_of(link)
        for k, form in enumerate(link.forms):
            self._form(body, f"shape{k}" if k else "shape", form, material)

    def _form(self, body: Prim, name: str, form: Form, material: str | None) -> None:
        prim, shift, scale = _shape(body, name, form)
        centre = form.centre + Rotation.from_quat(form.quat_xyzw).apply(shift)
        prim.place(centre, np.array(form.quat_xyzw), scale)
        prim.set("color3f[]", "primvars:displayColor", [form.color])
        if form.collides:
            _collide(prim, material)
            if prim.type == "Mesh":
                prim.schemas.append("PhysicsMeshCollisionAPI")
                prim.set("uniform token", "physics:approximation", "convexHull")
                if not form.mesh.convex:
                    self.notes.append(f"`{body.name}`: collides with the convex hull of its mesh.")
            elif form.kind in ("cylinder", "capsule", "cone"):
                self.notes.append(ROUND_SHAPE.format(body.name, form.kind))

    def _static(self, static: Static) -> None:
        scale = None
        if static.kind == "plane":
            prim = self.root.child("Plane", static.name)
            prim.set("uniform token", "axis", "Z")
            prim.set("double", "width", 0.0)  # without end
            prim.set("double", "length", 0.0)
        elif static.kind == "box":
            prim, scale = self.root.child("Cube", static.name), np.array(static.size)
            prim.set("double", "size", 1.0)
        else:
            prim = self.root.child("Sphere", static.name)
            prim.set("double", "radius", static.size[0])
        prim.place(static.position, static.quat_xyzw, scale)
        prim.set("color3f[]", "primvars:displayColor", [static.color])
        pairs = [pair for (first, _), pair in self.laws.items() if first == static.name]
        _collide(prim, self._material(f"{static.name}_material", pairs) if pairs else None)
        self.notes.append(
            f"`{static.name}`: {in_words(static.contact)}; materials have the spring law with the restitution of the first impact."
        )

    def _material_of(self, link: Link) -> str | None:
        pairs = [pair for names, pair in self.laws.items() if link.name in names]
        return self._material(f"{link.name}_material", pairs) if pairs else None

    def _material(self, name: str, pairs: list[tuple[Law, Soft]]) -> str:
        """Path of a new material with the contact numbers of a pair: of several, their mean, with a note."""
        prim = self._scope().child("Material", name, ["PhysicsMaterialAPI", "NewtonMaterialAPI"])
        table = {
            "physics:staticFriction": [law.friction for law, _ in pairs],
            "physics:dynamicFriction": [law.friction for law, _ in pairs],
            "physics:restitution": [soft.restitution for _, soft in pairs],
            "newton:contactStiffness": [law.stiffness for law, _ in pairs],
            "newton:contactDamping": [soft.damping * law.stiffness / soft.stiffness for law, soft in pairs],
            "newton:contactFrictionGain": [law.friction_stiffness for law, _ in pairs],
        }
        for key, values in table.items():
            prim.set("float", key, np.mean(values))
            if np.ptp(values) > 1e-9 * max(map(abs, values)):
                listed = ", ".join(f"{value:g}" for value in values)
                self.notes.append(f"`{name}`: {key} is the mean of those of its pairs, {listed}.")
        return prim.path

    def _joint(self, parent: Prim, joint: Hinge, closes_loop: bool = False) -> None:
        schemas = ["NewtonJointAPI", "PhysxJointAPI"] if joint.armature or joint.friction or joint.has_limits else []
        prim = parent.child(TYPES[joint.kind], joint.name, schemas)
        if joint.parent:
            prim.relate("physics:body0", [self.bodies[joint.parent].path])
        prim.relate("physics:body1", [self.bodies[joint.child].path])
        frame = turn_to(joint.axis) if joint.kind in ("revolute", "prismatic") else Rotation.identity()
        other = Rotation.from_quat(joint.quat_xyzw).inv() * frame
        for k, (point, turn) in enumerate([(joint.parent_point, frame), (joint.child_point, other)]):
            prim.set("point3f", f"physics:localPos{k}", point)
            prim.set("quatf", f"physics:localRot{k}", real_first(turn.as_quat()))
        if closes_loop:
            prim.set("uniform bool", "physics:excludeFromArticulation", True)
        if joint.kind in ("revolute", "prismatic"):
            self._coordinate(prim, joint)
        elif joint.kind == "ball":
            self._ball(prim, joint)

    def _coordinate(self, prim: Prim, joint: Hinge) -> None:
        """Axis, limits, drive and state of a hinge or slide; angles in degrees, and torques per degree."""
        kind, unit = ("angular", np.degrees(1.0)) if joint.kind == "revolute" else ("linear", 1.0)
        prim.set("uniform token", "physics:axis", "Z")
        if joint.has_limits:
            for key, end in (("lowerLimit", joint.lower), ("upperLimit", joint.upper)):
                if end is not None:
                    prim.set("float", f"physics:{key}", end * unit)
            prim.set("float", "newton:limitStiffness", joint.limit_stiffness / unit)
            prim.set("float", "newton:limitDamping", 0.0)
            prim.schemas.append(f"PhysxLimitAPI:{kind}")
            prim.set("float", f"physxLimit:{kind}:stiffness", joint.limit_stiffness / unit)
        if joint.stiffness or joint.damping:
            target = joint.target + (joint.effort / joint.stiffness if joint.stiffness else 0.0)
            prim.schemas.append(f"PhysicsDriveAPI:{kind}")
            prim.set("uniform token", f"drive:{kind}:physics:type", "force")
            prim.set("float", f"drive:{kind}:physics:stiffness", joint.stiffness / unit)
            prim.set("float", f"drive:{kind}:physics:damping", joint.damping / unit)
            prim.set("float", f"drive:{kind}:physics:targetPosition", target * unit)
        if joint.effort and joint.stiffness:
            self.notes.append(
                f"`{joint.name}`: the constant force or torque of its motor, {joint.effort:g}, is in the target of its drive."
            )
        elif joint.effort:
            self.notes.append(f"`{joint.name}`: a constant force or torque of its motor, {joint.effort:g}.")
        if joint.drag:
            self.notes.append(f"`{joint.name}`: quadratic drag of {joint.drag:g}.")
        if joint.armature:
            prim.set("float", "newton:armature", joint.armature)
            prim.set("float", "physxJoint:armature", joint.armature)
        if joint.friction:
            prim.set("float", "newton:friction", joint.friction)
            self.notes.append(
                f"`{joint.name}`: dry friction is an attribute of Newton's; set {joint.friction:g} in others."
            )
        if joint.start or joint.rate:
            prim.schemas.append(f"PhysicsJointStateAPI:{kind}")
            prim.set("float", f"state:{kind}:physics:position", float(joint.start) * unit)
            prim.set("float", f"state:{kind}:physics:velocity", float(joint.rate) * unit)

    def _ball(self, prim: Prim, joint: Hinge) -> None:
        prim.set("uniform token", "physics:axis", "Z")
        said = {"damping of {:g}": joint.damping, "dry friction of {:g}": joint.friction}
        self.notes += [f"`{joint.name}`: {words.format(value)}." for words, value in said.items() if value]
        if np.any(joint.start) or np.any(joint.rate):
            self.notes.append(
                f"`{joint.name}` at the start: {numbers(np.atleast_1d(joint.start))}, its rate {numbers(np.atleast_1d(joint.rate))}; "
                "bodies are placed there, but engines may start joints at 0."
            )

    def _solid(self, lumps: Lumps) -> None:
        """A tetrahedral mesh with the schemas proposed for deformable bodies, which engines begin to read."""
        prim = self.root.child("TetMesh", lumps.name, ["PhysicsDeformableBodyAPI", "PhysicsVolumeDeformableSimAPI"])
        prim.set("point3f[]", "points", lumps.vertices)
        prim.set("int4[]", "tetVertexIndices", lumps.cells)
        prim.set("int3[]", "surfaceFaceVertexIndices", lumps.faces)
        prim.set("color3f[]", "primvars:displayColor", [lumps.color])
        if np.any(lumps.velocities):
            prim.set("vector3f[]", "velocities", lumps.velocities)
            self.notes.append(f"`{lumps.name}`: velocities of vertices at the start, which Newton does not read.")
        material = self._scope().child(
            "Material", f"{lumps.name}_material", ["PhysicsMaterialAPI", "PhysicsVolumeDeformableMaterialAPI"]
        )
        material.set("float", "physics:density", lumps.density)
        material.set("float", "physics:youngsModulus", lumps.young)
        material.set("float", "physics:poissonsRatio", lumps.poisson)
        if lumps.collides:
            prim.schemas.append("PhysicsCollisionAPI")
        if self.twin.statics and lumps.collides:
            law = law_of(self.twin.statics[0], lumps)
            material.set("float", "physics:staticFriction", law.friction)
            material.set("float", "physics:dynamicFriction", law.friction)
        prim.schemas.append("MaterialBindingAPI")
        prim.relate("material:binding:physics", [material.path])
        if len(lumps.pinned):
            listed = " ".join(map(str, lumps.pinned.tolist()))
            self.notes.append(f"`{lumps.name}`: fixed vertices {listed}, which engines attach in ways of their own.")
        if lumps.damping_time:
            self.notes.append(f"`{lumps.name}`: damping, of {lumps.damping_time:g} s of elastic forces.")

    def _scope(self) -> Prim:
        """Prim of the materials."""
        if self.materials is None:
            self.materials = self.root.child("Scope", "materials")
        return self.materials

    def _filter(self) -> None:
        """Let only those links collide with one another that do in the scene."""
        colliding = {frozenset(pair[:2]) for pair in self.twin.pairs}
        solid = [name for name, link in self.twin.links.items() if any(form.collides for form in link.forms)]
        for k, name in enumerate(solid):
            others = [other for other in solid[k + 1 :] if frozenset((name, other)) not in colliding]
            if others:
                self.bodies[name].schemas.append("PhysicsFilteredPairsAPI")
                self.bodies[name].relate("physics:filteredPairs", [self.bodies[other].path for other in others])


def _shape(body: Prim, name: str, form: Form) -> tuple[Prim, np.ndarray, np.ndarray | None]:
    """Prim of a shape without a place, the origin of its geometry in that of the form, and its scale."""
    origin, scale = np.zeros(3), None
    if form.kind == "mesh":
        prim = body.child("Mesh", name)
        faces = np.asarray(form.mesh.faces)
        prim.set("point3f[]", "points", form.mesh.vertices)
        prim.set("int[]", "faceVertexCounts", np.full(len(faces), 3))
        prim.set("int[]", "faceVertexIndices", faces.ravel())
        prim.set("uniform token", "subdivisionScheme", "none")
        return prim, origin, scale
    prim = body.child({"box": "Cube"}.get(form.kind, form.kind.capitalize()), name)
    if form.kind == "box":
        prim.set("double", "size", 1.0)
        scale = np.array(form.size)
    else:
        prim.set("double", "radius", form.size[0])
    if form.kind in ("cylinder", "capsule", "cone"):
        prim.set("uniform token", "axis", "Z")
        prim.set("double", "height", form.size[1])
    if form.kind == "cone":  # half way up in USD; at its center of mass in the scene
        origin = np.array([0.0, 0.0, form.size[1] / 4])
    return prim, origin, scale


def _collide(prim: Prim, material: str | None) -> None:
    prim.schemas.append("PhysicsCollisionAPI")
    if material:
        prim.schemas.append("MaterialBindingAPI")
        prim.relate("material:binding:physics", [material])


def _camera(root: Prim, view: View) -> None:
    """A camera, which looks along −z with y up; its image size is an attribute of gradsim's, for USD has none."""
    (fx, _, cx), (_, fy, cy), _ = view.K
    width, height = view.size
    prim = root.child("Camera", view.name)
    prim.place(view.eye, Rotation.from_matrix(view.R.T * [1, -1, -1]).as_quat())
    prim.set("float", "focalLength", FOCAL_LENGTH)
    prim.set("float", "horizontalAperture", FOCAL_LENGTH * width / fx)
    prim.set("float", "verticalAperture", FOCAL_LENGTH * height / fy)
    prim.set("float", "horizontalApertureOffset", FOCAL_LENGTH * (width / 2 - cx) / fx)
    prim.set("float", "verticalApertureOffset", FOCAL_LENGTH * (cy - height / 2) / fy)
    prim.set("float2", "clippingRange", CLIPPING_RANGE)
    prim.set("custom int2", "gradsim:imageSize", (width, height))
