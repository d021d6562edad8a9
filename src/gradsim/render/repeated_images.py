"""Images of a renderer that repeat an earlier call but for numbers: what they need is bound once.

A call is bound at the second time that the shapes of vertices and faces are the same. From then on it compares faces and camera as bytes,
however they were written, and is one launch forward and one backward, on arrays of its own. Its operation of PyTorch has the vertices, and
colors of vertices, as inputs.
"""

import ctypes
import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gradsim.engine.bound_function import OfThreads
from gradsim.engine.launch import BoundLaunch
from gradsim.engine.numbers import bytes_of
from gradsim.engine.operation import apply_image, are_saved_tensors_hooked, is_transformed
from gradsim.geometry.index_tables import table_bytes
from gradsim.geometry.surface import Surface
from gradsim.render.silhouettes import Projection, Silhouettes

MOST_CALLS = 8  # kinds of images of one renderer in one thread
MOST_CHANGES = 2  # of faces, after which calls with others at the same address are no longer bound
MOST_IDLE = 2  # calls whose memory is used again
MAX_PIXELS = (
    512**2
)  # of all images of a call: with more of them its fixed cost is small, and a graph holds them until it is gone
ALIGNMENT = 64  # bytes of a line of the cache
TENSOR_TYPES = Tensor, nn.Parameter
FLOATS = torch.float32, torch.float64


@dataclass(frozen=True, eq=False)
class Passes:
    """Launches that draw images of one kind.

    Args:
        forward: From `points` (and `colors`), `matrices` and `offsets` to `status`, the image, and what is kept.
        backward: Makes the launch from those and the adjoint of the image, which has its name with `_adjoint`, to `points_adjoint` (and `colors_adjoint`).
        shape: Shape of the images.
        saved: Bytes that the backward pass reads, by argument of both.
        constants: Further arguments of both.
        image: Argument of the image.
        aliases: Further arguments of the forward pass with the memory of those that are kept.
        has_colors: True if it reads `colors`.
    """

    forward: BoundLaunch
    backward: Callable[[], BoundLaunch]
    shape: tuple[int, ...]
    saved: Mapping[str, int]
    constants: Mapping[str, Tensor]
    image: str
    aliases: Mapping[str, str] = field(default_factory=dict)
    has_colors: bool = False


class RepeatedImages:
    """Bound calls of a renderer. They are not copied with it.

    Args:
        silhouettes: Its camera.
        bind: Makes the launches for images of a surface, or for opacity, and colors of the vertices (1, n, 3); None where they are not for it.
    """

    def __init__(self, silhouettes: Silhouettes, bind: Callable[[Surface, bool], tuple[Passes, Tensor | None] | None]):
        self.silhouettes, self.bind = silhouettes, bind
        self._threads: OfThreads[dict[tuple, BoundImage | bool]] = OfThreads()

    def __reduce__(self):
        return RepeatedImages, (self.silhouettes, self.bind)

    def __call__(self, surface: Surface, is_colored: bool) -> Tensor | None:
        """Images of a surface; None where the call is not one that can be bound, or not yet.

        Args:
            surface: The surface.
            is_colored: True for images, False for opacity.
        """
        if torch.compiler.is_compiling() or is_transformed() or are_saved_tensors_hooked():
            return None
        if type(surface) is not Surface or len(surface.parts) != 1:
            return None
        (part,), points, colors, color = surface.parts, surface.vertices, None, None
        if points.dtype not in FLOATS or not _is_readable(points, points.dtype):
            return None
        if is_colored:
            appearance = part.appearance
            colors, color = appearance.vertex_colors, appearance.color
            if appearance.texture is not None:
                return None
            if colors is not None:
                color = None
                if not _is_readable(colors, points.dtype) or colors.shape[0] != points.shape[2]:
                    return None
            elif type(color) is not tuple:
                return None
        faces = part.faces
        entries = table_bytes(faces)
        if entries is None:
            return None
        thread = threading.get_ident()
        calls = self._threads.get(thread)
        if calls is None:
            calls = self._threads.put(thread, {})
        key = is_colored, points.shape, points.dtype, faces.data_ptr(), faces.dtype, part.convex, color
        call = calls.get(key)
        if call is None:
            if len(calls) >= MOST_CALLS:
                del calls[next(iter(calls))]
            calls[key] = True
        if call is None or call is False:
            return None
        if call is True:
            call = calls[key] = self._bound(surface, is_colored, entries)
        elif call.entries != entries:
            changes = call.changes + 1  # of faces, which are bound anew
            call = calls[key] = changes <= MOST_CHANGES and self._bound(surface, is_colored, entries)
            if isinstance(call, BoundImage):
                call.changes = changes
        return call.draw(points, colors) if isinstance(call, BoundImage) else None

    def _bound(self, surface: Surface, is_colored: bool, entries: bytes) -> "BoundImage | bool":
        """Launches for images of this kind; False where there are none."""
        with torch.no_grad():
            bound = self.bind(surface.detach(), is_colored)
        camera = self.silhouettes.camera
        arrays = camera.K, camera.R, camera.t
        if bound is None or math.prod(bound[0].shape) > MAX_PIXELS or any(x.requires_grad for x in arrays):
            return False
        return BoundImage(self.silhouettes, *bound, surface.vertices, entries)


def _is_readable(x: Tensor, dtype: torch.dtype) -> bool:
    """True if launches can read the memory of a tensor."""
    return type(x) in TENSOR_TYPES and x.dtype is dtype and x.is_cpu and x.is_contiguous()


class BoundImage:
    """Images of one kind.

    Args:
        silhouettes: The camera.
        passes: Their launches.
        colors: Colors of the vertices (1, n, 3) where calls give none.
        points: Vertices (worlds, frames, n, 3) of one of them.
        entries: Faces, see `table_bytes`.
    """

    def __init__(self, silhouettes: Silhouettes, passes: Passes, colors: Tensor | None, points: Tensor, entries: bytes):
        self.silhouettes, self.passes, self.colors, self.entries = silhouettes, passes, colors, entries
        self.lock = threading.RLock()  # of the arrays: a backward pass may run in another thread
        self.idle: deque[Tensor] = deque(maxlen=MOST_IDLE)  # memory of calls whose graphs are gone
        self.status, self.changes = (ctypes.c_int * 2)(), 0
        self._numbers: tuple[bytes | None, ...] = ()  # of the camera
        self._projection: Projection | None = None
        self._backward: BoundLaunch | None = None
        self.color_shape = () if colors is None else colors.shape
        self._places: dict[str, int] = {}  # in what is kept [bytes]
        self.size = 0
        self.sizes = {"points": points.nbytes, "colors": 0 if colors is None else colors.nbytes, **passes.saved}
        for name, size in self.sizes.items():
            self._places[name] = self.size
            self.size += -(-size // ALIGNMENT) * ALIGNMENT
        self._place_constants(passes.forward)

    def draw(self, points: Tensor, colors: Tensor | None) -> Tensor | None:
        """Images; None where the launches are not for these numbers.

        Args:
            points: Vertices (worlds, frames, n, 3) [m].
            colors: Colors of the vertices (n, 3); None: those of the kind.
        """
        camera, passes = self.silhouettes.camera, self.passes
        K, R, t = camera.K, camera.R, camera.t
        if K.requires_grad or R.requires_grad or t.requires_grad:
            return None
        numbers = bytes_of(K), bytes_of(R), bytes_of(t)
        image = points.new_empty(passes.shape)
        leaves = (points,) if colors is None else (points, colors)
        call = ImageCall(self, leaves)
        colors = self.colors if colors is None else colors
        places, status, base = self._places, self.status, call.saved.data_ptr()
        with self.lock:
            if numbers != self._numbers and not self._take_camera(points, numbers):
                return None
            arguments = {passes.image: image.data_ptr(), "points": points.data_ptr()}
            if colors is not None:
                arguments["colors"] = colors.data_ptr()
            for name in passes.saved:
                arguments[name] = base + places[name]
            for name, other in passes.aliases.items():
                arguments[name] = base + places[other]
            status[0] = 0
            passes.forward.place(**arguments)
            passes.forward()
            if status[0]:
                return None
            call.side, call.projection = status[1], self._projection
        if not torch.is_grad_enabled() or not (points.requires_grad or leaves[-1].requires_grad):
            return image
        # the numbers of the caller may change before the backward pass
        ctypes.memmove(base, arguments["points"], self.sizes["points"])
        if colors is not None:
            ctypes.memmove(base + places["colors"], arguments["colors"], self.sizes["colors"])
        return apply_image(call, image)

    def pull_back(self, call: "ImageCall", adjoint: Tensor, points: Tensor, colors: Tensor | None) -> None:
        """Launch the backward pass of a call.

        Args:
            call: The call.
            adjoint: ∂loss/∂image.
            points: Memory of ∂loss/∂points.
            colors: Memory of ∂loss/∂colors, zero before; None where there are no colors.
        """
        base, places, projection = call.saved.data_ptr(), self._places, call.projection
        assert projection is not None
        adjoint = adjoint.contiguous()
        with self.lock:
            launch = self._backward
            if launch is None:
                launch = self.passes.backward()
                self._place_constants(launch)
                self._backward = launch  # as a whole, or not if it is interrupted
            arguments = {name: base + places[name] for name in ("points", *self.passes.saved)}
            if colors is not None:
                arguments |= {"colors": base + places["colors"], "colors_adjoint": colors.data_ptr()}
            arguments |= {f"{self.passes.image}_adjoint": adjoint.data_ptr(), "points_adjoint": points.data_ptr()}
            arguments |= {"matrices": projection.M.data_ptr(), "offsets": projection.c.data_ptr()}
            self.status[1] = call.side
            launch.place(**arguments)
            launch()

    def _place_constants(self, launch: BoundLaunch) -> None:
        constants = {name: x.data_ptr() for name, x in self.passes.constants.items()}
        constants["status"] = ctypes.addressof(self.status)
        launch.place(**{name: address for name, address in constants.items() if launch.takes(name)})

    def _take_camera(self, points: Tensor, numbers: tuple[bytes | None, ...]) -> bool:
        """Look at the camera's numbers from now on; False where they cannot be compared."""
        if None in numbers:
            return False
        with torch.no_grad():
            projection = self.silhouettes.projection(points, {})
        self._numbers, self._projection = (), projection  # an interruption leaves a camera that is taken again
        self.passes.forward.place(matrices=projection.M.data_ptr(), offsets=projection.c.data_ptr())
        self._numbers = numbers
        return True


class ImageCall:
    """One call, as `engine.operation.BoundCall`.

    Args:
        bound: Its kind.
        leaves: What may require a gradient: vertices, and colors where the call is given them.
    """

    def __init__(self, bound: BoundImage, leaves: Sequence[Tensor]):
        self.bound, self.leaves = bound, leaves
        self.shapes = [x.shape for x in leaves]  # those of the call: `x.data` may be replaced
        try:
            self.saved = bound.idle.pop()
        except IndexError:  # all are in graphs
            self.saved = torch.empty(bound.size, dtype=torch.uint8, device="cpu")
        self.side = 0  # second number of the status
        self.projection: Projection | None = None

    def __del__(self):
        if hasattr(self, "saved"):  # not where an interruption came before it
            self.bound.idle.append(self.saved)

    @property
    def kernel(self) -> str:
        """Name in messages."""
        return self.bound.passes.forward.kernel

    def backward_by(
        self,
        needed: Sequence[bool],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        adjoints: Sequence[Tensor | None],
    ) -> list[Tensor | None]:
        (adjoint,), shapes = adjoints, self.shapes
        if adjoint is None:
            return [None] * len(shapes)
        # as the forward pass makes the image: that code is in a cache
        points, colors = adjoint.new_empty(shapes[0]), None
        if self.bound.passes.has_colors:
            colors = adjoint.new_empty(self.bound.color_shape if len(shapes) == 1 else shapes[1])
            ctypes.memset(colors.data_ptr(), 0, colors.nbytes)
        self.bound.pull_back(self, adjoint, points, colors)
        return [points, colors][: len(shapes)]
