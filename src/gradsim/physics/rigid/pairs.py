"""Pairs of rigid bodies of a scene in contact: their shapes and contact parameters (`contact/convex_kernels.py`)."""

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import Lane, members, specialize
from gradsim.engine.layout import Layout
from gradsim.errors import InputError
from gradsim.numerics import rotation
from gradsim.physics.contact.convex_reference import Placed, depth
from gradsim.physics.contact.convex_shape import Core, make_core
from gradsim.physics.contact.impact import IMPACT_STEP_FACTOR
from gradsim.physics.contact.laws import contact_functions
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.many.columns import Column
from gradsim.physics.rigid.many.stack import BodyStack
from gradsim.physics.system import STEP_SAFETY, Values
from gradsim.runtime.warp_init import init_warp

if TYPE_CHECKING:
    from gradsim.physics.contact import convex_kernels, feature_contact_kernels, narrow_phase_kernels
else:
    convex_kernels = "gradsim.physics.contact.convex_kernels"
    feature_contact_kernels = "gradsim.physics.contact.feature_contact_kernels"
    narrow_phase_kernels = "gradsim.physics.contact.narrow_phase_kernels"

NUMBERS = ("stiffness", "dissipation", "friction_stiffness", "friction")
ELEMENTS_PER_CONTACT = 8  # elements of one pair that carry together: the corners of two faces that lie on one another
MAX_OVERLAP = 1e-3  # of the smaller reach: how far bodies may start inside one another
NEIGHBOURS = 2  # a body between two others is held as stiffly as by both


class _Solids(NamedTuple):
    """Bodies of one core in the world: corners (m, n, 3), normals (m, k, 3) and levels (m, k) of their faces, and radii (m,) of their skins [m]."""

    corners: np.ndarray
    normals: np.ndarray
    levels: np.ndarray
    radius: np.ndarray

    @classmethod
    def of(cls, core: Core, x: np.ndarray, scale: np.ndarray, turn: np.ndarray) -> "_Solids":
        """A core of some sizes (m,) at x (m, 3), turned (m, 3, 3)."""
        back, size = np.swapaxes(turn, 1, 2), scale[:, None]
        normals = core.normals @ back
        levels = size * core.levels + (normals @ x[:, :, None])[..., 0]
        return cls(x[:, None] + size[..., None] * (core.corners @ back), normals, levels, scale * core.radius)

    def rows(self, index: np.ndarray) -> "_Solids":
        """Some of them."""
        return _Solids(*(y[index] for y in self))

    def face_gaps(self, other: "_Solids") -> np.ndarray:
        """Distance (m,) of each from the one of `other` along the normal of the face that keeps them farthest apart; -inf if neither has a face."""
        gaps = np.full(len(self.radius), -np.inf)
        for a, b in ((self, other), (other, self)):
            if b.levels.shape[1]:
                heights = (b.normals @ np.swapaxes(a.corners, 1, 2)).min(2) - b.levels
                gaps = np.maximum(gaps, heights.max(1))
        return gaps - self.radius - other.radius


class Pairs:
    """Pairs of bodies that touch.

    Args:
        bodies: All bodies of the rollout.
        cores: What each is made of.
        contacts: Name of the scene's contact for each pair of places in `bodies`.
    """

    names = ("scale", *NUMBERS)

    def __init__(self, bodies: Sequence[RigidBody], cores: Sequence[Core], contacts: Mapping[tuple[int, int], str]):
        self.bodies, self.cores, self.contacts = tuple(bodies), tuple(cores), dict(contacts)

    @property
    def sizes(self) -> dict[str, int]:
        """Entries of each of `names` per world."""
        return {name: len(self.bodies if name == "scale" else self.contact_names) for name in self.names}

    @cached_property
    def stack(self) -> BodyStack:
        """The bodies side by side."""
        return BodyStack(self.bodies)

    @cached_property
    def contact_names(self) -> list[str]:
        """Contacts of the scene that the pairs belong to, each once."""
        return list(dict.fromkeys(self.contacts.values()))

    def bind(self, lane: Lane) -> dict:
        """Names for `specialize` that a template that moves the bodies needs."""
        code = pair_code(lane)
        adjoints = () if lane.dual else ("add_pair_adjoints", "all_pair_powers")
        return members(code, "PairShape", "PairNumbers", "NearPairs", "add_pairs", *adjoints)

    def shape(self, code, layout: Layout, device: torch.device):
        """The `PairShape` of a template."""
        return _shape(self, code, layout, str(device))

    def empty_list(self, code, layout: Layout, worlds: int, device: torch.device):
        """The `NearPairs` of a template before pairs are listed."""
        near = code.NearPairs()
        near.pair = wp.zeros((layout.packs(worlds), len(self.contacts) + 1), dtype=wp.int32, device=str(device))
        near.anchor = layout.zeros("Vec3", worlds, (len(self.cores),), device)
        return near

    def inputs(self, values: Values) -> list[Tensor]:
        """The numbers of `names`, (worlds, n) each."""
        return [self.stack.numbers("scale", values), *(column.of(values) for column in self._columns)]

    @cached_property
    def _columns(self) -> list[Column]:
        """`NUMBERS` of all contacts."""
        return [Column([f"contacts.{name}.{key}" for name in self.contact_names]) for key in NUMBERS]

    def stable_step(self, values: Values) -> float:
        """From n k h²/m + 2 n k_f h/m < 4, as of one body on the ground, with 1/m = 1/m_a + 1/m_b, of each pair.

        A single point that carries turns the bodies too: it has 1/m_a + r_a²/I_a and so on. Dissipation is 0 at touch and
        does not count.
        """
        return self._stable_step(values)

    def recommended_step(self, values: Values, speeds: Sequence[Tensor]) -> float:
        """Step [s] that resolves contact; `speeds` (worlds,) [m/s] at which a point of each body can meet something."""
        return min(STEP_SAFETY * self.stable_step(values), IMPACT_STEP_FACTOR * self._stable_step(values, speeds))

    def _stable_step(self, values: Values, speeds: Sequence[Tensor] = ()) -> float:
        """See `stable_step`; with `speeds` also the dissipation at those of the impact (`contact/impact.py`)."""
        light, turning = self._mobilities(values)
        speed = torch.stack([x.expand(light.shape[1]) for x in speeds]) if speeds else light.new_zeros(light.shape)
        first, second = torch.tensor(self.arrays["bodies"], dtype=torch.int64, device=light.device).T
        single = torch.tensor([len(core.corners) == 1 for core in self.cores], device=light.device)
        elements = torch.where(single[first] | single[second], 1.0, ELEMENTS_PER_CONTACT).to(light)[:, None]
        contact = torch.tensor(self.arrays["contact"], dtype=torch.int64, device=light.device)
        k, loss, drag = (column.of(values).detach().T[contact] for column in self._columns[:3])
        worst = math.inf
        for inverse in ((light[first] + light[second]) * elements, turning[first] + turning[second]):
            stiff, damp = NEIGHBOURS * k * inverse, 2 * NEIGHBOURS * drag * inverse
            if speeds:
                damp = damp + 2 * loss * (speed[first] + speed[second]) * torch.sqrt(stiff)
            worst = min(worst, (8 / (damp + torch.sqrt(damp**2 + 16 * stiff))).min().item())
        return worst

    def check(self, values: Values, x: Tensor, q: Tensor) -> None:
        """Raise `InputError` if bodies start inside one another by a thousandth of the smaller one's size or more.

        Args:
            values: Parameters.
            x: Centres of mass (worlds, bodies, 3).
            q: Orientations (worlds, bodies, 4).
        """
        x, q = x.detach(), q.detach()
        scales = self.stack.numbers("scale", values).detach().expand(len(x), -1)
        host = (y.cpu().double().numpy() for y in (x, scales, rotation.to_matrix(q)))
        alike: dict[int, list[int]] = {}  # bodies by their core
        for k, core in enumerate(self.cores):
            alike.setdefault(id(core), []).append(k)
        kind, row = np.zeros(len(self.cores), int), np.zeros(len(self.cores), int)
        for number, same in enumerate(alike.values()):
            kind[same], row[same] = number, np.arange(len(same))
        reaches = np.array([core.reach for core in self.cores])
        for world, (place, size, turn) in enumerate(zip(*host, strict=True)):
            solids = [_Solids.of(self.cores[m[0]], place[m], size[m], turn[m]) for m in alike.values()]
            reach, (first, second) = size * reaches, self.arrays["bodies"].T
            near = self.arrays["bodies"][_distance(place[first], place[second]) <= reach[first] + reach[second]]
            for a, b in near[self._may_overlap(near, solids, kind, row, reach)]:
                overlap = depth(*(Placed(self.cores[k], x[world, k], q[world, k], scales[world, k]) for k in (a, b)))
                if overlap > MAX_OVERLAP * min(reach[a], reach[b]):
                    names = self.bodies[a].name, self.bodies[b].name
                    raise InputError(
                        f"`{names[0]}` starts {overlap:.4g} m inside `{names[1]}`; move one of them away from the other "
                        "by that much."
                    )

    @staticmethod
    def _may_overlap(
        pairs: np.ndarray, solids: Sequence[_Solids], kind: np.ndarray, row: np.ndarray, reach: np.ndarray
    ) -> np.ndarray:
        """True for each pair (m, 2) that no face keeps apart; else its cores are apart, so edges do not cross.

        Args:
            pairs: Places of two bodies each.
            solids: Bodies of each core.
            kind, row: Core of each body, and its place among those of that core.
            reach: Of each body [m].
        """
        overlaps = np.zeros(len(pairs), bool)
        kinds = kind[pairs]
        for a, b in np.unique(kinds, axis=0):
            which = np.flatnonzero((kinds == (a, b)).all(1))
            first, second = pairs[which].T
            one, other = solids[a].rows(row[first]), solids[b].rows(row[second])
            allowed = np.minimum(MAX_OVERLAP * np.minimum(reach[first], reach[second]), one.radius + other.radius)
            overlaps[which] = -one.face_gaps(other) > allowed
        return overlaps

    def _mobilities(self, values: Values) -> tuple[Tensor, Tensor]:
        """1/m of each body, and the largest of 1/m + (r × n)·I⁻¹(r × n) where one of its corners touches, (bodies, worlds)."""
        stack, alike = self.stack, {}  # bodies by their number of corners
        for k, core in enumerate(self.cores):
            alike.setdefault(len(core.corners), []).append(k)
        masses = (1 / stack.mass(values).detach()).T
        inverses = torch.linalg.inv(stack.inertia(values).detach())
        sizes = stack.numbers("scale", values).detach()
        turning = torch.zeros_like(masses)
        for bodies in alike.values():
            arms = masses.new_tensor(np.stack([_arms(self.cores[k]) for k in bodies]))  # (bodies, corners, 3)
            arms = arms[:, None] * sizes[:, bodies].T[..., None, None]
            inverse = inverses[:, bodies].transpose(0, 1)
            lever = torch.linalg.cross(arms[..., None, :], torch.eye(3).to(arms).expand(*arms.shape[:3], 3, 3))
            turning[bodies] = torch.linalg.eigvalsh(lever @ inverse[:, :, None] @ lever.mT)[..., -1].amax(-1)
        return masses, masses + turning

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The fields of `PairShape` but for its slack."""
        first, place = lambda counts: np.cumsum([0, *counts]), {name: k for k, name in enumerate(self.contact_names)}
        edges = [(c.corners[c.ends[:, 0]], c.corners[c.ends[:, 1]] - c.corners[c.ends[:, 0]]) for c in self.cores]
        along = np.concatenate([e for _, e in edges])
        square = (along**2).sum(1)
        inverse = np.where(square > 0, 1 / np.where(square > 0, square, 1), 0.0)
        return {
            "bodies": np.array(list(self.contacts), np.int32),
            "contact": np.array([place[name] for name in self.contacts.values()], np.int32),
            "first_corner": first(len(c.corners) for c in self.cores),
            "first_edge": first(len(c.ends) for c in self.cores),
            "first_face": first(len(c.normals) for c in self.cores),
            "corner": np.concatenate([c.corners for c in self.cores]),
            "begin": np.concatenate([begin for begin, _ in edges]),
            "along": along,
            "direction": along * np.sqrt(inverse)[:, None],
            "outward": np.concatenate([c.outward for c in self.cores]),
            "inverse_square": inverse,
            "normal": np.concatenate([c.normals for c in self.cores]),
            "level": np.concatenate([c.levels for c in self.cores]),
            "radius": np.array([c.radius for c in self.cores]),
            "reach": np.array([c.reach for c in self.cores]),
        }


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distances (m,) of places (m, 3) from others [m]."""
    return np.linalg.norm(a - b, axis=1)


def _arms(core: Core) -> np.ndarray:
    """Places of the skin above the corners of a core (n, 3)."""
    length = np.linalg.norm(core.corners, axis=1, keepdims=True)
    return core.corners + core.radius * np.where(
        length > 0, core.corners / np.where(length > 0, length, 1), [1.0, 0, 0]
    )


@cache
def pair_code(lane: Lane):
    """The template `contact/convex_kernels.py` for a lane type; the law is `continuous`."""
    search = "PairShape", "NearPairs", "is_point", "list_near", "may_touch", "axes_between", "height_above", "nearest"
    search += "near_edge", "clamped", "touching_edges"
    touch = "point_touch", "edge_touch", "contact_between", "edge_couple", "point_power", "edge_power"
    functions = members(search_code(lane), *search) | members(touch_code(lane), *touch)
    return specialize(convex_kernels, lane, **functions)


@cache
def search_code(lane: Lane):
    """The template `contact/narrow_phase_kernels.py`."""
    return specialize(narrow_phase_kernels, lane)


@cache
def touch_code(lane: Lane):
    """The template `contact/feature_contact_kernels.py`."""
    force = contact_functions("continuous", lane)["contact_force"]
    return specialize(feature_contact_kernels, lane, contact_force=force)


@lru_cache(maxsize=64)
def _shape(pairs: Pairs, code, layout: Layout, device: str):
    init_warp()
    point, scalar = layout.types["Point"], layout.types["Scalar"]
    shape = code.PairShape()
    for name, array in pairs.arrays.items():
        kind = wp.int32 if array.dtype.kind == "i" else point if array.ndim == 2 and name != "bodies" else scalar
        dtype = np.int32 if kind is wp.int32 else wp.dtype_to_numpy(scalar)
        setattr(shape, name, wp.array(array.astype(dtype), dtype=kind, device=device))
    size = max(core.reach for core in pairs.cores)
    shape.slack = (1e-12 if layout.lane.dtype == "float64" else 1e-6) * size
    return shape


def make_pairs(bodies: Sequence[RigidBody], scene) -> Pairs | None:
    """The pairs among bodies that contacts of the scene name; None if there are none.

    Where a contact is between `all`, bodies that a joint holds together do not touch.
    """
    place = {body.name: k for k, body in enumerate(bodies)}
    held = {frozenset(joint.between) for joint in scene.joints.values()}
    contacts: dict[tuple[int, int], str] = {}
    for name, meeting in scene.contacts.items():
        names = meeting.names(scene.bodies)
        if not meeting.rigid(scene.bodies) or not set(names) <= set(place):
            continue
        is_default = names != meeting.between
        pairs = itertools.combinations(names, 2)
        if is_default and held:
            pairs = (pair for pair in pairs if frozenset(pair) not in held)
        contacts |= {(place[a], place[b]): name for a, b in pairs}
    if not contacts:
        return None
    cores: dict[tuple, Core] = {}
    return Pairs(bodies, [_core(body, cores) for body in bodies], contacts)


def _core(body: RigidBody, cores: dict[tuple, Core]) -> Core:
    """The core of a body: that of another one that is alike, or a new one, which `cores` keep."""
    shape, hull = body.body.shape, body.body.collision == "hull"
    alike = shape, body.centre.tobytes(), hull
    if alike not in cores:
        cores[alike] = make_core(shape, shape.mesh(), body.centre, hull, body.name)
    return cores[alike]
