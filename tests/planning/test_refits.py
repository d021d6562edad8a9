"""Predicted standard deviations against scatter and against fits."""

import numpy as np
import pytest
import torch
from plan_cases import LENGTH, judge, pendulum

import gradsim as gs
from gradsim.identification import synthetic
from gradsim.planning import VideoNoise, plan
from gradsim.planning.refits import refit_errors
from gradsim.planning.search import Design


def test_refits_of_unknowns_that_only_show_together_start_along_their_direction():
    """A covariance of rank one, by rounding not positive definite, is drawn from."""
    film = judge(pendulum(), [], [LENGTH, "bob.angle:0.5:1.2"], "bob.string_length")
    made = film.recording(Design({}))
    C = 1e-4 * torch.tensor([[1.0, 1.0], [1.0, 1.0 - 1e-15]]).double()
    errors = refit_errors(made, made.places[:1], C[None], 1, 0)
    assert torch.isfinite(errors).all()


@pytest.mark.slow  # `test_prediction_is_the_error_bar_of_a_fit` holds the same model to one fit
def test_refits_scatter_as_the_linear_model_says():
    """On a smooth scene: 16 errors have an RMS within 3 standard deviations of it, 3/√32."""
    film = judge(pendulum(), [], [LENGTH, "bob.angle:0.5:1.2"], "bob.string_length")
    made = film.recording(Design({}))
    C = film.covariance(Design({}))
    errors = refit_errors(made, made.places[:2], C[:2], 8, 0)
    scores = errors / C[:2].diagonal(dim1=1, dim2=2).sqrt()[:, None]
    assert (scores.square().mean((0, 1)).sqrt() - 1).abs().max() < 3 / np.sqrt(32)


def test_prediction_is_the_error_bar_of_a_fit():
    """`identify` of a noisy 8-bit film says what the plan has said."""
    scene, unknowns = pendulum(), [LENGTH, "bob.angle:0.5:1.2"]
    truth = {"bob.string_length": 0.52, "bob.angle": 0.9}
    made = plan(scene, "bob.string_length", ["camera.distance=2:3"], unknowns=unknowns, samples=2, spread=1)
    _, trajectory = synthetic.simulate(scene, unknowns, truth)
    masks = synthetic.noisy_masks(scene, trajectory, "bob", 3)
    fit = gs.identify(scene, unknowns, observation=masks, starts=2, known_numbers=False)
    predicted = made.predict(truth, made.present)["bob.string_length"]
    assert fit.unknowns["bob.string_length"].std / 0.52 == pytest.approx(predicted, rel=0.05)


def test_outlines_tell_less_than_pixels():
    """Outlines that are off by 0.15 px, alike in neighbours, against independent noise of 1/255; twice the size tells half."""
    film = judge(pendulum(), [], [LENGTH], "bob.string_length")
    sd = [film.design({}).sd["bob.string_length"]]
    for size in ("auto", "auto:0.3"):
        noise = VideoNoise.parse(size)
        off = judge(pendulum(), [], [LENGTH], "bob.string_length", noise=noise)
        sd.append(off.judged(Design({}), off.recording(Design({})).outlines(noise)).sd["bob.string_length"])
    assert sd[1] > 3 * sd[0]
    assert sd[2] == pytest.approx(2 * sd[1], rel=0.1)  # the offset of all outlines has the same prior
