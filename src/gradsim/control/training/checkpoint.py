"""How far a search came, in one file that is there whole or not at all; what goes on from it ends in the same bits."""

from pathlib import Path
from typing import Any

import torch

from gradsim.control.training.history import History
from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_path

SCHEMA = "gradsim.control/1"
WAY = "remove it to begin anew, or choose another file."


class Checkpoint:
    """A file that remembers a search.

    Args:
        path: Of the file.
        job: What determines the answer, such as a digest of a task and its seed: another job is refused.
        every: Iterations between two writes.
    """

    def __init__(self, path: str | Path, job: str = "", every: int = 1):
        self.path, self.job, self.every = Path(path), job, every

    def load(self, own: str) -> dict[str, Any] | None:
        """What was saved last; None if nothing was.

        Args:
            own: What the search itself says it is.

        Raises:
            InputError: If the file is none of ours, or of another job or search.
        """
        content = self._read()
        if content is None:
            return None
        if content["search"] != own:
            raise InputError(
                f"{self.path} is the checkpoint of another search: it has {content['search']}, this is {own}; {WAY}"
            )
        return content["state"]

    def history(self) -> History:
        """What was saved last of the search's history; empty if nothing was.

        Raises:
            InputError: If the file is none of ours, or of another job.
        """
        content = self._read()
        if content is None:
            return History()
        found = History.parse(content["state"]["history"])
        found.policies = dict(content["state"]["policies"])
        return found

    def save(self, own: str, state: dict[str, Any]) -> None:
        """Replace it, at once and whole; tensors, numbers, text, lists and dictionaries."""
        with atomic_path(self.path) as draft:
            torch.save({"schema": SCHEMA, "job": self.job, "search": own, "state": state}, draft)

    def _read(self) -> dict[str, Any] | None:
        if not self.path.is_file():
            return None
        try:
            content = torch.load(self.path, weights_only=True)
            schema = content["schema"]
        except Exception as error:  # torch raises what pickles, zip files and their contents happen to raise
            raise InputError(f"{self.path} is no checkpoint of a search; {WAY}") from error
        if schema != SCHEMA:
            raise InputError(f"{self.path} has the schema {schema!r}, expected {SCHEMA!r}; {WAY}")
        if content["job"] != self.job:
            raise InputError(f"{self.path} is the checkpoint of another job; {WAY}")
        return content
