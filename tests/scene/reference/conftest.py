"""A validator of the JSON schema of scene files, made once: to check the schema itself takes a second."""

import jsonschema
import pytest

from gradsim.scene.reference.schema import json_schema


@pytest.fixture(scope="session")
def validator():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)
