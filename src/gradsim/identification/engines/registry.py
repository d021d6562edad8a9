"""Engines by name."""

from collections.abc import Callable

from gradsim.errors import InputError
from gradsim.identification.engines.model import Engine
from gradsim.identification.estimators import LEAST_SQUARES, Estimator, name_of

OURS = "gradsim"
_ENGINES: dict[str, Callable[[], Engine]] = {}


def register_engine(name: str, make: Callable[[], Engine]) -> None:
    """Add an engine for `identify(engine=NAME)` and `gradsim fit --engine NAME`.

    Args:
        name: Name.
        make: Makes it; called once for each fit.

    Raises:
        InputError: If the name is taken.
    """
    if name in (OURS, *_ENGINES):
        raise InputError(f"there is an engine {name!r} already; choose another name.")
    _ENGINES[name] = make


def engine_named(engine: str | Engine) -> Engine | None:
    """The engine of this name, or itself; None for gradsim.

    Raises:
        InputError: If there is none of that name, or its package is not installed.
    """
    if not isinstance(engine, str):
        return engine
    if engine == OURS:
        return None
    if engine not in _ENGINES:
        raise InputError(f"got the engine {engine!r}; choose one of {', '.join([OURS, *_ENGINES])}.")
    return _ENGINES[engine]()


def chosen_engine(engine: str | Engine, estimator: str | Estimator, observe: str) -> Engine | None:
    """The engine of a fit; None for gradsim.

    Args:
        engine: Name, or an engine.
        estimator: Search for the lowest cost.
        observe: What is compared.

    Raises:
        InputError: As `engine_named`, and if the estimator needs gradients of adjoints, or colors are compared.
    """
    mover = engine_named(engine)
    if mover is not None and (observe == "pictures" or name_of(estimator) != LEAST_SQUARES):
        raise InputError(
            "another engine gives poses, and derivatives by differences: fit outlines by least squares, or choose the engine gradsim."
        )
    return mover


def _mujoco() -> Engine:
    from gradsim.identification.engines.mujoco import MuJoCo

    return MuJoCo()


register_engine("mujoco", _mujoco)
