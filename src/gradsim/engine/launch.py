"""Launches recorded once and replayed: a Python launch costs about ten times a replay."""

import warp as wp
from torch import Tensor

_recorded: dict[tuple, wp.Launch] = {}


def replay(kernel: wp.Kernel, dim: int | tuple[int, ...], args: list, device: str) -> None:
    """Run `kernel` over `dim` threads.

    The launch is recorded at the first call for a kernel and device; later calls only exchange its arguments.
    """
    if dim == 0 or (isinstance(dim, tuple) and 0 in dim):
        return
    key = (kernel, device)
    launch = _recorded.get(key)
    if launch is None:
        launch = wp.launch(kernel, dim=dim, inputs=args, device=device, record_cmd=True)
        assert isinstance(launch, wp.Launch)
        _recorded[key] = launch
    else:
        launch.set_dim(dim)
        launch.set_params(args)
    launch.launch()


def array(dtype, tensor: Tensor):
    """A tensor as an array of Warp, of scalars or of a type that takes its last dimensions; shares its memory.

    It is the bare description that a launch needs, which takes a fifth of the time of a `wp.array`.
    """
    wp.init()  # from_torch needs it on a CPU
    kept = tensor.contiguous() if tensor.numel() else tensor.new_empty(tensor.shape)  # strides of none may be any
    described = wp.from_torch(kept, dtype=dtype, requires_grad=False, return_ctype=True)
    described.owner = kept  # lives as long as the description
    return described
