"""The seam of losses: residuals between images, whose mean square is the loss.

    loss = mean r²                r(image, target), along all dimensions but that of worlds
    J = (∂r/∂image) · ∂image/∂unknown

A file has one of them and says only what r is. Descent differentiates the loss; least squares takes r and J, where the
derivatives of the image come from the renderer. Parts and channels are more images: the leading dimensions of an image
pass through, so masks for each object (worlds, frames, parts, height, width) are compared object by object.
"""

from abc import ABC, abstractmethod
from typing import final

import torch
from torch import Tensor

from gradsim.engine.forward_mode import derivative
from gradsim.errors import InputError


class ImageLoss(ABC):
    """How far images are from others. Derivatives are finite at all images in [0, 1], also empty, full and equal."""

    name: str

    @abstractmethod
    def compare(self, image: Tensor, target: Tensor) -> Tensor:
        """Residuals (..., m) of images (..., height, width) from targets that broadcast to them, each on its own."""

    @final
    def __call__(self, image: Tensor, target: Tensor) -> Tensor:
        """The loss of each world (worlds,), differentiable by the image.

        Args:
            image: (worlds, ..., height, width).
            target: The same, or less dimensions in front.

        Raises:
            InputError: If the target does not broadcast to the image.
        """
        return self.residual(image, target).square().flatten(1).mean(1)

    @final
    def residual(self, image: Tensor, target: Tensor) -> Tensor:
        """r (worlds, ..., m), differentiable by the image; arguments as for a call."""
        return self.compare(image, _fitting(image, target))

    @final
    def tangent(self, image: Tensor, slope: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """r (worlds, ..., m), and J (worlds, ..., m, unknowns).

        Args:
            image: As for a call.
            slope: Derivatives of the image (worlds, ..., height, width, unknowns).
            target: As for a call.
        """
        if slope.shape[:-1] != image.shape:
            wanted = f"({', '.join(map(str, image.shape))}, unknowns)"
            raise InputError(f"`slope` has shape {tuple(slope.shape)}; derivatives of the image need {wanted}.")
        target, unknowns = _fitting(image, target), slope.shape[-1]
        if not unknowns:
            r = self.compare(image, target)
            return r, r.new_empty(*r.shape, 0)
        function = lambda given: [self.compare(given["image"], target)]
        many = image.expand(unknowns, *image.shape)
        (r,), (J,) = derivative(function, {"image": many}, {"image": slope.movedim(-1, 0)})
        return r[0], torch.zeros_like(r).movedim(0, -1) if J is None else J.movedim(0, -1)


def _fitting(image: Tensor, target: Tensor) -> Tensor:
    """The target in the precision and on the device of the image."""
    pairs = list(zip(reversed(image.shape), reversed(target.shape), strict=False))
    fits = target.ndim <= image.ndim and all(a == b or (k > 1 and b == 1) for k, (a, b) in enumerate(pairs))
    if image.ndim < 3 or target.ndim < 2 or not fits or not image.is_floating_point():
        raise InputError(
            f"an image of shape {tuple(image.shape)} and {image.dtype} has a target of shape {tuple(target.shape)}; "
            "losses need a floating-point image (worlds, ..., height, width), and a target that broadcasts to it."
        )
    return target.to(image)
