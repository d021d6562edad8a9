from types import SimpleNamespace

import pytest

from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim_reproduction.rigid import fits as experiment
from gradsim_reproduction.rigid.fits import refit_if_mismatch

COARSE = MultistartConfig(starts=2, grow=6)


@pytest.mark.parametrize(
    "status, chi2, kept, plans",
    [
        ("ok", (1.0, 0.9), 1.0, [COARSE]),
        ("mismatch", (9.0, 1.1), 1.1, [COARSE, MultistartConfig()]),
        ("mismatch", (9.0, 12.0), 9.0, [COARSE, MultistartConfig()]),
    ],
)
def test_a_video_that_is_not_explained_is_searched_once_more_and_the_better_answer_kept(
    monkeypatch, status, chi2, kept, plans
):
    monkeypatch.setattr(experiment, "replace", lambda fit, **spent: SimpleNamespace(**{**vars(fit), **spent}))
    asked = []

    def fit(plan):
        asked.append(plan)
        end = status if len(asked) == 1 else "ok"
        return SimpleNamespace(
            status=end, chi2_per_n=chi2[len(asked) - 1], cpu_seconds=2.0, wall_seconds=3.0, rollouts=10
        )

    found = refit_if_mismatch(fit, COARSE)
    assert asked == plans and found.chi2_per_n == kept and found.rollouts == 10 * len(plans)
