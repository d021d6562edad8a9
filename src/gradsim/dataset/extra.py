"""Libraries of the extra `data`, imported when they are asked for."""

import importlib
from types import ModuleType

from gradsim.errors import InputError


def extra(module: str) -> ModuleType:
    """A module of an optional library by its dotted name.

    Raises:
        InputError: If it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f'files of a data set need {module.partition(".")[0]} ({error}): pip install "gradsim[data]".'
        ) from None
