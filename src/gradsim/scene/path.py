"""Paths of files that a scene names."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import core_schema

from gradsim.scene.node import mistake, shown


@dataclass(frozen=True)
class FilePath:
    """Annotates a path that is relative to the folder of the scene file.

    Attributes:
        what: What the file is, as "a mesh file".
        formats: How its name may end.
    """

    what: str
    formats: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.with_info_plain_validator_function(self._find)

    def _find(self, given: Any, info: core_schema.ValidationInfo) -> Path:
        if not isinstance(given, str | Path) or not str(given):
            raise mistake(f"got {shown(given)}; expected the path of {self.what}.")
        path = Path((info.context or {}).get("folder", "."), given).resolve()
        if path.suffix.lower() not in self.formats:
            raise mistake(f"got {given}; expected a file that ends in {', '.join(self.formats)}.")
        if not path.is_file():
            beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
            near = difflib.get_close_matches(path.name, beside, 1)
            raise mistake(
                f"there is no file {path}"
                f"{f'; did you mean {Path(given).with_name(near[0])}?' if near else '; the path counts from the scene file.'}"
            )
        return path
