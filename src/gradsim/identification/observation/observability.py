"""Structural observability: does an observation depend on an unknown at all?

Derivatives that happen to be 0 are reported with the fit; here, unknowns without any dependency are refused.
"""

from collections.abc import Iterable

from gradsim.errors import InputError
from gradsim.identification.observation.base import Masks, Observation, States
from gradsim.identification.observation.images import Images
from gradsim.identification.observation.joint_log import JointLog
from gradsim.identification.observation.light_masks import NUMBERS, LightMasks
from gradsim.identification.observation.multi_view import MultiView
from gradsim.identification.observation.points import Points
from gradsim.identification.observation.vertices import Vertices
from gradsim.physics.dependencies import read_by_images, read_by_log, read_by_tracks, require_dependency
from gradsim.physics.model import Model


def require_observable(model: Model, observation: Observation, names: Iterable[str]) -> None:
    """Raise `InputError` if nothing depends on an unknown, or it belongs to a camera or light without an image, or to a marker
    without a track.
    """
    names, visible = list(names), _visible_parameters(observation)
    require_dependency(model, names)
    _require_response(observation, names)
    for name in names:
        if visible is not None and name in read_by_tracks(model.scene) and not name.startswith(visible):
            raise InputError(
                f"`{name}` cannot be found from this observation: it has no track of that marker. Leave it out, or observe by `Points`."
            )
        if visible is not None and name in read_by_log(model.scene) and not name.startswith(visible):
            raise InputError(
                f"`{name}` cannot be found from this observation: it has no log. Leave it out, or give the log (--log FILE)."
            )
        if visible is not None and name in read_by_images(model.scene) and not name.startswith(visible):
            what = (
                "its pictures are lit by nothing" if name.startswith("lights.") else "it has no picture of that camera"
            )
            raise InputError(
                f"`{name}` cannot be found from this observation: {what}. Leave it out, or observe by "
                f"{'`Images` with a law of shading' if name.startswith('lights.') else '`Masks` or `Images` of it'}."
            )


def _require_response(observation: Observation, names: Iterable[str]) -> None:
    """Raise `InputError` if the response of a camera is an unknown and no edge of its masks is measured."""
    parts = observation.parts.values() if isinstance(observation, MultiView) else [observation]
    measured = {part.silhouettes.lens for part in parts if isinstance(part, LightMasks)}
    for name in names:
        camera, _, key = name.rpartition(".")
        if key in NUMBERS and camera.partition(".")[0] in ("camera", "cameras") and camera not in measured:
            raise InputError(
                f"`{name}` cannot be found from this observation, which measures no edges: give --background (of a gain, a FILE of the empty scene) or "
                f"--mask color:X,Y,W,H, or leave it out."
            )


def _visible_parameters(observation: Observation) -> tuple[str, ...] | None:
    """Prefixes of the parameters of camera and lights that it shows; None if unknown."""
    if isinstance(observation, MultiView):
        parts = [_visible_parameters(part) for part in observation.parts.values()]
        return None if None in parts else tuple(name for part in parts for name in part or ())
    if isinstance(observation, Masks):
        return (f"{observation.silhouettes.lens}.",)
    if isinstance(observation, Images):
        shading = observation.renderer.shading
        lit = (shading if isinstance(shading, str) else shading.law) != "colour"
        return (f"{observation.renderer.lens}.", *(["lights."] if lit else []))
    if isinstance(observation, Points):
        lens = () if observation.silhouettes is None else (f"{observation.silhouettes.lens}.",)
        return (*(f"markers.{name}." for name in observation.names), *lens)
    if isinstance(observation, JointLog):
        return tuple(f"channels.{name}." for name in observation.sensors)
    return () if isinstance(observation, States | Vertices) else None
