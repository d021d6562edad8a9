"""Libraries of the extra `data`."""

from types import ModuleType

from gradsim.runtime.optional import extra as optional


def extra(module: str) -> ModuleType:
    """A module of one of them by its dotted name.

    Raises:
        InputError: If it cannot be imported.
    """
    return optional(module, "files of a data set", "data")
