"""Imports of optional libraries."""

import importlib
from types import ModuleType

from gradsim.errors import InputError


def require_extra(module: str, label: str, extra: str) -> ModuleType:
    """Import a module of an optional library.

    Args:
        module: Dotted name.
        label: What needs it, for the message.
        extra: Extra of gradsim that installs it.

    Raises:
        InputError: If it cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise InputError(f'{label} needs {library} ({error}): pip install "gradsim[{extra}]".') from None
