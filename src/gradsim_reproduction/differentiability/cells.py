"""The differentiability table: bodies down, quantities across, in each cell its parameters.

A cell names parameters by subject (`SUBJECTS`), or the reason why there are none: `Absent` where physics has no such quantity,
`Missing` where gradsim has not.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from gradsim_reproduction.differentiability import scenes
from gradsim_reproduction.differentiability.check import Slope, Subject, slopes
from gradsim_reproduction.differentiability.subjects import (
    MasksSubject,
    PolicySubject,
    RenderedSubject,
    ResponseSubject,
    SmokeSubject,
    TrajectorySubject,
    with_actuation,
)

COLUMNS = {  # key: title, what it means; the first twelve are the paper's
    "position": ("position", "where things are at the start: position, angle"),
    "velocity": ("velocity", "velocity and spin at the start, of each vertex where there are vertices"),
    "mass": ("mass", "mass of a body, of each vertex where there are vertices"),
    "rotation": ("rotation", "orientation at the start"),
    "rest_length": ("rest length", "lengths at which nothing pulls"),
    "stiffness": ("stiffness", "of springs, of anchors, of folds"),
    "damping": ("damping", "what takes energy inside a body or in the air, in springs and anchors"),
    "actuation": (
        "actuation",
        "what acts from inside over time: rest shapes that muscles change, motors, sources of smoke",
    ),
    "gravity": ("gravity", "as a vector"),
    "friction": ("friction", "μ and the friction stiffness of contact"),
    "elasticity": ("elasticity", "stiffness and dissipation of contact; elastic moduli"),
    "external_force": (
        "external force",
        "pushes, forces, wind, the places that springs pull to, recordings that vertices follow",
    ),
    "material": ("material", "what it is made of: density, moduli, element by element too"),
    "geometry": ("geometry", "size and shape of bodies, grounds and obstacles"),
    "camera": ("camera", "focal length, principal point, rotation, place"),
    "light": ("light", "directions, places and colours of lights"),
    "texture": ("texture", "every texel, colours, how a surface answers light"),
}
PAPER_COLUMNS = tuple(COLUMNS)[:12]
NOT_MEASURED = Slope(math.inf, None, False)


@dataclass(frozen=True)
class Absent:
    """Why physics has no such quantity."""

    reason: str


@dataclass(frozen=True)
class Missing:
    """Why gradsim has no such quantity, though there could be one."""

    reason: str


@dataclass(frozen=True)
class Row:
    """A kind of body.

    Args:
        title: For people.
        cells: By column: parameters of the subject with the row's own name, as words; or of several, by subject; or why
            there are none. Those of images are those of the subject "NAME film".
        paper: Columns that the paper's Table 6 ticks.
    """

    title: str
    cells: Mapping[str, str | Mapping[str, str] | Absent | Missing]
    paper: tuple[str, ...] = ()


CAMERA = "camera.focal camera.centre camera.rotation_vector camera.translation"
LIGHT = "lights.sky.colour lights.sun.direction lights.sun.colour lights.lamp.position lights.lamp.colour"
TEXTURE = "look.texture look.color look.diffuse look.specular look.shininess"
START = {"position": "body.position", "rotation": "body.rotation_vector", "gravity": "gravity"}
GROUND = "ground.height ground.normal ground.margin"
POST = "post.radius post.position post.margin"
FRICTION = "ground.friction ground.friction_stiffness"
JOINT_FRICTION = "joints.hinge.friction joints.hinge.friction_rate joints.wrist.friction joints.wrist.friction_rate joints.rail.friction joints.rail.friction_speed"
BOUNCE = "ground.stiffness ground.dissipation"
OPTICS = {
    "camera.distortion.k1": "-0.5:0.1",
    "camera.distortion.k2": "-0.05:0.2",
    "camera.distortion.p1": "-0.01:0.01",
    "camera.readout": "0.01:0.03",
    "camera.exposure": "0.01:0.03",
    "camera.delay": "0:0.03",
    "camera.focal": "20:40",
    "camera.distortion.p2": "-0.01:0.01",
    "camera.distortion.k3": "-0.05:0.05",
    "camera.rotation_vector.x": "-0.02:0.02",
    "camera.rotation_vector.y": "-0.02:0.02",
    "camera.rotation_vector.z": "-0.02:0.02",
    "camera.translation.x": "-0.05:0.05",
}
FISHEYE = {f"camera.fisheye.k{k}": f"{-0.1 * k}:{0.1 * k}" for k in (1, 2, 3, 4)}
RESPONSE = {"camera.gamma": "1.5:3", "camera.gain": "0.9:1.6"}
SEEN_THROUGH = Absent("seen through any camera: the rows of bodies have it")
NO_SPRINGS = Absent("a rigid body has no springs")
VERTICES = "body.velocity body.angular_velocity body.vertex_velocity"
ANCHOR = "body.anchors.0.stiffness"
JOINTED = "joints.hinge.axis joints.hinge.child_point joints.wrist.parent_point joints.hinge.upper joints.rail.axis"
ANCHOR_DAMPING = "body.anchors.0.damping"


def _rigid(subject: str, **cells: str | Mapping[str, str]) -> dict:
    return {
        **START,
        "velocity": "body.velocity body.angular_velocity",
        "mass": "body.mass",
        "rest_length": NO_SPRINGS,
        "stiffness": NO_SPRINGS,
        "damping": Absent(
            "nothing moves inside a rigid body; drag is in the first row, what a bounce loses under elasticity"
        ),
        "actuation": Absent("nothing moves inside a rigid body; forces on it stand under external force"),
        "friction": FRICTION,
        "elasticity": BOUNCE,
        "external_force": "body.pushes.0.impulse",
        "geometry": f"body.scale {GROUND}",
        **cells,
        **_video(subject),
    }


def _video(subject: str) -> dict:
    return {"camera": {subject: CAMERA}, "light": {subject: LIGHT}, "texture": {subject: TEXTURE}}


ROWS = {
    "rigid": Row(
        "Rigid body",
        _rigid(
            "rigid film",
            external_force="body.pushes.0.impulse body.pushes.1.force",
            damping={"rigid drag": "body.drag"},
            friction={"rigid": FRICTION, "rigid own": "body.friction body.friction_stiffness"},
            elasticity={
                "rigid": BOUNCE,
                "rigid own": "body.stiffness body.dissipation",
                "rigid paper": "ground.damping",
            },
            material={"rigid own": "body.density"},
        ),
        ("position", "velocity", "mass", "rotation", "gravity", "friction", "elasticity"),
    ),
    "ball": Row(
        "Ball, and obstacles",
        _rigid(
            "ball film",
            friction={
                "ball": f"{FRICTION} post.friction post.friction_stiffness",
                "ball rough": "ground.rolling_friction ground.spinning_friction post.rolling_friction",
            },
            elasticity=f"{BOUNCE} post.stiffness post.dissipation",
            geometry=f"body.scale {GROUND} {POST}",
            material={"ball own": "body.density"},
        ),
    ),
    "pendulum": Row(
        "Simple pendulum",
        {
            "position": "body.angle body.pivot",
            "velocity": "body.rate",
            "mass": Absent("it drops out of the equation of motion"),
            "rotation": Absent("it turns with its string: its angle is its position"),
            "rest_length": Absent("its string does not stretch; its length stands under geometry"),
            "stiffness": Absent("its string does not stretch"),
            "damping": "body.damping body.drag",
            "actuation": Missing("has no motor; a joint between rigid bodies has"),
            "gravity": "gravity",
            "friction": Absent("it touches nothing; what the pivot and the air take stands under damping"),
            "elasticity": Absent("it touches nothing and does not stretch"),
            "external_force": "body.force_per_mass",
            "material": Absent("its density drops out, as its mass does"),
            "geometry": "body.string_length body.radius",
            **_video("pendulum film"),
        },
        ("position", "gravity", "external_force"),
    ),
    "double_pendulum": Row(
        "Double pendulum",
        {
            "position": "body.first_angle body.second_angle body.pivot",
            "velocity": "body.first_rate body.second_rate",
            "mass": "body.first_mass body.second_mass",
            "rotation": Absent("its angles are its position"),
            "rest_length": Absent("its arms are rigid; their lengths stand under geometry"),
            "stiffness": Absent("its arms are rigid, and its hinges have no springs; joints between rigid bodies may"),
            "damping": "body.damping",
            "actuation": Missing("has no motors; joints between rigid bodies have"),
            "gravity": "gravity",
            "friction": Absent("it touches nothing; what the hinges take stands under damping"),
            "elasticity": Absent("it touches nothing, and its arms are rigid"),
            "external_force": "body.force",
            "material": Absent("its arms are points or rods of a mass, whatever they are made of"),
            "geometry": "body.first_length body.second_length body.first_radius body.second_radius",
            **_video("double_pendulum film"),
        },
        ("position", "gravity", "external_force"),
    ),
    "solid": Row(
        "Deformable solid",
        {
            **START,
            "velocity": VERTICES,
            "mass": "body.vertex_mass_factor body.density",
            "rest_length": {"solid other": "body.rest_length_factor", "solid": "body.activation"},
            "stiffness": ANCHOR,
            "damping": f"body.damping {ANCHOR_DAMPING} body.regions.tip.damping",
            "actuation": {"solid": "body.activation", "solid other": "body.activation"},
            "friction": f"{FRICTION} post.friction post.friction_stiffness",
            "elasticity": f"{BOUNCE} post.stiffness post.dissipation body.young body.poisson",
            "external_force": "body.pushes.0.impulse body.pushes.1.impulse body.anchors.0.offset",
            "material": {
                "solid": "body.density body.young body.poisson body.mu_factor body.lam_factor body.regions.tip.density",
                "solid other": "body.mu body.lam",
            },
            "geometry": {"solid": f"{GROUND} {POST}", "solid other": "body.scale"},
            **_video("solid film"),
        },
        ("position", "velocity", "mass", "rotation", "actuation", "gravity", "friction", "elasticity"),
    ),
    "cloth": Row(
        "Cloth",
        {
            **START,
            "velocity": VERTICES,
            "mass": "body.vertex_mass_factor body.density",
            "rest_length": {"cloth other": "body.rest_length_factor", "cloth": "body.activation"},
            "stiffness": f"body.bending body.mu body.lam {ANCHOR}",
            "damping": f"body.damping body.bending_damping {ANCHOR_DAMPING}",
            "actuation": {"cloth": "body.bending_activation", "cloth other": "body.activation body.bending_activation"},
            "friction": f"{FRICTION} post.friction post.friction_stiffness",
            "elasticity": f"{BOUNCE} post.stiffness post.dissipation",
            "external_force": "body.pushes.0.impulse body.anchors.0.offset body.air.wind",
            "material": {
                "cloth": "body.density body.mu body.lam body.mu_factor body.lam_factor body.air.drag body.air.lift body.air.density",
                "cloth other": "body.young body.poisson body.thickness",
            },
            "geometry": {"cloth": f"{GROUND} {POST}", "cloth other": "body.scale"},
            **_video("cloth film"),
        },
        ("position", "velocity", "mass", "rest_length", "stiffness", "damping", "friction"),
    ),
    "springs": Row(
        "Ropes and nets of springs",
        {
            **START,
            "velocity": VERTICES,
            "mass": "body.mass body.vertex_mass_factor",
            "rest_length": "body.rest_length_factor",
            "stiffness": f"body.stiffness body.stiffness_factor {ANCHOR}",
            "damping": f"body.damping {ANCHOR_DAMPING}",
            "actuation": {"springs other": "body.rest_length_factor"},
            "friction": f"{FRICTION} post.friction post.friction_stiffness",
            "elasticity": f"{BOUNCE} post.stiffness post.dissipation",
            "external_force": {
                "springs": "body.pushes.0.impulse body.anchors.0.offset",
                "springs driven": "body.motion.0.offset body.motion.0.delay body.motion_offset body.motion_rotation",
            },
            "material": {"springs other": "body.density body.stiffness"},
            "geometry": {"springs": f"body.radius {GROUND} {POST}", "springs other": "body.scale"},
            **_video("springs film"),
            "texture": {"springs film": TEXTURE.removeprefix("look.texture ")},
        },
    ),
    "rod": Row(
        "Rods",
        {
            **START,
            "velocity": VERTICES,
            "mass": "body.mass body.vertex_mass_factor",
            "rest_length": "body.curvature1 body.curvature2 body.natural_twist",
            "stiffness": f"body.stretching body.bending body.bending_ratio body.twisting {ANCHOR}",
            "damping": f"body.stretching_time body.bending_time body.twisting_time {ANCHOR_DAMPING}",
            "actuation": Missing("no muscle bends a rod; its natural curvature is one number in time"),
            "friction": f"{FRICTION} post.friction post.friction_stiffness",
            "elasticity": f"{BOUNCE} post.stiffness post.dissipation",
            "external_force": "body.pushes.0.impulse body.anchors.0.offset",
            "material": {"rod other": "body.density body.bending"},
            "geometry": {"rod": f"body.radius {GROUND} {POST}", "rod other": "body.scale"},
            **_video("rod film"),
            "texture": {"rod film": TEXTURE.removeprefix("look.texture ")},
        },
    ),
    "linkage": Row(
        "Articulated bodies",
        {
            "position": "joints.hinge.angle joints.rail.displacement",
            "velocity": "joints.hinge.rate joints.rail.speed joints.wrist.angular_velocity",
            "mass": "body.mass body.centre_of_mass hand.mass joints.hinge.armature joints.rail.armature",
            "rotation": "joints.wrist.rotation_vector",
            "rest_length": "joints.hinge.target joints.rail.target",
            "stiffness": "joints.hinge.stiffness joints.rail.stiffness joints.hinge.limit_stiffness joints.hinge.backlash joints.rail.backlash",
            "damping": "joints.hinge.damping joints.rail.damping joints.wrist.damping",
            "actuation": {
                "linkage": "joints.hinge.torque joints.rail.force",
                "linkage other": "joints.hinge.torque joints.rail.force joints.hinge.target",
            },
            "gravity": "gravity",
            "friction": f"{FRICTION} {JOINT_FRICTION}",
            "elasticity": BOUNCE,
            "external_force": "hand.pushes.0.impulse",
            "material": "weight.density",
            "geometry": f"body.scale hand.scale weight.scale {JOINTED} {GROUND}",
            **_video("linkage film"),
        },
    ),
    "pile": Row(
        "Rigid bodies that touch",
        _rigid(
            "pile film",
            position="body.position slab.position ball.position",
            velocity="body.velocity body.angular_velocity slab.velocity ball.velocity ball.angular_velocity",
            mass="body.mass ball.mass",
            rotation="body.rotation_vector slab.rotation_vector",
            friction=f"{FRICTION} contacts.touch.friction contacts.touch.friction_stiffness",
            elasticity=f"{BOUNCE} contacts.touch.stiffness contacts.touch.dissipation",
            geometry=f"body.scale slab.scale ball.scale {GROUND}",
            material="slab.density",
        ),
    ),
    "meeting": Row(
        "Soft and rigid bodies that meet",
        {
            "position": "body.position upper.position ball.position box.position",
            "velocity": "body.velocity upper.velocity ball.angular_velocity",
            "mass": "ball.mass box.mass body.density body.vertex_mass_factor",
            "rotation": "body.rotation_vector upper.rotation_vector box.rotation_vector",
            "rest_length": "body.activation",
            "stiffness": "attachments.grip.stiffness",
            "damping": "attachments.grip.damping body.damping",
            "actuation": "body.activation upper.activation",
            "gravity": "gravity",
            "friction": " ".join(f"contacts.{n}.friction contacts.{n}.friction_stiffness" for n in ("hit", "pile")),
            "elasticity": " ".join(f"contacts.{n}.stiffness contacts.{n}.dissipation" for n in ("hit", "pile")),
            "external_force": "upper.pushes.0.impulse",
            "material": "body.density body.young body.poisson upper.mu_factor",
            "geometry": "contacts.hit.thickness contacts.pile.thickness ball.scale",
            **_video("meeting film"),
        },
    ),
    "plant": Row(
        "Soft body under a policy",
        {
            **START,
            "velocity": "body.velocity body.angular_velocity body.vertex_velocity",
            "mass": "body.vertex_mass_factor body.density",
            "rest_length": Absent("the policy sets it: see actuation"),
            "stiffness": ANCHOR,
            "damping": f"body.damping {ANCHOR_DAMPING}",
            "actuation": "policy.weights.0 policy.biases.0 policy.weights.1 policy.biases.1",
            "friction": FRICTION,
            "elasticity": f"{BOUNCE} body.young body.poisson",
            "external_force": "body.pushes.0.impulse body.anchors.0.offset",
            "material": "body.density body.young body.poisson",
            "geometry": f"{GROUND} {POST}",
            "camera": Absent("this policy sees states; images of the body have their own row"),
            "light": Absent("this policy sees states; images of the body have their own row"),
            "texture": Absent("this policy sees states; images of the body have their own row"),
        },
    ),
    "smoke": Row(
        "Smoke (2-D)",
        {
            "position": "density",
            "velocity": "velocity",
            "mass": Absent("that of the fluid drops out; the weight of smoke stands under gravity"),
            "rotation": Absent("a fluid has no orientation"),
            "rest_length": Absent("a fluid keeps no shape"),
            "stiffness": Absent("a fluid keeps no shape, and this one its volume, exactly"),
            "damping": "viscosity",
            "actuation": "sources",
            "gravity": "buoyancy",
            "friction": Absent("it slips along walls; friction inside it stands under damping"),
            "elasticity": Absent("it keeps its volume exactly"),
            "external_force": "forces",
            "material": "viscosity",
            "geometry": Missing("walls and obstacles are whole cells"),
            "camera": Absent("its density is the picture"),
            "light": Absent("its density is the picture"),
            "texture": Absent("its density is the picture, and stands under position"),
        },
        ("velocity",),
    ),
}
ROWS["shutter"] = Row(
    "Camera with a lens and a shutter",
    {column: SEEN_THROUGH for column in COLUMNS if column != "camera"}
    | {
        "camera": {
            "shutter": " ".join(OPTICS),
            "shutter fisheye": " ".join(FISHEYE),
            "shutter response": " ".join(RESPONSE),
        }
    },
)
SUBJECTS: dict[str, Callable[[], Subject]] = {
    "rigid": lambda: TrajectorySubject(scenes.rigid()),
    "rigid own": lambda: TrajectorySubject(scenes.rigid(weight="density", friction=0.3, friction_stiffness=15, stiffness=2500, dissipation=0.4)),
    "rigid drag": lambda: TrajectorySubject(scenes.rigid(drag=0.8)),
    "rigid paper": lambda: TrajectorySubject(scenes.rigid("paper")),
    "ball": lambda: TrajectorySubject(scenes.ball()),
    "ball own": lambda: TrajectorySubject(scenes.ball("density")),
    "ball rough": lambda: TrajectorySubject(scenes.ball(rolling_friction=0.02, spinning_friction=0.03)),
    "pendulum": lambda: TrajectorySubject(scenes.pendulum()),
    "double_pendulum": lambda: TrajectorySubject(scenes.double_pendulum()),
    "linkage": lambda: TrajectorySubject(scenes.linkage()),
    "linkage other": lambda: with_actuation(scenes.linkage(), "joints.hinge.torque", "joints.rail.force", "joints.hinge.target"),
    "pile": lambda: TrajectorySubject(scenes.pile()),
    "meeting": lambda: TrajectorySubject(scenes.meeting()),
    "plant": lambda: PolicySubject(scenes.solid(), "body.activation"),
    "smoke": SmokeSubject,
    "shutter": lambda: MasksSubject(scenes.shutter(), OPTICS),
    "shutter fisheye": lambda: MasksSubject(scenes.fisheye(), FISHEYE),
    "shutter response": lambda: ResponseSubject(scenes.response(), RESPONSE),
    "solid": lambda: TrajectorySubject(scenes.solid()),
    "solid other": lambda: with_actuation(scenes.solid("mu"), "body.activation"),
    "cloth": lambda: TrajectorySubject(scenes.cloth()),
    "cloth other": lambda: with_actuation(scenes.cloth("young"), "body.activation", "body.bending_activation"),
    "springs": lambda: TrajectorySubject(scenes.springs()),
    "springs driven": lambda: TrajectorySubject(scenes.driven_springs()),
    "rod": lambda: TrajectorySubject(scenes.rod()),
    "rod other": lambda: TrajectorySubject(scenes.rod("density")),
    "springs other": lambda: with_actuation(scenes.springs("density", scale=0.95), "body.rest_length_factor"),
}  # fmt: skip
RECORDED = [key for key, row in ROWS.items() if row.cells["camera"] == {f"{key} film": CAMERA}]
SUBJECTS |= {f"{key} film": lambda key=key: RenderedSubject(getattr(scenes, key)()) for key in RECORDED}


@dataclass(frozen=True)
class Cell:
    """Measured result of a cell.

    Args:
        row, column: Where.
        slopes: By parameter; of several subjects as "SUBJECT: NAME".
        reason: Why there are none.
        absent: Whether there can be none.
    """

    row: str
    column: str
    slopes: Mapping[str, Slope]
    reason: str = ""
    absent: bool = False

    @property
    def status(self) -> str:
        """ "green", "red", "absent" (physics has no such quantity) or "missing" (gradsim has not)."""
        if self.reason:
            return "absent" if self.absent else "missing"
        return "green" if all(slope.green for slope in self.slopes.values()) else "red"

    @property
    def differences(self) -> float:
        """Largest relative error against central differences."""
        return max(slope.differences for slope in self.slopes.values())

    @property
    def forward(self) -> float | None:
        """Largest relative error against forward sensitivities; None where there are none."""
        return max((slope.forward for slope in self.slopes.values() if slope.forward is not None), default=None)


def parameters_of(row: str, column: str) -> dict[str, list[str]]:
    """Parameters of a cell by subject; none where there is a reason."""
    content = ROWS[row].cells[column]
    if isinstance(content, Absent | Missing):
        return {}
    return {
        subject: names.split() for subject, names in ({row: content} if isinstance(content, str) else content).items()
    }


def cell(row: str, column: str, seed: int = 0, directions: int = 2) -> Cell:
    """Measure one cell. What others of its subject need is worked out with it, and kept."""
    content = ROWS[row].cells[column]
    if isinstance(content, Absent | Missing):
        return Cell(row, column, {}, content.reason, isinstance(content, Absent))
    by_name = {}
    for subject, names in parameters_of(row, column).items():
        all_slopes = subject_slopes(subject, seed, directions)
        by_name |= {
            name if subject in (row, f"{row} film") else f"{subject}: {name}": all_slopes[name] for name in names
        }
    return Cell(row, column, by_name)


@cache
def subject_slopes(subject: str, seed: int = 0, directions: int = 2) -> dict[str, Slope]:
    """The gradients of a subject by all that the table asks of it; of images along one direction each."""
    directions = 1 if subject.endswith(" film") else directions
    names_by_cell = [parameters_of(row, column).get(subject, []) for row in ROWS for column in COLUMNS]
    return slopes(
        SUBJECTS[subject](), list(dict.fromkeys(name for names in names_by_cell for name in names)), seed, directions
    )


def from_tests(subject_slopes: Mapping[str, Mapping[str, Mapping]]) -> dict[str, dict[str, Cell]]:
    """All cells, from what their tests measured.

    Args:
        subject_slopes: Numbers of slopes by test, "ROW-COLUMN", and parameter. A cell whose test measured nothing is red.
    """
    cells: dict[str, dict[str, Cell]] = {}
    for row in ROWS:
        cells[row] = {}
        for column in COLUMNS:
            lost = {name: vars(NOT_MEASURED) for names in parameters_of(row, column).values() for name in names}
            numbers = subject_slopes.get(f"{row}-{column}", lost)
            by_name = {name: Slope(**slope) for name, slope in numbers.items()}
            cells[row][column] = Cell(row, column, by_name) if lost else cell(row, column)
    return cells
