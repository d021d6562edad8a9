"""Recordings of an experiment whose truths a fit may not know."""

from gradsim.identification.unknowns import Space


def check_hidden_truths(scenes, kind, monkeypatch):
    """The recording 1 of a kind, whose truths are within the ranges, and whose scene does not depend on them.

    Args:
        scenes: Module with `recording(kind, number, seed)` and the stream `TRUTH` of random numbers.
        kind: Of the recording.
        monkeypatch: The fixture, which changes that stream.
    """
    one, again = scenes.recording(kind, 1, 0), scenes.recording(kind, 1, 0)
    monkeypatch.setattr(scenes, "TRUTH", 99)
    other = scenes.recording(kind, 1, 0)
    assert one.truth == again.truth and not set(one.truth.values()) & set(other.truth.values())
    assert one.scene == other.scene
    space = Space(one.scene, one.unknowns)
    for k, true in enumerate(one.truth.values()):
        low, high = space.range(k)
        assert low <= true <= high
    return one
