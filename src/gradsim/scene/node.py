"""What all parts of a scene share: immutable, no unknown keys, and every mistake at once, said in our words."""

import difflib
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

MISTAKE = "mistake"  # type of the errors that are worded already
CONTAINERS = {"dict_type": "a mapping of names to what they are", "tuple_type": "a list", "string_type": "text"}

SHORT = reprlib.Repr()  # shows a few of the items of a long or deep value
SHORT.maxlevel, SHORT.maxstring = 4, 60
LONGEST = 150  # characters of a value that a message quotes

Place = tuple[int | str, ...]  # where a mistake is, from the top of the scene: ("bodies", "cube", "mass")


def mistake(text: str) -> PydanticCustomError:
    """A user's mistake, in words that stand after the name of its place."""
    return PydanticCustomError(MISTAKE, "{text}", {"text": text})


def shown(value: Any) -> str:
    """A value as a message quotes it, cut off where it is long."""
    text = SHORT.repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """The question whether a name near to this one was meant, as the end of a message; empty where none is near."""
    same = [k for k in known if k.lower() == str(name).lower()]
    near = same or difflib.get_close_matches(str(name), known, 1, 0.6)
    return f"; did you mean `{near[0]}`?" if near else ""


class Node(BaseModel):
    """A part of a scene."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True, populate_by_name=True
    )

    @classmethod
    def known_keys(cls) -> list[str]:
        """The keys it may have in a file."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    def prepare(cls, given: dict[str, Any]) -> dict[str, Any]:
        """The content in its long form; for shorthands."""
        return given

    @classmethod
    def faults(cls, given: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
        """Mistakes between keys, as place and words. `given` is not validated yet; keys without a value are left out."""
        return iter(())

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        """Mistakes between values, once each of them is valid by itself."""
        return iter(())

    @model_validator(mode="wrap")
    @classmethod
    def _collect(cls, given: Any, validate):
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            raise mistake(f"got {shown(given)}; expected a mapping with {_names(cls)}.")
        given = cls.prepare({key: value for key, value in given.items() if value is not None})
        mistakes = [(place, words) for place, words in cls.faults(given)]
        try:
            node = validate(given)
            mistakes += node.conflicts()
        except ValidationError as error:
            mistakes += [(e["loc"], cls._reword(e)) for e in error.errors(include_url=False)]
        if mistakes:
            details = [InitErrorDetails(type=mistake(words), loc=place, input=None) for place, words in mistakes]
            raise ValidationError.from_exception_data(cls.__name__, details)
        return node

    @classmethod
    def _reword(cls, error: Any) -> str:
        key = error["loc"][-1] if error["loc"] else ""
        match error["type"]:
            case "mistake":
                return error["msg"]
            case "extra_forbidden":
                return f"unknown key{did_you_mean(key, cls.known_keys()) or f'; expected {_names(cls)}.'}"
            case "invalid_key":
                return f"the key {shown(key)} is not text; put it in quotes."
            case "missing":
                return f"is missing; give {cls.model_fields[key].description}."
            case "literal_error":
                wanted = error["ctx"]["expected"]
                options = [w.strip("'") for w in wanted.replace(" or ", ", ").split(", ")]
                return f"got {shown(error['input'])}{did_you_mean(error['input'], options) or f'; expected {wanted}.'}"
            case kind if kind in CONTAINERS:
                single = kind == "tuple_type" and isinstance(error["input"], str)
                way = f", such as [{shown(error['input'])}]" if single else ""
                return f"got {shown(error['input'])}; expected {CONTAINERS[kind]}{way}."
            case _:
                return f"got {shown(error['input'])}; {error['msg'][0].lower()}{error['msg'][1:]}."


class ByKind:
    """Annotates a node whose class follows from its `kind`; `default` is the one of a node that states none."""

    def __init__(self, kinds: Mapping[str, type[Node]], default: str | None = None):
        self.kinds, self.default = kinds, default

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.with_info_plain_validator_function(self._read)

    def _read(self, given: Any, info: core_schema.ValidationInfo) -> Node:
        if isinstance(given, tuple(self.kinds.values())):
            return given
        kind = given.get("kind") if isinstance(given, Mapping) else None
        kind = kind or self.default
        if kind is None:
            raise mistake(f"got {shown(given)}; expected a mapping with `kind`: {' or '.join(self.kinds)}.")
        if not isinstance(kind, str) or kind not in self.kinds:
            hint = did_you_mean(kind, list(self.kinds)) or f"; expected {' or '.join(self.kinds)}."
            raise mistake(f"got kind {shown(kind)}{hint}")
        return self.kinds[kind].model_validate(given, context=info.context)


def exactly_one(given: Mapping[str, Any], keys: Sequence[str]) -> Iterator[tuple[Place, str]]:
    """The fault that not exactly one of these keys is given, if so."""
    present = [key for key in keys if key in given]
    if len(present) != 1:
        some = " and ".join(f"`{key}`" for key in present) if present else "none"
        yield (), f"got {some}; give exactly one of {', '.join(f'`{key}`' for key in keys)}."


def _names(cls: type[Node]) -> str:
    return ", ".join(f"`{key}`" for key in cls.known_keys())
