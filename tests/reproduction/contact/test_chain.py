"""A chain of four links from one file: gradsim and Newton's Featherstone are one in the limit of small steps."""

from importlib.util import find_spec

import numpy as np
import pytest
from checks import slope

from gradsim.physics.model import Model
from gradsim_reproduction.contact import chain


@pytest.mark.slow  # Newton's kernels take a quarter of a minute to compile; Lagrange's equations: `test_articulated.py`
# not importorskip: importing Newton takes seconds, which every collection would pay
@pytest.mark.skipif(find_spec("newton") is None, reason='Newton is not installed: pip install "gradsim[newton]"')
def test_a_chain_and_newtons_agree_to_the_order_of_the_integrators(tmp_path):
    """Both of first order: their difference halves with the step, and so does either one's to a fine rollout."""
    exact = chain.centers(Model(chain.scene(tmp_path, 32, "rk4")))
    steps, theirs, apart = (8, 16, 32), [], []
    for n in steps:
        ours, newton = chain.centers(Model(chain.scene(tmp_path, n))), chain.NewtonChain(tmp_path, n).centers()
        theirs.append(np.abs(newton - exact).max())
        apart.append(np.abs(newton - ours).max())
    h = [1 / n for n in steps]
    assert abs(slope(h, theirs) - 1) < 0.1 and abs(slope(h, apart) - 1) < 0.1
    assert apart[-1] < 1e-3 * chain.LINKS * chain.LENGTH
