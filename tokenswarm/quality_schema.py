"""The form that an answer is to have: a JSON schema, read once, checked against any value. Nothing is fetched for it."""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.error import URLError

REMOTE = ("http", "https", "ftp", "file")
# What fastjsonschema raises where a schema is none, or asks for what only a wrong schema asks for.
_WRONG = (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError, re.error, URLError)


class SchemaError(ValueError):
    """It is no schema; the text is for a person."""


def checker(schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    """Whether a value is of the form. Raises SchemaError where `schema` is none, or rests on one that is elsewhere."""
    import fastjsonschema  # late: only a quality set with a schema needs it

    try:
        check = fastjsonschema.compile(dict(schema), handlers=dict.fromkeys(REMOTE, _not_fetched))
    except (fastjsonschema.JsonSchemaException, *_WRONG) as error:
        raise SchemaError(str(error) or type(error).__name__) from None

    def is_of_form(value: Any) -> bool:
        try:
            check(value)
        except (fastjsonschema.JsonSchemaException, RecursionError):
            return False
        return True

    return is_of_form


def _not_fetched(uri: str) -> Any:
    raise SchemaError(f"{uri} is elsewhere; write that part into this schema")
