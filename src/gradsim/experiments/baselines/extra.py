"""Libraries of the extra `baselines`, imported when they are asked for."""

import importlib
from types import ModuleType

from gradsim.errors import InputError


def extra(module: str, what: str) -> ModuleType:
    """A module of an optional library.

    Args:
        module: Its dotted name.
        what: What needs it, for the message.

    Raises:
        InputError: If it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise InputError(f'{what} needs {name} ({error}): pip install "gradsim[baselines]".') from None
