"""Scenes whose bodies another engine moves: MuJoCo, or a function of the user."""

from gradsim.identification.engines.model import Engine, EngineModel, Motion
from gradsim.identification.engines.registry import engine_named, register_engine

__all__ = ["Engine", "EngineModel", "Motion", "engine_named", "register_engine"]
