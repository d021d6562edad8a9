"""Optional libraries, imported when they are asked for."""

import importlib
from types import ModuleType

from gradsim.errors import InputError


def extra(module: str, what: str, name: str) -> ModuleType:
    """A module of an optional library.

    Args:
        module: Its dotted name.
        what: What needs it, for the message.
        name: The extra that brings it.

    Raises:
        InputError: If it cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise InputError(f'{what} needs {library} ({error}): pip install "gradsim[{name}]".') from None
