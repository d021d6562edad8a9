"""Programs of one forward kernel and its adjoint, for `engine.operation`.

    kernel(*arguments, output)
    kernel_adjoint(*arguments, ∂loss/∂output, *gradients)

Both kernels are of one template and run over as many threads. Operations of several kernels are `Program`s of their own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

import torch
from torch import Tensor

from gradsim.engine.launch import array, replay

Inputs: TypeAlias = Sequence[Tensor]
Element: TypeAlias = str | tuple[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class KernelProgram:
    """A `Program` with one output, from kernels of a specialised template.

    Args:
        kernel: Name of the forward kernel; the adjoint is `kernel`_adjoint.
        code: The template for the dtype of input 0.
        arguments: Leading arguments of both kernels, from the template and the inputs.
        threads: Number of threads, from the inputs.
        output: The output before the launch, from the inputs.
        gradients: Gradients of the leading inputs before the launch, from the inputs and ∂loss/∂output; further inputs
            have none.
        elements: Element types in the template of the output and of each gradient, with the shape to view the tensor
            in where it is not its own: "Scalar" or ("Scalar", (-1,)).
    """

    kernel: str
    code: Callable[[torch.dtype], ModuleType]
    arguments: Callable[[ModuleType, Inputs], list]
    threads: Callable[[Inputs], int]
    output: Callable[[Inputs], Tensor]
    gradients: Callable[[Inputs, Tensor], Sequence[Tensor]]
    elements: tuple[Element, ...]

    def shapes(self, inputs: Inputs) -> list[tuple[int, ...]]:
        """See `Program`."""
        return [tuple(self.output(inputs).shape)]

    def forward(self, inputs: Inputs) -> list[Tensor]:
        """See `Program`."""
        output = self.output(inputs)
        self._launch(self.kernel, inputs, self.elements[:1], [output])
        return [output]

    def backward(self, inputs: Inputs, outputs: Inputs, adjoints: Inputs) -> list[Tensor | None]:
        """See `Program`."""
        gradients = self.gradients(inputs, adjoints[0])
        self._launch(f"{self.kernel}_adjoint", inputs, self.elements, [adjoints[0], *gradients])
        return [*gradients, *[None] * (len(inputs) - len(gradients))]

    def _launch(self, kernel: str, inputs: Inputs, elements: Sequence[Element], tensors: Inputs) -> None:
        code = self.code(inputs[0].dtype)
        arguments = [*self.arguments(code, inputs), *map(_array, [code] * len(elements), elements, tensors)]
        replay(getattr(code, kernel), self.threads(inputs), arguments, str(inputs[0].device))


def _array(code: ModuleType, element: Element, tensor: Tensor) -> Any:
    name, shape = (element, None) if isinstance(element, str) else element
    return array(getattr(code, name), tensor if shape is None else tensor.view(shape))
