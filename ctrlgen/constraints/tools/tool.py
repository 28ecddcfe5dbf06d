"""Tools: a name and a schema of arguments, from lists in the manner of OpenAI, Python functions, Pydantic models."""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ctrlgen.constraints.json_schema import closed_schema, schema_of
from ctrlgen.constraints.tools.python_types import with_json_types
from ctrlgen.errors import InputError

LONGEST_NAME = 256


@dataclass(frozen=True)
class Tool:
    """A function that a model may call."""

    name: str
    text: str
    """The schema of its arguments, an object, as JSON."""
    description: str = ""
    source: Any = None
    """The Python function or Pydantic model it was made of."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The schema of its arguments, a new one each time."""
        found: dict[str, Any] = json.loads(self.text)
        return found

    @property
    def definition(self) -> dict[str, Any]:
        """The tool in the manner of OpenAI, for a prompt."""
        inner = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": inner}

    def validated(self, arguments: Any) -> dict[str, Any]:
        """The arguments as Python values, of the types that the function or model declares; else as they are.

        Raises:
            ValueError: a validator of the function's or model's types refuses them.
        """
        if self.source is None:
            return dict(arguments)
        model, names = _model_of(self.source)
        made = model.model_validate_json(json.dumps(arguments))
        given = made.model_fields_set
        return {name: getattr(made, field) for field, name in names.items() if field in given}


def tools_of(given: object, *, python_types: bool) -> tuple[Tool, ...]:
    """Tools from a list, or from one of its members.

    Raises:
        InputError: one is no tool, or two have the same name.
    """
    alone = isinstance(given, Mapping | type) or callable(given) or isinstance(given, Tool)
    if not alone and (isinstance(given, str) or not isinstance(given, Iterable)):
        raise InputError(f"tools must be a list of tools, not {given!r}")
    several = [given] if alone else list(given)  # type: ignore[call-overload]
    found = tuple(_tool(one, i, python_types) for i, one in enumerate(several))
    if not found:
        raise InputError("the list of tools is empty; pass at least one")
    names: dict[str, int] = {}
    for i, one in enumerate(found):
        if names.setdefault(one.name, i) != i:
            raise InputError(f"tools {names[one.name]} and {i} are both called {one.name!r}; names must differ")
    return found


def _tool(given: object, index: int, python_types: bool) -> Tool:
    if isinstance(given, Tool):
        return given
    if isinstance(given, Mapping):
        return _from_mapping(given, index, python_types)
    if callable(given):
        return _from_callable(given, index)
    raise InputError(
        f"tool {index} is {given!r}; expected a dictionary with name and parameters, a Python function with "
        "annotated parameters, or a Pydantic model"
    )


def _from_mapping(given: Mapping[Any, Any], index: int, python_types: bool) -> Tool:
    inner = given.get("function") if "function" in given else given
    if given.get("type", "function") != "function" or not isinstance(inner, Mapping):
        raise InputError(f'tool {index} has type {given.get("type")!r}; expected "function" with its description')
    name = _name(inner.get("name"), index)
    description = inner.get("description") or ""
    if not isinstance(description, str):
        raise InputError(f"tool {name!r}: description must be a string, not {description!r}")
    parameters = inner.get("parameters", inner.get("input_schema"))
    if parameters is None:
        parameters = {"type": "object", "properties": {}}
    if isinstance(parameters, Mapping) and python_types:
        parameters = with_json_types(dict(parameters))
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        raise InputError(
            f"tool {name!r}: parameters must be a schema of an object, not {parameters!r}"[:300]
            + '; where types are those of Python ("dict"), pass python_types=True'
        )
    try:
        schema = json.loads(json.dumps({**parameters, "type": "object"}))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"tool {name!r}: parameters are no JSON: {error}") from None
    return Tool(name, _text(schema), description)


def _from_callable(given: Any, index: int) -> Tool:
    if not hasattr(given, "__name__"):
        raise InputError(f"tool {index}, {given!r}, has no name; wrap it in a function: def name(...)")
    name = _name(given.__name__, index)
    model, _ = _model_of(given)
    schema = schema_of(model)
    documented = inspect.getdoc(given) or ""
    if not _is_model(given):
        _describe(schema, documented)
    return Tool(name, _text(schema), documented.split("\n\n")[0].strip(), given)


def _name(name: object, index: int) -> str:
    if not isinstance(name, str) or not name or len(name) > LONGEST_NAME:
        raise InputError(f"tool {index} is called {name!r}; expected a name of 1 to {LONGEST_NAME} characters")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(f"tool {index}: its name has a lone surrogate, which no valid text contains") from None
    return name


def _text(schema: Any) -> str:
    """Closed: a model must not make up arguments."""
    schema = closed_schema(schema)
    if "properties" not in schema and not any(key in schema for key in ("$ref", "allOf", "anyOf", "oneOf")):
        schema.setdefault("additionalProperties", False)
    schema.pop("title", None)
    return json.dumps(schema, ensure_ascii=False)


def _is_model(given: object) -> bool:
    from pydantic import BaseModel

    return isinstance(given, type) and issubclass(given, BaseModel)


@lru_cache(1024)
def _model_of(source: Any) -> tuple[Any, dict[str, str]]:
    """The Pydantic model of the arguments of a function, and the argument of each of its fields."""
    from pydantic import ConfigDict, Field, create_model

    if _is_model(source):
        return source, {field: field for field in source.model_fields}
    try:
        parameters = inspect.signature(source).parameters
        hints = typing.get_type_hints(source, include_extras=True)
    except (ValueError, TypeError, NameError) as error:
        raise InputError(f"the signature of {source!r} cannot be read: {error}") from error
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    for number, (name, one) in enumerate(parameters.items()):
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            raise InputError(f"{source.__name__} takes *{name}, which no schema can say; list its parameters")
        if name not in hints:
            raise InputError(f"parameter {name} of {source.__name__} has no type; annotate it: {name}: str")
        # names of their own, since a field may not be called as a method of models
        default = ... if one.default is one.empty else one.default
        fields[f"argument_{number}"] = (hints[name], Field(default, alias=name))
        names[f"argument_{number}"] = name
    return create_model("Arguments", __config__=ConfigDict(arbitrary_types_allowed=False), **fields), names


def _describe(schema: Any, documented: str) -> None:
    """Descriptions of parameters from a docstring: ``name: text`` or ``:param name: text``."""
    for name, one in schema.get("properties", {}).items():
        one.pop("title", None)
        found = re.search(rf"^\s*(?::param )?{re.escape(name)}(?: \([^)]*\))?:\s*(\S.*)$", documented, re.MULTILINE)
        if found and "description" not in one:
            one["description"] = found[1].strip()
