"""What the user says: bodies, grounds, camera and timing, as data; YAML in and out."""

from gradsim.scene.parameters import Parameter, parameters, resolve
from gradsim.scene.scene import Scene

__all__ = ["Parameter", "Scene", "parameters", "resolve"]
