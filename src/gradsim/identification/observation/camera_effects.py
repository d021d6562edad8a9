"""Effects of camera and air that a scene does not have, to the first order: rolling shutter, exposure, lens, late stamps, drag.

Each moves the vertices x(t) on the screen by one number p:

    rolling shutter    x(t + p y/h)                                 row y of h is read p y/h after the stamp [s]
    late exposure      mean of the images at x(t + p s), 0 < s < 1  open for p from the stamp on [s]: an exposure of |p|, stamped p/2 early
    late stamps        x(t + p)                                     [s]
    exposure           mean of the images at x(t + e s), |s| < 1/2  e² = p [s²]: about the stamp, as `exposure` of a camera
    lens distortion    c + (x − c)(1 + p |x − c|²/f²)               k₁ of OpenCV, of the vertices alone
    clock rate         x(t (1 + p))                                 of the first frame's stamp on
    air drag           y with  y'' = x'' − p y',  y(0) = x(0)       of the middle; linear drag [1/s], at constant depth and without contacts

x between frames is their parabola, whose curvature is the smaller one of two frames: where a contact bends the path, that
of the flight. So nothing of this is exact; it tells which effect a scene should have.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.identification.observation.base import Masks, Residual, normal_equations
from gradsim.identification.observation.projection import Sensitivity, image_vertices
from gradsim.identification.problem import Problem
from gradsim.identification.unknowns import Ranges, Space, Unknown
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory

INSTANTS = 5  # of an exposure
AIR_DRAG = "air drag"
LATE_EXPOSURE = "late exposure"  # what cameras have that stamp frames as the shutter opens
SHIFT = 1e-4  # [px] of vertices, of central differences by unknowns
STEP = 1e-2  # of central differences, of an effect's typical size


@dataclass(frozen=True)
class View:
    """Camera and clock of masks.

    Args:
        interval: Between two frames [s].
        height: Of the image [px].
        centre: Principal point (2,) [px].
        focal: Focal length [px].
    """

    interval: float
    height: int
    centre: Tensor
    focal: float


@dataclass(frozen=True)
class CameraEffect:
    """An effect with one number.

    Args:
        name: In words.
        unit: SI unit of its number.
        typical: Size of the number in real videos.
        screens: From screen vertices (worlds, frames, n, 2) [px], the number and the view to the vertices of the images
            whose mean is seen.
    """

    name: str
    unit: str
    typical: float
    screens: Callable[[Tensor, float, View], list[Tensor]]


def _later(screen: Tensor, delay: Tensor) -> Tensor:
    """Vertices (worlds, frames, n, 2) at another instant of each, `delay` (broadcastable to them) frames later."""
    if screen.shape[1] < 3:
        return screen
    change = screen[:, 1:] - screen[:, :-1]
    bend = change[:, 1:] - change[:, :-1]
    before = torch.cat([bend[:, :1], bend, bend[:, -1:]], 1)
    after = torch.cat([before[:, 1:], before[:, -1:]], 1)
    bend = torch.where(before.abs() < after.abs(), before, after)
    change = torch.cat([change, change[:, -1:] + bend[:, -1:]], 1)
    return screen + delay * change - 0.5 * delay * (1 - delay) * bend


def _dragged(screen: Tensor, drag: float, view: View) -> Tensor:
    """y(t) = x(t) − p ∫ exp(−p (t − s)) (c(s) − c(0)) ds of the mean c of all vertices, by the trapezoidal rule: drag does not turn."""
    away = (screen - screen[:, :1]).mean(2, keepdim=True)
    fading = torch.exp(torch.tensor(-drag * view.interval)).item()
    total, parts = torch.zeros_like(away[:, 0]), [screen[:, 0]]
    for k in range(1, screen.shape[1]):
        total = fading * total + 0.5 * view.interval * (fading * away[:, k - 1] + away[:, k])
        parts.append(screen[:, k] - drag * total)
    return torch.stack(parts, 1)


def _rolled(screen: Tensor, readout: float, view: View) -> Tensor:
    row = (screen[..., 1:] / view.height).clamp(0, 1)
    return _later(screen, readout / view.interval * row)


def _exposed(screen: Tensor, exposure: float, view: View) -> list[Tensor]:
    shares = [(k + 0.5) / INSTANTS for k in range(INSTANTS)]
    return [_later(screen, screen.new_tensor(exposure / view.interval * share)) for share in shares]


def _distorted(screen: Tensor, k1: float, view: View) -> Tensor:
    away = screen - view.centre
    return view.centre + away * (1 + k1 * away.square().sum(-1, keepdim=True) / view.focal**2)


EFFECTS = (
    CameraEffect("rolling shutter", "s", 0.02, lambda x, p, view: [_rolled(x, p, view)]),
    CameraEffect(LATE_EXPOSURE, "s", 0.02, _exposed),
    CameraEffect("late stamps", "s", 0.003, lambda x, p, view: [_later(x, x.new_tensor(p / view.interval))]),
    CameraEffect("lens distortion", "", 0.1, lambda x, p, view: [_distorted(x, p, view)]),
    CameraEffect(AIR_DRAG, "1/s", 0.5, lambda x, p, view: [_dragged(x, p, view)]),
)


def _about_the_stamp(screen: Tensor, square: float, view: View) -> list[Tensor]:
    share = max(square, 0.0) ** 0.5 / view.interval
    return [_later(screen, screen.new_tensor(share * ((k + 0.5) / INSTANTS - 0.5))) for k in range(INSTANTS)]


def _clocked(screen: Tensor, share: float, view: View) -> Tensor:
    frame = torch.arange(screen.shape[1]).to(screen)
    return _later(screen, share * frame[:, None, None])


# of tests (`uncertainty.missing_effects`): the first is even in the exposure, so its square is the number
BLUR = CameraEffect("exposure", "s^2", 0.02**2, _about_the_stamp)
CLOCK = CameraEffect("clock rate", "", 0.03, lambda x, p, view: [_clocked(x, p, view)])


class AffectedMasks(Masks):
    """Masks that are compared with images under an effect of the camera.

    Args:
        masks: The masks.
        effect: The effect.
        amount: Its number.
        fps: Frames per second.
    """

    def __init__(self, masks: Masks, effect: CameraEffect, amount: float, fps: float):
        self.__dict__.update(masks.replaced().__dict__)
        K = masks.silhouettes.camera.K.double()
        self.effect, self.amount = effect, amount
        self.view = View(1 / fps, masks.silhouettes.camera.height, K[:2, 2], K[0, 0].item())

    def views(self, screen: Tensor, slope: Tensor) -> list[tuple[Tensor, Tensor]]:
        count = self.silhouettes.instants
        apply = lambda x: self.effect.screens(x, self.amount, self.view)

        def affected(x: Tensor) -> tuple[Tensor, ...]:
            if count == 1:
                return tuple(apply(x))
            instants = zip(*(apply(x[:, k::count]) for k in range(count)), strict=True)  # by image of the effect
            return tuple(torch.stack(image, 2).flatten(1, 2) for image in instants)

        screens, columns = affected(screen), []
        for column in slope.unbind(1):  # differences: exact to 1e-8, and a tenth of the time of `torch.func.jvp`
            step = SHIFT / max(column.abs().max().item(), 1e-300)
            ends = zip(affected(screen + step * column), affected(screen - step * column), strict=True)
            columns.append([(after - before) / (2 * step) for after, before in ends])
        slopes = [torch.stack(part, 1) for part in zip(*columns, strict=True)] or [slope for _ in screens]
        return [self.from_corners(s.contiguous(), d.contiguous()) for s, d in zip(screens, slopes, strict=True)]

    def residuals(self, trajectory: Trajectory, frames: int, residual: Residual) -> Iterator[Tensor]:
        screen, slope, faces, convex = image_vertices(self.silhouettes, trajectory).shapes
        image = self.mean_coverage(self.views(screen, slope), slice(0, frames), faces, convex)[0]
        yield self.compared(image, frames, residual)

    def sums(self, screen: Tensor, slope: Tensor, faces: Tensor, convex: bool, frames: int, residual: Residual):
        return normal_equations(self.linear(screen, slope, faces, convex, frames, residual))


class _WithAmount(Ranges):
    """Unknowns of a problem, and the number of an effect."""

    def __init__(self, base: Space, effect: CameraEffect):
        last = Unknown(effect.name, -20 * effect.typical, 20 * effect.typical)
        kinds = [*base.logarithmic, False], [*base.units, effect.unit]
        super().__init__([*base.unknowns, last], *kinds, priors=base.priors)
        self.base = base

    def values(self, inner: Tensor) -> Values:
        """Parameters (worlds, ...) that the unknowns touch, by name."""
        return self.base.values(inner[:, :-1])


class WithEffect(Problem):
    """A problem with one more unknown, the last one: the number of an effect of the camera.

    Args:
        problem: Of one clip and camera with `Masks`.
        effect: The effect.
    """

    space: Space | _WithAmount

    def __init__(self, problem: Problem, effect: CameraEffect):
        self.__dict__.update(problem.__dict__)
        self.effect, self.base = effect, problem.space
        self.space = _WithAmount(problem.space, effect)

    def observation_at(self, u: Tensor) -> AffectedMasks:
        observation = self.observation
        assert isinstance(observation, Masks)
        return AffectedMasks(observation, self.effect, u[-1].item(), self.model.scene.timing.fps)

    def jacobian(self, u: Tensor, frames: int, residual: Residual = "pixels"):
        step = STEP * self.effect.typical
        ends = []
        for sign in (1, -1):
            shifted = u.clone()
            shifted[0, -1] += sign * step
            ends.append(self._residuals(shifted, frames, residual))
        column = (ends[0] - ends[1]) / (2 * step)
        inner = copy.copy(self)
        inner.space = self.base
        first = 0
        with torch.no_grad():
            s: Sensitivity = inner.sensitivity(u[:, :-1], frames)
            for r, J in self.observation_at(u[0]).linearize(s, frames, residual):
                last = first + r.shape[1]
                yield r, torch.cat([J, column[:, first:last, None]], 2)
                first = last

    def _residuals(self, u: Tensor, frames: int, residual: Residual) -> Tensor:
        self.effort.rollouts += 1
        with torch.no_grad():
            values = self.model.values(self.space.values(u))
            trajectory = self.model.rollout_unchecked(values, frames)
            return torch.cat(list(self.observation_at(u[0]).residuals(trajectory, frames, residual)), 1)
