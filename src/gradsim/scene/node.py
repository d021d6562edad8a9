"""Base class of scene parts: immutable, no unknown keys, all mistakes in one readable message."""

import difflib
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

MISTAKE = "mistake"  # type of errors whose message is final
CONTAINERS = {"dict_type": "a mapping of names to values", "tuple_type": "a list", "string_type": "text"}

SHORT_REPR = reprlib.Repr()  # abbreviates long or deep values
SHORT_REPR.maxlevel, SHORT_REPR.maxstring = 4, 60
MAX_CHARACTERS = 150  # characters of a quoted value

Place = tuple[int | str, ...]  # path of a mistake from the top of the scene: ("bodies", "cube", "mass")


def mistake(text: str) -> PydanticCustomError:
    """Error about a user's input; the message follows the path of the key."""
    return PydanticCustomError(MISTAKE, "{text}", {"text": text})


def quote(value: Any) -> str:
    """Quote a value in a message, abbreviated if long."""
    text = SHORT_REPR.repr(value)
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """End of a message that suggests the closest known name; empty if none is close."""
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
        """Allowed keys in a file."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    def prepare(cls, raw: dict[str, Any]) -> dict[str, Any]:
        """Expand shorthands in the content."""
        return raw

    @classmethod
    def shorthands(cls, properties: Mapping[str, Any]) -> dict[str, Any]:
        """JSON schemas of the keys that `prepare` accepts; `properties` are those of the fields."""
        return {}

    @classmethod
    def faults(cls, raw: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
        """Mistakes in the combination of keys, as path and message, before validation; keys of value None are absent."""
        return iter(())

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        """Mistakes between valid values, as path and message."""
        return iter(())

    @model_validator(mode="wrap")
    @classmethod
    def _collect(cls, raw: Any, validate):
        if isinstance(raw, cls):
            return raw
        if not isinstance(raw, Mapping):
            raise mistake(f"got {quote(raw)}; expected a mapping with {_names(cls)}.")
        raw = cls.prepare({key: value for key, value in raw.items() if value is not None})
        mistakes = [(place, words) for place, words in cls.faults(raw)]
        try:
            node = validate(raw)
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
                return f"the key {quote(key)} is not text; put it in quotes."
            case "missing":
                return f"is missing; give {cls.model_fields[key].description}."
            case "literal_error":
                expected = error["ctx"]["expected"]
                options = [w.strip("'") for w in expected.replace(" or ", ", ").split(", ")]
                return (
                    f"got {quote(error['input'])}{did_you_mean(error['input'], options) or f'; expected {expected}.'}"
                )
            case kind if kind in CONTAINERS:
                single = kind == "tuple_type" and isinstance(error["input"], str)
                example = f", such as [{quote(error['input'])}]" if single else ""
                return f"got {quote(error['input'])}; expected {CONTAINERS[kind]}{example}."
            case _:
                return f"got {quote(error['input'])}; {error['msg'][0].lower()}{error['msg'][1:]}."


class ByKind:
    """Annotate a node whose class follows from its `kind`; `default` is the kind of a node without one."""

    def __init__(self, kinds: Mapping[str, type[Node]], default: str | None = None):
        self.kinds, self.default = kinds, default

    def __get_pydantic_core_schema__(self, source, handler):
        return core_schema.with_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        branches = []
        for kind, node in self.kinds.items():
            is_kind: dict[str, Any] = {"properties": {"kind": {"const": kind}}}
            if kind != self.default:
                is_kind["required"] = ["kind"]
            branches.append({"if": is_kind, "then": handler(node.__pydantic_core_schema__)})
        schema = {"type": "object", "properties": {"kind": {"enum": list(self.kinds)}}, "allOf": branches}
        return schema if self.default else {**schema, "required": ["kind"]}

    def _read(self, raw: Any, info: core_schema.ValidationInfo) -> Node:
        if isinstance(raw, tuple(self.kinds.values())):
            return raw
        kind = raw.get("kind") if isinstance(raw, Mapping) else None
        kind = kind or self.default
        if kind is None:
            raise mistake(f"got {quote(raw)}; expected a mapping with `kind`: {' or '.join(self.kinds)}.")
        if not isinstance(kind, str) or kind not in self.kinds:
            hint = did_you_mean(kind, list(self.kinds)) or f"; expected {' or '.join(self.kinds)}."
            raise mistake(f"got kind {quote(kind)}{hint}")
        return self.kinds[kind].model_validate(raw, context=info.context)


def exactly_one(raw: Mapping[str, Any], keys: Sequence[str]) -> Iterator[tuple[Place, str]]:
    """Report unless exactly one of the keys is given."""
    present = [key for key in keys if key in raw]
    if len(present) != 1:
        names = " and ".join(f"`{key}`" for key in present) if present else "none"
        yield (), f"got {names}; give exactly one of {', '.join(f'`{key}`' for key in keys)}."


def _names(cls: type[Node]) -> str:
    return ", ".join(f"`{key}`" for key in cls.known_keys())
