"""YAML files of scenes: safe and strict, with all mistakes in one message, each with key and line.

Scalars are read as in YAML 1.2: `1e5` is a number, `on` and `1:30` are text. Duplicate keys are refused. Paths in a
scene (`FilePath`) are relative to the folder of the file.
"""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import yaml
from pydantic import ValidationError
from pydantic_core import core_schema

from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_write
from gradsim.runtime.input_file import TEXT_BYTES, regular_file
from gradsim.scene.node import Node, Place, did_you_mean, mistake, quote

S = TypeVar("S", bound=Node)

SCALARS = {  # YAML 1.2 core schema; everything else is text
    "null": (r"~|null|", "~n\0"),
    "bool": (r"true|false", "tf"),
    "int": (r"[-+]?[0-9]+", "-+0123456789"),
    "float": (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", "-+.0123456789"),
    "merge": (r"<<", "<"),
}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: ClassVar[dict] = {}


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers: ClassVar[dict] = {}

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _tag, (_pattern, _first) in SCALARS.items():
    for _kind in (_Loader, _Dumper):
        _firsts = ["" if c == "\0" else c for c in _first]
        _kind.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _firsts)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:value", re.compile(r"=\Z"), ["="])  # quoted, for readers of YAML 1.1
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
_Loader.add_constructor(
    "tag:yaml.org,2002:float", lambda loader, node: float(node.value.replace(".inf", "inf").replace(".nan", "nan"))
)


def _refuse_binary(loader: yaml.Loader, node: yaml.Node):
    raise yaml.constructor.ConstructorError(None, None, "`!!binary` is not allowed; write text", node.start_mark)


_Loader.add_constructor("tag:yaml.org,2002:binary", _refuse_binary)


def load(cls: type[S], path: Path, label: str = "scene") -> S:
    """Load a scene or another node from a file; `name` defaults to the name of the file."""
    root, content = _compose(_text(path, label), path, cls, label)
    if isinstance(content, dict):
        content.setdefault("name", path.stem)
    return parse(cls, content, str(path), path.parent, root)


def read(path: Path, label: str) -> Any:
    """Content of a YAML file that is not a node, by the same rules.

    Raises:
        InputError: If the file cannot be read, is empty or is not valid YAML.
    """
    return _compose(_text(path, label), path, Node, label)[1]


def _text(path: Path, label: str) -> str:
    try:
        return regular_file(path, f"{label} file", TEXT_BYTES).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise missing_file(path, label) from None
    except InputError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a {label} file: {error}; give a YAML file.") from error


def parse(cls: type[S], content: Any, source: str, folder: Path, root: yaml.Node | None = None) -> S:
    """Validate nested dictionaries as a scene; `root` is the YAML tree with the line numbers."""
    try:
        return cls.model_validate(content, context={"folder": folder})
    except ValidationError as error:
        short = isinstance(content, Mapping) and "ground" in content
        mistakes = []
        for details in error.errors(include_url=False):
            place = details["loc"]
            if short and place[:2] == ("grounds", "ground"):
                place = place[1:]
            line = f" (line {_line(root, place)})" if root else ""
            mistakes.append(f"{'.'.join(map(str, place)) or source}{line}: {details['msg']}")
        raise InputError(_list_mistakes(source, mistakes)) from None


def save(scene: Node, path: Path) -> None:
    """Write a scene atomically."""
    text = as_text(scene, path.absolute().parent)
    if not path.absolute().parent.is_dir():
        raise InputError(f"the folder {path.absolute().parent} for {path.name} does not exist; create it first.")
    with atomic_write(path, "w") as file:
        file.write(text)


def as_text(scene: Node, folder: Path = Path(), brief: bool = False) -> str:
    """Text of a scene's file in some folder, from which it names other files; `brief`: without what was not stated."""
    content = _plain(scene.model_dump(by_alias=True, exclude_none=True, exclude_unset=brief), folder.absolute())
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def library(name: str) -> Path:
    """Path of a scene of gradsim's library."""
    known = {path.stem: path for path in library_files()}
    if name not in known:
        hint = did_you_mean(name, list(known)) or f"; choose one of {', '.join(sorted(known))}."
        raise InputError(f"the library has no scene `{name}`{hint}")
    return known[name]


def library_files() -> list[Path]:
    """Scene files of gradsim's library, sorted by name."""
    return sorted(Path(str(resources.files("gradsim.scene"))).glob("library/*.yaml"))


def _compose(text: str, path: Path, cls: type[Node], label: str) -> tuple[yaml.Node, Any]:
    """YAML tree of a text, with line numbers, and its content."""
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        # before construction, which inserts the keys merged by `<<` into the tree
        duplicates = [
            f"line {key.start_mark.line + 1}: the key `{key.value}` appears twice; remove one of them."
            for key in _duplicate_keys(root)
        ]
        content = loader.construct_document(root) if root else None
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not valid YAML: {_explain(error)}") from None
    except RecursionError:
        raise InputError(f"{path} is nested too deeply for a {label}; check its indentation and brackets.") from None
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"{path} is not valid YAML: {error}.") from None
    if root is None:
        required = " and ".join(f"`{name}`" for name, field in cls.model_fields.items() if field.is_required())
        raise InputError(f"{path} is empty; a {label} needs at least {required or 'one entry'}.")
    if duplicates:
        raise InputError(_list_mistakes(str(path), duplicates))
    return root, content


def missing_file(path: Path, label: str) -> InputError:
    """The error for a YAML file that does not exist."""
    return InputError(f"the {label} file {path} does not exist{_suggest_file(path, label)}")


def _suggest_file(path: Path, label: str) -> str:
    if label == "scene" and path.stem in {p.stem for p in library_files()}:
        return f'; the scene of gradsim\'s library is Scene.library("{path.stem}").'
    near = _similar_files(path)
    return f"; did you mean {path.with_name(near[0])}?" if near else "; give the path of a YAML file."


def _similar_files(path: Path) -> list[str]:
    siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    return difflib.get_close_matches(path.name, siblings, 1)


def _list_mistakes(source: str, mistakes: list[str]) -> str:
    count = f"{len(mistakes)} mistakes" if len(mistakes) > 1 else "a mistake"
    return "\n".join([f"{source} has {count}:", *(f"  {m}" for m in mistakes)])


def _explain(error: yaml.YAMLError) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{where}{problem or error}."


def _duplicate_keys(root: yaml.Node | None) -> Iterator[yaml.Node]:
    """Keys that appear more than once in one mapping."""
    visited, stack = set(), [root]
    while stack:
        node = stack.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.MappingNode):
            keys = set()
            for key, value in node.value:
                stack.append(value)
                if isinstance(key, yaml.ScalarNode):  # other keys are refused later
                    if key.value in keys:
                        yield key
                    keys.add(key.value)
        elif isinstance(node, yaml.SequenceNode):
            stack += node.value


def _line(node: yaml.Node, place: Place) -> int:
    """Line of a key, or of its closest parent in the file."""
    line = node.start_mark.line + 1
    for step in place:
        if isinstance(node, yaml.MappingNode):
            matches = [(key, value) for key, value in node.value if key.value == step]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            matches = [(node.value[step], node.value[step])]
        else:
            matches = []
        if not matches:
            break
        key, node = matches[-1]  # an explicit key comes after a merged one
        line = key.start_mark.line + 1
    return line


def _plain(value: Any, folder: Path) -> Any:
    """Convert tuples to lists and paths to relative text."""
    if isinstance(value, dict):
        return {key: _plain(v, folder) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v, folder) for v in value]
    if isinstance(value, Path):
        try:
            return Path(os.path.relpath(value, folder)).as_posix()
        except ValueError:  # another drive
            return value.as_posix()
    return value


@dataclass(frozen=True)
class FilePath:
    """Annotate a path relative to the folder of the scene file.

    Attributes:
        label: Noun for messages, such as "a mesh file".
        formats: Allowed suffixes.
    """

    label: str
    formats: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.with_info_plain_validator_function(self._find)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}

    def _find(self, raw: Any, info: core_schema.ValidationInfo) -> Path:
        if not isinstance(raw, str | Path) or not str(raw):
            raise mistake(f"got {quote(raw)}; expected the path of {self.label}.")
        path = Path((info.context or {}).get("folder", "."), raw).resolve()
        if path.suffix.lower() not in self.formats:
            raise mistake(f"got {raw}; expected a file that ends in {', '.join(self.formats)}.")
        if not path.is_file():
            near = _similar_files(path)
            hint = f"did you mean {Path(raw).with_name(near[0])}?" if near else "paths are relative to the scene file."
            raise mistake(f"the file {path} does not exist; {hint}")
        return path
