"""User errors, and the status words of results with their exit codes."""

from enum import StrEnum


class InputError(ValueError):
    """Invalid input: the message names the value, the expected one, and what to change.

    The command line turns it into exit code 2.
    """


class Status(StrEnum):
    """Status of a run, stored in `result.json` as its word.

    Attributes:
        message: Meaning for the results.
        exit_code: Exit code of the command line; 2 is that of `InputError`.
    """

    message: str
    exit_code: int

    def __new__(cls, word: str, exit_code: int, message: str):
        member = str.__new__(cls, word)
        member._value_, member.exit_code, member.message = word, exit_code, message
        return member

    OK = (
        "ok",
        0,
        "The data bound every unknown to better than 10 %, and the model explains them to within the noise.",
    )
    UNIDENTIFIABLE = (
        "unidentifiable",
        3,
        "The data do not determine at least one direction; the values of the unknowns along it are arbitrary.",
    )
    UNCONVERGED = (
        "unconverged",
        3,
        "Independent searches ended in different minima, so values outside of the intervals may explain the data better.",
    )
    APPROXIMATE = (
        "approximate",
        3,
        "The model misses something, and a cause that was tested explains it: the intervals hold the numbers with it and without it.",
    )
    PARTIAL = "partial", 3, "Some directions of a field are bounded no better than to 1 %."
    MISMATCH = (
        "mismatch",
        3,
        "The residuals are far above the noise, are not noise, or a prior is contradicted: neither values nor error bars can be trusted.",
    )
    MISSED = "missed", 3, "The controls found do not reach the goal."
    INTERRUPTED = (
        "interrupted",
        130,
        "The values are those of the best start on the frames used so far; they are not final and have no error bars.",
    )
    FAILED = "failed", 1, "The search ended without a solution; the values below are those of its last iteration."


UNTRUSTED = (Status.MISMATCH, Status.FAILED)  # values without error bars that hold
