"""Effects of camera and air against closed forms, and their derivatives against differences."""

import numpy as np
import pytest
import torch
from wavy_ball import NAMES, centres, masks, scene

from gradsim.identification.observation.camera_effects import EFFECTS, View, WithEffect
from gradsim.identification.problem import Problem
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model

VIEW = View(1 / 30, 90, torch.tensor([60.0, 45.0]).double(), 150.0)
BY_NAME = {effect.name: effect for effect in EFFECTS}
TRUTH = (1.0, 4.0, -9.81)
FRAMES = 12


def parabola(t: torch.Tensor) -> torch.Tensor:
    """Column and row of a thrown point."""
    return torch.stack([10 + 60 * t, 60 - 100 * t + 120 * t**2], -1)


def effect_on(name: str, amount: float, t: torch.Tensor) -> list[torch.Tensor]:
    return [x[0, :, 0] for x in BY_NAME[name].screens(parabola(t)[None, :, None], amount, VIEW)]


TIMES = torch.arange(30).double() / 30


def test_late_stamps_are_exact_on_a_parabola():
    (late,) = effect_on("late stamps", 0.02, TIMES)
    torch.testing.assert_close(late, parabola(TIMES + 0.02))


def test_a_row_is_read_at_its_own_time():
    (rolled,) = effect_on("rolling shutter", 0.03, TIMES)
    torch.testing.assert_close(rolled, parabola(TIMES + 0.03 * parabola(TIMES)[:, 1] / VIEW.height))


def test_an_exposure_begins_at_the_stamp_and_lasts_as_long_as_it_says():
    images = effect_on("late exposure", 0.02, TIMES)
    torch.testing.assert_close(
        torch.stack(images).mean(0), torch.stack([parabola(TIMES + 0.02 * (k + 0.5) / 5) for k in range(5)]).mean(0)
    )


def test_a_lens_moves_points_along_the_radius():
    (distorted,) = effect_on("lens distortion", -0.2, TIMES)
    away = parabola(TIMES) - VIEW.centre
    torch.testing.assert_close(distorted, VIEW.centre + away * (1 - 0.2 * away.square().sum(-1, keepdim=True) / 150**2))


def test_drag_is_that_of_a_flight_with_linear_drag():
    """The trapezoidal rule errs by p dt²/12 times the change of the speed on the screen, 950 px/s in a second: 0.053 px."""
    paths = [torch.tensor(100 * centres(30, TRUTH, drag))[None, :, None] for drag in (0.0, 0.6)]
    (dragged,) = BY_NAME["air drag"].screens(paths[0], 0.6, VIEW)
    assert (dragged - paths[1]).abs().max() < 0.053
    assert (paths[0] - paths[1]).abs().max() > 10


def test_a_contact_does_not_bend_the_path_before_and_after_it():
    path = torch.where(TIMES < 0.5, 10 * TIMES, 10 - 10 * TIMES)[None, :, None, None].expand(1, 30, 1, 2)
    (late,) = BY_NAME["late stamps"].screens(path, 0.01, VIEW)
    torch.testing.assert_close(late[0, :14, 0, 0], path[0, :14, 0, 0] + 0.1)
    torch.testing.assert_close(late[0, 16:, 0, 0], path[0, 16:, 0, 0] - 0.1)


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: effect.name)
def test_derivatives_match_central_differences(effect):
    observed = masks(centres(FRAMES, TRUTH), np.zeros((FRAMES, 256)))
    content = scene(FRAMES)
    problem = WithEffect(Problem(Model(content), observed, Space(content, NAMES[:2])), effect)
    u = torch.tensor([[1.05, 3.9, 0.7 * effect.typical]]).double()
    blocks = list(problem.jacobian(u, FRAMES))
    r, J = torch.cat([r for r, _ in blocks], 1), torch.cat([J for _, J in blocks], 1)
    torch.testing.assert_close(r, problem._residuals(u, FRAMES, "pixels"))
    for k, step in enumerate((1e-4, 1e-4, 1e-4 * effect.typical)):
        shift = step * torch.eye(3).double()[k]
        slope = (problem._residuals(u + shift, FRAMES, "pixels") - problem._residuals(u - shift, FRAMES, "pixels")) / (
            2 * step
        )
        # coverage is piecewise quadratic in vertices: a step that crosses a pixel's border errs in single pixels
        assert (J[0, :, k] - slope[0]).norm() < 0.02 * slope.norm()
