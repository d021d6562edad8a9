"""The error a user can mend."""


class InputError(ValueError):
    """Something the user gave is wrong: the message says what came, what was expected, and the way out.

    The command line turns it into exit code 2.
    """
