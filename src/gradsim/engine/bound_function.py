"""Functions of named tensors whose PyTorch calls are recorded once and replayed, except those whose result is known.

A recording is for tensors of the same shapes, in one thread. It keeps the result of each call, and a replay repeats the calls that depend on a tensor with other
numbers, or on one of which a derivative may be taken. Python code between the calls is not repeated.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._C import _are_functorch_transforms_active as are_transforms_active
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

from gradsim.engine.numbers import bytes_of
from gradsim.engine.operation import are_saved_tensors_hooked

MOST_THREADS = 8  # with things of their own
MOST_RECORDINGS = 32  # sets of shapes of one function; a fit has some twenty numbers of worlds
_OF_SHAPES = {
    Tensor.__len__,
    Tensor.dim,
    Tensor.numel,
    Tensor.size,
    *(getattr(Tensor, name).__get__ for name in ("shape", "ndim", "dtype", "device")),
}


_MAY_BE_SAME = {
    Tensor.to,
    Tensor.contiguous,
    torch.broadcast_tensors,
}  # return the tensor itself where there is nothing to do


Thing = TypeVar("Thing")


class Uncopied(dict):
    """Things made for later calls, by key: a copy of their owner, or one that is read from a file, makes them anew."""

    def __reduce__(self):
        return Uncopied, ()


class OfThreads(dict[int, Thing]):
    """Things that threads make for their later calls, by the number of the thread; of a few threads, since they outlive those that end."""

    def put(self, thread: int, thing: Thing) -> Thing:
        """Keep the thing of a thread that has none, and return it."""
        if len(self) >= MOST_THREADS:
            self.clear()
        self[thread] = thing
        return thing


@dataclass(frozen=True)
class _Call:
    """A call of PyTorch: where its tensors are among all, and where its results go."""

    function: Callable
    arguments: tuple
    keywords: dict
    tensors: tuple[tuple[int, int], ...]  # place among the arguments, place among all tensors
    lists: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]  # the same within arguments that are sequences
    results: tuple[int, ...]
    single: bool

    def run(self, tensors: list) -> None:
        arguments = list(self.arguments)
        for place, source in self.tensors:
            arguments[place] = tensors[source]
        for place, within in self.lists:
            items = list(self.arguments[place])
            for k, source in within:
                items[k] = tensors[source]
            arguments[place] = items if isinstance(self.arguments[place], list) else tuple(items)  # an index is a tuple
        result = self.function(*arguments, **self.keywords)
        if self.single:
            tensors[self.results[0]] = result
            return
        for k, y in zip(self.results, result, strict=True):
            tensors[k] = y

    @property
    def sources(self) -> list[int]:
        """Places of the tensors that it reads."""
        return [k for _, k in self.tensors] + [k for _, within in self.lists for _, k in within]


class BoundFunction:
    """A function of named tensors on a CPU that does the same PyTorch calls for the same shapes.

    A function that reads numbers in Python, writes over a tensor or gives a keyword a tensor is called as it is, and so is the first call with new shapes.

    Args:
        function: Tensors by name to a list of tensors. It calls no operation of `engine.operation`.
    """

    def __init__(self, function: Callable[[dict[str, Tensor]], list[Tensor]]):
        self.function = function
        self.recordings: dict[tuple, _Recording | None] = Uncopied()

    def __call__(self, tensors: dict[str, Tensor], differentiated: Collection[str] = ()) -> list[Tensor]:
        """Outputs of the function. They are not to be written to.

        Args:
            tensors: By name.
            differentiated: Those with a forward-mode tangent.
        """
        if (
            torch.compiler.is_compiling()
            or are_transforms_active()
            or torch.is_inference_mode_enabled()  # whose tensors no later call could take derivatives of
            or are_saved_tensors_hooked()
            or (forward_ad._current_level >= 0 and not differentiated)
        ):
            return self.function(tensors)
        key = (threading.get_ident(), *tensors, *((x.shape, x.dtype, x.device) for x in tensors.values()))
        if key not in self.recordings:
            if len(self.recordings) >= MOST_RECORDINGS:
                self.recordings.clear()
            self.recordings[key] = None
            return self.function(tensors)
        recording = self.recordings[key]
        if recording is None:
            if differentiated or any(x.device.type != "cpu" for x in tensors.values()):
                return self.function(tensors)
            recording = self.recordings[key] = _Recording(self.function, tensors)
        if not recording.is_replayable:
            return self.function(tensors)
        return recording.replay(tensors, differentiated)


class Replay:
    """A function of named tensors with one set of shapes, whose caller says which of them have other numbers.

    Args:
        function: As of `BoundFunction`.
        tensors: By name.
        live: Names of those by which derivatives are taken.

    Attributes:
        is_replayable: False where the function is not to be replayed.
        names: Tensors that outputs depend on.
        places: Their places among all tensors of the recording.
        live: Those of `live` among them.
        numbers: Outputs for the last numbers.
    """

    def __init__(
        self,
        function: Callable[[dict[str, Tensor]], list[Tensor]],
        tensors: Mapping[str, Tensor],
        live: Collection[str] = (),
    ):
        recording = self._recording = _Recording(function, tensors)
        self.is_replayable = recording.is_replayable
        if not self.is_replayable:
            return
        self.places = {recording.names[k]: k for k in recording.read}
        self.names, self.live = frozenset(self.places), [name for name in self.places if name in live]
        self.numbers = Numbers(recording, recording.tensors, tuple(self.places[name] for name in self.live))

    def write(self, tensors: Mapping[str, Tensor]) -> None:
        """Take other numbers of these tensors."""
        changed = [self.places[name] for name in tensors]
        everything = list(self.numbers.tensors)
        for k, x in zip(changed, tensors.values(), strict=True):
            everything[k] = _copy(x)
        with torch.no_grad():
            for call in self._recording.plan(changed):
                call.run(everything)
        self.numbers = Numbers(self._recording, everything, self.numbers.live)


class Numbers:
    """Outputs of a function for some numbers, and derivatives there. Nobody writes to a tensor here.

    Args:
        recording: The calls.
        tensors: All tensors of the recording.
        live: Places of those by which derivatives are taken.
    """

    def __init__(self, recording: "_Recording", tensors: list[Tensor], live: tuple[int, ...]):
        self.recording, self.tensors, self.live = recording, tensors, live
        self.outputs = [tensors[k] for k in recording.outputs]
        self._graphs: dict[tuple[int, ...], tuple[list[Tensor], list[Tensor]]] = {}

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        """Tensors that the function reads by name."""
        return {self.recording.names[k]: self.tensors[k] for k in self.recording.read}

    def reached(self, live: tuple[int, ...]) -> list[bool]:
        """True for each output that depends on one of these tensors."""
        reached = set(live)
        for call in self.recording.plan(live):
            reached.update(call.results)
        return [k in reached for k in self.recording.outputs]

    def pull_back(self, slopes: Sequence[Tensor | None], live: tuple[int, ...]) -> list[Tensor | None]:
        """Gradients by some of the live tensors from those by the outputs; the graph is kept for the next call with these numbers."""
        if live not in self._graphs:
            results = list(self.tensors)
            leaves = [results[k].detach().requires_grad_() for k in live]
            for k, leaf in zip(live, leaves, strict=True):
                results[k] = leaf
            with torch.enable_grad():
                for call in self.recording.plan(live):
                    call.run(results)
            self._graphs[live] = leaves, [results[k] for k in self.recording.outputs]
        leaves, outputs = self._graphs[live]
        pairs = [(y, g) for y, g in zip(outputs, slopes, strict=True) if g is not None and y.requires_grad]
        if not pairs:
            return [None] * len(live)
        ends, adjoints = zip(*pairs, strict=True)
        return list(torch.autograd.grad(ends, leaves, adjoints, retain_graph=True, allow_unused=True))


class _Recording:
    """The calls of a function with tensors of these shapes, and their last results."""

    def __init__(self, function: Callable[[dict[str, Tensor]], list[Tensor]], tensors: Mapping[str, Tensor]):
        self.names = list(tensors)
        copies = {name: _copy(x) for name, x in tensors.items()}
        recorder = _Recorder(copies.values())
        with torch.no_grad(), recorder:
            outputs = function(copies)
        self.is_replayable = recorder.is_replayable and all(id(y) in recorder.places for y in outputs)
        self.tensors = recorder.tensors
        self.numbers = [bytes_of(x) for x in copies.values()]
        self.plans: dict[frozenset[int], list[_Call]] = {}
        if not self.is_replayable:
            return
        self.outputs = [recorder.places[id(y)] for y in outputs]
        read, self.calls = set(self.outputs), []
        for call in reversed(recorder.calls):
            if read.intersection(call.results):
                read.update(call.sources)
                self.calls.insert(0, call)
        self.read = [k for k in range(len(self.names)) if k in read]

    def replay(self, tensors: Mapping[str, Tensor], differentiated: Collection[str]) -> list[Tensor]:
        values, graph = list(tensors.values()), torch.is_grad_enabled()
        live, changed = [], []
        for k in self.read:
            x = values[k]
            if (graph and x.requires_grad) or self.names[k] in differentiated:
                live.append(k)
            elif not self._is_same(k, x):
                changed.append(k)
        if changed:
            for k in changed:
                self.tensors[k] = _copy(values[k])
                self.numbers[k] = bytes_of(self.tensors[k])
            with torch.no_grad():
                for call in self.plan(changed):
                    call.run(self.tensors)
        if not live:
            return [self.tensors[k] for k in self.outputs]
        results = list(self.tensors)
        for k in live:
            results[k] = values[k]
        for call in self.plan(live):
            call.run(results)
        return [results[k] for k in self.outputs]

    def plan(self, sources: Sequence[int]) -> list[_Call]:
        """The calls that depend on tensors of the function."""
        key = frozenset(sources)
        if key not in self.plans:
            reached, plan = set(key), []
            for call in self.calls:
                if reached.intersection(call.sources):
                    reached.update(call.results)
                    plan.append(call)
            self.plans[key] = plan
        return self.plans[key]

    def _is_same(self, k: int, x: Tensor) -> bool:
        """True if the k-th tensor has the numbers of the results."""
        numbers = bytes_of(x)
        return numbers == self.numbers[k] if numbers and self.numbers[k] else torch.equal(x, self.tensors[k])


class _Recorder(TorchFunctionMode):
    """Notes calls of PyTorch, and whether they are all that a function does."""

    def __init__(self, tensors: Collection[Tensor]):
        super().__init__()
        self.tensors: list[Tensor] = list(tensors)
        self.places = {id(x): k for k, x in enumerate(tensors)}
        self.calls: list[_Call] = []
        self.is_replayable = True

    def __torch_function__(self, func: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        result = func(*args, **keywords)
        if func in _OF_SHAPES:
            return result
        results = (result,) if isinstance(result, Tensor) else result
        tensors, lists = [], []
        for place, x in enumerate(args):
            if isinstance(x, Tensor):
                tensors.append((place, self._place(x)))
            elif isinstance(x, list | tuple) and any(isinstance(item, Tensor) for item in x):
                lists.append((place, tuple((k, self._place(y)) for k, y in enumerate(x) if isinstance(y, Tensor))))
        fresh = isinstance(results, tuple | list) and all(
            isinstance(y, Tensor) and (func in _MAY_BE_SAME or id(y) not in self.places) for y in results
        )
        if not fresh or any(isinstance(x, Tensor) for x in keywords.values()):
            self.is_replayable = False
            return result
        places = tuple(self._place(y) for y in results)
        call = _Call(
            func, tuple(args), dict(keywords), tuple(tensors), tuple(lists), places, isinstance(result, Tensor)
        )
        self.calls.append(call)
        return result

    def _place(self, x: Tensor) -> int:
        """Place of a tensor; of a constant of the function, a new one."""
        if id(x) not in self.places:
            self.places[id(x)] = len(self.tensors)
            self.tensors.append(x)
        return self.places[id(x)]


def _copy(x: Tensor) -> Tensor:
    """A tensor of its own with the same numbers; equal rows stay one."""
    x = x.detach()
    if x.ndim and len(x) > 1 and not x.stride(0):
        return x[:1].clone().expand_as(x)
    return x.clone(memory_format=torch.contiguous_format)
