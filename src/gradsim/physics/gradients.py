"""Gradients of a loss by parameters of a scene, by name: each is there, or an error says why it is not."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.physics.dependencies import CLOCK, read_by_motion, require_dependency
from gradsim.physics.model import Model
from gradsim.scene.parameters import resolve


def gradients(
    loss: Tensor, model: Model, names: Sequence[str], overrides: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """∂loss/∂parameter for each name; 0 only where that is the derivative.

    PyTorch's `loss.backward()` raises no error if no path leads from a parameter to the loss: its `.grad` stays None,
    and optimisers pass it over. This raises.

    Args:
        loss: Scalar computed from `model.rollout(overrides)`; its graph is retained.
        model: The model.
        names: Parameters or components: "cube.mass", "cube.velocity", "cube.velocity.x".
        overrides: Values that were passed to the rollout; missing names have the model's values.

    Returns:
        By name, of the shape of the parameter given, or of the model's own; of a component without its last dimension.

    Raises:
        InputError: If the scene has no such parameter, nothing reads it, the loss does not depend on it, it does not require
            a gradient, or the loss is not a scalar or has no graph.
    """
    if not isinstance(loss, Tensor) or loss.ndim or not loss.is_floating_point():
        got = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise InputError(f"the loss has {got}; give a scalar tensor, such as its sum.")
    if not loss.requires_grad:
        raise InputError(
            "the loss has no graph: it was made under no_grad or from detached tensors, or depends on no parameter."
        )
    overrides, names = overrides or {}, [names] if isinstance(names, str) else list(names)
    places = {name: resolve(model.scene, name) if name not in model.kinds else (name, None) for name in names}
    require_dependency(model, (parameter for parameter, _ in places.values()))
    leaves = {p: overrides[p] if p in overrides else model.get_parameter(p) for p, _ in places.values()}
    for name, leaf in leaves.items():
        if not leaf.requires_grad:
            whose = "is given as a tensor that" if name in overrides else "is a parameter of the model that"
            raise InputError(f"`{name}` {whose} requires no gradient; call its requires_grad_() before the rollout.")
    slopes = torch.autograd.grad(loss, list(leaves.values()), retain_graph=True, allow_unused=True)
    by_leaf = dict(zip(leaves, slopes, strict=True))
    for name, slope in by_leaf.items():
        if slope is None:
            raise InputError(
                f"`{name}` has no gradient, not even 0: the loss does not depend on it. {_way(model, name)}"
            )
    return {name: by_leaf[p] if axis is None else by_leaf[p][..., axis] for name, (p, axis) in places.items()}


def _way(model: Model, name: str) -> str:
    """Advice on how to make the loss depend on the parameter."""
    if name not in read_by_motion(model):
        return (
            "Only images depend on it: compute the loss from an image of `Renderer`, with the values of the trajectory."
        )
    if name in CLOCK:
        return f"Give `{name}` to the rollout, and let the loss read a frame after the start."
    return f"Use what it moves in the loss, and if `{name}` was an argument of the rollout, give the same tensor here."
