"""Meanings of keys, from the `Attributes:` of the docstrings of their models."""

import inspect
import re

from gradsim.scene.node import Node

_ENTRY = re.compile(r" {4}(\w+(?:, \w+)*): (.*)")
_ALTERNATIVE = ", or"  # end of an entry whose alternative is the next one


def summary(model: type[Node]) -> str:
    """First paragraph of a docstring, in one line."""
    return paragraphs(model)[0]


def paragraphs(model: type[Node]) -> list[str]:
    """Paragraphs of a docstring before `Attributes:`; indented ones keep their lines."""
    text = inspect.cleandoc(model.__doc__ or "").partition("\nAttributes:\n")[0]
    return [part if part.startswith(" ") else " ".join(part.split()) for part in text.strip().split("\n\n")]


def meanings(model: type[Node]) -> dict[str, str]:
    """Meaning of each key: from the class, else from its bases, else the description of the field."""
    known = {key: field.description for key, field in model.model_fields.items() if field.description}
    texts = {key: f"{text[:1].upper()}{text[1:].removesuffix('.')}." for key, text in known.items()}
    for base in reversed(model.__mro__):
        if issubclass(base, Node):
            texts.update(_attributes(base.__dict__.get("__doc__") or ""))
    return {field.alias or key: texts[key] for key, field in model.model_fields.items() if key in texts}


def _attributes(text: str) -> dict[str, str]:
    """Entries below `Attributes:`, by key; several keys may share one entry."""
    entries: list[tuple[list[str], str]] = []
    for line in inspect.cleandoc(text).partition("\nAttributes:\n")[2].splitlines():
        if match := _ENTRY.fullmatch(line):
            entries.append((match[1].split(", "), match[2]))
        elif line.startswith(" " * 8) and entries:
            keys, begin = entries[-1]
            entries[-1] = keys, f"{begin} {line.strip()}"
        else:
            break
    keys = [keys for keys, _ in entries]
    neighbors = zip(entries, [[], *keys], [*keys, []][1:], strict=False)
    texts: dict[str, str] = {}
    open_before = False  # the entry before ends with ", or"
    for (names, entry), previous, following in neighbors:
        begin = f"Instead of {_list(previous)}: " if open_before else ""
        open_before = entry.endswith(_ALTERNATIVE)
        end = f"; or give {_list(following)}." if open_before else ""
        texts.update(dict.fromkeys(names, begin + entry.removesuffix(_ALTERNATIVE) + end))
    return texts


def _list(keys: list[str]) -> str:
    words = [f"`{key}`" for key in keys]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
