"""Launches recorded once and replayed: a Python launch costs about ten times a replay.

`replay` exchanges the arguments of a launch, `recorded` keeps them, which costs a tenth of that again.

On a CPU a launch is shared between threads (`runtime.threads`) where its kernel allows it. Such a kernel has the parameter

    offset: int,  # of the first dimension, see `engine.launch`

in the first place and adds it to the first index, and what it does for one index depends on no other: so the launch can be cut
into ranges of that dimension, and the result is the same to the last bit. `replay` passes the offset, its callers do not.
"""

import copy
import ctypes
import functools
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
import warp as wp
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from gradsim.runtime.threads import run_pieces, thread_count
from gradsim.runtime.warp_init import init_warp

OFFSET = "offset"
SHORTEST_PIECE = 300_000  # [ns] of work that pays the 30 µs of waking a helper and of a further launch
MOST_DESCRIBED = 4096  # dimensions of launches, and kinds of arrays, that are remembered
PIECES_PER_THREAD = 8  # many, since indices differ in work, helpers wake late, and the last piece is waited for


class _Recorded(threading.local):
    """Launches of this thread, by kernel and device, and the CPU time of the last one: of an index of the first dimension, and of all [ns].

    On a CPU also their bounds by kernel and dimensions.
    """

    def __init__(self):
        self.launches: dict[tuple, Any] = {}
        self.costs: dict[tuple, float] = {}
        self.totals: dict[tuple, int] = {}
        self.bounds: dict[tuple, Any] = {}


_recorded = _Recorded()
_described: dict[tuple, tuple[type, bytes]] = {}  # contiguous arrays by type and shape
_recording = threading.Lock()


def replay(kernel: wp.Kernel, dim: int | tuple[int, ...], args: Sequence[Any], device: str) -> None:
    """Run `kernel` over `dim` threads.

    The launch is recorded at the first call for a kernel and device; later calls only exchange its arguments. A kernel with an
    offset is shared between threads if its last launch took long enough for each index.

    Args:
        kernel: The kernel.
        dim: Its threads, of one or several dimensions.
        args: Its arguments; without the offset, where it has one.
        device: Name of the device.
    """
    if dim == 0 or (isinstance(dim, tuple) and 0 in dim):
        return
    key, divisible = (kernel, device), is_divisible(kernel)
    args = [0, *args] if divisible else args
    if key not in _recorded.launches:
        with _recording:  # which may load the module of the kernel
            launch = wp.launch(kernel, dim=dim, inputs=args, device=device, record_cmd=True)
        launch.fwd_args = None  # a second list of the arguments, for captures
        _recorded.launches[key] = launch
    launch = _recorded.launches[key]
    if device == "cpu":
        _set_on_cpu(launch, dim, args)
    else:
        launch.set_dim(dim)
        launch.set_params(args)
    try:
        if divisible and device == "cpu":
            _share(key, launch, dim)
        else:
            launch.launch()
    finally:
        launch.params[1:] = [None] * len(args)  # else it would keep whole trajectories alive until the next launch


def _set_on_cpu(launch: Any, dim: int | tuple[int, ...], args: Sequence[Any]) -> None:
    """Exchange dimensions and arguments of a launch; descriptions of arrays and dimensions that it had before take no time."""
    bounds = _recorded.bounds.get((launch.kernel, dim))
    if bounds is None:
        launch.set_dim(dim)
        if len(_recorded.bounds) >= MOST_DESCRIBED:
            _recorded.bounds.clear()
        _recorded.bounds[launch.kernel, dim] = launch.bounds
    else:
        launch.bounds = launch.params[0] = bounds
    params = launch.params
    for k, x in enumerate(args):
        if isinstance(x, ctypes.Structure):  # as of `array`
            params[k + 1] = x
        else:
            launch.set_param_at_index(k, x)


def is_divisible(kernel: wp.Kernel) -> bool:
    """True if threads may share a launch of this kernel."""
    return bool(kernel.adj.args) and kernel.adj.args[0].label == OFFSET


def worthwhile_threads(kernel: wp.Kernel, most: int, device: str) -> int:
    """Threads among which the work of this kernel's last launch was worth sharing, for kernels whose dimension is their number.

    Args:
        kernel: The kernel; one with an offset.
        most: Largest number; 1 or more.
        device: Name of the device, a CPU.
    """
    pieces = int(_recorded.totals.get((kernel, device), 0) / SHORTEST_PIECE)
    return max(1, min(thread_count(), most, pieces))


def _share(key: tuple, launch: Any, dim: int | tuple[int, ...]) -> None:
    """Run a launch by one thread or several, and note what it costs."""
    count, *others = dim if isinstance(dim, tuple) else (dim,)
    threads = min(thread_count(), count)
    times: list[int] = []
    if threads < 2:
        _measure(launch.launch, times)
    else:
        first = 0
        if key not in _recorded.costs:  # one index says how long the others take
            first = 1
            _measure(_part(launch, 0, (first, *others)).launch, times)
            _recorded.costs[key] = times[0]
        left = count - first
        pieces = min(int(_recorded.costs[key] * left / SHORTEST_PIECE), PIECES_PER_THREAD * threads, left)
        borders = [first + left * k // max(pieces, 1) for k in range(max(pieces, 1) + 1)]
        parts = [_part(launch, begin, (end - begin, *others)) for begin, end in itertools.pairwise(borders)]
        run_pieces([functools.partial(_measure, part.launch, times) for part in parts])
    _note(key, times, count)


def _note(key: tuple, times: Sequence[int], count: int) -> None:
    """Note what a launch cost."""
    _recorded.totals[key] = sum(times)
    _recorded.costs[key] = _recorded.totals[key] / count


def _measure(launch: Callable[[], None], times: list[int]) -> None:
    begin = time.thread_time_ns()
    launch()
    times.append(time.thread_time_ns() - begin)


def _part(launch: Any, offset: int, dim: tuple[int, ...]) -> Any:
    """A launch of a range of the first dimension."""
    part = copy.copy(launch)
    part.params = list(launch.params)
    part.set_dim(dim)
    part.set_param_at_index(0, offset)
    return part


def recorded(kernel: wp.Kernel, dim: int, args: Sequence[Any], device: str) -> Callable[[], None]:
    """A launch over `dim` threads whose arguments stay the same arrays: what they are is looked at once.

    Args:
        kernel: The kernel.
        dim: Its threads.
        args: Its arguments; without the offset, where it has one.
        device: Name of the device.
    """
    if dim == 0:
        return lambda: None
    divisible = is_divisible(kernel)
    with _recording:
        command = wp.launch(kernel, dim=dim, inputs=[0, *args] if divisible else args, device=device, record_cmd=True)
    command.fwd_args = None

    alone = _invoked_directly(command) if device == "cpu" else command.launch

    def launch(arguments: Sequence[Any] = args) -> None:  # which have to live as long
        if not (divisible and device == "cpu"):
            alone()
        elif dim < 2 or thread_count() < 2:
            times: list[int] = []
            _measure(alone, times)
            _note((kernel, device), times, dim)
        else:
            _share((kernel, device), command, dim)

    return launch


def _invoked_directly(command: Any) -> Callable[[], None]:
    """A launch on a CPU with its arguments in the form that the kernel takes: Warp brings them into it at each launch."""
    if command.block_dim > 1 or command.adjoint:
        return command.launch
    return _entry(command, _packed(command))


def _packed(command: Any) -> Any:
    """Arguments of a launch on a CPU as one struct, which is what the kernel takes."""
    arguments = command.params[1:]
    labels = [arg.label for arg in command.kernel.adj.args]
    fields = [(label, type(x)) for label, x in zip(labels, arguments, strict=True)]
    struct = type("Arguments", (ctypes.Structure,), {"_fields_": fields})()
    for label, x in zip(labels, arguments, strict=True):
        setattr(struct, label, x)
    return struct


def _entry(command: Any, arguments: Any) -> Callable[[], None]:
    """The launch with these arguments."""
    bounds, entry, passed = ctypes.byref(command.params[0]), command.hooks.forward, ctypes.byref(arguments)
    return lambda: entry(bounds, passed)


class BoundLaunch:
    """A launch on a CPU that is described once, for tensors of one shape each: a call exchanges addresses alone.

        launch = BoundLaunch(kernel, dim, args)
        launch(x=tensor, out=other)

    Args:
        kernel: The kernel; one without an offset.
        dim: Its threads.
        args: Its arguments, see `array`. Those that a call does not name stay as they are.
    """

    def __init__(self, kernel: wp.Kernel, dim: int, args: Sequence[Any]):
        with _recording:
            command = wp.launch(kernel, dim=dim, inputs=args, device="cpu", record_cmd=True)
        self.kernel = kernel.key
        self._args = args  # which have to live as long, as the command has
        self._command = command
        packed = _packed(command)
        self._places = {arg.label: getattr(packed, arg.label) for arg in kernel.adj.args}  # which share its memory
        self._launch = _entry(command, packed)

    def __call__(self, **tensors: Tensor) -> None:
        """Launch with contiguous tensors of the shapes of before in place of those arguments, by name."""
        places = self._places
        for name, tensor in tensors.items():
            places[name].data = tensor.data_ptr()
        self._launch()

    def takes(self, name: str) -> bool:
        """True if the kernel has an argument of this name."""
        return name in self._places

    def place(self, **addresses: int) -> None:
        """Addresses of arguments by name, for the launches to come; who gives them keeps the memory."""
        for name, address in addresses.items():
            self._places[name].data = address


def check_memory(tensor: Tensor) -> None:
    """Raise `NotImplementedError` if a tensor is one of `torch.func`, which has no memory that a kernel could read.

    Programs of operations receive plain tensors; this is for kernels outside of operations, such as the z-buffer.
    """
    if is_functorch_wrapped_tensor(tensor):
        raise NotImplementedError(
            "transforms of `torch.func` do not pass through here, where the memory of tensors is read; take "
            "`torch.autograd.grad` or `backward`."
        )


def array(dtype: Any, tensor: Tensor) -> Any:
    """A tensor as an array of Warp, of scalars or of a type that takes its last dimensions; shares its memory.

    It is the bare description that a launch needs, which takes a fifth of the time of a `wp.array`.

    Raises:
        NotImplementedError: See `check_memory`.
    """
    check_memory(tensor)
    contiguous = tensor.contiguous() if tensor.numel() else tensor.new_empty(tensor.shape)  # strides of none may be any
    key = dtype, contiguous.dtype, contiguous.shape
    known = None if torch.compiler.is_compiling() else _described.get(key)  # in whose graphs nothing depends on shapes
    if known is None:
        init_warp()  # from_torch needs it on a CPU
        described = wp.from_torch(contiguous, dtype=dtype, requires_grad=False, return_ctype=True)
        if len(_described) >= MOST_DESCRIBED:
            _described.clear()
        _described[key] = type(described), bytes(described)  # pyright: ignore[reportArgumentType] -- a ctypes.Structure
    else:
        kind, content = known
        described = kind.from_buffer_copy(content)  # pyright: ignore[reportAttributeAccessIssue]
        described.data = contiguous.data_ptr()
    setattr(described, "owner", contiguous)  # noqa: B010 -- lives as long as the description, which has no such field
    return described


def arrays(dtypes: Iterable[Any], tensors: Iterable[Tensor]) -> list[Any]:
    """`array` of each tensor, with its dtype."""
    return [array(dtype, x) for dtype, x in zip(dtypes, tensors, strict=True)]


def field(dtype: Any, tensor: Tensor) -> wp.array:
    """The same for a field of a struct, which takes nothing less than a `wp.array`."""
    init_warp()
    if tensor.numel():
        return wp.from_torch(tensor.contiguous(), dtype=dtype, requires_grad=False)
    return wp.empty(tensor.shape[:-1], dtype=dtype, device=str(tensor.device))  # Warp refuses the strides


def struct_of(kind: Any, fields: Mapping[str, Any]) -> Any:
    """A struct of a kernel file with these fields."""
    struct = kind()
    for name, value in fields.items():
        setattr(struct, name, value)
    return struct
