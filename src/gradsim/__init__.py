"""gradsim: from a video of moving things, the physics that made it.

An independent re-implementation and extension of gradSim (Jatavallabhula, Macklin et al., ICLR 2021).
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradsim import control
    from gradsim.app import examples
    from gradsim.app.commands.demo import demo
    from gradsim.app.experiments import reproduce
    from gradsim.errors import InputError
    from gradsim.geometry.surface import Appearance, Surface
    from gradsim.identification import (
        Clip,
        Explanation,
        Field,
        FieldFit,
        Fit,
        Images,
        JointLog,
        Masks,
        MultipleShooting,
        MultistartConfig,
        MultiView,
        Points,
        Prior,
        Smooth,
        States,
        Unknown,
        Vertices,
        compare,
        explain_gradients,
        identify,
        identify_fields,
        identify_many,
        read_tracks,
    )
    from gradsim.identification.camera_calibration import camera_from_length
    from gradsim.physics import CustomForce, Divergence, Force, Model, Trajectory, gradients
    from gradsim.physics.smoke.solver import Smoke
    from gradsim.planning import next_video, plan
    from gradsim.render import Antialiased, Camera, DibR, Renderer, Shading, Silhouettes, SoftRas
    from gradsim.runtime.threads import set_threads
    from gradsim.scene import Scene
    from gradsim.visualization.animation import Animation

_HOME = {  # public name: where it lives; imported when first used, so that `import gradsim` is quick
    "CustomForce": "gradsim.physics",
    "Antialiased": "gradsim.render",
    "Camera": "gradsim.render",
    "Clip": "gradsim.identification",
    "DibR": "gradsim.render",
    "Divergence": "gradsim.physics",
    "Explanation": "gradsim.identification",
    "Field": "gradsim.identification",
    "FieldFit": "gradsim.identification",
    "Animation": "gradsim.visualization.animation",
    "Fit": "gradsim.identification",
    "Force": "gradsim.physics",
    "InputError": "gradsim.errors",
    "Appearance": "gradsim.geometry.surface",
    "Masks": "gradsim.identification",
    "Model": "gradsim.physics",
    "Images": "gradsim.identification",
    "JointLog": "gradsim.identification",
    "Points": "gradsim.identification",
    "Prior": "gradsim.identification",
    "read_tracks": "gradsim.identification",
    "Renderer": "gradsim.render",
    "Scene": "gradsim.scene",
    "MultistartConfig": "gradsim.identification",
    "Shading": "gradsim.render",
    "MultipleShooting": "gradsim.identification",
    "Silhouettes": "gradsim.render",
    "Smoke": "gradsim.physics.smoke.solver",
    "Smooth": "gradsim.identification",
    "SoftRas": "gradsim.render",
    "States": "gradsim.identification",
    "Surface": "gradsim.geometry.surface",
    "Trajectory": "gradsim.physics",
    "Unknown": "gradsim.identification",
    "Vertices": "gradsim.identification",
    "camera_from_length": "gradsim.identification.camera_calibration",
    "compare": "gradsim.identification",
    "demo": "gradsim.app.commands.demo",
    "MultiView": "gradsim.identification",
    "explain_gradients": "gradsim.identification",
    "gradients": "gradsim.physics",
    "identify": "gradsim.identification",
    "identify_fields": "gradsim.identification",
    "identify_many": "gradsim.identification",
    "next_video": "gradsim.planning",
    "plan": "gradsim.planning",
    "reproduce": "gradsim.app.experiments",
    "set_threads": "gradsim.runtime.threads",
}

_ROOMS = {"control": "gradsim.control", "examples": "gradsim.app.examples"}  # public modules

__all__ = [
    "Animation",
    "Antialiased",
    "Appearance",
    "Camera",
    "Clip",
    "CustomForce",
    "DibR",
    "Divergence",
    "Explanation",
    "Field",
    "FieldFit",
    "Fit",
    "Force",
    "Images",
    "InputError",
    "JointLog",
    "Masks",
    "Model",
    "MultiView",
    "MultipleShooting",
    "MultistartConfig",
    "Points",
    "Prior",
    "Renderer",
    "Scene",
    "Shading",
    "Silhouettes",
    "Smoke",
    "Smooth",
    "SoftRas",
    "States",
    "Surface",
    "Trajectory",
    "Unknown",
    "Vertices",
    "camera_from_length",
    "compare",
    "control",
    "demo",
    "examples",
    "explain_gradients",
    "gradients",
    "identify",
    "identify_fields",
    "identify_many",
    "next_video",
    "plan",
    "read_tracks",
    "reproduce",
    "set_threads",
]


def __getattr__(name: str):
    if name == "__version__":
        return importlib.import_module("gradsim.runtime.provenance").versions()["gradsim"]
    if name in _ROOMS:
        return importlib.import_module(_ROOMS[name])
    if name not in _HOME:
        raise AttributeError(f"module 'gradsim' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
