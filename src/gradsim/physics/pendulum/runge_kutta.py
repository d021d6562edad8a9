"""An explicit Runge–Kutta method of order 8 in 11 stages.

    Y_s = y + h Σ_{r<s} a_sr f(Y_r),     y' = y + h Σ_s b_s f(Y_s)

G. J. Cooper & J. H. Verner, "Some explicit Runge–Kutta methods of high order", SIAM J. Numer. Anal. 9, 1972. Halving the
step takes the error down by 256, so that what a chaotic motion makes of it stays small at few steps.
"""

import math

import torch
from torch import Tensor

_S = math.sqrt(21)
_ROWS = (
    (),
    (1 / 2,),
    (1 / 4, 1 / 4),
    (1 / 7, (-7 - 3 * _S) / 98, (21 + 5 * _S) / 49),
    ((11 + _S) / 84, 0, (18 + 4 * _S) / 63, (21 - _S) / 252),
    ((5 + _S) / 48, 0, (9 + _S) / 36, (-231 + 14 * _S) / 360, (63 - 7 * _S) / 80),
    ((10 - _S) / 42, 0, (-432 + 92 * _S) / 315, (633 - 145 * _S) / 90, (-504 + 115 * _S) / 70, (63 - 13 * _S) / 35),
    (1 / 14, 0, 0, 0, (14 - 3 * _S) / 126, (13 - 3 * _S) / 63, 1 / 9),
    (1 / 32, 0, 0, 0, (91 - 21 * _S) / 576, 11 / 72, (-385 - 75 * _S) / 1152, (63 + 13 * _S) / 128),
    (
        *(1 / 14, 0, 0, 0, 1 / 9, (-733 - 147 * _S) / 2205),
        *((515 + 111 * _S) / 504, (-51 - 11 * _S) / 56, (132 + 28 * _S) / 245),
    ),
    (
        *(0, 0, 0, 0, (-42 + 7 * _S) / 18, (-18 + 28 * _S) / 45),
        *((-273 - 53 * _S) / 72, (301 + 53 * _S) / 72, (28 - 28 * _S) / 45, (49 - 7 * _S) / 18),
    ),
)
_WEIGHTS = (1 / 20, 0, 0, 0, 0, 0, 0, 49 / 180, 16 / 45, 49 / 180, 1 / 20)
STAGES = len(_WEIGHTS)


def order_eight() -> tuple[Tensor, Tensor]:
    """a (stages, stages), zero on and above the diagonal, and b (stages,), in double precision."""
    rows = [[*row, *[0.0] * (STAGES - len(row))] for row in _ROWS]
    return torch.tensor(rows, dtype=torch.float64), torch.tensor(_WEIGHTS, dtype=torch.float64)
