"""Which picture of a film shows which instant: dropped, repeated and unwanted frames.

Instants are frames of the scene's clock, counted from the first picture of the film:

    instant of picture k = round((t_k − t_0) fps)

A gap in the time stamps leaves instants without a picture. A picture that repeats the one before, as players and
recorders make them where they missed one, stands for an instant that nobody saw. Neither is evidence; time goes on.

Real pictures differ by their noise, so an equal one is a copy. Where a film has no noise, a body at rest makes equal
pictures too: there it counts as a copy only if the body jumps after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gradsim.errors import InputError
from gradsim.video.read import Video

EQUAL = 0.1  # share of the usual number of changed pixels below which a picture is a copy, coded with loss
NOISY = 0.25  # share of pixels that change between usual pictures, above which noise tells copies from rest
JUMP = 1.3  # change across a copy over the change beside it: 2 for a picture that was held, 1 for a body at rest
FAR = 1.7  # step over the steps beside it: 2 where a picture was dropped, 1 in free motion
SURE = 1.0  # [px] steps below this tell nothing


@dataclass(frozen=True, eq=False)
class Frames:
    """Pictures by instants.

    Attributes:
        picture: (instants,) picture that stands at each; where there is none, the one before.
        counts: (instants,) whether it is evidence.
        dropped: Instants without a picture.
        repeated: Instants whose picture repeats the one before.
        excluded: Instants that were not chosen.
        suspected: What else looks wrong, in words.
    """

    picture: np.ndarray
    counts: np.ndarray
    dropped: list[int] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)
    excluded: list[int] = field(default_factory=list)
    suspected: list[str] = field(default_factory=list)

    def notes(self) -> dict:
        """For `result.json`."""
        return {
            "frames_used": int(self.counts.sum()),
            "frames_dropped": self.dropped,
            "frames_repeated": self.repeated,
            "frames_excluded": self.excluded,
            "frames_suspected": self.suspected,
        }


def align(film: Video, fps: float, choice: str = "") -> Frames:
    """Pictures of a film by the instants of a clock.

    Args:
        film: Its time stamps fit the clock (`gradsim.video.check`).
        fps: Of the clock.
        choice: Words with commas between: `A:B` uses pictures A to B − 1 only, `!K` does not use picture K, `-K` cuts
            it out as if no time had passed (one that was put in), `+K` says that one is missing before it.

    Raises:
        InputError: If `choice` is not made of such words, names a picture that the film lacks, or leaves fewer than 2.
    """
    count = len(film.frames)
    instant = np.rint((film.times - film.times[0]) * fps).astype(int)
    wanted, cut, ranges = np.ones(count, bool), np.zeros(count, bool), np.zeros(count, bool)
    for word in filter(None, (w.strip() for w in choice.split(","))):
        if word[0] in "!-+":
            k = _number(word[1:], word, count)
            wanted[k] &= word[0] != "!"
            cut[k] |= word[0] == "-"
            instant[k:] += {"!": 0, "-": -1, "+": 1}[word[0]]
        else:
            first, colon, last = word.partition(":")
            if not colon:
                raise _wrong(word)
            ranges[_number(first or "0", word, count) : _number(last or str(count), word, count + 1)] = True
    if ranges.any():
        wanted &= ranges
    copies = repeats(film.frames)
    length = int(instant[~cut].max(initial=0)) + 1
    picture, shown = np.zeros(length, int), np.zeros(length, bool)
    for k in np.flatnonzero(~cut & (instant >= 0)):
        picture[instant[k]], shown[instant[k]] = k, True
    picture = np.maximum.accumulate(np.where(shown, picture, 0))
    # after a cut, what follows the copy is no copy of what is left
    copy, chosen = shown & copies[picture], wanted[picture]
    counts = shown & chosen & ~copy
    if counts.sum() < 2:
        raise InputError(
            f"of {count} frames {counts.sum()} are left (`{choice}`, {copies.sum()} repeat the one before); physics "
            "needs at least 2."
        )
    listed = lambda which: np.flatnonzero(which).tolist()
    return Frames(picture, counts, listed(~shown), listed(copy), listed(shown & ~chosen))


def repeats(frames: np.ndarray) -> np.ndarray:
    """Whether each frame (T, height, width, 3) uint8 repeats the one before, (T,) bool."""
    count = len(frames)
    change = lambda a, b: np.abs(frames[a].astype(np.int16) - frames[b])
    changed, size = np.zeros(count), np.zeros(count)
    for k in range(1, count):
        step = change(k, k - 1)
        changed[k], size[k] = (step.max(-1) > 0).mean(), step.mean()
    usual = np.median(changed[1:]) if count > 1 else 0.0
    equal = changed <= EQUAL * usual
    found = np.zeros(count, bool)
    for first, last in _runs(equal[1:]):
        first, last = first + 1, last + 1  # equal frames first … last − 1, between first − 1 and last
        if usual > NOISY:
            found[first:last] = True
        elif last < count:
            beside = max(size[first - 1], size[last + 1] if last + 1 < count else 0.0)
            found[first:last] = 0 < beside < change(last, first - 1).mean() / JUMP
    return found


def suspect(places: np.ndarray, frames: Frames) -> list[str]:
    """Steps of a body that look as if its film had lost or gained a picture, in words.

    Args:
        places: Where it is at each instant (instants, 2) [px].
        frames: Which of them count.
    """
    at = np.flatnonzero(frames.counts)
    speed = np.diff(places[at], axis=0) / np.diff(at)[:, None]
    size = np.linalg.norm(speed, axis=1)
    told = []
    for k in range(1, len(speed) - 1):
        before, after = speed[k - 1], speed[k + 1]
        if min(size[k - 1], size[k + 1]) < SURE or size[k] == 0:
            continue
        along = min(speed[k] @ before / (size[k] * size[k - 1]), speed[k] @ after / (size[k] * size[k + 1]))
        picture = int(frames.picture[at[k + 1]])
        if along > 0.8 and size[k] > FAR * max(size[k - 1], size[k + 1]):
            told.append(
                f"before frame {picture} the body goes {size[k] / max(size[k - 1], size[k + 1]):.1f} times as far as "
                f"beside it: a frame may be missing there (if so: --frames +{picture})"
            )
        held = at[k + 1] - at[k] > 1 and at[k] + 1 in frames.repeated
        if along > 0.8 and held and size[k] * FAR < min(size[k - 1], size[k + 1]):
            told.append(
                f"after the repeated frame {picture - 1} the body does not jump: it may have been put in (if so: "
                f"--frames=-{picture - 1})"
            )
    return told


def centroids(masks: np.ndarray) -> np.ndarray:
    """Centres (T, 2) of masks (T, height, width), column and row [px]; of an empty mask, not a number."""
    inside = np.clip(masks, 0, 1) * (masks > 0.1)  # noise around an empty picture has no centre
    columns, rows = np.arange(masks.shape[2]) + 0.5, np.arange(masks.shape[1]) + 0.5
    with np.errstate(invalid="ignore"):
        return np.stack([inside.sum(1) @ columns, inside.sum(2) @ rows], 1) / inside.sum((1, 2))[:, None]


def _runs(flags: np.ndarray) -> Sequence[tuple[int, int]]:
    """Ends (first, last + 1) of the stretches of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _number(text: str, word: str, end: int) -> int:
    if not text.isdigit():
        raise _wrong(word)
    if int(text) >= end:
        raise InputError(f"--frames {word} names frame {text}; the film has frames 0 to {end - 1}.")
    return int(text)


def _wrong(word: str) -> InputError:
    return InputError(
        f"--frames has {word!r}; it takes words with commas between: A:B (use these only), !K (do not use K), -K (K was "
        "put in), +K (one is missing before K)."
    )
