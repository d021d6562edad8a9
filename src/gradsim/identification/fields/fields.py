"""Fields: unknown arrays, such as the mass or velocity of every vertex, and their smoothness prior.

Positive quantities are parametrized by their logarithm, others by a scale, so that errors of all entries are comparable:
u = log q, or q / scale. Entries without effect, those of pinned vertices, keep the scene's values.

`Smooth` is a Gaussian process prior on the mesh (Lindgren, Rue, Lindström 2011):

    B = (1 + ℓ² L) / s,    r = B (u − mean),    prior = ½ ‖r‖²          (Eq. 10 there, α = 2)

L is the graph Laplacian of neighbours at distances d, weighted to approximate −∇²: L_ij = −w/d_ij², w = 2 D over the mean
number of neighbours, D the dimension of the body. In a solid the correlation falls as exp(−r/ℓ). s normalizes the root
mean square of the standard deviations to `std`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import splu
from torch import Tensor

from gradsim.errors import InputError
from gradsim.physics.model import Model
from gradsim.physics.system import Values
from gradsim.scene.parameters import Parameter

PROBES = 64  # random vectors of the estimate of the mean variance, accurate to 1/√(64 n/2) of it


@dataclass(frozen=True)
class Smooth:
    """Smoothness prior of a field.

    Args:
        std: Standard deviation about the mean: of the logarithm of a positive quantity, else in its unit.
        length: Correlation length [m]; 0 for independent values.
        mean: Mean, in the quantity's unit; None: the scene's value.

    Raises:
        InputError: If `std` is not above 0, or `length` negative.
    """

    std: float
    length: float = 0.0
    mean: float | None = None

    def __post_init__(self):
        if not 0 < self.std < np.inf or not 0 <= self.length < np.inf:
            raise InputError(f"a prior has std {self.std} and length {self.length} m; std > 0 and length >= 0, finite.")

    def factor(self, places: np.ndarray, edges: np.ndarray, dimension: int) -> sparse.csc_array:
        """B (n, n): the inverse of a root of the covariance.

        Args:
            places: (n, 3) [m].
            edges: Neighbours (e, 2).
            dimension: Dimension of the body.
        """
        n = len(places)
        B = sparse.eye_array(n, format="csc")
        if self.length and len(edges):
            a, b = edges.T
            weight = 1 / np.square(places[a] - places[b]).sum(1)
            weight *= 2 * dimension / (2 * len(edges) / n)
            W = sparse.coo_array((weight, (a, b)), (n, n))
            W = W + W.T
            B = sparse.csc_array(B + self.length**2 * (sparse.diags_array(W.sum(1)) - W))
            probes = np.random.default_rng(0).standard_normal((n, PROBES))
            B = B * np.sqrt(np.square(splu(B).solve(probes)).mean())
        return sparse.csc_array(B / self.std)


def neighbours(index: np.ndarray, n: int, vertices: bool) -> np.ndarray:
    """Pairs (e, 2) of vertices that share an element, or of elements that share a side.

    Args:
        index: Vertices of the elements (m, nodes).
        n: Number of vertices.
        vertices: Which of the two.
    """
    m, nodes = index.shape
    contains = sparse.coo_array((np.ones(m * nodes, np.int64), (np.repeat(np.arange(m), nodes), index.ravel())), (m, n))
    shared = sparse.triu((contains.T @ contains) if vertices else (contains @ contains.T), 1).tocoo()
    enough = shared.data >= (1 if vertices else max(1, nodes - 1))
    return np.stack([shared.row[enough], shared.col[enough]], 1)


@dataclass(frozen=True)
class Field:
    """An unknown array.

    Args:
        name: Name of an array of a soft body ("flag.vertex_velocity"), or of a material parameter to be estimated per
            element ("beam.activation").
        scale: Reference size of a quantity that is not positive by nature, in its unit; errors are relative to it.
        prior: Prior; None: none.
        low: Lower end of the range of random starts; None: all start at the scene's values.
        high: Upper end of the range.
    """

    name: str
    scale: float | None = None
    prior: Smooth | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, eq=False)
class Piece:
    """One field among the unknowns.

    Args:
        field: The field.
        kind: Its parameter.
        entries: Indices of the unknown entries in the flattened array (k,), row by row.
        columns: Columns among all unknowns.
        places: Position of each row at rest (rows, 3) [m].
        elements: Vertices of each row: (rows, nodes), or (rows, 1) for vertices.
        edges: Neighbouring rows (e, 2).
        dimension: Dimension of the body: 3 for a solid, 2 for a sheet, 1 for springs.
    """

    field: Field
    kind: Parameter
    shape: tuple[int, ...]
    entries: Tensor
    columns: slice
    places: np.ndarray
    elements: np.ndarray
    edges: np.ndarray
    dimension: int

    @property
    def width(self) -> int:
        """Numbers in a row: 3 of a velocity."""
        return math.prod(self.shape[1:])

    @property
    def rows(self) -> np.ndarray:
        """Unknown rows."""
        return np.unique(self.entries.numpy() // self.width)

    @property
    def scale(self) -> float:
        """Increment of an entry per unit of u, of a quantity that is not positive."""
        return self.field.scale or 1.0

    def whole(self, given: np.ndarray, elsewhere) -> np.ndarray:
        """Scatter values of the unknown entries into an array of the field's shape."""
        full = np.full(math.prod(self.shape), elsewhere, np.float64)
        full[self.entries.numpy()] = given
        return full.reshape(self.shape)


class FieldSpace:
    """Vector of the unknowns of all fields.

    Args:
        model: Model of the scene.
        fields: Names or `Field`s.

    Raises:
        InputError: If a name is not an array or a parameter per element, is given twice, lacks a required scale, or has an
            invalid range.
    """

    def __init__(self, model: Model, fields: Sequence[str | Field]):
        if not fields:
            raise InputError("nothing to identify: name at least one array, such as flag.vertex_velocity.")
        self.model, self.pieces = model, []
        for item in fields:
            self._add(Field(item) if isinstance(item, str) else item)
        log = [torch.full((len(p.entries),), p.kind.positive) for p in self.pieces]
        self.logarithmic = torch.cat(log).tolist()
        self.low = torch.full((len(self),), -torch.inf, dtype=torch.float64)
        self.high = -self.low

    def __len__(self) -> int:
        return self.pieces[-1].columns.stop

    @property
    def unit(self) -> Tensor:
        """Change of each unknown that counts as 100 % (unknowns,): u is a logarithm or a share of a scale, so 1."""
        return torch.ones(len(self), dtype=torch.float64)

    def values(self, u: Tensor) -> Values:
        """Arrays (worlds, ...) by name from u (worlds, unknowns); differentiable."""
        return {p.field.name: self._array(p, u[:, p.columns]) for p in self.pieces}

    def inner(self, values: Values) -> Tensor:
        """u (worlds, unknowns) from arrays (worlds, ...) by name; a number applies to all entries."""
        parts = []
        for p in self.pieces:
            value = values[p.field.name].double()
            rows = value.reshape(len(value), -1)[:, p.entries if value.ndim > 1 else [0] * len(p.entries)]
            parts.append(rows.log() if p.kind.positive else rows / p.scale)
        return torch.cat(parts, 1)

    def start(self) -> Tensor:
        """u (unknowns,) at the scene's values."""
        return self.inner({p.field.name: torch.tensor(p.kind.value)[None] for p in self.pieces})[0]

    def draw(self, rng: np.random.Generator, count: int) -> Tensor:
        """Starts (count, unknowns): uniform in u over the ranges of the fields that have one."""
        samples = self.start().repeat(count, 1)
        for p in self.pieces:
            if p.field.low is not None and p.field.high is not None:
                ends = np.array([p.field.low, p.field.high])
                low, high = np.log(ends) if p.kind.positive else ends / p.scale
                samples[:, p.columns] = torch.tensor(rng.uniform(low, high, (count, len(p.entries))))
        return samples

    def labels(self, k: int) -> tuple[str, int, int]:
        """Field, row and place in the row of unknown k."""
        (p,) = [p for p in self.pieces if p.columns.start <= k < p.columns.stop]
        entry = int(p.entries[k - p.columns.start])
        return p.field.name, entry // p.width, entry % p.width

    def _array(self, p: Piece, own: Tensor) -> Tensor:
        base = torch.tensor(np.broadcast_to(p.kind.value, p.shape).copy(), dtype=own.dtype).flatten()
        numbers = own.exp() if p.kind.positive else own * p.scale
        if len(p.entries) < len(base):
            place = torch.zeros(len(base), dtype=torch.long)
            place[p.entries] = torch.arange(len(p.entries))
            known = torch.ones(len(base), dtype=torch.bool)
            known[p.entries] = False
            numbers = torch.where(known, base, numbers[:, place])
        return numbers.reshape(len(own), *p.shape)

    def _add(self, field: Field) -> None:
        name, kinds = field.name, self.model.kinds
        arrays = [n for n, k in kinds.items() if k.row_of or k.elements]
        if name not in arrays:
            has = ", ".join(arrays) or "none: it has no soft body"
            raise InputError(
                f"`{name}` is not an array of the scene, which has {has}. A number is an unknown of `identify`."
            )
        if name in [p.field.name for p in self.pieces]:
            raise InputError(f"`{name}` is named twice; remove one of them.")
        kind = kinds[name]
        if not kind.positive and field.scale is None:
            unit = f" in {kind.unit}" if kind.unit else ""
            raise InputError(f"field `{name}` needs a `scale`: how much of it counts as 100 %{unit}, such as 1.0.")
        if field.scale is not None and not 0 < field.scale < math.inf:
            raise InputError(f"`scale` of field `{name}` is {field.scale:g}; it has to be above 0 and finite.")
        _check_range(field, kind)
        (system,) = [s for s in self.model.systems if s.name == name.split(".")[0]]
        body = system.deformable
        assert body is not None  # only these have arrays
        shape = kind.value.shape if kind.row_of else (kind.elements,)
        rest, width = body.rest.cpu().double().numpy(), math.prod(shape[1:])
        main = body.elements_of("")  # tetrahedra, triangles or springs
        entries = torch.arange(math.prod(shape))
        if kind.row_of == "vertex":
            index, elements, places = main, np.arange(len(rest))[:, None], rest
            entries = entries.reshape(-1, width)[body.free > 0].flatten()
        else:
            index = body.elements_of(name.split(".", 1)[1])
            elements = index.numpy()
            places = rest[elements].mean(1)
        edges = neighbours(index.numpy(), len(rest), kind.row_of == "vertex")
        first = self.pieces[-1].columns.stop if self.pieces else 0
        columns = slice(first, first + len(entries))
        piece = Piece(field, kind, shape, entries, columns, places, elements, edges, min(3, main.shape[1] - 1))
        self.pieces.append(piece)


def _check_range(field: Field, kind: Parameter) -> None:
    low, high = field.low, field.high
    if (low is None) != (high is None):
        raise InputError(f"field `{field.name}` has one end of a range; give both `low` and `high`, or none.")
    if low is None or high is None:
        return
    least = "above 0" if kind.positive else f"from {kind.lower:g} to {kind.upper:g}"
    if not low < high or low < kind.lower or high > kind.upper or (kind.positive and low <= 0):
        raise InputError(
            f"the range {low:g} to {high:g} of field `{field.name}` is none; it needs low < high, {least}."
        )
