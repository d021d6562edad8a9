"""JSON schema of scene files (draft 2020-12), for editors that complete and check YAML.

A quantity is a number in the SI unit of its key (keyword `x-unit`), or text such as "45 deg". The schema knows keys, types
and ranges; which keys exclude one another, and whether files exist, is checked when a scene is loaded.
"""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from gradsim.scene.node import Node
from gradsim.scene.reference.docstring import meanings, summary
from gradsim.scene.scene import Scene


class _Generator(GenerateJsonSchema):
    """Generator that takes descriptions from docstrings, and adds the shorthands of files."""

    def model_schema(self, schema) -> dict[str, Any]:
        model: type[Node] = schema["cls"]
        content = super().model_schema(schema)
        properties = content.setdefault("properties", {})
        content.pop("title", None)
        content["description"] = summary(model)
        for key, text in meanings(model).items():
            properties[key]["description"] = text
        properties.update(model.shorthands(properties))
        return content

    def field_title_should_be_set(self, schema) -> bool:
        return False


def json_schema() -> dict[str, Any]:
    """JSON schema of scene files."""
    return {"$schema": _Generator.schema_dialect, "title": "gradsim scene", **model_schema(Scene)}


def model_schema(model: type[Node]) -> dict[str, Any]:
    """JSON schema of one part of a scene."""
    return model.model_json_schema(schema_generator=_Generator)
