"""Designs in plain words: "film from the side rather than from above: ground.friction ± 40 % → ± 3 %"."""

import math
from collections.abc import Mapping, Sequence

from gradsim.numerics.formatting import rounded
from gradsim.planning.choices import Value, present_value, target_of, with_settings
from gradsim.planning.question import Marking, Question, Weighing
from gradsim.planning.search import Design
from gradsim.scene import Scene
from gradsim.scene.parameters import parameters, resolve

MIN_STEEP_ELEVATION = math.radians(60)  # elevation from which a camera films from above
MIN_TURN_AZIMUTH = math.radians(15)  # azimuth by which it is on another side
MIN_USEFUL_GAIN = 1.1  # gain below which a change changes nothing


def percent(x: float) -> str:
    """A standard deviation over its value, in percent with two digits."""
    if not math.isfinite(x):
        return "∞"
    share = 100 * x
    return f"{share:.2g} %" if share < 99.5 else f"{round(share)} %"


def amounts(question: Question, sd: Mapping[str, float]) -> list[str]:
    """Standard deviations of what is wanted: "ground.friction ± 3 %"; of what may be 0, in its unit."""
    texts = []
    for w, k in zip(question.wanted, question.columns, strict=True):
        low, high = question.space.range(k)
        if question.space.logarithmic[k] or low * high > 0:
            texts.append(f"{w.name} ± {percent(sd[w.name])}")
        else:
            texts.append(f"{w.name} ± {sd[w.name] * (high - low) / 2:.2g} {question.space.units[k]}".rstrip())
    return texts


def arrow(question: Question, before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """ "ground.friction ± 40 % → ± 3 %", of each that is wanted."""
    pairs = zip(amounts(question, before), amounts(question, after), strict=True)
    return ", ".join(f"{old} → ±{new.partition('±')[2]}" for old, new in pairs)


def changes(scene: Scene, design: Design, weigh: Mapping[str, Weighing | Marking]) -> list[str]:
    """Changes of a design from the present scene, one phrase each."""
    if design.label:
        return [f"fit {design.label}"]
    settings = dict(design.settings)
    phrases = _camera(scene, settings)
    if second := settings.pop("camera.second", None):
        phrases.append(f"add a second camera {'from above' if second == 'above' else f'from {_side(str(second))}'}")
    fps, frames = settings.pop("timing.fps", None), settings.pop("timing.frames", None)
    if fps is not None:
        phrases.append(f"film {fps:g} in place of {scene.timing.fps:g} frames a second")
    if frames is not None:
        phrases.append(f"film {frames:.0f} in place of {scene.timing.frames} frames")
    if (size := settings.pop("camera.size", None)) is not None:
        phrases.append(f"film with {size:.0f} in place of {scene.view('camera').size[0]} px across")
    for body in scene.bodies:
        impulse = [float(settings.pop(f"{body}.push.{axis}", 0.0)) for axis in "xyz"]
        if any(impulse):
            phrases.append(f"push {body} with a known impulse of ({', '.join(f'{x:.3g}' for x in impulse)}) N s")
    phrases += [_set(scene, name, value) for name, value in settings.items()]
    verb = lambda one: "put" if isinstance(one, Marking) else "measure"
    return phrases + [f"{verb(weigh[name])} {weigh[name].words}" for name in design.weighed]


def _side(second: str) -> str:
    return "the side" if second == "side" else "behind"


def _camera(scene: Scene, settings: dict[str, Value]) -> list[str]:
    """Phrases on the place of the first camera; takes its settings out."""
    keys = ("position.x", "position.y", "position.z", "azimuth", "elevation", "distance")
    chosen = {f"camera.{key}": settings.pop(f"camera.{key}") for key in keys if f"camera.{key}" in settings}
    if not chosen:
        return []
    after_scene = with_settings(scene, chosen)
    before, after = (
        {key: float(present_value(s, f"camera.{key}")) for key in ("azimuth", "elevation", "distance")}
        for s in (scene, after_scene)
    )
    phrases, old, new = [], _direction(before["elevation"]), _direction(after["elevation"])
    turn = abs(math.remainder(after["azimuth"] - before["azimuth"], 2 * math.pi))
    if old != new:
        phrases.append(f"film {new} rather than {old} ({math.degrees(after['elevation']):.0f}° above the horizon)")
    elif abs(after["elevation"] - before["elevation"]) > MIN_TURN_AZIMUTH / 3:
        phrases.append(
            f"film from {math.degrees(after['elevation']):.0f}° in place of {math.degrees(before['elevation']):.0f}° above the horizon"
        )
    if turn > MIN_TURN_AZIMUTH / 3 and new != "from above":
        phrases.append(
            f"turn the camera by {math.degrees(turn):.0f}° about the scene (azimuth {math.degrees(after['azimuth']):.0f}°)"
        )
    if abs(after["distance"] / before["distance"] - 1) > 0.02:
        phrases.append(f"film from {after['distance']:.2g} m in place of {before['distance']:.2g} m")
    if not phrases:
        eye = target_of(after_scene) * 0 + [
            float(present_value(after_scene, f"camera.position.{axis}")) for axis in "xyz"
        ]
        phrases.append(f"move the camera to ({', '.join(f'{x:.3g}' for x in eye)}) m")
    return phrases


def _direction(elevation: float) -> str:
    return (
        "from above"
        if elevation > MIN_STEEP_ELEVATION
        else "from below"
        if elevation < -MIN_STEEP_ELEVATION
        else "from the side"
    )


def _set(scene: Scene, name: str, value: Value) -> str:
    unit = parameters(scene)[resolve(scene, name)[0]].unit
    old = float(present_value(scene, name))
    return f"set {name} to {rounded(float(value), abs(float(value)) / 10 or 1)} in place of {old:.3g} {unit}".rstrip()


def sentence(question: Question, present: Design, design: Design, weigh: Mapping[str, Weighing | Marking]) -> str:
    """A design with what it would do: "film from above rather than from the side: ground.friction ± 40 % → ± 3 %."."""
    phrases = changes(question.scene, design, weigh)
    return f"{'; '.join(phrases) if phrases else 'film as at present'}: {arrow(question, present.sd, design.sd)}"


def summary(
    question: Question, present: Design, best: Design, singles: Sequence[Design], weigh, enough: Design | None = None
) -> list[str]:
    """A plan in sentences: the best single change, the best design, and changes that change nothing."""
    gain = lambda d: math.exp(present.criterion - d.criterion) if math.isfinite(d.criterion) else 0.0
    texts = []
    helpful = [d for d in singles if gain(d) > MIN_USEFUL_GAIN]
    if helpful:
        top = max(helpful, key=gain)
        texts.append(f"Best single change: {sentence(question, present, top, weigh)}.")
    if gain(best) > MIN_USEFUL_GAIN and (not helpful or best.key != max(helpful, key=gain).key):
        texts.append(f"Best of all: {sentence(question, present, best, weigh)}.")
    if gain(best) <= MIN_USEFUL_GAIN:
        texts.append(
            f"No choice changes anything: {', '.join(amounts(question, present.sd))} now, and with the best design alike."
        )
    if enough is present:
        texts.append(f"The present film is enough: {', '.join(amounts(question, present.sd))}.")
    elif enough is not None:
        texts.append(f"Enough: {sentence(question, present, enough, weigh)}.")
    elif all(w.accuracy for w in question.wanted):
        texts.append(
            f"No design is enough for the accuracy that is wanted; the best leaves {', '.join(amounts(question, best.sd))}."
        )
    idle = [d for d in singles if gain(d) <= MIN_USEFUL_GAIN]
    if idle:
        listed = "; ".join("; ".join(changes(question.scene, d, weigh)) for d in idle)
        texts.append(f"Alone, these change nothing: {listed}.")
    return texts
