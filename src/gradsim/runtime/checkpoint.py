"""How far a job came, on disk.

Each save of a part is a file of its own, `search.000007.json`: a line with the digest of the rest, then the state. It is
written beside, synced and renamed, and the one before it stays; so a process may be killed at any moment, and a file
that a crash of the machine tore counts as not there. States are JSON, with tensors as the bytes they are: floats come
back to the last bit, and reading runs nothing.
"""

import base64
import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import torch

from gradsim.runtime.atomic import atomic_write

SCHEMA = "gradsim.checkpoint/1"
GENERATIONS = 2  # files of a part that stay: the newest, and the one that counts if it is torn


class Checkpoint:
    """A `CheckpointStore` in a folder.

    Args:
        folder: Made at the first save.
        job: Digest of what determines the answer; what another job saved is not loaded.
    """

    def __init__(self, folder: str | Path, job: str = ""):
        self.folder, self.job = Path(folder), job

    def load(self, part: str) -> dict | None:
        """The newest state of this name that is whole; None if there is none."""
        for path in reversed(self._files(part)):
            head, _, body = path.read_bytes().partition(b"\n")
            if head == self._head(body):
                return json.loads(body, object_hook=_tensor)
        return None

    def save(self, part: str, state: dict) -> None:
        """Add a state of this name, whole or not at all."""
        kept = self._files(part)
        number = 1 + (_number(kept[-1]) if kept else 0)
        body = json.dumps(state, default=_bytes).encode()
        path = self.folder / f"{part}.{number:06d}.json"
        with atomic_write(path, fsync=True) as file:
            file.write(self._head(body) + b"\n" + body)
        for old in kept[: 1 - GENERATIONS]:
            old.unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget everything, with the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _head(self, body: bytes) -> bytes:
        digest = hashlib.sha256(body).hexdigest()
        return json.dumps({"schema": SCHEMA, "job": self.job, "sha256": digest}).encode()

    def _files(self, part: str) -> list[Path]:
        """Files of a part, oldest first."""
        return sorted((p for p in self.folder.glob(f"{part}.*.json") if _number(p)), key=_number)


def _number(path: Path) -> int:
    found = re.fullmatch(r".+\.(\d{6,})\.json", path.name)
    return int(found[1]) if found else 0


def _bytes(value: object) -> dict:
    """JSON for what JSON lacks."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"a state holds tensors, numbers, text, lists and dictionaries, not a {type(value).__name__}.")
    array = value.detach().cpu().numpy()
    return {"~tensor": base64.b64encode(array.tobytes()).decode(), "dtype": str(array.dtype), "shape": array.shape}


def _tensor(content: dict):
    if "~tensor" not in content:
        return content
    flat = np.frombuffer(base64.b64decode(content["~tensor"]), content["dtype"])
    return torch.tensor(flat.reshape(content["shape"]))
