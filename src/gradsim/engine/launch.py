"""Launches recorded once and replayed: a Python launch costs about ten times a replay.

`replay` exchanges the arguments of a launch, `recorded` keeps them, which costs a tenth of that again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import warp as wp
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from gradsim.runtime.warp_init import init_warp

_recorded: dict[tuple, Any] = {}


def replay(kernel: wp.Kernel, dim: int | tuple[int, ...], args: Sequence[Any], device: str) -> None:
    """Run `kernel` over `dim` threads.

    The launch is recorded at the first call for a kernel and device; later calls only exchange its arguments.
    """
    if dim == 0 or (isinstance(dim, tuple) and 0 in dim):
        return
    key = (kernel, device)
    if key not in _recorded:
        _recorded[key] = wp.launch(kernel, dim=dim, inputs=args, device=device, record_cmd=True)
        _recorded[key].fwd_args = None  # a second list of the arguments, for captures
    launch = _recorded[key]
    launch.set_dim(dim)
    launch.set_params(args)
    launch.launch()
    launch.params[1:] = [None] * len(args)  # else it would keep whole trajectories alive until the next launch


def recorded(kernel: wp.Kernel, dim: int, args: Sequence[Any], device: str) -> Callable[[], None]:
    """A launch over `dim` threads whose arguments stay the same arrays: what they are is looked at once."""
    if dim == 0:
        return lambda: None
    command = wp.launch(kernel, dim=dim, inputs=args, device=device, record_cmd=True)
    command.fwd_args = None

    def launch(arguments: Sequence[Any] = args) -> None:  # which have to live as long
        command.launch()

    return launch


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
    init_warp()  # from_torch needs it on a CPU
    contiguous = tensor.contiguous() if tensor.numel() else tensor.new_empty(tensor.shape)  # strides of none may be any
    described = wp.from_torch(contiguous, dtype=dtype, requires_grad=False, return_ctype=True)
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
