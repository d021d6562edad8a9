"""Parameters of many bodies or joints as one tensor of each kind, and functions of them that are bound (`engine/bound_function.py`)."""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property

import torch
from torch import Tensor

from gradsim.engine.bound_function import BoundFunction
from gradsim.physics.system import Values


class Column:
    """Parameters of one kind, (worlds, ...) each.

    Args:
        names: Their names.
    """

    def __init__(self, names: Sequence[str]):
        self.names = list(names)

    @cached_property
    def key(self) -> str:
        """Name of the tensor of all of them; no parameter has a name with a space."""
        return " ".join(["", *self.names])

    def of(self, values: Values) -> Tensor:
        """(worlds, n, ...)."""
        whole = values.get(self.key)
        if whole is not None:
            return whole
        return torch.stack(self.parts(values), 1)

    def is_even(self, values: Values) -> bool:
        """True if all of them have one shape, so that they are one tensor."""
        return self.key in values or are_even(self.parts(values))

    def parts(self, values: Values) -> list[Tensor]:
        """The parameters in order."""
        if isinstance(values, _Reads):
            values.columns[self.key] = self
            return values.values_of(self.names)
        return [values[name] for name in self.names]


def are_even(parts: Sequence[Tensor]) -> bool:
    """True if tensors have one shape."""
    return all(part.shape == parts[0].shape for part in parts)


class _Reads(dict[str, Tensor]):
    """Parameters, and notes of which are read in columns and which by themselves."""

    def __init__(self, values: Values):
        super().__init__(values)
        self.columns: dict[str, Column] = {}
        self.names: dict[str, None] = {}

    def __getitem__(self, name: str) -> Tensor:
        self.names[name] = None
        return super().__getitem__(name)

    def get(self, name: str, default=None):  # pyright: ignore[reportIncompatibleMethodOverride] -- of dictionaries of tensors
        value = super().get(name, default)
        if value is not default:
            self.names[name] = None
        return value

    def values_of(self, names: Sequence[str]) -> list[Tensor]:
        """Parameters that are read in a column."""
        return [super(_Reads, self).__getitem__(name) for name in names]


class _Columns(dict[str, Tensor]):
    """Columns and parameters by name, where `in` says what is a parameter of the model.

    Args:
        tensors: Columns by `Column.key`, and other parameters by name.
        known: Names of all parameters.
    """

    def __init__(self, tensors: Values, known: Collection[str]):
        super().__init__(tensors)
        self.known = known

    def __contains__(self, name) -> bool:
        return name in self.known or super().__contains__(name)

    def get(self, name: str, default=None):  # pyright: ignore[reportIncompatibleMethodOverride] -- of dictionaries of tensors
        return self[name] if name in self.known else super().get(name, default)


class BoundColumns:
    """A function of all parameters that reads the same ones at each call, most of them in columns.

    Args:
        function: Parameters to a list of tensors, as for `BoundFunction`.
    """

    def __init__(self, function: Callable[[Values], list[Tensor]]):
        self.function = function
        self.reads: _Reads | None = None
        self.known: frozenset[str] = frozenset()
        self.bound = BoundFunction(self.of_sources)  # a method, which a copy of this has for itself

    def sources(self, values: Values) -> dict[str, list[str]] | None:
        """Parameters that the function reads, by the names of the tensors that `of_sources` takes; None where that is not known yet, or
        parameters of a column have several shapes.
        """
        if self.reads is None or not all(
            are_even([values[name] for name in column.names]) for column in self.reads.columns.values()
        ):
            return None
        columns = {key: column.names for key, column in self.reads.columns.items()}
        return {name: [name] for name in self.reads.names} | columns

    def of_sources(self, tensors: dict[str, Tensor]) -> list[Tensor]:
        """Outputs of the function from columns and other parameters."""
        return self.function(_Columns(tensors, self.known))

    def __call__(self, values: Values, differentiated: Collection[str] = ()) -> list[Tensor]:
        """Outputs of the function. They are not to be written to.

        Args:
            values: All parameters.
            differentiated: Those with a forward-mode tangent.
        """
        if torch.compiler.is_compiling():
            return self.function(values)
        if self.reads is None:
            reads = _Reads(values)
            with torch.no_grad():
                self.function(reads)
            reads.clear()
            self.known, self.reads = (
                frozenset(values),
                reads,
            )  # this call reads columns, too: sums of gradients have one order
        tensors = {name: values[name] for name in self.reads.names}
        for key, column in self.reads.columns.items():
            parts = [values[name] for name in column.names]
            if not are_even(parts):  # of some there is a number for each interval
                return self.function(values)
            tensors[key] = torch.stack(parts, 1)
        if not differentiated:
            return self.bound(tensors)
        moving, columns = set(differentiated), self.reads.columns.items()
        along = {key for key, column in columns if not moving.isdisjoint(column.names)}
        return self.bound(tensors, along | (moving & self.reads.names.keys()))
