"""Tools in the words of models' APIs: definitions, tool calls and their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from . import decode
from .errors import ArgumentsError

#: The depth at which a schema that refers to itself is cut.
_MAX_DEPTH = 12

#: Keywords that some APIs refuse, and that tell a model nothing.
_DROPPED = (
    "$schema",
    "$id",
    "$defs",
    "$comment",
    "definitions",
    "title",
    "format",
    "default",
    "examples",
)

Schema = dict[str, Any]

#: The API whose words a tool call has: OpenAI's chat completions or responses, or Anthropic's.
Api = Literal["chat", "responses", "anthropic"]


def describe(tool: Mapping[str, Any], format: str) -> dict[str, Any]:
    """Returns the definition of a tool as an API wants it."""
    name = decode.member(tool, "name", str)
    description = decode.member(tool, "description", str)
    schema = plain_schema(decode.member(tool, "schema", dict))
    if format == "openai":
        function = {"name": name, "description": description, "parameters": schema}
        return {"type": "function", "function": function}
    if format == "anthropic":
        return {"name": name, "description": description, "input_schema": schema}
    if format == "mcp":
        return {"name": name, "description": description, "inputSchema": schema}
    raise ArgumentsError(f"the formats are openai, anthropic and mcp, not {format!r}")


@dataclass(frozen=True)
class ModelCall:
    """A call that a model asks for."""

    id: str
    name: str
    arguments: dict[str, Any]
    api: Api
    #: What is wrong with the request, in words for the model.
    problem: str | None = None

    def answer(self, text: str, *, is_error: bool) -> dict[str, Any]:
        """Returns the message that answers the call."""
        if self.api == "chat":
            return {"role": "tool", "tool_call_id": self.id, "content": text}
        if self.api == "responses":
            return {"type": "function_call_output", "call_id": self.id, "output": text}
        answer: dict[str, Any] = {"type": "tool_result", "tool_use_id": self.id, "content": text}
        return {**answer, "is_error": True} if is_error else answer


def parse(tool_call: Any) -> ModelCall:
    """Reads a tool call of the OpenAI APIs or a `tool_use` block of the Anthropic API."""
    is_response = _field(tool_call, "type") == "function_call"
    # An item of a response has an id of its own, too, which answers do not name.
    ids = [_field(tool_call, key) for key in ("id", "call_id")]
    number = str(next(filter(None, reversed(ids) if is_response else ids), ""))
    function = _field(tool_call, "function")
    if function is None and _field(tool_call, "input") is not None:
        arguments = _field(tool_call, "input")
        return _checked(number, _field(tool_call, "name"), arguments, "anthropic")
    # The Responses API has name and arguments in the item itself.
    source = tool_call if function is None else function
    name, text = _field(source, "name"), _field(source, "arguments")
    api: Api = "responses" if is_response else "chat"
    try:
        arguments = json.loads(text or "{}") if isinstance(text, (str, type(None))) else text
    except ValueError as error:
        return ModelCall(number, str(name), {}, api, f"the arguments are not JSON: {error}")
    return _checked(number, name, arguments, api)


def _checked(number: str, name: Any, arguments: Any, api: Api) -> ModelCall:
    if not isinstance(name, str):
        raise ArgumentsError("this is neither an OpenAI tool call nor an Anthropic tool_use block")
    if not isinstance(arguments, dict):
        told = f"the arguments of {name} must be a JSON object"
        return ModelCall(number, name, {}, api, told)
    return ModelCall(number, name, arguments, api)


def _field(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)


def plain_schema(schema: Schema) -> Schema:
    """Returns a schema that means the same to a model and uses only what every API accepts.

    There are no references and no lists of types; `properties` is always there; default values
    and the meanings of an enumeration's values are in the description.
    """
    definitions: Schema = {}
    for key in ("definitions", "$defs"):
        definitions |= schema.get(key) or {}
    top = _plain(schema, definitions, 0)
    top["type"] = "object"
    top.setdefault("properties", {})
    top.pop("description", None)
    return top


def _plain(schema: Any, definitions: Schema, depth: int) -> Schema:
    if not isinstance(schema, dict):
        return {}
    found = _referred(schema, definitions, depth)
    _flatten_alternatives(found, definitions)
    description = _description(found)
    for keyword in _DROPPED:
        found.pop(keyword, None)
    if description:
        found["description"] = description
    if "const" in found:
        found["enum"] = [found.pop("const")]
    _single_type(found)
    if depth < _MAX_DEPTH:
        _below(found, definitions, depth + 1)
    else:
        found = {key: found[key] for key in ("type", "description", "enum") if key in found}
    if found.get("type") == "object":
        found.setdefault("properties", {})
    return found


def _below(found: Schema, definitions: Schema, depth: int) -> None:
    properties = found.get("properties")
    if isinstance(properties, dict):
        found["properties"] = {
            key: _plain(one, definitions, depth) for key, one in properties.items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _plain(found[key], definitions, depth)
    for key in ("anyOf", "allOf", "prefixItems"):
        if isinstance(found.get(key), list):
            found[key] = [_plain(one, definitions, depth) for one in found[key]]


def _referred(schema: Schema, definitions: Schema, depth: int) -> Schema:
    """Replaces a reference by what it refers to. What stands beside the reference wins."""
    found = dict(schema)
    for _ in range(depth, _MAX_DEPTH):
        if "$ref" not in found:
            break
        name = str(found.pop("$ref")).rsplit("/", 1)[-1]
        target = definitions.get(name)
        found = {**(target if isinstance(target, dict) else {}), **found}
    found.pop("$ref", None)
    return found


def _flatten_alternatives(found: Schema, definitions: Schema) -> None:
    for key in ("oneOf", "anyOf"):
        alternatives = found.pop(key, None)
        if not isinstance(alternatives, list):
            continue
        left = [
            _referred(one, definitions, 0)
            for one in alternatives
            if isinstance(one, dict) and one.get("type") != "null"
        ]
        if len(left) == 1:
            for name, value in left[0].items():
                found.setdefault(name, value)
            return _flatten_alternatives(found, definitions)
        if left and all("const" in one for one in left):
            meanings = [
                f"{_shown(one['const'])}: {one['description']}"
                for one in left
                if isinstance(one.get("description"), str)
            ]
            found["description"] = " ".join([found.get("description", ""), *meanings])
            if all(isinstance(one["const"], str) for one in left):
                found["type"] = "string"
            found["enum"] = [one["const"] for one in left]
        elif left:
            found["anyOf"] = left


def _description(found: Schema) -> str:
    said = found.get("description")
    text = " ".join(said.split()) if isinstance(said, str) else ""
    if found.get("default") is not None:
        text += f" Default: {_shown(found['default'])}."
    return text.strip()


def _shown(value: Any) -> str:
    return f"`{value}`" if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _single_type(found: Schema) -> None:
    types = found.get("type")
    if not isinstance(types, list):
        return
    left = [kind for kind in types if kind != "null"]
    if len(left) == 1:
        found["type"] = left[0]
        return
    del found["type"]
    found["anyOf"] = [{"type": kind} for kind in left]
