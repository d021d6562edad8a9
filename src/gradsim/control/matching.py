"""Whether a policy fits what it is to move: asked before any rollout."""

import torch
from torch import Tensor

from gradsim.errors import InputError


def check(plant, policy) -> None:
    """Refuse a policy whose numbers do not fit the controls or the senses of a plant.

    Args:
        plant: A `Plant`.
        policy: Any module that is called as those of `policies.py` are; it is called once.

    Raises:
        InputError: If it does not say whether it looks at observations, looks without senses or at another number of
            observations than they give, or gives another number of outputs than the controls need, or no finite ones.
    """
    name = type(policy).__name__
    feedback = getattr(policy, "feedback", None)
    if not isinstance(feedback, bool):
        raise InputError(
            f"the policy {name} has no attribute `feedback`; set it to True if it looks at observations, else to False."
        )
    size = plant.senses.size if plant.senses is not None else None
    seen = None
    if feedback:
        if size is None:
            raise InputError(
                f"the policy {name} looks at observations, and the plant has no senses; give it some, such as "
                "Plant(model, controls, senses=StateSenses(model)), or take an open loop such as Sinusoids."
            )
        wanted = getattr(policy, "inputs", size)
        if wanted != size:
            raise InputError(
                f"the policy {name} looks at {wanted} numbers, and the plant's senses give {size}; make it with "
                f"inputs={size} (plant.senses.size)."
            )
        seen = torch.zeros(1, size, dtype=torch.float64)
    times = torch.as_tensor(plant.times)[:1] if feedback else torch.as_tensor(plant.times)
    try:
        with torch.no_grad():
            u = policy(times, seen)
    except (RuntimeError, TypeError, ValueError) as error:
        shown = "times alone" if seen is None else f"a time and {size} numbers"
        raise InputError(f"the policy {name} fails on what the plant shows it, {shown}: {error}") from error
    parts = ", ".join(f"{n} of `{key}`" for key, n in plant.outputs_of.items())
    if not isinstance(u, Tensor) or u.ndim != 3 or u.shape[1] != len(times):
        got = f"a tensor {tuple(u.shape)}" if isinstance(u, Tensor) else f"a {type(u).__name__}"
        raise InputError(
            f"the policy {name} gives {got} for {len(times)} times; expected a tensor (worlds or 1, {len(times)}, "
            f"{plant.outputs}): {parts}."
        )
    if u.shape[2] != plant.outputs:
        raise InputError(
            f"the policy {name} gives {u.shape[2]} numbers for an interval, and the controls need {plant.outputs}: "
            f"{parts}; make it with outputs={plant.outputs} (plant.outputs)."
        )
    if not torch.isfinite(u).all():
        raise InputError(f"the policy {name} gives numbers that are not finite; look at its parameters.")
