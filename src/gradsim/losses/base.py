"""Base class of image losses: residuals whose mean square is the loss.

    loss = mean r²                r(image, target), over all dimensions except worlds
    J = (∂r/∂image) · ∂image/∂unknown

A subclass defines only r, in `compare`. Gradient descent differentiates the loss; least squares takes r and J, with the
derivatives of the image from the renderer. Leading dimensions of an image are batch dimensions, so masks per object
(worlds, frames, parts, height, width) are compared object by object.
"""

from abc import ABC, abstractmethod
from typing import final

import torch
from torch import Tensor

from gradsim.engine.forward_mode import derivative
from gradsim.errors import InputError


class ImageLoss(ABC):
    """Image loss. Derivatives are finite for all images in [0, 1], including empty, full and equal ones."""

    name: str

    @abstractmethod
    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        """Residuals (..., m) of images (..., height, width) against targets that broadcast to them, image by image."""

    @final
    def __call__(self, image: Tensor, target: Tensor) -> Tensor:
        """Loss of each world (worlds,), differentiable in the image.

        Args:
            image: (worlds, ..., height, width).
            target: The same shape, or without some leading dimensions.

        Raises:
            InputError: If the target does not broadcast to the image.
        """
        return self.residual(image, target).square().flatten(1).mean(1)

    @final
    def residual(self, image: Tensor, target: Tensor) -> Tensor:
        """r (worlds, ..., m), differentiable in the image; arguments as for a call."""
        return self.compare(image, _check_target(image, target))

    @final
    def tangent(self, image: Tensor, tangents: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """r (worlds, ..., m), and J (worlds, ..., m, unknowns).

        Args:
            image: As for a call.
            tangents: Derivatives of the image (worlds, ..., height, width, unknowns).
            target: As for a call.
        """
        if tangents.shape[:-1] != image.shape:
            expected = f"({', '.join(map(str, image.shape))}, unknowns)"
            raise InputError(f"`tangents` has shape {tuple(tangents.shape)}; derivatives of the image need {expected}.")
        target, unknowns = _check_target(image, target), tangents.shape[-1]
        if not unknowns:
            r = self.compare(image, target)
            return r, r.new_empty(*r.shape, 0)
        function = lambda inputs: [self.compare(inputs["image"], target)]
        images = image.expand(unknowns, *image.shape)
        (r,), (J,) = derivative(function, {"image": images}, {"image": tangents.movedim(-1, 0)})
        return r[0], torch.zeros_like(r).movedim(0, -1) if J is None else J.movedim(0, -1)


def _check_target(image: Tensor, target: Tensor) -> Tensor:
    """Check the shape of the target, and cast it to the dtype and device of the image."""
    pairs = list(zip(reversed(image.shape), reversed(target.shape), strict=False))
    fits = target.ndim <= image.ndim and all(a == b or (k > 1 and b == 1) for k, (a, b) in enumerate(pairs))
    if image.ndim < 3 or target.ndim < 2 or not fits or not image.is_floating_point():
        raise InputError(
            f"an image of shape {tuple(image.shape)} and {image.dtype} has a target of shape {tuple(target.shape)}; "
            "losses need a floating-point image (worlds, ..., height, width), and a target that broadcasts to it."
        )
    return target.to(image)
