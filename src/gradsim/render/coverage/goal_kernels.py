# pyright: reportInvalidTypeForm=false
"""Targets that coverage is compared with, and sums over pixels that are covered alike: a template for `engine.lanes`.

Targets may be windows of the image, one of the same size for each frame. Outside of its window T is 0, and w one number for each frame.
"""

import warp as wp

from gradsim.engine.lanes import Scalar

Pair = wp.types.vector(2, Scalar)

BLOCK = 4  # columns


@wp.struct
class Goal:
    """Targets of all frames."""

    image: wp.array3d[Scalar]  # T, (frames, rows, columns)
    weight: wp.array3d[Scalar]  # as the image, or (frames, 1, 1)
    outside: wp.array[Scalar]  # w outside of the window, (frames)
    blocks: wp.array3d[
        Pair
    ]  # Σ ρ(√w T) and Σ ρ(√w (1 − T)) of a row before each BLOCK columns, (frames, rows, blocks + 1)
    above: wp.array2d[Scalar]  # Σ ρ(√w T) of the rows before a row, (frames, rows + 1)
    below: wp.array2d[Scalar]  # from a row on
    corner: wp.array[wp.vec2i]  # first row and column of the window in the image, (frames)
    kind: int  # of the loss: 0 Gaussian, 1 Huber, 2 Cauchy
    bend: Scalar


@wp.func
def rho(square: Scalar, kind: int, bend: Scalar):
    """ρ, from x²."""
    if kind == 1 and square > bend * bend:
        return Scalar(2.0) * bend * wp.sqrt(square) - bend * bend
    if kind == 2:
        u = square / (bend * bend)
        if u < Scalar(1e-4):  # log(1 + u) would lose digits
            return square * (Scalar(1.0) - u * (Scalar(0.5) - u * (Scalar(1.0 / 3.0) - Scalar(0.25) * u)))
        return bend * bend * wp.log(Scalar(1.0) + u)
    return square


@wp.func
def influence(square: Scalar, kind: int, bend: Scalar):
    """ρ'(x)/(2 x), from x²."""
    if kind == 1 and square > bend * bend:
        return bend / wp.sqrt(square)
    if kind == 2:
        return Scalar(1.0) / (Scalar(1.0) + square / (bend * bend))
    return Scalar(1.0)


@wp.func
def weight_of(goal: Goal, frame: int, row: int, column: int):
    """w of a pixel of the window."""
    if goal.weight.shape[2] == 1:
        return goal.weight[frame, 0, 0]
    return goal.weight[frame, row, column]


@wp.func
def target_of(goal: Goal, frame: int, row: int, column: int):
    """T and w of a pixel of the image."""
    r = row - goal.corner[frame][0]
    c = column - goal.corner[frame][1]
    if r >= 0 and r < goal.image.shape[1] and c >= 0 and c < goal.image.shape[2]:
        return goal.image[frame, r, c], weight_of(goal, frame, r, c)
    return Scalar(0.0), goal.outside[frame]


@wp.func
def one_by_one(goal: Goal, frame: int, row: int, first: int, end: int, alpha: Scalar):
    """Σ ρ of the columns `first` to `end` - 1 of a row, which are covered alike."""
    sum = Scalar(0.0)
    for column in range(first, end):
        target, w = target_of(goal, frame, row, column)
        off = alpha - target
        sum += rho(w * off * off, goal.kind, goal.bend)
    return sum


@wp.func
def run(goal: Goal, frame: int, row: int, first: int, end: int, alpha: Scalar):
    """The same, where they are many."""
    if first >= end:
        return Scalar(0.0)
    if alpha > Scalar(0.0) and alpha < Scalar(1.0):
        return one_by_one(goal, frame, row, first, end, alpha)
    width = goal.image.shape[2]
    corner = goal.corner[frame]
    r = row - corner[0]
    low = wp.clamp(first - corner[1], 0, width)
    high = wp.clamp(end - corner[1], 0, width)
    if r < 0 or r >= goal.image.shape[1]:
        high = low
        r = 0
    total = Scalar(0.0)
    beyond = end - first - (high - low)
    if beyond > 0 and alpha == Scalar(1.0):
        total = Scalar(beyond) * rho(goal.outside[frame], goal.kind, goal.bend)
    begin = (low + BLOCK - 1) // BLOCK
    last = high // BLOCK
    if high == width:
        last = goal.blocks.shape[2] - 1
    if begin >= last:
        return total + one_by_one(goal, frame, row, low + corner[1], high + corner[1], alpha)
    sums = goal.blocks[frame, r, last] - goal.blocks[frame, r, begin]
    total += wp.where(alpha == Scalar(0.0), sums[0], sums[1])
    total += one_by_one(goal, frame, row, low + corner[1], begin * BLOCK + corner[1], alpha)
    return total + one_by_one(goal, frame, row, last * BLOCK + corner[1], high + corner[1], alpha)


@wp.func
def other_rows(goal: Goal, frame: int, first: int, end: int):
    """Σ ρ of the rows before the first of an area and from its end on."""
    height = goal.image.shape[1]
    start = goal.corner[frame][0]
    return goal.above[frame, wp.clamp(first - start, 0, height)] + goal.below[frame, wp.clamp(end - start, 0, height)]
